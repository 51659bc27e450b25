"""What is decoded: stripes, their columns, and the pieces of streams on their way to them.

Knows spans, row numbering and how a stream is fed. Must not know threads, locks or how bytes are fetched: the
`DecodeQueue` calls everything here under its lock or from the one worker that holds a run.

A stripe is decoded in *spans* of rows (see `plan.selection`), one for a whole stripe. Rows are counted twice:
as the stripe counts them, and among the wanted rows of all spans (`row`, `bounds`, segments), since those
are what windows are made of. `StripeRun.stripe_row` leads from the second to the first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orcstream.byterange import ByteRange, CostModel, RangeBuffer
from orcstream.codec.decode._column import ColumnDecoder
from orcstream.codec.decode.stripe import ColumnStreams, StreamCursor
from orcstream.codec.metadata.structure import StripeInformation
from orcstream.codec.vectors.column import Vector
from orcstream.plan.selection import (
    Rows,
    Span,
    StreamSlice,
    clip_rows,
    first_window_bytes,
    plan_windows,
    streamed,
)
from orcstream.reader.engine.budget import Shares

# What a value of unknown size is taken for before any was decoded.
_GUESSED_VALUE_BYTES = 16
_GUESSED_EXPANSION = 6


@dataclass(slots=True, eq=False)
class StreamPiece:
    """Consecutive bytes of one stream for one span: planned, then asked for, then there."""

    feed: StreamFeed
    range: ByteRange
    span: int
    asked: bool = False
    # Views of the bytes, and the lease of their memory. One value: workers read it without the lock.
    arrived: tuple[list[memoryview], object] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be asked for: not asked ahead of its window, nor passed by its run."""
        run = self.feed.run
        return not self.asked and not run.finished and self.span >= run.span


class StreamFeed:
    """One stream on its way: its slice of each span, and the pieces not yet fed."""

    __slots__ = ("cursor", "fed_to", "pieces", "run", "slices")

    def __init__(self, run: ColumnRun, cursor: StreamCursor, slices: Sequence[StreamSlice]) -> None:
        self.run = run
        self.cursor = cursor
        self.slices = slices
        # Lists: these are short, and an empty deque takes 600 bytes, times the streams of a wide file.
        self.pieces: list[StreamPiece] = []
        self.fed_to = slices[0].range.start

    @property
    def head(self) -> StreamPiece | None:
        """The piece that the run needs next; None when none is planned for the span it is in."""
        if self.pieces and self.pieces[0].span == self.run.span:
            return self.pieces[0]
        return None

    def enter_span(self) -> None:
        """Go to where the run's span begins."""
        if self.cursor.is_dictionary:
            return  # read whole with the first span
        part = self.slices[self.run.span]
        self.cursor.seek(part.range.start, part.bytes_to_skip, part.rest)
        self.fed_to = part.range.start
        if self.fed_to == self.cursor.range.stop:
            self.cursor.input.feed(b"", last=True)

    def flow(self) -> None:
        """Feed what has arrived in order. Only by who holds the run."""
        while (piece := self.head) is not None and piece.arrived is not None:
            del self.pieces[0]
            self.fed_to = piece.range.stop
            last = self.fed_to == self.cursor.range.stop
            # The input holds the bytes from here on, and gives back what they were lent for.
            (views, lease), piece.arrived = piece.arrived, None
            for index, view in enumerate(views):
                self.cursor.input.feed(view, last=last and index == len(views) - 1, lease=lease)

    def drop_passed(self) -> None:
        """Forget pieces of spans that the run has left."""
        while self.pieces and self.pieces[0].span < self.run.span:
            del self.pieces[0]

    def reach_further(self, size: int) -> None:
        """Plan one piece more for this span: its slice ended before its rows did."""
        stop = min(self.cursor.range.stop, self.fed_to + size)
        self.pieces.insert(0, StreamPiece(self, ByteRange(self.fed_to, stop), self.run.span))


@dataclass(slots=True)
class Segment:
    """Decoded rows of one column, `start` counted among the stripe's wanted rows."""

    start: int
    vector: Vector
    size: int

    @property
    def stop(self) -> int:
        return self.start + self.vector.length


