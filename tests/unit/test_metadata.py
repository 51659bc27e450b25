"""Stripe footers, row indexes and statistics: real ones, kinds of statistics, and hostile bytes.

Postscripts and file footers are tested with the tail they make up (`test_tail`).
"""

from __future__ import annotations

import contextlib
import math
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata.indexes import parse_row_index, parse_statistics
from orcstream.codec.metadata.parse import parse_metadata, parse_stripe_footer
from orcstream.codec.metadata.structure import (
    EncodingKind,
    Encryption,
    EncryptionVariant,
    StreamKind,
    StripeFooter,
    StripeInformation,
)
from orcstream.codec.metadata.wire import MESSAGE_CAP_BYTES, Room
from orcstream.codec.streams.compression import decompress_metadata
from orcstream.encryption import KeyProviderKind
from orcstream.errors import CorruptStripe, CorruptTail, FormatError, Unsupported
from orcstream.plan.tail import Tail, plan_tail
from orcstream.schema.column_statistics import BoundingBox, ColumnStatistics
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn
from tests.reference.corpus import manifest

CUDF_STRUCT = {"18446744073709551615": "DIRECT"}
BAD_STRIPE_FOOTER = "apache-orc/corrupt/stripe_footer_bad_column_encodings.orc"


def real_files(folder: Path) -> Iterator[tuple[dict[str, Any], bytes, Tail]]:
    """Every file of the corpus whose tail can be read."""
    for item in manifest(folder)["files"]:
        data = (folder / item["path"]).read_bytes()
        with contextlib.suppress(FormatError, Unsupported):
            tail = plan_tail(memoryview(data), len(data))
            assert isinstance(tail, Tail)
            yield item, data, tail


def section(data: bytes, start: int, stop: int, tail: Tail) -> bytes:
    postscript = tail.postscript
    return decompress_metadata(
        memoryview(data)[start:stop],
        postscript.compression,
        postscript.compression_block_size,
        MESSAGE_CAP_BYTES,
    )


def stripe_footer_bytes(data: bytes, stripe: StripeInformation, tail: Tail) -> bytes:
    return section(data, stripe.footer_range.start, stripe.footer_range.stop, tail)


# --- real files ---


def test_every_real_stripe_footer(corpus_folder: Path) -> None:
    stripes = 0
    for item, data, tail in real_files(corpus_folder):
        if item["path"] == BAD_STRIPE_FOOTER:
            with pytest.raises(CorruptStripe) as caught:
                footers(data, tail)
            assert caught.value.stripe == 0
            assert caught.value.file_offset == tail.footer.stripes[0].footer_range.start
            continue
        found = footers(data, tail)
        stripes += len(found)
        facts = item["facts"]
        encodings = {encoding.kind.name for footer in found for encoding in footer.encodings}
        zones = {footer.writer_timezone for footer in found} - {None}
        kinds = {stream.kind for footer in found for stream in footer.streams}
        assert StreamKind.UNKNOWN not in kinds
        # cuDF gives structs the encoding -1, which means as little as any other would.
        expected = {CUDF_STRUCT.get(name, name) for name in facts.get("encodings", ())}
        assert encodings == expected, item["path"]
        assert zones == set(facts.get("writer_timezones", ())), item["path"]
        assert (StreamKind.ROW_INDEX in kinds) == facts.get("has_index", False), item["path"]
    assert stripes > 300


def footers(data: bytes, tail: Tail) -> list[StripeFooter]:
    footer = tail.footer
    return [
        parse_stripe_footer(stripe_footer_bytes(data, stripe, tail), stripe, footer.schema, footer.encryption)
        for stripe in footer.stripes
    ]


def test_real_files_hold_nothing_that_the_messages_do_not_know(corpus_folder: Path) -> None:
    """The .proto is complete as far as all these writers go."""
    for item, data, tail in real_files(corpus_folder):
        if tail.file_length == 0 or item["path"] == BAD_STRIPE_FOOTER:
            continue
        messages: list[Any] = [pb.PostScript.FromString(data[-1 - data[-1] : -1])]
        footer_range = tail.footer_range
        messages.append(pb.Footer.FromString(section(data, footer_range.start, footer_range.stop, tail)))
        messages += [
            pb.StripeFooter.FromString(stripe_footer_bytes(data, stripe, tail))
            for stripe in tail.footer.stripes
        ]
        while messages:
            message = messages.pop()
            assert not len(UnknownFieldSet(message)), (item["path"], type(message))
            for field, value in message.ListFields():
                if field.message_type is not None:
                    messages += [value] if hasattr(value, "ListFields") else list(value)


