"""What an open file runs on: its source, and the supervisor task that owns all its tasks.

Knows life times. Must not know ORC. The task group lives in a task of its own, so that a file may be
opened in one task and closed in another; it is made when the first task is started, so that a file of which
only the tail is wanted costs none. The session does not know the file object: dropping that one stops this
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import anyio
import anyio.abc

from orcstream._buffer import release_retained
from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.io.byte_source import ByteSource, Suffix
from orcstream.io.retry import RetryPolicy
from orcstream.io.scheduler import FetchScheduler, TaskStarter

__all__ = ["Session"]

# Memory that a read leaves for the next one goes back to the system when no file was open for so long.
IDLE_S = 10.0

_open_sessions: WeakSet[Session] = WeakSet()
# The loop itself keeps no task alive.
_closing: set[asyncio.Task[None]] = set()


def _trim() -> None:
    if not _open_sessions:
        release_retained()


class _Tasks:
    """`start_soon` of a task group that is made, in its supervisor, when there is something to do.

    The supervisor ends with the last task, and the next one has another. Where the loop runs for ever (at a
    prompt, in a notebook) it is the topmost task, and as long as it lives so do anyio's worker threads, for
    which the interpreter waits at its end: a file that is open and idle must not keep a program alive.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[..., Coroutine[Any, Any, Any]], tuple[Any, ...], object]] = []
        self._group: anyio.abc.TaskGroup | None = None
        self._supervisors: set[asyncio.Task[None]] = set()  # the last of them, and those that are ending
        self._stopping = False
        self._count = 0  # of tasks that were started and have not ended
        self._change = anyio.Event()  # set when the count is 0, and to stop

    def start_soon(
        self, func: Callable[..., Coroutine[Any, Any, Any]], *args: Any, name: object = None
    ) -> None:
        if self._stopping:
            raise RuntimeError("the tasks have ended")
        if self._group is not None:
            self._start(self._group, func, args, name)
            return
        self._waiting.append((func, args, name))
        if len(self._waiting) == 1:
            supervisor = asyncio.create_task(self._supervise(), name="orcstream file")
            self._supervisors.add(supervisor)
            supervisor.add_done_callback(self._supervisors.discard)

    def _start(
        self,
        group: anyio.abc.TaskGroup,
        func: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        name: object,
    ) -> None:
        self._count += 1
        group.start_soon(self._run, func, args, name=name)

    async def _run(self, func: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...]) -> None:
        try:
            await func(*args)
        finally:
            self._count -= 1
            if self._count == 0:
                self._change.set()

    async def _supervise(self) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            for func, args, name in self._waiting:
                self._start(group, func, args, name)
            self._waiting.clear()
            while self._count and not self._stopping:
                self._change = anyio.Event()
                await self._change.wait()
            self._group = None
            if self._stopping:
                group.cancel_scope.cancel()

    async def end(self) -> None:
        """Cancel all tasks and wait for them."""
        self._stopping = True
        self._change.set()
        if self._supervisors:
            await asyncio.wait(self._supervisors)


class Session:
    """The source of one open file and its tasks."""

    def __init__(self, source: ByteSource, retry: RetryPolicy) -> None:
        self.source = source
        self.retry = retry
        self.suffix_count = 0
        self._loop = asyncio.get_running_loop()
        self._tasks = _Tasks()
        self._scheduler = FetchScheduler(source, self.tasks, retry=retry)
        self._closed = False
        self._closer: asyncio.Task[None] | None = None
        _open_sessions.add(self)

    @property
    def tasks(self) -> TaskStarter:
        """Takes tasks until the session is closed."""
        return self._tasks

    async def fetch_suffix(self, length: int) -> Suffix:
        self.suffix_count += 1
        return await self._scheduler.fetch_suffix(length)

    async def fetch(self, ranges: list[ByteRange]) -> list[RangeBuffer]:
        """Some ranges, concurrently."""
        tickets = [self._scheduler.submit(range_, 0) for range_ in ranges]
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
        if self._closer is None:
            self._closer = self._loop.create_task(self._close(), name="orcstream close")
            _closing.add(self._closer)
            self._closer.add_done_callback(_closing.discard)
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
