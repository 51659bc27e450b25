"""Bloom filters: what may be in a row group, and how a literal of each type is hashed.

Knows how writers turn values into the bytes or integers that they hash. Must not know who wrote a filter
and whether it may be believed (`column_statistics.Trust`), nor protobuf (`codec.metadata` makes these
values). Contract: `may_contain` is false only where none of the values was added; hashes are computed once
for a question and tested against any number of filters. Specification: "Bloom Filter Index"; ORC-101,
ORC-135.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.metadata._bloom import contains_any, hash_bytes, hash_longs
from orcstream.schema.types import FLOATS, INT64, INTEGERS, TIMES, Kind, Type

# ORC Java takes 1 to some 30 hashes; a filter that asks for thousands only costs time.
MAX_HASHES = 256
_NANOS_PER_MS = 1_000_000
# 1582-10-16: days before it depend on the calendars of file and reader.
FIRST_SURE_DAY = -141_426
_FIRST_SURE_TIME = 1_000_000_000

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """One row group's filter: 64-bit words, little-endian, not none; 1 to `MAX_HASHES` hashes a value."""

    bits: bytes
    hash_count: int

    def may_contain(self, hashes: Hashes) -> bool:
        """Whether one of the values of these hashes may have been added. Of no hashes: false."""
        return contains_any(self.bits, self.hash_count, hashes)


@dataclass(frozen=True, slots=True)
class BloomIndex:
    """The filters of one column in one stripe, one for each row group; None where one cannot be used.

    `utf8` tells streams of kind BLOOM_FILTER_UTF8 from the original BLOOM_FILTER; `encoding` is the
    `bloom_encoding` of the column in that stripe.
    """

    filters: tuple[BloomFilter | None, ...]
    utf8: bool
    encoding: int = 0

    def __len__(self) -> int:
        return len(self.filters)


def hashes_of(type_: Type, literals: Sequence[int | float | bytes]) -> Hashes | None:
    """The hashes under which writers may have added these (canonical) values; None where that can't be told.

    A literal may have several: zero has a sign, CHAR is padded or not. Of timestamps, the milliseconds on the
    wall clock of UTC are hashed: the caller sees to it that values are read by the same clock.
    """
    kind = type_.kind
    values: Any = literals  # of the kind's own type
    if kind in INTEGERS:
        return _of_integers(values)
    if kind is Kind.DATE:
        return _of_integers(values) if all(day >= FIRST_SURE_DAY for day in values) else None
    if kind in TIMES:
        # Times of the second before 1970 were hashed as such, but are read back a second late (ORC-763).
        if any(time < _FIRST_SURE_TIME for time in values):
            return None
        return _of_integers(time // _NANOS_PER_MS for time in values)
    if kind in FLOATS:
        return _of_floats(list(map(float, values)))
    if kind is Kind.DECIMAL:
        if type_.precision is None:  # Hive 0.11: values have scales of their own
            return None
        return _of_bytes(_decimal_text(n, type_.scale or 0) for n in values)
    if kind in (Kind.STRING, Kind.VARCHAR, Kind.BINARY):
        return _of_bytes(values)
    if kind is Kind.CHAR:
        return _of_bytes(form for text in values for form in _char_forms(text, type_.max_length or 0))
    return None


def _of_integers(values: Iterable[int]) -> Hashes:
    numbers = np.array([value for value in values if value in INT64], np.int64)
    out = np.empty(len(numbers), np.uint64)
    hash_longs(numbers, out)
    return out


def _of_floats(values: Sequence[float]) -> Hashes | None:
    """Doubles by their bits; floats are widened first, though the specification speaks of their 32 bits."""
    if any(value != value for value in values):  # noqa: PLR0124  # a NaN: equal to what, and with which bits
        return None
    both = [form for value in values for form in ((0.0, -0.0) if value == 0 else (value,))]
    return _of_integers(np.array(both, "f8").view("i8").tolist())


def _of_bytes(values: Iterable[bytes]) -> Hashes:
    return np.array([hash_bytes(value) for value in values], np.uint64)


def _decimal_text(unscaled: int, scale: int) -> bytes:
    """As Hive prints decimals: no trailing zeros behind the point, no point where nothing follows."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :].rstrip("0")
    text = f"{whole}.{fraction}" if fraction else whole
    return (f"-{text}" if unscaled < 0 else text).encode()


def _char_forms(text: bytes, length: int) -> set[bytes]:
    trimmed = text.rstrip(b" ")
    missing = length - len(trimmed.decode("utf-8", "replace"))
    return {text, trimmed, trimmed + b" " * missing}
