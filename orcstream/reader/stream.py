"""A stream of batches: fetching, decoding and delivery put together, and their life time.

Knows how the parts meet. The tasks run in the file's supervisor, never in the consumer's task: a stream
may be opened in one task and left in another, and no `yield` stands inside a task group. Leaving `async
with`, the end of the rows, closing the file and dropping the stream all stop them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

import anyio
import anyio.abc

from orcstream.batch import Batch, BatchSchema
from orcstream.byterange import ByteRange
from orcstream.errors import UsageError, located
from orcstream.file.unlocking import UnlockedFile
from orcstream.io.loop.tasks import OneTask, R, Running, Stream, TaskStarter
from orcstream.io.loop.uncancelled import called, run_in_thread
from orcstream.io.request.scheduler import FetchScheduler
from orcstream.plan.selection import RowGroups, Rows, count_rows, wanted_in
from orcstream.reader.engine.decoding import Delivery
from orcstream.reader.engine.fetching import PipelineOptions
from orcstream.reader.engine.pipeline import DecodeThreads, Gathering, Pipeline, Shaper
from orcstream.reader.engine.session import PrunedRows, ReadStatistics, Session, Watch
from orcstream.reader.engine.stripes import StripeWork
from orcstream.schema.schema import Schema

if TYPE_CHECKING:
    from orcstream.reader.engine.late import LatePlan, LateReading
    from orcstream.reader.engine.pruning import Pruner


# Parsing one takes about a microsecond, and so does choosing a stripe.
_MANY_STATISTICS = 1 << 14


@dataclass(frozen=True, slots=True)
class StripeChoice:
    """The stripes that have some of `rows` and may have a match; `pruner` knows the predicate."""

    file: UnlockedFile
    url: str
    rows: Rows | None
    pruner: Pruner | None
    pruned: PrunedRows

    @property
    def statistics_range(self) -> ByteRange | None:
        """Where statistics of stripes are that may spare reading some, and did not come with the tail."""
        file, pruner = self.file, self.pruner
        if pruner is None or file.held_statistics is not None or len(file.tail.footer.stripes) < 2:
            return None
        if not pruner.file_matches:
            return None
        return file.statistics_range if file.statistics_range.length else None

    @property
    def takes_long(self) -> bool:
        """Whether `works` is for a thread: of many stripes, or with a predicate of many statistics."""
        footer = self.file.tail.footer
        each = 1 if self.pruner is None else footer.schema.column_count
        return len(footer.stripes) * each > _MANY_STATISTICS

    def works(self, statistics: memoryview | None) -> list[StripeWork]:
        """The stripes to read, given the bytes of `statistics_range` where that is not None."""
        footer, rows, pruner = self.file.tail.footer, self.rows, self.pruner
        with located(url=self.url):
            if pruner is not None and not pruner.file_matches:
                self.pruned.by_file += footer.row_count if rows is None else count_rows(rows)
                return []
            keep = [True] * len(footer.stripes)
            if pruner is not None:
                data = self.file.held_statistics if statistics is None else statistics
                if data is not None and len(footer.stripes) > 1:
                    keep = pruner.stripes(self.file.stripe_statistics(memoryview(data)))
        works: list[StripeWork] = []
        for stripe, may_match in zip(footer.stripes, keep, strict=True):
            wanted = None if rows is None else wanted_in(rows, stripe.first_row, stripe.row_count)
            if wanted == []:
                continue
            if not may_match:
                self.pruned.by_stripe += stripe.row_count if wanted is None else count_rows(wanted)
                continue
            if wanted == [(0, stripe.row_count)]:
                wanted = None
            groups = RowGroups(stripe.row_count, footer.row_index_stride)
            selects = pruner is not None or (wanted is not None and groups.count > 1)
            works.append(StripeWork(len(works), stripe, wanted, selects and stripe.index_length > 0))
        return works


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """All that a stream is to read, and how.

    `late` is there where the columns of the predicate come first, `watch` where somebody watches.
    """

    session: Session
    schema: BatchSchema
    stripes: StripeChoice
    pipeline: PipelineOptions
    shaper: Shaper
    pruned: PrunedRows
    decode_threads: int
    late: LatePlan | None = None
    watch: Watch | None = None


@dataclass(slots=True)
class _Shaping:
    """Decoded rows on their way to a batch: what became of them, once that is known."""

    done: anyio.Event
    batch: Batch | None = None
    error: Exception | None = field(
        default_factory=lambda: UsageError("the file was closed while it was read")
    )


class Reading(Running):
    """The running part of a stream of batches."""

    name, owner = "orcstream read", "file"

    def __init__(self, plan: ReadingPlan) -> None:
        super().__init__()
        self.plan = plan
        self._scheduler: FetchScheduler | None = None
        self._pipeline = Pipeline(plan.pipeline)
        self._late: LateReading | None = None
        if plan.late is not None:
            from orcstream.reader.engine.late import LateReading

            self._late = LateReading(plan.late, self._pipeline, plan.pruned)
        self._group: anyio.abc.TaskGroup | None = None
        self._shaping: _Shaping | None = None
        self.row_count = self.batch_count = 0

    # --- tasks -------------------------------------------------------------------------------------

    def start(self, tasks: TaskStarter) -> None:
        if not self._is_started:
            super().start(tasks)
            if self.plan.watch is not None:
                self.plan.watch.begin()

    async def _work(self) -> None:
        """Fetch and decode until stopped."""
        async with anyio.create_task_group() as tasks:
            self._group = tasks
            self._scheduler = scheduler = self.plan.session.scheduler(tasks, self.plan.watch)
            works = await self._works(scheduler)
            threads = DecodeThreads(self.plan.decode_threads)
            verify = self.plan.session.source.verify
            if self._late is None:
                self._pipeline.start(tasks, scheduler, works, verify, threads)
            else:
                self._pipeline.start(tasks, scheduler, None, verify, threads)
                self._late.start(tasks, scheduler, works, verify, threads)

    def _end(self) -> None:
        if self._error is not None:
            self._pipeline.fail(self._error)
        if self._scheduler is not None:
            self._scheduler.close()
        self._stop_pipelines()
        if self._shaping is not None:
            self._shaping.done.set()  # a loop that ends may not have begun with it
        if self.plan.watch is not None:
            self.plan.watch.end(self.statistics(), self._error)

    async def _works(self, scheduler: FetchScheduler) -> Sequence[StripeWork]:
        stripes, data = self.plan.stripes, None
        wanted = stripes.statistics_range
        if wanted is not None:
            data = await scheduler.submit(wanted, 0, label="statistics").wait()
            await self.plan.session.source.verify()
        return await called(lambda: stripes.works(data), is_large=stripes.takes_long)

    # --- the consumer's side -----------------------------------------------------------------------

    async def next(self) -> Batch | None:
        """The next batch, or None at the end. Of a step that is cancelled, the next one misses no row."""
        shaper = self.plan.shaper
        while True:
            if self._shaping is None:
                delivery = await self._next_delivery()
                if delivery is None:
                    if not (shaper.rest.is_wide and shaper.rest.has_rows):
                        return self._counted(shaper.rest.finish())
                    await self._gather(shaper.rest)
                    continue
                if shaper.is_plain:
                    self._pipeline.wake()
                    return self._counted(shaper.pass_on(delivery))
                # In the read's own tasks: whoever waits for it may stop to do so.
                self._shaping = _Shaping(anyio.Event())
                assert self._group is not None
                self._group.start_soon(self._shape, delivery, self._shaping)
                del delivery
            if not self._shaping.done.is_set():
                await self._shaping.done.wait()
            shaping, self._shaping = self._shaping, None
            if shaping.error is not None:
                raise shaping.error
            if shaping.batch is not None:
                return self._counted(shaping.batch)

    async def _next_delivery(self) -> Delivery | None:
        """What comes out of the pipeline; None at the end, and where rows before a failure are left over."""
        try:
            return await self._pipeline.next()
        except Exception:
            if self.plan.shaper.rest.has_rows and not self._scope.cancel_called:
                return None  # the failure is raised again by the next step
            raise

    async def _gather(self, rest: Gathering) -> None:
        """Put together what is left over; for the next step, where this one is cancelled meanwhile."""
        shaping = _Shaping(anyio.Event())

        def gather() -> None:
            shaping.batch = rest.finish()
            shaping.error = None

        try:
            await run_in_thread(gather)
        finally:
            if shaping.error is None:
                shaping.done.set()
                self._shaping = shaping

    async def _shape(self, delivery: Delivery, shaping: _Shaping) -> None:
        try:
            shaping.batch = await run_in_thread(lambda: self.plan.shaper.shape(delivery))
            shaping.error = None
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            shaping.error = error
        finally:
            shaping.done.set()
            self._pipeline.wake()

    def _counted(self, batch: Batch | None) -> Batch | None:
        if batch is not None:
            self.row_count += batch.num_rows
            self.batch_count += 1
        return batch

    def stop(self) -> None:
        self._stop_pipelines()
        super().stop()

    def _stop_pipelines(self) -> None:
        if self._late is not None:
            self._late.stop()
        self._pipeline.stop()

    def statistics(self) -> ReadStatistics:
        fetched = self._scheduler.statistics() if self._scheduler is not None else None
        pipelines = [self._pipeline] if self._late is None else [self._late.pipeline, self._pipeline]
        plans = [pipeline.fetch_plan for pipeline in pipelines]
        pruned = self.plan.pruned
        return ReadStatistics(
            row_count=self.row_count,
            batch_count=self.batch_count,
            stripe_count=plans[0].stripe_count,
            request_count=fetched.request_count if fetched else 0,
            retry_count=fetched.retry_count if fetched else 0,
            hedge_count=fetched.hedge_count if fetched else 0,
            hop_count=fetched.hop_count if fetched else 0,
            bytes_wanted=sum(plan.wanted_bytes + plan.control_bytes for plan in plans),
            bytes_read=fetched.byte_count if fetched else 0,
            rows_pruned_by_file=pruned.by_file,
            rows_pruned_by_stripe=pruned.by_stripe,
            rows_pruned_by_row_group=pruned.by_row_group,
            rows_pruned_by_bloom=pruned.by_bloom,
            rows_filtered=pruned.filtered + self.plan.shaper.filtered_count,
            wait_s=self._pipeline.wait_s,
            decode_s=sum(pipeline.queue.decode_s for pipeline in pipelines),
            peak_fetched_bytes=sum(pipeline.budget.peak_fetched for pipeline in pipelines),
        )


class Batches(Stream[Batch, R]):
    """Batches of one schema, for one task at a time."""

    def __init__(self, owner: object, running: R | None, tasks: TaskStarter, url: str) -> None:
        super().__init__(running, url, OneTask("two tasks use one stream; give each its own", url))
        self._owner = owner  # the file or table stays open while one of its streams is in use
        self._tasks = tasks

    @property
    @abstractmethod
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that are read."""

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that are read."""
        return self.batch_schema.schema

    def __arrow_c_schema__(self) -> object:
        return self.batch_schema.__arrow_c_schema__()


More: TypeAlias = Callable[[int], Awaitable[bool]]


class BatchStream(Batches[Reading]):
    """Batches in row order: ``async for batch in stream``, best inside ``async with ... as stream``.

    Errors are raised at the step that needs the rows concerned, and at every later one. A stream is for one
    task at a time.
    """

    def __init__(
        self,
        owner: object,
        make_plan: Callable[[int], tuple[ReadingPlan, int]],
        tasks: TaskStarter,
        url: str,
        more: More | None,
        *,
        plans_long: bool,
    ) -> None:
        """`make_plan` plans a read from a row on, and answers how many rows the file has for it.

        Where it `plans_long`, the first step has it done on a thread; else it is done here. `more` waits for
        rows from a row on, and answers whether there are any; None where there never are.
        """
        super().__init__(owner, None, tasks, url)
        self._make_plan = make_plan
        self._plans_long = plans_long
        self._more = more
        self._is_drained = False
        self._row_count = 0
        if not plans_long:
            self._begin(make_plan(0))
        self._past: list[ReadStatistics] = []
        self._closed = False
        self._looking: anyio.CancelScope | None = None  # for more rows

    def _begin(self, planned: tuple[ReadingPlan, int]) -> Reading:
        plan, self._row_count = planned
        self._running = Reading(plan)
        return self._running

    @property
    def _reading(self) -> Reading:
        """What runs; planned at once where somebody asks before the first step."""
        return self._running or self._begin(self._make_plan(0))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "ended" if self._ended else "open"
        columns = f"{len(self.schema)} columns, " if self._running is not None else ""
        return f"<BatchStream of {self._url}: {columns}{state}>"

    @property
    def batch_schema(self) -> BatchSchema:
        return self._reading.plan.schema

    @property
    def masked_columns(self) -> tuple[str, ...]:
        """Dotted names of the encrypted columns whose key was not had: they hold what their masks left."""
        return self.batch_schema.masked

    @property
    def stats(self) -> ReadStatistics:
        """What was done so far, before and after any `seek`."""
        now = self._reading.statistics()
        for past in self._past:
            now = now + past
        return now

    async def _planned(self, row: int) -> Reading:
        if not self._plans_long:
            return self._begin(self._make_plan(row))
        planned = await run_in_thread(lambda: self._make_plan(row))
        if self._closed:  # meanwhile, by another task
            raise self._was_closed()
        return self._begin(planned)

    async def _next(self) -> Batch | None:
        while True:
            if not self._is_drained:
                reading = self._running or await self._planned(0)
                reading.start(self._tasks)
                batch = await reading.next()
                if batch is not None or self._more is None:
                    return batch
                self._is_drained = True
            if self._more is None or not await self._look(self._more):
                return None
            await self._restart(self._row_count)

    async def _look(self, more: More) -> bool:
        """Wait for more rows, until the stream is closed."""
        try:
            with anyio.CancelScope() as self._looking:
                return await more(self._row_count)
        finally:
            self._looking = None
        raise self._was_closed()

    async def _restart(self, row: int) -> None:
        await self._stop()
        if self._closed:  # meanwhile, by another task
            raise self._was_closed()
        before = self._running
        await self._planned(row)
        if before is not None:
            self._past.append(before.statistics())
        self._is_drained = False

    async def seek(self, row: int) -> None:
        """Go on with row `row` of the file, backwards too; with the first one after it that the read wants.

        Costs two hops, less where what is needed came with the tail. Raises `UsageError` for a row that the
        file has not, but for the one after the last, where the stream ends.
        """
        with self._guard:
            if self._closed:
                raise UsageError("the stream is closed", url=self._url)
            if self._running is None:
                await self._planned(0)
            if type(row) is not int or not 0 <= row <= self._row_count:
                raise UsageError(f"no row {row!r}: the file has {self._row_count}", url=self._url)
            await self._restart(row)
            self._ended, self._failure = False, None

    async def aclose(self) -> None:
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
        await super().aclose()

    def _was_closed(self) -> UsageError:
        return UsageError("the stream was closed while it was read", url=self._url)

    async def __aenter__(self) -> Self:
        if self._plans_long and self._running is None and not self._closed:
            await self._planned(0)  # or whoever asks for the schema before the first step would hold the loop
        return self
