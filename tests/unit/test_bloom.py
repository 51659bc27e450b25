"""Bloom filters: hashes against the vectors that ORC Java and ORC C++ test theirs with; foreign bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata._bloom import contains_any, hash_bytes, hash_longs
from orcstream.codec.metadata.bloom import MAX_HASHES, BloomFilter, hashes_of
from orcstream.codec.metadata.indexes import parse_bloom_index
from orcstream.errors import CorruptStripe
from orcstream.schema.types import Kind, Type

# apache/orc c++/test/TestBloomFilter.cc testLongHash, the same as in TestBloomFilter.java.
LONG_HASHES = {
    0: 0,
    -1: 6614246905173314819,
    -2: -5218250166726157773,
    -3: 1396019780946710816,
    -9223372036854775805: 3691278333958578070,
    -9223372036854775806: -1192099642781211952,
    -9223372036854775807: -9102499068535824902,
    790302201: 1499534499340523007,
    790302202: -5108695154500810163,
    790302203: -2450623810987162260,
    18000000000: -1097054448615658549,
    9223372036064673413: -4986173376161118712,
    9223372036064673414: 3785699328822078862,
    9223372036064673415: 294188322706112357,
}
# testBloomFilterBasicOperations there: the five bits that a value sets in a filter for 128 values (832 bits).
BITS = 832
POSITIONS: list[tuple[Kind, int | float | bytes, set[int]]] = [
    (Kind.LONG, 1, {567, 288, 246, 306, 228}),
    (Kind.LONG, 11, {228, 285, 342, 399, 456}),
    (Kind.INT, 111, {802, 630, 458, 545, 717}),
    (Kind.SHORT, 1111, {826, 526, 40, 480, 86}),
    (Kind.LONG, 0, {0}),
    (Kind.BYTE, -1, {120, 308, 335, 108, 535}),
    (Kind.LONG, -11, {323, 685, 215, 577, 107}),
    (Kind.LONG, -111, {357, 318, 279, 15, 54}),
    (Kind.LONG, -1111, {572, 680, 818, 434, 232}),
    (Kind.DOUBLE, 1.1, {522, 692, 12, 370, 753}),
    (Kind.DOUBLE, 11.11, {210, 188, 89, 720, 389}),
    (Kind.DOUBLE, 111.111, {831, 252, 583, 500, 335}),
    (Kind.DOUBLE, 1111.1111, {725, 175, 374, 92, 642}),
    (Kind.DOUBLE, -1.1, {636, 163, 565, 206, 679}),
    (Kind.DOUBLE, -11.11, {473, 192, 743, 462, 181}),
    (Kind.DOUBLE, -111.111, {167, 152, 472, 295, 24}),
    (Kind.DOUBLE, -1111.1111, {308, 346, 384, 422, 371}),
    (Kind.STRING, b"", {656, 807, 480, 151, 304}),
    (Kind.VARCHAR, b"english", {576, 221, 68, 729, 392}),
    (Kind.STRING, "中国字".encode(), {602, 636, 44, 362, 318}),
    (Kind.BINARY, "中国字".encode(), {602, 636, 44, 362, 318}),
]
# apache/orc TestMurmur3.java testHashCodeM3_64.
TIMES = (
    b"It was the best of times, it was the worst of times,"
    b" it was the age of wisdom, it was the age of foolishness,"
    b" it was the epoch of belief, it was the epoch of incredulity,"
    b" it was the season of Light, it was the season of Darkness,"
    b" it was the spring of hope, it was the winter of despair,"
    b" we had everything before us, we had nothing before us,"
    b" we were all going direct to Heaven,"
    b" we were all going direct the other way."
)


def bits_of(*positions: int) -> bytes:
    return sum(1 << position for position in positions).to_bytes(BITS // 8, "little")


def test_long_hashes() -> None:
    values = np.array(list(LONG_HASHES), np.int64)
    out = np.zeros(len(values), np.uint64)
    hash_longs(values, out)
    assert out.view(np.int64).tolist() == list(LONG_HASHES.values())
    with pytest.raises(ValueError, match=r"\bvalues\b"):
        hash_longs(values, out[:-1])


def test_byte_hash() -> None:
    assert hash_bytes(TIMES) == 305830725663368540


@pytest.mark.parametrize(("kind", "literal", "positions"), POSITIONS)
def test_positions(kind: Kind, literal: float | bytes, positions: set[int]) -> None:
    hashes = hashes_of(Type(kind), [literal])
    assert hashes is not None
    assert BloomFilter(bits_of(*positions), 5).may_contain(hashes)
    for position in positions:
        assert not BloomFilter(bits_of(*(positions - {position})), 5).may_contain(hashes)


def test_any_of_many() -> None:
    hashes = hashes_of(Type(Kind.LONG), [7, 1, 1 << 70, 99])
    assert hashes is not None
    assert len(hashes) == 3, "a number beyond 64 bits is in no column"
    assert BloomFilter(bits_of(567, 288, 246, 306, 228), 5).may_contain(hashes)
    assert not BloomFilter(bits_of(567, 288, 246, 306), 5).may_contain(hashes)
    assert not BloomFilter(b"\xff" * 8, 1).may_contain(hashes[:0])


def test_zero_has_two_signs() -> None:
    hashes = hashes_of(Type(Kind.DOUBLE), [0.0])
    assert hashes is not None
    (minus,) = {int(x) for x in hashes} - {0}
    expected = np.zeros(1, np.uint64)
    hash_longs(np.array([-(1 << 63)], np.int64), expected)
    assert minus == expected[0]


@pytest.mark.parametrize(
    ("unscaled", "scale", "text"),
    [(0, 0, b"0"), (0, 5, b"0"), (1200, 2, b"12"), (1250, 2, b"12.5"), (-5, 2, b"-0.05"), (-500, 0, b"-500"),
     (10**37 + 1, 37, b"1.0000000000000000000000000000000000001"), (7, 3, b"0.007")],
)  # fmt: skip
def test_decimals_are_hashed_as_hive_prints_them(unscaled: int, scale: int, text: bytes) -> None:
    hashes = hashes_of(Type(Kind.DECIMAL, precision=38, scale=scale), [unscaled])
    assert hashes is not None
    assert hashes.tolist() == [hash_bytes(text)]


def test_what_cannot_be_hashed() -> None:
    for type_, literal in (
        (Type(Kind.DECIMAL), 5),
        (Type(Kind.DOUBLE), float("nan")),
        (Type(Kind.DATE), -200_000),
        (Type(Kind.TIMESTAMP), 999_999_999),
        (Type(Kind.BOOLEAN), True),
        (Type(Kind.STRUCT), 1),
    ):
        assert hashes_of(type_, [literal]) is None, type_


def test_char_is_padded_or_not() -> None:
    hashes = hashes_of(Type(Kind.CHAR, max_length=3), ["é ".encode()])
    assert hashes is not None
    assert set(hashes.tolist()) == {hash_bytes(text.encode()) for text in ("é", "é ", "é  ")}


@given(size=st.integers(1, 40), count=st.integers(1, 300), hashes=st.lists(st.integers(0, 2**64 - 1)))
def test_full_and_empty_filters(size: int, count: int, hashes: list[int]) -> None:
    """Every position lies within the bits, of whatever number they are."""
    asked = np.array(hashes, np.uint64)
    assert contains_any(b"\xff" * (8 * size), count, asked) is bool(hashes)
    assert contains_any(bytes(8 * size), count, asked) is False


def test_kernel_refuses_no_filter() -> None:
    for bits, count in ((b"", 3), (bytes(8), 0)):
        with pytest.raises(ValueError, match=r"\bfilter\b"):
            contains_any(bits, count, np.zeros(1, np.uint64))


# --- from bytes ------------------------------------------------------------------------------------


def index(*filters: pb.BloomFilter) -> bytes:
    return pb.BloomFilterIndex(bloom_filter=list(filters)).SerializeToString()


def test_both_forms() -> None:
    words = [1 << 63, 5]
    data = index(pb.BloomFilter(num_hash_functions=3, bitset=words))
    original = parse_bloom_index(data, 1, utf8=False)
    bits = b"".join(word.to_bytes(8, "little") for word in words)
    assert original.filters == (BloomFilter(bits, 3),)
    assert (original.utf8, original.encoding, len(original)) == (False, 0, 1)
    data = index(pb.BloomFilter(num_hash_functions=3, utf8bitset=bits), pb.BloomFilter())
    new = parse_bloom_index(data, 2, encoding=1)
    assert new.filters == (BloomFilter(bits, 3), None)
    assert (new.utf8, new.encoding) == (True, 1)


@pytest.mark.parametrize(
    "message",
    [
        pb.BloomFilter(),
        pb.BloomFilter(num_hash_functions=3),
        pb.BloomFilter(num_hash_functions=0, utf8bitset=bytes(8)),
        pb.BloomFilter(num_hash_functions=MAX_HASHES + 1, utf8bitset=bytes(8)),
        pb.BloomFilter(num_hash_functions=2**32 - 1, utf8bitset=bytes(8)),
        pb.BloomFilter(num_hash_functions=3, utf8bitset=bytes(12)),
        pb.BloomFilter(num_hash_functions=3, bitset=[1]),
    ],
)
def test_filters_that_prove_nothing(message: pb.BloomFilter) -> None:
    assert parse_bloom_index(index(message), 1).filters == (None,)


def test_too_many() -> None:
    with pytest.raises(CorruptStripe, match=r"\b3\b"):
        parse_bloom_index(index(*[pb.BloomFilter()] * 3), 2)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes(data: bytes, utf8: bool) -> None:
    try:
        found = parse_bloom_index(data, 10, utf8=utf8)
    except CorruptStripe:
        return
    for item in found.filters:
        if item is not None:
            item.may_contain(np.array([0, 2**64 - 1], np.uint64))
