"""What all column encoders have in common: streams, nulls, row groups, statistics and bloom filters.

A column encoder turns the vectors of one column into the streams of one stripe. It is given the rows of its
parent that have a value, nulls among them, and hands the values that are there to `_put`; so a child never
sees rows that a null parent hides. `begin_group` and `end_group` frame the rows of a row group. `compress`
makes chunks of what is full, so that no more than a block of each stream stays uncompressed; `finish` ends
the stripe. The same vectors, groups and options give the same bytes.

Knows positions and how streams become an index. Must not know files, threads, nor where a stream comes
to lie. Vectors are as `codec.ingest.fitting` promises. Specification: "Stripes", "Row Group Index",
"Bloom Filter Index".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from orcstream.codec.arrow._arrow_c import count_nulls
from orcstream.codec.encode.bloom_build import BLOOM_ENCODING, BloomBuilder
from orcstream.codec.encode.statistics import statistics_of_cells, statistics_of_nothing
from orcstream.codec.metadata.bloom import BloomFilter, BloomIndex
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import ColumnEncoding, EncodingKind, StreamInformation, StreamKind
from orcstream.codec.metadata.write import (
    FILE_VERSION,
    frame_metadata,
    serialize_bloom_index,
    serialize_row_index,
    serialize_statistics,
)
from orcstream.codec.streams._encode_rle_v2 import IntEncoder
from orcstream.codec.streams._encode_values import BoolEncoder, Encoder, IntEncoderV1
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams.compression import Compression, Compressor
from orcstream.codec.vectors._selection import select_mask
from orcstream.codec.vectors.cells import Cells
from orcstream.codec.vectors.column import Field, Vector, validity
from orcstream.codec.vectors.gather import compact
from orcstream.codec.vectors.times import UTC, ZoneRules
from orcstream.encryption import Mask
from orcstream.schema.column_statistics import ColumnStatistics, merge
from orcstream.schema.types import FileColumn, Kind, Type

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
# What Python takes for a row group, and for the place in a stream at its start; measured.
_GROUP_BYTES = 120
_PLACE_BYTES = 90


@dataclass(frozen=True, slots=True)
class EncryptedRoot:
    """A column that is encrypted with all below it: the number of its variant, its master key, its mask."""

    variant: int
    root: FileColumn
    key: str
    mask: Mask


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How a file is encoded.

    `version` is the file version: (0, 11) has run lengths of version 1, (1, 9999) short decimals as integers.
    `row_index_stride` is rows in a row group, 0 for no indexes. `aligned` takes bit widths that are read
    faster. `dictionary_threshold` is the largest share of different texts that keeps a dictionary. `blooms`
    has the share of false positives of each column with a filter; `original_blooms` writes their older form,
    too. `zone` is that of TIMESTAMP columns, and `mean_time` the same with the local times before 1900, for
    columns that are given instants; `hybrid` writes days before 1582-10-15 in the Julian calendar.
    `encrypted` has the roots of encrypted columns, in the order of their variants, `masked` those of columns
    that are written as masks leave them; none lies within another.
    """

    compression: Compression = Compression.ZSTD
    block_size: int = 1 << 18
    version: tuple[int, int] = FILE_VERSION
    row_index_stride: int = 10_000
    aligned: bool = True
    dictionary_threshold: float = 0.8
    blooms: Mapping[FileColumn, float] = field(default_factory=dict)
    original_blooms: bool = False
    zone: ZoneRules = UTC
    mean_time: ZoneRules = UTC
    hybrid: bool = False
    encrypted: Mapping[FileColumn, EncryptedRoot] = field(default_factory=dict)
    masked: Mapping[FileColumn, Mask] = field(default_factory=dict)

    @property
    def hidden(self) -> tuple[FileColumn, ...]:
        """The roots of columns whose values are not shown to everybody."""
        return (*self.encrypted, *self.masked)

    @property
    def version_1(self) -> bool:
        """Whether integers have run lengths of version 1."""
        return self.version == (0, 11)

    @property
    def decimal64(self) -> bool:
        """Whether short decimals are plain integers."""
        return self.version == (1, 9999)


@dataclass(frozen=True, slots=True)
class EncodedStream:
    """A finished stream: its directory entry, and its bytes in pieces."""

    information: StreamInformation
    pieces: list[Buffer]


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """What one column gives to a stripe; `index` and `data` are its streams of either area.

    An encrypted column gives two: its masked form, and its values with the number of their `variant`.
    """

    column: FileColumn
    encoding: ColumnEncoding
    index: tuple[EncodedStream, ...]
    data: tuple[EncodedStream, ...]
    statistics: ColumnStatistics
    variant: int | None = None


