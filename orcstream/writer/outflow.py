"""Finished stripes on their way to the sink, while the next one is encoded.

Knows pieces of bytes and a function that writes one. Must not know stripes. The pieces are written by a task
of its own, one after the other, and let go as they are written; a failure is told to whoever waits next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from orcstream.errors import UsageError
from orcstream.io.loop.tasks import Signal
from orcstream.io.loop.uncancelled import end_task

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Outflow:
    """`left_bytes` are those that are being written and not written yet. For one task at a time."""

    def __init__(self, write: Callable[[memoryview], Awaitable[None]]) -> None:
        self._write_piece = write
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._progress = Signal()
        self.left_bytes = 0
        self._next_bytes = 0

    @property
    def held_bytes(self) -> int:
        """All that was handed over and not written yet."""
        return self.left_bytes + self._next_bytes

    async def start(self, pieces: Iterator[Buffer], size: int) -> None:
        """Write pieces of `size` bytes in all, once those before them are written."""
        self._next_bytes = size
        try:
            await self.wait()
        finally:
            self._next_bytes = 0
        self.left_bytes = size
        self._task = asyncio.create_task(self._write(pieces), name="orcstream outflow")
        self._task.add_done_callback(self._done)

    async def wait(self, most_left: int = 0) -> None:
        """Wait until at most so many bytes are left; raises what went wrong meanwhile."""
        while self.left_bytes > most_left and self._failure is None:
            await self._progress.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """End the task, whatever is left, and wait for it; nothing can be written any more."""
        if self._failure is None:
            self._failure = UsageError("the file is aborted")
            self._progress.notify()
        if self._task is not None:
            await end_task(self._task)

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # perhaps before it had begun, where a loop ends
            self._failure = self._failure or UsageError("the writing was cancelled: the file is incomplete")
            self._progress.notify()

    async def _write(self, pieces: Iterator[Buffer]) -> None:
        try:
            for piece in pieces:
                data = memoryview(piece)
                await self._write_piece(data)
                self.left_bytes -= data.nbytes
                self._progress.notify()
        except BaseException as error:
            self._failure = self._failure or error
            if not isinstance(error, Exception):
                raise
        finally:
            self._progress.notify()
