"""The bucket of a row by its values: against the rules, written down a second time, and kernels on odd input.

What Hive itself says of every type stands in `test_metastore`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orcstream
from orcstream.acid.write.bucketing import buckets_of_rows
from orcstream.codec.hive._bucket_hash import hash_decimals, hash_items, hash_texts, hash_timestamps
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.codec.vectors._filter import Texts
from orcstream.codec.vectors.column import Vector
from orcstream.errors import Unsupported
from orcstream.schema.schema import Schema
from tests.support.effort import share

MOST = (1 << 32) - 1
PRIME = 2_147_483_647  # every bit of a hash counts


# --- the rules -------------------------------------------------------------------------------------


def murmur(data: bytes) -> int:
    value = 104729
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        value ^= mixed(int.from_bytes(data[at : at + 4], "little"))
        value = (rotated(value, 13) * 5 + 0xE6546B64) & MOST
    if tail := data[whole:]:
        word = 0
        for at, byte in enumerate(tail):
            word ^= (byte - 256 if byte > 127 else byte) << 8 * at
        value ^= mixed(word & MOST)
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & MOST
    value = (value ^ value >> 13) * 0xC2B2AE35 & MOST
    return value ^ value >> 16


def mixed(word: int) -> int:
    return rotated(word * 0xCC9E2D51 & MOST, 15) * 0x1B873593 & MOST


def rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & MOST


def number(value: int) -> bytes:
    """Hadoop's integers of variable length."""
    if -112 <= value <= 127:
        return struct.pack(">b", value)
    marker = -120 if value < 0 else -112
    value = ~value if value < 0 else value
    size = (value.bit_length() + 7) // 8
    return struct.pack(">b", marker - size) + value.to_bytes(size, "big")


def of_nanos(nanos: int) -> int:
    seconds, rest = divmod(nanos, 10**9)
    turned = int(f"{rest:09}"[::-1])
    if 0 <= seconds < 1 << 31:
        if not turned:
            return murmur(struct.pack(">I", seconds))
        return murmur(struct.pack(">I", seconds | 1 << 31) + number(turned))
    low = seconds & (1 << 31) - 1 | 1 << 31
    return murmur(struct.pack(">I", low) + number(-turned - 1) + number(seconds >> 31))


def of_decimal(value: Decimal) -> int:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if value < 0 else 1)
    while exponent < 0 and unscaled % 10 == 0:
        unscaled //= 10
        exponent += 1
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
    return murmur(unscaled.to_bytes(size, "big", signed=True))


def of_float(value: float) -> int:
    (bits,) = struct.unpack(">i", struct.pack(">f", value) if not math.isnan(value) else b"\x7f\xc0\0\0")
    return murmur(np.array(bits, ">i4").astype(">f4").tobytes())


def of_double(value: float) -> int:
    (bits,) = struct.unpack(
        ">q", struct.pack(">d", value) if not math.isnan(value) else b"\x7f\xf8" + bytes(6)
    )
    return murmur(struct.pack(">d", bits))


def packed(format_: str) -> Callable[[int], int]:
    return lambda value: murmur(struct.pack(format_, value))