# --- stripe footers ---

SCHEMA = Schema.parse("struct<a:int,b:struct<c:string>>")
ROOM = Room(1 << 20, "statistics of the stripes")
STRIPE = StripeInformation(
    index=2, offset=3, index_length=30, data_length=70, footer_length=9, row_count=5, first_row=0
)


def stripe_footer(**fields: Any) -> pb.StripeFooter:
    encodings = [pb.ColumnEncoding(kind=0)] * SCHEMA.column_count
    return pb.StripeFooter(**{"columns": encodings, **fields})


def stream(kind: int, column: int = 0, length: int = 0) -> pb.Stream:
    return pb.Stream(kind=kind, column=column, length=length)


def encryption(*roots: int) -> Encryption:
    variants = tuple(EncryptionVariant(FileColumn(root), 0, b"", (), b"") for root in roots)
    return Encryption((), (), variants, KeyProviderKind.HADOOP)


def parse(message: pb.StripeFooter, encryption: Encryption | None = None) -> StripeFooter:
    return parse_stripe_footer(message.SerializeToString(), STRIPE, SCHEMA, encryption)


def test_stripe_footer() -> None:
    footer = parse(
        stripe_footer(
            streams=[stream(6, 1, 30), stream(0, 3, 50), stream(1, 3, 20)],
            columns=[
                pb.ColumnEncoding(kind=0),
                pb.ColumnEncoding(kind=2),
                pb.ColumnEncoding(),
                pb.ColumnEncoding(kind=3, dictionary_size=7, bloom_encoding=1),
            ],
            writer_timezone="Asia/Shanghai",
        )
    )
    assert [(s.kind.name, s.column, s.length, s.variant) for s in footer.streams] == [
        ("ROW_INDEX", 1, 30, None),
        ("PRESENT", 3, 50, None),
        ("DATA", 3, 20, None),
    ]
    assert [encoding.kind.name for encoding in footer.encodings] == [
        "DIRECT",
        "DIRECT_V2",
        "DIRECT",
        "DICTIONARY_V2",
    ]
    assert (footer.encodings[3].dictionary_size, footer.encodings[3].bloom_encoding) == (7, 1)
    assert footer.writer_timezone == "Asia/Shanghai"
    assert pickle.loads(pickle.dumps(footer)) == footer


def test_later_formats_keep_their_place() -> None:
    """A stream of an unknown kind takes up room; an unknown encoding concerns its column only."""
    columns = [pb.ColumnEncoding(kind=0)] * 3 + [pb.ColumnEncoding(kind=9)]
    streams = [stream(77, 1000, 30), stream(77, 1000, 5), stream(1, 1, 10)]
    footer = parse(stripe_footer(streams=streams, columns=columns))
    assert [s.kind for s in footer.streams] == [StreamKind.UNKNOWN, StreamKind.UNKNOWN, StreamKind.DATA]
    assert footer.encodings[3].kind is EncodingKind.UNKNOWN
    assert (
        parse(stripe_footer(columns=[pb.ColumnEncoding(kind=9)] * 4)).encodings[0].kind is EncodingKind.DIRECT
    )
    with pytest.raises(CorruptStripe, match=r"\b101\b"):
        parse(stripe_footer(streams=[stream(77, 0, 101)]))


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (stripe_footer(columns=[]), r"\b0 encodings\b.*\b4 columns\b"),
        (stripe_footer(columns=[pb.ColumnEncoding()] * 5), r"\b5 encodings\b.*\b4 columns\b"),
        (stripe_footer(streams=[stream(1, 4)]), r"\bcolumn 4\b.*\b0 to 3\b"),
        (stripe_footer(streams=[stream(1, 1, 60), stream(1, 2, 41)]), r"\b101 bytes\b.*\b100\b"),
        (
            stripe_footer(streams=[stream(1, 1, 2**64 - 1), stream(2, 1, 2)]),
            r"\b18446744073709551617 bytes\b.*\b100\b",
        ),
        (stripe_footer(streams=[stream(1, 1), stream(1, 1)]), r"\bstreams\b.*column 1, stream DATA"),
        (stripe_footer(streams=[stream(100, 1)]), r"\bSTRIPE_STATISTICS\b"),
        (stripe_footer(streams=[stream(9, 0, 4)]), r"\bENCRYPTED_INDEX\b.*\b4 bytes\b.*\b0\b"),
        (
            stripe_footer(columns=[pb.ColumnEncoding(dictionary_size=2**31)] * 4),
            r"\bdictionary\b.*\b2147483648\b",
        ),
        (stripe_footer(encryption=[pb.StripeEncryptionVariant()]), r"\b1 encryption variants\b.*\b0\b"),
    ],
)
def test_hostile_stripe_footer(message: pb.StripeFooter, problem: str) -> None:
    with pytest.raises(CorruptStripe, match=problem) as caught:
        parse(message)
    assert caught.value.stripe == 2
    assert caught.value.file_offset == 103


