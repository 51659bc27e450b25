"""Arrow columns of any library as vectors of the types of an ORC schema.

Knows every Arrow layout and which of their values each ORC type takes. Must not know where columns come from,
nor encodings. Contract of `fit`: the vector holds the values of the column, exactly; what its type cannot
hold exactly is a SchemaMismatch with the column's path and the row. Memory is shared where the layouts are
the same.

What encoders may count on, besides what `Vector` says:

- a value under a null struct is null; null lists and maps have no items, and the items of a vector are those
  of its rows, in order, without gaps; each child of a union has the values of its rows and no others. A null
  union is a null of its child 0.
- texts are UTF-8, no longer than char and varchar allow (blanks at the end of a char do not count, and are
  cut off where there are too many; chars are not padded); decimals have the scale of their type and no more
  digits than it.
- timestamps keep the unit of the column (the format of the answered `Field` says which), so nothing
  overflows.
- dictionaries of texts are kept where they have no more entries than rows, with int32 indices and no null
  entries; all other dictionaries and run ends are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from orcstream.codec._arrow_c import count_nulls
from orcstream.codec._arrow_import import ArrowColumn
from orcstream.codec._format import cut_texts
from orcstream.codec._ingest import check_texts, fit_decimals, texts_of_views
from orcstream.codec.column import Field, Vector
from orcstream.codec.decoder import MAX_VECTOR_BYTES
from orcstream.codec.gather import compact, select_positions
from orcstream.errors import SchemaMismatch, Unsupported
from orcstream.schema import Kind, Type, decimal_shape

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Array", "Mask", "Path", "fit", "nulls_of", "pack", "refuse", "too_large"]

Path: TypeAlias = tuple[str, ...]
Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]
Fitted: TypeAlias = tuple[Field, Vector]
Fit: TypeAlias = Callable[[ArrowColumn, Field, Path, Mask | None], Fitted]

_INTEGERS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8"}
_FLOATS = {"e": "f2", "f": "f4", "g": "f8"}
_TARGETS = {
    Kind.BYTE: "i1",
    Kind.SHORT: "i2",
    Kind.INT: "i4",
    Kind.LONG: "i8",
    Kind.FLOAT: "f4",
    Kind.DOUBLE: "f8",
}
# Up to which all integers are floating point numbers.
_EXACT = {"f4": 1 << 24, "f8": 1 << 53}
_TEXTS = (Kind.STRING, Kind.CHAR, Kind.VARCHAR)
_DAY_MS = 86_400_000
_DECIMAL = re.compile(r"d:([0-9]{1,9}),(-?[0-9]{1,9})(?:,([0-9]{1,9}))?")


class _Nulls(NamedTuple):
    """Which rows are null: a bitmap from bit 0 on, how many, and which are not; None where none is null."""

    bitmap: Buffer | None = None
    nulls: int = 0
    mask: Mask | None = None


def fit(column: ArrowColumn, field: Field, path: Path, live: Mask | None = None) -> Fitted:
    """The column's values as a vector of `field.type`, and the field of that vector.

    `field` is `field_of` the type. Rows where `live` is False are null, whatever the column says, and are not
    checked. Raises SchemaMismatch (`row` counts the rows of this column) for values or types that do not fit,
    Unsupported (`vector_too_large`) for more texts or items than a vector may hold: take fewer rows.
    """
    format_ = column.field.format
    if column.length > MAX_VECTOR_BYTES:
        raise too_large(f"{column.length} rows")
    if column.dictionary is not None:
        return _dictionary(column, column.dictionary, field, path, live)
    if format_ == "+r":
        return _runs(column, field, path, live)
    if format_ == "n":
        return field, nulls_of(field, column.length)
    return _FITS[field.type.kind](column, field, path, live)


def refuse(path: Path, type_: Type, problem: str, row: int | None = None) -> NoReturn:
    """Raise the SchemaMismatch of a column, and of one of its rows."""
    subject = f"the column {'.'.join(path)!r}" if path else "the data"
    raise SchemaMismatch(f"{subject} {problem}", column=type_.column_id, row=row)


def too_large(what: str) -> Unsupported:
    """The error of a vector that cannot be so large."""
    return Unsupported(
        f"{what} for one vector, which holds 2^31 - 1 at most; hand in fewer rows at a time",
        reason="vector_too_large",
    )


def pack(mask: Mask) -> Buffer:
    """A bitmap with a bit for each row."""
    return _buffer(np.packbits(mask, bitorder="little"))


def nulls_of(field: Field, count: int) -> Vector:
    """A vector of nothing but nulls."""
    empty = _buffer(np.empty(0, "u1"))
    bitmap, nulls = (pack(np.zeros(count, np.bool_)), count) if count else (None, 0)
    if field.dictionary is not None:
        indexes = _buffer(np.zeros(count, "i4"))
        return Vector(count, (bitmap, indexes), nulls, dictionary=nulls_of(field.dictionary, 0))
    if field.format.startswith("+ud:"):
        children = tuple(nulls_of(child, 0 if tag else count) for tag, child in enumerate(field.children))
        tags, places = np.zeros(count, "i1"), np.arange(count, dtype="i4")
        return Vector(count, (_buffer(tags), _buffer(places)), 0, children=children)
    if field.format == "+s":
        children = tuple(nulls_of(child, count) for child in field.children)
        return Vector(count, (bitmap,), nulls, children=children)
    if field.format in ("+l", "+m"):
        offsets = _buffer(np.zeros(count + 1, "i4"))
        return Vector(count, (bitmap, offsets), nulls, children=(nulls_of(field.children[0], 0),))
    if field.format in ("u", "z"):
        return Vector(count, (bitmap, _buffer(np.zeros(count + 1, "i4")), empty), nulls)
    return Vector(count, (bitmap, _buffer(np.zeros(count * 16, "u1"))), nulls)


# --- parts of columns ------------------------------------------------------------------------------


def _buffer(array: Array) -> Buffer:
    # mypy knows numpy's arrays as buffers from Python 3.12 on only.
    return cast("Buffer", array)


def _items(buffer: Buffer, dtype: str, start: int, count: int) -> Array:
    if count == 0:
        return np.empty(0, dtype)
    found: Array = np.frombuffer(cast("Any", buffer), dtype, count, start * np.dtype(dtype).itemsize)
    return found


def _values(column: ArrowColumn, dtype: str, index: int = 1) -> Array:
    return _items(column.buffers[index], dtype, column.offset, column.length)


def _bits(buffer: Buffer, start: int, count: int) -> Mask:
    first = start // 8
    held = _items(buffer, "u1", first, (start + count + 7) // 8 - first)
    bits = np.unpackbits(held, bitorder="little")[start - 8 * first : start - 8 * first + count]
    return bits.view(np.bool_)


def _bitmap(buffer: Buffer, start: int, count: int) -> Buffer:
    """The bits from bit 0 on; shared where that is possible."""
    if start % 8:
        return pack(_bits(buffer, start, count))
    return _buffer(_items(buffer, "u1", start // 8, (count + 7) // 8))


def _nulls(column: ArrowColumn, live: Mask | None) -> _Nulls:
    count, start = column.length, column.offset
    bits = column.buffers[0]
    if live is not None and live.all():
        live = None
    if bits is None or not count_nulls(bits, start, count):
        return _Nulls() if live is None else _Nulls(pack(live), count - int(np.count_nonzero(live)), live)
    mask = _bits(bits, start, count)
    if live is None:
        return _Nulls(_bitmap(bits, start, count), count - int(np.count_nonzero(mask)), mask)
    mask = mask & live
    return _Nulls(pack(mask), count - int(np.count_nonzero(mask)), mask)


def _first(bad: Mask, mask: Mask | None) -> int | None:
    """The first row that is bad and not null."""
    if mask is not None:
        bad = bad & mask
    return int(bad.argmax()) if bad.any() else None


def _cut(column: ArrowColumn, start: int, count: int) -> ArrowColumn:
    return column._replace(offset=column.offset + start, length=count)


@contextmanager
def _row_of(row_of: Callable[[int], int]) -> Iterator[None]:
    """Errors about values below speak of the row that they belong to."""
    try:
        yield
    except SchemaMismatch as error:
        if error.row is not None:
            error.row = row_of(error.row)
        raise


def _wrong(column: ArrowColumn, field: Field, path: Path) -> NoReturn:
    name = column.field.format
    refuse(path, field.type, f"has the Arrow format {name!r:.60}, which {field.type!s:.200} does not take")


def _fixed(field: Field, values: Array | Buffer, count: int, nulls: _Nulls) -> Fitted:
    return field, Vector(count, (nulls.bitmap, cast("Buffer", values)), nulls.nulls)


# --- numbers and times -----------------------------------------------------------------------------


def _booleans(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    if column.field.format != "b":
        _wrong(column, field, path)
    bits = _bitmap(column.buffers[1], column.offset, column.length)
    return _fixed(field, bits, column.length, _nulls(column, live))


def _integers(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    source, target = _INTEGERS.get(column.field.format), _TARGETS[field.type.kind]
    if source is None:
        _wrong(column, field, path)
    values, nulls = _values(column, source), _nulls(column, live)
    if source != target:
        _check_range(values, target, nulls, field, path)
        values = values.astype(target)
    return _fixed(field, values, column.length, nulls)


def _check_range(values: Array, target: str, nulls: _Nulls, field: Field, path: Path) -> None:
    limits, own = np.iinfo(target), np.iinfo(values.dtype)
    bad = np.zeros(len(values), np.bool_)
    if own.max > limits.max:
        bad |= values > limits.max
    if own.min < limits.min:
        bad |= values < limits.min
    row = _first(bad, nulls.mask)
    if row is not None:
        refuse(path, field.type, f"holds {values[row]}, which {field.type} does not", row)


def _floats(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    target, format_ = _TARGETS[field.type.kind], column.field.format
    source = _FLOATS.get(format_) or _INTEGERS.get(format_)
    if source is None:
        _wrong(column, field, path)
    values, nulls = _values(column, source), _nulls(column, live)
    if source == target:
        return _fixed(field, values, column.length, nulls)
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = values.astype(target)
        if format_ in _FLOATS:
            bad = (fitted.astype(source) != values) & ~np.isnan(values)
        else:
            most = _EXACT[target]
            bad = np.zeros(len(values), np.bool_)
            if np.iinfo(values.dtype).max > most:
                bad = values > most
                if values.dtype.kind == "i":
                    bad |= values < -most
    row = _first(bad, nulls.mask)
    if row is not None:
        refuse(path, field.type, f"holds {values[row]}, which {field.type} holds only rounded", row)
    return _fixed(field, fitted, column.length, nulls)


def _decimals(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    format_, count, start = column.field.format, column.length, column.offset
    nulls = _nulls(column, live)
    buffer: Any = column.buffers[1] if len(column.buffers) > 1 else None
    own_scale = 0
    if found := _DECIMAL.fullmatch(format_):
        own_scale, width = int(found[2]), int(found[3] or 128) // 8
    elif format_ == "L":
        buffer, start, width = np.zeros((count, 2), "u8"), 0, 16
        buffer[:, 0] = _values(column, "u8")
    elif format_ in _INTEGERS:
        buffer, start, width = _values(column, _INTEGERS[format_]).astype("i8"), 0, 8
    else:
        _wrong(column, field, path)
    values, bad = fit_decimals(buffer, start, count, width, nulls.mask, own_scale, *decimal_shape(field.type))
    if values is None:
        refuse(path, field.type, f"holds a number that {field.type} does not hold exactly", bad)
    return _fixed(field, values, count, nulls)


def _dates(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    nulls = _nulls(column, live)
    if column.field.format == "tdD":
        return _fixed(field, _values(column, "i4"), column.length, nulls)
    if column.field.format != "tdm":
        _wrong(column, field, path)
    ticks = _values(column, "i8")
    days = ticks // _DAY_MS
    row = _first((days * _DAY_MS != ticks) | (days != days.astype("i4")), nulls.mask)
    if row is not None:
        refuse(path, field.type, f"holds {ticks[row]} ms, which is no date", row)
    return _fixed(field, days.astype("i4"), column.length, nulls)


def _timestamps(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    format_ = column.field.format
    if format_[:3] not in ("tss", "tsm", "tsu", "tsn"):
        _wrong(column, field, path)
    instant = field.type.kind is Kind.TIMESTAMP_INSTANT
    if instant != bool(format_[4:]):
        own = "instants (it has a time zone)" if format_[4:] else "wall clock times (it has no time zone)"
        refuse(path, field.type, f"holds {own} and not {field.type}; convert it, or choose the other type")
    field = replace(field, format=f"{format_[:3]}:{'UTC' if instant else ''}")
    return _fixed(field, _values(column, "i8"), column.length, _nulls(column, live))


# --- texts -----------------------------------------------------------------------------------------


def _texts(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    nulls, count = _nulls(column, live), column.length
    offsets, data = _stored_texts(column, field, path, nulls)
    if field.type.kind in _TEXTS:
        offsets, data = _checked_texts(offsets, data, field, path, nulls)
    return field, Vector(count, (nulls.bitmap, _buffer(offsets), data), nulls.nulls)


def _stored_texts(column: ArrowColumn, field: Field, path: Path, nulls: _Nulls) -> tuple[Array, Buffer]:
    format_, count, start = column.field.format, column.length, column.offset
    if format_ in ("u", "z"):
        return _items(column.buffers[1], "i4", start, count + 1), column.buffers[2]
    if format_ in ("U", "Z"):
        wide = _items(column.buffers[1], "i8", start, count + 1)
        first, total = int(wide[0]), int(wide[-1] - wide[0])
        if total > MAX_VECTOR_BYTES:
            raise too_large(f"{total} bytes of text")
        return (wide - first).astype("i4"), _buffer(_items(column.buffers[2], "u1", first, total))
    if format_ in ("vu", "vz"):
        try:
            offsets, data, bad = texts_of_views(
                column.buffers[1], start, count, nulls.mask, column.buffers[2]
            )
        except OverflowError:
            raise too_large("too many bytes of text") from None
        if offsets is None or data is None:
            refuse(path, field.type, "has a view out of its buffers", bad)
        return _items(offsets, "i4", 0, count + 1), data
    if format_.startswith("w:"):
        width = int(format_[2:])
        if width * count > MAX_VECTOR_BYTES:
            raise too_large(f"{width * count} bytes")
        ends = np.arange(count + 1, dtype="i4") * np.int32(width)
        return ends, _buffer(_items(column.buffers[1], "u1", start * width, count * width))
    _wrong(column, field, path)


def _checked_texts(
    offsets: Array, data: Buffer, field: Field, path: Path, nulls: _Nulls
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
    return _items(shorter[0], "i4", 0, count + 1), shorter[1]


# --- columns with children -------------------------------------------------------------------------


def _structs(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    if column.field.format != "+s":
        _wrong(column, field, path)
    nulls = _nulls(column, live)
    found = _by_name(column, field, path)
    fields, vectors = [], []
    for child_field, child in zip(field.children, found, strict=True):
        if child is None:
            child_vector = nulls_of(child_field, column.length)
        else:
            part = _cut(child, column.offset, column.length)
            child_field, child_vector = fit(part, child_field, (*path, child_field.name), nulls.mask)
        fields.append(child_field)
        vectors.append(child_vector)
    vector = Vector(column.length, (nulls.bitmap,), nulls.nulls, children=tuple(vectors))
    return replace(field, children=tuple(fields)), vector


def _by_name(column: ArrowColumn, field: Field, path: Path) -> list[ArrowColumn | None]:
    """The child for each field of the type, None where there is none: its values are null."""
    names, wanted = [child.field.name for child in column.children], list(field.type.field_names)
    if names == wanted:
        return list(column.children)
    for which, having in (("data", names), ("schema", wanted)):
        if len(set(having)) < len(having):
            refuse(path, field.type, f"has names that the {which} has twice, and not the same order of names")
    if extra := [name for name in names if name not in set(wanted)]:
        refuse(path, field.type, f"has the field {extra[0]!r}, which the schema has not")
    by_name = dict(zip(names, column.children, strict=True))
    return [by_name.get(name) for name in wanted]


def _lists(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    how: Fit = fit
    step = "_elem"
    if field.type.kind is Kind.MAP:
        if column.field.format != "+m":
            _wrong(column, field, path)
        how, step = _entries, ""
    nulls, count = _nulls(column, live), column.length
    starts, lengths = _spans(column, field, path)
    if nulls.mask is not None:
        lengths = np.where(nulls.mask, lengths, 0)
    offsets = np.zeros(count + 1, "i8")
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if total > MAX_VECTOR_BYTES:
        raise too_large(f"{total} items of lists")
    shifts = starts - offsets[:-1]
    with _row_of(lambda item: int(np.searchsorted(offsets, item, "right")) - 1):
        below = (*path, step) if step else path
        filled = shifts[lengths > 0]
        if not len(filled) or (filled == filled[0]).all():
            part = _cut(column.children[0], int(filled[0]) if len(filled) else 0, total)
            child_field, child = how(part, field.children[0], below, None)
        else:
            positions = np.repeat(shifts, lengths) + np.arange(total)
            child_field, child = _gathered(column.children[0], positions, None, field.children[0], below, how)
    vector = Vector(count, (nulls.bitmap, _buffer(offsets.astype("i4"))), nulls.nulls, children=(child,))
    return replace(field, children=(child_field,)), vector


def _spans(column: ArrowColumn, field: Field, path: Path) -> tuple[Array, Array]:
    """First item and number of items of each list."""
    format_, count = column.field.format, column.length
    if len(column.children) != 1:
        _wrong(column, field, path)
    if format_ in ("+l", "+L", "+m"):
        ends = _items(column.buffers[1], "i8" if format_ == "+L" else "i4", column.offset, count + 1)
        ends = ends.astype("i8")
        return ends[:-1], np.diff(ends)
    if format_ in ("+vl", "+vL"):
        dtype = "i4" if format_ == "+vl" else "i8"
        starts, sizes = _values(column, dtype).astype("i8"), _values(column, dtype, 2).astype("i8")
        available = column.children[0].length
        bad = (starts < 0) | (sizes < 0) | (starts > available) | (sizes > available - starts)
        row = _first(bad, None)
        if row is not None:
            refuse(path, field.type, "has a list out of its items", row)
        return starts, sizes
    if format_.startswith("+w:"):
        width = int(format_[3:])
        return (np.arange(count, dtype="i8") + column.offset) * width, np.full(count, width, "i8")
    _wrong(column, field, path)


def _entries(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    """Keys and values of a map, by position, whatever their names are."""
    if column.field.format != "+s" or len(column.children) != 2:
        _wrong(column, field, path)
    nulls = _nulls(column, live)
    fitted = []
    for child, child_field in zip(column.children, field.children, strict=True):
        part = _cut(child, column.offset, column.length)
        fitted.append(fit(part, child_field, (*path, f"_{child_field.name}"), nulls.mask))
    fields, vectors = zip(*fitted, strict=True)
    bitmap = vectors[0].buffers[0]
    if vectors[0].null_count and bitmap is not None:
        row = _first(~_bits(bitmap, vectors[0].offset, column.length), live)
        if row is not None:
            refuse(path, field.type, "holds a map with a null key", row)
    return replace(field, children=fields), Vector(
        column.length, (nulls.bitmap,), nulls.nulls, children=vectors
    )


def _unions(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    tags, places = _union_rows(column, field, path, live)
    at = np.zeros(column.length, "i4")
    fields, children = [], []
    for tag, (child_field, child) in enumerate(zip(field.children, column.children, strict=True)):
        here = tags == tag
        rows = np.flatnonzero(here if live is None else here & live)
        positions = places[rows]
        row = _first((positions < 0) | (positions >= child.length), None)
        if row is not None:
            refuse(path, field.type, "has a value out of its union's child", int(rows[row]))
        with _row_of(lambda index, rows=rows: int(rows[index])):  # type: ignore[misc]
            fitted, vector = _selected(child, positions, child_field, (*path, f"_union_{tag}"))
        if tag == 0 and live is not None:
            rows, vector = _with_null_rows(here, live, fitted, vector)
        at[rows] = np.arange(len(rows), dtype="i4")
        fields.append(fitted)
        children.append(vector)
    buffers = (_buffer(tags.astype("i1")), _buffer(at))
    return replace(field, children=tuple(fields)), Vector(column.length, buffers, 0, children=tuple(children))


def _union_rows(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> tuple[Array, Array]:
    """The tag of each row (0 where it is null), and where in its child it stands."""
    found = re.fullmatch(r"\+u[sd]:((?:[0-9]{1,3}(?:,[0-9]{1,3})*)?)", column.field.format)
    if found is None:
        _wrong(column, field, path)
    codes = [int(code) for code in found[1].split(",") if code]
    if len(set(codes)) != len(codes) or any(code > 127 for code in codes):
        _wrong(column, field, path)
    if len(codes) != len(column.children) or len(codes) != len(field.children):
        refuse(path, field.type, f"is a union of {len(column.children)} types and not {field.type!s:.200}")
    lookup = np.full(256, -1, "i2")
    lookup[codes] = np.arange(len(codes))
    tags = lookup[_values(column, "u1", 0)]
    row = _first(tags < 0, live)
    if row is not None:
        refuse(path, field.type, "has a type code that its union has not", row)
    if live is not None:
        tags = np.where(live, tags, 0)
    if column.field.format.startswith("+ud:"):
        return tags, _values(column, "i4").astype("i8")
    return tags, np.arange(column.length, dtype="i8") + column.offset


def _with_null_rows(here: Mask, live: Mask, field: Field, vector: Vector) -> tuple[Array, Vector]:
    """The rows of child 0 with those that are null, and its vector with nulls at these."""
    rows = np.flatnonzero(here)
    mask = live[rows]
    if mask.all():
        return rows, vector
    return rows, _taken(field, vector, np.cumsum(mask) - 1, mask)


def _selected(child: ArrowColumn, positions: Array, field: Field, path: Path) -> Fitted:
    count = len(positions)
    first = int(positions[0]) if count else 0
    if not count or (positions == np.arange(first, first + count)).all():
        return fit(_cut(child, first, count), field, path)
    return _gathered(child, positions, None, field, path)


# --- encodings -------------------------------------------------------------------------------------


def _dictionary(
    column: ArrowColumn, entries: ArrowColumn, field: Field, path: Path, live: Mask | None
) -> Fitted:
    dtype = _INTEGERS.get(column.field.format)
    if dtype is None:
        _wrong(column, field, path)
    indexes, nulls = _values(column, dtype), _nulls(column, live)
    row = _first((indexes < 0) | (indexes >= entries.length), nulls.mask)
    if row is not None:
        refuse(path, field.type, "has an index beyond its dictionary", row)
    if field.type.kind in _TEXTS and entries.length <= column.length:
        kept = _kept_entries(entries, field, path)
        if kept is not None:
            narrow = (
                indexes.astype("i4") if nulls.mask is None else np.where(nulls.mask, indexes, 0).astype("i4")
            )
            buffers = (nulls.bitmap, _buffer(narrow))
            field = replace(field, format="i", dictionary=Field(field.name, field.format, field.type))
            return field, Vector(column.length, buffers, nulls.nulls, dictionary=kept)
    return _gathered(entries, indexes.astype("i8"), nulls.mask, field, path)


def _kept_entries(entries: ArrowColumn, field: Field, path: Path) -> Vector | None:
    """The entries as texts without nulls; None where they are not, or where one does not fit."""
    try:
        _, vector = fit(entries, field, path)
    except (SchemaMismatch, Unsupported):
        return None
    return None if vector.null_count or vector.dictionary is not None else vector


def _runs(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    ends_column, values = column.children if len(column.children) == 2 else (None, None)
    if ends_column is None or values is None or ends_column.field.format not in ("s", "i", "l"):
        _wrong(column, field, path)
    ends = _values(ends_column, _INTEGERS[ends_column.field.format]).astype("i8")
    start, stop = column.offset, column.offset + column.length
    sorted_ends = not len(ends) or (ends[0] > 0 and (ends[1:] > ends[:-1]).all())
    if not sorted_ends or len(ends) > values.length or (stop > start and (not len(ends) or ends[-1] < stop)):
        refuse(path, field.type, "has run ends that are not those of its rows")
    first = int(np.searchsorted(ends, start, "right"))
    last = int(np.searchsorted(ends, stop, "left")) + 1 if stop > start else first
    bounds = np.clip(ends[first:last], start, stop)
    lengths = np.diff(np.concatenate((np.array([start]), bounds)))
    positions = np.repeat(np.arange(last - first), lengths)
    return _gathered(_cut(values, first, last - first), positions, live, field, path)


def _gathered(
    entries: ArrowColumn, positions: Array, mask: Mask | None, field: Field, path: Path, how: Fit = fit
) -> Fitted:
    """The values at `positions`, null where `mask` is False. Values that no row has are not checked."""
    named = positions if mask is None else positions[mask]
    first, stop = (int(named.min()), int(named.max()) + 1) if len(named) else (0, 0)
    used = np.zeros(stop - first, np.bool_)
    used[named - first] = True

    def row_of(entry: int) -> int:
        return int(np.flatnonzero((positions - first == entry) & (True if mask is None else mask))[0])

    with _row_of(row_of):
        field, vector = how(_cut(entries, first, stop - first), field, path, used)
    return field, _taken(field, vector, positions - first, mask)


def _taken(field: Field, vector: Vector, positions: Array, mask: Mask | None) -> Vector:
    """The values at the positions, null where `mask` is False."""
    if mask is not None and not mask.all():
        # One null after the last value; of any type it is what nulls of that type have to be.
        positions = np.where(mask, positions, vector.length)
        vector = compact([(vector, None), (nulls_of(field, 1), None)], field)
    chosen = select_positions(np.ascontiguousarray(positions, "i8"), len(positions), vector.length)
    return compact([(vector, chosen)], field)


_FITS: dict[Kind, Fit] = {
    Kind.BOOLEAN: _booleans,
    **dict.fromkeys((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG), _integers),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _floats),
    **dict.fromkeys((*_TEXTS, Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY), _texts),
    Kind.DECIMAL: _decimals,
    Kind.DATE: _dates,
    **dict.fromkeys((Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT), _timestamps),
    Kind.STRUCT: _structs,
    **dict.fromkeys((Kind.LIST, Kind.MAP), _lists),
    Kind.UNION: _unions,
}
