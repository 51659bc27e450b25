"""Chunks of the codecs that are called in C: made, damaged, and read both in C and by the packages."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import cramjam
import deflate
import lz4.block
import lzallright
import zstandard

from orcstream.codec.streams import compression
from orcstream.codec.streams._codecs import Codec, PythonCodec
from orcstream.codec.streams.compression import Compression, Decompressor
from orcstream.errors import CorruptStream
from tests.reference import compression as reference
from tests.reference.errors import Malformed
from tests.support import hostile

GUARD = b"\xa5" * 64


def by_package(kind: Compression) -> Codec:
    """The codec that calls a package's public function, as where libraries hide their own."""
    if kind is Compression.SNAPPY:
        return PythonCodec("SNAPPY", lambda chunk, out: int(cramjam.snappy.decompress_raw_into(chunk, out)))
    if kind is Compression.LZ4:
        return PythonCodec(
            "LZ4",
            lambda chunk, out: int(cramjam.lz4.decompress_block_into(chunk, out, output_len=len(out))),
        )
    return PythonCodec(kind.name, compression._INTO[kind]())


def plain(rng: random.Random, size: int) -> bytes:
    """Repetitions of all distances and lengths, noise, and text."""
    out = bytearray()
    while len(out) < size:
        what = rng.randrange(5)
        if what == 0:
            out += rng.randbytes(rng.randint(1, 80))
        elif what == 1:
            out += rng.randbytes(1) * rng.randint(1, 100)
        elif what == 2:
            out += rng.randbytes(rng.randint(1, 20)) * rng.randint(1, 12)
        elif what == 3 and out:
            at = rng.randrange(len(out))
            out += out[at : at + rng.randint(1, 90)]
        else:
            out += b"of the same words, "[: rng.randint(3, 19)]
    return bytes(out[:size])


def _deflate(data: bytes, rng: random.Random) -> bytes:
    codec = zlib.compressobj(rng.randint(0, 9), zlib.DEFLATED, -15)
    return codec.compress(data) + codec.flush()


def _snappy(data: bytes, rng: random.Random) -> bytes:
    return snappy_elements(rng)[1] if rng.random() < 0.5 else bytes(cramjam.snappy.compress_raw(data))


def _lz4(data: bytes, rng: random.Random) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    return lz4_elements(rng)[1] if rng.random() < 0.5 else packed


def _zstd(data: bytes, rng: random.Random) -> bytes:
    """One frame in any form; or with another, one that is skipped, or no frame before or behind it."""
    frame = zstandard.ZstdCompressor(
        level=rng.choice((-5, 1, 3)), write_content_size=rng.random() < 0.6, write_checksum=rng.random() < 0.4
    ).compress(data)
    skipped = rng.randbytes(rng.randint(1, 20))
    skipped = struct.pack("<II", 0x184D2A50 + rng.randrange(16), len(skipped)) + skipped
    return rng.choice(
        (frame, frame, frame + frame, skipped + frame, frame + skipped, frame + rng.randbytes(9))
    )


PACK: dict[Compression, Callable[[bytes, random.Random], bytes]] = {
    Compression.ZLIB: _deflate,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}


# What packages make of a block, by level.
PACKAGES: dict[Compression, Callable[[bytes, int | None], bytes]] = {
    Compression.ZLIB: lambda data, level: bytes(deflate.deflate_compress(data, level or 0)),
    Compression.SNAPPY: lambda data, _: bytes(cramjam.snappy.compress_raw(data)),
    Compression.LZO: lambda data, _: lzallright.LZOCompressor().compress(data),
    Compression.LZ4: lambda data, _: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    Compression.ZSTD: lambda data, level: zstandard.ZstdCompressor(level=level or 0).compress(data),
    Compression.BROTLI: lambda data, level: bytes(cramjam.brotli.compress(data, level=level)),
}
LEVELS = {
    Compression.ZLIB: (0, 1, 6, 9, 12),
    Compression.ZSTD: (-131072, -5, 1, 3, 9, 19, 22),
    Compression.BROTLI: (0, 5, 11),
}


def snappy_elements(rng: random.Random) -> tuple[bytes, bytes]:
    """Bytes, and a chunk of all kinds of elements that make them, most of which no compressor writes."""
    data, chunk = bytearray(), bytearray()
    for _ in range(rng.choice((1, 3, 30, 300))):
        if not data or rng.random() < 0.4:
            literal = rng.randbytes(rng.choice((1, 15, 16, 17, 33, 60, 61, 300, rng.randint(1, 70))))
            data += literal
            number = len(literal) - 1
            size = rng.randint(2 if number > 255 else 1, 4) if number >= 60 or rng.random() < 0.2 else 0
            chunk += bytes([(59 + size if size else number) << 2])
            chunk += number.to_bytes(size, "little") if size else b""
            chunk += literal
            continue
        length = rng.choice((rng.randint(1, 16), rng.randint(1, 64)))
        offset = _repeat(data, length, rng)
        if 4 <= length <= 11 and offset < 2048 and rng.random() < 0.7:
            chunk += bytes([(offset >> 8) << 5 | (length - 4) << 2 | 1, offset & 255])
        else:
            kind = rng.choice((2, 2, 3))
            chunk += bytes([(length - 1) << 2 | kind]) + offset.to_bytes(2 if kind == 2 else 4, "little")
    size, head = len(data), bytearray()
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes(data), bytes([*head, size]) + bytes(chunk)


