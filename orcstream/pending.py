"""What `open`, `create` and `ingest` answer before anybody has waited for it.

Knows how it looks to somebody who forgot to wait: the commonest slip of asynchronous programs. Must not know
what is waited for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

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
