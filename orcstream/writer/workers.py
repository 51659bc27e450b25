"""Worker threads that encode the columns of a stripe side by side.

Knows threads, and one compressor for each. Must not know what is encoded. A round is one call of a function
for each column; rounds follow one another, and none is left before all of its calls are over, so a column is
never touched by two threads. The columns that took longest come first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import anyio

from orcstream.codec.streams.compression import Compressor
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import run_in_thread, until_over

T = TypeVar("T")


class Workers:
    """At most `count` threads at once. `busy_s` is the time of all of them together.

    Several writers of one loop may share them: their rounds follow one another.
    """

    def __init__(self, count: int, new_compressor: Callable[[], Compressor | None]) -> None:
        self._limiter = anyio.CapacityLimiter(count)
        self._lock = anyio.Lock()
        self._compressors = [new_compressor() for _ in range(count)]
        self._costs: list[float] = []
        self.busy_s = 0.0

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function on a thread; it is waited for, cancelled or not."""
        return await run_in_thread(function, limiter=self._limiter)

    async def alone(self, function: Callable[[Compressor | None], T]) -> T:
        """Call ``function(compressor)`` on a thread while there is no round; waited for as in `run`."""
        async with self._lock:
            return await self.run(lambda: function(self._compressors[0]))

    async def round(self, function: Callable[[int, Compressor | None], T], count: int) -> list[T]:
        """Call ``function(column, compressor)`` for each of `count` columns; the answers, by column.

        The first failure is raised once all threads have stopped.
        """
        async with self._lock:
            return await self._round(function, count)

    async def _round(self, function: Callable[[int, Compressor | None], T], count: int) -> list[T]:
        if len(self._costs) != count:
            self._costs = [0.0] * count
        waiting = deque(sorted(range(count), key=self._costs.__getitem__, reverse=True))
        answers: dict[int, T] = {}

        def work(compressor: Compressor | None) -> None:
            while True:
                try:
                    column = waiting.popleft()
                except IndexError:  # other threads have the rest
                    return
                begun = time.perf_counter()
                try:
                    answers[column] = function(column, compressor)
                except BaseException:
                    waiting.clear()
                    raise
                self._costs[column] = time.perf_counter() - begun

        await until_over(
            side_by_side(self._compressors[:count], lambda one: self.run(lambda: work(one)), at_once=count)
        )
        self.busy_s += sum(self._costs)
        return [answers[column] for column in range(count)]
