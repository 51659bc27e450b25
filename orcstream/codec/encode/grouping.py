"""Rows by the values of some of their columns, and many small pieces of rows as few large ones.

Knows which values of a column are equal, whole columns at a time. Must not know what groups are for.
Contract: rows keep their order within a group and when they are joined; vectors are never changed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.encode._dictionary import DictionaryBuilder
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.codec.vectors._selection import select_mask, select_positions, select_span
from orcstream.codec.vectors.cells import stored_texts
from orcstream.codec.vectors.column import (
    DTYPES,
    Array,
    Field,
    Vector,
    bits_of,
    items_of,
    validity_bits,
    vector_bytes,
    window,
)
from orcstream.codec.vectors.gather import compact, copied
from orcstream.schema.schema import Schema
from orcstream.schema.types import INTEGERS, TEXTS, FileColumn, Kind, Type, decimal_shape

_Numbers: TypeAlias = NDArray[np.int64]

_KINDS = {*INTEGERS, *TEXTS, Kind.BOOLEAN, Kind.DATE, Kind.DECIMAL}
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_EXACT = Context(prec=77)
# Less than this is no memory worth copying for.
_SMALL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column as numbers of distinct values: row i has ``values[numbers[i]]``, None where it is null."""

    numbers: _Numbers
    values: list[Any]


def can_group(type_: Type) -> bool:
    """Whether `code` takes columns of a type: integers, booleans, dates, decimals and texts."""
    return type_.kind in _KINDS


def code(field: Field, vector: Vector) -> Coded:
    """The distinct values: `int`, `bool`, `str`, `Decimal`, `date` (a day number outside years 1 to 9999)."""
    valid = validity_bits(vector)
    if valid is None:
        return Coded(*_distinct(field, vector))
    mask = valid.view(np.uint8)
    count = int(np.count_nonzero(valid))
    numbers = np.zeros(vector.length, np.int64)
    if not count:
        return Coded(numbers, [None])
    present, values = _distinct(field, compact([(vector, select_mask(mask, vector.length))], field))
    numbers[valid] = present + 1
    return Coded(numbers, [None, *values])


def _distinct(field: Field, vector: Vector) -> tuple[_Numbers, list[Any]]:
    kind = field.type.kind
    if not vector.length:
        return np.zeros(0, np.int64), []
    if kind in TEXTS:
        return _distinct_texts(field.type, vector)
    items: Array
    if kind is Kind.BOOLEAN:
        items = bits_of(vector)
    else:
        items = items_of(vector, "V16" if kind is Kind.DECIMAL else DTYPES[kind])
    found, numbers = np.unique(items, return_inverse=True)
    values = found.tolist()
    if kind is Kind.DECIMAL:
        _, scale = decimal_shape(field.type)
        values = [_decimal(value, scale) for value in values]
    elif kind is Kind.DATE:
        values = [_date(day) for day in values]
    return numbers.astype(np.int64), values


def _distinct_texts(type_: Type, vector: Vector) -> tuple[_Numbers, list[Any]]:
    dictionary = DictionaryBuilder()
    numbers = window(dictionary.add(stored_texts(type_, vector)), "i8", 0, vector.length)
    lengths, data = dictionary.take(np.arange(dictionary.count), dictionary.count)
    ends = np.cumsum(window(lengths, "i8", 0, dictionary.count)).tolist()
    view = memoryview(data)
    values = [bytes(view[a:b]).decode() for a, b in zip([0, *ends], ends, strict=False)]
    return numbers, [text.rstrip(" ") for text in values] if type_.kind is Kind.CHAR else values


def _decimal(word: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(word, "little", signed=True)).scaleb(-scale, _EXACT)


def _date(day: int) -> Any:
    ordinal = day + _FIRST_DAY
    return datetime.date.fromordinal(ordinal) if 1 <= ordinal <= datetime.date.max.toordinal() else day


