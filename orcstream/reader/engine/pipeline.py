"""From stripes to batches: fetching and decoding put together, and what is decoded brought to its form.

A `Pipeline` takes stripes and gives decoded rows, in row order, within a budget. It knows how fetcher,
queue and workers wake each other, and must not know batches, predicates or the consumer. A read has one, or
two where the columns of a predicate come first; they share requests and threads.

A `Shaper` makes batches of such rows: only those that are wanted, in the read's own columns. It knows exact
row choices, predicates, conversions and row numbers. It must not know how anything was fetched or decoded,
nor tasks: `shape` is synchronous and runs wherever it is called. Rows that are left over from several
windows are put together, so that a filter that keeps little does not hand out crumbs.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.abc
import numpy as np

from orcstream.batch import Batch, BatchSchema, ReadResult
from orcstream.codec.decode._column import Permits
from orcstream.codec.metadata.wire import AT_ONCE_COLUMNS
from orcstream.codec.vectors._selection import Selection, select_mask
from orcstream.codec.vectors.column import Field, Mask, Vector, nulls_of, vector_bytes
from orcstream.codec.vectors.gather import compact
from orcstream.errors import UsageError
from orcstream.io.loop.tasks import Signal, deferred
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.request.scheduler import FetchScheduler
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue, Delivery
from orcstream.reader.engine.fetching import Fetcher, FetchPlan, PipelineOptions
from orcstream.reader.engine.stripes import StripeWork

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from orcstream.codec.vectors.filter import RowFilter


Transform: TypeAlias = Callable[[Vector], Vector]


class DecodeThreads:
    """The threads of one read, of which `at_once` decode at a time. Its pipelines share them.

    Where calls wait for the interpreter's lock, there is one thread more: it decodes while another one, which
    is done with a call, waits.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.permits = Permits(at_once)
        self.limiter = anyio.CapacityLimiter(at_once + 1)


class Pipeline:
    """See the module. `fetcher` is there once it runs."""

    def __init__(self, options: PipelineOptions) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._progress = Signal()  # for the consumer
        self._work = Signal()  # for the workers
        self._notified = False
        self._start_spare: Callable[[], None] | None = None
        self._at_work = 0  # workers that are called
        self._failure: Exception | None = None
        self._stopped = False
        self.budget = MemoryBudget(options.memory_limit, options.chunk_room, self._notify_fetcher)
        self.queue = DecodeQueue(
            compression=options.compression,
            batch_rows=options.batch_rows,
            column_count=options.column_count,
            budget=self.budget,
            on_progress=self._notify,
            observer=options.observer,
        )
        self.fetcher: Fetcher | None = None
        self.wait_s = 0.0

    @property
    def fetch_plan(self) -> FetchPlan:
        return self.fetcher.plan if self.fetcher is not None else FetchPlan()

    def start(
        self,
        tasks: anyio.abc.TaskGroup,
        scheduler: FetchScheduler,
        works: Sequence[StripeWork] | None,
        verify: Callable[[], Awaitable[None]],
        threads: DecodeThreads,
    ) -> None:
        """Begin with `works`; with none yet where they are None, and come through `fetcher.add`."""
        self.fetcher = Fetcher(
            self._options,
            scheduler=scheduler,
            tasks=tasks,
            budget=self.budget,
            queue=self.queue,
            works=works,
            verify=verify,
            on_failure=self.fail,
            on_arrival=self.wake,
        )
        self.queue.workers, self.queue.permits = threads.at_once, threads.permits

        def start_worker() -> None:
            tasks.start_soon(deferred(self._decode), threads.limiter)

        self._start_spare = start_worker
        for _ in range(threads.at_once):
            start_worker()
        tasks.start_soon(deferred(self.fetcher.run))
        self.wake()

    async def _decode(self, limiter: anyio.CapacityLimiter) -> None:
        while True:
            if self.queue.has_work():
                self._at_work += 1
                await run_in_thread(self.queue.work, limiter=limiter)
                self._at_work -= 1
            else:
                await self._work.wait()

    async def next(self) -> Delivery | None:
        """The next decoded rows, or None at the end."""
        while True:
            head = self.queue.head()
            delivery = self.queue.deliver()
            if self.queue.head() is not head:
                self.wake()
            if delivery is not None:
                return delivery
            if self._failure is not None and self.queue.head() is None:
                raise self._failure
            if self._stopped:
                raise UsageError("the file was closed while it was read")
            if self.fetcher is not None and self.fetcher.exhausted and self.queue.head() is None:
                return None
            began = self._loop.time()
            await self._progress.wait()
            self.wait_s += self._loop.time() - began

    def fail(self, error: Exception) -> None:
        """Raise this after the rows before it; what fails because of `stop` is nobody's failure."""
        if not self._stopped:
            self._failure = self._failure or error
            self.wake()

    def wake(self) -> None:
        """Something changed that workers or the consumer may have waited for; on the loop."""
        self._notified = False
        if self.queue.has_work():
            self._work.notify()
            all_work = self._at_work == self.queue.workers
            if all_work and self.queue.calls.is_crowded and self._start_spare is not None:
                self._start_spare()
                self._start_spare = None
                self.queue.workers += 1
        self._progress.notify()
        if self.fetcher is not None:
            self.fetcher.wake()

    def _notify(self) -> None:
        """`wake`, from any thread; many calls become one."""
        if not self._notified and not self._stopped:
            self._notified = True
            try:
                self._loop.call_soon_threadsafe(self.wake)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self._stopped = True

    def _notify_fetcher(self) -> None:
        """`wake`, from any thread, where windows wait for what was given back."""
        if self.fetcher is not None and self.fetcher.waiting:
            self._notify()

    def stop(self) -> None:
        """Let go of everything; nothing more is decoded."""
        self.queue.close()
        if self.fetcher is not None:
            self.fetcher.close()
        self._stopped = True
        self._progress.notify()


