"""Chunked compression: the codecs of the format and the framing of metadata.

Knows the 3-byte chunk header and which library decompresses which codec; every call has an upper bound
for its output, so that no file decides what is allocated. Must not know streams or columns. Decompressors
are not shared between threads (one `ZstdDecompressor` used by two threads corrupts data), so a
`Codec` belongs to one worker, and so does a `Compressor`. Specification: "Compression".
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import cramjam
import deflate
import lzallright
import lzokay
import zstandard

from orcstream._buffer import Buffer
from orcstream.errors import CorruptStream, Unsupported, UsageError

if TYPE_CHECKING:
    from orcstream.codec.streams._codecs import Codec
    from orcstream.codec.streams._packers import Packer

# Takes a chunk and a view to write to; answers how many bytes it wrote.
Decompress = Callable[[memoryview, memoryview], int]
# Takes a block and a view to write to; returns how many bytes it wrote.
_Compress = Callable[[memoryview, memoryview], int]

_HEADER_BYTES = 3
# Where flags stand in a zstd frame, and the one for a checksum behind it (RFC 8878, section 3.1.1.1.1).
_ZSTD_DESCRIPTOR = 4
_ZSTD_CHECKSUM = 1 << 2


class Compression(enum.IntEnum):
    """CompressionKind of the postscript; as text what `create` takes."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, form: str) -> str:
        return format(str(self), form)


def Decompressor(compression: Compression) -> Codec:  # noqa: N802  # makes one, as a class would
    """Make a codec that decompresses chunks into memory given by the caller; for one thread at a time.

    Calling it with a chunk's bytes and a writable view returns the number of bytes written. Output that
    does not fit the view, and input that is no valid data, raise `CorruptStream`.
    """
    from orcstream.codec.streams import _codecs  # a write needs none

    name = compression.name
    if compression is Compression.NONE:
        return _codecs.Codec(name)
    if compression in (Compression.SNAPPY, Compression.LZ4):
        return _codecs.LoopCodec(name)
    if compression in _NATIVE:
        codec, module, functions = _NATIVE[compression]
        if (addresses := _addresses(module, functions)) is not None:
            native: Codec = getattr(_codecs, codec)(name, *addresses)
            return native
    return _codecs.PythonCodec(name, _INTO[compression]())


# Modules whose libraries have functions. The other one of zstandard, which it uses by default, shows none.
_LIBDEFLATE = getattr(deflate, "_deflate", deflate).__name__
_LIBZSTD = "zstandard._cffi"
# The codecs in C, and the functions that each takes, with the module whose library has them.
_NATIVE: dict[Compression, tuple[str, str, tuple[str, ...]]] = {
    Compression.ZLIB: (
        "LibdeflateCodec",
        _LIBDEFLATE,
        (
            "libdeflate_alloc_decompressor",
            "libdeflate_deflate_decompress",
            "libdeflate_free_decompressor",
        ),
    ),
    Compression.ZSTD: (
        "ZstdCodec",
        _LIBZSTD,
        (
            "ZSTD_createDCtx",
            "ZSTD_decompressDCtx",
            "ZSTD_freeDCtx",
            "ZSTD_getFrameContentSize",
            "ZSTD_findFrameCompressedSize",
            "ZSTD_isError",
            "ZSTD_getErrorName",
        ),
    ),
}


@cache
def _addresses(module: str, functions: tuple[str, ...]) -> tuple[int, ...] | None:
    """Where functions stand in the library of `module`; None where it is missing or hides them (Windows)."""
    import ctypes

    try:
        spec = find_spec(module)
        library = ctypes.CDLL(str(spec and spec.origin))
        return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in functions)
    except (ImportError, OSError, AttributeError):
        return None


def _zlib() -> Decompress:
    decompress = deflate.deflate_decompress

    def into(chunk: memoryview, out: memoryview) -> int:
        data = decompress(chunk, len(out))
        size = len(data)
        out[:size] = data
        return size

    return into


def _lzo(chunk: memoryview, out: memoryview) -> int:
    source = bytes(chunk)
    # The first refuses output beyond a bound but does not say how long it is, the second the other way round.
    lzokay.decompress(source, len(out))
    data = lzallright.LZOCompressor.decompress(source, len(out))
    out[: len(data)] = data
    return len(data)


def _brotli(chunk: memoryview, out: memoryview) -> int:
    return int(cramjam.brotli.decompress_into(chunk, out))


def _zstd() -> Decompress:
    decompressor = zstandard.ZstdDecompressor()
    content_size = zstandard.frame_content_size

    def into(chunk: memoryview, out: memoryview) -> int:
        # A frame that declares its size decides the allocation, whatever max_output_size says.
        size = content_size(chunk)
        if size > len(out):
            raise CorruptStream("a zstd frame declares more than the compression block size")
        # With room for all of a frame a reader writes to where it is told; but lets half a checksum pass.
        if size > 0 and not chunk[_ZSTD_DESCRIPTOR] & _ZSTD_CHECKSUM:
            if decompressor.stream_reader(chunk).readinto(out) != size:
                raise CorruptStream(f"a zstd frame ends before the {size} bytes that it declares")
            return size
        data = decompressor.decompress(chunk, max_output_size=len(out))
        out[: len(data)] = data
        return len(data)

    return into


