"""What a writer writes to, and how that ends: a file that appears whole, or one that is read as it grows.

Knows sinks and their ends, and the task that hands finished stripes on. Must not know rows, stripes or
footers. An outlet is for one task at a time, and only `abort` is left after a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from orcstream.byterange import BytesLike
from orcstream.errors import Unsupported, UsageError
from orcstream.io.append_sink import AppendSink
from orcstream.io.contract.byte_sink import ByteSink, Prepared, SinkOptions
from orcstream.io.loop.tasks import Signal
from orcstream.io.loop.uncancelled import end_task, until_over
from orcstream.io.sink import commit, discard

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Outlet(Protocol):
    """Where the bytes of one file go."""

    @property
    def url(self) -> str: ...

    @property
    def held_bytes(self) -> int:
        """Memory taken by bytes on their way."""

    @property
    def grows(self) -> bool:
        """Whether `flush` shows what was written."""

    async def write(self, data: BytesLike) -> None: ...

    async def flush(self) -> None:
        """What was written is durable and may be read."""

    async def prepare(self) -> Prepared:
        """All bytes are there; make them durable without showing them."""

    async def commit(self) -> None:
        """All bytes are there; make them the file."""

    async def abort(self) -> None:
        """Leave nothing but what readers may have seen."""

    async def aclose(self) -> None:
        """Give back what is held; leaves what was prepared."""


class _ToSink:
    """What outlets leave to their sink."""

    def __init__(self, sink: ByteSink | AppendSink) -> None:
        self._target = sink

    @property
    def url(self) -> str:
        return self._target.url

    @property
    def held_bytes(self) -> int:
        return self._target.held_bytes

    async def write(self, data: BytesLike) -> None:
        await self._target.write(data)

    async def aclose(self) -> None:
        await self._target.aclose()


class WholeFile(_ToSink):
    """A file that appears at the commit."""

    grows = False

    def __init__(
        self, sink: ByteSink, storage_options: Mapping[str, Any] | None, sink_options: SinkOptions
    ) -> None:
        super().__init__(sink)
        self._sink = sink
        self._options: dict[str, Any] = {"storage_options": storage_options, "sink_options": sink_options}
        self._prepared: Prepared | None = None

    async def flush(self) -> None:
        raise UsageError("this file appears at the commit; one made with growing=True can be flushed")

    async def prepare(self) -> Prepared:
        if self._prepared is None:
            self._prepared = await self._sink.prepare()
        return self._prepared

    async def commit(self) -> None:
        await commit(await self.prepare(), **self._options)
        await self._sink.aclose()

    async def abort(self) -> None:
        if self._prepared is None:
            await self._sink.abort()
        else:
            await self._sink.aclose()
            await discard(self._prepared, **self._options)


class GrowingFile(_ToSink):
    """A file that is visible from the start, and may be read up to its last flush."""

    grows = True

    def __init__(self, sink: AppendSink) -> None:
        super().__init__(sink)
        self._sink = sink

    async def flush(self) -> None:
        await self._sink.flush()

    async def prepare(self) -> Prepared:
        raise Unsupported("a growing file is visible: it cannot be committed elsewhere", reason="growing")

    async def commit(self) -> None:
        await self._sink.finish()

    async def abort(self) -> None:
        await until_over(self._sink.cut())


class Outflow:
    """Finished stripes on their way to an outlet, while the next one is encoded: one piece after the other.

    `left_bytes` are those that are being written and not written yet. For one task at a time. A
    failure is raised to whoever waits next.
    """

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
