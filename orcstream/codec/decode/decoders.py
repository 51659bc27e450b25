"""Decoders of columns: how the values of their streams become vectors, some rows at a time.

A column decoder turns the value streams of one column (and its children) into vectors. It is asked twice:
`ready(n)` decodes ahead as far as it must to say how many of the next n rows can be had, given the bytes
fed so far and a budget for decoded bytes; `take(k)` then hands out k of them. Nothing is lost between the
two: values decoded ahead stay pending in their streams. So a window can end at any row, children are sized
after their parents' lengths are decoded, and a stream that runs dry is named in the turn, fed, and asked
again.

Rows are counted in the parent's space and carry the parent's mask, so that a null struct needs no second
pass over its children. Must not know stripes, files or threads, nor compound types (`codec.decode.stripe`).

Knows the encoding tables, epochs, zones and calendars, dictionaries and UTF-8. TIMESTAMP is naive wall
clock: what the writer's clock showed, whatever its zone. TIMESTAMP_INSTANT is a point in time. CHAR values
are given as they are stored (writers differ in whether they pad). Specification: "Column Encodings";
ORC-306, ORC-763 and ORC-2151 for the times before 1970.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer, zeroed
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams._values import BoolValues, Values
from orcstream.codec.streams.compression import Decompress
from orcstream.codec.vectors._times import dates, timestamps
from orcstream.codec.vectors._vector import (
    count_ones,
    count_up,
    decimals,
    fit_entries,
    fit_lengths,
    gather_entries,
    invalid_utf8,
    last_offset,
    merge_masks,
    narrow,
    offsets_of,
    pack_bits,
    rows_within,
    spread,
    widen,
)
from orcstream.codec.vectors.column import EMPTY, MAX_VECTOR_BYTES, Vector
from orcstream.codec.vectors.times import JAVA_ZONES_BEGIN, UNITS, UTC, Clock, ZoneRules, beyond_unit
from orcstream.errors import CorruptStream, FormatError, OrcError, Unsupported
from orcstream.schema.types import Type, decimal_shape


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


# --- numbers ---------------------------------------------------------------------------------------


class BooleanDecoder(FixedDecoder):
    """Booleans, as an Arrow bitmap."""

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return pack_bits(self._spread(self._values[0].take(values), mask, count), count)


class PlainDecoder(FixedDecoder):
    """Values that stand in their stream as Arrow wants them.

    Bytes, 64-bit integers, floating point numbers.
    """

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return self._spread(self._values[0].take(values), mask, count)


class IntegerDecoder(FixedDecoder):
    """Integers narrower than the 64 bits that run lengths are decoded to."""

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return narrow(self._values[0].take(values), mask, count, self.row_bytes)


class DecimalDecoder(FixedDecoder):
    """Decimals, as decimal128: varints with a scale each, or the integers of the decimal64 form."""

    def __init__(self, type_: Type, present: BoolValues | None, values: Sequence[Values]) -> None:
        super().__init__(type_, present, values, row_bytes=16)
        self._precision, self._scale = decimal_shape(type_)

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        data, *scales = [stream.take(values) for stream in self._values]
        if not scales:
            data = widen(data, values)
        bad = decimals(data, scales[0] if scales else None, values, self._scale, self._precision)
        if bad >= 0:
            message = f"a value does not fit {self._precision} digits, {self._scale} of them decimals"
            raise self._located(CorruptStream(message), self._values[0])
        return self._spread(data, mask, count)


# --- times -----------------------------------------------------------------------------------------


class DateDecoder(FixedDecoder):
    """Dates, as days since 1970 in the proleptic Gregorian calendar."""

    def __init__(
        self, type_: Type, present: BoolValues | None, values: Sequence[Values], *, hybrid: bool
    ) -> None:
        super().__init__(type_, present, values, row_bytes=4)
        self._hybrid = hybrid

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        days = dates(self._values[0].take(values), values, self._hybrid)
        return narrow(days, mask, count, self.row_bytes)


class TimestampDecoder(FixedDecoder):
    """Timestamps of either kind, as int64 counts of the unit asked for.

    As points in time, what is stored is one already, but for a constant: so both passes through an hour that
    the clock showed twice are told apart. Before 1900 the way leads over the wall clock, as for Java.
    """

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        *,
        clock: Clock,
        hybrid: bool,
        unit: str,
    ) -> None:
        super().__init__(type_, present, values, row_bytes=8)
        self._zone = clock.zone
        self._old_shift = clock.old_shift
        self._base_seconds = clock.zone.base_seconds()
        self._hybrid = hybrid
        self._unit = unit

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        seconds, nanos = (stream.take(values) for stream in self._values)
        if self._old_shift is None:
            return self._spread(self._told(seconds, nanos, values, self._zone), mask, count)
        data = self._told(seconds, nanos, values, None)
        instants = _items(data, values)
        units = UNITS[self._unit]
        old = instants < JAVA_ZONES_BEGIN * units
        if old.any():
            clocks = _items(self._told(seconds, nanos, values, self._zone), values)[old]
            instants[old] = clocks + self._old_shift(clocks // units) * units
        return self._spread(data, mask, count)

    def _told(self, seconds: Buffer, nanos: Buffer, values: int, zone: ZoneRules | None) -> Buffer:
        """By the clock and calendar of a zone; without one, as the points in time that are stored."""
        data, bad, beyond = timestamps(
            seconds,
            nanos,
            values,
            self._base_seconds,
            (zone or UTC).transitions,
            (zone or UTC).offsets,
            zone is not None and self._hybrid,
            UNITS[self._unit],
        )
        if bad >= 0:
            raise self._located(CorruptStream("nanoseconds beyond a second"), self._values[1])
        if beyond >= 0:
            raise self._located(beyond_unit("a timestamp does", self._unit), self._values[0])
        return data


def _items(data: Buffer, count: int) -> NDArray[np.int64]:
    return np.frombuffer(memoryview(data), np.int64, count)


# --- texts -----------------------------------------------------------------------------------------


class _TextColumn(ColumnDecoder):
    """What direct and dictionary columns share: offsets are 4 bytes a row, and text is checked."""

    row_bytes = 4

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None:
        super().__init__(type_, present, values)
        self._validate = validate
        self._dictionaries = dictionaries

    def _check_text(self, offsets: Buffer, count: int, data: Buffer, *, rows: bool) -> None:
        if not self._validate:
            return
        bad = invalid_utf8(offsets, count, data)
        if bad >= 0:
            raise FormatError(
                f"no UTF-8: {'row' if rows else 'dictionary entry'} {bad} of what was decoded; "
                'read it with invalid_utf8="binary"',
                column=self.type.column_id,
                row=bad if rows else None,
            )


class TextDecoder(_TextColumn):
    """Direct encoding: lengths, and all bytes one after the other."""

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        budget = min(budget, MAX_VECTOR_BYTES)
        lengths, data = self._values
        count = self._see_first(count, parent, budget, turn)
        rows, total = self._fit(lengths, self._mask, count, budget)
        have = turn.values(data, total)
        return rows if have == total else self._fit(lengths, self._mask, rows, have)[0]

    def take(self, count: int) -> Vector:
        validity, mask, values = self._take_mask(count)
        lengths = self._values[0].take(values)
        offsets = offsets_of(lengths, mask, count)
        data = self._values[1].take(last_offset(offsets, count))
        self._check_text(offsets, count, data, rows=True)
        nulls = count - values
        if not self._dictionaries:
            return Vector(count, (validity, offsets, data), nulls)
        # A dictionary of its own values, so that a column keeps one type where stripes differ in encoding.
        entries = Vector(values, (None, offsets_of(lengths, None, values), data), 0)
        return Vector(count, (validity, count_up(mask, count)), nulls, dictionary=entries)


class DictionaryDecoder(_TextColumn):
    """Dictionary encoding: the stripe's entries, and an index into them for each value."""

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        values: Sequence[Values],
        size: int,
        *,
        validate: bool,
        dictionaries: bool,
    ) -> None:
        super().__init__(type_, present, values, validate=validate, dictionaries=dictionaries)
        self._indexes, self._lengths, self._entries = values
        self._size = size
        self._loaded: tuple[Buffer, Buffer] | None = None

    @property
    def dictionary_bytes(self) -> int:
        """What the loaded dictionary takes; 0 before."""
        return 0 if self._loaded is None else sum(part.nbytes for part in self._loaded)

    def ready(self, count: int, parent: Buffer | None, budget: int, turn: Turn) -> int:
        if not self._load(turn):
            return 0
        assert self._loaded is not None
        budget = min(budget, MAX_VECTOR_BYTES)
        count = self._see_first(count, parent, budget, turn)
        limit = MAX_VECTOR_BYTES * count if self._dictionaries else budget
        rows, _, bad = fit_entries(self._indexes, self._mask, count, self._loaded[0], self._size, limit)
        if bad >= 0:
            message = f"an index beyond the {self._size} entries of the dictionary"
            raise self._located(CorruptStream(message, row=bad), self._indexes)
        return rows

    def _load(self, turn: Turn) -> bool:
        """Whether the dictionary is there; it is read whole, since its entries are accessed at random."""
        if self._loaded is not None:
            return True
        self._check_limit(4 * (self._size + 1), turn)
        if turn.values(self._lengths, self._size) < self._size:
            return False
        limit = min(turn.dictionary_limit, MAX_VECTOR_BYTES)
        entries, total = self._fit(self._lengths, None, self._size, limit)
        # Where not all lengths fit, their sum is beyond the limit, or beyond 31 bits, and may be beyond 64.
        fits = entries == self._size
        self._check_limit(4 * self._size + total if fits else turn.dictionary_limit + 1, turn)
        if turn.values(self._entries, total) < total:
            return False
        offsets = offsets_of(self._lengths.take(self._size), None, self._size)
        data = self._entries.take(total)
        self._check_text(offsets, self._size, data, rows=False)
        self._loaded = offsets, data
        turn.dictionary_limit -= self.dictionary_bytes
        return True

    def _check_limit(self, size: int, turn: Turn) -> None:
        if size > turn.dictionary_limit:
            message = (
                f"a dictionary of {self._size} entries and {size} bytes or more; dictionaries together "
                f"may take half of memory_limit, {turn.dictionary_limit} bytes are left; raise memory_limit="
            )
            raise self._located(Unsupported(message, reason="dictionary_too_large"), self._entries)

    def take(self, count: int) -> Vector:
        validity, mask, values = self._take_mask(count)
        # No row is ready before the dictionary is, but none may be wanted: of an empty list, of another tag.
        offsets, data = self._loaded or (zeroed(4), EMPTY)
        size = self._size if self._loaded else 0
        if self._dictionaries:
            indexes = narrow(self._indexes.take(values), mask, count, 4)
            entries = Vector(size, (None, offsets, data), 0)
            return Vector(count, (validity, indexes), count - values, dictionary=entries)
        _, total, _ = fit_entries(self._indexes, mask, count, offsets, size, MAX_VECTOR_BYTES)
        rows = gather_entries(self._indexes.take(values), mask, count, offsets, data, total)
        return Vector(count, (validity, *rows), count - values)
