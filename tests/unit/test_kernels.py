"""Our run length kernels against the plain-Python reference: equal values, however the bytes arrive.

The resumable contract is met at its worst: streams arrive byte by byte, cut at every place, in
compression chunks of odd sizes, and values are taken in odd turns, or skipped as a row index position
asks. On damaged bytes the kernel fails where the reference fails, and agrees where it does not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream.errors import CorruptStream
from tests.generators import chunks, strategies
from tests.reference import byte_rle, rle_v1, rle_v2
from tests.reference.errors import Malformed
from tests.reference.types import T
from tests.support import kernels

ENCODINGS = ("byte", "boolean", "rle_v1", "rle_v2")


def encode(encoding: str, values: Sequence[int], *, signed: bool) -> bytes:
    if encoding == "byte":
        return byte_rle.encode(values)
    if encoding == "boolean":
        return byte_rle.encode_booleans([bool(value) for value in values])
    return (rle_v1.encode if encoding == "rle_v1" else rle_v2.encode)(values, signed=signed)


def reference(encoding: str, data: bytes, count: int, *, signed: bool) -> list[int]:
    if encoding == "byte":
        return byte_rle.decode(data, count)
    if encoding == "boolean":
        return [int(bit) for bit in byte_rle.decode_booleans(data, count)]
    return (rle_v1.decode if encoding == "rle_v1" else rle_v2.decode)(data, count, signed=signed)


def numbers(encoding: str, seed: int, count: int, *, signed: bool) -> list[int]:
    kind = {"byte": "tinyint", "boolean": "boolean"}.get(encoding, "bigint")
    table = strategies.make_table(T("struct", (T(kind),), ("n",)), count, seed, strategies.Limits())
    found = [row[0] for row in table.rows if row[0] is not None]
    assert all(isinstance(value, int) for value in found)
    plain = [int(str(int(value))) for value in found if isinstance(value, int)]
    if encoding == "byte":
        return [value & 0xFF for value in plain]
    return plain if signed else [abs(value) & (1 << 62) - 1 for value in plain]


STREAMS = st.tuples(
    st.sampled_from(ENCODINGS), st.integers(0, 2**32), st.sampled_from((1, 5, 200, 1500)), st.booleans()
)


@hypothesis.settings(max_examples=200)
@hypothesis.given(stream=STREAMS, turn=st.sampled_from((1, 3, 7, 64, 511, 10_000)), zlib=st.booleans())
def test_streams_in_pieces(stream: tuple[str, int, int, bool], turn: int, zlib: bool) -> None:
    encoding, seed, count, signed = stream
    values = numbers(encoding, seed, count, signed=signed)
    data = encode(encoding, values, signed=signed)
    rng = random.Random(seed)
    if zlib:
        data = chunks.framed(data, [rng.randint(1, 40) for _ in range(50)], deflate=rng.random() < 0.5)
    pieces = chunks.pieces(data, rng.choice(([len(data) or 1], [1], [rng.randint(1, 90) for _ in range(99)])))
    turns = [turn] * (len(values) // turn + 1)
    found = kernels.decode(encoding, pieces, len(values), signed=signed, turns=turns, zlib=zlib)
    assert found == values


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_cut(encoding: str) -> None:
    for seed in range(4):
        values = numbers(encoding, seed, 150, signed=True)
        for pieces in chunks.ways(encode(encoding, values, signed=True)):
            assert kernels.decode(encoding, pieces, len(values), signed=True) == values


@hypothesis.given(stream=STREAMS, share=st.floats(0, 1))
def test_skipping_into_runs(stream: tuple[str, int, int, bool], share: float) -> None:
    encoding, seed, count, signed = stream
    values = numbers(encoding, seed, count, signed=signed)
    skip = int(share * len(values))
    if encoding == "boolean":
        skip -= skip % 8  # a position counts bytes first, then bits
    data = encode(encoding, values, signed=signed)
    found = kernels.decode(
        encoding, [data], len(values) - skip, signed=signed, skip=skip // 8 if encoding == "boolean" else skip
    )
    assert found == values[skip:]


@hypothesis.settings(max_examples=400)
@hypothesis.given(stream=STREAMS, damage=st.integers(0, 2**32))
def test_damaged_streams(stream: tuple[str, int, int, bool], damage: int) -> None:
    encoding, seed, count, signed = stream
    values = numbers(encoding, seed, count, signed=signed)
    data = bytearray(encode(encoding, values, signed=signed))
    rng = random.Random(damage)
    for _ in range(rng.randint(0, 3)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    del data[rng.randint(0, 2 * len(data) + 1) :]
    judge(encoding, bytes(data), len(values), signed=signed)


@hypothesis.settings(max_examples=400)
@hypothesis.given(
    encoding=st.sampled_from(ENCODINGS),
    data=st.binary(max_size=200),
    count=st.integers(0, 600),
    signed=st.booleans(),
)
def test_any_bytes(encoding: str, data: bytes, count: int, signed: bool) -> None:
    judge(encoding, data, count, signed=signed)


def judge(encoding: str, data: bytes, count: int, *, signed: bool) -> None:
    try:
        expected = reference(encoding, data, count, signed=signed)
    except Malformed:
        expected = None
    try:
        found = kernels.decode(encoding, [data], count, signed=signed)
    except CorruptStream:
        found = None
    assert found == expected
