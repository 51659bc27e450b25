"""What an open file runs on: its source, and the supervisor task that owns all its tasks.

Knows life times. Must not know ORC. The session does not know the file object: dropping that one stops this
one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from weakref import WeakSet

import anyio

from orcstream._buffer import release_retained
from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.io.byte_source import ByteSource, Suffix
from orcstream.io.retry import RetryPolicy
from orcstream.io.scheduler import FetchScheduler, TaskStarter
from orcstream.reader.observing import ReadObserver, RequestSpan
from orcstream.reader.supervisor import Supervisor, keep_alive

__all__ = ["Session"]

# Memory that a read leaves for the next one goes back to the system when no file was open for so long.
IDLE_S = 10.0

_open_sessions: WeakSet[Session] = WeakSet()


def _trim() -> None:
    if not _open_sessions:
        release_retained()


class Session:
    """The source of one open file and its tasks."""

    def __init__(self, source: ByteSource, retry: RetryPolicy, observer: ReadObserver | None = None) -> None:
        self.source = source
        self.retry = retry
        self.observer = observer
        self.suffix_count = 0
        self.closing = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks = Supervisor()
        self._scheduler = self.scheduler(self.tasks)
        self._closed = False
        self._closer: asyncio.Task[None] | None = None
        _open_sessions.add(self)

    @property
    def tasks(self) -> TaskStarter:
        """Takes tasks until the session is closed."""
        return self._tasks

    def scheduler(self, tasks: TaskStarter) -> FetchScheduler:
        """Sends requests of this file, each told to its observer."""
        observer = self.observer

        def finished(wave: str, range_: ByteRange, start_s: float, stop_s: float) -> None:
            assert observer is not None
            observer.on_request(RequestSpan(wave, range_, start_s, stop_s))

        return FetchScheduler(
            self.source, tasks, retry=self.retry, on_finished=None if observer is None else finished
        )

    async def fetch_suffix(self, length: int) -> Suffix:
        self.suffix_count += 1
        return await self._scheduler.fetch_suffix(length, "tail")

    async def fetch(self, ranges: list[ByteRange], wave: str = "tail") -> list[RangeBuffer]:
        """Some ranges, concurrently."""
        tickets = [self._scheduler.submit(range_, 0, label=wave) for range_ in ranges]
        try:
            return [
                RangeBuffer(range_, await ticket.wait())
                for range_, ticket in zip(ranges, tickets, strict=True)
            ]
        finally:
            for ticket in tickets:
                ticket.cancel()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def request_stop(self) -> None:
        """From any thread: end all tasks and close the source, without waiting for it."""
        self._closed = True
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self._begin_close)

    async def aclose(self) -> None:
        """End all tasks, close the source, and wait for both."""
        closer = self._begin_close()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([closer])

    def _begin_close(self) -> asyncio.Task[None]:
        self._closed = True
        self.closing.set()
        if self._closer is None:
            self._closer = self._loop.create_task(self._close(), name="orcstream close")
            keep_alive(self._closer)
        return self._closer

    async def _close(self) -> None:
        try:
            self._scheduler.close()
            await self._tasks.end()
        finally:
            with anyio.CancelScope(shield=True):
                await self.source.aclose()
            _open_sessions.discard(self)
            if not _open_sessions:
                self._loop.call_later(IDLE_S, _trim)
