"""The plain-Python reference against itself and, above all, against what others wrote.

Its decoders undo its encoders in every form; its codecs undo those of pyarrow; whole files are judged in
`tests/golden` and `tests/interop`, where Java, pyorc and the corpus' answers agree with it.
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import cramjam
import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.reference import (
    byte_rle,
    columns,
    compare,
    compression,
    reader,
    rle_v1,
    rle_v2,
    types,
    values,
    varint,
    wire,
)
from tests.reference.builder import Options
from tests.reference.errors import Malformed

INT64 = st.integers(-(2**63), 2**63 - 1)
RUNS = st.lists(st.one_of(INT64, st.integers(-5, 5)), min_size=1, max_size=512)
MIXED = st.lists(st.one_of(st.integers(-9, 9), INT64), max_size=900)


@hypothesis.given(INT64, st.integers(-(2**200), 2**200))
def test_varints(small: int, large: int) -> None:
    for number in (small, large):
        data = varint.write_signed(number)
        assert varint.read_signed(data + b"x", 0) == (number, len(data))
    assert varint.wrap(small + 2**64) == small


@hypothesis.given(MIXED, st.booleans())
def test_integers(numbers: list[int], signed: bool) -> None:
    found = numbers if signed else [abs(number) >> 1 for number in numbers]
    for codec in (rle_v1, rle_v2):
        assert codec.decode(codec.encode(found, signed=signed), len(found), signed=signed) == found


@hypothesis.given(RUNS, st.booleans())
def test_direct_and_patched(numbers: list[int], signed: bool) -> None:
    found = numbers if signed else [abs(number) >> 1 for number in numbers]
    data = rle_v2.direct(found, signed=signed)
    assert rle_v2.decode_run(data, 0, signed=signed) == (found, len(data))
    narrow = [number >> 20 for number in numbers]
    wide = rle_v2.closest_fixed_bits((max(narrow) - min(narrow)).bit_length())
    data = rle_v2.patched_base(narrow, width=wide)
    assert rle_v2.decode_run(data, 0, signed=signed) == (narrow, len(data))


@hypothesis.given(st.lists(st.integers(0, 2**50), min_size=1, max_size=511), INT64, st.sampled_from((1, -1)))
def test_delta(steps: list[int], start: int, sign: int) -> None:
    numbers = [start >> 4]
    for step in steps:
        numbers.append(numbers[-1] + sign * step)
    hypothesis.assume(numbers[1] != numbers[0] or len(set(numbers)) == 1)
    data = rle_v2.delta(numbers, signed=True)
    assert rle_v2.decode_run(data, 0, signed=True) == (numbers, len(data))


@hypothesis.given(st.lists(st.integers(0, 255), max_size=600), st.lists(st.booleans(), max_size=600))
def test_bytes_and_booleans(numbers: list[int], flags: list[bool]) -> None:
    assert byte_rle.decode(byte_rle.encode(numbers), len(numbers)) == numbers
    assert byte_rle.decode_booleans(byte_rle.encode_booleans(flags), len(flags)) == flags


@hypothesis.given(st.integers(0, 999_999_999), st.integers(0, 9))
def test_nanoseconds(nanos: int, zeros: int) -> None:
    nanos = nanos // 10**zeros * 10**zeros
    assert values.decode_nanos(values.encode_nanos(nanos)) == nanos


@pytest.mark.parametrize("zone", strategies.ZONES)
@hypothesis.given(st.integers(-(2**62), 2**62))
def test_timestamps(zone: str, value: int) -> None:
    seconds, nanos = values.encode_timestamp(value, "UTC", instant=True)
    if values.survives(value):
        assert values.decode_timestamp(seconds, nanos, "UTC", instant=True) == value
    seconds, nanos = values.encode_timestamp(value, zone, instant=False)
    found = values.decode_timestamp(seconds, nanos, zone, instant=False)
    # Clocks set forward or back, and the format's lost second, move a time; nothing moves it further.
    assert abs(found - value) <= 7200 * 10**9


def test_the_lost_second() -> None:
    """Between -1 s and the epoch with a fraction above 999,999 ns the format answers one second late."""
    assert not values.survives(-1_000_000)
    assert not values.survives(-998_000_001)
    assert values.survives(-999_500_000)
    assert values.survives(-1_500_000_000)
    seconds, nanos = values.encode_timestamp(-1_000_000, "UTC", instant=True)
    assert values.decode_timestamp(seconds, nanos, "UTC", instant=True) == 999_000_000


def test_hybrid_days() -> None:
    def day(year: int, month: int, number: int) -> int:
        return datetime.date(year, month, number).toordinal() - 719_163

    assert values.day_from_hybrid(day(1582, 10, 15)) == day(1582, 10, 15)
    assert values.day_from_hybrid(day(1582, 10, 15) - 1) == day(1582, 10, 4)
    assert values.day_from_hybrid(-171_595) == day(1500, 3, 1)  # what Spark stores for it
    assert values.day_from_hybrid(-719_164) == day(1, 1, 1)
    assert values.day_from_hybrid(day(1200, 1, 8)) == day(1200, 1, 1)


@hypothesis.given(st.integers(-(10**37), 10**37), st.integers(0, 37), st.integers(0, 9))
def test_decimals(unscaled: int, scale: int, more: int) -> None:
    value = values.decimal_of(unscaled, scale, scale)
    assert values.unscaled_of(value, scale) == unscaled
    assert values.decimal_of(unscaled * 10**more, scale + more, scale) == value
    assert values.decimal_of(15, 1, 0) == Decimal(1)


def _compressed(name: str, data: bytes) -> bytes:
    if name == "zlib":
        return compression.deflate(data)
    if name == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    if name == "lz4":
        return bytes(cramjam.lz4.compress_block(data, store_size=False))
    return bytes(pa.Codec(name).compress(data, asbytes=True))


@pytest.mark.parametrize("name", ["zlib", "snappy", "lz4", "zstd", "brotli"])
@hypothesis.given(st.integers(0, 2**32), st.sampled_from((1, 100, 70_000)))
def test_codecs(name: str, seed: int, size: int) -> None:
    rng = random.Random(seed)
    data = b"".join(rng.choice((b"abc", b"\0" * 40, rng.randbytes(9), b"xyzxyz")) for _ in range(size))[:size]
    packed = _compressed(name, data)
    framed = compression.header(len(packed), original=False) + packed
    kind = compression.NAMES.index(name)
    assert compression.unframe(framed, kind, 1 << 20) == data
    if size > 1:
        with pytest.raises(Malformed):
            compression.unframe(framed, kind, size - 1)


@hypothesis.given(st.binary(max_size=300), st.integers(1, 50), st.booleans())
def test_framing(data: bytes, block_size: int, original: bool) -> None:
    framed = compression.frame(data, compression.ZLIB, block_size, original=original)
    assert compression.unframe(framed, compression.ZLIB, block_size) == data


@hypothesis.given(
    st.lists(st.tuples(st.integers(1, 5000), st.one_of(st.integers(0, 2**64 - 1), st.binary())))
)
def test_wire(fields: list[tuple[int, int | bytes]]) -> None:
    parsed = wire.parse(wire.message(*fields))
    assert parsed == {key: [v for k, v in fields if k == key] for key, _ in fields}


@hypothesis.given(strategies.schemas(strategies.EVERYTHING, unions=True))
def test_type_texts(type_: types.T) -> None:
    assert types.parse(str(type_)) == type_


@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)),
    version=st.sampled_from((1, 2)),
    present=st.booleans(),
    dictionary=st.booleans(),
    block_size=st.sampled_from((16, 100, 65_536)),
    kind=st.sampled_from((compression.NONE, compression.ZLIB)),
)
def test_files(
    table: strategies.Table, version: int, present: bool, dictionary: bool, block_size: int, kind: int
) -> None:
    encoder = columns.Encoder(version=version, present=present, dictionary=dictionary)
    options = Options(compression=kind, block_size=block_size)
    type_, rows = reader.read(columns.make_file(table.type_, table.rows, encoder, options))
    assert type_ == table.type_
    compare.assert_same_rows(type_, rows, table.rows)


def test_differences_are_seen() -> None:
    """The comparison itself: what it must tell apart, and what it must not."""
    double, decimal = types.parse("double"), types.parse("decimal(5,2)")
    assert compare.difference(double, 0.0, -0.0)
    assert compare.difference(double, float("nan"), float("nan")) is None
    assert compare.difference(decimal, Decimal("1.0"), Decimal("1.00"))
    assert compare.difference(types.parse("int"), 1, True)
    assert compare.difference(types.parse("array<int>"), [1], [1, 2])
    union = types.parse("uniontype<int,int>")
    assert compare.difference(union, types.Union(0, 1), types.Union(1, 1))
    assert compare.difference(types.parse("struct<a:int>"), (1,), (2,)) == "value.a: 1 is not 2"
    with pytest.raises(AssertionError):
        compare.assert_same_rows(types.parse("struct<a:int>"), [(1,)], [(1,), (2,)])
