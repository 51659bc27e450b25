"""Ways to cut a stream up: pieces for resumable decoders, and compression chunks of chosen sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import cycle

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


def framed(data: bytes, sizes: Sequence[int], *, deflate: bool | Sequence[bool]) -> bytes:
    """Compression chunks of the given decompressed sizes, deflated or stored, each or in turns."""
    out = bytearray()
    turns = cycle([deflate] if isinstance(deflate, bool) else deflate)
    for piece, deflates in zip(pieces(data, sizes), turns, strict=False):
        packed = compression.deflate(piece) if deflates else piece
        out += compression.header(len(packed), not deflates) + packed
    return bytes(out)
