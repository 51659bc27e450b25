"""Metadata serialised and parsed again is what it was, and its fields are those of the specification."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata.bloom import BloomFilter, BloomIndex
from orcstream.codec.metadata.indexes import RowIndex, parse_bloom_index, parse_row_index, parse_statistics
from orcstream.codec.metadata.parse import parse_footer, parse_metadata, parse_postscript, parse_stripe_footer
from orcstream.codec.metadata.structure import (
    Calendar,
    ColumnEncoding,
    DataMask,
    EncodingKind,
    Encryption,
    EncryptionVariant,
    Footer,
    Postscript,
    StatisticsList,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    StripeVariant,
)
from orcstream.codec.metadata.wire import Room
from orcstream.codec.metadata.write import (
    WRITER,
    WRITER_VERSION,
    frame_metadata,
    serialize_bloom_index,
    serialize_footer,
    serialize_metadata,
    serialize_postscript,
    serialize_row_index,
    serialize_statistics,
    serialize_stripe_footer,
    statistics_list,
    tail_bytes,
)
from orcstream.codec.streams.compression import Compression, Compressor, decompress_metadata
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind
from orcstream.plan.tail import Tail, parse_stripe_statistics, plan_tail
from orcstream.schema.column_statistics import BoundingBox, ColumnStatistics, trust_of
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn

LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.none() | st.integers(0, 2**63 - 1)
FLOATS = st.none() | st.floats(allow_nan=False)
TEXTS = st.none() | st.text(max_size=20)
DECIMALS = st.none() | st.decimals(-(10**37), 10**37, places=5) | st.just(Decimal("-0"))
TIMES = st.none() | st.integers(-(2**83), 2**83)


def typed() -> st.SearchStrategy[dict[str, Any]]:
    def kind(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({"kind": st.just(name), **fields})

    def bounded(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return kind(name, minimum=values, maximum=values, sum=values)

    longs = st.none() | LONGS
    return st.one_of(
        bounded("integer", longs),
        bounded("double", FLOATS),
        kind("string", minimum=TEXTS, maximum=TEXTS, sum=longs, lower_bound=TEXTS, upper_bound=TEXTS),
        kind("boolean", sum=COUNTS),
        bounded("decimal", DECIMALS),
        kind("date", minimum=st.none() | st.integers(-(2**31), 2**31 - 1)),
        kind("binary", sum=longs),
        kind("timestamp", minimum=TIMES, maximum=TIMES, local_minimum_ms=longs, local_maximum_ms=longs),
        st.fixed_dictionaries({"min_children": COUNTS, "max_children": COUNTS, "total_children": COUNTS}),
        st.fixed_dictionaries(
            {
                "bounding_box": st.none() | st.builds(BoundingBox, *[FLOATS] * 8),
                "geospatial_types": st.lists(st.integers(0, 3007)).map(tuple),
            }
        ),
    )


STATISTICS = st.builds(
    lambda counts, rest: ColumnStatistics(*counts, **rest),
    st.tuples(COUNTS, st.none() | st.booleans(), COUNTS),
    typed(),
)
LISTS = st.lists(STATISTICS, max_size=4).map(statistics_list)


@given(STATISTICS)
def test_statistics(statistics: ColumnStatistics) -> None:
    assert parse_statistics(serialize_statistics(statistics)) == statistics


def test_statistics_on_the_wire() -> None:
    """The nanoseconds of a time are counted from one, and left out where a bound has them anyway."""
    for low, high, expected in (
        (-1, 1, (-1, 0, 1_000_000, 2)),
        (5_000_000, 5_999_999, (5, 5, 0, 0)),
        (5_999_999, 5_000_000, (5, 5, 1_000_000, 1)),
    ):
        data = serialize_statistics(ColumnStatistics(1, False, None, "timestamp", low, high))
        part = pb.ColumnStatistics.FromString(data).timestamp_statistics
        assert (part.minimum_utc, part.maximum_utc, part.minimum_nanos, part.maximum_nanos) == expected
        assert not part.HasField("minimum")
    beyond = ColumnStatistics(1, False, None, "timestamp", -(2**63) * 10**9, 2**63 * 10**9)
    assert parse_statistics(serialize_statistics(beyond)) == ColumnStatistics(1, False, None, "timestamp")
    decimal = ColumnStatistics(1, False, None, "decimal", Decimal("-1.50"), Decimal("1E+3"), Decimal("0.00"))
    parsed = pb.ColumnStatistics.FromString(serialize_statistics(decimal)).decimal_statistics
    assert (parsed.minimum, parsed.maximum, parsed.sum) == ("-1.5", "1000", "0")
    nan = parse_statistics(serialize_statistics(ColumnStatistics(kind="double", minimum=math.nan)))
    assert isinstance(nan.minimum, float)
    assert math.isnan(nan.minimum)


@given(st.lists(LISTS, max_size=3))
def test_metadata(stripes: list[StatisticsList]) -> None:
    data = serialize_metadata(stripes)
    assert list(parse_metadata(data, len(stripes), 4, Room(1 << 20, "statistics"))) == stripes
    # Cut up by hand on both ways, so Google's parser has the word.
    message = pb.Metadata.FromString(data)
    assert [len(stripe.col_stats) for stripe in message.stripe_stats] == [len(one) for one in stripes]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2**64 - 1), max_size=5), st.none() | STATISTICS), max_size=5)
)
def test_row_index(entries: list[tuple[list[int], ColumnStatistics | None]]) -> None:
    positions = [number for numbers, _ in entries for number in numbers]
    starts = np.cumsum([0, *(len(numbers) for numbers, _ in entries)])
    statistics = tuple(serialize_statistics(s) if s is not None else b"" for _, s in entries)
    index = RowIndex(np.array(positions, np.uint64), starts.astype(np.int64), statistics)
    again = parse_row_index(serialize_row_index(index))
    assert [again.entry(i).tolist() for i in range(len(again))] == [numbers for numbers, _ in entries]
    assert again.serialized_statistics == statistics


@given(st.lists(st.none() | st.tuples(st.integers(1, 3), st.integers(1, 9)), max_size=4), st.booleans())
def test_bloom_index(filters: list[tuple[int, int] | None], utf8: bool) -> None:
    made = tuple(None if one is None else BloomFilter(bytes(range(8 * one[0])), one[1]) for one in filters)
    index = BloomIndex(made, utf8, 1)
    again = parse_bloom_index(serialize_bloom_index(index), len(made), utf8=utf8, encoding=1)
    assert again == index


# --- footers ---------------------------------------------------------------------------------------

SCHEMA = Schema.parse(
    "struct<a:int,`b c`:array<decimal(10,2)>,d:map<varchar(5),char(7)>,e:uniontype<string,binary>,"
    "f:timestamp with local time zone,g:geography(OGC:CRS84,VINCENTY),h:decimal(38,0),i:struct<>>"
)


def stripes_of(lengths: list[tuple[int, int, int, int]]) -> tuple[StripeInformation, ...]:
    found, offset, first_row = [], 3, 0
    for index, (index_length, data_length, footer_length, rows) in enumerate(lengths):
        found.append(
            StripeInformation(index, offset, index_length, data_length, footer_length, rows, first_row)
        )
        offset, first_row = found[-1].range.stop, first_row + rows
    return tuple(found)


STRIPES = st.lists(st.tuples(*[st.integers(1, 2**40)] * 4), max_size=4).map(stripes_of)
FOOTERS = st.builds(
    lambda stripes, **rest: Footer(
        schema=SCHEMA,
        stripes=stripes,
        row_count=sum(stripe.row_count for stripe in stripes),
        writer=WRITER,
        encryption=None,
        header_length=3,
        content_length=stripes[-1].range.stop if stripes else 3,
        **rest,
    ),
    STRIPES,
    row_index_stride=st.sampled_from((0, 10_000)),
    statistics=LISTS,
    user_metadata=st.dictionaries(st.text(), st.binary()),
    software_version=TEXTS,
    calendar=st.sampled_from(Calendar),
)


def postscript_of(**fields: Any) -> Postscript:
    plain = Postscript(0, 0, Compression.NONE, 256 << 10, (0, 12), 0, WRITER_VERSION, 0, True)
    return replace(plain, **fields)


@given(FOOTERS)
def test_footer(footer: Footer) -> None:
    postscript = postscript_of(length=20)
    size = footer.content_length + postscript.tail_bytes
    again = parse_footer(serialize_footer(footer), postscript, size)
    assert again == footer


def test_attributes_and_old_decimals() -> None:
    root = Schema.parse("struct<a:decimal(5,0)>").root
    child = replace(root.children[0], attributes=(("k", "v"), ("ä", "")), precision=None, scale=None)
    schema = Schema(replace(root, children=(child,), attributes=(("spark", "x"),)))
    footer = Footer(
        schema, (), 0, 0, StatisticsList(()), {}, 0, None, Calendar.PROLEPTIC_GREGORIAN, None, 3, 3
    )
    assert parse_footer(serialize_footer(footer), postscript_of(), 4) == footer


ENCRYPTION = Encryption(
    masks=(DataMask("redact", ("9", "x"), (FileColumn(1), FileColumn(2))),),
    keys=(EncryptionKey("pii", 3, EncryptionAlgorithm.AES_CTR_256),),
    variants=(
        EncryptionVariant(
            FileColumn(2),
            0,
            b"key",
            (StreamInformation(StreamKind.STRIPE_STATISTICS, FileColumn(2), 9, 0),),
            b"statistics",
        ),
    ),
    key_provider=KeyProviderKind.HADOOP,
)


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 1, 2], [4, 5, 1], [7, 8, 9]])
def test_encryption(ids: list[int]) -> None:
    """Ids that restart, and keys that change, as merged files have them."""
    stripes = tuple(
        replace(stripe, encrypt_stripe_id=id_, encrypted_local_keys=(b"a" if id_ < 4 else b"b",))
        for stripe, id_ in zip(stripes_of([(1, 1, 1, 1)] * 3), ids, strict=True)
    )
    footer = Footer(
        SCHEMA, stripes, 3, 0, StatisticsList(()), {}, 0, None, Calendar.UNKNOWN, ENCRYPTION, 3, 12
    )
    postscript = postscript_of(stripe_statistics_length=9)
    assert parse_footer(serialize_footer(footer), postscript, 12 + postscript.tail_bytes) == footer
    message = pb.Footer.FromString(serialize_footer(footer))
    assert message.stripes[0].encrypt_stripe_id == ids[0]
    assert message.stripes[0].encrypted_local_keys


@given(
    length=st.integers(0, 2**63 - 1),
    metadata_length=st.integers(0, 2**63 - 1),
    statistics_length=st.integers(0, 2**63 - 1),
    compression=st.sampled_from(Compression),
    block_size=st.integers(1, 1 << 23),
    version=st.sampled_from(((0, 11), (0, 12), (1, 9999))),
    magic=st.booleans(),
)
def test_postscript(
    length: int,
    metadata_length: int,
    statistics_length: int,
    compression: Compression,
    block_size: int,
    version: tuple[int, int],
    magic: bool,
) -> None:
    postscript = postscript_of(
        footer_length=length,
        metadata_length=metadata_length,
        stripe_statistics_length=statistics_length,
        compression=compression,
        compression_block_size=block_size if compression is not Compression.NONE else 256 << 10,
        version=version,
        has_magic=magic,
    )
    data = serialize_postscript(postscript)
    assert parse_postscript(data) == replace(postscript, length=len(data))


CLEAR = st.lists(
    st.builds(
        StreamInformation,
        st.sampled_from((StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH)),
        st.integers(0, SCHEMA.column_count - 1).map(FileColumn),
        st.integers(0, 100),
    ),
    max_size=5,
    unique_by=lambda stream: (stream.kind, stream.column),
)
KINDS = st.sampled_from((EncodingKind.DIRECT, EncodingKind.DIRECT_V2))
ENCODINGS = st.one_of(
    st.builds(ColumnEncoding, KINDS, bloom_encoding=st.integers(0, 1)),
    st.builds(ColumnEncoding, st.just(EncodingKind.DICTIONARY_V2), st.integers(0, 2**31 - 1)),
)


@given(CLEAR, st.lists(ENCODINGS, min_size=SCHEMA.column_count, max_size=SCHEMA.column_count), TEXTS)
def test_stripe_footer(
    streams: list[StreamInformation], encodings: list[ColumnEncoding], zone: str | None
) -> None:
    footer = StripeFooter(tuple(streams), tuple(encodings), zone or None)
    stripe = StripeInformation(0, 3, 0, sum(stream.length for stream in streams), 1, 1, 0)
    assert parse_stripe_footer(serialize_stripe_footer(footer), stripe, SCHEMA) == footer


def test_encrypted_stripe_footer() -> None:
    variant = StripeVariant(
        FileColumn(2),
        (StreamInformation(StreamKind.DATA, FileColumn(3), 7, 0),),
        (ColumnEncoding(EncodingKind.DIRECT_V2), ColumnEncoding(EncodingKind.DIRECT_V2)),
    )
    streams = (StreamInformation(StreamKind.ENCRYPTED_DATA, FileColumn(0), 7),)
    encodings = (ColumnEncoding(EncodingKind.DIRECT),) * SCHEMA.column_count
    footer = StripeFooter(streams, encodings, "UTC", (variant,))
    stripe = StripeInformation(0, 3, 0, 7, 1, 1, 0, 1, (b"k",))
    assert parse_stripe_footer(serialize_stripe_footer(footer), stripe, SCHEMA, ENCRYPTION) == footer


# --- tails -----------------------------------------------------------------------------------------


@given(st.binary(max_size=3000), st.integers(1, 700))
def test_frames(data: bytes, block_size: int) -> None:
    framed = frame_metadata(data, block_size, Compressor(Compression.ZLIB))
    assert decompress_metadata(memoryview(framed), Compression.ZLIB, block_size, 1 << 20) == data
    assert frame_metadata(data, block_size, None) == data
    assert len(framed) <= len(data) + 3 * -(-len(data) // block_size)


@given(FOOTERS, st.booleans())
def test_tail(footer: Footer, compressed: bool) -> None:
    small = tuple(
        replace(stripe, offset=3, index_length=0, data_length=0, footer_length=0) for stripe in footer.stripes
    )
    footer = replace(footer, stripes=small, content_length=3)
    stripes = [footer.statistics] * len(small)
    tail = tail_bytes(
        footer,
        stripes,
        compression=Compression.ZLIB if compressed else Compression.NONE,
        block_size=256 << 10,
        compressor=Compressor(Compression.ZLIB) if compressed else None,
    )
    data = b"ORC" + tail
    found = plan_tail(memoryview(data), len(data))
    assert isinstance(found, Tail)
    assert found.footer == footer
    assert found.postscript.tail_bytes == len(tail)
    metadata = data[found.metadata_range.start : found.metadata_range.stop]
    assert list(parse_stripe_statistics(found, metadata)) == stripes


def test_our_own_reader_believes_our_files() -> None:
    trust = trust_of(WRITER, WRITER_VERSION, "orcstream 0", (0, 12))
    assert trust.counts
    assert {"integer", "string", "decimal", "timestamp"} <= trust.bounds & trust.blooms


def test_what_cannot_be_written() -> None:
    footer = Footer(SCHEMA, (), 1, 0, StatisticsList(()), {}, 0, None, Calendar.UNKNOWN, None, 3, 3)
    with pytest.raises(ValueError, match=r"\b1 rows\b"):
        serialize_footer(footer)
    streams = (StreamInformation(StreamKind.UNKNOWN, FileColumn(0), 1),)
    with pytest.raises(ValueError, match=r"\bkind\b"):
        serialize_stripe_footer(StripeFooter(streams, ()))
    with pytest.raises(ValueError, match=r"\bencoding\b"):
        serialize_stripe_footer(StripeFooter((), (ColumnEncoding(EncodingKind.UNKNOWN),)))
    for size in (0, 1 << 23):
        with pytest.raises(ValueError, match=rf"\b{size} bytes\b"):
            frame_metadata(b"x", size, Compressor(Compression.ZLIB))
    plain = replace(footer, row_count=0)
    for compression, compressor in (
        (Compression.ZLIB, None),
        (Compression.NONE, Compressor(Compression.ZLIB)),
    ):
        with pytest.raises(ValueError, match=compression.name):
            tail_bytes(plain, [], compression=compression, block_size=1024, compressor=compressor)