def test_stripe_footer_of_an_encrypted_file() -> None:
    part = pb.StripeEncryptionVariant(
        streams=[stream(6, 2, 4), stream(1, 3, 6)], encoding=[pb.ColumnEncoding()] * 2
    )
    streams = [stream(9, 0, 4), stream(1, 1, 10), stream(10, 0, 6)]
    footer = parse(stripe_footer(streams=streams, encryption=[part]), encryption(2))
    (variant,) = footer.variants
    assert variant.root == 2
    assert len(variant.encodings) == 2
    assert [(s.kind.name, s.column, s.variant) for s in variant.streams] == [
        ("ROW_INDEX", 2, 0),
        ("DATA", 3, 0),
    ]


@pytest.mark.parametrize(
    ("streams", "encodings", "problem"),
    [
        ([stream(1, 1, 6)], 2, r"\bcolumn 1\b.*\b2 to 3\b"),
        ([stream(1, 3, 5)], 2, r"\bENCRYPTED_DATA\b.*\b6 bytes\b.*\b5\b"),
        ([stream(6, 3, 6)], 2, r"\bENCRYPTED_INDEX\b.*\b0 bytes\b.*\b6\b"),
        ([stream(10, 3, 6)], 2, r"\bENCRYPTED_DATA\b.*\bvariant 0\b"),
        ([stream(1, 3, 6)], 1, r"\b1 encodings\b.*\b2 columns\b"),
    ],
)
def test_hostile_variant(streams: list[pb.Stream], encodings: int, problem: str) -> None:
    part = pb.StripeEncryptionVariant(streams=streams, encoding=[pb.ColumnEncoding()] * encodings)
    with pytest.raises(CorruptStripe, match=problem):
        parse(stripe_footer(streams=[stream(10, 0, 6)], encryption=[part]), encryption(2))


# --- row indexes ---


def row_index(*entries: list[int]) -> bytes:
    return pb.RowIndex(
        entry=[
            pb.RowIndexEntry(
                positions=positions, statistics=pb.ColumnStatistics(number_of_values=len(positions))
            )
            for positions in entries
        ]
    ).SerializeToString()


def test_row_index() -> None:
    index = parse_row_index(row_index([0, 0, 0], [100, 2**64 - 1, 3], []))
    assert len(index) == 3
    assert index.positions.dtype == np.uint64
    assert index.starts.tolist() == [0, 3, 6, 6]
    assert index.entry(1).tolist() == [100, 2**64 - 1, 3]
    assert index.entry(2).tolist() == []
    found = index.statistics(1)
    assert found is not None
    assert found.value_count == 3
    assert parse_row_index(pb.RowIndex(entry=[pb.RowIndexEntry()]).SerializeToString()).statistics(0) is None
    assert len(parse_row_index(b"")) == 0


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=8))
def test_row_index_positions_are_what_protobuf_reads(entries: list[list[int]]) -> None:
    index = parse_row_index(row_index(*entries))
    assert [index.entry(entry).tolist() for entry in range(len(index))] == entries


def test_row_index_positions_may_come_in_pieces() -> None:
    """What protobuf joins: 0x0a is a packed piece of field 1."""
    assert parse_row_index(b"\x0a\x06\x0a\x01\x05\x0a\x01\x06").entry(0).tolist() == [5, 6]


def test_row_index_positions_may_be_unpacked() -> None:
    """Readers of protobuf take both forms; 0x08 is one number of field 1, unpacked."""
    assert parse_row_index(b"\x0a\x04\x08\x05\x08\x06").entry(0).tolist() == [5, 6]


