"""Streams met in every state: split anywhere, taken in any order, entered at any position, damaged.

A stream is a list of runs whose values are known, so that a position (chunk offset, bytes into the chunk,
values to skip, bits to skip) can be made for every value, as a row index would hold it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams._values import BoolValues, IntValues
from orcstream.codec.streams.compression import Compression, Decompressor
from orcstream.errors import CorruptStream
from tests.generators import chunks
from tests.reference import byte_rle, compression, rle_v1, rle_v2
from tests.reference.varint import write_signed
from tests.support.effort import share
from tests.support.kernels import Fed

pytestmark = pytest.mark.usefixtures("simd")

ENCODINGS = ("byte", "boolean", "rle_v1", "rle_v2", "varint128", "raw1", "raw4", "raw8")


@dataclass
class Runs:
    """A stream as its runs: (bytes, values) each."""

    encoding: str
    parts: list[tuple[bytes, list[Any]]]

    @property
    def data(self) -> bytes:
        return b"".join(part for part, _ in self.parts)

    @property
    def values(self) -> list[Any]:
        return [value for _, values in self.parts for value in values]

    def __repr__(self) -> str:
        return f"{self.encoding} of {len(self.values)} values in {len(self.parts)} runs"


def make_runs(encoding: str, seed: int, count: int) -> Runs:
    rng = random.Random(seed)
    return Runs(encoding, [_run(encoding, rng) for _ in range(count)])


def _run(encoding: str, rng: random.Random) -> tuple[bytes, list[Any]]:
    if encoding in ("byte", "boolean"):
        if rng.random() < 0.5:
            length, value = rng.randint(3, 130), rng.randrange(256)
            packed, data = [value] * length, byte_rle.run(value, length)
        else:
            packed = list(rng.randbytes(rng.randint(1, 128)))
            data = byte_rle.literals(packed)
        if encoding == "byte":
            return data, packed
        return data, [value >> bit & 1 for value in packed for bit in range(7, -1, -1)]
    if encoding == "rle_v1":
        values = [rng.getrandbits(rng.choice((6, 63))) - 20 for _ in range(rng.randint(1, 128))]
        if rng.random() < 0.5:
            return rle_v1.literals(values, signed=True), values
        data = rle_v1.run(values[0], rng.randint(-128, 127), rng.randint(3, 130), signed=True)
        return data, rle_v1.decode(data, (data[0]) + 3, signed=True)
    if encoding == "rle_v2":
        length = rng.choice((1, 2, 10, 300, 512))
        values = [rng.getrandbits(rng.choice((1, 20, 40, 62))) for _ in range(length)]
        form = rng.randrange(4)
        if form == 0:
            values = [rng.choice(values)] * rng.randint(3, 10)
            return rle_v2.short_repeat(values[0], len(values), signed=True), values
        if form == 1:
            return rle_v2.delta(sorted(values), signed=True), sorted(values)
        if form == 2:
            values = [value & 15 for value in values]
            values[rng.randrange(length)] = 1 << 33
            return rle_v2.patched_base(values, base=0, width=4), values
        return rle_v2.direct(values, signed=True), values
    if encoding == "varint128":
        value = rng.getrandbits(rng.choice((5, 60, 126))) * rng.choice((1, -1))
        return write_signed(value), [value]
    data = rng.randbytes(int(encoding[3:]))
    return data, [data]


STREAMS = st.builds(
    make_runs, st.sampled_from(ENCODINGS), st.integers(0, 1 << 32), st.sampled_from((1, 3, 12, 40))
)


def fed_of(
    runs: Runs, pieces: list[bytes], kind: Compression = Compression.NONE, block: int = 1 << 18
) -> Fed:
    return Fed(runs.encoding, pieces, signed=True, compression=kind, block_size=block)


@hypothesis.settings(max_examples=share(150))
@hypothesis.given(runs=STREAMS, seed=st.integers(0, 1 << 32))
def test_looking_taking_and_dropping(runs: Runs, seed: int) -> None:
    rng = random.Random(seed)
    data, kind = runs.data, rng.choice((Compression.NONE, Compression.ZLIB))
    if kind is Compression.ZLIB:
        sizes = [rng.randint(1, 60) for _ in range(50)]
        data = chunks.framed(data, sizes, deflate=rng.random() < 0.7)
    top = rng.choice((1, 7, 200))
    fed = fed_of(runs, chunks.pieces(data, [rng.randint(1, top) for _ in range(99)]), kind, 64)
    values, at = runs.values, 0
    while at < len(values):
        count = min(rng.choice((0, 1, 3, 17, 129, 600)), len(values) - at)
        expected = values[at : at + count]
        action = rng.randrange(4)
        if action == 0:
            assert fed.take(count) == expected
            at += count
            continue
        fed.ensure(count)
        assert fed.peek(count) == expected
        fewer = rng.randint(0, count)
        if action == 1:
            fed.values.drop(fewer)
        elif action == 2:
            assert fed.take(fewer) == expected[:fewer]
        else:
            fewer = 0
        at += fewer
    fed.ensure(0)


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(seed=st.integers(0, 1 << 32))
def test_long_runs_across_stored_chunks(seed: int) -> None:
    """Runs of 4 KB lie across borders of chunks and of pieces, which are larger than that, or smaller."""
    rng = random.Random(seed)
    values = [rng.getrandbits(62) for _ in range(4096)]
    data = b"".join(rle_v2.direct(values[at : at + 512], signed=True) for at in range(0, 4096, 512))
    top = rng.choice((700, 6000, 20_000))
    turns = [rng.random() < 0.2 for _ in range(9)]
    framed = chunks.framed(data, [rng.randint(1, top) for _ in range(60)], deflate=turns)
    cuts = chunks.pieces(framed, [rng.randint(1, rng.choice((900, 9000, 40_000))) for _ in range(99)])
    fed = fed_of(Runs("rle_v2", []), cuts, Compression.ZLIB, 20_000)
    at = 0
    while at < len(values):
        count = min(rng.choice((1, 100, 511, 1500)), len(values) - at)
        assert fed.take(count) == values[at : at + count]
        at += count
    stream = InputStream(compressed=True, block_size=20_000)
    for piece in cuts:
        stream.feed(piece, last=piece is cuts[-1])
    out, decompress = b"", Decompressor(Compression.ZLIB)
    while part := bytes(stream.read(rng.choice((10, 5000, 25_000)), decompress)):
        out += part
    assert out == data


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("deflate", [False, True])
def test_chunk_edges(encoding: str, deflate: bool) -> None:
    """A chunk border, and a piece border, at every byte of a stream."""
    runs = make_runs(encoding, 5, 3)
    data, values = runs.data, runs.values
    step = max(1, len(data) // 60)
    for at in range(1, len(data), step):
        framed = chunks.framed(data, [at, 1 << 17], deflate=deflate)
        assert fed_of(runs, [framed], Compression.ZLIB).take(len(values)) == values
        assert fed_of(runs, [data[:at], data[at:]]).take(len(values)) == values
    framed = chunks.framed(data, [max(1, len(data) // 3)], deflate=deflate)
    for at in range(1, len(framed), max(1, len(framed) // 60)):
        assert fed_of(runs, [framed[:at], framed[at:]], Compression.ZLIB).take(len(values)) == values


@hypothesis.settings(max_examples=share(200))
@hypothesis.given(runs=STREAMS, seed=st.integers(0, 1 << 32), stored=st.booleans(), compressed=st.booleans())
def test_every_position(runs: Runs, seed: int, stored: bool, compressed: bool) -> None:
    rng = random.Random(seed)
    data = runs.data
    per_value = 8 if runs.encoding == "boolean" else 1
    byte_starts = [0, *accumulate(len(part) for part, _ in runs.parts)]
    value_starts = [0, *accumulate(len(values) for _, values in runs.parts)]
    sizes = [rng.randint(1, 80) for _ in range(99)]
    plain = chunks.pieces(data, sizes)
    framed = [chunks.framed(piece, [len(piece)], deflate=not stored) for piece in plain]
    plain_starts = [0, *accumulate(map(len, plain))]
    can_skip = not runs.encoding.startswith(("raw", "varint"))
    for value in {0, len(runs.values) - 1, *(rng.randrange(len(runs.values)) for _ in range(6))}:
        run = max(index for index in range(len(runs.parts)) if value_starts[index] <= value)
        if not can_skip:
            value = value_starts[run]
        elif rng.random() < 0.5:
            run = max(0, run - rng.randint(0, 3))  # counted from an earlier run
        stream_offset = byte_starts[run]
        into = 0
        pieces = [data[stream_offset:]]
        if compressed:
            chunk = max(index for index in range(len(plain)) if plain_starts[index] <= stream_offset)
            into = stream_offset - plain_starts[chunk]
            pieces = [b"".join(framed[chunk:])]
        pieces = chunks.pieces(pieces[0], [rng.randint(1, 90) for _ in range(99)])
        fed = fed_of(runs, pieces, Compression.ZLIB if compressed else Compression.NONE)
        fed.skip_bytes(into)
        values_to_skip, bits_to_skip = divmod(value - value_starts[run], per_value)
        if isinstance(fed.values, BoolValues):
            fed.values.seek(values_to_skip, bits_to_skip)
        else:
            fed.values.seek(values_to_skip)
        rest = runs.values[value:]
        first = rng.randint(0, len(rest))
        assert fed.take(first) == rest[:first]
        assert fed.take(len(rest) - first) == rest[first:]


@pytest.mark.parametrize("encoding", ["byte", "boolean", "rle_v1", "rle_v2"])
def test_positions_that_are_none(encoding: str) -> None:
    fed = fed_of(make_runs(encoding, 1, 2), [])
    with pytest.raises(CorruptStream, match="position"):
        fed.values.seek(-1)
    if isinstance(fed.values, BoolValues):
        for bits in (-1, 8, 1 << 40):
            with pytest.raises(CorruptStream, match="position"):
                fed.values.seek(0, bits)


@pytest.mark.parametrize("encoding", ["byte", "boolean", "rle_v1", "rle_v2"])
def test_position_behind_the_end(encoding: str) -> None:
    runs = make_runs(encoding, 1, 2)
    fed = fed_of(runs, [runs.data])
    fed.values.seek((1 << 63) - 1)
    with pytest.raises(CorruptStream, match=r" \d+ (value|byte)"):
        fed.take(1)


@pytest.mark.parametrize("encoding", ["varint128", "raw8"])
def test_streams_without_runs_have_no_values_to_skip(encoding: str) -> None:
    with pytest.raises(ValueError, match=r"\bruns\b"):
        fed_of(make_runs(encoding, 1, 2), []).values.seek(1)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_counts_that_are_none(encoding: str) -> None:
    runs = make_runs(encoding, 1, 3)
    fed = fed_of(runs, [runs.data])
    fed.ensure(3)
    for count in (-1, len(runs.values) + 1):
        for method in (fed.values.take, fed.values.peek, fed.values.drop):
            with pytest.raises(ValueError, match=r"\bpending\b"):
                method(count)
    for count in (1 << 58, 1 << 61, (1 << 63) - 1):
        with pytest.raises(MemoryError):
            fed.values.ensure(count, fed.decompress)
    assert fed.take(3) == runs.values[:3]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_cut_off(encoding: str) -> None:
    """Of a stream cut anywhere, whole runs come out and what is missing is told with its place."""
    runs = make_runs(encoding, 9, 3)
    for at in range(0, len(runs.data), max(1, len(runs.data) // 80)):
        fed = fed_of(runs, [runs.data[:at]])
        with pytest.raises(CorruptStream, match=r" \d+ (value|byte)") as caught:
            fed.take(len(runs.values))
        error = caught.value
        assert (error.column, error.stream_kind) == (7, "DATA")
        assert error.file_offset is not None and 1000 <= error.file_offset <= 1000 + at


def take_all(fed: Fed, rng: random.Random) -> None:
    for _ in range(100_000):
        fed.take(rng.choice((1, 5, 100)))


@hypothesis.settings(max_examples=share(300))
@hypothesis.given(
    encoding=st.sampled_from(ENCODINGS),
    data=st.binary(max_size=300),
    seed=st.integers(0, 1 << 32),
    kind=st.sampled_from(Compression),
)
def test_any_bytes(encoding: str, data: bytes, seed: int, kind: Compression) -> None:
    """Only `CorruptStream` comes out, and a stream that still waits for bytes says so."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        data = chunks.framed(data, [rng.randint(1, 60) for _ in range(20)], deflate=kind is Compression.ZLIB)
    fed = Fed(
        encoding,
        chunks.pieces(data, [rng.randint(1, 50) for _ in range(30)]),
        signed=rng.random() < 0.5,
        compression=kind,
        block_size=rng.choice((1, 16, 4096)),
    )
    try:
        fed.skip_bytes(rng.choice((0, 0, 1, 30)))
    except AssertionError:
        return  # nothing is left to be fed
    except CorruptStream:
        return
    if encoding in ("byte", "boolean", "rle_v1", "rle_v2"):
        fed.values.seek(rng.choice((0, 0, 1, 700)))
    with pytest.raises(CorruptStream) as caught:
        take_all(fed, rng)
    assert (caught.value.column, caught.value.stream_kind) == (7, "DATA")