_INTO: dict[Compression, Callable[[], Decompress]] = {
    Compression.ZLIB: _zlib,
    Compression.LZO: lambda: _lzo,
    Compression.ZSTD: _zstd,
    Compression.BROTLI: lambda: _brotli,
}


def decompress_metadata(data: memoryview, compression: Compression, block_size: int, cap_bytes: int) -> bytes:
    """A whole footer, metadata section or index stream, decompressed; at most `cap_bytes` of it.

    Raises `CorruptStream` for bad framing or data, `Unsupported` (``metadata_too_large``) over the cap.
    """
    if compression is Compression.NONE:
        _check_cap(len(data), cap_bytes)
        return bytes(data)
    decompressor = Decompressor(compression)
    scratch = memoryview(Buffer(block_size))  # recycled, and not cleared for each short message
    parts: list[bytes] = []
    position = total = 0
    while position < len(data):
        if len(data) - position < _HEADER_BYTES:
            raise CorruptStream("metadata ends inside a chunk header")
        header = int.from_bytes(data[position : position + _HEADER_BYTES], "little")
        length = header >> 1
        position += _HEADER_BYTES
        if length > len(data) - position:
            raise CorruptStream("metadata ends inside a compression chunk")
        chunk = data[position : position + length]
        part = bytes(chunk) if header & 1 else bytes(scratch[: decompressor(chunk, scratch)])
        position += length
        total += len(part)
        _check_cap(total, cap_bytes)
        parts.append(part)
    return b"".join(parts)


def _check_cap(size: int, cap_bytes: int) -> None:
    if size > cap_bytes:
        raise Unsupported(
            f"metadata decompresses to more than {cap_bytes} bytes", reason="metadata_too_large"
        )


class Compressor:
    """Compresses blocks of one codec into chunks; for one thread at a time.

    `OutStream` takes its `packer`. A block that compression would not make shorter is stored as it is.
    `level` is the codec's own scale (zlib 0 to 12, zstd -131072 to 22, brotli 0 to 11); None takes its
    default (6, 3 and 5), and the others have no scale. The same bytes, level and library give the same chunk.
    `UsageError` for a level that the codec does not have.
    """

    __slots__ = ("compression", "packer")

    def __init__(self, compression: Compression, level: int | None = None) -> None:
        if compression is Compression.NONE:
            raise UsageError("NONE compresses nothing")
        lowest, default, highest = _LEVELS.get(compression, (0, 0, -1))
        if level is not None and not lowest <= level <= highest:
            allowed = f"{lowest} to {highest}" if lowest <= highest else "none"
            raise UsageError(f"{compression.name} has no level {level}; levels: {allowed}")
        self.compression = compression
        self.packer = _packer(compression, default if level is None else level)


def _packer(compression: Compression, level: int) -> Packer:
    from orcstream.codec.streams import _packers  # a read needs none

    if compression in _NATIVE_OUT:
        packer, module, functions = _NATIVE_OUT[compression]
        if (addresses := _addresses(module, functions)) is not None:
            native: Packer = getattr(_packers, packer)(level, *addresses)
            return native
    return _packers.PythonPacker(_OUT_OF[compression](level))


# As `_NATIVE`. cramjam's LZ4 finds other matches than that of the package lz4, mostly better ones.
_NATIVE_OUT: dict[Compression, tuple[str, str, tuple[str, ...]]] = {
    Compression.ZLIB: (
        "LibdeflatePacker",
        _LIBDEFLATE,
        ("libdeflate_alloc_compressor", "libdeflate_deflate_compress", "libdeflate_free_compressor"),
    ),
    Compression.ZSTD: (
        "ZstdPacker",
        _LIBZSTD,
        (
            "ZSTD_createCCtx",
            "ZSTD_CCtx_setParameter",
            "ZSTD_compress2",
            "ZSTD_freeCCtx",
            "ZSTD_isError",
        ),
    ),
}


def _copied(compress: Callable[[memoryview], bytes | bytearray]) -> _Compress:
    """The same function, writing to a view."""

    def into(block: memoryview, out: memoryview) -> int:
        data = compress(block)
        out[: len(data)] = data
        return len(data)

    return into


_OUT_OF: dict[Compression, Callable[[int], _Compress]] = {
    Compression.ZLIB: lambda level: _copied(lambda block: deflate.deflate_compress(block, level)),
    Compression.SNAPPY: lambda _: cramjam.snappy.compress_raw_into,
    Compression.LZO: lambda _: _copied(lzallright.LZOCompressor().compress),
    Compression.LZ4: lambda _: partial(cramjam.lz4.compress_block_into, store_size=False),
    Compression.ZSTD: lambda level: _copied(zstandard.ZstdCompressor(level=level).compress),
    Compression.BROTLI: lambda level: partial(cramjam.brotli.compress_into, level=level),
}
# Lowest, default, highest.
_LEVELS = {
    Compression.ZLIB: (0, 6, 12),
    Compression.ZSTD: (-131072, 3, 22),
    Compression.BROTLI: (0, 5, 11),
}
