"""Streams under construction: chunks that the reference unframes, places of bytes, memory given back."""

from __future__ import annotations

import random
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream.codec.streams._encode_rle_v2 import IntEncoder
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams.compression import Compression, Compressor, Decompressor
from orcstream.errors import UsageError
from tests.reference import compression as reference
from tests.support.encoding import chunk_of, packed, place_of

CODECS = [kind for kind in Compression if kind is not Compression.NONE]


def texts(rng: random.Random, size: int) -> bytes:
    """Some parts compress, some don't."""
    out = bytearray()
    while len(out) < size:
        out += rng.choice((b"the same again and again, ", rng.randbytes(40), bytes(100), b"0123456789"))
    return bytes(out[:size])


def made(out: OutStream) -> bytes:
    return b"".join(bytes(piece) for piece in out.drain())


def slices(rng: random.Random, data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = rng.choice((1, 10, 100, 5000))
        yield data[at : at + size]
        at += size


@pytest.mark.parametrize("compression", CODECS)
@hypothesis.settings(max_examples=30)
@hypothesis.given(
    seed=st.integers(0, 1 << 32),
    size=st.sampled_from((0, 1, 99, 100, 101, 4095, 4096, 8192, 30_000)),
    block_size=st.sampled_from((1, 100, 4096, 8_388_607)),
)
def test_chunks_hold_what_was_written(
    compression: Compression, seed: int, size: int, block_size: int
) -> None:
    rng = random.Random(seed)
    data = texts(rng, size if block_size > 1 else min(size, 200))
    compressor = Compressor(compression)
    out = OutStream(compressed=True, block_size=block_size)
    stream = bytearray()
    for piece in slices(rng, data):
        assert out.stream_offset >= 0
        out.write(piece)
        if rng.random() < 0.3:
            out.compress(compressor)
            stream += made(out)
    assert out.stream_offset == len(data)
    out.finish(compressor)
    stream += made(out)
    assert out.size_bytes == len(stream)
    assert reference.unframe(bytes(stream), compression, block_size) == data
    chunks = reference.chunks(bytes(stream))
    assert len(chunks) == -(-len(data) // block_size)
    lengths = [min(block_size, len(data) - at) for at in range(0, len(data), block_size)]
    for (original, chunk), length in zip(chunks, lengths, strict=True):
        assert len(chunk) == length if original else len(chunk) < length
    for place in {0, len(data), *(rng.randint(0, len(data)) for _ in range(5))}:
        chunk_offset, into = place_of(out, place)
        source = InputStream(compressed=True, block_size=block_size)
        source.restart(file_offset=0, bytes_to_skip=into)
        source.feed(bytes(stream[chunk_offset:]), last=True)
        assert bytes(source.read(len(data), Decompressor(compression))) == data[place:]


def test_streams_without_compression() -> None:
    data = texts(random.Random(1), 30_000)
    out = OutStream(compressed=False, block_size=1000)
    for piece in slices(random.Random(2), data):
        out.write(piece)
    out.finish(None)
    assert [place_of(out, at) for at in (0, 1000, 1001, 30_000)] == [(0,), (1000,), (1001,), (30_000,)]
    assert made(out) == data


def test_the_end_is_in_the_last_chunk() -> None:
    """No position points at a chunk that is not there."""
    out = OutStream(compressed=True, block_size=10)
    out.write(bytes(20))
    out.finish(Compressor(Compression.ZLIB))
    first, second = (3 + len(chunk) for _, chunk in reference.chunks(made(out)))
    assert tuple(place_of(out, at) for at in (0, 10, 20)) == ((0, 0), (first, 0), (first, 10))
    assert out.size_bytes == first + second
    empty = OutStream(compressed=True, block_size=10)
    empty.finish(Compressor(Compression.ZLIB))
    assert (place_of(empty, 0), made(empty)) == ((0, 0), b"")


def test_memory_is_bounded_by_what_is_not_drained() -> None:
    out = OutStream(compressed=True, block_size=65_536)
    small = OutStream(compressed=True, block_size=65_536)
    small.write(b"x")
    assert small.held_bytes < 2000, "a stream of few bytes holds no whole block"
    compressor = Compressor(Compression.ZSTD)
    encoder = IntEncoder(out, signed=True)
    rng = random.Random(3)
    values = packed("rle_v2", [rng.getrandbits(60) for _ in range(10_000)])
    for _ in range(100):
        encoder.put(values, 10_000)
        assert out.held_bytes < 300_000
        out.compress(compressor)
        made(out)
        assert out.held_bytes < 100_000
    assert out.size_bytes > 7_000_000


def test_sizes_know_what_is_not_compressed_yet() -> None:
    out = OutStream(compressed=True, block_size=1000)
    out.write(bytes(2500))
    assert out.size_bytes == 2500
    out.compress(Compressor(Compression.ZLIB))
    assert 500 < out.size_bytes < 600


def test_misuse_is_refused() -> None:
    for size in (0, -1, 1 << 23):
        with pytest.raises(ValueError, match=rf"compression block\b.*{size}\b"):
            OutStream(compressed=True, block_size=size)
    plain = OutStream(compressed=False, block_size=10)
    with pytest.raises(ValueError, match=r"\bcompressor\b"):
        plain.compress(Compressor(Compression.ZLIB))
    with pytest.raises(ValueError, match=r"\bchunks\b.*\bfinished\b"):
        place_of(plain, 0)
    plain.write(b"abc")
    plain.finish(None)
    with pytest.raises(ValueError, match=r"\bfinished\b"):
        plain.write(b"d")
    with pytest.raises(ValueError, match=r"\bfinished\b"):
        plain.finish(None)
    for place in (-1, 4):
        with pytest.raises(ValueError, match=rf"\b3 bytes\b.*{place}\b"):
            place_of(plain, place)
    squeezed = OutStream(compressed=True, block_size=10)
    with pytest.raises(ValueError, match=r"\bcompressor\b"):
        squeezed.finish(None)
    with pytest.raises(TypeError, match="bytes-like"):
        squeezed.write("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compression", "level"),
    [
        (Compression.ZLIB, 13),
        (Compression.ZLIB, -1),
        (Compression.ZSTD, 23),
        (Compression.BROTLI, 12),
        (Compression.SNAPPY, 0),
        (Compression.LZ4, 1),
        (Compression.LZO, 1),
        (Compression.NONE, None),
    ],
)
def test_levels_that_are_not_there(compression: Compression, level: int | None) -> None:
    with pytest.raises(UsageError):
        Compressor(compression, level)


@pytest.mark.parametrize(
    ("compression", "levels"),
    [
        (Compression.ZLIB, (0, 1, 6, 12)),
        (Compression.ZSTD, (-5, 1, 3, 19, 22)),
        (Compression.BROTLI, (0, 5, 11)),
    ],
)
def test_levels(compression: Compression, levels: tuple[int, ...]) -> None:
    data = b"".join(b"%d apples, %d pears; " % (at * at, at % 97) for at in range(3000))
    found = [chunk_of(Compressor(compression, level), data) for level in levels]
    sizes = [len(data) + 3 if chunk is None else len(chunk) for chunk in found]
    assert sizes[-1] < sizes[0]
    for chunk in found:
        if chunk is not None:
            assert reference.unframe(chunk, compression, 1 << 20) == data
            assert chunk_of(Compressor(compression, levels[found.index(chunk)]), data) == chunk