# --- shaping ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """Where a column comes from: the run at `source`, whose vectors are of the field `stored`, converted.

    Where the file has no such column, `source` is negative, and its rows are nulls of `stored`.
    """

    source: int = -1
    transform: Transform | None = None
    stored: Field | None = None

    def of(self, vectors: Sequence[Vector], row_count: int) -> Vector:
        if self.source < 0:
            assert self.stored is not None
            return nulls_of(self.stored, row_count)
        vector = vectors[self.source]
        return vector if self.transform is None else self.transform(vector)


@dataclass(frozen=True, slots=True)
class Filter:
    """A predicate, and the columns it looks at, in its order."""

    rows: RowFilter
    columns: Sequence[OutputColumn]

    def mask(self, vectors: Sequence[Vector], row_count: int) -> Mask:
        """Which rows match."""
        seen = [column.of(vectors, row_count) for column in self.columns]
        mask: Mask = np.frombuffer(memoryview(self.rows.evaluate(seen, row_count)), np.bool_)
        return mask


class Gathering:
    """Rows that are too few for a batch, put together until they are enough."""

    def __init__(self, schema: BatchSchema, batch_bytes: int) -> None:
        self._schema = schema
        self._batch_bytes = batch_bytes
        # Of thousands of columns, `add` and `finish` are for a thread.
        self.is_wide = schema.schema.column_count > AT_ONCE_COLUMNS
        self._parts: list[Batch] = []
        self._row_count = self._size = 0

    @property
    def has_rows(self) -> bool:
        """Whether some are left over."""
        return bool(self._parts)

    def add(self, rows: Batch, wanted: int) -> Batch | None:
        """A batch of at most `wanted` rows, of these and those before them; None while they are too few."""
        if not self._parts and 2 * rows.num_rows >= wanted:
            return rows
        found = self.finish() if self._row_count + rows.num_rows > wanted else None
        self._parts.append(rows)
        self._row_count += rows.num_rows
        self._size += sum(map(vector_bytes, rows.vectors))
        if found is None and (self._row_count >= wanted or self._size >= self._batch_bytes):
            return self.finish()
        return found

    def finish(self) -> Batch | None:
        """What is left over, as one batch."""
        parts, self._parts = self._parts, []
        row_count, self._row_count, self._size = self._row_count, 0, 0
        if len(parts) < 2:
            return parts[0] if parts else None
        vectors = tuple(
            compact([(part.vectors[index], None) for part in parts], field)
            for index, field in enumerate(self._schema.fields)
        )
        return Batch(self._schema, vectors, row_count)


class Shaper:
    """See the module. One for each stream; for one caller at a time."""

    def __init__(
        self,
        columns: Sequence[OutputColumn],
        schema: BatchSchema,
        *,
        filter: Filter | None = None,
        chooses_rows: bool = False,
        row_numbers: bool = False,
        batch_rows: int,
        batch_bytes: int,
    ) -> None:
        self._columns = tuple(columns)
        self._schema = schema
        self._filter = filter
        self._row_numbers = row_numbers
        self._chooses = filter is not None or chooses_rows
        self._batch_rows = batch_rows
        self.rest = Gathering(schema, batch_bytes)
        self.filtered_count = 0
        self.is_plain = not (
            self._chooses or row_numbers or any(c.source != i or c.transform for i, c in enumerate(columns))
        )

    def pass_on(self, delivery: Delivery) -> Batch:
        """All rows as they are, for a plain read."""
        return Batch(self._schema, columns_of(delivery), delivery.row_count)

    def shape(self, delivery: Delivery) -> Batch | None:
        """The next batch; None while too few rows are left over."""
        vectors = columns_of(delivery)
        shaped = self._choose(delivery, vectors, self._selection(delivery, vectors))
        if not self._chooses:
            return shaped
        return self.rest.add(shaped, self._batch_rows) if shaped.num_rows else None

    def _selection(self, delivery: Delivery, vectors: Sequence[Vector]) -> Selection | None:
        """Which rows are wanted; None for all."""
        mask: Mask | None = None
        asked = delivery.row_count
        if self._filter is not None and not delivery.stripe.is_filtered:
            mask = self._filter.mask(vectors, delivery.row_count)
        if delivery.stripe.choice is not None:
            chosen = delivery.stripe.choice.mask(delivery.start, delivery.row_count)
            asked = int(np.count_nonzero(chosen))
            mask = chosen if mask is None else mask & chosen
        if self._filter is not None and mask is not None and not delivery.stripe.is_filtered:
            self.filtered_count += asked - int(np.count_nonzero(mask))
        if mask is None or mask.all():
            return None
        return select_mask(mask, delivery.row_count)

    def _choose(self, delivery: Delivery, vectors: Sequence[Vector], selection: Selection | None) -> Batch:
        rows = delivery.row_count
        kept = rows if selection is None else selection.count
        if kept == 0:
            return Batch(self._schema, (), 0)
        chosen: list[Vector] = []
        for column, field in zip(self._columns, self._schema.fields, strict=False):
            if column.source < 0:
                chosen.append(column.of((), kept))
                continue
            vector = vectors[column.source]
            if selection is not None:
                # Before the conversion, which is spared the rows that are not wanted.
                vector = compact([(vector, selection)], column.stored or field)
            chosen.append(vector if column.transform is None else column.transform(vector))
        if self._row_numbers:
            first = delivery.stripe.information.first_row + delivery.start
            if selection is None:
                numbers: Buffer = np.arange(first, first + rows, dtype=np.int64).data
            else:
                numbers = selection.numbers(first)
            chosen.append(Vector(kept, (None, numbers), 0))
        return Batch(self._schema, tuple(chosen), kept)


def columns_of(delivery: Delivery) -> tuple[Vector, ...]:
    """The vectors of the columns, where the root itself was decoded too."""
    if not delivery.stripe.whole_root:
        return delivery.vectors
    return delivery.vectors[0].struct_children()


def take_rows(result: ReadResult, places: Sequence[int]) -> ReadResult:
    """The rows at `places` of a result, in that order."""
    starts = [0, *accumulate(batch.num_rows for batch in result.batches)]
    rows = [(at, place - starts[at]) for place in places for at in [bisect_right(starts, place) - 1]]
    vectors = tuple(
        compact([(result.batches[at].vectors[index].slice(row, row + 1), None) for at, row in rows], field)
        for index, field in enumerate(result.batch_schema.fields)
    )
    return ReadResult(result.batch_schema, [Batch(result.batch_schema, vectors, len(rows))] if rows else [])
