"""Tasks that belong to an object and to no task of the user's.

Knows life times. Must not know what the tasks do. Their group lives in a task of its own, so that a file may
be opened in one task and closed in another; it is made when the first task is started, so that a file of
which only the tail is wanted costs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.abc

from orcstream.io.loop.tasks import Signal

# Longer than any task takes that is kept alive.
_KEPT_S = 86400.0


def keep_alive(task: asyncio.Future[None]) -> None:
    """Hold a task while its loop is there. The loop itself keeps no task alive; its timers it does.

    A set of ours would hold those for ever that a loop has left behind, with all they know.
    """
    timer = task.get_loop().call_later(_KEPT_S, lambda: task)
    task.add_done_callback(lambda _: timer.cancel())


class Supervisor:
    """`start_soon` of a task group that is made, in its supervisor, when there is something to do.

    The supervisor ends with the last task, and the next one has another. Where the loop runs for ever (at a
    prompt, in a notebook) it is the topmost task, and as long as it lives so do anyio's worker threads, for
    which the interpreter waits at its end: a file that is open and idle must not keep a program alive.
    """

    def __init__(self, name: str = "orcstream file") -> None:
        self._name = name
        self._waiting: list[tuple[Callable[..., Coroutine[Any, Any, Any]], tuple[Any, ...], object]] = []
        self._group: anyio.abc.TaskGroup | None = None
        self._supervisors: set[asyncio.Task[None]] = set()  # the last of them, and those that are ending
        self._stopping = False
        self._count = 0  # of tasks that were started and have not ended
        self._changed = Signal()  # the count is 0, or the tasks are to end

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
            supervisor = asyncio.create_task(self._supervise(), name=self._name)
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
                self._changed.notify()

    async def _supervise(self) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            for func, args, name in self._waiting:
                self._start(group, func, args, name)
            self._waiting.clear()
            while self._count and not self._stopping:
                await self._changed.wait()
            self._group = None
            if self._stopping:
                group.cancel_scope.cancel()

    async def end(self) -> None:
        """Cancel all tasks and wait for them."""
        self._stopping = True
        self._changed.notify()
        if self._supervisors:
            await asyncio.wait(self._supervisors)
