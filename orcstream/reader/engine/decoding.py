"""Decodes the columns of stripes on worker threads, in row order, no further ahead than the budget allows.

Knows column decoders, windows of rows and threads. Must not know how bytes are fetched: they come through
`arrive`. Everything here is synchronous and guarded by one lock, held for bookkeeping only.

Each column of a stripe is a `ColumnRun`: it decodes from where it stands up to the end of a window of
rows, one worker at a time. Windows are common to all columns of a stripe, so that batches come out
whole; when a column's rows turn out larger than expected, its run stops early, and the window ends there
for all. Runs wait in a heap, lowest row first; what holds the lowest row not yet delivered is always
admitted, the rest only while decoded bytes fit. A run whose streams ran dry is parked until bytes
arrive. A failure stays with its run and is raised by whoever needs its rows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from orcstream._buffer import release_retained
from orcstream.codec.decode.decoders import Turn
from orcstream.codec.streams._codecs import Codec
from orcstream.codec.streams.compression import Compression, Decompressor
from orcstream.codec.vectors.column import Vector, vector_bytes
from orcstream.errors import OrcError, Unsupported
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.runs import ColumnRun, RowSizes, Segment, StreamPiece, StripeRun
from orcstream.reader.engine.session import DecodeSpan, ReadObserver


@dataclass(frozen=True, slots=True)
class Delivery:
    """Decoded rows of one stripe: from row `start` of it on, one vector for each of its runs."""

    stripe: StripeRun
    start: int
    vectors: tuple[Vector, ...]
    row_count: int


# Rows in front of the wanted ones are decoded and dropped so many at a time, at least.
_DROPPED_ROWS = 1 << 13

# So many windows of a stripe are open while the rows of one of its columns are only guessed: each becomes a
# batch, a short one where the guess is too large, and all columns have to follow it.
_GUESSED_WINDOWS = 4


class DecodeQueue:
    """See the module.

    `on_progress` is called from a worker when a window is complete, a run is parked, or one failed.
    """

    def __init__(
        self,
        *,
        compression: Compression,
        batch_rows: int,
        column_count: int,
        budget: MemoryBudget,
        on_progress: Callable[[], None],
        observer: ReadObserver | None = None,
    ) -> None:
        self._compression = compression
        self._batch_rows = batch_rows
        self._budget = budget
        self._on_progress = on_progress
        self._observer = observer
        self._lock = threading.Lock()
        self._heap: list[tuple[int, int, int, int, ColumnRun]] = []
        self._pushes = self._added = 0
        self._sizes = RowSizes(column_count)
        self._decompressors: list[Codec] = []
        self._stripes: deque[StripeRun] = deque()
        self._closed = False
        self.decode_s = 0.0

    # --- what the loop's side does -----------------------------------------------------------------

    def add(self, stripe: StripeRun) -> None:
        """Take on a stripe, behind those that are there."""
        with self._lock:
            self._sizes.guess(stripe)
            stripe.place = self._added
            self._added += 1
            self._stripes.append(stripe)
            # Rows may have been decoded before; workers count here too, so this is counted under the lock.
            self._budget.decoded += sum(s.size for run in stripe.runs for s in run.segments)
            self._open_window(stripe)
            for run in stripe.runs:
                run.starved = [feed for feed in run.feeds if feed.head is not None]
                if not run.starved:
                    self._push(run)

    def arrive(self, piece: StreamPiece, views: list[memoryview], lease: object) -> None:
        """Bytes of one piece are there."""
        feed = piece.feed
        run = feed.run
        with self._lock:
            if run.finished or self._closed or piece.span < run.span:
                return
            piece.arrived = views, lease
            if feed in run.starved and feed.head is piece:
                run.starved.remove(feed)
                if not run.starved:
                    self._push(run)

    def fail(self, run: ColumnRun, error: BaseException) -> None:
        """The bytes of a run will not come."""
        with self._lock:
            run.error = run.error or error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._heap.clear()
            for stripe in self._stripes:
                stripe.held = ()
                for run in stripe.runs:
                    run.segments.clear()
                    if not run.busy:  # what is busy is released by its worker
                        run.release()
            self._stripes.clear()
            budget = self._budget
            budget.decoded = budget.dictionaries = budget.chunks = budget.first_chunks = 0

    def has_work(self) -> bool:
        """Whether a worker would find something to do."""
        with self._lock:
            return self._peek() is not None

    def head(self) -> StripeRun | None:
        """The stripe whose rows come next."""
        return self._stripes[0] if self._stripes else None

    @property
    def stripe_count(self) -> int:
        return len(self._stripes)

    def hungry(self) -> list[StreamPiece]:
        """Pieces of the first stripe that its runs cannot go on without and that nobody has asked for."""
        with self._lock:
            if not self._stripes:
                return []
            heads = [feed.head for run in self._stripes[0].runs if not run.busy for feed in run.starved]
            return [head for head in heads if head is not None and not head.asked]

    def deliver(self) -> Delivery | None:
        """The next rows, once all columns have them; None: not yet.

        Raises what made a column fail whose rows come next.
        """
        with self._lock:
            self._drop_delivered()
            if not self._stripes:
                return None
            stripe = self._stripes[0]
            if stripe.lagging:
                for run in stripe.runs:
                    if run.error is not None and run.row < stripe.bounds[0]:
                        raise run.error
                return None
            start = stripe.delivered
            stop = min(
                stripe.bounds[0], stripe.span_stop(start), *(run.segments[0].stop for run in stripe.runs)
            )
            vectors = tuple(self._cut(run, start, stop) for run in stripe.runs)
            delivery = Delivery(stripe, stripe.stripe_row(start), vectors, stop - start)
            stripe.delivered = stop
            if stop == stripe.bounds[0]:
                stripe.bounds.popleft()
                self._open_window(stripe)
            self._drop_delivered()
            return delivery

    def _drop_delivered(self) -> None:
        """Make the stripe whose rows come next the first, at once: only that is served whatever it takes."""
        while self._stripes and self._stripes[0].delivered == self._stripes[0].row_count:
            self._stripes.popleft().runs.clear()  # they know it, and would wait for the garbage collector
            self._budget.first_chunks = self._stripes[0].chunk_bytes if self._stripes else 0
            if self._stripes:
                waiting, self._stripes[0].waiting = self._stripes[0].waiting, []
                for run in waiting:
                    self._push(run)
            self._on_progress()

    def _cut(self, run: ColumnRun, start: int, stop: int) -> Vector:
        segment = run.segments[0]
        if stop == segment.stop:
            del run.segments[0]
            self._budget.decoded -= segment.size
        return segment.vector.slice(start - segment.start, stop - segment.start)

    # --- what workers do ---------------------------------------------------------------------------

    def work(self) -> None:
        """Decode until nothing is to be done; for a worker thread."""
        with self._lock:
            decompressor = (
                self._decompressors.pop() if self._decompressors else Decompressor(self._compression)
            )
            task = self._next()
        while task is not None:
            run, rows, budget, room = task
            started = time.perf_counter()
            error: BaseException | None = None
            vector: Vector | None = None
            turn = Turn(decompressor, room)
            try:
                vector = self._decode(run, rows, budget, turn)
            except Exception as caught:  # noqa: BLE001  # raised to the consumer, whatever it is
                error = caught
            is_short = self._budget.chunk_room.is_short
            chunk_bytes = run.held_bytes(trim=is_short)
            if is_short:
                release_retained()  # what was trimmed takes memory in the pool, too
            stopped = time.perf_counter()
            if self._observer is not None:
                done = vector.length if vector is not None else 0
                stripe, column = run.stripe.information.index, run.decoder.type.column_id
                self._observer.on_decode(DecodeSpan(stripe, column, done, started, stopped))
            with self._lock:
                self.decode_s += stopped - started
                if not self._closed:
                    self._charge_dictionaries(run, room - turn.dictionary_limit)
                    error = self._charge_chunks(run, chunk_bytes) or error
                progress = self._finish(run, rows, vector, turn, error)
                task = self._next()
            if progress:
                self._on_progress()
        with self._lock:
            self._decompressors.append(decompressor)

    def _decode(self, run: ColumnRun, rows: int, budget: int, turn: Turn) -> Vector | None:
        """Up to `rows` rows of a run; None when a stream ran dry before that."""
        try:
            run.enter_span()
            while run.rows_to_drop:
                most = min(run.rows_to_drop, max(rows, _DROPPED_ROWS))
                # The budget of the wanted rows may be that of a single one.
                passed = self._ready(run, most, max(budget, self._share(run)), turn)
                if passed == 0 or self._closed:
                    return None
                run.decoder.take(passed)
                run.rows_to_drop -= passed
            ready = self._ready(run, rows, budget, turn)
            return run.decoder.take(ready) if ready else None
        except OrcError as error:
            if error.row is not None:
                # Decoders count the rows of their own column: children's are not the file's.
                own = error.column == run.decoder.type.column_id
                row = run.stripe.stripe_row(run.row) - run.rows_to_drop + error.row
                error.row = run.stripe.information.first_row + row if own else None
            error.locate(stripe=run.stripe.information.index, column=run.decoder.type.column_id)
            raise

    def _ready(self, run: ColumnRun, rows: int, budget: int, turn: Turn) -> int:
        """How many of the next `rows` rows can be taken; 0 when a stream ran dry."""
        decoder = run.decoder
        ready = decoder.ready(rows, None, budget, turn)
        if turn.starved:
            return 0
        if ready == 0:
            # Not even one row fits its share; it may have all that the user allows, in any of its leaves.
            ready = decoder.ready(1, None, self._budget.limit * decoder.leaf_count, turn)
            if turn.starved:
                return 0
            if ready == 0:
                raise Unsupported(
                    f"one row decodes to more than {self._budget.limit} bytes; raise memory_limit=",
                    reason="row_too_large",
                    column=decoder.type.column_id,
                    row=0,
                )
        return ready

    def _finish(
        self, run: ColumnRun, rows: int, vector: Vector | None, turn: Turn, error: BaseException | None
    ) -> bool:
        """Book a worker's result; whether the loop has to look."""
        run.busy = False
        if self._closed:
            run.release()
            return False
        if error is not None:
            if self._lacks_room(run, error):
                run.stripe.waiting.append(run)
                return False
            run.error = error
            return True
        if vector is None:
            return self._park(run, turn)
        stripe = run.stripe
        size = vector_bytes(vector)
        guessed = bool(self._sizes.unknown)
        self._sizes.measure(run.index, size, vector.length)
        all_known = guessed and not self._sizes.unknown
        self._budget.decoded += size
        run.segments.append(Segment(run.row, vector, size))
        first_bound = stripe.bounds[0]
        lagged = run.row < first_bound
        run.advance(vector.length)
        if vector.length < rows:
            self._shorten(stripe, run.row)
        elif lagged and run.row >= first_bound:
            stripe.lagging -= 1
        if run.finished:
            self._charge_dictionaries(run, -run.dictionary_bytes)
            self._charge_chunks(run, 0)
            run.release()
        else:
            self._push(run)
        return stripe.lagging == 0 or all_known

    def _park(self, run: ColumnRun, turn: Turn) -> bool:
        dry = set(turn.starved)
        run.starved = []
        for feed in run.feeds:
            if feed.cursor.input not in dry:
                continue
            if feed.head is None:
                feed.reach_further(run.slop_bytes)
            if feed.pieces[0].arrived is None:
                run.starved.append(feed)
        if not run.starved:
            self._push(run)
            return False
        return True

    def _shorten(self, stripe: StripeRun, row: int) -> None:
        """End the window that holds `row` there: rows are larger than was thought."""
        bounds = [bound for bound in stripe.bounds if bound < row]
        stripe.bounds = deque([*bounds, row])
        stripe.count_lagging()

    def _open_window(self, stripe: StripeRun) -> None:
        """Make sure that there is a window to deliver next."""
        if not stripe.bounds and stripe.delivered < stripe.row_count:
            stripe.bounds.append(min(stripe.row_count, stripe.delivered + self._window_rows()))
        stripe.count_lagging()

    def _window_rows(self) -> int:
        fitting = self._budget.decoded_window_bytes / max(1.0, self._sizes.row())
        return max(1, min(self._batch_rows, int(fitting)))

    def _end_of_window(self, run: ColumnRun) -> int:
        """Where the window ends in which the run stands; opens windows further ahead as needed."""
        stripe = run.stripe
        for bound in stripe.bounds:
            if bound > run.row:
                return bound
        bound = min(stripe.row_count, max(run.row, stripe.bounds[-1]) + self._window_rows())
        stripe.bounds.append(bound)
        return bound

    def _push(self, run: ColumnRun) -> None:
        if run.busy or run.queued or run.error is not None or run.finished:
            return
        run.queued = True
        self._pushes += 1
        heappush(self._heap, (run.stripe.place, run.row, -run.weight, self._pushes, run))

    def _peek(self) -> ColumnRun | None:
        """The run to go on with, if it is admitted."""
        if not self._heap or self._closed:
            return None
        run = self._heap[0][-1]
        stripe = run.stripe
        opens_window = not stripe.bounds or run.row >= stripe.bounds[-1]
        if opens_window and self._sizes.unknown and len(stripe.bounds) >= _GUESSED_WINDOWS:
            return None
        if self._budget.decoded < self._budget.decode_limit and not self._budget.chunk_room.is_short:
            return run
        first = self._stripes[0]
        if stripe is not first:
            return None
        return run if run.row < stripe.bounds[0] else None

    def _next(self) -> tuple[ColumnRun, int, int, int] | None:
        """Take the next run: how many rows to decode, within how many bytes, with room for dictionaries."""
        run = self._peek()
        if run is None:
            return None
        heappop(self._heap)
        run.queued = False
        run.busy = True
        rows = min(self._end_of_window(run) - run.row, run.rows_left_in_span)
        return run, rows, self._column_budget(run, rows), self._dictionary_room(run.stripe)

    def _dictionary_room(self, stripe: StripeRun) -> int:
        """What later stripes hold already does not count for the first, or it could never go on."""
        held = stripe.dictionary_bytes if stripe is self._stripes[0] else self._budget.dictionaries
        return max(0, self._budget.dictionary_limit - held)

    def _charge_dictionaries(self, run: ColumnRun, size: int) -> None:
        run.dictionary_bytes += size
        run.stripe.dictionary_bytes += size
        self._budget.dictionaries += size

    def _charge_chunks(self, run: ColumnRun, size: int) -> OrcError | None:
        """Count the chunks that a run is in the middle of; what is wrong where its stripe has too many."""
        grown = size - run.chunk_bytes
        run.chunk_bytes = size
        run.stripe.chunk_bytes += grown
        self._budget.chunks += grown
        if run.stripe is self._stripes[0]:
            self._budget.first_chunks = run.stripe.chunk_bytes
        if grown <= 0 or run.stripe.chunk_bytes <= self._budget.chunk_room.left_for(self._budget):
            return None
        return Unsupported(
            f"the columns of a stripe have chunks of {run.stripe.chunk_bytes} bytes in progress; raise "
            "memory_limit=, or read fewer columns",
            reason="chunks_too_large",
            stripe=run.stripe.information.index,
        )

    def _lacks_room(self, run: ColumnRun, error: BaseException) -> bool:
        """Whether a dictionary may fit once the stripes before this one are delivered."""
        too_large = isinstance(error, Unsupported) and error.reason == "dictionary_too_large"
        return too_large and run.stripe is not self._stripes[0]

    def _column_budget(self, run: ColumnRun, rows: int) -> int:
        """Twice what is expected, but never less than an equal share of a window, nor more than two windows.

        A window that was opened when rows looked smaller has more of them than fit by now.
        """
        if run.decoder.is_fixed:
            return rows * run.decoder.row_bytes
        measured = self._sizes.is_measured(run.index)
        expected = int(2 * self._sizes.of(run.index) * rows) if measured else 0
        return max(self._share(run), min(expected, 2 * self._budget.decoded_window_bytes))

    def _share(self, run: ColumnRun) -> int:
        """The bytes of an equal share of a window."""
        return max(self._budget.decoded_window_bytes // len(run.stripe.runs), 1 << 16)