def test_chunks_that_are_none() -> None:
    decompress = Decompressor(Compression.ZLIB)

    def take(data: bytes, *, block_size: int = 100) -> None:
        stream = InputStream(compressed=True, block_size=block_size, column=3, kind="LENGTH", file_offset=50)
        stream.feed(data, last=True)
        assert IntValues(stream, signed=False, version_2=True).ensure(3, decompress) == 3

    run = rle_v2.short_repeat(7, 3, signed=False)
    take(compression.header(len(run), original=True) + run)
    empty = compression.header(0, original=True)
    take(empty * 5 + compression.header(len(run), original=True) + run)
    bomb = compression.deflate(run + bytes(200))
    for message, data in {
        "header": compression.header(5, original=True)[:2],
        r"\b5 bytes\b.*\b1\b": compression.header(5, original=True) + b"\0",
        r"\bZLIB\b.*\b100 bytes\b": compression.header(len(bomb), original=False) + bomb,
        r"\b0 bytes\b": compression.header(0, original=False),
        r"\b3 values\b": empty * 5,
    }.items():
        with pytest.raises(CorruptStream, match=message) as caught:
            take(data)
        error = caught.value
        assert (error.column, error.stream_kind) == (3, "LENGTH")
        assert error.file_offset is not None and 50 <= error.file_offset <= 50 + len(data)