def groups_of(columns: Sequence[Coded], row_count: int) -> Iterator[tuple[tuple[int, ...], _Numbers]]:
    """The rows that have the same numbers in all columns: these numbers, and the rows in order.

    Groups come in the order of their first rows.
    """
    combined = np.zeros(row_count, np.int64)
    for column in columns:
        # Dense after each column, or the products of many columns would overflow.
        _, combined = np.unique(combined * len(column.values) + column.numbers, return_inverse=True)
        combined = combined.astype(np.int64)
    if not row_count:
        return
    order = np.argsort(combined, kind="stable")
    stops = np.cumsum(np.bincount(combined)).tolist()
    groups = [order[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]
    for rows in sorted(groups, key=lambda rows: int(rows[0])):
        yield tuple(int(column.numbers[rows[0]]) for column in columns), rows


def only(
    rows: IngestedRows, columns: Sequence[int], schema: Schema, positions: _Numbers | None = None
) -> IngestedRows:
    """Some of the rows (None: all), with some of the columns, as rows of `schema`, which has only these.

    Numbers and texts are copied: arrays of the user's may change afterwards, where Arrow's never do.
    """
    count = rows.row_count if positions is None else len(positions)
    if count == rows.row_count:
        selection = select_span(0, count, count)
    else:
        selection = select_positions(positions, count, rows.row_count)
    fields, vectors = [], []
    for at, type_ in zip(columns, schema.root.children, strict=True):
        field = retyped(rows.fields[at], type_)
        fields.append(field)
        vectors.append(copied(rows.vectors[at], selection, field))
    return IngestedRows(tuple(fields), tuple(vectors), count)


def retyped(field: Field, type_: Type) -> Field:
    """The field of the same column in a schema where it has other column ids."""
    dictionary = None if field.dictionary is None else replace(field.dictionary, type=type_)
    if type_.kind is Kind.MAP:
        (entries,) = field.children
        children: tuple[Field, ...] = (replace(entries, type=type_, children=_children(entries, type_)),)
    else:
        children = _children(field, type_)
    return replace(field, type=type_, children=children, dictionary=dictionary)


def _children(field: Field, type_: Type) -> tuple[Field, ...]:
    return tuple(retyped(child, part) for child, part in zip(field.children, type_.children, strict=True))


def without_columns(schema: Schema, columns: Sequence[int]) -> Schema:
    """The schema of a struct without some of its fields."""
    root = schema.root
    kept = [at for at in range(len(root.children)) if at not in columns]
    children = []
    next_id = 1
    for at in kept:
        child = root.children[at]
        children.append(_moved(child, next_id - child.column_id))
        next_id += len(child.column_ids)
    names = tuple(root.field_names[at] for at in kept)
    last = FileColumn(next_id - 1)
    return Schema(replace(root, children=tuple(children), field_names=names, last_column_id=last))


def _moved(type_: Type, by: int) -> Type:
    return replace(
        type_,
        children=tuple(_moved(child, by) for child in type_.children),
        column_id=FileColumn(type_.column_id + by),
        last_column_id=FileColumn(type_.last_column_id + by),
    )


def keeps_little(rows: IngestedRows) -> bool:
    """Whether keeping the rows keeps little more in memory than they need themselves."""
    if any(_has_dictionary(vector) for vector in rows.vectors):
        return False
    return sum(map(vector_bytes, rows.vectors)) <= 2 * rows.size_bytes + _SMALL_BYTES


def _has_dictionary(vector: Vector) -> bool:
    return vector.dictionary is not None or any(map(_has_dictionary, vector.children))


def joined(pieces: Sequence[IngestedRows]) -> Iterator[IngestedRows]:
    """The same rows in as few pieces as their fields allow."""
    at = 0
    while at < len(pieces):
        fields, stop = pieces[at].fields, at + 1
        while stop < len(pieces) and pieces[stop].fields == fields:
            stop += 1
        some = pieces[at:stop]
        if len(some) == 1:
            yield some[0]
        else:
            vectors = tuple(
                compact([(piece.vectors[column], None) for piece in some], field)
                for column, field in enumerate(fields)
            )
            yield IngestedRows(fields, vectors, sum(piece.row_count for piece in some))
        at = stop
