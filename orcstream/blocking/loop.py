"""An event loop on a thread of its own, for `blocking`, and objects whose methods wait for calls there.

The loop begins with the first call and ends with the program.

Knows threads, signals and forks. Ctrl-C cancels what is under way and waits until it has stopped. After a
fork the child makes a loop of its own; what was opened before belongs to the parent. Must not know what it
runs: what has no explicit method in a class is passed on, so that new methods of the asynchronous classes are
there.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import anyio

from orcstream._keywords import explain, explained
from orcstream.batch import Batch, BatchSchema
from orcstream.errors import UsageError
from orcstream.io.loop.clients import CLOSING, close_clients
from orcstream.io.loop.system import in_forked_children

if TYPE_CHECKING:
    from orcstream.reader.engine.session import ReadStatistics
    from orcstream.schema.schema import Schema

T = TypeVar("T")
P = ParamSpec("P")

# How long Ctrl-C waits for what it has cancelled, and the end of the program for everything.
STOP_TIMEOUT_S = 5.0
# Those end with the loop, which must not wait for them.
_ANYIO_WORKER = "AnyIO worker thread"


class LoopThread:
    """An event loop on a daemon thread, of one process."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._pending: set[Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="orcstream loop", daemon=True)
        self._thread.start()
        # Foreign file systems are called on threads of anyio's, which are no daemons. The interpreter waits
        # for those before it runs exit handlers; a thread like them, which waits for all others, is in time
        # to end them, and calls of ours that have not ended.
        threading.Thread(target=self._end_with_program, name="orcstream end").start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        finally:
            self._loop.close()
            # Calls that came too late to be run must not wait for ever.
            for future in list(self._pending):
                if not future.done():
                    future.set_exception(UsageError("the program is ending"))

    async def _live(self) -> None:
        await self._ending.wait()
        # A task group cancels its own: one of its tasks that is cancelled by others before its first step
        # warns that it was never awaited (anyio 4.14). What groups then still shield is cancelled at last.
        await _cancel_tasks(STOP_TIMEOUT_S / 2, of_groups=False)
        await _cancel_tasks(STOP_TIMEOUT_S / 2, of_groups=True)
        await close_clients()  # of files that nobody closed

    def _begin(self, call: _Call[Any]) -> None:
        if not self._ending.is_set():  # else it is told when the loop has ended
            call.begin()

    def _end_with_program(self) -> None:
        _wait_for_callers()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(2 * STOP_TIMEOUT_S)

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of a coroutine that is made and run on the loop."""
        if os.getpid() != self.process_id:
            raise UsageError("this was opened before the process was forked; open it again in the child")
        if threading.current_thread() is self._thread:
            raise UsageError("orcstream.blocking cannot be called by what its own event loop runs")
        future: Future[T] = Future()
        call = _Call(work, future)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        try:
            self._loop.call_soon_threadsafe(self._begin, call)
        except RuntimeError:
            raise UsageError("the program is ending") from None
        try:
            return future.result()
        except BaseException:
            if not future.done():  # not the call has failed, but waiting: Ctrl-C
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(call.cancel)
                with suppress(BaseException):
                    future.result(STOP_TIMEOUT_S)
            raise


class _Call(Generic[T]):
    """One coroutine on its way; `begin` and `cancel` are called on the loop."""

    def __init__(self, work: Callable[[], Awaitable[T]], future: Future[T]) -> None:
        self._work = work
        self._future = future
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="orcstream call")

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            result = await self._work()
        except asyncio.CancelledError:
            self._future.set_exception(UsageError("the call was cancelled"))
            raise
        except GeneratorExit:  # the loop has ended without it, and has told the caller
            raise
        except BaseException as error:  # noqa: BLE001 - raised to the caller, whatever it is
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


def _wait_for_callers() -> None:
    """Until the main thread has ended, and those that the interpreter then waits for: they may still call."""
    main = threading.main_thread()
    main.join()
    mine = (main, threading.current_thread())
    while others := [
        one
        for one in threading.enumerate()
        if not one.daemon and one not in mine and one.name != _ANYIO_WORKER
    ]:
        for thread in others:
            thread.join()


async def _cancel_tasks(timeout_s: float, *, of_groups: bool) -> None:
    """Cancel what runs on the loop, and wait for it; what is cancelled may begin something else."""
    loop = asyncio.get_running_loop()
    stop_s = loop.time() + timeout_s
    while (left := asyncio.all_tasks() - {asyncio.current_task()}) and loop.time() < stop_s:
        owned = {task.id for task in anyio.get_running_tasks() if task.parent_id is not None}
        for task in left:
            if task.get_name() != CLOSING and (of_groups or id(task) not in owned):
                task.cancel()
        await asyncio.wait(left, timeout=max(0.0, stop_s - loop.time()))


_the_loop: LoopThread | None = None
# The parents' loops. Closing one in a child would take its descriptors out of the epoll both share.
_parents: list[LoopThread] = []
_lock = threading.Lock()


def the_loop() -> LoopThread:
    """The one of this process."""
    global _the_loop  # noqa: PLW0603 - one for the process
    with _lock:
        if _the_loop is None:
            _the_loop = LoopThread()
        return _the_loop


def _forget() -> None:
    global _the_loop, _lock
    if _the_loop is not None:
        _parents.append(_the_loop)
    _the_loop, _lock = None, threading.Lock()


in_forked_children(_forget)


def takes_as(other: Callable[P, object]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Marks a function that takes what `other` takes: for type checkers, editors and `help`."""

    def mark(function: Callable[..., T]) -> Callable[P, T]:
        function.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        explain(function, explained(other).values())
        return function

    return mark


