"""Statistics of a column's values as messages (specification: "Column Statistics"): honest and false ones.

What the reference implementations record, from the values alone. `Statistics` is what a builder takes, so a
test can put any other function in the place of `honest`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from . import wire
from .types import T
from .values import NANOS
from .varint import zigzag

Statistics = Callable[[T, Sequence[Any]], bytes]
_LONGEST = 1024
_MS = NANOS // 1000  # nanoseconds of a millisecond


def honest(type_: T, found: Sequence[Any]) -> bytes:
    """The statistics of values of which some may be None."""
    there = [value for value in found if value is not None]
    return wire.message((1, len(there)), *_typed(type_, there), (10, int(len(there) < len(found))))


def of_the_first(type_: T, found: Sequence[Any]) -> bytes:
    """A lie that would drop most rows: all values are like the first one, and none is null."""
    there = [value for value in found if value is not None][:1]
    return wire.message((1, len(found)), *_typed(type_, there), (10, 0))


def counts_only(type_: T, found: Sequence[Any]) -> bytes:
    """What says nothing of the values, nor whether nulls are among them."""
    return wire.message((1, sum(value is not None for value in found)))


def of_nothing(_type: T, _found: Sequence[Any]) -> bytes:
    """No value and no null, as some writers say of what they did not count (HIVE-20604)."""
    return wire.message((1, 0), (10, 0))


def without_nulls_flag(type_: T, found: Sequence[Any]) -> bytes:
    """As writers before Hive 1.2: nothing says outright whether nulls are among the values."""
    there = [value for value in found if value is not None]
    return wire.message((1, len(there)), *_typed(type_, there))


def local_times(statistics: Statistics) -> Statistics:
    """Timestamps as they were recorded before ORC-135: milliseconds of some wall clock."""

    def make(type_: T, found: Sequence[Any]) -> bytes:
        data = statistics(type_, found)
        if not type_.kind.startswith("timestamp"):
            return data
        fields = wire.parse(data)
        utc = wire.parse(wire.blob(fields, 9)) if 9 in fields else {}
        local = [(key - 2, wire.number(utc, key)) for key in (3, 4) if key in utc]
        return wire.message(
            (1, wire.number(fields, 1)), (9, wire.message(*local)), (10, wire.number(fields, 10))
        )

    return make


def _typed(type_: T, there: Sequence[Any]) -> list[wire.Field]:
    kind = type_.kind
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return [(2, _numbers(there, summed=True))]
    if kind in ("float", "double"):
        return [(3, _doubles(there))]
    if kind in ("string", "varchar", "char"):
        return [(4, _texts(there))]
    if kind == "boolean":
        return [(5, wire.message((1, [sum(there)])))]
    if kind == "decimal":
        return [(6, _decimals(there))]
    if kind == "date":
        return [(7, _numbers(there, summed=False))]
    if kind == "binary":
        return [(8, wire.message((1, zigzag(sum(map(len, there))))))]
    if kind.startswith("timestamp"):
        return [(9, _times(there))]
    if kind in ("array", "map"):
        sizes = [len(value) for value in there]
        return [
            (12, wire.message((1, min(sizes, default=None)), (2, max(sizes, default=None)), (3, sum(sizes))))
        ]
    return []


def _numbers(there: Sequence[int], *, summed: bool) -> bytes:
    if not there:
        return wire.message((3, 0)) if summed else b""
    total = sum(there)
    # Whether it overflowed on the way depends on the order; a sum that does not fit is never there.
    keep = summed and max(map(abs, there)) * len(there) < 1 << 63
    return wire.message(
        (1, zigzag(min(there))), (2, zigzag(max(there))), (3, zigzag(total) if keep else None)
    )


def _doubles(there: Sequence[float]) -> bytes:
    """As by comparing one after the other: a NaN at first stays, later ones show in the sum alone."""
    if not there:
        return wire.message((3, 0.0))
    low = high = there[0]
    for value in there:
        low, high = (min(low, value)), (max(high, value))
    total = math.nan if any(not math.isfinite(value) for value in there) else sum(there)
    return wire.message((1, float(low)), (2, float(high)), (3, float(total)))


def _texts(there: Sequence[str]) -> bytes:
    """In the order of UTF-8 bytes. Long bounds are cut, the upper one counted up."""
    if not there:
        return b""
    low, high = (pick(there, key=str.encode) for pick in (min, max))
    lower, upper = _cut(low), _cut(high)
    if upper != high:
        upper = upper[:-1] + _next(upper[-1])
    return wire.message(
        (1, low if lower == low else None),
        (2, high if len(high.encode()) <= _LONGEST else None),
        (3, zigzag(sum(len(value.encode()) for value in there))),
        (4, lower if lower != low else None),
        (5, upper if len(high.encode()) > _LONGEST else None),
    )


def _cut(text: str) -> str:
    return text.encode()[:_LONGEST].decode(errors="ignore")


def _next(character: str) -> str:
    number = ord(character) + 1
    return chr(0xE000 if 0xD800 <= number < 0xE000 else number)


def _decimals(there: Sequence[Decimal]) -> bytes:
    if not there:
        return b""
    texts = [format(value, "f") for value in (min(there), max(there))]
    return wire.message((1, texts[0]), (2, texts[1]))


def _times(there: Sequence[int]) -> bytes:
    """Milliseconds of UTC (of the wall clock as if it were UTC), and what is below, plus one."""
    if not there:
        return b""
    fields: list[wire.Field] = []
    for key, value in ((3, min(there)), (4, max(there))):
        fields.append((key, zigzag(value // _MS)))
    below = min(there) % _MS, max(there) % _MS
    fields.append((5, below[0] + 1 if below[0] else None))
    fields.append((6, below[1] + 1 if below[1] != _MS - 1 else None))
    return wire.message(*fields)
