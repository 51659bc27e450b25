"""Which rows of a stripe are decoded, and which bytes of its streams that takes.

Knows row groups, row-index positions and how far a slice must reach. Must not fetch, and must not know what
the values mean. All functions are pure.

Rows are counted from the stripe's first. A *span* is a stretch of rows that is decoded in one go: it begins
where a row group begins, since only there do the positions of a row index lead. A slice ends at the next
group's position, exactly, when nothing of the chunk or run there belongs to the groups before; else it
reaches to the next chunk start that the index knows of, at most as far as a run can reach (ORC Java's
slop). A decoder that still runs short asks for more. Specification: "Row Group Index".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.layout import StreamPositions
from orcstream.errors import CorruptStripe

# What a run length run takes at most, with its header: 512 values of 8 bytes, and a patch list in the slop.
_RUN_BYTES = 512 * 8
_HEADER_BYTES = 3

# Rows `start` up to `stop`, as pairs that ascend and do not touch.
Rows = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The row groups of one stripe: `stride` rows each, fewer in the last; one group without an index."""

    row_count: int
    stride: int

    @property
    def count(self) -> int:
        if self.row_count == 0:
            return 0
        return -(-self.row_count // self.stride) if self.stride else 1

    def first_row(self, group: int) -> int:
        return min(self.row_count, group * self.stride)

    def of_row(self, row: int) -> int:
        return row // self.stride if self.stride else 0

    def rows_of(self, keep: Sequence[bool]) -> list[tuple[int, int]]:
        """The rows of the groups that are kept."""
        rows: list[tuple[int, int]] = []
        for group, kept in enumerate(keep):
            if kept:
                start, stop = (
                    self.first_row(group),
                    self.first_row(group + 1) if self.stride else self.row_count,
                )
                if rows and rows[-1][1] == start:
                    start = rows.pop()[0]
                rows.append((start, stop))
        return rows


@dataclass(frozen=True, slots=True)
class Span:
    """Rows that are decoded in one go: from row `start`, a group's first; `first` up to `stop` are wanted."""

    start: int
    first: int
    stop: int

    @property
    def row_count(self) -> int:
        """How many rows are wanted."""
        return self.stop - self.first


def clip_rows(wanted: Rows, others: Rows) -> list[tuple[int, int]]:
    """The rows that are in both."""
    rows: list[tuple[int, int]] = []
    one = two = 0
    while one < len(wanted) and two < len(others):
        start = max(wanted[one][0], others[two][0])
        stop = min(wanted[one][1], others[two][1])
        if start < stop:
            rows.append((start, stop))
        if wanted[one][1] < others[two][1]:
            one += 1
        else:
            two += 1
    return rows


def count_rows(rows: Rows) -> int:
    return sum(stop - start for start, stop in rows)


def joined(rows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending stretches; those that touch become one."""
    found: list[tuple[int, int]] = []
    for start, stop in rows:
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


def plan_spans(rows: Rows, groups: RowGroups) -> list[Span]:
    """The spans that hold `rows`; rows of one group, or of groups that follow each other, share a span."""
    spans: list[Span] = []
    for first, stop in rows:
        start = groups.first_row(groups.of_row(first))
        if spans and groups.of_row(first) - groups.of_row(spans[-1].stop - 1) <= 1:
            spans[-1] = Span(spans[-1].start, spans[-1].first, stop)
        else:
            spans.append(Span(start, first, stop))
    return spans


@dataclass(frozen=True, slots=True)
class StreamSlice:
    """The bytes of a stream for one span, and where in them its first value is.

    `bytes_to_skip` are decompressed bytes, `rest` the numbers of the position after the place in the stream.
    """

    range: ByteRange
    bytes_to_skip: int = 0
    rest: tuple[int, ...] = ()


def slop_bytes(*, compressed: bool, block_size: int) -> int:
    """How far behind a position the run that is cut there may reach, in bytes of the stream."""
    if not compressed:
        return 2 + _RUN_BYTES
    return (2 + (_RUN_BYTES - 1) // block_size) * (_HEADER_BYTES + block_size)


class ColumnIndex:
    """The row index of one column in one stripe, as positions of its streams."""

    def __init__(
        self,
        index: RowIndex,
        positions: Sequence[StreamPositions],
        *,
        groups: RowGroups,
        compressed: bool,
        block_size: int,
    ) -> None:
        self._index = index
        self._positions = {part.kind: part for part in positions}
        self._width = sum(len(part) for part in positions)
        self._groups = groups
        self._compressed = compressed
        self._block_size = block_size
        self._slop = slop_bytes(compressed=compressed, block_size=block_size)

    @cached_property
    def is_usable(self) -> bool:
        """Whether there is an entry for each group, with as many numbers as the column's streams need."""
        count = self._groups.count
        if len(self._index) < count:
            return False
        starts = self._index.starts[: count + 1]
        return bool((starts[1:] - starts[:-1] == self._width).all())

    def slice(self, kind: int, stream: ByteRange, span: Span) -> StreamSlice:
        """The part of a stream that the rows of a span need, for a usable index.

        Raises `CorruptStripe` for positions outside the stream.
        """
        group = self._groups.of_row(span.start)
        stop_group = self._groups.of_row(span.stop - 1) + 1
        if kind not in self._positions:  # nothing to seek in: all of it
            return StreamSlice(stream)
        offset, *rest = self._numbers(kind, group, stream)
        into = rest.pop(0) if self._compressed else 0
        stop = self._stop(kind, stop_group, stream)
        if stop < offset:
            raise CorruptStripe(f"row groups {group} and {stop_group} are in the wrong order")
        return StreamSlice(ByteRange(stream.start + offset, stream.start + stop), into, tuple(rest))

    def _numbers(self, kind: int, group: int, stream: ByteRange) -> list[int]:
        part = self._positions[kind]  # type: ignore[index]  # stream kinds are integers
        entry = self._index.entry(group)
        numbers: list[int] = entry[part.first : part.first + len(part)].tolist()
        if numbers[0] > stream.length:
            raise CorruptStripe(f"row group {group} begins {numbers[0]} bytes into {stream.length} bytes")
        if any(number >= 1 << 31 for number in numbers[1:]):
            raise CorruptStripe(f"row group {group} has a position that skips {max(numbers[1:])}")
        return numbers

    def _stop(self, kind: int, stop_group: int, stream: ByteRange) -> int:
        if stop_group >= self._groups.count:
            return stream.length
        offset, *rest = self._numbers(kind, stop_group, stream)
        if not any(rest):
            return offset
        stop = min(stream.length, offset + self._slop)
        if not self._compressed:
            return stop
        # The chunks in which what belongs to the groups before may end: a run may go on in the next chunk.
        into, *skips = rest
        reach = into + (_RUN_BYTES if any(skips) else 0)
        chunks = max(1, -(-reach // self._block_size))
        for group in range(stop_group + 1, self._groups.count):
            known = self._numbers(kind, group, stream)[0]
            if known > offset:
                offset = known
                chunks -= 1
                if chunks == 0:
                    return min(stop, known)
        return stop


def rows_of_numbers(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending, distinct row numbers as stretches."""
    rows: list[tuple[int, int]] = []
    for number in numbers:
        if rows and rows[-1][1] == number:
            rows[-1] = (rows[-1][0], number + 1)
        else:
            rows.append((number, number + 1))
    return rows


def wanted_in(rows: Rows, first_row: int, row_count: int) -> list[tuple[int, int]]:
    """The part of `rows`, counted from the file's first, that lies in a stripe, counted from the stripe's."""
    stop_row = first_row + row_count
    at = bisect_left(rows, first_row, key=lambda pair: pair[1] - 1)
    found: list[tuple[int, int]] = []
    while at < len(rows) and rows[at][0] < stop_row:
        start, stop = rows[at]
        found.append((max(start, first_row) - first_row, min(stop, stop_row) - first_row))
        at += 1
    return found
