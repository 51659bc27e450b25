"""What a closed column gives to its stripe: its streams, its row index and bloom filters, its statistics.

Knows how what encoders recorded of row groups becomes an index. Must not know files, threads, nor where a
stream comes to lie. Specification: "Row Group Index", "Bloom Filter Index".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.encode._column import ColumnEncoder
from orcstream.codec.encode._forms import FormsEncoder
from orcstream.codec.encode.bloom_build import BLOOM_ENCODING
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.encode.statistics import recorded_statistics
from orcstream.codec.metadata.bloom import BloomFilter, BloomIndex
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import ColumnEncoding, StreamInformation, StreamKind
from orcstream.codec.metadata.write import (
    frame_metadata,
    serialize_bloom_index,
    serialize_row_index,
    serialize_statistics,
)
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams.compression import Compressor
from orcstream.schema.column_statistics import ColumnStatistics, merge
from orcstream.schema.types import TIMES, FileColumn

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Written = tuple[StreamKind, OutStream, int, int]


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


def encoded(
    encoder: ColumnEncoder, options: EncodeOptions, compressor: Compressor | None
) -> list[EncodedColumn]:
    """The columns of a closed encoder, by column id, variants among them; what it held is taken from it."""
    if isinstance(encoder, FormsEncoder):
        return [
            replace(column, variant=variant)
            for form, variant in zip(encoder.children, encoder.variants, strict=True)
            for column in encoded(form, options, compressor)
        ]
    below = [column for child in encoder.children for column in encoded(child, options, compressor)]
    return [_own(encoder, options, compressor), *below]


def _own(encoder: ColumnEncoder, options: EncodeOptions, compressor: Compressor | None) -> EncodedColumn:
    stripe, serialized = _statistics(encoder, is_indexed=bool(options.row_index_stride))
    written = encoder.written()
    index = _indexes(encoder, written, serialized, options, compressor) if options.row_index_stride else ()
    data = tuple(_stream(encoder, kind, out.size_bytes, out.drain()) for kind, out, *_ in written)
    kind, dictionary_size = encoder.encoded_as
    bytes_on_disk = sum(stream.information.length for stream in data)
    return EncodedColumn(
        encoder.type.column_id,
        ColumnEncoding(kind, dictionary_size, BLOOM_ENCODING if encoder.filter_bytes else 0),
        tuple(index),
        data,
        replace(stripe, bytes_on_disk=bytes_on_disk),
    )


def _statistics(encoder: ColumnEncoder, *, is_indexed: bool) -> tuple[ColumnStatistics, tuple[bytes, ...]]:
    """Those of the stripe, and of each row group where there is an index."""
    serialized: list[bytes] = []
    stripe: ColumnStatistics | None = None
    for at in range(encoder.group_count):
        group = recorded_statistics(encoder.type, *encoder.group(at))
        stripe = group if stripe is None else merge(stripe, group)
        if is_indexed:
            serialized.append(serialize_statistics(group))
    assert stripe is not None
    return stripe, tuple(serialized)


def _stream(encoder: ColumnEncoder, kind: StreamKind, length: int, pieces: Sequence[Buffer]) -> EncodedStream:
    return EncodedStream(StreamInformation(kind, encoder.type.column_id, length), list(pieces))


def _indexes(
    encoder: ColumnEncoder,
    written: Sequence[_Written],
    serialized: tuple[bytes, ...],
    options: EncodeOptions,
    compressor: Compressor | None,
) -> Iterator[EncodedStream]:
    for kind, data in (
        (StreamKind.ROW_INDEX, serialize_row_index(_row_index(encoder.positions(), written, serialized))),
        *_bloom_indexes(encoder, options),
    ):
        framed = frame_metadata(data, options.block_size, compressor)
        yield _stream(encoder, kind, len(framed), [framed])


def _bloom_indexes(encoder: ColumnEncoder, options: EncodeOptions) -> Iterator[tuple[StreamKind, bytes]]:
    if not encoder.filter_bytes:
        return
    filters = [BloomFilter(encoder.filter(at), encoder.hash_count) for at in range(encoder.group_count)]
    index = BloomIndex(tuple(filters), utf8=True, encoding=BLOOM_ENCODING)
    # Readers cannot know by which clock the timestamps of the original form were hashed.
    if options.original_blooms and encoder.type.kind not in TIMES:
        yield StreamKind.BLOOM_FILTER, serialize_bloom_index(replace(index, utf8=False))
    yield StreamKind.BLOOM_FILTER_UTF8, serialize_bloom_index(index)


def _row_index(
    numbers: NDArray[np.int64], written: Sequence[_Written], serialized: tuple[bytes, ...]
) -> RowIndex:
    """The positions of row groups in the streams that are written; `numbers` has those of all streams."""
    parts: list[NDArray[np.int64]] = []
    for _, out, at, count in written:
        if count:
            places = np.frombuffer(memoryview(out.places(numbers[:, at])), np.int64)
            parts += (places.reshape(len(numbers), -1), numbers[:, at + 1 : at + count])
    positions = np.concatenate(parts, axis=1) if parts else numbers[:, :0]
    starts = np.arange(len(serialized) + 1, dtype=np.int64) * positions.shape[1]
    return RowIndex(positions.astype(np.uint64).ravel(), starts, serialized)
