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
    return ColumnStatistics(value_count=cells.value_count, has_null=cells.has_null, **_typed(cells))


def statistics_of_nothing(type_: Type) -> ColumnStatistics:
    """Statistics of a column that has no rows."""
    format_ = "tsn:" if type_.kind in TIMES else ""
    return statistics_of_cells(Cells(Field("", format_, type_), Vector(0, ()), None, 0, has_null=False))


def _typed(cells: Cells) -> dict[str, Any]:
    kind, vector = cells.field.type.kind, cells.vector
    place = (vector.buffers[-1] if vector.buffers else None, vector.offset, vector.length)
    mask = None if cells.mask is None else cells.mask.view(np.uint8)
    if kind in _INTEGERS:
        return _integers(cells, place, mask)
    if kind in _FLOATS:
        return _floats(cells, place, mask)
    if kind in TEXTS:
        return _texts(cells, mask)
    if kind is Kind.BINARY:
        if not cells.value_count:
            return {"kind": "binary", "sum": 0}
        *_, total = text_bounds(stored_texts(cells.field.type, vector), 0, mask)
        return {"kind": "binary", "sum": total}
    if kind is Kind.BOOLEAN:
        if not cells.value_count:
            return {"kind": "boolean", "sum": 0}
        found = bits_of(vector)
        return {
            "kind": "boolean",
            "sum": int(np.count_nonzero(found if cells.mask is None else found & cells.mask)),
        }
    if kind is Kind.DECIMAL:
        return _decimals(cells, place, mask)
    if kind is Kind.DATE:
        return _days(cells, place, mask)
    if kind in TIMES:
        return _times(cells, place, mask)
    if kind in (Kind.LIST, Kind.MAP):
        return _collections(cells)
    return {}


_Place = tuple[Any, int, int]


def _integers(cells: Cells, place: _Place, mask: Any) -> dict[str, Any]:
    if not cells.value_count:
        return {"kind": "integer", "sum": 0}
    _, least, largest, total = integer_bounds(*place, _INTEGERS[cells.field.type.kind], mask)
    return {
        "kind": "integer",
        "minimum": least,
        "maximum": largest,
        "sum": total if total in INT64 else None,
    }


def _floats(cells: Cells, place: _Place, mask: Any) -> dict[str, Any]:
    if not cells.value_count:
        return {"kind": "double", "sum": 0.0}
    _, least, largest, total = float_bounds(*place, _FLOATS[cells.field.type.kind], mask)
    if least > largest:
        least = largest = float("nan")
    return {
        "kind": "double",
        "minimum": -0.0 if least == 0 else least,
        "maximum": 0.0 if largest == 0 else largest,
        "sum": total,
    }


def _decimals(cells: Cells, place: _Place, mask: Any) -> dict[str, Any]:
    if not cells.value_count:
        return {"kind": "decimal", "sum": Decimal(0)}
    _, scale = decimal_shape(cells.field.type)
    _, least, largest, total = decimal_bounds(*place, mask)
    return {
        "kind": "decimal",
        "minimum": Decimal(least).scaleb(-scale, _EXACT),
        "maximum": Decimal(largest).scaleb(-scale, _EXACT),
        "sum": Decimal(total).scaleb(-scale, _EXACT) if abs(total) < 10**_MAX_DIGITS else None,
    }


def _days(cells: Cells, place: _Place, mask: Any) -> dict[str, Any]:
    if not cells.value_count:
        return {"kind": "date"}
    _, least, largest, _ = integer_bounds(*place, 4, mask)
    return {"kind": "date", "minimum": least, "maximum": largest}


def _times(cells: Cells, place: _Place, mask: Any) -> dict[str, Any]:
    if not cells.value_count:
        return {"kind": "timestamp"}
    unit = _UNIT_NS[cells.field.format[2]]
    _, least, largest, _ = integer_bounds(*place, 8, mask)
    return {"kind": "timestamp", "minimum": least * unit, "maximum": largest * unit}


def _collections(cells: Cells) -> dict[str, Any]:
    if not cells.value_count:
        return {}
    lengths = lengths_of(cells.vector)
    if cells.mask is not None:
        lengths = lengths[cells.mask]
    return {
        "min_children": int(lengths.min()),
        "max_children": int(lengths.max()),
        "total_children": int(lengths.sum(dtype=np.int64)),
    }


# --- texts -----------------------------------------------------------------------------------------


def _texts(cells: Cells, mask: Any) -> dict[str, Any]:
    _, least, largest, total = text_bounds(
        stored_texts(cells.field.type, cells.vector), MOST_BOUND_BYTES, mask
    )
    return text_statistics(least, largest, total)


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
