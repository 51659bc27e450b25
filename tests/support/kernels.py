"""Our kernels behind the interface of the reference's decoders, fed in pieces and taken in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from orcstream.codec._stream import InputStream
from orcstream.codec._values import BoolValues, ByteValues, IntValues, Values
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
