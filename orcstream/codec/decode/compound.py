"""Decoders of lists, maps, structs and unions.

Know how the rows of children follow from their parents' lengths, masks and tags. Specification: "Struct
Columns", "List Columns", "Map Columns", "Union Columns".
"""

from __future__ import annotations

from collections.abc import Sequence

from orcstream._buffer import Buffer
from orcstream.codec.decode.decoder import ColumnDecoder, Turn
from orcstream.codec.streams._values import BoolValues, ByteValues, IntValues
from orcstream.codec.vectors._vector import (
    last_offset,
    offsets_of,
    rows_of_union,
    union_children,
)
from orcstream.codec.vectors.column import MAX_VECTOR_BYTES, Vector
from orcstream.errors import CorruptStream
from orcstream.schema.types import Kind, Type


class StructDecoder(ColumnDecoder):
    """Structs: children have the struct's own rows, so its mask is handed down."""

    def __init__(self, type_: Type, present: BoolValues | None, children: Sequence[ColumnDecoder]) -> None:
        super().__init__(type_, present, (), children)

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        count = self._see(count, parent, budget, turn)
        for child in self._children:
            count = child.ready(count, self._mask, self._share(budget, child), turn)
        return count

    def take(self, count: int) -> Vector:
        validity, _, values = self._take_mask(count)
        children = tuple(child.take(count) for child in self._children)
        return Vector(count, (validity,), count - values, children=children)


class ListDecoder(ColumnDecoder):
    """Lists, and maps: a list of entries with two children."""

    row_bytes = 4

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        lengths: IntValues,
        children: Sequence[ColumnDecoder],
    ) -> None:
        super().__init__(type_, present, (lengths,), children)
        self._lengths = lengths

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        count = self._see(count, parent, budget, turn)
        count = self._see_values(self._lengths, count, turn)
        # An element takes a byte at least, so the budget bounds how many there may be.
        rows, total = self._fit(self._lengths, self._mask, count, min(budget, MAX_VECTOR_BYTES))
        have = total
        for child in self._children:
            have = child.ready(have, None, self._share(budget, child), turn)
        return rows if have == total else self._fit(self._lengths, self._mask, rows, have)[0]

    def take(self, count: int) -> Vector:
        validity, mask, values = self._take_mask(count)
        offsets = offsets_of(self._lengths.take(values), mask, count)
        total = last_offset(offsets, count)
        children = tuple(child.take(total) for child in self._children)
        if self.type.kind is Kind.MAP:
            children = (Vector(total, (None,), 0, children=children),)
        return Vector(count, (validity, offsets), count - values, children=children)


class UnionDecoder(ColumnDecoder):
    """Unions, dense: each child has the rows that bear its tag, child 0 also a null for each null union."""

    row_bytes = 5

    def __init__(
        self, type_: Type, present: BoolValues | None, tags: ByteValues, children: Sequence[ColumnDecoder]
    ) -> None:
        super().__init__(type_, present, (tags,), children)
        self._tags = tags

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        count = self._see(count, parent, budget, turn)
        count = self._see_values(self._tags, count, turn)
        tags = self._tags.peek(self._values_of(self._mask, count))
        types, offsets, counts, first, bad = union_children(tags, self._mask, count, len(self._children))
        if bad >= 0:
            message = f"a tag beyond the {len(self._children)} children of its union"
            raise self._located(CorruptStream(message, row=bad), self._tags)
        available = [
            child.ready(wanted, first if tag == 0 else None, self._share(budget, child), turn)
            for tag, (child, wanted) in enumerate(zip(self._children, counts, strict=True))
        ]
        return rows_of_union(types, offsets, count, available)

    def take(self, count: int) -> Vector:
        mask = self._mask
        _, _, values = self._take_mask(count)
        types, offsets, counts, _, _ = union_children(
            self._tags.take(values), mask, count, len(self._children)
        )
        children = tuple(child.take(rows) for child, rows in zip(self._children, counts, strict=True))
        return Vector(count, (types, offsets), 0, children=children)
