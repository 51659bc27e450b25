"""Decompressors: what libraries compress comes back, output is bounded, bad input is `CorruptStream` only."""

from __future__ import annotations

import contextlib
import random
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import lz4.block
import lzallright
import pytest
import zstandard

from orcstream.codec.streams import _codecs, _packers, compression
from orcstream.codec.streams._codecs import PythonCodec
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams.compression import Compression, Compressor, Decompressor, decompress_metadata
from orcstream.errors import CorruptStream, Unsupported
from tests.generators import chunks
from tests.reference import compression as reference

Compress = Callable[[bytes], bytes]


def deflate(data: bytes) -> bytes:
    codec = zlib.compressobj(9, zlib.DEFLATED, -15)
    return codec.compress(data) + codec.flush()


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def lz4_block(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    return packed


def lzo(data: bytes) -> bytes:
    return lzallright.LZOCompressor().compress(data)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=True).compress(data)


def zstd_without_size(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def zstd_with_checksum(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def brotli(data: bytes) -> bytes:
    return bytes(cramjam.brotli.compress(data))


CODECS: dict[str, tuple[Compression, Compress]] = {
    "zlib": (Compression.ZLIB, deflate),
    "zlib where functions are hidden": (Compression.ZLIB, deflate),
    "zstd where functions are hidden": (Compression.ZSTD, zstd),
    "zstd with checksum where functions are hidden": (Compression.ZSTD, zstd_with_checksum),
    "snappy": (Compression.SNAPPY, snappy),
    "lzo": (Compression.LZO, lzo),
    "lz4": (Compression.LZ4, lz4_block),
    "zstd": (Compression.ZSTD, zstd),
    "zstd without size": (Compression.ZSTD, zstd_without_size),
    "zstd with checksum": (Compression.ZSTD, zstd_with_checksum),
    "brotli": (Compression.BROTLI, brotli),
}
EVERY_CODEC = pytest.mark.parametrize("name", CODECS)
RNG = random.Random(4)
SAMPLES = {
    "one": b"x",
    "few": b"to be or not to be",
    "text": b"".join(b"%d, " % (row * row) for row in range(3000)),
    "zeros": bytes(50_000),
    "noise": RNG.randbytes(9000),
    "mixed": RNG.randbytes(500) + b"abc" * 2000 + RNG.randbytes(500),
}


@pytest.fixture(autouse=True)
def _hidden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where libraries show what they were told to show."""
    if "hidden" in request.node.name:
        monkeypatch.setattr(compression, "_addresses", lambda *_: None)


def decompress(kind: Compression, data: bytes, room: int) -> bytes:
    """Into the middle of a larger block, whose ends must stay as they were."""
    block = bytearray(b"\xa5" * (room + 128))
    try:
        size = Decompressor(kind)(memoryview(data), memoryview(block)[64 : 64 + room])
        assert 0 <= size <= room
        return bytes(block[64 : 64 + size])
    finally:
        assert block[:64] == b"\xa5" * 64 == block[64 + room :]


@EVERY_CODEC
@pytest.mark.parametrize("sample", SAMPLES)
def test_round_trip(name: str, sample: str) -> None:
    kind, compress = CODECS[name]
    plain = SAMPLES[sample]
    packed = compress(plain)
    for room in (len(plain), len(plain) + 1, 1 << 18):
        assert decompress(kind, packed, room) == plain
    assert reference.unframe(reference.header(len(packed), original=False) + packed, kind, 1 << 18) == plain


@EVERY_CODEC
@pytest.mark.parametrize("sample", SAMPLES)
def test_output_is_bounded(name: str, sample: str) -> None:
    kind, compress = CODECS[name]
    plain = SAMPLES[sample]
    packed = compress(plain)
    for room in {len(plain) - 1, len(plain) // 2} - {0}:
        with pytest.raises(CorruptStream):
            decompress(kind, packed, room)
    # A block size of 0 is refused with the postscript; here it is enough that nothing is written.
    with contextlib.suppress(CorruptStream):
        assert decompress(kind, packed, 0) == b""


@EVERY_CODEC
def test_bombs_cost_no_more_than_the_bound(name: str) -> None:
    kind, compress = CODECS[name]
    bomb = compress(bytes(4 << 20))
    room = memoryview(bytearray(4096))
    decompressor = Decompressor(kind)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptStream):
            decompressor(memoryview(bomb), room)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@EVERY_CODEC
def test_truncated(name: str) -> None:
    kind, compress = CODECS[name]
    plain = SAMPLES["mixed"]
    packed = compress(plain)
    for stop in (*range(20), *range(20, len(packed), 37), *range(len(packed) - 10, len(packed))):
        try:
            found = decompress(kind, packed[:stop], len(plain))
        except CorruptStream:
            continue
        # A block of LZ4 has no end of its own: cut between two sequences, it is a shorter one.
        assert kind is Compression.LZ4 and plain.startswith(found) and len(found) < len(plain)


@EVERY_CODEC
def test_flipped_and_random_input(name: str) -> None:
    kind, compress = CODECS[name]
    rng = random.Random(name)
    plain = SAMPLES["few"] * 20 + rng.randbytes(50)
    packed = compress(plain)
    refused = 0
    for _ in range(400):
        damaged = bytearray(packed)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        try:
            assert len(decompress(kind, bytes(damaged), len(plain) + 50)) <= len(plain) + 50
        except CorruptStream:
            refused += 1
    for _ in range(300):
        try:
            decompress(kind, rng.randbytes(rng.randint(0, 60)), rng.choice((0, 1, 100, 5000)))
        except CorruptStream:
            refused += 1
    assert refused > 100


def zstd_frame(*, declared: int, body: bytes) -> bytes:
    """A frame with an eight-byte content size and one last raw block."""
    block = (len(body) << 3 | 1).to_bytes(3, "little") + body
    return b"\x28\xb5\x2f\xfd" + b"\xe0" + struct.pack("<Q", declared) + block


@pytest.mark.parametrize("declared", [101, 1 << 20, 1 << 40, (1 << 63) - 1, (1 << 64) - 3])
def test_zstd_sizes_are_not_believed(declared: int) -> None:
    with pytest.raises(CorruptStream):
        decompress(Compression.ZSTD, zstd_frame(declared=declared, body=b"x" * 50), 100)


def test_zstd_sizes_that_are_wrong() -> None:
    assert decompress(Compression.ZSTD, zstd_frame(declared=50, body=b"x" * 50), 100) == b"x" * 50
    for declared in (49, 51, 100):
        with pytest.raises(CorruptStream):
            decompress(Compression.ZSTD, zstd_frame(declared=declared, body=b"x" * 50), 100)


@EVERY_CODEC
def test_chunks_of_a_stream(name: str) -> None:
    kind, compress = CODECS[name]
    plain = SAMPLES["text"]
    framed = bytearray()
    for index, piece in enumerate(chunks.pieces(plain, [700, 1, 2048, 99])):
        original = index % 3 == 0
        packed = piece if original else compress(piece)
        framed += reference.header(len(packed), original) + packed
    stream = InputStream(compressed=True, block_size=2048)
    for piece in chunks.pieces(bytes(framed), [1, 2, 500, 3, 1]):
        stream.feed(piece, last=False)
    stream.feed(b"", last=True)
    assert bytes(stream.read(len(plain) + 1, Decompressor(kind))) == plain


@EVERY_CODEC
def test_chunks_over_the_block_size(name: str) -> None:
    kind, compress = CODECS[name]
    packed = compress(bytes(2049))
    for count in (1, 5000):
        stream = InputStream(compressed=True, block_size=2048, column=5, kind="DATA", file_offset=90)
        stream.feed(reference.header(len(packed), original=False) + packed, last=True)
        with pytest.raises(CorruptStream) as caught:
            stream.read(count, Decompressor(kind))
        assert (caught.value.column, caught.value.stream_kind) == (5, "DATA")


@pytest.mark.parametrize("kind", compression._NATIVE)
def test_the_functions_of_libraries_are_found(kind: Compression) -> None:
    """But on Windows: there chunks are decompressed under the interpreter's lock."""
    codec, module, functions = compression._NATIVE[kind]
    assert (compression._addresses(module, functions) is None) == (sys.platform == "win32")
    assert type(Decompressor(kind)).__name__ == ("PythonCodec" if sys.platform == "win32" else codec)


@pytest.mark.parametrize("kind", compression._NATIVE_OUT)
def test_the_functions_that_compress_are_found(kind: Compression) -> None:
    packer = compression._NATIVE_OUT[kind][0]
    assert type(Compressor(kind).packer).__name__ == ("PythonPacker" if sys.platform == "win32" else packer)


def test_functions_that_are_missing() -> None:
    assert compression._addresses("no_such_module", ("name",)) is None
    assert compression._addresses("zstandard.no_such_module", ("name",)) is None
    assert compression._addresses("zstandard._cffi", ("ZSTD_no_such_function",)) is None


def test_codecs_and_packers_need_functions() -> None:
    for kind, (codec, _, names) in compression._NATIVE.items():
        with pytest.raises(ValueError, match=r"\baddress"):
            getattr(_codecs, codec)(kind.name, *[0] * len(names))
    for packer, _, names in compression._NATIVE_OUT.values():
        with pytest.raises(ValueError, match=r"\baddress"):
            getattr(_packers, packer)(1, *[0] * len(names))


def test_loops_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"\bBROTLI\b"):
        _codecs.LoopCodec("BROTLI")


def test_blocks_that_are_too_long_for_a_header() -> None:
    most = bytes((1 << 23) - 1)
    for kind in (Compression.ZSTD, Compression.SNAPPY):
        out = OutStream(compressed=True, block_size=len(most))
        out.write(most)
        out.finish(Compressor(kind))
        (chunk,) = out.drain()
        assert decompress(kind, bytes(chunk)[3:], len(most)) == most
    with pytest.raises(ValueError, match=r"\b8388608\b"):
        OutStream(compressed=True, block_size=len(most) + 1)


def test_what_refusals_say() -> None:
    codec, packed = Decompressor(Compression.ZLIB), deflate(b"abc")
    with pytest.raises(BufferError):
        codec(packed, bytes(3))
    with pytest.raises(CorruptStream, match=r"\b5\b.*\bZLIB\b.*\b2\b"):
        codec(packed, bytearray(2))
    out = bytearray(5)
    assert codec(packed, out) == 3
    assert out == b"abc\0\0"


def test_a_codec_in_python_is_held_to_its_bounds() -> None:
    for answer in (-1, 3, 1 << 40):
        codec = _codecs.PythonCodec("LZO", lambda _, __, answer=answer: answer)  # type: ignore[misc]  # bound now
        with pytest.raises(CorruptStream, match=r"\bLZO\b.*\b2\b.*\bblock size\b"):
            codec(b"abc", bytearray(2))
    # Memory of no bytes may have no address.
    assert _codecs.PythonCodec("LZO", lambda chunk, out: len(chunk) + len(out))(b"", bytearray()) == 0


def test_a_decompressor_that_lies() -> None:
    for answer in (-1, 101, 1 << 40):
        stream = InputStream(compressed=True, block_size=100, column=5, kind="DATA")
        stream.feed(reference.header(4, original=False) + b"abcd", last=True)
        with pytest.raises(CorruptStream, match=r"\bblock size\b"):
            stream.read(1, PythonCodec("LIE", lambda _, __, answer=answer: answer))  # type: ignore[misc]  # bound now


def test_without_compression() -> None:
    with pytest.raises(CorruptStream, match=r"\b3 bytes\b"):
        Decompressor(Compression.NONE)(memoryview(b"abc"), memoryview(bytearray(10)))


@EVERY_CODEC
def test_metadata(name: str) -> None:
    kind, compress = CODECS[name]
    plain = SAMPLES["text"][:3000]
    framed = bytearray()
    for index, piece in enumerate(chunks.pieces(plain, [1000])):
        packed = piece if index == 1 else compress(piece)
        framed += reference.header(len(packed), original=index == 1) + packed
    view = memoryview(bytes(framed))
    assert decompress_metadata(view, kind, 1000, 3000) == plain
    with pytest.raises(Unsupported) as caught:
        decompress_metadata(view, kind, 1000, 2999)
    assert caught.value.reason == "metadata_too_large"
    with pytest.raises(CorruptStream):
        decompress_metadata(view, kind, 999, 3000)
    for stop in (1, 2, 3, 4, len(framed) - 1):
        with pytest.raises(CorruptStream):
            decompress_metadata(view[:stop], kind, 1000, 3000)


def test_metadata_without_compression() -> None:
    assert decompress_metadata(memoryview(b"abc"), Compression.NONE, 0, 3) == b"abc"
    with pytest.raises(Unsupported):
        decompress_metadata(memoryview(b"abcd"), Compression.NONE, 0, 3)
