"""How much of what could be tried is tried: all of it in `make test-all`, a share of it in `make test`.

Searches (random schemas, damage, selections) find more the longer they last, and none is ever complete. What
is written down case by case runs whole, but for combinations that are marked `sampled`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

__all__ = ["ALL", "STEP", "is_in_sample", "share", "some"]

A = TypeVar("A")

ALL: Final = os.environ.get("ORCSTREAM_TEST_ALL") == "1"
# Of the places along a program at which it is broken off, each so many-th.
STEP: Final = 1 if ALL else 3


def share(count: int, part: int = 10) -> int:
    """How many tries, of as many as `make test-all` makes."""
    return count if ALL else max(3, count // part)


def is_in_sample(name: str, part: int = 4) -> bool:
    """Whether one of many combinations is tried; always the same ones, spread over all settings."""
    return ALL or zlib.crc32(name.encode()) % part == 0


def some(items: Sequence[A], part: int = 3) -> Sequence[A]:
    """Each so many of them."""
    return items if ALL else items[::part]
