"""Selected rows of several vectors of one column, brought together into one vector.

Knows the Arrow layout of every kind of vector. Must not know why rows were selected, nor batches or files.
Contract: `compact` answers the values of the selected rows, in order, in as little memory as they need;
vectors themselves are never changed, and are handed on as they are where all of one is selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from orcstream._buffer import Buffer
from orcstream.codec.vectors._gather import (
    add_to,
    entries_of,
    fill,
    gather_bits,
    gather_fixed,
    gather_lists,
    gather_texts,
    gather_union,
    measure_texts,
)
from orcstream.codec.vectors._selection import Selection, select_span
from orcstream.codec.vectors._vector import count_ones, count_up, pack_bits
from orcstream.codec.vectors.column import MAX_VECTOR_BYTES, Field, Vector, item_bytes, nulls_of
from orcstream.errors import Unsupported

_Parts: TypeAlias = list[tuple[Vector, Selection]]


def compact(parts: Sequence[tuple[Vector, Selection | None]], field: Field) -> Vector:
    """One vector of the rows that are selected of each part (None: all), in the order of the parts.

    All vectors are of `field`. One part of which all rows, or at least half in a row, are selected shares
    its memory with the answer. Raises Unsupported (`vector_too_large`) where texts or the items of lists
    would pass 2^31 - 1, ValueError for a selection of another number of rows and for vectors whose offsets
    are beyond their buffers.
    """
    found: _Parts = []
    for vector, selection in parts:
        if selection is None:
            selection = select_span(0, vector.length, vector.length)
        if selection.rows != vector.length:
            raise ValueError(f"a selection of {selection.rows} rows for a vector of {vector.length}")
        if selection.count:
            found.append((vector, selection))
    if len(found) == 1:
        vector, selection = found[0]
        span = selection.span()
        if span is not None and 2 * selection.count >= vector.length:
            return vector.slice(*span)
    return _gathered(found, field, sum(selection.count for _, selection in found))


def copied(vector: Vector, selection: Selection, field: Field) -> Vector:
    """The rows that are selected, in memory of their own; children and dictionaries may be shared."""
    return _gathered([(vector, selection)], field, selection.count)


def _gathered(parts: _Parts, field: Field, total: int) -> Vector:
    if field.dictionary is not None:
        return _dictionaries(parts, field.dictionary, total)
    if field.format.startswith("+ud:"):
        return _unions(parts, field, total)
    validity, _, nulls = _validity(parts, total)
    match field.format:
        case "+s":
            return Vector(total, (validity,), nulls, children=_struct_children(parts, field))
        case "+l" | "+m":
            offsets, items = _lists(parts, field, total)
            return Vector(total, (validity, offsets), nulls, children=(items,))
        case "u" | "z":
            return Vector(total, (validity, *_texts(parts, total)), nulls)
        case "b":
            return Vector(total, (validity, pack_bits(_bits(parts, 1, total), total)), nulls)
        case _:
            return Vector(total, (validity, _fixed(parts, item_bytes(field.format), total)), nulls)


# --- buffers ---------------------------------------------------------------------------------------


def _placed(parts: _Parts) -> Iterator[tuple[int, Vector, Selection]]:
    """The parts, and the row of the result at which each begins."""
    at = 0
    for vector, selection in parts:
        yield at, vector, selection
        at += selection.count


def _validity(parts: _Parts, total: int) -> tuple[Buffer | None, Buffer | None, int]:
    """The bitmap, the mask it is made of (both None where nothing is null) and how many nulls there are."""
    if all(vector.buffers[0] is None or vector.null_count == 0 for vector, _ in parts):
        return None, None, 0
    mask = _bits(parts, 0, total)
    nulls = total - count_ones(mask, total)
    return (pack_bits(mask, total), mask, nulls) if nulls else (None, None, 0)


def _bits(parts: _Parts, index: int, total: int) -> Buffer:
    """A byte for each row from bitmaps; where there is none, all are ones."""
    out = Buffer(total)
    for at, vector, selection in _placed(parts):
        bits = vector.buffers[index]
        if bits is None:
            fill(out, at, selection.count)
        else:
            gather_bits(out, at, bits, vector.offset, selection)
    return out


def _fixed(parts: _Parts, item_bytes: int, total: int) -> Buffer:
    out = Buffer(total * item_bytes)
    for at, vector, selection in _placed(parts):
        gather_fixed(out, at, vector.buffers[1], vector.offset, selection, item_bytes)
    return out


def _offsets(total: int) -> Buffer:
    """Offsets of which only the first one stands."""
    out = Buffer((total + 1) * 4)
    memoryview(out)[:4] = bytes(4)
    return out


def _texts(parts: _Parts, total: int) -> tuple[Buffer, Buffer]:
    size = sum(
        measure_texts(vector.buffers[1], vector.offset, vector.buffers[2], selection)
        for vector, selection in parts
    )
    if size > MAX_VECTOR_BYTES:
        raise _too_large(f"{size} bytes of text")
    offsets, data = _offsets(total), Buffer(size)
    for at, vector, selection in _placed(parts):
        gather_texts(offsets, at, data, vector.buffers[1], vector.offset, vector.buffers[2], selection)
    return offsets, data


def _too_large(what: str) -> Unsupported:
    return Unsupported(
        f"{what} for one vector, which holds 2^31 - 1 at most; ask for fewer rows at a time with batch_rows=",
        reason="vector_too_large",
    )


# --- columns with children -------------------------------------------------------------------------


def _struct_children(parts: _Parts, field: Field) -> tuple[Vector, ...]:
    rows = [(vector.struct_children(), selection) for vector, selection in parts]
    return tuple(
        compact([(children[index], selection) for children, selection in rows], child)
        for index, child in enumerate(field.children)
    )


def _lists(parts: _Parts, field: Field, total: int) -> tuple[Buffer, Vector]:
    offsets = _offsets(total)
    items: list[tuple[Vector, Selection | None]] = []
    for at, vector, selection in _placed(parts):
        child = vector.children[0]
        try:
            chosen = gather_lists(offsets, at, vector.buffers[1], vector.offset, selection, child.length)
        except OverflowError:
            raise _too_large("too many items of lists") from None
        items.append((child, chosen))
    return offsets, compact(items, field.children[0])


def _unions(parts: _Parts, field: Field, total: int) -> Vector:
    types, offsets = Buffer(total), Buffer(total * 4)
    used = [0] * len(field.children)
    chosen: list[list[tuple[Vector, Selection | None]]] = [[] for _ in field.children]
    for at, vector, selection in _placed(parts):
        rows = [child.length for child in vector.children]
        found = gather_union(
            types, offsets, at, vector.buffers[0], vector.buffers[1], vector.offset, selection, rows, used
        )
        for tag, (child, of_child) in enumerate(zip(vector.children, found, strict=True)):
            chosen[tag].append((child, of_child))
            used[tag] += of_child.count
    children = tuple(compact(chosen[tag], child) for tag, child in enumerate(field.children))
    return Vector(total, (types, offsets), 0, children=children)


# --- dictionaries ----------------------------------------------------------------------------------


def _dictionaries(parts: _Parts, entries: Field, total: int) -> Vector:
    """Indexes into one dictionary: the parts' own where they share it, else one made for them."""
    validity, mask, nulls = _validity(parts, total)
    kept: dict[int, Vector] = {}
    for vector, _ in parts:
        assert vector.dictionary is not None
        kept.setdefault(id(vector.dictionary), vector.dictionary)
    if len(kept) > 1 and sum(entry.length for entry in kept.values()) > total:
        # Fewer rows than entries: a dictionary of their own values is smaller.
        values = compact([_entries_of(vector, selection) for vector, selection in parts], entries)
        return Vector(total, (validity, count_up(mask, total)), nulls, dictionary=values)
    shifts, dictionary = _one_dictionary(list(kept.values()), entries)
    indexes = _fixed(parts, 4, total)
    for at, vector, selection in _placed(parts):
        if shift := shifts[id(vector.dictionary)]:
            add_to(indexes, at, selection.count, shift)
    return Vector(total, (validity, indexes), nulls, dictionary=dictionary)


def _entries_of(vector: Vector, selection: Selection) -> tuple[Vector, Selection]:
    assert vector.dictionary is not None
    validity = None if vector.null_count == 0 else vector.buffers[0]
    size = vector.dictionary.length
    indexes = vector.buffers[1]
    return vector.dictionary, entries_of(indexes, vector.offset, validity, vector.offset, selection, size)


def _one_dictionary(dictionaries: list[Vector], entries: Field) -> tuple[dict[int, int], Vector]:
    """All entries one after the other, and where those of each begin."""
    shifts: dict[int, int] = {}
    size = 0
    for dictionary in dictionaries:
        shifts[id(dictionary)] = size
        size += dictionary.length
    if size > MAX_VECTOR_BYTES:
        raise _too_large(f"{size} entries of dictionaries")
    if not dictionaries:
        return shifts, nulls_of(entries, 0)
    return shifts, compact([(dictionary, None) for dictionary in dictionaries], entries)