class ColumnRun:
    """One column of one stripe, decoded span by span."""

    __slots__ = (
        "busy",
        "chunk_bytes",
        "decoder",
        "dictionary_bytes",
        "error",
        "feeds",
        "index",
        "queued",
        "row",
        "rows_to_drop",
        "segments",
        "slop_bytes",
        "span",
        "starved",
        "stripe",
        "weight",
    )

    def __init__(
        self,
        stripe: StripeRun,
        index: int,
        streams: ColumnStreams | None,
        slices: Sequence[Sequence[StreamSlice]],
        slop_bytes: int,
    ) -> None:
        self.stripe = stripe
        self.index = index
        self.feeds: list[StreamFeed] = []
        if streams is not None:
            self.decoder: ColumnDecoder = streams.decoder
            pairs = zip(streams.streams, slices, strict=True)
            self.feeds = [StreamFeed(self, cursor, parts) for cursor, parts in pairs]
        self.slop_bytes = slop_bytes
        self.weight = sum(part.range.length for parts in slices for part in parts)
        self.row = self.span = 0
        self.rows_to_drop = -1
        self.segments: list[Segment] = []
        self.starved: list[StreamFeed] = []
        self.busy = False
        self.queued = False
        self.error: BaseException | None = None
        self.dictionary_bytes = 0
        self.chunk_bytes = 0

    @property
    def finished(self) -> bool:
        return self.row >= self.stripe.row_count

    def enter_span(self) -> None:
        """Go to the first row that is decoded for the span; only by who holds the run."""
        if self.rows_to_drop < 0:
            span = self.stripe.spans[self.span]
            # Without streams there is nothing to pass, however many rows a file claims.
            self.rows_to_drop = span.first - span.start if self.feeds else 0
            if self.span or span.start:
                for feed in self.feeds:
                    feed.enter_span()
        for feed in self.feeds:
            feed.flow()

    @property
    def chunk_reach(self) -> int:
        """What its streams may hold of chunks that they are in the middle of, about."""
        return len(self.feeds) * self.slop_bytes // 2

    def held_bytes(self, *, trim: bool) -> int:
        """Memory for chunks that the streams are in the middle of; only by who holds the run."""
        return self.decoder.held_bytes(trim=trim)

    def advance(self, count: int) -> None:
        """`count` wanted rows were decoded; leaves the span when those were its last."""
        self.row += count
        while self.span + 1 < len(self.stripe.spans) and self.row >= self.stripe.span_stops[self.span]:
            self.span += 1
            self.rows_to_drop = -1
            for feed in self.feeds:
                feed.drop_passed()

    def release(self) -> None:
        """Let go of everything but decoded rows; may be called again.

        Runs and feeds know each other: the memory of stripes that are done would wait for the garbage
        collector. And who keeps an error keeps the frames it came through, with the decoder and its streams:
        so those let go of their bytes themselves.
        """
        for feed in self.feeds:
            feed.pieces.clear()
            feed.cursor.input.restart(file_offset=feed.cursor.range.stop)
        self.feeds.clear()
        self.starved.clear()
        if hasattr(self, "decoder"):
            del self.decoder


