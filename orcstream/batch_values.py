"""Vectors as Python and numpy values.

Knows the Arrow layout of vectors and what Python and numpy make of each format. Must not know batches,
stripes or I/O. Contract: no value is changed on its way. What Python's own types cannot hold exactly (a
timestamp with nanoseconds, a year past 9999) comes as `numpy.datetime64`; everything else of a column as
the type that `to_pylist` names.
"""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from orcstream.codec.vectors.column import (
    Array,
    Field,
    Mask,
    Vector,
    bits_of,
    items_of,
    offsets_of,
    validity_bits,
    window,
    words_of,
)
from orcstream.errors import Unsupported


class UnionValue(NamedTuple):
    """A value of a union column: the `tag` of the child it belongs to (from 0), and the `value` itself."""

    tag: int
    value: Any


_DTYPES = {"c": "i1", "s": "i2", "i": "i4", "l": "i8", "f": "f4", "g": "f8"}
_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
# datetime.date and datetime.datetime hold the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_SECOND, _LAST_SECOND = _FIRST_DAY * 86_400, (_LAST_DAY + 1) * 86_400 - 1
# Exact for 38 digits, which the default context (28) would round.
_PRECISION = 77


def to_pylist(field: Field, vector: Vector) -> list[Any]:
    """The values as Python objects, nulls as None.

    bool, int, float, str, bytes, Decimal; date; datetime (naive for TIMESTAMP, with UTC for
    TIMESTAMP_INSTANT), each where it holds the value exactly, else `numpy.datetime64` (which knows no zone:
    an instant's is UTC); list; dict for structs; a list of (key, value) tuples for maps;
    `UnionValue` for unions, None where it is a null of child 0 (which null unions are, too).
    """
    if field.dictionary is not None and vector.dictionary is not None:
        entries = to_pylist(field.dictionary, vector.dictionary)
        # A null's index may be anything.
        return [None if i is None else entries[i] for i in _nulled(items_of(vector, "i4").tolist(), vector)]
    kind = field.format
    if kind.startswith("+ud:"):
        return _unions(field, vector)
    if kind == "+s":
        values = _structs(field, vector)
    elif kind in ("+l", "+m"):
        values = _lists(field, vector)
    elif kind in ("u", "z"):
        values = _texts(kind, vector)
    elif kind == "b":
        values = bits_of(vector).tolist()
    elif kind == "tdD":
        values = _dates(vector)
    elif kind.startswith("ts"):
        values = _timestamps(kind, vector)
    elif kind.startswith("d:"):
        values = _decimals(kind, vector)
    else:
        values = items_of(vector, _DTYPES[kind]).tolist()
    return _nulled(values, vector)


def to_numpy(field: Field, vector: Vector) -> Array:
    """The values as one array.

    Numbers and timestamps (`datetime64` of the column's unit) are read-only views of the vector's memory;
    booleans and dates (`datetime64[D]`) are converted. Where there are nulls, these come as a
    `numpy.ma.MaskedArray`. All other types come as arrays of the objects of `to_pylist`.
    """
    kind = field.format
    array: Array
    if field.dictionary is not None:
        return _objects(to_pylist(field, vector))
    if kind in _DTYPES:
        array = _shared(items_of(vector, _DTYPES[kind]))
    elif kind == "b":
        array = bits_of(vector)
    elif kind == "tdD":
        array = items_of(vector, "i4").astype("i8").view("M8[D]")
    elif kind.startswith("ts"):
        array = _shared(items_of(vector, "i8")).view(f"M8[{_UNITS[kind[2]]}]")
    else:
        return _objects(to_pylist(field, vector))
    valid = _validity(vector)
    return array if valid is None else np.ma.MaskedArray(array, mask=~valid)


def has_duplicates(fields: tuple[Field, ...]) -> bool:
    """Whether two fields share a name; ORC allows it, dictionaries do not."""
    return len({field.name for field in fields}) < len(fields)


# --- parts of a vector ----------------------------------------------------------------------------


def _shared(array: Array) -> Array:
    array.flags.writeable = False  # batches share their memory with each other
    return array


def _validity(vector: Vector) -> Mask | None:
    """True where a value is; None when no value is null. Not for unions."""
    valid = validity_bits(vector)
    return None if valid is None or valid.all() else valid


def _nulled(values: list[Any], vector: Vector) -> list[Any]:
    valid = _validity(vector)
    if valid is None:
        return values
    return [value if ok else None for value, ok in zip(values, valid.tolist(), strict=True)]


