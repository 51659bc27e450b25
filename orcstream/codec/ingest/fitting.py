"""Arrow columns of any library as vectors of the types of an ORC schema.

Knows every Arrow layout with children, dictionaries and runs; `fitting_values` knows those of values. Must
not know where columns come from, nor encodings of files. Contract of `fit`: the vector holds the values of
the column, exactly; what its type cannot hold exactly is a SchemaMismatch with the column's path and the row.
Memory is shared where the layouts are the same.

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
from dataclasses import replace

import numpy as np

from orcstream.codec.arrow._arrow_import import ArrowColumn
from orcstream.codec.ingest.fitting_values import (
    INTEGER_FORMATS,
    VALUE_FITS,
    Fit,
    Fitted,
    first_bad,
    nulls_in,
    stored,
    wrong_format,
)
from orcstream.codec.ingest.refusals import Path, refuse, row_of, too_large
from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors.column import (
    MAX_VECTOR_BYTES,
    Array,
    Field,
    Mask,
    Vector,
    as_buffer,
    nested,
    nulls_of,
    unpack,
    window,
)
from orcstream.codec.vectors.gather import compact
from orcstream.errors import SchemaMismatch, Unsupported
from orcstream.schema.types import TEXTS, Kind


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


# --- parts of columns ------------------------------------------------------------------------------


def _cut(column: ArrowColumn, start: int, count: int) -> ArrowColumn:
    return column._replace(offset=column.offset + start, length=count)


# --- columns with children -------------------------------------------------------------------------


def _structs(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    if column.field.format != "+s":
        wrong_format(column, field, path)
    nulls = nulls_in(column, live)
    found = _by_name(column, field, path)
    fitted = []
    for child_field, child in zip(field.children, found, strict=True):
        if child is None:
            fitted.append((child_field, nulls_of(child_field, column.length)))
        else:
            part = _cut(child, column.offset, column.length)
            fitted.append(fit(part, child_field, (*path, child_field.name), nulls.mask))
    field, vectors = nested(field, fitted)
    return field, nulls.vector(children=vectors)


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
            wrong_format(column, field, path)
        how, step = _entries, ""
    nulls, count = nulls_in(column, live), column.length
    starts, lengths = _spans(column, field, path)
    if nulls.mask is not None:
        lengths = np.where(nulls.mask, lengths, 0)
    offsets = np.zeros(count + 1, "i8")
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    if total > MAX_VECTOR_BYTES:
        raise too_large(f"{total} items of lists")
    shifts = starts - offsets[:-1]
    with row_of(lambda item: int(np.searchsorted(offsets, item, "right")) - 1):
        below = (*path, step) if step else path
        filled = shifts[lengths > 0]
        if not len(filled) or (filled == filled[0]).all():
            part = _cut(column.children[0], int(filled[0]) if len(filled) else 0, total)
            child_field, child = how(part, field.children[0], below, None)
        else:
            positions = np.repeat(shifts, lengths) + np.arange(total)
            child_field, child = _gathered(column.children[0], positions, None, field.children[0], below, how)
    return replace(field, children=(child_field,)), nulls.vector(offsets.astype("i4"), children=(child,))


def _spans(column: ArrowColumn, field: Field, path: Path) -> tuple[Array, Array]:
    """First item and number of items of each list."""
    format_, count = column.field.format, column.length
    if len(column.children) != 1:
        wrong_format(column, field, path)
    if format_ in ("+l", "+L", "+m"):
        ends = window(column.buffers[1], "i8" if format_ == "+L" else "i4", column.offset, count + 1)
        ends = ends.astype("i8")
        return ends[:-1], np.diff(ends)
    if format_ in ("+vl", "+vL"):
        dtype = "i4" if format_ == "+vl" else "i8"
        starts, sizes = stored(column, dtype).astype("i8"), stored(column, dtype, 2).astype("i8")
        available = column.children[0].length
        bad = (starts < 0) | (sizes < 0) | (starts > available) | (sizes > available - starts)
        row = first_bad(bad, None)
        if row is not None:
            refuse(path, field.type, "has a list out of its items", row)
        return starts, sizes
    if not format_.startswith("+w:"):
        wrong_format(column, field, path)
    width = int(format_[3:])
    return (np.arange(count, dtype="i8") + column.offset) * width, np.full(count, width, "i8")


def _entries(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    """Keys and values of a map, by position, whatever their names are."""
    if column.field.format != "+s" or len(column.children) != 2:
        wrong_format(column, field, path)
    nulls = nulls_in(column, live)
    fitted = []
    for child, child_field in zip(column.children, field.children, strict=True):
        part = _cut(child, column.offset, column.length)
        fitted.append(fit(part, child_field, (*path, f"_{child_field.name}"), nulls.mask))
    field, vectors = nested(field, fitted)
    bitmap = vectors[0].buffers[0]
    if vectors[0].null_count and bitmap is not None:
        row = first_bad(~unpack(bitmap, vectors[0].offset, column.length), live)
        if row is not None:
            refuse(path, field.type, "holds a map with a null key", row)
    return field, nulls.vector(children=vectors)


def _unions(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> Fitted:
    tags, places = _union_rows(column, field, path, live)
    at = np.zeros(column.length, "i4")
    fitted = []
    for tag, (child_field, child) in enumerate(zip(field.children, column.children, strict=True)):
        here = tags == tag
        rows = np.flatnonzero(here if live is None else here & live)
        positions = places[rows]
        row = first_bad((positions < 0) | (positions >= child.length), None)
        if row is not None:
            refuse(path, field.type, "has a value out of its union's child", int(rows[row]))
        with row_of(lambda index, rows=rows: int(rows[index])):  # type: ignore[misc]
            own, vector = _selected(child, positions, child_field, (*path, f"_union_{tag}"))
        if tag == 0 and live is not None:
            rows, vector = _with_null_rows(here, live, own, vector)
        at[rows] = np.arange(len(rows), dtype="i4")
        fitted.append((own, vector))
    field, children = nested(field, fitted)
    return field, Vector(column.length, (as_buffer(tags.astype("i1")), as_buffer(at)), 0, children=children)


def _union_rows(column: ArrowColumn, field: Field, path: Path, live: Mask | None) -> tuple[Array, Array]:
    """The tag of each row (0 where it is null), and where in its child it stands."""
    found = re.fullmatch(r"\+u[sd]:((?:[0-9]{1,3}(?:,[0-9]{1,3})*)?)", column.field.format)
    if found is None:
        wrong_format(column, field, path)
    codes = [int(code) for code in found[1].split(",") if code]
    if len(set(codes)) != len(codes) or any(code > 127 for code in codes):
        wrong_format(column, field, path)
    if len(codes) != len(column.children) or len(codes) != len(field.children):
        refuse(path, field.type, f"is a union of {len(column.children)} types and not {field.type!s:.200}")
    lookup = np.full(256, -1, "i2")
    lookup[codes] = np.arange(len(codes))
    tags = lookup[stored(column, "u1", 0)]
    row = first_bad(tags < 0, live)
    if row is not None:
        refuse(path, field.type, "has a type code that its union has not", row)
    if live is not None:
        tags = np.where(live, tags, 0)
    if column.field.format.startswith("+ud:"):
        return tags, stored(column, "i4").astype("i8")
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
    dtype = INTEGER_FORMATS.get(column.field.format)
    if dtype is None:
        wrong_format(column, field, path)
    indexes, nulls = stored(column, dtype), nulls_in(column, live)
    row = first_bad((indexes < 0) | (indexes >= entries.length), nulls.mask)
    if row is not None:
        refuse(path, field.type, "has an index beyond its dictionary", row)
    if field.type.kind in TEXTS and entries.length <= column.length:
        kept = _kept_entries(entries, field, path)
        if kept is not None:
            known = indexes if nulls.mask is None else np.where(nulls.mask, indexes, 0)
            field = replace(field, format="i", dictionary=Field(field.name, field.format, field.type))
            return field, replace(nulls.vector(known.astype("i4")), dictionary=kept)
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
        wrong_format(column, field, path)
    ends = stored(ends_column, INTEGER_FORMATS[ends_column.field.format]).astype("i8")
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

    def row(entry: int) -> int:
        return int(np.flatnonzero((positions - first == entry) & (True if mask is None else mask))[0])

    with row_of(row):
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
    **VALUE_FITS,
    Kind.STRUCT: _structs,
    **dict.fromkeys((Kind.LIST, Kind.MAP), _lists),
    Kind.UNION: _unions,
}
