"""What an open file runs on: its source, and the supervisor task that owns all its tasks.

Knows life times. Must not know ORC. The session does not know the file object: dropping that one stops this
one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from weakref import WeakSet

import anyio

from orcstream._buffer import release_retained, trim
from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.io.contract.byte_source import ByteSource, RetryPolicy, Suffix
from orcstream.io.loop.tasks import Supervisor, TaskStarter, keep_alive
from orcstream.io.loop.uncancelled import until_done, until_over
from orcstream.io.request.scheduler import FetchReport, FetchScheduler
from orcstream.reader.engine.observing import Observer, RequestSpan, Watch, watched

# Memory that a read leaves for the next one goes back to the system when no file was open for so long.
IDLE_S = 10.0

_open_sessions: WeakSet[Session] = WeakSet()


class _Idle:
    """Stands for the time since the last file was closed."""

    since = object()


def _trim(since: object) -> None:
    """Free the pool, and have the C library return it to the system, if no file was opened `since`."""
    if _open_sessions or since is not _Idle.since:
        return
    release_retained()
    # It takes longer than a loop may be held up, and does not need the interpreter's lock.
    threading.Thread(target=trim, name="orcstream trim", daemon=True).start()


class Session:
    """The source of one open file and its tasks."""

    def __init__(self, source: ByteSource, retry: RetryPolicy, observer: Observer | None = None) -> None:
        self.source = source
        self.retry = retry
        self._observer = observer
        self._opening: Watch | None = None
        self.suffix_count = 0
        self.closing = anyio.Event()
        self._loop = asyncio.get_running_loop()
        self._tasks = Supervisor()
        # Its requests belong to one operation or another, and so are labelled with it.
        told = None if observer is None else _tell_of_label
        self._scheduler = FetchScheduler(source, self.tasks, retry=retry, on_finished=told)
        self._closed = False
        self._closer: asyncio.Task[None] | None = None
        _open_sessions.add(self)

    @property
    def tasks(self) -> TaskStarter:
        """Takes tasks until the session is closed."""
        return self._tasks

    # --- requests ----------------------------------------------------------------------------------

    def watch(self, operation: str) -> Watch | None:
        """For the observer of the file, where there is one."""
        return None if self._observer is None else Watch(self._observer, operation, self.source.url)

    @contextmanager
    def opening(self, watch: Watch | None) -> Iterator[None]:
        """All requests within the block are those of opening the file, which is watched."""
        self._opening = watch
        yield
        self._opening = None

    def scheduler(self, tasks: TaskStarter, watch: Watch | None) -> FetchScheduler:
        """Sends requests of one read of this file."""
        told = None if watch is None else partial(_tell, watch)
        return FetchScheduler(self.source, tasks, retry=self.retry, on_finished=told)

    async def fetch_suffix(self, length: int) -> Suffix:
        self.suffix_count += 1
        with self._operation() as watch:
            return await self._scheduler.fetch_suffix(length, ("tail", watch))

    async def fetch(self, ranges: list[ByteRange], wave: str = "tail") -> list[RangeBuffer]:
        """Some ranges, concurrently."""
        if not ranges:
            return []
        with self._operation() as watch:
            tickets = [self._scheduler.submit(range_, 0, label=(wave, watch)) for range_ in ranges]
            try:
                return [
                    RangeBuffer(range_, await ticket.wait())
                    for range_, ticket in zip(ranges, tickets, strict=True)
                ]
            finally:
                for ticket in tickets:
                    ticket.cancel()

    @contextmanager
    def _operation(self) -> Iterator[Watch | None]:
        """That which is under way; else what is asked of the file is one by itself."""
        if self._opening is not None:
            yield self._opening
            return
        with watched(self.watch("metadata")) as watch:
            yield watch

    # --- life time ---------------------------------------------------------------------------------

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
        await until_done(closer)

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
            await until_over(self.source.aclose())
            _open_sessions.discard(self)
            if not _open_sessions:
                _Idle.since = object()
                self._loop.call_later(IDLE_S, _trim, _Idle.since)


def _tell(watch: Watch, report: FetchReport, wave: str | None = None) -> None:
    watch.on_request(
        RequestSpan(
            wave or report.label,
            report.range,
            report.start_s,
            report.stop_s,
            report.attempt_count,
            report.error,
        )
    )


def _tell_of_label(report: FetchReport) -> None:
    wave, watch = report.label
    _tell(watch, report, wave)
