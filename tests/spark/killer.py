"""A driver that dies before a request that changes the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import orcstream
from orcstream.io import sink, small_files
from orcstream.log import records
from orcstream.spark.write import written

__all__ = ["Killed", "Killer"]


class Killed(BaseException):
    """The driver is no more."""


class Killer:
    """Lets so many steps pass, and kills before the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for home, name in (
            (small_files, "put"),
            (written, "remove_paths"),
            (records, "remove_files"),
            (written, "discard_files"),
            (sink, "commit"),
            (orcstream, "merge"),
        ):
            monkeypatch.setattr(home, name, self._wrapped(getattr(home, name)))

    def _wrapped(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def step(*arguments: Any, **options: Any) -> Any:
            if self.left is None:
                return await call(*arguments, **options)
            self.left -= 1
            if self.left >= 0:
                return await call(*arguments, **options)
            raise Killed

        return step