def method_as(
    other: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """As `takes_as`, of two methods."""
    return takes_as(other)


def awaited(call: Callable[P, Awaitable[T]], note: str = "") -> Callable[P, T]:
    """A function of the package that needs nothing but to be waited for."""

    @takes_as(call)
    def work(*arguments: P.args, **options: P.kwargs) -> T:
        return the_loop().run(lambda: call(*arguments, **options))

    work.__name__ = work.__qualname__ = call.__name__
    work.__doc__ = f"`orcstream.{call.__name__}`{note}."
    return work


async def made(make: Callable[[], T]) -> T:
    """What must be made while the loop runs, though nothing is waited for."""
    return make()


class Facade:
    """Passes on what has no method here: asynchronous methods block, everything else is as it is."""

    def __init__(self, inner: Any, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    if not TYPE_CHECKING:  # or every name that is misspelt would be one

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name == "aclose":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            found = getattr(self._inner, name)
            if not callable(found):
                return found

            @functools.wraps(found)
            def call(*arguments: Any, **options: Any) -> Any:
                if inspect.iscoroutinefunction(found):
                    return self._facade_of(self._run(lambda: found(*arguments, **options)))
                return self._facade_of(self._run(lambda: made(lambda: found(*arguments, **options))))

            return call

    def __dir__(self) -> list[str]:
        names = {name for name in dir(self._inner) if not name.startswith("_") and name != "aclose"}
        return sorted({*super().__dir__(), *names})

    def __repr__(self) -> str:
        return repr(self._inner)

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        return self._loop.run(work)

    def _facade_of(self, found: Any) -> Any:
        """What a method answered, as who does not wait gets it."""
        return found

    def close(self) -> None:
        """`aclose` of the asynchronous class; may be called again."""
        self._run(self._inner.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FacadeStream(Facade, Iterator[T]):
    """A stream to iterate with `for`."""

    def __next__(self) -> T:
        found = self._run(lambda: anext(self._inner, None))
        if found is None:
            raise StopIteration
        one: T = self._facade_of(found)
        return one


class Batches(FacadeStream[Batch]):
    """Batches of one schema."""

    @property
    def schema(self) -> Schema:
        """`schema` of the asynchronous class."""
        found: Schema = self._inner.schema
        return found

    @property
    def batch_schema(self) -> BatchSchema:
        """`batch_schema` of the asynchronous class."""
        found: BatchSchema = self._inner.batch_schema
        return found

    @property
    def stats(self) -> ReadStatistics:
        """`stats` of the asynchronous class."""
        found: ReadStatistics = self._inner.stats
        return found

    def __arrow_c_schema__(self) -> object:
        return self._inner.__arrow_c_schema__()
