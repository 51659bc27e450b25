"""Calls, and work on threads, that run to their end, whoever is cancelled while waiting for them.

Knows both kinds of cancellation. Must not know what the calls do. anyio's scopes heed a shield and wait for
a thread. asyncio's own `cancel`, of `wait_for`, `timeout` and a loop that ends, does neither: a call gets a
task of its own, and a thread would be left at work on descriptors and memory that belong to somebody else
by then. Here both wait. What is cancelled before a thread has begun with it is never done.

The threads are our own share of anyio's: those that a program keeps busy, perhaps with waiting for us, do
not keep ours from ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")

# At once, of one loop; the same number as anyio's own.
_THREADS = 40

_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("orcstream threads")


async def until_over(call: Coroutine[Any, Any, T], *, name: str | None = None) -> T:
    """What the call answers. A cancellation is raised when the call is over, whatever it answered."""
    task = asyncio.create_task(call, name=name)
    try:
        await until_done(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # nobody else looks at it
        raise
    return task.result()


async def until_done(work: asyncio.Future[Any]) -> None:
    """Wait for it, however often this is cancelled; then raise the last cancellation, if it was asyncio's."""
    cancelled = None
    with anyio.CancelScope(shield=True):
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task that has no cancel scope, and wait for its end."""
    task.cancel()
    await until_done(task)


async def clean_up(error: BaseException, work: Callable[[], Awaitable[object]], failing: str = "") -> None:
    """Clean up because of `error`; where that fails, `error` gets a note, because it came first.

    `failing` begins the note. `work` goes through `until_over` by itself.
    """
    try:
        await work()
    except Exception as failure:  # noqa: BLE001 - it is in the note
        error.add_note(f"{failing}: {failure}" if failing else str(failure))


# --- threads ---------------------------------------------------------------------------------------


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
