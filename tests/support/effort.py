"""How much of what could be tried is tried: all of it in `make test-all`, a share of it in `make test`.

Searches (random schemas, damage, selections) find more the longer they last, and none is ever complete. What
is written down case by case runs whole, but for combinations that are marked `sampled`.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

__all__ = ["ALL", "DENSE_TURNS", "STEP", "is_in_sample", "pairs", "share", "some"]

A = TypeVar("A")
B = TypeVar("B")

ALL: Final = os.environ.get("ORCSTREAM_TEST_ALL") == "1"
# Of the places along a program at which it is broken off, each so many-th.
STEP: Final = 1 if ALL else 4
# Of the turns of the event loop at which calls to a store are cancelled, so many are tried one by one.
DENSE_TURNS: Final = 25 if ALL else 8


def share(count: int, part: int = 12) -> int:
    """How many tries, of as many as `make test-all` makes."""
    return count if ALL else max(3, count // part)


def is_in_sample(name: str, part: int = 5) -> bool:
    """Whether one of many combinations is tried; always the same ones, spread over all settings."""
    return ALL or zlib.crc32(name.encode()) % part == 0


def some(items: Sequence[A], part: int = 3) -> Sequence[A]:
    """Each so many of them."""
    return items if ALL else items[::part]


def pairs(first: Iterable[A], second: Sequence[B]) -> list[tuple[A, B]]:
    """Each of the first with each of the second; in `make test` with one of them, the next one each time."""
    if ALL:
        return list(itertools.product(first, second))
    return list(zip(first, itertools.cycle(second), strict=False))
