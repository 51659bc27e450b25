"""What all column decoders have in common: rows, masks, budgets, and streams that run dry.

A column decoder turns the value streams of one column (and its children) into vectors, some rows at a
time. It is asked twice: `ready(n)` decodes ahead as far as it must to say how many of the next n rows
can be had, given the bytes fed so far and a budget for decoded bytes; `take(k)` then hands out k of
them. Nothing is lost between the two: values decoded ahead stay pending in their streams. So a window
can end at any row, children are sized after their parents' lengths are decoded, and a stream that runs
dry is named in the turn, fed, and asked again.

Rows are counted in the parent's space and carry the parent's mask, so that a null struct needs no second
pass over its children. Must not know stripes, files or threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from orcstream._buffer import Buffer
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams._values import BoolValues, Values
from orcstream.codec.streams.compression import Decompress
from orcstream.codec.vectors._vector import (
    count_ones,
    fit_lengths,
    merge_masks,
    pack_bits,
    rows_within,
    spread,
)
from orcstream.codec.vectors.column import MAX_VECTOR_BYTES, Vector
from orcstream.errors import CorruptStream, OrcError
from orcstream.schema.types import Type


@dataclass(slots=True)
class Turn:
    """One call of a worker: its decompressor, how large a dictionary may be, and which streams ran dry.

    A dictionary that was loaded is taken off `dictionary_limit`.
    """

    decompress: Decompress
    dictionary_limit: int = MAX_VECTOR_BYTES
    starved: list[InputStream] = field(default_factory=list)

    def values(self, stream: Values, wanted: int) -> int:
        """How many of the `wanted` values are pending; notes the stream when they are not all there."""
        got = stream.ensure(wanted, self.decompress)
        if got < wanted:
            self.starved.append(stream.input)
        return got


class ColumnDecoder(ABC):
    """Decodes one column of one stripe, in row order.

    `row_bytes` is what a row takes when decoded, exactly where `is_fixed`, else at least.
    """

    row_bytes: int = 1
    is_fixed = False

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        children: Sequence[ColumnDecoder] = (),
    ) -> None:
        self.type = type_
        self.leaf_count: int = max(1, sum(child.leaf_count for child in children))
        self._present = present
        self._values = tuple(values)
        self._inputs = [stream.input for stream in (present, *values) if stream is not None]
        self._children = tuple(children)
        self._parent: Buffer | None = None
        self._mask: Buffer | None = None

    @abstractmethod
    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        """How many of the next `count` rows can be taken; fewer when a stream ran dry or the budget ends.

        `parent` has one byte a row, 0 where the parent is null and this column has no row in the file;
        None is all ones. `budget` bounds the decoded bytes.
        """

    @abstractmethod
    def take(self, count: int) -> Vector:
        """The next `count` rows, at most as many as `ready` answered last."""

    def streams(self) -> Sequence[InputStream]:
        """All input streams of this column and its children."""
        return [*self._inputs, *chain.from_iterable(child.streams() for child in self._children)]

    def _share(self, budget: int, child: ColumnDecoder) -> int:
        """A child's part of a budget, by its leaves: so it is the same however deep they lie."""
        return budget * child.leaf_count // self.leaf_count

    def _see(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        """Rows whose presence is known, within the budget; sets the mask for them."""
        count = min(count, budget // self.row_bytes)
        self._parent = parent
        if self._present is None:
            self._mask = parent
            return count
        wanted = self._values_of(parent, count)
        got = turn.values(self._present, wanted)
        if got < wanted:
            count = got if parent is None else rows_within(parent, count, got)
        own = self._present.peek(got)
        self._mask = own if parent is None else merge_masks(parent, own, count)
        return count

    def _see_values(self, stream: Values, count: int, turn: Turn) -> int:
        """Rows, at most `count`, for which the stream has its values."""
        wanted = self._values_of(self._mask, count)
        got = turn.values(stream, wanted)
        if got == wanted:
            return count
        return got if self._mask is None else rows_within(self._mask, count, got)

    def _see_first(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        """Rows within the budget for which the first stream has its values."""
        return self._see_values(self._values[0], self._see(count, parent, budget, turn), turn)

    def _fit(self, lengths: Values, mask: Buffer | None, count: int, limit: int) -> tuple[int, int]:
        """Rows, at most `count`, whose lengths add up to `limit` at most, and to what."""
        rows, total, bad = fit_lengths(lengths, mask, count, limit)
        if bad >= 0:
            raise self._located(CorruptStream("a negative length"), lengths)
        return rows, total

    def _take_mask(self, count: int) -> tuple[Buffer | None, Buffer | None, int]:
        """Advance past the presence of `count` rows: (validity bitmap, mask, number of values)."""
        if self._present is not None:
            self._present.drop(self._values_of(self._parent, count))
        values = self._values_of(self._mask, count)
        if self._mask is None or values == count:
            return None, None, values
        return pack_bits(self._mask, count), self._mask, values

    @staticmethod
    def _values_of(mask: Buffer | None, count: int) -> int:
        return count if mask is None else count_ones(mask, count)

    def _located(self, error: OrcError, stream: Values | None = None) -> OrcError:
        kind = None if stream is None else stream.input.kind
        return error.locate(column=self.type.column_id, stream_kind=kind)


class FixedDecoder(ColumnDecoder):
    """A column of fixed width, from streams that all have one entry a value."""

    is_fixed = True

    def __init__(
        self, type_: Type, present: BoolValues | None, values: Sequence[Values], *, row_bytes: int
    ) -> None:
        super().__init__(type_, present, values)
        self.row_bytes = row_bytes

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        count = self._see(count, parent, budget, turn)
        for stream in self._values:
            count = self._see_values(stream, count, turn)
        return count

    def take(self, count: int) -> Vector:
        validity, mask, values = self._take_mask(count)
        data = self._decode(count, mask, values)
        return Vector(count, (validity, data), count - values)

    @abstractmethod
    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        """`count` rows from the next `values` values, with zeros where the mask has 0."""

    def _spread(self, data: Buffer, mask: Buffer | None, count: int) -> Buffer:
        return data if mask is None else spread(data, mask, count, self.row_bytes)
