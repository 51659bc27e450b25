"""Which rows of stripes are decoded, which bytes that takes, and how a store is asked for them.

Knows row groups, row-index positions, how far a slice must reach, and a cost model. Must not fetch, and must
not know what the values mean. All functions are pure.

Rows are counted from the stripe's first. A *span* is a stretch of rows that is decoded in one go: it begins
where a row group begins, since only there do the positions of a row index lead. A slice ends at the next
group's position, exactly, when nothing of the chunk or run there belongs to the groups before; else it
reaches to the next chunk start that the index knows of, at most as far as a run can reach (ORC Java's
slop). A decoder that still runs short asks for more. Specification: "Row Group Index".

The control wave (`plan_control`) asks for stripe footers; a stripe that is no longer than the gap worth
reading is asked for whole, so that files of many tiny stripes are read in few large requests and no
second hop. The data wave reads each stripe in windows (`plan_windows`): the next piece of every stream
it needs, together no longer than a share of the memory budget. Decoders keep what they do not need yet,
so pieces need not end at a row: no index is read for a scan. Where only some rows are wanted, each stream
has a slice for each span of rows. From a distance pieces are cut once more (`streamed`), to be decoded while
their request is on its way. `plan_requests` turns the pieces of a window into requests, and `order_of_rows`
says which of these to start first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from orcstream.byterange import ByteRange, CostModel, Request, coalesce
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import StreamPositions, StripeInformation
from orcstream.errors import CorruptStripe
from orcstream.plan.tail import check_footer_length

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


# Stripes whose footers are asked for together, once the first ones are known.
CONTROL_STRIPES = 64

# Gaps may add this share to what is wanted; more requests are the lesser evil then.
_WASTE_SHARE = 0.1
_WASTE_BYTES = 1 << 16
_FIRST_WINDOW_BYTES = 4 << 20
# So many bytes of indexes that nobody wants are read rather than wait for a footer, from any store.
_INDEX_BYTES = 1 << 18
# Answers of distant stores are decoded as they come, so many bytes of a stream at a time.
_STREAMED_BYTES = 1 << 19
# Streams up to this length are not cut: their requests would cost more than their memory.
_WHOLE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive bytes of one stream for one span; `stream` and `span` are places in the caller's lists."""

    stream: int
    range: ByteRange
    span: int = 0


def control_count(first: int, cost: CostModel) -> int:
    """How many stripes' footers to ask for together, from stripe `first` on.

    The first rows should not wait for more footers than can be fetched at once.
    """
    return cost.request_cap if first == 0 else CONTROL_STRIPES


@dataclass(frozen=True, slots=True)
class ControlPlan:
    """The ranges of a control wave, the places of their stripes in the caller's list, and their requests.

    Members of the requests are places in `wanted`.
    """

    wanted: tuple[ByteRange, ...]
    owners: tuple[int, ...]
    requests: tuple[Request, ...]


