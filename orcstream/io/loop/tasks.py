"""How tasks of one event loop wait for each other, keep out of each other's way, and fail together.

Knows tasks, and what ends with a block of theirs. Must not know what they do. For the loop's own thread:
other threads come through `call_soon_threadsafe`. What happens once is an `anyio.Event`, which stays set.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar, overload

import anyio
import anyio.lowlevel

from orcstream.errors import Unsupported, UsageError

A = TypeVar("A")
B = TypeVar("B")


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
    items: Iterable[A], work: Callable[[A], Awaitable[B]], *, at_once: int = 16
) -> list[B]:
    """What each call answers, in the order of the items. Raises the first failure."""
    numbered = list(enumerate(items))
    waiting = iter(numbered)
    found: dict[int, B] = {}

    async def run() -> None:
        for at, item in waiting:
            await anyio.lowlevel.checkpoint()
            found[at] = await work(item)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in numbered[:at_once]:
                tasks.start_soon(run)
    except BaseExceptionGroup as group:
        raise first_failure(group) from None
    return [found[at] for at in sorted(found)]


def need_asyncio() -> None:
    """Raise `Unsupported` where no loop of asyncio runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise Unsupported(
            "the clients of stores need asyncio; run this with asyncio, or trio's guest mode", reason="trio"
        ) from None
