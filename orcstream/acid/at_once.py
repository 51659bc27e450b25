"""Work on several items side by side, in no order.

Knows tasks. Must not know what the work is. Contract: nothing is under way any more when `at_once` is left,
and what it raises is one failure and no group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

__all__ = ["at_once"]

T = TypeVar("T")


async def at_once(items: Iterable[T], work: Callable[[T], Awaitable[None]], most: int) -> None:
    """Work on all items, at most so many at a time; the first failure ends everything."""
    slots = anyio.Semaphore(most)
    failures: list[Exception] = []

    async def run(item: T) -> None:
        async with slots:
            try:
                await work(item)
            except Exception as error:  # noqa: BLE001 - raised below: a group would come out of the block
                failures.append(error)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(run, item)
    if failures:
        raise failures[0]
