"""One read of a file under way: fetching, decoding and delivery put together.

Knows how the parts meet. Its tasks run in the file's supervisor, never in the consumer's task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from orcstream.batch import Batch
from orcstream.errors import UsageError
from orcstream.io.loop.tasks import TaskStarter
from orcstream.io.loop.uncancelled import called, run_in_thread
from orcstream.io.request.scheduler import FetchScheduler, FetchStatistics
from orcstream.reader.engine.decoding import Delivery
from orcstream.reader.engine.pipeline import DecodeThreads, Gathering, Pipeline
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.engine.stripes import StripeWork
from orcstream.reader.planned import PlannedRead, ReadingPlan

if TYPE_CHECKING:
    from orcstream.reader.engine.late import LateReading


@dataclass(slots=True)
class _Shaping:
    """Decoded rows on their way to a batch: what became of them, once that is known."""

    done: anyio.Event
    batch: Batch | None = None
    error: Exception | None = field(
        default_factory=lambda: UsageError("the file was closed while it was read")
    )


class Reading(PlannedRead):
    """A read that fetches and decodes at the same time, in tasks and threads."""

    def __init__(self, plan: ReadingPlan) -> None:
        super().__init__(plan)
        self._scheduler: FetchScheduler | None = None
        self._pipeline = Pipeline(plan.pipeline)
        self._late: LateReading | None = None
        if plan.late is not None:
            from orcstream.reader.engine.late import LateReading

            self._late = LateReading(plan.late, self._pipeline, plan.pruned)
        self._group: anyio.abc.TaskGroup | None = None
        self._shaping: _Shaping | None = None

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

    def stop(self) -> None:
        self._stop_pipelines()
        super().stop()

    def _stop_pipelines(self) -> None:
        if self._late is not None:
            self._late.stop()
        self._pipeline.stop()

    def statistics(self) -> ReadStatistics:
        pipelines = [self._pipeline] if self._late is None else [self._late.pipeline, self._pipeline]
        plans = [pipeline.fetch_plan for pipeline in pipelines]
        fetched = self._scheduler.statistics() if self._scheduler is not None else FetchStatistics()
        return self.counted(
            stripe_count=plans[0].stripe_count,
            request_count=fetched.request_count,
            retry_count=fetched.retry_count,
            hedge_count=fetched.hedge_count,
            hop_count=fetched.hop_count,
            bytes_wanted=sum(plan.wanted_bytes + plan.control_bytes for plan in plans),
            bytes_read=fetched.byte_count,
            wait_s=self._pipeline.wait_s,
            decode_s=sum(pipeline.queue.decode_s for pipeline in pipelines),
            peak_fetched_bytes=sum(pipeline.budget.peak_fetched for pipeline in pipelines),
        )
