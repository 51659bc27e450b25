"""Statistics of the values in vectors: what a writer records of a row group.

Knows which numbers each type has, and the units of vectors. Must not know protobuf
(`codec.metadata.write`) nor how statistics of several row groups become those of a stripe
(`column_statistics.merge`). Contract: exact, but for sums of floating point, which are added up in the
order of rows. As ORC Java records them, with these choices where it leaves the answer to the order of
values or to chance:

- Bounds of floating point pass over NaN, whose presence shows in the sum, so that readers who look at bounds
  alone lose no number; a zero as lower bound is negative and as upper bound positive, since ORC Java compares
  literals with them by Double.compare.
- The sum of integers is left out only where the whole of it does not fit 64 bits, of decimals 38 digits.
- Of lists and maps the items are counted, as ORC C++ does; ORC Java 2.3.0 records the rows of its batches.
- An upper bound of text that is cut stays valid UTF-8; where nothing can be counted up there is none.

Specification: "Column Statistics"; ORC-203 (long texts), ORC-135 (timestamps).
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np

from orcstream.codec.encode._statistics import decimal_bounds, float_bounds, integer_bounds, text_bounds
from orcstream.codec.vectors.cells import Cells, cells_of, lengths_of, stored_texts
from orcstream.codec.vectors.column import Field, Vector, bits_of
from orcstream.schema.column_statistics import MAX_TEXT_BYTES, ColumnStatistics
from orcstream.schema.types import INT64, TEXTS, TIMES, FileColumn, Kind, Type, decimal_shape

# One byte more than a bound may have tells whether a text is longer, and whether it may be cut there.
MOST_BOUND_BYTES = MAX_TEXT_BYTES + 1

_INTEGERS = {Kind.BYTE: 1, Kind.SHORT: 2, Kind.INT: 4, Kind.LONG: 8}
_FLOATS = {Kind.FLOAT: 4, Kind.DOUBLE: 8}
_COLLECTIONS = frozenset((Kind.LIST, Kind.MAP))
_NAMES = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(_FLOATS, "double"),
    **dict.fromkeys(TIMES, "timestamp"),
    Kind.BOOLEAN: "boolean",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.DECIMAL: "decimal",
}
# The sums of no values.
_SUMMED: dict[Kind, Any] = {
    **dict.fromkeys(_INTEGERS, 0),
    **dict.fromkeys(_FLOATS, 0.0),
    Kind.BOOLEAN: 0,
    Kind.BINARY: 0,
    Kind.DECIMAL: Decimal(0),
}
_UNBOUND = frozenset((Kind.BOOLEAN, Kind.BINARY))
_UNIT_NS = {"s": 10**9, "m": 10**6, "u": 10**3, "n": 1}
_EXACT = Context(prec=100)
_MAX_DIGITS = 38
_LAST_CHARACTER = 0x10FFFF
_MAX_CONTINUATION = 3
_SURROGATES = range(0xD800, 0xE000)


def statistics_of(field: Field, vector: Vector) -> dict[FileColumn, ColumnStatistics]:
    """Statistics of the rows of a vector for its column and all columns below it, by column id.

    Timestamps count from 1970 in the clock that the vector is in: the wall clock for TIMESTAMP, UTC for
    instants. Texts of CHAR count as files hold them, padded with blanks. Raises ValueError for offsets beyond
    their buffers.
    """
    return {cells.field.type.column_id: statistics_of_cells(cells) for cells in cells_of(field, vector)}


def statistics_of_cells(cells: Cells) -> ColumnStatistics:
    """Statistics of one column's rows."""
    found = _counted(cells) if cells.value_count else (None, None, 0)
    return recorded_statistics(cells.field.type, cells.value_count, cells.has_null, *found)


def statistics_of_nothing(type_: Type) -> ColumnStatistics:
    """Statistics of a column that has no rows."""
    return recorded_statistics(type_, 0, False, None, None, 0)  # as an encoder has them


def recorded_statistics(
    type_: Type, value_count: int, has_null: bool, least: Any, largest: Any, total: Any
) -> ColumnStatistics:
    """Statistics of so many values with these bounds and this sum.

    Of timestamps the bounds are nanoseconds, of texts at most `MOST_BOUND_BYTES`, of lists and maps numbers
    of items, and of decimals they are unscaled. Without values there are none.
    """
    found = _recorded(type_, value_count, least, largest, total)
    return ColumnStatistics(value_count=value_count, has_null=has_null, **found)


