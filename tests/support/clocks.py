"""The clock of an event loop, moved forward by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Clock", "moved_clock", "until"]


class Clock:
    """Adds what it was moved by to what the loop's clock says."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._real: Callable[[], float] = loop.time
        self.moved_s = 0.0

    def time(self) -> float:
        return self._real() + self.moved_s

    def move(self, seconds: float) -> None:
        self.moved_s += seconds


@contextmanager
def moved_clock() -> Iterator[Clock]:
    """The clock of the running loop, which is itself again at the end."""
    loop = asyncio.get_running_loop()
    clock = Clock(loop)
    loop.time = clock.time  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        del loop.time


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails when it takes too long."""
    for _ in range(5000):
        if holds():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come to that")
