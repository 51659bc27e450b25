"""Kernels that walk protobuf messages, against protobuf itself: whole messages, damaged ones, any bytes."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata._wire import count_parts, count_row_index, find_field, read_row_index
from orcstream.codec.metadata.wire import (
    Room,
    check_footer_parts,
    check_stripe_footer_parts,
    metadata_limit,
)
from orcstream.errors import CorruptStripe, Unsupported
from tests.reference import wire
from tests.reference.varint import write_varint
from tests.support.errors import because

NUMBERS = st.integers(0, 2**64 - 1)
ENTRIES = st.lists(st.tuples(st.lists(NUMBERS, max_size=6), st.binary(max_size=9)), max_size=6)
EXTRAS = st.sampled_from(
    [
        b"",
        b"\x18\x80\x01",  # field 3, a number
        b"\x21" + bytes(8),  # field 4, 64 bits
        b"\x2d" + bytes(4),  # field 5, 32 bits
        b"\x32\x02hi",  # field 6, two bytes
        b"\x3b\x08\x01\x43\x44\x3c",  # a group of field 7, with a number and an empty group
    ]
)


def index_of(entries: list[tuple[list[int], bytes]], extra: bytes = b"") -> bytes:
    parts = [b"\x0a" + write_varint(len(part := entry_of(*one) + extra)) + part + extra for one in entries]
    return extra + b"".join(parts)


def entry_of(positions: list[int], statistics: bytes) -> bytes:
    return wire.message((1, positions), (2, statistics))


def found_in(data: bytes) -> list[tuple[list[int], bytes]] | None:
    """The entries as our kernels read them; None for bytes that they refuse."""
    try:
        entries, count, most = count_row_index(data)
        positions, places = np.empty(count, np.uint64), np.empty(entries + 1, np.int64)
        statistics = read_row_index(data, positions, places)
    except ValueError:
        return None
    values = positions.tolist()
    cut = [values[start:stop] for start, stop in pairwise(places.tolist())]
    assert most == max(map(len, cut), default=0)
    return list(zip(cut, statistics, strict=True))


def told_by_protobuf(data: bytes) -> list[tuple[list[int], bytes]] | None:
    try:
        return [(list(one.positions), one.statistics) for one in pb.RowIndexView.FromString(data).entry]
    except DecodeError:
        return None


@given(ENTRIES, EXTRAS)
def test_row_indexes(entries: list[tuple[list[int], bytes]], extra: bytes) -> None:
    data = index_of(entries, extra)
    assert found_in(data) == told_by_protobuf(data) == entries


@given(ENTRIES, EXTRAS, st.data())
def test_damaged_row_indexes(
    entries: list[tuple[list[int], bytes]], extra: bytes, draw: st.DataObject
) -> None:
    """What both take is the same; groups that end wrongly are protobuf's to refuse."""
    data = bytearray(index_of(entries, extra) or b"\x0a\x00")
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    told = told_by_protobuf(bytes(data))
    if told is not None:
        assert found_in(bytes(data)) == told


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    told, found = told_by_protobuf(data), found_in(data)
    if told is not None:
        assert found == told
    with contextlib.suppress(ValueError):
        find_field(data, 1, 3)


@given(st.lists(st.binary(max_size=5), max_size=8), EXTRAS, st.integers(0, 9))
def test_fields_are_found(parts: list[bytes], extra: bytes, most: int) -> None:
    data = b"".join(wire.message((1, part)) + extra for part in parts)
    places, others = find_field(data, 1, most)
    ends = memoryview(places).cast("q").tolist()
    found = [data[start:stop] for start, stop in zip(ends[::2], ends[1::2], strict=True)]
    assert found == parts[: most + 1]
    assert others <= len(parts)


def test_a_row_index_of_another_size() -> None:
    with pytest.raises(ValueError, match=r"\bsize\b"):
        read_row_index(index_of([([1, 2], b"")]), np.empty(1, np.uint64), np.empty(2, np.int64))


TABLE = np.full((3, 16), -1, np.int8)
TABLE[0, 2], TABLE[1, 3], TABLE[1, 4] = 1, 2, -2


def test_parts_are_counted() -> None:
    """A message of two messages (field 2), each with three of its own (3) and four packed numbers (4)."""
    inner = wire.message(*[(3, b"\x08\x01")] * 3, (4, [1, 200, 3, 40_000]))
    data = wire.message((1, 5), (2, inner), (2, inner), (9, b"\xff\xff"))
    assert count_parts(data, TABLE) == [(1, 4), (2, 16), (6, 6)]
    assert count_parts(b"", TABLE)[0] == (1, 0)
    for bad in (data[:-1], b"\x12\x01\x80", b"\x00", b"\x0c"):
        with pytest.raises(ValueError, match=r"\bprotobuf\b"):
            count_parts(bad, TABLE)


@pytest.mark.parametrize(
    "table", [np.zeros((0, 16), np.int8), np.zeros((1, 15), np.int8), TABLE + 3, TABLE - 2]
)
def test_no_table(table: np.ndarray[tuple[int, int], np.dtype[np.int8]]) -> None:
    with pytest.raises(ValueError, match=r"\btable\b"):
        count_parts(b"", table)


def test_messages_within_themselves() -> None:
    """As deep as protobuf follows, and no further: the stack does not end."""
    table = np.full((1, 16), -1, np.int8)
    table[0, 1] = 0
    data = b""
    for _ in range(20_000):
        data = wire.message((1, data))
    ((messages, _),) = count_parts(data, table)
    assert messages == 101


STRIPES = wire.message((3, wire.message((1, 3), (5, 10))))


def test_the_limit_follows_the_length_of_the_file() -> None:
    assert metadata_limit(0) == metadata_limit(8 << 20) == 64 << 20
    assert metadata_limit(10_000_000) == 80_000_000
    assert metadata_limit(1 << 50) == 1 << 30
    data = STRIPES * 300_000
    with pytest.raises(Unsupported, match=r"\bfooter\b", check=because("metadata_too_large")):
        check_footer_parts(data, 1000)
    check_footer_parts(data, 30_000_000)  # a hundred bytes for each stripe


def test_streams_and_encodings_are_as_many_as_columns_can_have() -> None:
    stream, encoding = wire.message((1, b"")), wire.message((2, b""))
    for part in (stream, encoding):
        check_stripe_footer_parts(part * 16_000, 1000)
        with pytest.raises(CorruptStripe, match=r"16100 (streams|encodings)"):
            check_stripe_footer_parts(part * 16_100, 1000)


def test_a_room_is_taken_piece_by_piece() -> None:
    room = Room(100, "indexes", "raise memory_limit=")
    room.take(60)
    assert (room.taken, room.left) == (60, 40)
    with pytest.raises(
        Unsupported,
        match=r"\bindexes\b.*\b101\b.*\b100\b.*\bmemory_limit\b",
        check=because("metadata_too_large"),
    ):
        room.take(41)