class SubtreeEncoder(Protocol):
    """Encodes one column of one stripe, and the columns below it."""

    def begin_group(self) -> None:
        """The next rows begin a row group."""

    def add(self, field: Field, vector: Vector) -> None:
        """Encode rows; `field` describes the vector, and may differ in units from one call to the next."""

    def end_group(self) -> None:
        """The row group is complete."""

    def compress(self, compressor: Compressor | None) -> None:
        """Turn all full blocks into chunks."""

    @property
    def size_bytes(self) -> int:
        """What the data streams will take, about; indexes are not counted."""

    @property
    def held_bytes(self) -> int:
        """Memory held."""

    def finish(self, compressor: Compressor | None) -> list[EncodedColumn]:
        """The finished columns, by column id, variants among them; nothing may be added afterwards."""


class ColumnEncoder(ABC):
    """A `SubtreeEncoder` of one type: the streams of its column, and the encoders of those below."""

    def __init__(self, type_: Type, options: EncodeOptions) -> None:
        self.type = type_
        self.options = options
        self.children: tuple[SubtreeEncoder, ...] = ()
        # In the order of positions; PRESENT comes first.
        self._streams: dict[StreamKind, Encoder] = {}
        self._present = BoolEncoder(self._out())
        self._streams[StreamKind.PRESENT] = self._present
        self._has_nulls = False
        self._positions: list[tuple[tuple[int, ...], ...]] = []
        self._group: ColumnStatistics | None = None
        self._stripe: ColumnStatistics | None = None
        self._serialized: list[bytes] = []
        self._bloom = self._bloom_builder()
        self._filters: list[BloomFilter] = []
        self._index_bytes = 0
        self._open()

    # --- what each type has of its own

    encoding = EncodingKind.DIRECT

    def _open(self) -> None:  # noqa: B027  # the root of a file has nothing of its own
        """Make the streams, and the encoders of the columns below."""

    @abstractmethod
    def _put(self, field: Field, values: Vector) -> None:
        """Encode values, none of which is null."""

    def _statistics_of(self, cells: Cells) -> ColumnStatistics:
        """Statistics of values; called before `_put` is given the same values."""
        return statistics_of_cells(cells)

    def _recorded(self, field: Field, values: Vector) -> Vector:  # noqa: ARG002
        """The values as statistics and bloom filters have them."""
        return values

    def _ending(self) -> None:  # noqa: B027  # most types have nothing to do
        """Called when no more rows come, before streams are finished."""

    @property
    def _dictionary_size(self) -> int:
        return 0

    @property
    def _own_held_bytes(self) -> int:
        """Memory held besides streams."""
        return 0

    @property
    def _own_size_bytes(self) -> int:
        """What streams will have in the end that they have not got yet, before compression."""
        return 0

    # --- rows

    def begin_group(self) -> None:
        """The next rows begin a row group."""
        self._positions.append(tuple(encoder.position for encoder in self._streams.values()))
        self._index_bytes += _GROUP_BYTES + _PLACE_BYTES * len(self._streams)
        for child in self.children:
            child.begin_group()

    def add(self, field: Field, vector: Vector) -> None:
        """Encode rows; `field` describes the vector, and may differ in units from one call to the next."""
        values = self._values(field, vector)
        recorded = self._recorded(field, values)
        cells = Cells(field, recorded, None, values.length, values.length < vector.length)
        found = self._statistics_of(cells)
        self._group = found if self._group is None else merge(self._group, found)
        if values.length:
            if self._bloom is not None:
                self._bloom.add(cells)
            self._put(field, values)

    def end_group(self) -> None:
        """The row group is complete."""
        group = self._group
        if group is None:
            group = statistics_of_nothing(self.type)
        self._serialized.append(serialize_statistics(group) if self.options.row_index_stride else b"")
        self._index_bytes += len(self._serialized[-1])
        self._stripe = group if self._stripe is None else merge(self._stripe, group)
        self._group = None
        if self._bloom is not None:
            self._filters.append(self._bloom.build())
            self._index_bytes += len(self._filters[-1].bits)
        for child in self.children:
            child.end_group()

    def _values(self, field: Field, vector: Vector) -> Vector:
        """The values of rows that have one."""
        if self.type.kind is Kind.UNION:
            mask = validity(self.type, vector)
            if mask is not None and not mask.all():
                self._has_nulls = True
                self._present.put(mask.view(np.uint8), vector.length)
                return compact([(vector, select_mask(mask.view(np.uint8), vector.length))], field)
        else:
            bitmap = vector.buffers[0]
            nulls = 0
            if bitmap is not None and vector.null_count:
                nulls = count_nulls(bitmap, vector.offset, vector.length)
            if nulls:
                assert bitmap is not None
                self._has_nulls = True
                self._present.put_bits(bitmap, vector.offset, vector.length)
                mask = validity(self.type, vector)
                assert mask is not None
                return compact([(vector, select_mask(mask.view(np.uint8), vector.length))], field)
        self._present.put_repeated(True, vector.length)
        return vector

    # --- streams

    def compress(self, compressor: Compressor | None) -> None:
        """Turn all full blocks, of the columns below too, into chunks."""
        for encoder in self._streams.values():
            encoder.out.compress(compressor)
        for child in self.children:
            child.compress(compressor)

    @property
    def size_bytes(self) -> int:
        """What the data streams of this column and those below will take, about; indexes are not counted."""
        own = sum(encoder.out.size_bytes for encoder in self._streams.values())
        return own + self._own_size_bytes + sum(child.size_bytes for child in self.children)

    @property
    def held_bytes(self) -> int:
        """Memory held for this column and those below."""
        own = sum(encoder.out.held_bytes for encoder in self._streams.values())
        own += self._own_held_bytes + self._index_bytes
        return own + sum(child.held_bytes for child in self.children)

    def finish(self, compressor: Compressor | None) -> list[EncodedColumn]:
        """The finished columns of this subtree, by column id; nothing may be added afterwards."""
        self._ending()
        for encoder in self._streams.values():
            encoder.flush()
            encoder.out.finish(compressor)
        streams = {
            kind: encoder
            for kind, encoder in self._streams.items()
            if kind is not StreamKind.PRESENT or self._has_nulls
        }
        data = [self._stream(kind, encoder.out) for kind, encoder in streams.items()]
        bytes_on_disk = sum(stream.information.length for stream in data)
        assert self._stripe is not None
        own = EncodedColumn(
            self.type.column_id,
            ColumnEncoding(self.encoding, self._dictionary_size, BLOOM_ENCODING if self._filters else 0),
            tuple(self._indexes(streams, compressor)),
            tuple(data),
            replace(self._stripe, bytes_on_disk=bytes_on_disk),
        )
        return [own, *(part for child in self.children for part in child.finish(compressor))]

    def _out(self) -> OutStream:
        compressed = self.options.compression is not Compression.NONE
        return OutStream(compressed=compressed, block_size=self.options.block_size)

    def _integers(self, kind: StreamKind, *, signed: bool) -> IntEncoder | IntEncoderV1:
        """A new stream of integers, as the file version has them."""
        out = self._out()
        if self.options.version_1:
            encoder: IntEncoder | IntEncoderV1 = IntEncoderV1(out, signed=signed)
        else:
            encoder = IntEncoder(out, signed=signed, aligned=self.options.aligned)
        self._streams[kind] = encoder
        return encoder

    def _stream(self, kind: StreamKind, out: OutStream) -> EncodedStream:
        length = out.size_bytes
        return EncodedStream(StreamInformation(kind, self.type.column_id, length), out.drain())

    # --- index

    def _bloom_builder(self) -> BloomBuilder | None:
        share = self.options.blooms.get(self.type.column_id)
        if share is None or not self.options.row_index_stride:
            return None
        return BloomBuilder(self.options.row_index_stride, share)

    def _indexes(
        self, streams: Mapping[StreamKind, Encoder], compressor: Compressor | None
    ) -> list[EncodedStream]:
        if not self.options.row_index_stride:
            return []
        parts = [(StreamKind.ROW_INDEX, serialize_row_index(self._row_index(streams)))]
        if self._filters:
            index = BloomIndex(tuple(self._filters), utf8=True, encoding=BLOOM_ENCODING)
            # Readers cannot know by which clock the timestamps of the original form were hashed.
            if self.options.original_blooms and self.type.kind not in _TIMES:
                parts.append((StreamKind.BLOOM_FILTER, serialize_bloom_index(replace(index, utf8=False))))
            parts.append((StreamKind.BLOOM_FILTER_UTF8, serialize_bloom_index(index)))
        found = []
        for kind, data in parts:
            framed = frame_metadata(data, self.options.block_size, compressor)
            found.append(EncodedStream(StreamInformation(kind, self.type.column_id, len(framed)), [framed]))
        return found

    def _row_index(self, streams: Mapping[StreamKind, Encoder]) -> RowIndex:
        numbers: list[int] = []
        starts = [0]
        for positions in self._positions:
            # A dictionary's own streams, which come last, have no positions.
            for kind, position in zip(self._streams, positions, strict=False):
                if kind in streams:
                    numbers.extend(streams[kind].out.place(position[0]))
                    numbers.extend(position[1:])
            starts.append(len(numbers))
        return RowIndex(np.array(numbers, np.uint64), np.array(starts, np.int64), tuple(self._serialized))
