"""Ways to cut a stream up: pieces for resumable decoders, and compression chunks of chosen sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.reference import compression


def pieces(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """`data` in pieces of the given sizes, the last size again and again."""
    out, at, number = [], 0, 0
    while at < len(data):
        size = max(1, sizes[min(number, len(sizes) - 1)])
        out.append(data[at : at + size])
        at += size
        number += 1
    return out


def ways(data: bytes, seed: int = 0) -> Iterator[list[bytes]]:
    """Whole, byte by byte, split once at every place of the first 64 and last 16 bytes, and at random."""
    yield [data]
    yield pieces(data, [1])
    for at in [*range(1, min(len(data), 64)), *range(max(len(data) - 16, 1), len(data))]:
        yield [data[:at], data[at:]]
    rng = random.Random(seed)
    for _ in range(3):
        yield pieces(data, [rng.randint(1, 100) for _ in range(1000)])


def framed(data: bytes, sizes: Sequence[int], *, deflate: bool) -> bytes:
    """Compression chunks of the given decompressed sizes, deflated or stored."""
    out = bytearray()
    for piece in pieces(data, sizes):
        packed = compression.deflate(piece) if deflate else piece
        out += compression.header(len(packed), not deflate) + packed
    return bytes(out)