def _objects(values: list[Any]) -> Array:
    # Not np.array: it would make two dimensions of lists of equal lengths.
    return np.fromiter(values, dtype=object, count=len(values))


# --- values of each format, whatever stands where nulls are ---------------------------------------


def _texts(kind: str, vector: Vector) -> list[Any]:
    offsets = offsets_of(vector).tolist()
    first = offsets[0]
    data = window(vector.buffers[2], "u1", first, offsets[-1] - first).tobytes()
    spans = [(start - first, stop - first) for start, stop in pairwise(offsets)]
    if kind == "z":
        return [data[start:stop] for start, stop in spans]
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in spans]
    return [data[start:stop].decode() for start, stop in spans]


def _dates(vector: Vector) -> list[Any]:
    days = items_of(vector, "i4").astype("i8")
    fits = (days >= _FIRST_DAY) & (days <= _LAST_DAY)
    dates: list[datetime.date] = np.where(fits, days, 0).view("M8[D]").tolist()
    return _exact(dates, fits, days.view("M8[D]"))


def _timestamps(kind: str, vector: Vector) -> list[Any]:
    unit = _UNITS[kind[2]]
    ticks = items_of(vector, "i8")
    if unit == "ns":
        micros = ticks // 1000
        fits = micros * 1000 == ticks
    else:
        per_second = _PER_SECOND[unit]
        fits = (ticks >= _FIRST_SECOND * per_second) & (ticks < (_LAST_SECOND + 1) * per_second)
        micros = np.where(fits, ticks, 0) * (1_000_000 // per_second)
    times: list[datetime.datetime] = micros.view("M8[us]").tolist()
    if kind.endswith(":UTC"):
        times = [time.replace(tzinfo=datetime.UTC) for time in times]
    return _exact(times, fits, ticks.view(f"M8[{unit}]"))


def _exact(values: list[Any], fits: Mask, originals: Array) -> list[Any]:
    """`values`, with the original where the value does not fit its Python type."""
    for index in np.flatnonzero(~fits).tolist():
        values[index] = originals[index]
    return values


def _decimals(kind: str, vector: Vector) -> list[Any]:
    exponent = -int(kind.split(",")[1])
    words = words_of(vector)
    low, high = words[0::2], words[1::2]
    numbers: list[int] = low.tolist()
    if not np.array_equal(high, low >> 63):
        unsigned = low.view("u8").tolist()
        numbers = [(top << 64) + bottom for top, bottom in zip(high.tolist(), unsigned, strict=True)]
    context = Context(prec=_PRECISION)
    return [Decimal(number).scaleb(exponent, context) for number in numbers]


def _lists(field: Field, vector: Vector) -> list[Any]:
    offsets = offsets_of(vector).tolist()
    first = offsets[0]
    child = vector.children[0].slice(first, offsets[-1])
    item = field.children[0]
    values = _entries(item, child) if field.format == "+m" else to_pylist(item, child)
    return [values[start - first : stop - first] for start, stop in pairwise(offsets)]


def _entries(entries: Field, vector: Vector) -> list[Any]:
    return list(zip(*_columns(entries, vector), strict=True))


def _structs(field: Field, vector: Vector) -> list[Any]:
    if has_duplicates(field.children):
        raise Unsupported(
            f"the struct {field.name!r} has several fields of one name, which a dictionary cannot hold; "
            "choose columns, or read it through Arrow",
            reason="duplicate_names",
        )
    if not field.children:
        return [{} for _ in range(vector.length)]
    names = [child.name for child in field.children]
    return [dict(zip(names, row, strict=True)) for row in zip(*_columns(field, vector), strict=True)]


def _columns(field: Field, vector: Vector) -> list[list[Any]]:
    return list(map(to_pylist, field.children, vector.struct_children()))


def _unions(field: Field, vector: Vector) -> list[Any]:
    tags = window(vector.buffers[0], "u1", vector.offset, vector.length)
    offsets = items_of(vector, "i4")
    values = np.empty(vector.length, dtype=object)
    for tag, (child, column) in enumerate(zip(field.children, vector.children, strict=True)):
        rows = tags == tag
        own = offsets[rows]
        if own.size:
            # A child's values stand in order, so these are the ends of what this slice of the union uses.
            first, last = int(own[0]), int(own[-1])
            found = to_pylist(child, column.slice(first, last + 1))
            tagged = [None if tag == 0 and value is None else UnionValue(tag, value) for value in found]
            values[rows] = _objects(tagged)[own - first]
    listed: list[Any] = values.tolist()
    return listed
