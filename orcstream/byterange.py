"""Arithmetic on byte ranges: what to ask a store for, and how to find the wanted bytes in its answers.

Knows half-open ranges, what a request costs, and buffers that hold one range each. Must not know stores,
ORC, async or clocks: `plan` computes with these values and `io` carries them out.

Contract of `coalesce`: every wanted byte is in exactly one request; requests are in file order, do not
overlap and are never longer than the limit; `Request.members` are the indices of the caller's ranges that
have bytes in it. A range that is longer than the limit, or that overlaps one that is cut, comes back as
consecutive pieces of several requests: `gather` hands them out without copying.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from orcstream.errors import ShortRead

BytesLike: TypeAlias = bytes | bytearray | memoryview

KIB = 1 << 10
MIB = 1 << 20
# Stores that answer faster than this are not waited for: their bandwidth is one for all connections.
_NEAR_S = 0.002


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """The bytes `start` up to, not including, `stop` of a file."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"no byte range: {self.start} to {self.stop}")

    @property
    def length(self) -> int:
        """In bytes."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Request:
    """One range to ask the store for; `members` are indices of the ranges with bytes in it, by start."""

    range: ByteRange
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CostModel:
    """What reading costs from a kind of source; the presets below are starting points, not measurements.

    `latency_s` is how long an answer takes to begin, `request_cpu_s` what a request costs of a core, both in
    seconds; `bandwidth` is in bytes per second over all connections together. A request asks for at most
    `part_bytes`, the first one for `tail_bytes`. With `request_cap` requests under
    way at once, one more request costs its CPU or its share of the latency, whichever is larger; a gap
    that is read and thrown away costs its bytes of bandwidth. `gap_bytes` is where the two meet.
    `adaptive` says whether latency and bandwidth may be replaced by what was measured
    (`io.request.estimate`); they are what counts only where a store is distant.
    """

    latency_s: float
    bandwidth: float
    request_cap: int
    request_cpu_s: float
    part_bytes: int
    tail_bytes: int
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.request_cap < 1 or self.part_bytes < 1 or self.tail_bytes < 1 or self.bandwidth <= 0:
            raise ValueError(f"no cost model: {self}")

    @property
    def is_near(self) -> bool:
        """Whether the store answers so fast that nothing is gained by not waiting for it."""
        return self.latency_s < _NEAR_S

    @property
    def gap_bytes(self) -> int:
        """How many unwanted bytes are worth reading to save one request."""
        return int(max(self.request_cpu_s, self.latency_s / self.request_cap) * self.bandwidth)

    @property
    def hop_bytes(self) -> int:
        """How many unwanted bytes are worth reading to save one response that others wait for."""
        return int(self.latency_s * self.bandwidth)

    @property
    def least_part_bytes(self) -> int:
        """The shortest part worth a request of its own: about what one connection moves in a latency."""
        if self.is_near:
            return self.part_bytes
        return min(self.part_bytes, 2 * MIB)

    @classmethod
    def memory(cls) -> CostModel:
        """Bytes that the process has."""
        return cls(0.0, 1e10, 4, 2e-5, 64 * MIB, 64 * KIB)

    @classmethod
    def local(cls) -> CostModel:
        """A disk read through worker threads; the hop to the thread is what a request costs."""
        return cls(1e-4, 2e9, 4, 1e-4, 32 * MIB, 64 * KIB)

    @classmethod
    def http(cls) -> CostModel:
        """A web server at a distance."""
        return cls(0.03, 1e8, 16, 3e-4, 8 * MIB, 64 * KIB, adaptive=True)

    @classmethod
    def object_store(cls) -> CostModel:
        """A store of the kind of S3, at a distance."""
        return cls(0.03, 5e8, 16, 3e-4, 8 * MIB, 64 * KIB, adaptive=True)

    @classmethod
    def hdfs(cls) -> CostModel:
        """A namenode and a datanode trip for each request, most often through a synchronous client."""
        return cls(0.005, 2e8, 16, 2e-3, 8 * MIB, 64 * KIB, adaptive=True)


def coalesce(ranges: Sequence[ByteRange], *, gap_bytes: int, max_bytes: int) -> list[Request]:
    """The requests that fetch `ranges`, merged over gaps of at most `gap_bytes`, none above `max_bytes`.

    Empty ranges are members of no request. The order of `ranges` does not matter; time is linear in the
    number of ranges and of memberships, after a sort.
    """
    if gap_bytes < 0 or max_bytes < 1:
        raise ValueError(f"coalesce: gap_bytes={gap_bytes}, max_bytes={max_bytes}")
    requests: list[Request] = []
    start = stop = 0
    members: list[int] = []
    for segment, owners in _split_segments(ranges, max_bytes):
        if members and segment.start - stop <= gap_bytes and segment.stop - start <= max_bytes:
            # A range cut in two never meets its other half here: two parts together exceed max_bytes.
            stop = segment.stop
            members += owners
            continue
        if members:
            requests.append(Request(ByteRange(start, stop), tuple(members)))
        start, stop, members = segment.start, segment.stop, owners
    if members:
        requests.append(Request(ByteRange(start, stop), tuple(members)))
    return requests


def _split_segments(ranges: Sequence[ByteRange], max_bytes: int) -> Iterable[tuple[ByteRange, list[int]]]:
    """Disjoint pieces of at most `max_bytes` that hold exactly the wanted bytes, with their owners.

    Ranges that only touch stay apart, so that a cut falls between two ranges where it can.
    """
    order = sorted(
        (index for index, wanted in enumerate(ranges) if wanted.start < wanted.stop),
        key=lambda index: (ranges[index].start, ranges[index].stop),
    )
    at = 0
    while at < len(order):
        start, stop = ranges[order[at]].start, ranges[order[at]].stop
        owners = [order[at]]
        at += 1
        while at < len(order) and ranges[order[at]].start < stop:
            stop = max(stop, ranges[order[at]].stop)
            owners.append(order[at])
            at += 1
        length = stop - start
        if length <= max_bytes:
            yield ByteRange(start, stop), owners
            continue
        part_count = -(-length // max_bytes)
        cuts = [start + length * part // part_count for part in range(part_count + 1)]
        parts: list[list[int]] = [[] for _ in range(part_count)]
        first = 0
        for index in owners:  # ascending starts, so `first` only moves on
            while cuts[first + 1] <= ranges[index].start:
                first += 1
            part = first
            while part < part_count and cuts[part] < ranges[index].stop:
                parts[part].append(index)
                part += 1
        for part, part_owners in enumerate(parts):
            yield ByteRange(cuts[part], cuts[part + 1]), part_owners


def cover(range_count: int, requests: Sequence[Request]) -> list[range]:
    """For each of the caller's ranges, the indices of the requests that hold it: always consecutive."""
    first = [0] * range_count
    stop = [0] * range_count
    for number, request in enumerate(requests):
        for member in request.members:
            if stop[member] == 0:
                first[member] = number
            stop[member] = number + 1
    return [range(one, two) for one, two in zip(first, stop, strict=True)]