def test_pieces_are_let_go() -> None:
    """A lease is dropped once its piece is used up and the next one is in use."""

    class Lease:
        alive = 0

        def __init__(self) -> None:
            Lease.alive += 1

        def __del__(self) -> None:
            Lease.alive -= 1

    stream = InputStream(compressed=False, block_size=0)
    data = bytes(range(200))
    for at in range(0, 200, 10):
        stream.feed(data[at : at + 10], last=at == 190, lease=Lease())
    assert (Lease.alive, stream.buffered_bytes, stream.starved) == (20, 200, False)
    decompress = Decompressor(Compression.NONE)
    for at in range(0, 200, 10):
        assert bytes(stream.read(10, decompress)) == data[at : at + 10]
        assert Lease.alive <= 20 - at // 10
    with pytest.raises(ValueError, match=r"\bcomplete\b"):
        stream.feed(b"x", last=True)
    del stream
    assert Lease.alive == 0


def test_reading_across_chunks() -> None:
    """Bytes are the same however many are asked for, decompressed in place or not."""
    data = random.Random(3).randbytes(1000) + bytes(3000)
    for deflate in (False, True):
        framed = chunks.framed(data, [300, 1, 64, 300], deflate=deflate)
        for size in (1, 7, 299, 300, 301, 4000, 5000):
            stream = InputStream(compressed=True, block_size=300)
            stream.feed(framed, last=True)
            decompress = Decompressor(Compression.ZLIB)
            out = b""
            while part := bytes(stream.read(size, decompress)):
                assert len(part) == min(size, len(data) - len(out))
                out += part
            assert out == data
