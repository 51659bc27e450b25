"""The values of each column in a tree of vectors: which rows there are, and which of them have a value.

Knows the Arrow layout of vectors and how ORC nests columns: a column has rows only where its parent has a
value. Must not know what is made of the values (statistics, bloom filters, predicates). Contract: vectors are
never changed, and what stands in the buffers where nulls are does not matter; offsets that contradict each
other or the buffers are a ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.vectors._filter import Texts
from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors._texts import cut_texts
from orcstream.codec.vectors.column import (
    Field,
    Mask,
    Vector,
    both,
    items_of,
    offsets_of,
    validity,
    window,
)
from orcstream.codec.vectors.gather import compact
from orcstream.schema.types import Kind, Type


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Some rows of one column. `mask` is true where a row has a value; None where every row has one.

    Rows whose parent is null are not among those that `has_null` speaks of.
    """

    field: Field
    vector: Vector
    mask: Mask | None
    value_count: int
    has_null: bool


def cells_of(field: Field, vector: Vector, there: Mask | None = None) -> Iterator[Cells]:
    """The cells of a column and of each column below it, in the order of column ids.

    A null of child 0 of a union counts as a null union, since Arrow's unions have no nulls of their own.
    Only rows where `there` is true count (None: all).
    """
    rows = vector.length if there is None else int(np.count_nonzero(there))
    mask = both(there, validity(field.type, vector))
    values = vector.length if mask is None else int(np.count_nonzero(mask))
    if values == vector.length:
        mask = None
    yield Cells(field, vector, mask, values, values < rows)
    match field.type.kind:
        case Kind.STRUCT:
            for child, part in zip(field.children, vector.struct_children(), strict=True):
                yield from cells_of(child, part, mask)
        case Kind.LIST:
            yield from cells_of(field.children[0], *items_of_lists(vector, mask))
        case Kind.MAP:
            entries, within = items_of_lists(vector, mask)
            for child, part in zip(field.children[0].children, entries.struct_children(), strict=True):
                yield from cells_of(child, part, within)
        case Kind.UNION:
            for child, own in zip(field.children, union_children(field, vector, mask), strict=True):
                yield from cells_of(child, own)


def lengths_of(vector: Vector) -> NDArray[np.int32]:
    """How many items each row of a list or map has; a null may have some, too."""
    return np.diff(offsets_of(vector))


def items_of_lists(vector: Vector, mask: Mask | None = None) -> tuple[Vector, Mask | None]:
    """The items of these lists, and which of them are of lists that are no nulls."""
    offsets = offsets_of(vector)
    lengths = np.diff(offsets)
    start, stop = int(offsets[0]), int(offsets[-1])
    (child,) = vector.children
    if start < 0 or stop > child.length or (lengths < 0).any():
        raise ValueError("offsets beyond the items of a list")
    within = None
    if mask is not None and lengths[~mask].any():
        within = np.repeat(mask, lengths)
    return child.slice(start, stop), within


def union_children(field: Field, vector: Vector, mask: Mask | None = None) -> Iterator[Vector]:
    """The values of each child of a union, in the order of the rows where `mask` is true (None: all)."""
    tags = window(vector.buffers[0], "i1", vector.offset, vector.length)
    offsets = items_of(vector, "i4")
    if mask is not None:
        tags, offsets = tags[mask], offsets[mask]
    for tag, (child, part) in enumerate(zip(field.children, vector.children, strict=True)):
        places = offsets[tags == tag].astype(np.int64)
        if len(places) and (places.min() < 0 or places.max() >= part.length):
            raise ValueError("offsets beyond the values of a union")
        if (np.diff(places) == 1).all():
            first = int(places[0]) if len(places) else 0
            yield part.slice(first, first + len(places))
        else:
            yield compact([(part, select_positions(places, len(places), part.length))], child)


# --- texts -----------------------------------------------------------------------------------------


def stored_texts(type_: Type, vector: Vector) -> Texts:
    """The texts or binaries of a vector as kernels read them; CHAR as files hold it, padded with blanks."""
    return texts_of(padded(type_, vector))


def texts_of(vector: Vector) -> Texts:
    """The texts or binaries of a vector as they are."""
    entries = vector.dictionary
    if not vector.length:
        return Texts(b"", b"", 0, 0)
    if entries is None:
        return Texts(vector.buffers[1], vector.buffers[2], vector.offset, vector.length)
    offsets, data = entries.buffers[1], entries.buffers[2]
    indexes, first, size = vector.buffers[1], vector.offset, entries.offset + entries.length
    if entries.offset:
        moved = items_of(vector, "i4") + np.int32(entries.offset)
        return Texts(offsets, data, 0, vector.length, moved, size)
    return Texts(offsets, data, first, vector.length, indexes, size)


def padded(type_: Type, vector: Vector) -> Vector:
    """Texts of CHAR padded with blanks, as files hold them; all others as they are."""
    length = type_.max_length
    if type_.kind is not Kind.CHAR or length is None or not vector.length:
        return vector
    if vector.dictionary is not None:
        return replace(vector, dictionary=padded(type_, vector.dictionary))
    offsets = offsets_of(vector)
    held = vector.buffers[2]
    data = np.frombuffer(memoryview(b"" if held is None else held), np.uint8)
    found = cut_texts(offsets, data, np.ones(vector.length, np.uint8), length, True, length)
    return vector if found is None else Vector(vector.length, (None, *found), 0)