def lz4_elements(rng: random.Random) -> tuple[bytes, bytes]:
    """The same of LZ4, with an end that all decoders take."""
    data, chunk = bytearray(), bytearray()
    for _ in range(rng.choice((0, 1, 3, 30, 300))):
        literal = rng.randbytes(_lz4_length(rng) or (not data))
        length = 4 + _lz4_length(rng)
        data += literal
        offset = _repeat(data, length, rng).to_bytes(2, "little")
        chunk += _lz4_token(len(literal), length - 4) + literal + offset + _lz4_rest(length - 4)
    literal = rng.randbytes(12 + _lz4_length(rng))
    return bytes(data + literal), bytes(chunk + _lz4_token(len(literal), 0) + literal)


def _lz4_length(rng: random.Random) -> int:
    return rng.choice((rng.randint(0, 13), rng.randint(0, 70), rng.choice((14, 15, 269, 270, 271, 525, 600))))


def _lz4_token(literal: int, more: int) -> bytes:
    return bytes([min(literal, 15) << 4 | min(more, 15)]) + _lz4_rest(literal)


def _lz4_rest(length: int) -> bytes:
    return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])


def _repeat(data: bytearray, length: int, rng: random.Random) -> int:
    """Append bytes that repeat; how many bytes before them they begin."""
    offset = min(len(data), rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, rng.randint(1, 3000))))
    for _ in range(length):
        data.append(data[-offset])
    return offset


def case(kind: Compression, rng: random.Random) -> tuple[bytes, int]:
    """A chunk, three times in four a damaged one, and a number of bytes that it may have room for."""
    data = plain(rng, rng.choice((0, 1, 20, 60, 100, 300, 1000, 20_000)))
    chunk = PACK[kind](data, rng)
    harm = rng.randrange(4)
    if harm == 1:
        chunk = hostile.mutate(chunk, rng)
    elif harm == 2:
        chunk = chunk[: rng.randint(0, len(chunk))]
    elif harm == 3:
        chunk = chunk[: rng.choice((0, 3, 8))] + rng.randbytes(rng.randint(0, 200))
    rooms = (len(data), len(data) + 1, len(data) - 1, 1 << 16, rng.randint(1, 300))
    return chunk, max(1, rng.choice(rooms))  # without room, packages do not look at the chunk


def outcome(codec: Codec, chunk: bytes, room: int) -> bytes | None:
    """What a chunk holds, None if it is refused; within a block whose ends must stay as they were."""
    block = bytearray(GUARD + GUARD[:1] * room + GUARD)
    try:
        size = codec(memoryview(chunk), memoryview(block)[64 : 64 + room])
        assert 0 <= size <= room
        return bytes(block[64 : 64 + size])
    except CorruptStream:
        return None
    finally:
        assert block[:64] == GUARD == block[64 + room :]


def check(kind: Compression, chunk: bytes, room: int) -> bool:
    """Whether both ways accept the chunk; they must agree on that, and on the bytes."""
    found = outcome(Decompressor(kind), chunk, room)
    expected = outcome(by_package(kind), chunk, room)
    if found != expected:
        assert _may_differ(kind, chunk, found, expected), (kind, chunk.hex(), room, found, expected)
    return found is not None


def _may_differ(kind: Compression, chunk: bytes, found: bytes | None, expected: bytes | None) -> bool:
    if kind is Compression.ZSTD:
        # The package does not look at the rest of a frame that declares no bytes; nor, where it writes to our
        # memory, for the end of a frame whose bytes are all there.
        return found is None and (zstandard.frame_content_size(chunk) == 0 or not _zstd_is_whole(chunk))
    if kind is Compression.ZLIB:
        return False
    if found is None:
        # cramjam takes what is no block of LZ4 for one with its size before it, and an offset of 0 for zeros.
        return kind is Compression.LZ4 and (
            _by_reference(kind, chunk) is None or outcome(by_package(kind), chunk[4:], 1 << 20) == expected
        )
    # What cramjam refuses: of Snappy, a long literal with fewer than four bytes behind its tag; of LZ4, a
    # block with a copy near its end, which compressors must not write.
    return expected is None and found == _by_reference(kind, chunk)


def _by_reference(kind: Compression, chunk: bytes) -> bytes | None:
    try:
        return reference.unframe(reference.header(len(chunk), original=False) + chunk, kind, 1 << 20)
    except Malformed:
        return None


def _zstd_is_whole(chunk: bytes) -> bool:
    try:
        zstandard.ZstdDecompressor().decompress(chunk)
    except zstandard.ZstdError:
        return False
    return True
