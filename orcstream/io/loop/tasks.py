"""How tasks of one event loop wait for each other, keep out of each other's way, and fail together.

Knows tasks, and the life times of objects that have tasks. Must not know what they do. For the loop's own
thread: other threads come through `call_soon_threadsafe`. What happens once is an `anyio.Event`, which stays
set.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

import anyio
import anyio.abc
import anyio.lowlevel

from orcstream.errors import OrcError, Unsupported, UsageError, out_of_memory
from orcstream.io.loop.uncancelled import until_over

A = TypeVar("A")
B = TypeVar("B")


_WRAPS_COROUTINES = hasattr(anyio, "TaskHandle")


class TaskStarter(Protocol):
    """What owns tasks: a task group of anyio's, or something that makes one when it is first asked."""

    def start_soon(
        self, func: Callable[..., Coroutine[Any, Any, Any]], *args: Any, name: object = None
    ) -> object:
        """Start a task; RuntimeError where no more are taken."""


class _Deferred(Coroutine[Any, Any, None]):
    """See `deferred`."""

    def __init__(self, func: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._func = func
        self._args = args
        self._begun: Coroutine[Any, Any, None] | None = None

    def _begin(self) -> Coroutine[Any, Any, None]:
        arguments, self._args = self._args, ()
        return self._func(*arguments)

    def __await__(self) -> Generator[Any, Any, None]:
        return self._begin().__await__()

    def send(self, value: Any) -> Any:
        self._begun = self._begun or self._begin()
        return self._begun.send(value)

    def throw(self, *error: Any) -> Any:
        self._begun = self._begun or _nothing()
        return self._begun.throw(*error)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()


async def _nothing() -> None:
    pass


def deferred(func: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """For `start_soon`: call `func` when its task takes the first step.

    A loop that ends cancels tasks before their first step. A coroutine that was made already then warns that
    it was never awaited, since anyio 4.14; before, anyio takes no other coroutines than those of `async def`.
    """
    return partial(_Deferred, func) if _WRAPS_COROUTINES else func


class Closable(ABC):
    """An object whose `async with` block ends with `aclose`."""

    __slots__ = ()

    @abstractmethod
    async def aclose(self) -> None:
        """Release what the object holds."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Signal:
    """Wakes all tasks that wait for some state to change.

    Change the state, then call `notify`. A task that waits checks the state, and again after each wake-up:

        while not ready:
            await changed.wait()

    Nothing comes between the check and `wait`, because nothing is awaited there. Where something is, take
    `count` before the check: `wait` then returns for a change since then, too.

        seen = changed.count
        if not await is_ready():
            await changed.wait(seen)
    """

    __slots__ = ("_event", "count")

    def __init__(self) -> None:
        self.count = 0  # of calls of `notify`
        self._event: anyio.Event | None = None  # of those who wait now

    def notify(self) -> None:
        """Wake all tasks that wait now; a cancelled one among them takes nothing from the others."""
        self.count += 1
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self, seen: int | None = None) -> None:
        """Wait for the next `notify`, or for one since `count` was `seen`; other tasks have a turn."""
        if seen is not None and seen != self.count:
            await anyio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()


class OneTask:
    """Lets one task at a time use an object: `with guard: ...` raises `UsageError` for a second one."""

    __slots__ = ("_message", "_url", "is_held")

    def __init__(self, message: str, url: str) -> None:
        self._message = message
        self._url = url
        self.is_held = False

    def __enter__(self) -> None:
        if self.is_held:
            raise UsageError(self._message, url=self._url)
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


class Running(ABC):
    """What works for a stream, in a supervisor. It does not know the stream: dropping that one stops this."""

    name: ClassVar[str]  # of its task
    owner: ClassVar[str]  # to whom the supervisor belongs, as errors call it

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._is_started = self._has_begun = False
        self._error: Exception | None = None

    def start(self, tasks: TaskStarter) -> None:
        """Start once, however often it is called."""
        if not self._is_started:
            try:
                tasks.start_soon(self._run, name=self.name)
            except RuntimeError:  # the group has ended
                raise UsageError(f"the {self.owner} is closed") from None
            self._is_started = True

    async def _run(self) -> None:
        self._has_begun = not self._scope.cancel_called
        try:
            if self._has_begun:
                with self._scope:
                    await self._work()
        except Exception as error:  # noqa: BLE001 - raised to the consumer, whatever it is
            self._error = self._error or first_failure(error)
        finally:
            self._finished.set()
            self._end()

    @abstractmethod
    async def _work(self) -> None:
        """All that is done for the stream."""

    @abstractmethod
    def _end(self) -> None:
        """Let go of what is left, and wake the consumer."""

    def fail(self, error: Exception) -> None:
        """Stop, since the consumer got this error."""
        self._error = self._error or error
        self.stop()

    def stop(self) -> None:
        """Cancel everything that is under way; may be called again."""
        self._scope.cancel()

    def stop_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self.stop)

    async def wait_stopped(self) -> None:
        # Tasks that have not begun when their loop ends never do; they do nothing once they are stopped.
        if self._has_begun:
            await until_over(self._finished.wait())


R = TypeVar("R", bound=Running)


class Stream(Closable, Generic[A, R]):
    """What `async for` gets one by one from a part that runs; `_next` answers None at the end.

    A failure is raised at the step that needs what failed, and at every later one; what runs has ended then.
    """

    def __init__(
        self, running: R | None, url: str | None, guard: AbstractContextManager[None] | None = None
    ) -> None:
        self._running = running
        self._url = url
        self._guard = nullcontext() if guard is None else guard
        self._failure: Exception | None = None
        self._ended = False

    @abstractmethod
    async def _next(self) -> A | None:
        """One step. When it is cancelled, the next one misses nothing."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> A:
        with self._guard:
            if self._ended:
                raise StopAsyncIteration
            if self._failure is not None:
                raise self._failure
            try:
                # What is ready would keep every other task waiting. A cancellation here loses nothing.
                await anyio.lowlevel.checkpoint()
                found = await self._next()
            except Exception as error:
                self._failure = out_of_memory(error) if isinstance(error, MemoryError) else error
                if isinstance(self._failure, OrcError):
                    self._failure.locate(url=self._url)
                if self._running is not None:
                    self._running.fail(self._failure)
                    await self._running.wait_stopped()
                if self._failure is error:
                    raise
                raise self._failure from error
        if found is None:
            self._ended = True
            await self._finish()
            raise StopAsyncIteration
        return found

    async def _finish(self) -> None:
        """Wait for the end of what runs, which has nothing more to do."""
        await self._stop()

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            await self._running.wait_stopped()

    async def aclose(self) -> None:
        """Stop all that is under way, and wait until nothing of it is left."""
        self._ended = True
        await self._stop()

    def __del__(self) -> None:
        running = getattr(self, "_running", None)
        if running is not None and not self._ended:
            running.stop_from_any_thread()


@overload
def first_failure(error: Exception) -> Exception: ...
@overload
def first_failure(error: BaseException) -> BaseException: ...
def first_failure(error: BaseException) -> BaseException:
    """What went wrong first, where several tasks failed: groups are not for users."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def side_by_side(
    items: Iterable[A], work: Callable[[A], Awaitable[B]], *, at_once: int = 16, cancels: bool = True
) -> list[B]:
    """What each call answers, in the order of the items. Raises the first failure.

    The other calls are cancelled then; with ``cancels=False`` those that have begun run to their ends first.
    """
    numbered = list(enumerate(items))
    waiting = iter(numbered)
    found: dict[int, B] = {}
    failures: list[Exception] = []

    async def run() -> None:
        for at, item in waiting:
            await anyio.lowlevel.checkpoint()
            if failures:
                return
            try:
                found[at] = await work(item)
            except Exception as error:
                if cancels:
                    raise
                failures.append(error)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in numbered[:at_once]:
                tasks.start_soon(run)
    except BaseExceptionGroup as group:
        failure = first_failure(group)
        raise failure from failure.__cause__
    if failures:
        raise failures[0]
    return [found[at] for at in sorted(found)]


def need_asyncio() -> None:
    """Raise `Unsupported` where no loop of asyncio runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise Unsupported(
            "the clients of stores need asyncio; run this with asyncio, or trio's guest mode", reason="trio"
        ) from None


T = TypeVar("T", bound=AbstractAsyncContextManager[Any])


class Pending(ABC, Generic[T]):
    """Awaited or entered by whoever made it; `made_by` is the function that did."""

    made_by: ClassVar[str]

    def __init__(self) -> None:
        self._made: T | None = None

    @abstractmethod
    async def _make(self) -> T:
        """What is waited for."""

    def __await__(self) -> Generator[Any, None, T]:
        return self._make().__await__()

    async def __aenter__(self) -> T:
        self._made = await self._make()
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            await self._made.__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<{self._not_yet}>"

    @property
    def _not_yet(self) -> str:
        call = f"orcstream.{self.made_by}(...)"
        return f"{call} that was not waited for: write `async with {call} as ...` or `await {call}`"

    if not TYPE_CHECKING:  # or every name would be one

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"no {name!r} yet, of {self._not_yet}", name=name, obj=self)


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
    prompt, in a notebook) it is the topmost task, and as long as it lives so do anyio's worker threads, which
    foreign file systems are called on. The interpreter waits for those at its end: a file that is open and
    idle must not keep a program alive.
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
        group.start_soon(deferred(self._run), func, args, name=name)

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
