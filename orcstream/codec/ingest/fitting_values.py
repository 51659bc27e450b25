"""Arrow columns without children as vectors: numbers, times and texts.

Knows the Arrow layouts of values, and which of their values each ORC type takes. Must not know lists,
structs, unions nor dictionaries: those are in `codec.ingest.fitting`, which also says what is promised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np

from orcstream.codec.arrow._arrow_import import ArrowColumn
from orcstream.codec.ingest._ingest import check_texts, fit_decimals, texts_of_views
from orcstream.codec.ingest.refusals import Path, refuse, too_large
from orcstream.codec.vectors._selection import count_nulls
from orcstream.codec.vectors._texts import cut_texts
from orcstream.codec.vectors.column import (
    DTYPES,
    MAX_VECTOR_BYTES,
    Array,
    Field,
    Mask,
    Vector,
    as_buffer,
    pack,
    unpack,
    window,
)
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, Kind, decimal_shape

if TYPE_CHECKING:
    from typing_extensions import Buffer

Fitted: TypeAlias = tuple[Field, Vector]
Fit: TypeAlias = Callable[[ArrowColumn, Field, Path, Mask | None], Fitted]

INTEGER_FORMATS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8"}
FLOAT_FORMATS = {"e": "f2", "f": "f4", "g": "f8"}
# Up to which all integers are floating point numbers.
_EXACT = {"f4": 1 << 24, "f8": 1 << 53}
_DAY_MS = 86_400_000
_DECIMAL = re.compile(r"d:([0-9]{1,9}),(-?[0-9]{1,9})(?:,([0-9]{1,9}))?")


class Nulls(NamedTuple):
    """Which of `rows` rows are null: a bitmap from bit 0 on, how many, and which are not.

    Bitmap and mask are None where none is null.
    """

    rows: int
    bitmap: Buffer | None = None
    nulls: int = 0
    mask: Mask | None = None

    def vector(self, *buffers: Any, children: tuple[Vector, ...] = ()) -> Vector:
        """The vector of the rows with these buffers besides the bitmap."""
        return Vector(self.rows, (self.bitmap, *buffers), self.nulls, children=children)


# --- parts of columns ------------------------------------------------------------------------------


def stored(column: ArrowColumn, dtype: str, index: int = 1) -> Array:
    return window(column.buffers[index], dtype, column.offset, column.length)


def _bitmap(buffer: Buffer, start: int, count: int) -> Buffer:
    """The bits from bit 0 on; shared where that is possible."""
    if start % 8:
        return pack(unpack(buffer, start, count))
    return as_buffer(window(buffer, "u1", start // 8, (count + 7) // 8))


def nulls_in(column: ArrowColumn, live: Mask | None) -> Nulls:
    count, start = column.length, column.offset
    bits = column.buffers[0]
    if live is not None and live.all():
        live = None
    if bits is None or not count_nulls(bits, start, count):
        return Nulls(count) if live is None else _nulls(pack(live), live)
    mask = unpack(bits, start, count)
    if live is None:
        return _nulls(_bitmap(bits, start, count), mask)
    mask = mask & live
    return _nulls(pack(mask), mask)


def _nulls(bitmap: Buffer, mask: Mask) -> Nulls:
    return Nulls(len(mask), bitmap, len(mask) - int(np.count_nonzero(mask)), mask)


def first_bad(bad: Mask, mask: Mask | None) -> int | None:
    """The first row that is bad and not null."""
    if mask is not None:
        bad = bad & mask
    return int(bad.argmax()) if bad.any() else None


def wrong_format(column: ArrowColumn, field: Field, path: Path) -> NoReturn:
    name = column.field.format
    refuse(path, field.type, f"has the Arrow format {name!r:.60}, which {field.type!s:.200} does not take")


# --- numbers and times -----------------------------------------------------------------------------


def _booleans(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    if column.field.format != "b":
        wrong_format(column, field, path)
    bits = _bitmap(column.buffers[1], column.offset, column.length)
    return field, nulls_in(column, live).vector(bits)


def _integers(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    source, target = INTEGER_FORMATS.get(column.field.format), DTYPES[field.type.kind]
    if source is None:
        wrong_format(column, field, path)
    values, nulls = stored(column, source), nulls_in(column, live)
    if source != target:
        _check_range(values, target, nulls, field, path)
        values = values.astype(target)
    return field, nulls.vector(values)


def _check_range(values: Array, target: str, nulls: Nulls, field: Field, path: Path) -> None:
    limits, own = np.iinfo(target), np.iinfo(values.dtype)
    bad = np.zeros(len(values), np.bool_)
    if own.max > limits.max:
        bad |= values > limits.max
    if own.min < limits.min:
        bad |= values < limits.min
    row = first_bad(bad, nulls.mask)
    if row is not None:
        refuse(path, field.type, f"holds {values[row]}, which {field.type} does not", row)


def _floats(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    target, format_ = DTYPES[field.type.kind], column.field.format
    source = FLOAT_FORMATS.get(format_) or INTEGER_FORMATS.get(format_)
    if source is None:
        wrong_format(column, field, path)
    values, nulls = stored(column, source), nulls_in(column, live)
    if source == target:
        return field, nulls.vector(values)
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = values.astype(target)
        if format_ in FLOAT_FORMATS:
            bad = (fitted.astype(source) != values) & ~np.isnan(values)
        else:
            most = _EXACT[target]
            bad = np.zeros(len(values), np.bool_)
            if np.iinfo(values.dtype).max > most:
                bad = values > most
                if values.dtype.kind == "i":
                    bad |= values < -most
    row = first_bad(bad, nulls.mask)
    if row is not None:
        refuse(path, field.type, f"holds {values[row]}, which {field.type} holds only rounded", row)
    return field, nulls.vector(fitted)


def _decimals(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    format_, count, start = column.field.format, column.length, column.offset
    nulls = nulls_in(column, live)
    buffer: Any = column.buffers[1] if len(column.buffers) > 1 else None
    own_scale = 0
    if found := _DECIMAL.fullmatch(format_):
        own_scale, width = int(found[2]), int(found[3] or 128) // 8
    elif format_ == "L":
        buffer, start, width = np.zeros((count, 2), "u8"), 0, 16
        buffer[:, 0] = stored(column, "u8")
    elif format_ in INTEGER_FORMATS:
        buffer, start, width = stored(column, INTEGER_FORMATS[format_]).astype("i8"), 0, 8
    else:
        wrong_format(column, field, path)
    values, bad = fit_decimals(buffer, start, count, width, nulls.mask, own_scale, *decimal_shape(field.type))
    if values is None:
        refuse(path, field.type, f"holds a number that {field.type} does not hold exactly", bad)
    return field, nulls.vector(values)


def _dates(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    nulls = nulls_in(column, live)
    if column.field.format == "tdD":
        return field, nulls.vector(stored(column, "i4"))
    if column.field.format != "tdm":
        wrong_format(column, field, path)
    ticks = stored(column, "i8")
    days = ticks // _DAY_MS
    row = first_bad((days * _DAY_MS != ticks) | (days != days.astype("i4")), nulls.mask)
    if row is not None:
        refuse(path, field.type, f"holds {ticks[row]} ms, which is no date", row)
    return field, nulls.vector(days.astype("i4"))


# Spark's mark of a TIMESTAMP column that holds instants, as the clocks of the writer's zone show them.
_INSTANTS = ("spark.sql.catalyst.type", "timestamp")


def _timestamps(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    format_ = column.field.format
    if format_[:3] not in ("tss", "tsm", "tsu", "tsn"):
        wrong_format(column, field, path)
    given = bool(format_[4:])
    instant = field.type.kind is Kind.TIMESTAMP_INSTANT or (given and _INSTANTS in field.type.attributes)
    if instant != given:
        own = "instants (it has a time zone)" if format_[4:] else "wall clock times (it has no time zone)"
        refuse(path, field.type, f"holds {own} and not {field.type}; convert it, or choose the other type")
    field = replace(field, format=f"{format_[:3]}:{'UTC' if instant else ''}")
    return field, nulls_in(column, live).vector(stored(column, "i8"))


# --- texts -----------------------------------------------------------------------------------------


def _texts(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    nulls = nulls_in(column, live)
    offsets, data = _stored_texts(column, field, path, nulls)
    if field.type.kind in TEXTS:
        offsets, data = _checked_texts(offsets, data, field, path, nulls)
    return field, nulls.vector(offsets, data)


def _stored_texts(column: ArrowColumn, field: Field, path: Path, nulls: Nulls) -> tuple[Array, Buffer]:
    format_, count, start = column.field.format, column.length, column.offset
    if format_ in ("u", "z"):
        return window(column.buffers[1], "i4", start, count + 1), column.buffers[2]
    if format_ in ("U", "Z"):
        wide = window(column.buffers[1], "i8", start, count + 1)
        first, total = int(wide[0]), int(wide[-1] - wide[0])
        if total > MAX_VECTOR_BYTES:
            raise too_large(f"{total} bytes of text")
        return (wide - first).astype("i4"), as_buffer(window(column.buffers[2], "u1", first, total))
    if format_ in ("vu", "vz"):
        try:
            offsets, data, bad = texts_of_views(
                column.buffers[1], start, count, nulls.mask, column.buffers[2]
            )
        except OverflowError:
            raise too_large("too many bytes of text") from None
        if offsets is None or data is None:
            refuse(path, field.type, "has a view out of its buffers", bad)
        return window(offsets, "i4", 0, count + 1), data
    if format_.startswith("w:"):
        width = int(format_[2:])
        if width * count > MAX_VECTOR_BYTES:
            raise too_large(f"{width * count} bytes")
        ends = np.arange(count + 1, dtype="i4") * np.int32(width)
        return ends, as_buffer(window(column.buffers[1], "u1", start * width, count * width))
    wrong_format(column, field, path)


def _checked_texts(
    offsets: Array, data: Buffer, field: Field, path: Path, nulls: Nulls
) -> tuple[Array, Buffer]:
    type_, count = field.type, len(offsets) - 1
    most = -1 if type_.max_length is None else type_.max_length
    invalid, too_long, cut = check_texts(offsets, data, count, nulls.mask, most, type_.kind is Kind.CHAR)
    if invalid >= 0:
        refuse(path, type_, "holds a text that is no UTF-8", invalid)
    if too_long >= 0:
        refuse(path, type_, f"holds a text of more characters than {type_} takes; cut it before", too_long)
    if not cut:
        return offsets, data
    mask = np.ones(count, "u1") if nulls.mask is None else nulls.mask.view("u1")
    shorter = cut_texts(offsets, np.frombuffer(cast("Any", data), "u1"), mask, most, True, 0)
    assert shorter is not None
    return window(shorter[0], "i4", 0, count + 1), shorter[1]


VALUE_FITS: dict[Kind, Fit] = {
    Kind.BOOLEAN: _booleans,
    **dict.fromkeys(INTEGERS, _integers),
    **dict.fromkeys(FLOATS, _floats),
    **dict.fromkeys((*TEXTS, Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY), _texts),
    Kind.DECIMAL: _decimals,
    Kind.DATE: _dates,
    **dict.fromkeys(TIMES, _timestamps),
}
"""What takes columns of each type without children."""
