"""Fetching and decoding put together: stripes in, decoded rows out, in row order, within a budget.

Knows how fetcher, queue and workers wake each other. Must not know batches, predicates or the consumer. A
read has one pipeline, or two where the columns of a predicate come first; they share requests and threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.abc

from orcstream.errors import UsageError
from orcstream.io.loop.tasks import Signal
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.request.scheduler import FetchScheduler
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue, Delivery
from orcstream.reader.engine.fetching import Fetcher, FetchPlan, PipelineOptions
from orcstream.reader.engine.stripes import StripeWork


class Pipeline:
    """See the module. `fetcher` is there once it runs."""

    def __init__(self, options: PipelineOptions) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._progress = Signal()  # for the consumer
        self._work = Signal()  # for the workers
        self._notified = False
        self._failure: Exception | None = None
        self._stopped = False
        self.budget = MemoryBudget(options.memory_limit, options.chunk_room, self._notify)
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
        limiter: anyio.CapacityLimiter,
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
        for _ in range(int(limiter.total_tokens)):
            tasks.start_soon(self._decode, limiter)
        tasks.start_soon(self.fetcher.run)
        self.wake()

    async def _decode(self, limiter: anyio.CapacityLimiter) -> None:
        while True:
            if self.queue.has_work():
                await run_in_thread(self.queue.work, limiter=limiter)
            else:
                await self._work.wait()

    async def next(self) -> Delivery | None:
        """The next decoded rows, or None at the end."""
        while True:
            delivery = self.queue.deliver()
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
        self._work.notify()
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

    def stop(self) -> None:
        """Let go of everything; nothing more is decoded."""
        self.queue.close()
        if self.fetcher is not None:
            self.fetcher.close()
        self._stopped = True
        self._progress.notify()
