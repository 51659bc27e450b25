"""A stream of batches: fetching, decoding and delivery put together, and their life time.

Knows how the parts meet. The tasks run in the file's supervisor, never in the consumer's task: a stream
may be opened in one task and left in another, and no `yield` stands inside a task group. Leaving `async
with`, the end of the rows, closing the file and dropping the stream all stop them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

import anyio
import anyio.abc
import anyio.lowlevel

from orcstream.batch import Batch, BatchSchema
from orcstream.byterange import ByteRange
from orcstream.codec.arrow._arrow_c import export_schema
from orcstream.errors import OrcError, UsageError, out_of_memory
from orcstream.io.contract.byte_source import ByteSource
from orcstream.io.loop.tasks import Closable, OneTask, first_failure
from orcstream.io.loop.threads import run_in_thread
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.request.scheduler import FetchScheduler, TaskStarter
from orcstream.reader.engine.decoding import Delivery
from orcstream.reader.engine.fetching import StripeWork
from orcstream.reader.engine.observing import Watch
from orcstream.reader.engine.pipeline import Pipeline, PipelineOptions
from orcstream.reader.engine.read_statistics import PrunedRows, ReadStatistics
from orcstream.reader.engine.shaping import Shaped, Shaper
from orcstream.schema.schema import Schema

if TYPE_CHECKING:
    from orcstream.reader.engine.late import LatePlan, LateReading


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """All that a stream is to read, and how.

    `works` answers the stripes to read, given the bytes of `statistics_range` where that is not None: the
    statistics of stripes, which did not come with the tail and may spare reading some; it `takes_long` where
    there are many of them. `late` is there where the columns of the predicate come first, `watch` where
    somebody watches.
    """

    source: ByteSource
    scheduler: Callable[[TaskStarter], FetchScheduler]
    schema: BatchSchema
    works: Callable[[memoryview | None], Sequence[StripeWork]]
    statistics_range: ByteRange | None
    takes_long: bool
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
    shaped: Shaped | None = None
    error: Exception | None = field(
        default_factory=lambda: UsageError("the file was closed while it was read")
    )


class Reading:
    """The running part of a stream. It does not know the stream: dropping that one can stop this one."""

    def __init__(self, plan: ReadingPlan) -> None:
        self.plan = plan
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._started = self._has_begun = False
        self._scheduler: FetchScheduler | None = None
        self._pipeline = Pipeline(plan.pipeline)
        self._late: LateReading | None = None
        if plan.late is not None:
            from orcstream.reader.engine.late import LateReading

            self._late = LateReading(plan.late, self._pipeline, plan.pruned)
        self._group: anyio.abc.TaskGroup | None = None
        self._shaping: _Shaping | None = None
        self._error: Exception | None = None
        self.row_count = self.batch_count = 0

    # --- tasks -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch and decode until stopped; for the file's supervisor."""
        if self._scope.cancel_called:
            self._end_watch()
            return  # nobody waits for it
        self._has_begun = True
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._group = tasks
                    self._scheduler = self.plan.scheduler(tasks)
                    await self._run(tasks, self._scheduler)
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            self._error = first_failure(error)
            self._pipeline.fail(self._error)
        finally:
            if self._scheduler is not None:
                self._scheduler.close()
            self._stop_pipelines()
            if self._shaping is not None:
                self._shaping.done.set()  # a loop that ends may not have begun with it
            self._end_watch()
            self._finished.set()

    def _end_watch(self) -> None:
        if self.plan.watch is not None:
            self.plan.watch.end(self.statistics(), self._error)

    async def _run(self, tasks: anyio.abc.TaskGroup, scheduler: FetchScheduler) -> None:
        works = await self._works(scheduler)
        limiter = anyio.CapacityLimiter(self.plan.decode_threads)
        verify = self.plan.source.verify
        if self._late is None:
            self._pipeline.start(tasks, scheduler, works, verify, limiter)
        else:
            self._pipeline.start(tasks, scheduler, None, verify, limiter)
            self._late.start(tasks, scheduler, works, verify, limiter)

    async def _works(self, scheduler: FetchScheduler) -> Sequence[StripeWork]:
        wanted, data = self.plan.statistics_range, None
        if wanted is not None:
            data = await scheduler.submit(wanted, 0, label="statistics").wait()
            await self.plan.source.verify()
        if self.plan.takes_long:  # other tasks of the loop would wait
            return await run_in_thread(lambda: self.plan.works(data))
        return self.plan.works(data)

    # --- the consumer's side -----------------------------------------------------------------------

    def start(self, tasks: TaskStarter) -> None:
        if not self._started:
            try:
                tasks.start_soon(self.run, name="orcstream read")
            except RuntimeError:  # the group has ended
                raise UsageError("the file is closed") from None
            self._started = True
            if self.plan.watch is not None:
                self.plan.watch.begin()

    async def next(self) -> Batch | None:
        """The next batch, or None at the end. Of a step that is cancelled, the next one misses no row."""
        shaper = self.plan.shaper
        while True:
            if self._shaping is None:
                delivery = await self._next_delivery()
                if delivery is None:
                    last = shaper.finish()
                    return self._batch(last) if last is not None else None
                if shaper.is_plain:
                    self._pipeline.wake()
                    return self._batch(shaper.pass_on(delivery))
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
            if shaping.shaped is not None:
                return self._batch(shaping.shaped)

    async def _next_delivery(self) -> Delivery | None:
        """What comes out of the pipeline; None at the end, and where rows before a failure are left over."""
        try:
            return await self._pipeline.next()
        except Exception:
            if self.plan.shaper.has_rows and not self._scope.cancel_called:
                return None  # the failure is raised again by the next step
            raise

    async def _shape(self, delivery: Delivery, shaping: _Shaping) -> None:
        try:
            shaping.shaped = await run_in_thread(lambda: self.plan.shaper.shape(delivery))
            shaping.error = None
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            shaping.error = error
        finally:
            shaping.done.set()
            self._pipeline.wake()

    def _batch(self, shaped: Shaped) -> Batch:
        self.row_count += shaped.row_count
        self.batch_count += 1
        return Batch(self.plan.schema, shaped.vectors, shaped.row_count)

    def fail(self, error: Exception) -> None:
        """The rows end with this error: nothing more is fetched, and every later step raises it."""
        self._error = self._error or error
        self._pipeline.fail(error)
        self.stop()

    def stop(self) -> None:
        """Cancel everything that is under way; may be called again."""
        self._stop_pipelines()
        self._scope.cancel()

    def _stop_pipelines(self) -> None:
        if self._late is not None:
            self._late.stop()
        self._pipeline.stop()

    def stop_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self.stop)

    async def wait_stopped(self) -> None:
        # Tasks that have not begun when their loop ends never do; they do nothing once they are stopped.
        if self._has_begun:
            await until_over(self._finished.wait())

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