def joined(hashes: list[int]) -> int:
    value = 0
    for one in hashes:
        value = (31 * value + one) & MOST
    return value


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    near = st.sampled_from([0, 1, -1, 10**scale, -limit, limit, 127, 128, -128, -129, 255, 256, 1 << 55])
    wide = st.integers(-limit, limit)
    round_ = st.builds(lambda n, zeros: n * 10**zeros, st.integers(-99, 99), st.integers(0, precision - 2))
    # Not scaled by the context, which has 28 digits.
    return st.one_of(near, wide, round_).map(lambda n: Decimal(f"{n}E-{scale}"))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NANOS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 32), 1 << 32).map(lambda seconds: seconds * 10**9),
    st.sampled_from([0, 1, -1, 10**9 - 1, -(10**9), 100_000_000, (1 << 31) * 10**9, (1 << 31) * 10**9 - 1]),
)
# Of each type: its values, Arrow's type, and the hash of one.
TYPES: dict[str, tuple[st.SearchStrategy[Any], pa.DataType, Callable[[Any], int]]] = {
    "boolean": (st.booleans(), pa.bool_(), int),
    "tinyint": (integers(8), pa.int8(), lambda value: value & MOST),
    "smallint": (integers(16), pa.int16(), packed(">h")),
    "int": (integers(32), pa.int32(), packed(">i")),
    "bigint": (integers(64), pa.int64(), packed(">q")),
    "float": (st.floats(width=32), pa.float32(), of_float),
    "double": (st.floats(), pa.float64(), of_double),
    "string": (TEXT, pa.string(), lambda value: murmur(value.encode())),
    "varchar(12)": (TEXT, pa.string(), lambda value: murmur(value.encode())),
    "char(12)": (TEXT, pa.string(), lambda value: murmur(value.rstrip(" ").encode())),
    "binary": (
        st.binary(max_size=12),
        pa.binary(),
        lambda value: murmur(value + bytes(len(value) // 2)),
    ),
    "date": (integers(32), pa.date32(), packed(">i")),
    "timestamp": (NANOS, pa.timestamp("ns"), of_nanos),
    "timestamp with local time zone": (NANOS, pa.timestamp("ns", "UTC"), of_nanos),
    "decimal(18,4)": (decimals(18, 4), pa.decimal128(18, 4), of_decimal),
    "decimal(38,10)": (decimals(38, 10), pa.decimal128(38, 10), of_decimal),
    "decimal(38,0)": (decimals(38, 0), pa.decimal128(38, 0), of_decimal),
    "array<string>": (
        st.lists(st.none() | TEXT, max_size=4),
        pa.list_(pa.string()),
        lambda value: joined([0 if one is None else murmur(one.encode()) for one in value]),
    ),
    "struct<a:tinyint,b:array<int>>": (
        st.fixed_dictionaries({"a": st.none() | integers(8), "b": st.lists(integers(32), max_size=3)}),
        pa.struct([("a", pa.int8()), ("b", pa.list_(pa.int32()))]),
        lambda value: joined([(value["a"] or 0) & MOST, joined([packed(">i")(one) for one in value["b"]])]),
    ),
}


def rows_of(schema: str, data: object) -> IngestedRows:
    (rows,) = UserData(data).vectors(Schema.parse(schema))
    return rows


def expected(hashes: list[int]) -> list[int]:
    return [(one & 0x7FFFFFFF) % PRIME for one in hashes]


@pytest.mark.parametrize("name", TYPES)
@given(st.data())
@settings(max_examples=share(60, 4))
def test_a_column(name: str, data: st.DataObject) -> None:
    values_of, arrow, hash_of = TYPES[name]
    values = data.draw(st.lists(st.none() | values_of, max_size=20))
    rows = rows_of(f"struct<v:{name}>", pa.record_batch({"v": pa.array(values, arrow)}))
    found = buckets_of_rows(rows, [0], PRIME).tolist()
    assert found == expected([0 if value is None else hash_of(value) for value in values])
    start = data.draw(st.integers(0, len(values)))
    part = rows.vectors[0].slice(start, len(values))
    assert (
        buckets_of_rows(IngestedRows(rows.fields, (part,), part.length), [0], PRIME).tolist() == found[start:]
    )


@given(st.lists(st.tuples(st.none() | integers(32), st.none() | TEXT), max_size=20), st.integers(1, 4096))
@settings(max_examples=share(50, 4))
def test_columns_together(values: list[tuple[int | None, str | None]], count: int) -> None:
    rows = rows_of("struct<a:int,b:string>", values)
    for columns in ([0, 1], [1, 0], [1]):
        found = buckets_of_rows(rows, columns, count).tolist()
        hashes = [
            [0 if one is None else packed(">i")(one), 0 if other is None else murmur(other.encode())]
            for one, other in values
        ]
        assert found == [(joined([row[at] for at in columns]) & 0x7FFFFFFF) % count for row in hashes]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_units_of_timestamps(unit: str) -> None:
    values = [0, 1, -1, 62_135_596_800, -62_135_596_800, None]
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3}[unit]
    rows = rows_of("struct<v:timestamp>", pa.table({"v": pa.array(values, pa.timestamp(unit))}))
    hashes = [0 if value is None else of_nanos(value * scale) for value in values]
    assert buckets_of_rows(rows, [0], PRIME).tolist() == expected(hashes)


def test_texts_of_dictionaries() -> None:
    values = ["one", None, "two", "one", ""]
    rows = rows_of("struct<v:string>", pa.table({"v": pa.array(values).dictionary_encode()}))
    hashes = [0 if value is None else murmur(value.encode()) for value in values]
    assert buckets_of_rows(rows, [0], PRIME).tolist() == expected(hashes)


def test_unions() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([1, 0, 1, 0], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [pa.array([7, None], pa.int32()), pa.array(["a", "bc"])],
    )
    rows = rows_of("struct<v:uniontype<int,string>>", pa.table({"v": union}))
    hashes = [murmur(b"a"), packed(">i")(7), murmur(b"bc"), 0]
    assert buckets_of_rows(rows, [0], PRIME).tolist() == expected(hashes)


@pytest.mark.parametrize("name", ["map<string,int>", "array<map<string,int>>"])
def test_maps_are_left_to_hive(name: str) -> None:
    rows = rows_of(f"struct<v:{name}>", [])
    with pytest.raises(Unsupported) as caught:
        buckets_of_rows(rows, [0], 2)
    assert caught.value.reason == "bucketed_map"


async def test_rows_of_a_table_with_buckets(tmp_path: Path) -> None:
    """By way of a transaction, in partitions, through updates and a compaction."""
    place = str(tmp_path / "table")
    await orcstream.acid.create_table(
        place, "struct<n:bigint,t:string>", partitions={"p": "int"}, bucket_columns=["t"], bucket_count=4
    )
    data = [{"n": n, "t": None if n % 5 == 0 else f"text {n % 7}", "p": n % 2} for n in range(200)]
    async with orcstream.acid.open_table(place) as table, await table.transaction() as change:
        await change.insert(data)
    async with orcstream.acid.open_table(place) as table:
        async with await table.transaction() as change:
            await change.update({"n": 1000}, where=orcstream.col("n") < 50)
        await table.compact("major")
    async with orcstream.acid.open_table(place) as table:
        rows = (await table.read(row_ids=True)).to_pylist()
    assert sorted(row["n"] for row in rows) == [*range(50, 200), *[1000] * 50]
    for row in rows:
        hash_ = 0 if row["t"] is None else murmur(row["t"].encode())
        assert row["row__id"]["bucketid"] >> 16 & 4095 == (hash_ & 0x7FFFFFFF) % 4


# --- kernels ---------------------------------------------------------------------------------------


def room(count: int) -> Any:
    return np.empty(count, np.uint32)


def test_less_room_than_values() -> None:
    longs = np.zeros(4, np.int64)
    with pytest.raises(ValueError, match=r"\bvalues\b"):
        hash_decimals(longs, 2, room(1))
    with pytest.raises(ValueError, match=r"\bvalues\b"):
        hash_timestamps(longs, np.zeros(4, np.int32), room(3))
    with pytest.raises(ValueError, match=r"\bnanoseconds\b"):
        hash_timestamps(longs, np.zeros(3, np.int32), room(4))
    with pytest.raises(ValueError, match=r"\bvalues\b"):
        hash_texts(Texts(bytes(12), b"", 0, 2), room(1))
    for width in (0, -1, 5, 1 << 62):
        with pytest.raises(ValueError, match=r"\bbytes\b.*\bvalues\b"):
            hash_items(np.zeros(8, np.uint8), width, room(2))


def test_odd_numbers_are_no_danger() -> None:
    odd = np.array([-(1 << 63), -1, (1 << 63) - 1, 0], np.int64)
    nanos = np.array([-(1 << 31), (1 << 31) - 1, -1, 1 << 30], np.int32)
    hash_timestamps(odd, nanos, room(4))
    for scale in (-1, 0, 38, (1 << 31) - 1):
        hash_decimals(odd, scale, room(2))


def test_texts_beyond_their_bytes_are_skipped() -> None:
    offsets = np.array([0, 2, 9, -1, 1], np.int32)
    out = room(4)
    hash_texts(Texts(offsets.tobytes(), b"ab  ", 0, 4), out)
    assert out.tolist() == [murmur(b"ab"), 0, 0, 0]


def test_offsets_of_lists_that_are_wrong() -> None:
    rows = rows_of("struct<v:array<int>>", [{"v": [1]}, {"v": [2]}])
    (vector,) = rows.vectors
    for offsets in ([0, 5, 2], [0, 1, 9], [-1, 1, 2]):
        bad = Vector(2, (None, np.array(offsets, np.int32).data), 0, 0, vector.children)
        with pytest.raises(ValueError, match="offsets"):
            buckets_of_rows(IngestedRows(rows.fields, (bad,), 2), [0], 2)
