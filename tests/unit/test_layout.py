"""Where streams lie in real stripes, and which numbers a real row index entry has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.indexes import parse_row_index
from orcstream.codec.metadata.parse import parse_stripe_footer
from orcstream.codec.metadata.structure import (
    ColumnEncoding,
    EncodingKind,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    StripeVariant,
    positions_of,
    stream_ranges,
)
from orcstream.codec.streams.compression import Compression
from orcstream.errors import CorruptStripe
from orcstream.schema.types import FileColumn, Kind
from tests.unit.test_metadata import BAD_STRIPE_FOOTER, real_files, section, stripe_footer_bytes

# An entry too many, and positions without PRESENT: ORC Java 1.6 wrote the index of the encrypted data into
# that of the masked column (ORC-991).
LEAKING = "apache-orc/encrypted/sample1.orc"
DAMAGED = ("apache-orc/corrupt/missing_length_stream_in_string_dict.orc", 6)


def test_streams_fill_every_real_stripe(corpus_folder: Path) -> None:
    for item, data, tail in real_files(corpus_folder):
        if item["path"] == BAD_STRIPE_FOOTER:
            continue
        for stripe in tail.footer.stripes:
            footer = parse_stripe_footer(
                stripe_footer_bytes(data, stripe, tail), stripe, tail.footer.schema, tail.footer.encryption
            )
            at = stripe.offset
            for stream, where in stream_ranges(stripe, footer):
                assert where == ByteRange(at, at + stream.length)
                assert where.stop <= (stripe.index_range if stream.kind.is_index else stripe.data_range).stop
                at = where.stop
            assert at == stripe.data_range.stop, item["path"]


def test_every_real_row_index_entry(corpus_folder: Path) -> None:
    """As many numbers as `positions_of` names, in every entry of every column of every file."""
    entries: Counter[Kind] = Counter()
    odd: list[tuple[str, int]] = []
    for item, data, tail in real_files(corpus_folder):
        if item["path"] == BAD_STRIPE_FOOTER:
            continue
        footer, postscript = tail.footer, tail.postscript
        for stripe in footer.stripes:
            directory = parse_stripe_footer(
                stripe_footer_bytes(data, stripe, tail), stripe, footer.schema, footer.encryption
            )
            placed = stream_ranges(stripe, directory)
            present = {stream.column for stream, _ in placed if stream.kind is StreamKind.PRESENT}
            for stream, where in placed:
                if stream.kind is not StreamKind.ROW_INDEX or stream.variant is not None:
                    continue
                raw = section(data, where.start, where.stop, tail)
                if (item["path"], stream.column) == DAMAGED:
                    with pytest.raises(CorruptStripe):
                        parse_row_index(raw)
                    continue
                index = parse_row_index(raw)
                type_ = footer.schema.types[stream.column]
                expected = sum(
                    len(part)
                    for part in positions_of(
                        type_.kind,
                        directory.encodings[stream.column].kind,
                        has_present=stream.column in present,
                        compressed=postscript.compression is not Compression.NONE,
                        decimal64=postscript.version == (1, 9999) and type_.kind is Kind.DECIMAL,
                    )
                )
                groups = -(-stripe.row_count // footer.row_index_stride)
                lengths = {len(index.entry(entry)) for entry in range(len(index))}
                if lengths - {expected} or len(index) != groups:
                    odd.append((item["path"], stream.column))
                entries[type_.kind] += len(index)
    assert odd == [(LEAKING, 1), (LEAKING, 2)]
    assert entries.total() > 5000
    assert entries.keys() == set(Kind) - {Kind.GEOMETRY, Kind.GEOGRAPHY}


def names(
    kind: Kind, encoding: EncodingKind = EncodingKind.DIRECT_V2, **rest: bool
) -> list[tuple[str, int, str]]:
    found = positions_of(kind, encoding, **{"has_present": False, "compressed": True, **rest})
    return [(part.kind.name, part.first, " ".join(part.names)) for part in found]


def test_positions_of() -> None:
    runs = "chunk_offset bytes_into_chunk values_to_skip"
    assert names(Kind.LONG) == [("DATA", 0, runs)]
    assert names(Kind.LONG, compressed=False) == [("DATA", 0, "stream_offset values_to_skip")]
    assert names(Kind.STRING, has_present=True) == [
        ("PRESENT", 0, f"{runs} bits_to_skip"),
        ("DATA", 4, "chunk_offset bytes_into_chunk"),
        ("LENGTH", 6, runs),
    ]
    assert names(Kind.STRING, EncodingKind.DICTIONARY_V2, has_present=True) == [
        ("PRESENT", 0, f"{runs} bits_to_skip"),
        ("DATA", 4, runs),
    ]
    assert names(Kind.BOOLEAN, EncodingKind.DIRECT, compressed=False) == [
        ("DATA", 0, "stream_offset values_to_skip bits_to_skip")
    ]
    assert names(Kind.DECIMAL) == [("DATA", 0, "chunk_offset bytes_into_chunk"), ("SECONDARY", 2, runs)]
    assert names(Kind.DECIMAL, decimal64=True) == [("DATA", 0, runs)]
    assert names(Kind.STRUCT) == []


def test_placeholders_stand_for_the_variants_streams() -> None:
    """Clear index, index of each variant, clear data, data of each variant; nothing is counted twice."""

    def stream(kind: StreamKind, length: int, variant: int | None = None) -> StreamInformation:
        return StreamInformation(kind, FileColumn(1), length, variant)

    encodings = (ColumnEncoding(EncodingKind.DIRECT),)
    variants = tuple(
        StripeVariant(
            FileColumn(1),
            # Data before index: the lists of variants have an order of their own.
            (stream(StreamKind.DATA, 100 + v, v), stream(StreamKind.ROW_INDEX, 10 + v, v)),
            encodings,
        )
        for v in range(2)
    )
    footer = StripeFooter(
        streams=(
            stream(StreamKind.ROW_INDEX, 5),
            stream(StreamKind.ENCRYPTED_INDEX, 21),
            stream(StreamKind.DATA, 50),
            stream(StreamKind.ENCRYPTED_DATA, 201),
        ),
        encodings=encodings * 2,
        variants=variants,
    )
    stripe = StripeInformation(0, 1000, 26, 251, 7, 1, 0)
    assert [(s.kind.name, s.variant, r.start, r.stop) for s, r in stream_ranges(stripe, footer)] == [
        ("ROW_INDEX", None, 1000, 1005),
        ("ROW_INDEX", 0, 1005, 1015),
        ("ROW_INDEX", 1, 1015, 1026),
        ("DATA", None, 1026, 1076),
        ("DATA", 0, 1076, 1176),
        ("DATA", 1, 1176, 1277),
    ]
