"""Calls that are cancelled at each turn of the event loop, and what a check leaves behind.

Knows tasks. Must not know sources or sinks.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from orcstream.testing.checks import expect
from orcstream.testing.stores import Described

__all__ = ["Watch", "cancelled_at_each_turn"]

# What was told to stop has so long to do it.
SETTLE_S = 20.0
# From turn to turn, where not each is tried.
GROWTH = 1.6


class Watch:
    """Finds tasks and connections that are left; made before they could be, in the task that looks later."""

    def __init__(self, store: Described) -> None:
        self._store = store
        self._before = asyncio.all_tasks()
        self._held = store.held()

    async def nothing_left(self, after: str) -> None:
        """No task is running that was not before, and nothing is held open."""
        waited = 0
        while (left := self._tasks()) and waited < 2:
            await asyncio.wait(left, timeout=SETTLE_S)
            waited += 1
        expect(not left, f"{after}: tasks are still running: {left}")
        held = self._store.held()
        if held != self._held:
            gc.collect()  # in cycles, which is no leak
            held = self._store.held()
        expect(held == self._held, f"{after}: still held: {held}, before: {self._held}")

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return {task for task in asyncio.all_tasks() - self._before if not task.done()}


async def cancelled_at_each_turn(
    begin: Callable[[], Coroutine[Any, Any, Any]],
    after: Callable[[bool], Awaitable[None]],
    *,
    what: str,
    dense_turns: int,
) -> None:
    """Begin a call again and again, and cancel it one turn later each time, until it ends before that.

    `after` is awaited each time, with whether the call had come to its end. The first `dense_turns` turns are
    tried one by one, later ones with growing steps. A cancellation must come out as one: who swallows it
    runs on where nobody waits any more.
    """
    turns, finished = 0.0, False
    while not finished:
        task = asyncio.create_task(begin())
        for _ in range(int(turns)):
            await asyncio.sleep(0)
            if task.done():
                break
        finished = task.done()
        task.cancel()
        await asyncio.wait([task], timeout=SETTLE_S)
        where = f"{what}, cancelled after {int(turns)} turns of the event loop"
        expect(task.done(), f"{where}: it did not end")
        if finished:
            task.result()
        elif not task.cancelled():
            error = task.exception()
            expect(False, f"{where}: the cancellation was swallowed, {error!r} came instead")
        await after(finished)
        turns = turns + 1 if turns < dense_turns else turns * GROWTH
    expect(turns > 1, f"{what}: it never gives way to other tasks")