class RowChoice(Protocol):
    """Which rows of a stripe are wanted, where those are not all that are decoded."""

    def mask(self, start: int, count: int) -> NDArray[np.bool_]:
        """For `count` rows from row `start` of the stripe on."""


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Some stretches of rows."""

    rows: Rows

    def mask(self, start: int, count: int) -> NDArray[np.bool_]:
        mask = np.zeros(count, np.bool_)
        for first, stop in clip_rows(self.rows, [(start, start + count)]):
            mask[first - start : stop - start] = True
        return mask


class StripeRun:
    """One stripe under decoding: its runs and the ends of its windows.

    `spans` are what is decoded, ascending; `choice` says which rows of them are wanted, None for all;
    `is_filtered` that a predicate has been decided already.
    `bounds` are ends of windows, ascending; the window to be delivered next ends at `bounds[0]`. `lagging`
    counts the runs that have not reached it.
    """

    def __init__(
        self,
        number: int,
        information: StripeInformation,
        spans: Sequence[Span],
        *,
        whole_root: bool = False,
        choice: RowChoice | None = None,
        is_filtered: bool = False,
    ) -> None:
        self.number = number
        # Where it stands in the order of delivery; several parts of one stripe share its number.
        self.place = 0
        # The root itself is the only run, because it has nulls; else its fields are the runs.
        self.whole_root = whole_root
        self.information = information
        self.spans = spans
        self.choice = choice
        self.is_filtered = is_filtered
        self.span_stops = list(accumulate(span.row_count for span in spans)) or [0]
        self.row_count = self.span_stops[-1]
        self.runs: list[ColumnRun] = []
        self.delivered = 0
        self.bounds: deque[int] = deque()
        self.lagging = 0
        self.dictionary_bytes = 0
        self.chunk_bytes = 0
        # What came along with its footer, for who wants to read more of it.
        self.held: Sequence[tuple[RangeBuffer, object]] = ()
        # Runs that need room for their dictionaries, which stripes before this one hold.
        self.waiting: list[ColumnRun] = []

    def add_decoded(self, segments: Sequence[Segment]) -> None:
        """A column whose rows were decoded before, all of them."""
        run = ColumnRun(self, len(self.runs), None, (), 0)
        run.segments.extend(segments)
        run.row = self.row_count
        self.runs.append(run)

    def add_column(
        self, streams: ColumnStreams, slices: Sequence[Sequence[StreamSlice]], slop_bytes: int
    ) -> ColumnRun:
        run = ColumnRun(self, len(self.runs), streams, slices, slop_bytes)
        self.runs.append(run)
        return run

    @property
    def feeds(self) -> list[StreamFeed]:
        return [feed for run in self.runs for feed in run.feeds]

    def span_stop(self, row: int) -> int:
        """Where the span ends that holds a wanted row."""
        return self.span_stops[bisect_right(self.span_stops, row)]

    def stripe_row(self, row: int) -> int:
        """A wanted row's number in the stripe."""
        at = min(bisect_right(self.span_stops, row), len(self.spans) - 1)
        span = self.spans[at]
        return span.stop - (self.span_stops[at] - row)

    def count_lagging(self) -> None:
        self.lagging = sum(run.row < self.bounds[0] for run in self.runs) if self.bounds else 0


class RowSizes:
    """How many decoded bytes a row takes, column by column: guessed at first, then measured.

    `unknown` are the columns under decoding of which there is only a guess.
    """

    def __init__(self, column_count: int) -> None:
        self._measured: list[float | None] = [None] * column_count
        self._guessed = [0.0] * column_count
        self.unknown: set[int] = set()

    def guess(self, stripe: StripeRun) -> None:
        rows = max(1, stripe.row_count)
        for index, run in enumerate(stripe.runs):
            if run.finished:
                continue
            if run.decoder.is_fixed:
                self._guessed[index] = run.decoder.row_bytes
            else:
                if self._measured[index] is None:
                    self.unknown.add(index)
                expected = run.weight * _GUESSED_EXPANSION / rows
                self._guessed[index] = max(expected, run.decoder.row_bytes + _GUESSED_VALUE_BYTES)

    def measure(self, index: int, size: int, rows: int) -> None:
        self.unknown.discard(index)
        now = size / rows
        before = self._measured[index]
        # Quick to believe that rows are large, slow to forget it.
        self._measured[index] = now if before is None else max(now, (3 * before + now) / 4)

    def of(self, index: int) -> float:
        measured = self._measured[index]
        return self._guessed[index] if measured is None else measured

    def is_measured(self, index: int) -> bool:
        return self._measured[index] is not None

    def row(self) -> float:
        return sum(self.of(index) for index in range(len(self._guessed)))


def windows_of(stripe: StripeRun, shares: Shares, cost: CostModel) -> list[list[StreamPiece]]:
    """The pieces of a stripe's streams, by the windows in which they are fetched."""
    first_bytes = first_window_bytes(cost) if stripe.number == 0 else None
    feeds = stripe.feeds
    spans = [
        # Dictionaries come whole, with the first span.
        [None if number and feed.cursor.is_dictionary else feed.slices[number].range for feed in feeds]
        for number in range(len(stripe.spans))
    ]
    total = sum(part.length for slices in spans for part in slices if part is not None)
    is_whole = cost.is_near and total <= shares.whole_bytes
    window_bytes = shares.whole_bytes if is_whole else shares.window_bytes
    return [
        [
            StreamPiece(feeds[part.stream], part.range, part.span)
            for piece in window
            for part in streamed(piece, cost)
        ]
        for window in plan_windows(spans, window_bytes, first_bytes)
    ]