def _recorded(type_: Type, value_count: int, least: Any, largest: Any, total: Any) -> dict[str, Any]:
    kind = type_.kind
    if kind in TEXTS:
        return text_statistics(least, largest, total)
    if kind in _COLLECTIONS:
        counts = {"min_children": least, "max_children": largest, "total_children": total}
        return counts if value_count else {}
    name = _NAMES.get(kind)
    if name is None:
        return {}
    found: dict[str, Any] = {"kind": name}
    if kind in _SUMMED:
        found["sum"] = _SUMMED[kind] if not value_count else total
    if not value_count or kind in _UNBOUND:
        return found
    if kind in _FLOATS:
        least, largest = _float_bounds(least, largest)
    elif kind is Kind.DECIMAL:
        least, largest, found["sum"] = _decimals(decimal_shape(type_)[1], least, largest, total)
    elif kind in _INTEGERS and total not in INT64:
        found["sum"] = None
    return {**found, "minimum": least, "maximum": largest}


def _float_bounds(least: float, largest: float) -> tuple[float, float]:
    if least > largest:
        return float("nan"), float("nan")
    return -0.0 if least == 0 else least, 0.0 if largest == 0 else largest


def _decimals(scale: int, least: int, largest: int, total: int) -> tuple[Decimal, Decimal, Decimal | None]:
    found = [Decimal(number).scaleb(-scale, _EXACT) for number in (least, largest, total)]
    return found[0], found[1], found[2] if abs(total) < 10**_MAX_DIGITS else None


def _counted(cells: Cells) -> tuple[Any, Any, Any]:
    """(least, largest, sum) of the values of a vector, of which there are some."""
    kind, vector = cells.field.type.kind, cells.vector
    place = (vector.buffers[-1] if vector.buffers else None, vector.offset, vector.length)
    mask = None if cells.mask is None else cells.mask.view(np.uint8)
    if kind in _INTEGERS:
        return integer_bounds(*place, _INTEGERS[kind], mask)[1:]
    if kind in _FLOATS:
        return float_bounds(*place, _FLOATS[kind], mask)[1:]
    if kind in TEXTS or kind is Kind.BINARY:
        return text_bounds(stored_texts(cells.field.type, vector), MOST_BOUND_BYTES, mask)[1:]
    if kind is Kind.BOOLEAN:
        found = bits_of(vector)
        return None, None, int(np.count_nonzero(found if cells.mask is None else found & cells.mask))
    if kind is Kind.DECIMAL:
        return decimal_bounds(*place, mask)[1:]
    if kind is Kind.DATE:
        return integer_bounds(*place, 4, mask)[1:]
    if kind in TIMES:
        unit = _UNIT_NS[cells.field.format[2]]
        _, least, largest, _ = integer_bounds(*place, 8, mask)
        return least * unit, largest * unit, None
    if kind in _COLLECTIONS:
        lengths = lengths_of(vector) if cells.mask is None else lengths_of(vector)[cells.mask]
        return int(lengths.min()), int(lengths.max()), int(lengths.sum(dtype=np.int64))
    return None, None, None


# --- texts -----------------------------------------------------------------------------------------


def text_statistics(least: bytes | None, largest: bytes | None, total: int) -> dict[str, Any]:
    """What statistics say of texts: the least and the largest of them, and the bytes of all.

    Of either, `MOST_BOUND_BYTES` are enough; both are None where there are no texts.
    """
    if least is None or largest is None:
        return {"kind": "string"}
    found: dict[str, Any] = {"kind": "string", "sum": total}
    try:
        if len(least) <= MAX_TEXT_BYTES:
            found["minimum"] = least.decode()
        else:
            found["lower_bound"] = _cut(least)
        if len(largest) <= MAX_TEXT_BYTES:
            found["maximum"] = largest.decode()
        else:
            found["upper_bound"] = _next_text(_cut(largest))
    except UnicodeDecodeError:
        # Texts of unknown encoding have no bounds that a file could hold.
        return {"kind": "string", "sum": total}
    return found


def _cut(text: bytes) -> str:
    """At most `MAX_TEXT_BYTES` of a longer text, up to the border of a character."""
    stop = MAX_TEXT_BYTES
    while text[stop] & 0xC0 == 0x80 and stop > MAX_TEXT_BYTES - _MAX_CONTINUATION:
        stop -= 1
    return text[:stop].decode()


def _next_text(text: str) -> str | None:
    """A text above all that begin with this one; None where there is none."""
    text = text.rstrip(chr(_LAST_CHARACTER))
    if not text:
        return None
    code = ord(text[-1]) + 1
    return text[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)
