"""Encoders of every type: which streams it has, and how values become what they hold.

Know the encoding tables. What is common to all stands in `codec.encode.encoder`. Specification: "Column
Encodings".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.convert.zone_shift import wall_clock_shift
from orcstream.codec.crypto.masks import Masking, mask_of
from orcstream.codec.encode._encode_texts import DictionaryBuilder, lengths_of
from orcstream.codec.encode.encoder import (
    ColumnEncoder,
    EncodedColumn,
    EncodeOptions,
    SubtreeEncoder,
)
from orcstream.codec.encode.statistics import MOST_BOUND_BYTES, text_statistics
from orcstream.codec.metadata.structure import EncodingKind, StreamKind, is_decimal64
from orcstream.codec.streams._encode_values import (
    BoolEncoder,
    ByteEncoder,
    Encoder,
    RawEncoder,
    Varint128Encoder,
)
from orcstream.codec.streams.compression import Compressor
from orcstream.codec.vectors._times import encode_timestamps, hybrid_days, hybrid_times, widen_days
from orcstream.codec.vectors.cells import Cells, padded, stored_texts, union_children
from orcstream.codec.vectors.column import DTYPES, EMPTY, Field, Vector, as_buffer, items_of, window, words_of
from orcstream.codec.vectors.times import JAVA_ZONES_BEGIN, UTC, ZoneRules, units_of
from orcstream.encryption import Mask
from orcstream.schema.column_statistics import ColumnStatistics
from orcstream.schema.types import TEXTS, TIMES, Kind, Type, decimal_shape

if TYPE_CHECKING:
    from typing_extensions import Buffer

# When a dictionary has to show that it pays: after so many rows, or bytes, at the latest.
_TRIAL_ROWS = 10_000
_TRIAL_BYTES = 1 << 20
# Masks may make longer texts than those that are masked; no more than these of so many rows are held.
_MASKED_ROWS = 1 << 16


def encoder_of(type_: Type, options: EncodeOptions) -> SubtreeEncoder:
    """A new encoder of a column and all columns below it."""
    encrypted = options.encrypted.get(type_.column_id)
    if encrypted is not None:
        values = encoder_of(type_, replace(options, encrypted={}))
        masked = _masked(type_, replace(options, blooms={}), encrypted.mask)
        return _Forms(masked, _Form(values, variant=encrypted.variant))
    mask = options.masked.get(type_.column_id)
    if mask is not None:
        return _Forms(_masked(type_, options, mask))
    if is_decimal64(type_, decimal64=options.decimal64):
        return _ShortDecimals(type_, options)
    if type_.kind is Kind.DATE and options.hybrid:
        return _HybridDates(type_, options)
    return _ENCODERS[type_.kind](type_, options)


def _masked(type_: Type, options: EncodeOptions, mask: Mask) -> _Form:
    encoder = encoder_of(type_, replace(options, encrypted={}, masked={}))
    return _Form(encoder, mask_of(type_, mask, options.zone))


@dataclass(frozen=True, slots=True)
class _Form:
    """A form in which a column is written: what a mask leaves of its values, or as a variant."""

    encoder: SubtreeEncoder
    masking: Masking | None = None
    variant: int | None = None


class _Forms:
    """A column that is written as its mask leaves it, and of which a variant, if any, holds the values.

    The two have nothing in common: nothing of the values may reach the streams, indexes and statistics of the
    masked form, which has no bloom filters beside a variant.
    """

    def __init__(self, *forms: _Form) -> None:
        self._forms = forms

    def begin_group(self) -> None:
        for form in self._forms:
            form.encoder.begin_group()

    def add(self, field: Field, vector: Vector) -> None:
        for form in self._forms:
            if form.masking is None:
                form.encoder.add(field, vector)
                continue
            for start in range(0, vector.length, _MASKED_ROWS):
                some = vector.slice(start, min(vector.length, start + _MASKED_ROWS))
                form.encoder.add(field, form.masking.apply(field, some))

    def end_group(self) -> None:
        for form in self._forms:
            form.encoder.end_group()

    def compress(self, compressor: Compressor | None) -> None:
        for form in self._forms:
            form.encoder.compress(compressor)

    @property
    def size_bytes(self) -> int:
        return sum(form.encoder.size_bytes for form in self._forms)

    @property
    def held_bytes(self) -> int:
        return sum(form.encoder.held_bytes for form in self._forms)

    def finish(self, compressor: Compressor | None) -> list[EncodedColumn]:
        return [
            replace(column, variant=form.variant)
            for form in self._forms
            for column in form.encoder.finish(compressor)
        ]


class _Versioned(ColumnEncoder):
    """Columns whose integers have run lengths of either version."""

    def __init__(self, type_: Type, options: EncodeOptions) -> None:
        super().__init__(type_, options)
        self.encoding = EncodingKind.DIRECT if options.version_1 else EncodingKind.DIRECT_V2


# --- numbers ---------------------------------------------------------------------------------------


class _Booleans(ColumnEncoder):
    def _open(self) -> None:
        self._data = self._streams[StreamKind.DATA] = BoolEncoder(self._out())

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        bits = values.buffers[1]
        assert bits is not None
        self._data.put_bits(bits, values.offset, values.length)


class _Bytes(ColumnEncoder):
    def _open(self) -> None:
        self._data = self._streams[StreamKind.DATA] = ByteEncoder(self._out())

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        self._data.put(items_of(values, "i1"), values.length)


class _Integers(_Versioned):
    def _open(self) -> None:
        self._data = self._integers(StreamKind.DATA, signed=True)

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        found = items_of(values, DTYPES[self.type.kind])
        self._data.put(found.astype("i8", copy=False), values.length)


class _Dates(_Integers):
    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        self._data.put(widen_days(values.buffers[1], values.offset, values.length), values.length)


class _HybridDates(_Dates):
    """Dates in the hybrid calendar, in statistics too, as readers expect them."""

    def _values(self, field: Field, vector: Vector) -> Vector:
        values = super()._values(field, vector)
        days = hybrid_days(values.buffers[1], values.offset, values.length)
        return Vector(values.length, (None, days), 0)


class _Floats(ColumnEncoder):
    def _open(self) -> None:
        self._dtype = "f4" if self.type.kind is Kind.FLOAT else "f8"
        raw = RawEncoder(self._out(), item_bytes=np.dtype(self._dtype).itemsize)
        self._data = self._streams[StreamKind.DATA] = raw

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        self._data.put(items_of(values, self._dtype), values.length)


class _Decimals(_Versioned):
    """Unbounded integers, and the scale of each: always that of the type."""

    def _open(self) -> None:
        self._data = self._streams[StreamKind.DATA] = Varint128Encoder(self._out())
        self._scales = self._integers(StreamKind.SECONDARY, signed=True)
        self._scale = decimal_shape(self.type)[1]

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        self._data.put(words_of(values), values.length)
        self._scales.put_repeated(self._scale, values.length)


class _ShortDecimals(ColumnEncoder):
    """Decimals of at most 18 digits as plain integers, in files of version UNSTABLE-PRE-2.0."""

    def _open(self) -> None:
        self._data = self._integers(StreamKind.DATA, signed=True)

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        self._data.put(np.ascontiguousarray(words_of(values)[::2]), values.length)


# --- times -----------------------------------------------------------------------------------------


class _Timestamps(_Versioned):
    """Seconds since 2015 and nanoseconds; instants count in UTC whatever the writer's zone is.

    Where a TIMESTAMP column is given instants, they are stored as such, so both passes through an hour that
    the zone's clock shows twice are told apart. Before 1900 the way leads over the wall clock, as for Java.
    """

    def _open(self) -> None:
        self._seconds = self._integers(StreamKind.DATA, signed=True)
        self._nanos = self._integers(StreamKind.SECONDARY, signed=False)
        self._zone = UTC if self.type.kind is Kind.TIMESTAMP_INSTANT else self.options.zone

    def _recorded(self, field: Field, values: Vector) -> Vector:
        """In the calendar of the file, as readers expect them."""
        if self._zone is not UTC and _holds_instants(field):
            values = self._clocks(field, values)
        if not self.options.hybrid:
            return values
        unit = units_of(field.format)
        times = hybrid_times(values.buffers[1], values.offset, values.length, unit)
        return Vector(values.length, (None, times), 0)

    def _clocks(self, field: Field, values: Vector) -> Vector:
        """What the clocks of the zone showed at these instants."""
        unit, instants = units_of(field.format), items_of(values, "i8")
        seconds = instants // unit
        shift = wall_clock_shift(seconds, self._zone)
        old = seconds < JAVA_ZONES_BEGIN
        if old.any():
            shift[old] = wall_clock_shift(seconds[old], self.options.mean_time)
        return Vector(values.length, (None, as_buffer(instants + unit * shift)), 0)

    def _put(self, field: Field, values: Vector) -> None:
        if self._zone is UTC or not _holds_instants(field):
            seconds, nanos = self._stored(field, values, self._zone)
        else:
            seconds, nanos = self._stored(field, values, UTC)
            old = items_of(values, "i8") // units_of(field.format) < JAVA_ZONES_BEGIN
            if old.any():
                by_clock = self._stored(field, self._clocks(field, values), self._zone)
                seconds, nanos = (
                    as_buffer(np.where(old, *(window(one, "i8", 0, values.length) for one in pair)))
                    for pair in zip(by_clock, (seconds, nanos), strict=True)
                )
        self._seconds.put(seconds, values.length)
        self._nanos.put(nanos, values.length)

    def _stored(self, field: Field, values: Vector, rules: ZoneRules) -> tuple[Buffer, Buffer]:
        return encode_timestamps(
            values.buffers[1],
            values.offset,
            values.length,
            rules.transitions,
            rules.offsets,
            self.options.hybrid,
            units_of(field.format),
            self._zone.base_seconds(),
        )


def _holds_instants(field: Field) -> bool:
    return bool(field.format[4:])


# --- texts -----------------------------------------------------------------------------------------


class _Binaries(_Versioned):
    """All bytes one after the other, and the length of each value."""

    def _open(self) -> None:
        self._data: Encoder = RawEncoder(self._out(), item_bytes=1)
        self._streams[StreamKind.DATA] = self._data
        self._lengths = self._integers(StreamKind.LENGTH, signed=False)

    def _put(self, field: Field, values: Vector) -> None:  # noqa: ARG002
        lengths, start, stop = lengths_of(values.buffers[1], values.offset, values.length)
        self._lengths.put(lengths, values.length)
        self._put_bytes(values.buffers[2], start, stop)

    def _put_bytes(self, data: Any, start: int, stop: int) -> None:
        if stop > start:
            self._data.put(memoryview(data)[start:stop], stop - start)


class _Texts(_Binaries):
    """Texts, from a dictionary where that pays.

    The first row group goes into a dictionary on trial. Where its texts are of few different values the
    stripe keeps it, else they are encoded directly (as ORC Java decides, early). A dictionary is sorted when
    the stripe ends, which makes it compress better; so the entry numbers of all rows are held until then, in
    four bytes each.
    """

    def _open(self) -> None:
        """On trial; `_settle` opens the streams of direct encoding."""
        self._is_settled = False
        self._rows = 0
        self._dictionary: DictionaryBuilder | None = DictionaryBuilder()
        self._entry_count = 0
        self._found = EMPTY
        # The number of the row group, from 1, and entry numbers of some of its rows.
        self._held: list[tuple[int, NDArray[np.int32]]] = []
        self._numbers = self._integers(StreamKind.DATA, signed=False)
        if not self.options.dictionary_threshold:
            self._settle()

    @property
    def _dictionary_size(self) -> int:
        return self._entry_count

    @property
    def _own_held_bytes(self) -> int:
        return 0 if self._dictionary is None else self._dictionary.held_bytes + 4 * self._rows

    @property
    def _own_size_bytes(self) -> int:
        if self._dictionary is None:
            return 0
        width = max(1, (self._dictionary.count - 1).bit_length())
        return self._dictionary.data_bytes + self._rows * width // 8

    def _statistics_of(self, cells: Cells) -> ColumnStatistics:
        """From the dictionary, in which each text is compared once."""
        if self._dictionary is None:
            return super()._statistics_of(cells)
        count = cells.value_count
        self._found = self._dictionary.add(stored_texts(self.type, cells.vector))
        least, largest, total = self._dictionary.bounds(self._found, count, MOST_BOUND_BYTES)
        return ColumnStatistics(
            value_count=count, has_null=cells.has_null, **text_statistics(least, largest, total)
        )

    def _put(self, field: Field, values: Vector) -> None:
        if self._dictionary is None:
            self._put_direct(field, values)
            return
        numbers, self._found = window(self._found, "i8", 0, values.length), EMPTY
        self._held.append((len(self._positions), numbers.astype("i4")))
        self._rows += values.length
        if self._rows >= _TRIAL_ROWS or self._dictionary.data_bytes >= _TRIAL_BYTES:
            self._settle()

    def end_group(self) -> None:
        if self._rows:
            self._settle()
        super().end_group()

    def _put_direct(self, field: Field, values: Vector) -> None:
        if values.dictionary is None:
            super()._put(field, padded(self.type, values))
            return
        gathered = DictionaryBuilder()
        numbers = gathered.add(stored_texts(self.type, values))
        self._put_entries(gathered, numbers, values.length)

    def _put_entries(self, dictionary: DictionaryBuilder, numbers: object, count: int) -> None:
        lengths, data = dictionary.take(numbers, count)
        self._lengths.put(lengths, count)
        self._put_bytes(data, 0, len(data))

    def _settle(self) -> None:
        """Decide between dictionary and direct encoding, once."""
        if self._is_settled or self._dictionary is None:
            return
        self._is_settled = True
        dictionary = self._dictionary
        threshold = self.options.dictionary_threshold
        if threshold and dictionary.count <= threshold * self._rows:
            version_1 = self.options.version_1
            self.encoding = EncodingKind.DICTIONARY if version_1 else EncodingKind.DICTIONARY_V2
            return
        held, self._held = self._held, []
        self._dictionary = None
        del self._streams[StreamKind.DATA]
        super()._open()
        # Row groups may have begun already; their nulls are where they were, the rest at the streams' start.
        starts = (self._data.position, self._lengths.position)
        self._positions = [(positions[0], *starts) for positions in self._positions]
        for _, numbers in held:
            self._put_entries(dictionary, numbers.astype("i8"), len(numbers))

    def _ending(self) -> None:
        self._settle()
        if self._dictionary is None:
            return
        # Let go here: who lays the stripe out still holds its encoders.
        dictionary, self._dictionary = self._dictionary, None
        self._entry_count = dictionary.count
        ranks, lengths, data = dictionary.sort()
        self._put_ranks(window(ranks, "i8", 0, dictionary.count))
        entries = RawEncoder(self._out(), item_bytes=1)
        self._streams[StreamKind.DICTIONARY_DATA] = entries
        entries.put(data, len(data))
        self._integers(StreamKind.LENGTH, signed=False).put(lengths, dictionary.count)

    def _put_ranks(self, ranks: NDArray[np.int64]) -> None:
        """The rows of all row groups, which have their places only now."""
        held = deque(self._held)
        self._held = []
        for group, positions in enumerate(self._positions, 1):
            self._positions[group - 1] = (positions[0], self._numbers.position)
            while held and held[0][0] == group:
                numbers = held.popleft()[1]
                self._numbers.put(ranks.take(numbers), len(numbers))


# --- compound types --------------------------------------------------------------------------------


def _encoders_below(encoder: ColumnEncoder) -> tuple[SubtreeEncoder, ...]:
    return tuple(encoder_of(child, encoder.options) for child in encoder.type.children)


def _add_below(encoder: ColumnEncoder, field: Field, parts: Iterable[Vector]) -> None:
    for below, child, part in zip(encoder.children, field.children, parts, strict=True):
        below.add(child, part)


class _Lists(_Versioned):
    def _open(self) -> None:
        self._lengths = self._integers(StreamKind.LENGTH, signed=False)
        self.children = _encoders_below(self)

    def _put(self, field: Field, values: Vector) -> None:
        lengths, start, stop = lengths_of(values.buffers[1], values.offset, values.length)
        self._lengths.put(lengths, values.length)
        (items,) = values.children
        if stop > items.length:
            raise ValueError("offsets beyond the items")
        self._put_items(field.children[0], items, start, stop)

    def _put_items(self, field: Field, items: Vector, start: int, stop: int) -> None:
        self.children[0].add(field, items.slice(start, stop))


class _Maps(_Lists):
    def _put_items(self, field: Field, items: Vector, start: int, stop: int) -> None:
        start, stop = items.offset + start, items.offset + stop
        _add_below(self, field, (part.slice(start, stop) for part in items.children))


class _Structs(ColumnEncoder):
    def _open(self) -> None:
        self.children = _encoders_below(self)

    def _put(self, field: Field, values: Vector) -> None:
        _add_below(self, field, values.struct_children())


class _Unions(ColumnEncoder):
    def _open(self) -> None:
        self._tags = self._streams[StreamKind.DATA] = ByteEncoder(self._out())
        self.children = _encoders_below(self)

    def _put(self, field: Field, values: Vector) -> None:
        self._tags.put(window(values.buffers[0], "i1", values.offset, values.length), values.length)
        _add_below(self, field, union_children(field, values))


_ENCODERS: dict[Kind, type[ColumnEncoder]] = {
    Kind.BOOLEAN: _Booleans,
    Kind.BYTE: _Bytes,
    Kind.SHORT: _Integers,
    Kind.INT: _Integers,
    Kind.LONG: _Integers,
    Kind.FLOAT: _Floats,
    Kind.DOUBLE: _Floats,
    **dict.fromkeys(TEXTS, _Texts),
    **dict.fromkeys((Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY), _Binaries),
    Kind.DATE: _Dates,
    **dict.fromkeys(TIMES, _Timestamps),
    Kind.DECIMAL: _Decimals,
    Kind.LIST: _Lists,
    Kind.MAP: _Maps,
    Kind.STRUCT: _Structs,
    Kind.UNION: _Unions,
}
