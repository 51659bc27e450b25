"""Calls, and work on threads, that run to their end, whoever is cancelled while waiting for them.

Knows both kinds of cancellation. Must not know what the calls do. anyio's scopes heed a shield and wait for
a thread. asyncio's own `cancel`, of `wait_for`, `timeout` and a loop that ends, does neither: a call gets a
task of its own, and a thread would be left at work on descriptors and memory that belong to somebody else
by then. Here both wait. What is cancelled before a thread has begun with it is never done.

The threads are our own. A program that keeps its threads busy, perhaps with waiting for us, does not keep us
from ending.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel

from orcstream.io.loop.system import call_on_thread

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


def _context_of_threads() -> Context:
    """The context, but that no event loop runs in it."""
    context = copy_context()
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context


class _Call(Generic[T]):
    """A call on a thread, for a task that waits for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Any = partial(_context_of_threads().run, work)
        self._loop = asyncio.get_running_loop()
        self._turn = Lock()  # taken once, by the thread that makes the call or by the caller that gives it up
        self._answer: T | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self.over: asyncio.Future[None] = self._loop.create_future()

    def give_up(self) -> bool:
        """Whether the call has not begun; then it never will."""
        return self._turn.acquire(blocking=False)

    def make(self) -> None:
        """For the thread."""
        work, self._work = self._work, None
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._answer = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is waited for
            self._error = error
        # Before anybody goes on: this thread may not get the lock again until much later.
        del work
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._is_over = True
        if not self.over.done():
            self.over.set_result(None)

    def renewed(self) -> asyncio.Future[None]:
        """Return a new future for the end: a task that is cancelled cancels the one that it waits for."""
        self.over = self._loop.create_future()
        if self._is_over:
            self.over.set_result(None)
        return self.over

    def forget(self) -> None:
        """Let go of what came of the call, which nobody looks at."""
        self._answer = self._error = None

    def answer(self) -> T:
        answer, error = self._answer, self._error
        self.forget()
        if error is None:
            return cast("T", answer)
        try:
            raise error
        finally:
            del error  # else it and this frame would hold each other


async def run_in_thread(work: Callable[[], T], *, limiter: anyio.CapacityLimiter | None = None) -> T:
    """The answer of `work`, called on a thread; a cancellation is raised when it is over."""
    limiter = limiter or own_limiter()
    await anyio.lowlevel.checkpoint_if_cancelled()
    call = _Call(work)
    try:
        limiter.acquire_on_behalf_of_nowait(call)
    except anyio.WouldBlock:
        await limiter.acquire_on_behalf_of(call)
    try:
        call_on_thread(call.make)
        try:
            await call.over
        except asyncio.CancelledError:
            if not call.give_up():
                try:
                    await until_done(call.renewed())
                finally:
                    call.forget()
            raise
        return call.answer()
    finally:
        limiter.release_on_behalf_of(call)


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