class RangeBuffer:
    """The bytes of one `range`; refuses `data` of any other length: `ShortRead`."""

    __slots__ = ("_view", "range")

    def __init__(self, range: ByteRange, data: BytesLike) -> None:
        view = memoryview(data)
        if view.ndim != 1 or view.itemsize != 1:
            view = view.cast("B")
        if len(view) != range.length:
            raise ShortRead(f"asked for {range.length} bytes, got {len(view)}", file_offset=range.start)
        self.range = range
        self._view = view.toreadonly()

    def view(self, wanted: ByteRange) -> memoryview:
        """The bytes of `wanted`, which must lie in this range; shares the memory."""
        if not self.range.start <= wanted.start <= wanted.stop <= self.range.stop:
            raise ValueError(f"{wanted} does not lie in {self.range}")
        return self._view[wanted.start - self.range.start : wanted.stop - self.range.start]


def joined(wanted: ByteRange, buffers: Iterable[RangeBuffer]) -> memoryview:
    """`wanted` in one piece, from buffers in any order that hold all of it."""
    parts = [one for one in buffers if one.range.start < wanted.stop and wanted.start < one.range.stop]
    return memoryview(b"".join(gather(wanted, sorted(parts, key=lambda part: part.range))))


def gather(wanted: ByteRange, buffers: Iterable[RangeBuffer]) -> list[memoryview]:
    """`wanted` as consecutive pieces of `buffers`, which are in file order and hold all of it."""
    pieces: list[memoryview] = []
    at = wanted.start
    for buffer in buffers:
        if at >= wanted.stop:
            break
        if buffer.range.stop > at:
            stop = min(wanted.stop, buffer.range.stop)
            pieces.append(buffer.view(ByteRange(at, stop)))
            at = stop
    if at != wanted.stop:
        raise ValueError(f"the buffers end at {at} and do not hold {wanted}")
    return pieces
