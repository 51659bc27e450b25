"""Our kernels behind the interface of the reference's decoders, fed in pieces and taken in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer as ReadableBuffer

from orcstream._buffer import Buffer
from orcstream.codec._stream import InputStream
from orcstream.codec._values import (
    BoolValues,
    ByteValues,
    IntValues,
    RawValues,
    Values,
    Varint128Values,
)
from orcstream.codec.compression import Compression, Decompressor


def values_of(encoding: str, stream: InputStream, *, signed: bool) -> tuple[Values, type[np.generic]]:
    """The value stream of an encoding, and what its values are."""
    if encoding == "byte":
        return ByteValues(stream), np.uint8
    if encoding == "boolean":
        return BoolValues(stream), np.uint8
    return IntValues(stream, signed=signed, version_2=encoding == "rle_v2"), np.int64


def decode(
    encoding: str,
    pieces: Sequence[bytes],
    count: int,
    *,
    signed: bool,
    turns: Iterable[int] = (),
    skip: int = 0,
    zlib: bool = False,
) -> list[int]:
    """`count` values of a stream that arrives in pieces, taken in turns of the given sizes, the rest at once.

    Pieces are fed only when the values at hand do not do, so every state in which a decoder can run dry is met.
    """
    decompress = Decompressor(Compression.ZLIB if zlib else Compression.NONE)
    stream = InputStream(compressed=zlib, block_size=1 << 18)
    values, kind = values_of(encoding, stream, signed=signed)
    if skip:
        values.seek(skip)
    waiting = list(pieces)
    out: list[int] = []
    sizes = iter(turns)
    while len(out) < count:
        wanted = min(next(sizes, count), count - len(out))
        have = values.ensure(wanted, decompress)
        while have < wanted:
            assert waiting or not stream.complete, "a complete stream must raise when it is short"
            stream.feed(waiting.pop(0) if waiting else b"", last=not waiting)
            have = values.ensure(wanted, decompress)
        out += np.frombuffer(values.take(wanted), kind).tolist()
    return out


def _decoder(encoding: str) -> Callable[[bytes, int, bool], list[int]]:
    return lambda data, count, signed: decode(encoding, [data], count, signed=signed)


DECODERS = {encoding: _decoder(encoding) for encoding in ("byte", "boolean", "rle_v1", "rle_v2")}


class Fed:
    """A value stream whose pieces are fed one by one, only when it has run dry.

    `encoding` is one of `DECODERS`, "varint128", or "raw" and a width in bytes.
    """

    def __init__(
        self,
        encoding: str,
        pieces: Sequence[bytes],
        *,
        signed: bool = False,
        compression: Compression = Compression.NONE,
        block_size: int = 1 << 18,
    ) -> None:
        self.encoding = encoding
        self.input = InputStream(
            compressed=compression is not Compression.NONE,
            block_size=block_size,
            column=7,
            kind="DATA",
            file_offset=1000,
        )
        self.decompress = Decompressor(compression)
        self.waiting = list(pieces)
        self.values: Values
        if encoding == "varint128":
            self.values = Varint128Values(self.input)
        elif encoding.startswith("raw"):
            self.values = RawValues(self.input, item_bytes=int(encoding[3:]))
        else:
            self.values, _ = values_of(encoding, self.input, signed=signed)

    def feed(self) -> None:
        assert not self.input.complete, "a complete stream must raise when it is short"
        self.input.feed(self.waiting.pop(0) if self.waiting else b"", last=not self.waiting)

    def skip_bytes(self, count: int) -> None:
        while count:
            count -= self.input.skip(count, self.decompress)
            if count:
                self.feed()

    def ensure(self, count: int) -> None:
        while self.values.ensure(count, self.decompress) < count:
            self.feed()

    def peek(self, count: int) -> list[Any]:
        return unpacked(self.encoding, self.values.peek(count))

    def take(self, count: int) -> list[Any]:
        self.ensure(count)
        return unpacked(self.encoding, self.values.take(count))


def unpacked(encoding: str, buffer: Buffer) -> list[Any]:
    """The values that a taken buffer holds."""
    data = bytes(buffer)
    if encoding in ("byte", "boolean"):
        return list(data)
    if encoding == "varint128":
        return [int.from_bytes(data[at : at + 16], "little", signed=True) for at in range(0, len(data), 16)]
    if encoding.startswith("raw"):
        width = int(encoding[3:])
        return [data[at : at + width] for at in range(0, len(data), width)]
    return np.frombuffer(data, np.int64).tolist()


def buffer_of(data: ReadableBuffer) -> Buffer:
    """A block of our own with these bytes, as kernels take them."""
    view = memoryview(data).cast("B")
    out = Buffer(view.nbytes)
    memoryview(out)[:] = view
    return out


def int64_buffer(values: Sequence[int]) -> Buffer:
    return buffer_of(np.array(values, np.int64))