def test_hostile_row_index() -> None:
    with pytest.raises(CorruptStripe, match=r"\b3\b.*\b2\b"):
        parse_row_index(row_index([], [], []), max_entries=2)
    with pytest.raises(CorruptStripe, match=r"\brow index\b.* byte 0\b"):
        parse_row_index(b"\x0a\x7f")
    with pytest.raises(CorruptStripe, match=r"\brow index\b.* byte 0\b"):
        parse_row_index(b"\x0a\x03\x0a\x01\x80")  # a number without an end
    index = parse_row_index(b"\x0a\x03\x12\x01\xff")  # statistics of one byte that is no message
    with pytest.raises(CorruptStripe, match=r"\bcolumn statistics\b"):
        index.statistics(0)


# --- statistics ---


def statistics(**fields: Any) -> ColumnStatistics:
    return parse_statistics(pb.ColumnStatistics(**fields).SerializeToString())


def test_statistics_without_anything() -> None:
    assert statistics() == ColumnStatistics()
    assert statistics(number_of_values=0, has_null=False, bytes_on_disk=9) == ColumnStatistics(
        value_count=0, has_null=False, bytes_on_disk=9
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"int_statistics": pb.IntegerStatistics(minimum=-(2**63), maximum=2**63 - 1)},
            ColumnStatistics(kind="integer", minimum=-(2**63), maximum=2**63 - 1),
        ),
        (
            {"double_statistics": pb.DoubleStatistics(minimum=-0.5, maximum=1.5, sum=1.0)},
            ColumnStatistics(kind="double", minimum=-0.5, maximum=1.5, sum=1.0),
        ),
        (
            {"string_statistics": pb.StringStatistics(minimum="a", maximum="é", sum=3)},
            ColumnStatistics(kind="string", minimum="a", maximum="é", sum=3),
        ),
        (
            {"string_statistics": pb.StringStatistics(lower_bound="a", upper_bound="b")},
            ColumnStatistics(kind="string", lower_bound="a", upper_bound="b"),
        ),
        ({"bucket_statistics": pb.BucketStatistics(count=[4])}, ColumnStatistics(kind="boolean", sum=4)),
        ({"bucket_statistics": pb.BucketStatistics()}, ColumnStatistics(kind="boolean")),
        (
            {"decimal_statistics": pb.DecimalStatistics(minimum="-1.50", maximum="99999999999999999999.1")},
            ColumnStatistics(
                kind="decimal", minimum=Decimal("-1.50"), maximum=Decimal("99999999999999999999.1")
            ),
        ),
        (
            {
                "decimal_statistics": pb.DecimalStatistics(
                    minimum="NaN", maximum="1e999999999", sum="9" * 1000
                )
            },
            ColumnStatistics(kind="decimal"),
        ),
        (
            {"date_statistics": pb.DateStatistics(minimum=-1, maximum=20000)},
            ColumnStatistics(kind="date", minimum=-1, maximum=20000),
        ),
        ({"binary_statistics": pb.BinaryStatistics(sum=12)}, ColumnStatistics(kind="binary", sum=12)),
        (
            {
                "collection_statistics": pb.CollectionStatistics(
                    min_children=0, max_children=5, total_children=9
                )
            },
            ColumnStatistics(min_children=0, max_children=5, total_children=9),
        ),
        (
            {
                "geospatial_statistics": pb.GeospatialStatistics(
                    bbox=pb.BoundingBox(xmin=-1.0, ymax=2.0), geospatial_types=[1, 1003]
                )
            },
            ColumnStatistics(bounding_box=BoundingBox(xmin=-1.0, ymax=2.0), geospatial_types=(1, 1003)),
        ),
    ],
)
def test_statistics_by_kind(fields: dict[str, Any], expected: ColumnStatistics) -> None:
    assert statistics(**fields) == expected


def test_statistics_of_timestamps() -> None:
    """The stored sub-millisecond part is one too large; where it is absent the bound is the millisecond."""
    old = statistics(timestamp_statistics=pb.TimestampStatistics(minimum=1, maximum=2))
    assert (old.minimum, old.maximum, old.local_minimum_ms, old.local_maximum_ms) == (None, None, 1, 2)
    utc = statistics(timestamp_statistics=pb.TimestampStatistics(minimum_utc=-5, maximum_utc=7))
    assert (utc.minimum, utc.maximum) == (-5_000_000, 7_999_999)
    exact = statistics(
        timestamp_statistics=pb.TimestampStatistics(
            minimum_utc=-5, maximum_utc=7, minimum_nanos=124, maximum_nanos=457
        )
    )
    assert (exact.minimum, exact.maximum) == (-4_999_877, 7_000_456)