def plan_control(
    stripes: Sequence[StripeInformation],
    cost: CostModel,
    window_bytes: int,
    *,
    indexed: Sequence[bool] = (),
    index_share: float = 1.0,
) -> ControlPlan:
    """Requests for the footers of `stripes`, and for the index streams of those that are `indexed`.

    Only a footer says where in the index area a column's index is. The whole area comes with the footer where
    that costs less than one more hop; `index_share` is about how much of it is wanted. What comes along with
    the footers, whole stripes included, is at most about `window_bytes`.
    """
    gap_bytes = min(cost.gap_bytes, window_bytes // max(1, len(stripes)))
    index_bytes = sum(stripe.index_length for stripe, wants in zip(stripes, indexed, strict=False) if wants)
    unwanted_bytes = index_bytes * (1 - index_share)
    with_indexes = unwanted_bytes <= max(cost.hop_bytes, _INDEX_BYTES) and index_bytes <= window_bytes
    wanted: list[ByteRange] = []
    owners: list[int] = []
    for place, stripe in enumerate(stripes):
        if stripe.range.length <= gap_bytes:
            ranges = [stripe.range]
        elif with_indexes and indexed and indexed[place]:
            ranges = [stripe.index_range, stripe.footer_range]
        else:
            ranges = [stripe.footer_range]
        wanted += ranges
        owners += [place] * len(ranges)
    requests = coalesce(wanted, gap_bytes=gap_bytes, max_bytes=cost.part_bytes)
    return ControlPlan(tuple(wanted), tuple(owners), tuple(requests))


def fitting(stripes: Sequence[StripeInformation], window_bytes: int) -> int:
    """How many of some stripes have footers that fit into a window; at least one.

    Raises `Unsupported` (``metadata_too_large``) for a footer that claims more than any may have.
    """
    size = 0
    for count, stripe in enumerate(stripes):
        check_footer_length(stripe)
        size += stripe.footer_length
        if count and size > window_bytes:
            return count
    return len(stripes)


def first_window_bytes(cost: CostModel) -> int | None:
    """How much to ask for before anything can be decoded: what the store brings in a latency, or little.

    None for near sources, where more and smaller pieces cost more than the wait.
    """
    return None if cost.is_near else max(_FIRST_WINDOW_BYTES, cost.hop_bytes)


def plan_windows(
    spans: Sequence[Sequence[ByteRange | None]], window_bytes: int, first_bytes: int | None = None
) -> list[list[Piece]]:
    """The pieces of each window, for the slices of all streams in each span, in the order of rows.

    A window holds at most about `window_bytes`, never less than one piece. Spans share one as long as they
    fit; one that does not is cut: each window has the same share of every stream, but that no piece is
    shorter than is worth a request. With `first_bytes`, the first window is that small and the next ones
    double, so that decoding begins while the rest is on its way.
    """
    windows: list[list[Piece]] = []
    room = 0
    limit = first_bytes or window_bytes
    for number, slices in enumerate(spans):
        total = sum(part.length for part in slices if part is not None)
        shares = _shares(total, window_bytes, limit)
        if not windows or len(shares) > 1 or total > room:
            windows.append([])
            room = window_bytes
        first = len(windows) - 1
        windows += ([] for _ in shares[1:])
        for stream, part in enumerate(slices):
            if part is not None:
                for at, piece in _cut(part, shares):
                    windows[first + at].append(Piece(stream, piece, number))
        room -= total
        limit = window_bytes
    return [window for window in windows if window]


def _shares(total: int, window_bytes: int, first_bytes: int) -> list[float]:
    """Where the windows of one span end, as shares of all its bytes."""
    ends: list[float] = []
    done, size = 0, max(1, min(first_bytes, window_bytes))
    while size < window_bytes and done + 2 * size < total:
        done += size
        ends.append(done / total)
        size *= 2
    count = max(1, -(-(total - done) // max(1, window_bytes)))
    return [*ends, *((done + (total - done) * part / count) / max(1, total) for part in range(1, count)), 1.0]


def _cut(stream: ByteRange, shares: Sequence[float]) -> list[tuple[int, ByteRange]]:
    """The pieces of one stream, with their windows."""
    pieces: list[tuple[int, ByteRange]] = []
    at = stream.start
    for window, share in enumerate(shares):
        if at == stream.stop:
            break
        stop = max(stream.start + int(stream.length * share), at + _WHOLE_BYTES)
        if share == 1.0 or stop + _WHOLE_BYTES > stream.stop:
            stop = stream.stop
        pieces.append((window, ByteRange(at, stop)))
        at = stop
    return pieces


def streamed(piece: Piece, cost: CostModel) -> list[Piece]:
    """A piece in parts that can be decoded while the rest of their request is on its way.

    From near stores a request comes so fast that more parts would only cost more.
    """
    if cost.is_near or piece.range.length <= _STREAMED_BYTES:
        return [piece]
    start, stop = piece.range.start, piece.range.stop
    return [
        Piece(piece.stream, ByteRange(at, min(at + _STREAMED_BYTES, stop)), piece.span)
        for at in range(start, stop, _STREAMED_BYTES)
    ]


def plan_requests(
    wanted: Sequence[ByteRange], cost: CostModel, *, one_of_many: bool = False
) -> list[Request]:
    """Requests for the ranges of one window; gaps are read where that is cheaper, within reason.

    Between the pieces of a window that is `one_of_many` of its stripe lie those of the other windows, which
    must not be read twice: there, only gaps shorter than any of those are read.

    The cost model says what a gap is worth; but what all gaps add is kept to a tenth of what is wanted.
    Parts are small enough to use all connections at once, since each has a bandwidth of its own.
    """
    total = sum(range_.length for range_ in wanted)
    part_bytes = max(cost.least_part_bytes, min(cost.part_bytes, -(-total // cost.request_cap)))
    allowed = max(total * _WASTE_SHARE, _WASTE_BYTES)
    gap_bytes = min(cost.gap_bytes, _WHOLE_BYTES // 2) if one_of_many else cost.gap_bytes
    while True:
        requests = coalesce(wanted, gap_bytes=gap_bytes, max_bytes=part_bytes)
        if gap_bytes == 0 or sum(request.range.length for request in requests) - total <= allowed:
            return requests
        gap_bytes //= 2


def order_of_rows(
    requests: Sequence[Request], wanted: Sequence[ByteRange], streams: Sequence[Hashable]
) -> list[int]:
    """The places of requests in the order in which to start them; `streams` says of which each range is.

    Rows take bytes of all streams: the first share of each is worth more than all of one.
    """
    before: list[int] = []
    lengths: Counter[Hashable] = Counter()
    for range_, stream in zip(wanted, streams, strict=True):
        before.append(lengths[stream])
        lengths[stream] += range_.length
    shares = [length / max(1, lengths[stream]) for length, stream in zip(before, streams, strict=True)]
    return sorted(range(len(requests)), key=lambda place: min(shares[at] for at in requests[place].members))
