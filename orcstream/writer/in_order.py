"""Work on several items at a time, its results taken in the order of the items.

Knows tasks and their order. Must not know what the work is. Contract: nothing is under way any more when
`in_order` is left, and what it raises is one failure and no group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")
R = TypeVar("R")


class Slot(Generic[T, R]):
    """One item that is worked on."""

    def __init__(self, item: T) -> None:
        self.item = item
        self._done = anyio.Event()
        self._results: list[R] = []
        self._error: Exception | None = None

    async def run(self, work: Callable[[T], Awaitable[R]]) -> None:
        try:
            self._results.append(await work(self.item))
        except Exception as error:  # noqa: BLE001 - raised where its turn has come
            self._error = error
        self._done.set()

    async def result(self) -> R:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._results.pop()


async def in_order(
    items: Iterable[T],
    work: Callable[[T], Awaitable[R]],
    take: Callable[[T, R], Awaitable[None]],
    fits: Callable[[T, deque[Slot[T, R]]], bool],
    *,
    name: str,
) -> None:
    """Work on several items at once, and take the results one after the other in the order of the items.

    `fits` says whether an item may be begun beside those that are not yet taken; one alone always may. The
    first failure, in order, ends everything. Tasks are called `name`.
    """
    failure: Exception | None = None
    under_way: deque[Slot[T, R]] = deque()
    waiting = iter(items)
    async with anyio.create_task_group() as tasks:
        try:
            following = next(waiting, None)
            while following is not None or under_way:
                while following is not None and (not under_way or fits(following, under_way)):
                    slot: Slot[T, R] = Slot(following)
                    under_way.append(slot)
                    tasks.start_soon(slot.run, work, name=name)
                    following = next(waiting, None)
                # It counts for what is under way until it was taken.
                await take(under_way[0].item, await under_way[0].result())
                under_way.popleft()
        except Exception as error:  # noqa: BLE001 - a group would come out of the block
            failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