def test_statistics_that_are_not_numbers_or_text() -> None:
    nan = statistics(double_statistics=pb.DoubleStatistics(minimum=math.nan, maximum=1.0))
    assert isinstance(nan.minimum, float)
    assert math.isnan(nan.minimum)
    data = pb.ColumnStatistics(string_statistics=pb.StringStatistics(minimum="abc", maximum="xyz"))
    broken = parse_statistics(data.SerializeToString().replace(b"abc", b"a\xffc"))
    assert (broken.minimum, broken.maximum) == (None, "xyz")


def test_metadata_is_cut_up_like_protobuf_does() -> None:
    stripes = [
        pb.StripeStatistics(
            col_stats=[pb.ColumnStatistics(number_of_values=row + column) for column in range(3)]
        )
        for row in range(4)
    ]
    # Fields of other numbers and wire types are passed over.
    extra = b"\x18\x80\x01" + b"\x21" + bytes(8) + b"\x2d" + bytes(4) + b"\x32\x02hi"
    data = pb.Metadata(stripe_stats=stripes).SerializeToString() + extra
    found = parse_metadata(data, 4, 3, ROOM)
    counts = [[part.value_count for column in range(3) if (part := stripe.get(column))] for stripe in found]
    assert counts == [[row + column for column in range(3)] for row in range(4)]
    for limits in ((3, 3), (4, 2)):
        with pytest.raises(CorruptTail, match=r"\bfile metadata\b.*\b3\b|\bstripe statistics\b.*\b2\b"):
            parse_metadata(data, *limits, ROOM)
    for cut in range(1, len(data)):
        with contextlib.suppress(CorruptTail):
            parse_metadata(data[:cut], 4, 3, ROOM)


def test_statistics_of_more_columns_and_stripes_than_anybody_has() -> None:
    """Compressed they are nothing; each would take 44 bytes and the two that it has."""
    stripe = pb.StripeStatistics(col_stats=[pb.ColumnStatistics()] * 3)
    four, five = (pb.Metadata(stripe_stats=[stripe] * count).SerializeToString() for count in (4, 5))
    assert len(parse_metadata(four, 5, 3, Room(4 * 3 * 46, "statistics"))) == 4
    with pytest.raises(Unsupported, match=r"\bstatistics\b.*\b690\b") as caught:
        parse_metadata(five, 5, 3, Room(4 * 3 * 46, "statistics"))
    assert caught.value.reason == "metadata_too_large"


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05abc", b"\xff" * 11, b"\x0b", b"\x09\x01", b"\x0a\xff"])
def test_hostile_metadata(data: bytes) -> None:
    with pytest.raises(CorruptTail, match=r"\bfile metadata\b.* byte \d"):
        parse_metadata(data, 10, 10, ROOM)


# --- any bytes in, only FormatError out ---


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    with contextlib.suppress(CorruptStripe):
        parse_stripe_footer(data, STRIPE, SCHEMA, encryption(2))
    with contextlib.suppress(CorruptTail):
        parse_statistics(data)
    with contextlib.suppress(CorruptStripe):
        index = parse_row_index(data)
        for entry in range(len(index)):
            index.entry(entry)
            index.statistics(entry)
    with contextlib.suppress(CorruptTail):
        for stripe in parse_metadata(data, 100, 100, ROOM):
            for column in range(len(stripe)):
                stripe.get(column)


@given(draw=st.data())
def test_mutated_stripe_footers(corpus_folder: Path, draw: st.DataObject) -> None:
    name = draw.draw(
        st.sampled_from(["TestOrcFile.test1.orc", "nulls-at-end-snappy.orc", "encrypted/sample1.orc"])
    )
    file = (corpus_folder / "apache-orc" / name).read_bytes()
    tail = plan_tail(memoryview(file), len(file))
    assert isinstance(tail, Tail)
    stripe = tail.footer.stripes[0]
    data = bytearray(stripe_footer_bytes(file, stripe, tail))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        parse_stripe_footer(bytes(data), stripe, tail.footer.schema, tail.footer.encryption)
