"""Compression chunks and their codecs (specification: "Compression").

Snappy, LZ4 and LZO are decompressed by plain loops here; deflate comes from the standard library, zstd and
brotli from pyarrow. Only raw and deflate chunks are written. Must not know streams or stripes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

from .errors import Malformed

NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI = range(7)
NAMES = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")


def header(length: int, original: bool) -> bytes:
    """Three bytes: twice the length, plus one for a chunk stored as it is."""
    return (length * 2 + original).to_bytes(3, "little")


def frame(data: bytes, kind: int, block_size: int, *, original: bool = False) -> bytes:
    """`data` in chunks of `block_size`; deflated where that helps and `original` does not forbid it."""
    if kind == NONE:
        return data
    out = bytearray()
    for start in range(0, len(data), block_size):
        chunk = data[start : start + block_size]
        packed = deflate(chunk) if kind == ZLIB and not original else chunk
        if len(packed) < len(chunk):
            out += header(len(packed), False) + packed
        else:
            out += header(len(chunk), True) + chunk
    return bytes(out)


def deflate(data: bytes) -> bytes:
    codec = zlib.compressobj(6, zlib.DEFLATED, -15)
    return codec.compress(data) + codec.flush()


def chunks(data: bytes) -> list[tuple[bool, bytes]]:
    """The chunks of a stream: whether each is stored as it is, and its bytes."""
    out, at = [], 0
    while at < len(data):
        if at + 3 > len(data):
            raise Malformed("chunk header is cut off")
        number = int.from_bytes(data[at : at + 3], "little")
        at += 3
        if at + number // 2 > len(data):
            raise Malformed("chunk runs past the end of its stream")
        out.append((bool(number & 1), data[at : at + number // 2]))
        at += number // 2
    return out


def unframe(data: bytes, kind: int, block_size: int) -> bytes:
    if kind == NONE:
        return data
    out = bytearray()
    for original, chunk in chunks(data):
        plain = chunk if original else _CODECS[kind](chunk, block_size)
        if len(plain) > block_size:
            raise Malformed("chunk is larger than the file's block size")
        out += plain
    return bytes(out)


def _inflate(data: bytes, limit: int) -> bytes:
    codec = zlib.decompressobj(-15)
    try:
        plain = codec.decompress(data, limit + 1)
    except zlib.error as error:
        raise Malformed(str(error)) from None
    if not codec.eof and len(plain) <= limit:
        raise Malformed("deflate stream is cut off")
    return plain


def _pyarrow(name: str) -> Callable[[bytes, int], bytes]:
    def decompress(data: bytes, limit: int) -> bytes:
        try:
            with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
                plain: bytes = stream.read(limit + 1)
                return plain
        except OSError as error:
            raise Malformed(str(error)) from None

    return decompress


def _copy(out: bytearray, distance: int, length: int) -> None:
    """A back reference; it may overlap what it produces."""
    if not 0 < distance <= len(out):
        raise Malformed("back reference before the start")
    if distance >= length:
        start = len(out) - distance
        out += out[start : start + length]
    else:
        pattern = bytes(out[-distance:])
        out += (pattern * (length // distance + 1))[:length]


def _little(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise Malformed("compressed chunk is cut off")
    return int.from_bytes(data[at : at + size], "little")


def _snappy(data: bytes, limit: int) -> bytes:
    at = 0
    while data[at] & 0x80:  # the decompressed length, which the copies will tell anyway
        at += 1
    at += 1
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                size = length - 59
                length = _little(data, at, size)
                at += size
            length += 1
            out += data[at : at + length]
            at += length
            continue
        if tag & 3 == 1:
            length, distance = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | _little(data, at, 1)
            at += 1
        else:
            size = 2 if tag & 3 == 2 else 4
            length, distance = (tag >> 2) + 1, _little(data, at, size)
            at += size
        _copy(out, distance, length)
        if len(out) > limit:
            raise Malformed("snappy chunk is too large")
    return bytes(out)


def _lz4(data: bytes, limit: int) -> bytes:
    out, at = bytearray(), 0
    while at < len(data):
        token = data[at]
        at += 1
        length, at = _lz4_length(data, at, token >> 4)
        out += data[at : at + length]
        at += length
        if at >= len(data):
            break
        distance = _little(data, at, 2)
        length, at = _lz4_length(data, at + 2, token & 15)
        _copy(out, distance, length + 4)
        if len(out) > limit:
            raise Malformed("lz4 chunk is too large")
    return bytes(out)


def _lz4_length(data: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            more = _little(data, at, 1)
            at += 1
            length += more
            if more != 255:
                break
    return length, at


def _lzo(data: bytes, limit: int) -> bytes:
    """LZO1X. `state` says how many literals came last: it changes what a code below 16 means."""
    out, at = bytearray(), 0
    state = 0
    if _little(data, 0, 1) > 17:
        count = data[0] - 17
        out += data[1 : 1 + count]
        at = 1 + count
        state = min(count, 4)
    while True:
        code = _little(data, at, 1)
        at += 1
        if code < 16 and state == 0:
            count = code + 3
            if code == 0:
                extra, at = _lzo_length(data, at)
                count = extra + 18
            out += data[at : at + count]
            at += count
            state = 4
            continue
        if code < 16:
            high = _little(data, at, 1)
            at += 1
            distance = (high << 2) + (code >> 2) + 1
            length = 2
            if state == 4:
                distance, length = distance + 2048, 3
            left = code & 3
        elif code < 64:
            mask = 7 if code < 32 else 31
            length = (code & mask) + 2
            if code & mask == 0:
                extra, at = _lzo_length(data, at)
                length = extra + mask + 2
            number = _little(data, at, 2)
            at += 2
            left = number & 3
            distance = (number >> 2) + 1
            if code < 32:
                distance = ((code & 8) << 11) + (number >> 2) + 16384
                if distance == 16384:
                    return bytes(out)
        else:
            high = _little(data, at, 1)
            at += 1
            distance = (high << 3) + (code >> 2 & 7) + 1
            length = (code >> 5) + 1
            left = code & 3
        _copy(out, distance, length)
        out += data[at : at + left]
        at += left
        state = left
        if len(out) > limit:
            raise Malformed("lzo chunk is too large")


def _lzo_length(data: bytes, at: int) -> tuple[int, int]:
    """A length that goes on in zero bytes of 255 each, and ends in a byte that is not zero."""
    length = 0
    while (byte := _little(data, at, 1)) == 0:
        length += 255
        at += 1
    return length + byte, at + 1


_CODECS: dict[int, Callable[[bytes, int], bytes]] = {
    ZLIB: _inflate,
    SNAPPY: _snappy,
    LZO: _lzo,
    LZ4: _lz4,
    ZSTD: _pyarrow("zstd"),
    BROTLI: _pyarrow("brotli"),
}
