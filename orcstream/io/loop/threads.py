"""Work on threads that is over when its call is, whoever cancels it.

Knows threads. Must not know what they do. anyio's scopes wait for a thread; asyncio's own `cancel`, of
`wait_for`, `timeout` and a loop that ends, would leave it at work on descriptors and memory that are somebody
else's by then. Here both wait. What is cancelled before a thread has begun with it is never done.

The threads are our own share of anyio's: those that a program keeps busy, perhaps with waiting for us, do not
keep ours from ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from orcstream.io.loop.uncancelled import until_done

T = TypeVar("T")

# At once, of one loop; the same number as anyio's own.
_THREADS = 40

_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("orcstream threads")


async def run_in_thread(work: Callable[[], T], *, limiter: anyio.CapacityLimiter | None = None) -> T:
    """The answer of `work`, called on a thread; a cancellation is raised when it is over."""
    state: Future[None] = Future()

    def run() -> T:
        if not state.set_running_or_notify_cancel():
            raise RuntimeError("nobody waits for this any more")
        try:
            return work()
        finally:
            state.set_result(None)

    try:
        return await anyio.to_thread.run_sync(run, limiter=limiter or own_limiter())
    except asyncio.CancelledError:
        if not state.cancel():
            await until_done(asyncio.wrap_future(state))
        raise


async def called(work: Callable[[], T], *, is_large: bool) -> T:
    """The answer of `work`, called on a thread where it takes so long that other tasks would notice."""
    return await run_in_thread(work) if is_large else work()


def own_limiter() -> anyio.CapacityLimiter:
    """Of the running loop, for calls that a cancellation may leave behind, too."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _limiter.set(limiter)
        return limiter
