"""Where the n-th value of a stream lies (specification: "Row Group Index", positions).

A place is the offset of a run in the stream before compression, then how many values of the run come before
the wanted one. What a writer is free to choose can be chosen: a place may be told from an earlier run
(`back`), and the first value of a run, or byte of a chunk, as the end of the one before it (`late`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from . import compression, rle_v2
from .varint import read_varint

Runs = list[tuple[int, int]]
"""The offset of each run and the number of its first value; the last entry is the end of both."""


def byte_runs(data: bytes) -> Runs:
    runs, at, first = [], 0, 0
    while at < len(data):
        runs.append((at, first))
        control = data[at]
        at += 2 if control < 0x80 else 1 + 256 - control
        first += control + 3 if control < 0x80 else 256 - control
    return [*runs, (at, first)]


def integer_runs(data: bytes, version: int) -> Runs:
    runs, at, first = [], 0, 0
    while at < len(data):
        runs.append((at, first))
        if version == 2:
            values, at = rle_v2.decode_run(data, at, signed=False)
            first += len(values)
            continue
        control = data[at]
        at += 2 if control < 0x80 else 1
        for _ in range(1 if control < 0x80 else 256 - control):
            _, at = read_varint(data, at)
        first += control + 3 if control < 0x80 else 256 - control
    return [*runs, (at, first)]


def place(runs: Runs, value: int, *, back: int = 0, late: bool = False) -> tuple[int, int]:
    """The offset of a run, and how many values to skip from there to reach `value`."""
    firsts = [first for _, first in runs]
    found = bisect_left(firsts, value) - 1 if late else bisect_right(firsts, value) - 1
    offset, first = runs[max(0, min(found, len(runs) - 1) - back)]
    return offset, value - first


def bit_place(runs: Runs, bit: int, *, back: int = 0, late: bool = False) -> tuple[int, int, int]:
    """The same for bits packed into bytes: a run of bytes, bytes to skip, bits to skip in the next one.

    Padding: the last byte may hold fewer bits than eight, so `bit` may lie within it and still be the end.
    """
    offset, skip = place(runs, bit // 8, back=back, late=late)
    return offset, skip, bit % 8


def chunk_place(offset: int, framed: bytes, block_size: int, *, late: bool = False) -> tuple[int, int]:
    """Where a compressed stream's chunk begins, and how many of its decompressed bytes come before."""
    starts, at = [], 0
    for _, chunk in compression.chunks(framed):
        starts.append(at)
        at += 3 + len(chunk)
    starts.append(at)
    number, into = divmod(offset, block_size)
    if late and number and not into:
        number, into = number - 1, block_size
    return starts[number], into


def sums(sizes: Sequence[int], marks: Sequence[int]) -> list[int]:
    """The total of all sizes before each mark."""
    totals = [0]
    for size in sizes:
        totals.append(totals[-1] + size)
    return [totals[mark] for mark in marks]
