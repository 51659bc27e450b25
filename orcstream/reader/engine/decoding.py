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
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from orcstream._buffer import release_retained
from orcstream.codec.decode._column import Permits, Stop, Turn, decode
from orcstream.codec.streams._codecs import Codec
from orcstream.codec.streams.compression import Compression, Decompressor
from orcstream.codec.vectors.column import Vector
from orcstream.errors import OrcError, Unsupported
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.jobs import CallSize, Job
from orcstream.reader.engine.runs import ColumnRun, RowSizes, Segment, StreamPiece, StripeRun
from orcstream.reader.engine.session import DecodeSpan, ReadObserver


@dataclass(frozen=True, slots=True)
class Delivery:
    """Decoded rows of one stripe: from row `start` of it on, one vector for each of its runs."""

    stripe: StripeRun
    start: int
    vectors: tuple[Vector, ...]
    row_count: int


# So many windows of a column at most: batches may be of one row.
_CALL_WINDOWS = 16
_LARGE_WINDOW_BYTES = 64 << 10  # of a column
# So many columns at most, of all calls at a time: of thousands, each holds some memory meanwhile.
_RUNS_AT_WORK = 256

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
        self._codecs: list[Codec] = []
        self.workers = 1  # as many as call `work` at a time
        self._working = 0  # as many as do so now
        self.permits = Permits(1)  # as many of them decode at a time
        self.calls = CallSize()
        self._planned = 0  # bytes that are expected of what workers have taken on
        self._stop = Stop()
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
                heads = [(feed, feed.head) for feed in run.feeds]
                run.starved = [feed for feed, head in heads if head is not None and head.arrived is None]
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
            self._stop.set()
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
            codec = self._codecs.pop() if self._codecs else Decompressor(self._compression)
            self._working += 1
            jobs, room = self._next()
        while jobs:
            started = stopped = time.perf_counter()
            try:
                most = min(self.calls.most_bytes, self._budget.decoded_window_bytes)
                started, stopped = self._decode(jobs, Turn(codec, room, most))
            except Exception as caught:  # noqa: BLE001  # there was no memory to begin with
                for job in jobs:
                    job.error = caught
            is_short = self._budget.chunk_room.is_short
            chunk_bytes = [job.run.held_bytes(trim=is_short) for job in jobs]
            if is_short:
                release_retained()  # what was trimmed takes memory in the pool, too
            if self._observer is not None:
                self._tell(self._observer, jobs, started, stopped)
            progress = False
            with self._lock:
                self.decode_s += stopped - started
                for job, held in zip(jobs, chunk_bytes, strict=True):
                    progress = self._book(job, held) or progress
                    job.let_go()
                jobs, room = self._next()
                progress = progress or (self._working < self.workers and self._peek() is not None)
            if progress:
                self._on_progress()
        with self._lock:
            self._codecs.append(codec)
            self._working -= 1

    def _decode(self, jobs: Sequence[Job], turn: Turn) -> tuple[float, float]:
        """Carry out jobs; returns when the decoders began and ended."""
        share, limit = self._share(jobs[0].run.stripe), self._budget.limit
        tasks = [task for job in jobs for task in job.begin(share, limit)]
        times = decode(tasks, turn, self._stop, self.permits)
        self.calls.note(time.perf_counter() - times[1])
        for job in jobs:
            job.end()
        return times

    @staticmethod
    def _tell(observer: ReadObserver, jobs: Sequence[Job], started: float, stopped: float) -> None:
        """Of columns that were decoded one after the other; what the call took besides is the last one's."""
        at = started
        for job in jobs:
            stripe, column = job.run.stripe.information.index, job.run.decoder.type.column_id
            done = sum(vector.length for vector in job.vectors)
            end = stopped if job is jobs[-1] else at + sum(task.seconds for task in job.tasks)
            observer.on_decode(DecodeSpan(stripe, column, done, at, end))
            at = end

    def _book(self, job: Job, held: int) -> bool:
        """Book a worker's result, with what its streams hold of chunks; whether the loop has to look."""
        run = job.run
        run.busy = False
        self._planned -= job.expected
        if self._closed:
            run.release()
            return False
        self._charge_dictionaries(run, sum(task.dictionary_bytes for task in job.tasks))
        too_many = self._charge_chunks(run, held)
        if too_many is not None:
            run.error = too_many
            return True
        news = False
        for task, (rows, _), vector in zip(job.tasks, job.windows, job.vectors, strict=False):
            news = self._keep(run, rows, vector, task.size) or news
        if job.error is not None:
            if self._lacks_room(job, job.error):
                if run.stripe is self._stripes[0]:
                    self._push(run)
                else:
                    run.stripe.waiting.append(run)
                return news
            run.error = job.error
            return True
        if run.finished:
            self._charge_dictionaries(run, -run.dictionary_bytes)
            self._charge_chunks(run, 0)
            run.release()
        elif len(job.vectors) < len(job.tasks):
            return self._park(run) or news
        else:
            self._push(run)
        return news

    def _keep(self, run: ColumnRun, rows: int, vector: Vector, size: int) -> bool:
        """Keep a vector, of which `rows` were asked, for its delivery; whether the loop has to look."""
        stripe = run.stripe
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
        return stripe.lagging == 0 or all_known

    def _park(self, run: ColumnRun) -> bool:
        run.starved = []
        for feed in run.feeds:
            if not feed.cursor.input.is_dry:
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

    def _end_of_window(self, stripe: StripeRun, row: int) -> int:
        """Where the window ends in which a row stands; opens windows further ahead as needed."""
        if stripe.bounds[-1] > row:
            return stripe.bounds[bisect_right(stripe.bounds, row)]
        bound = min(stripe.row_count, max(row, stripe.bounds[-1]) + self._window_rows())
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
        budget = self._budget
        if budget.decoded + self._planned < budget.decode_limit and not budget.chunk_room.is_short:
            return run
        first = self._stripes[0]
        if stripe is not first:
            return None
        return run if run.row < stripe.bounds[0] else None

    def _next(self) -> tuple[list[Job], int]:
        """Take on the next runs: what to decode of them, with room for dictionaries.

        As many as are worth a call, since each waits for whoever runs Python; and of a stripe no more than a
        worker's part.
        """
        jobs: list[Job] = []
        room = most = size = reach = larger = call_bytes = 0
        while (run := self._peek()) is not None:
            stripe = run.stripe
            if not jobs:
                room = self._dictionary_room(stripe)
                most = -(-min(_RUNS_AT_WORK, len(stripe.runs)) // self.workers)
                most = min(most, self._fair_count())
                call_bytes = self._worth_a_call(run)
            elif stripe is not jobs[0].run.stripe or len(jobs) >= most or larger >= call_bytes:
                break
            heappop(self._heap)
            run.queued = False
            run.busy = True
            job = Job(run, run.row, is_first=stripe is self._stripes[0])
            jobs.append(job)
            size += self._add_window(job)
            reach += max(0, run.chunk_reach - run.chunk_bytes)
            larger = max(size, reach)
        # The first rows of a read shall come soon.
        if jobs and (self._added > 1 or jobs[0].run.stripe.delivered):
            self._go_further(jobs, size, call_bytes)
        return jobs, room

    def _fair_count(self) -> int:
        """How many of the runs that are furthest behind one worker takes, if others have nothing to do.

        All, where their chunks are large: those of few columns at a time shall be in progress.
        """
        idle = self.workers - self._working
        if not idle or 4 * self._heap[0][-1].chunk_reach > self.calls.most_bytes:
            return len(self._heap)
        furthest = self._heap[0][:2]
        return -(-sum(entry[:2] == furthest for entry in self._heap) // (1 + idle))

    def _worth_a_call(self, run: ColumnRun) -> int:
        """So many bytes; fewer of the last rows, or one worker would be at them when all others are done."""
        stripe = run.stripe
        if stripe is not self._stripes[-1] or self.workers == 1:
            return self.calls.most_bytes
        left = self._sizes.row() * (stripe.row_count - run.row)
        return self.calls.share_of(left, 2 * self.workers)

    def _add_window(self, job: Job) -> int:
        """Add the next window of the job's span; answers how many bytes are expected of it."""
        run = job.run
        stop = min(self._end_of_window(run.stripe, job.stop), run.stripe.span_stops[run.span])
        rows = stop - job.stop
        expected = int(self._sizes.of(run.index) * rows)
        job.windows.append((rows, self._column_budget(run, rows)))
        job.stop = stop
        job.expected += expected
        self._planned += expected
        return expected

    def _go_further(self, jobs: Sequence[Job], size: int, call_bytes: int) -> None:
        """Add windows, as many as are worth a call, while they fit and leave room for other workers."""
        budget = self._budget
        most = min(call_bytes, budget.decode_limit // (2 * self.workers))
        # The objects of small vectors take memory that is not counted.
        limit = budget.decode_limit if size >= len(jobs) * _LARGE_WINDOW_BYTES else budget.decode_limit // 4
        for _ in range(0 if self._sizes.unknown else _CALL_WINDOWS):
            for job in jobs:
                has_room = budget.decoded + self._planned < limit
                if size >= most or not has_room or job.stop >= job.run.stripe.span_stops[job.run.span]:
                    return
                size += self._add_window(job)

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

    @staticmethod
    def _lacks_room(job: Job, error: BaseException) -> bool:
        """Whether a dictionary may fit once the stripes before its own are delivered, or since they were."""
        return not job.is_first and isinstance(error, Unsupported) and error.reason == "dictionary_too_large"

    def _column_budget(self, run: ColumnRun, rows: int) -> int:
        """Twice what is expected, but never less than an equal share of a window, nor more than two windows.

        A window that was opened when rows looked smaller has more of them than fit by now.
        """
        if run.decoder.is_fixed:
            return rows * run.decoder.row_bytes
        measured = self._sizes.is_measured(run.index)
        expected = int(2 * self._sizes.of(run.index) * rows) if measured else 0
        return max(self._share(run.stripe), min(expected, 2 * self._budget.decoded_window_bytes))

    def _share(self, stripe: StripeRun) -> int:
        """The bytes of a column's equal share of a window."""
        return max(self._budget.decoded_window_bytes // len(stripe.runs), 1 << 16)