More: TypeAlias = Callable[[int], Awaitable[bool]]


class BatchStream(Closable):
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
        self._owner = owner  # the file stays open while one of its streams is in use
        self._make_plan = make_plan
        self._plans_long = plans_long
        self._more = more
        self._is_drained = False
        self._begun: Reading | None = None
        self._row_count = 0
        if not plans_long:
            self._begin(make_plan(0))
        self._past: list[ReadStatistics] = []
        self._tasks = tasks
        self._url = url
        self._one_task = OneTask("two tasks use one stream; give each its own", url)
        self._ended = self._closed = False
        self._looking: anyio.CancelScope | None = None  # for more rows

    def _begin(self, planned: tuple[ReadingPlan, int]) -> Reading:
        plan, self._row_count = planned
        self._begun = Reading(plan)
        return self._begun

    @property
    def _reading(self) -> Reading:
        """What runs; planned at once where somebody asks before the first step."""
        return self._begun or self._begin(self._make_plan(0))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "ended" if self._ended else "open"
        columns = f"{len(self.schema)} columns, " if self._begun is not None else ""
        return f"<BatchStream of {self._url}: {columns}{state}>"

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that are read."""
        return self._reading.plan.schema.schema

    @property
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that are read."""
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

    def __arrow_c_schema__(self) -> object:
        return export_schema(self.batch_schema.root)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        with self._one_task:
            if self._ended:
                raise StopAsyncIteration
            try:
                # Ready batches would keep every other task waiting. A cancellation here loses nothing.
                await anyio.lowlevel.checkpoint()
                batch = await self._next()
            except MemoryError as error:
                refusal = out_of_memory(error).locate(url=self._url)
                self._fail(refusal)
                raise refusal from error
            except Exception as error:
                self._fail(error)
                if isinstance(error, OrcError):
                    error.locate(url=self._url)
                raise
        if batch is None:
            self._ended = True
            await self._stop()
            raise StopAsyncIteration
        return batch

    def _fail(self, error: Exception) -> None:
        if self._begun is not None:  # else the next step plans again, and fails again
            self._begun.fail(error)

    async def _stop(self) -> None:
        if self._begun is not None:
            self._begun.stop()
            await self._begun.wait_stopped()

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
                reading = self._begun or await self._planned(0)
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
        before = self._begun
        await self._planned(row)
        if before is not None:
            self._past.append(before.statistics())
        self._is_drained = False

    async def seek(self, row: int) -> None:
        """Go on with row `row` of the file, backwards too; with the first one after it that the read wants.

        Costs two hops, less where what is needed came with the tail. Raises `UsageError` for a row that the
        file has not, but for the one after the last, where the stream ends.
        """
        with self._one_task:
            if self._closed:
                raise UsageError("the stream is closed", url=self._url)
            if self._begun is None:
                await self._planned(0)
            if type(row) is not int or not 0 <= row <= self._row_count:
                raise UsageError(f"no row {row!r}: the file has {self._row_count}", url=self._url)
            await self._restart(row)
            self._ended = False

    async def aclose(self) -> None:
        """Stop fetching and decoding, and wait until nothing of it is left."""
        self._ended = self._closed = True
        if self._looking is not None:
            self._looking.cancel()
        await self._stop()

    def _was_closed(self) -> UsageError:
        return UsageError("the stream was closed while it was read", url=self._url)

    async def __aenter__(self) -> Self:
        if self._plans_long and self._begun is None and not self._closed:
            await self._planned(0)  # or whoever asks for the schema before the first step would hold the loop
        return self

    def __del__(self) -> None:
        reading = getattr(self, "_begun", None)
        if reading is not None and not self._ended:
            reading.stop_from_any_thread()
