"""Files taken apart and written again by this package's serialisers: streams of data stay what they were.

Knows the order of a file's parts; the bytes of data streams come from another writer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from orcstream.codec.metadata.bloom import BloomIndex
from orcstream.codec.metadata.indexes import RowIndex, parse_bloom_index, parse_row_index
from orcstream.codec.metadata.parse import parse_stripe_footer
from orcstream.codec.metadata.structure import (
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    stream_ranges,
)
from orcstream.codec.metadata.wire import MESSAGE_CAP_BYTES
from orcstream.codec.metadata.write import (
    frame_metadata,
    serialize_bloom_index,
    serialize_row_index,
    serialize_stripe_footer,
    tail_bytes,
)
from orcstream.codec.streams.compression import Compression, Compressor, decompress_metadata
from orcstream.plan.tail import Tail, parse_stripe_statistics, plan_tail

BLOOMS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)


class Stripe(NamedTuple):
    information: StripeInformation
    footer: StripeFooter
    indexes: dict[int, RowIndex]
    blooms: dict[tuple[StreamKind, int], BloomIndex]


class Parts:
    """What a file (without encryption) holds, parsed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        tail = plan_tail(memoryview(data), len(data))
        assert isinstance(tail, Tail)
        self.tail = tail
        self.stripes = [self._stripe(stripe) for stripe in tail.footer.stripes]
        found = tail.metadata_range
        self.stripe_statistics = parse_stripe_statistics(tail, data[found.start : found.stop])

    def _plain(self, section: bytes) -> bytes:
        postscript = self.tail.postscript
        return decompress_metadata(
            memoryview(section), postscript.compression, postscript.compression_block_size, MESSAGE_CAP_BYTES
        )

    def _stripe(self, stripe: StripeInformation) -> Stripe:
        schema = self.tail.footer.schema
        place = stripe.footer_range
        footer = parse_stripe_footer(self._plain(self.data[place.start : place.stop]), stripe, schema)
        indexes: dict[int, RowIndex] = {}
        blooms: dict[tuple[StreamKind, int], BloomIndex] = {}
        for stream, range_ in stream_ranges(stripe, footer):
            section = self.data[range_.start : range_.stop]
            if stream.kind is StreamKind.ROW_INDEX:
                indexes[int(stream.column)] = parse_row_index(self._plain(section))
            elif stream.kind in BLOOMS:
                blooms[stream.kind, int(stream.column)] = parse_bloom_index(
                    self._plain(section),
                    1 << 20,
                    utf8=stream.kind is StreamKind.BLOOM_FILTER_UTF8,
                    encoding=footer.encodings[stream.column].bloom_encoding,
                )
        return Stripe(stripe, footer, indexes, blooms)


def rebuilt(parts: Parts, **footer_fields: object) -> bytes:
    """The same file, all of its metadata serialised anew; it must be compressed with zlib, or not at all."""
    postscript = parts.tail.postscript
    assert postscript.compression in (Compression.NONE, Compression.ZLIB)
    compressor = Compressor(Compression.ZLIB) if postscript.compression is Compression.ZLIB else None
    block_size = postscript.compression_block_size
    body = bytearray(b"ORC")
    stripes = [_stripe(body, parts.data, one, block_size, compressor is not None) for one in parts.stripes]
    footer = replace(
        parts.tail.footer,
        stripes=tuple(stripes),
        header_length=3,
        content_length=len(body),
        **footer_fields,  # type: ignore[arg-type]
    )
    return bytes(body) + tail_bytes(
        footer,
        parts.stripe_statistics,
        compression=postscript.compression,
        block_size=block_size,
        compressor=compressor,
        version=postscript.version,
    )


def _stripe(
    body: bytearray, data: bytes, stripe: Stripe, block_size: int, compressed: bool
) -> StripeInformation:
    compressor = Compressor(Compression.ZLIB) if compressed else None
    offset = len(body)
    streams: list[StreamInformation] = []
    index_length = 0
    for stream, range_ in stream_ranges(stripe.information, stripe.footer):
        section = data[range_.start : range_.stop]
        column = int(stream.column)
        if stream.kind is StreamKind.ROW_INDEX:
            section = frame_metadata(serialize_row_index(stripe.indexes[column]), block_size, compressor)
        elif stream.kind in BLOOMS:
            index = stripe.blooms[stream.kind, column]
            section = frame_metadata(serialize_bloom_index(index), block_size, compressor)
        body += section
        if stream.kind.is_index:
            index_length = len(body) - offset
        streams.append(replace(stream, length=len(section)))
    data_length = len(body) - offset - index_length
    footer = replace(stripe.footer, streams=tuple(streams))
    section = frame_metadata(serialize_stripe_footer(footer), block_size, compressor)
    body += section
    return replace(
        stripe.information,
        offset=offset,
        index_length=index_length,
        data_length=data_length,
        footer_length=len(section),
    )
