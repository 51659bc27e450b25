"""What the blocking names are made of: calls that are waited for, and objects whose methods are.

Knows that there is an event loop on a thread of its own (`blocking.loop`); each call hands it a coroutine and
waits. Must not know what is called: what has no explicit method in a class here is passed on, so that new
methods of the asynchronous classes are there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from orcstream._keywords import explain, explained
from orcstream.blocking.loop import LoopThread, the_loop

T = TypeVar("T")
P = ParamSpec("P")


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
