"""A stream of batches: fetching, decoding and delivery put together, and their life time.

Knows how the parts meet. The tasks run in the file's supervisor, never in the consumer's task: a stream
may be opened in one task and left in another, and no `yield` stands inside a task group. Leaving `async
with`, the end of the rows, closing the file and dropping the stream all stop them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import anyio.to_thread

from orcstream.batch import Batch, BatchSchema
from orcstream.byterange import RangeBuffer
from orcstream.codec._arrow_c import export_schema
from orcstream.codec.compression import Compression
from orcstream.errors import OrcError, UsageError
from orcstream.io.byte_source import ByteSource
from orcstream.io.retry import RetryPolicy
from orcstream.io.scheduler import FetchScheduler
from orcstream.reader.budget import MemoryBudget
from orcstream.reader.decoding import DecodeQueue, Delivery
from orcstream.reader.fetching import Fetcher, StripeStart, StripeWork
from orcstream.reader.shaping import Shaped, Shaper
from orcstream.schema import Schema

__all__ = ["BatchStream", "ReadStatistics", "Reading", "ReadingPlan"]


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """What a stream has done so far, measured.

    `hop_count` is how often the store's latency was paid in full, `wait_s` how long the consumer waited
    for batches, `decode_s` how long workers decoded (of all threads together), `peak_fetched_bytes` the
    most that was fetched and not yet decompressed at one time. Opening the file is not in these figures.
    """

    row_count: int
    batch_count: int
    stripe_count: int
    request_count: int
    retry_count: int
    hop_count: int
    bytes_wanted: int
    bytes_read: int
    wait_s: float
    decode_s: float
    peak_fetched_bytes: int

    def __add__(self, other: ReadStatistics) -> ReadStatistics:
        """Of two reads together."""
        sums = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in fields(self)
            if field.name != "peak_fetched_bytes"
        }
        return ReadStatistics(
            **sums, peak_fetched_bytes=max(self.peak_fetched_bytes, other.peak_fetched_bytes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingPlan:
    """All that a stream is to read, and how."""

    source: ByteSource
    retry: RetryPolicy
    schema: BatchSchema
    works: Sequence[StripeWork]
    compression: Compression
    cached: RangeBuffer | None
    start: StripeStart
    column_count: int
    shaper: Shaper
    batch_rows: int
    memory_limit: int
    decode_threads: int


class Reading:
    """The running part of a stream. It does not know the stream: dropping that one can stop this one."""

    def __init__(self, plan: ReadingPlan) -> None:
        self.plan = plan
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._progress = anyio.Event()
        self._work = anyio.Event()
        self._notified = False
        self._failure: Exception | None = None
        self._started = self._stopped = False
        self.budget = MemoryBudget(plan.memory_limit, self._notify)
        self.queue = DecodeQueue(
            compression=plan.compression,
            batch_rows=plan.batch_rows,
            column_count=max(1, plan.column_count),
            budget=self.budget,
            on_progress=self._notify,
        )
        self._fetcher: Fetcher | None = None
        self._scheduler: FetchScheduler | None = None
        self.row_count = self.batch_count = 0
        self.wait_s = 0.0

    # --- tasks -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch and decode until stopped; for the file's supervisor."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._scheduler = FetchScheduler(self.plan.source, tasks, retry=self.plan.retry)
                    self._fetcher = Fetcher(
                        scheduler=self._scheduler,
                        tasks=tasks,
                        budget=self.budget,
                        queue=self.queue,
                        works=self.plan.works,
                        cached=self.plan.cached,
                        start=self.plan.start,
                        verify=self.plan.source.verify,
                        on_failure=self._fail,
                        on_arrival=self._on_arrival,
                    )
                    limiter = anyio.CapacityLimiter(self.plan.decode_threads)
                    for _ in range(self.plan.decode_threads):
                        tasks.start_soon(self._decode, limiter)
                    self._on_arrival()
                    await self._fetcher.run()
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            self._fail(_first_of(error))
        finally:
            if self._scheduler is not None and self._fetcher is not None:
                self._scheduler.close()
                self._fetcher.close()
            self.queue.close()
            self._stopped = True
            self._finished.set()
            self._progress.set()

    async def _decode(self, limiter: anyio.CapacityLimiter) -> None:
        while True:
            if self.queue.has_work():
                await anyio.to_thread.run_sync(self.queue.work, limiter=limiter)
            else:
                await self._work.wait()

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._on_arrival()

    def _on_arrival(self) -> None:
        """Something changed that workers or the consumer may have waited for; on the loop."""
        self._notified = False
        if not self._work.is_set():
            self._work.set()
            self._work = anyio.Event()
        self._progress.set()
        if self._fetcher is not None:
            self._fetcher.wake()

    def _notify(self) -> None:
        """`_on_arrival`, from any thread; many calls become one."""
        if not self._notified and not self._stopped:
            self._notified = True
            try:
                self._loop.call_soon_threadsafe(self._on_arrival)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self._stopped = True

    # --- the consumer's side -----------------------------------------------------------------------

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        if not self._started:
            try:
                tasks.start_soon(self.run, name="orcstream read")
            except RuntimeError:  # the group has ended
                raise UsageError("the file is closed") from None
            self._started = True

    async def next(self) -> Batch | None:
        """The next batch, or None at the end."""
        shaper = self.plan.shaper
        while (delivery := await self._next_delivery()) is not None:
            shaped: Shaped | None
            if shaper.is_plain:
                shaped = shaper.pass_on(delivery)
            else:
                shaped = await anyio.to_thread.run_sync(shaper.shape, delivery)
            self._on_arrival()
            if shaped is not None:
                return self._batch(shaped)
        last = shaper.finish()
        return self._batch(last) if last is not None else None

    def _batch(self, shaped: Shaped) -> Batch:
        self.row_count += shaped.row_count
        self.batch_count += 1
        return Batch(self.plan.schema, shaped.vectors, shaped.row_count)

    async def _next_delivery(self) -> Delivery | None:
        """The next decoded rows, or None at the end."""
        while True:
            self._progress = anyio.Event()
            delivery = self.queue.deliver()
            if delivery is not None:
                return delivery
            if self._stopped or self._failure is not None:
                if self._failure is not None and self.queue.head() is None:
                    raise self._failure
                if self._stopped:
                    raise UsageError("the file was closed while it was read")
            if self._fetcher is not None and self._fetcher.exhausted and self.queue.head() is None:
                return None
            began = self._loop.time()
            await self._progress.wait()
            self.wait_s += self._loop.time() - began

    def fail(self, error: Exception) -> None:
        """The rows end with this error: nothing more is fetched, and every later step raises it."""
        self._failure = error
        self.stop()

    def stop(self) -> None:
        """Cancel everything that is under way; may be called again."""
        self.queue.close()
        self._scope.cancel()

    def stop_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self.stop)

    async def wait_stopped(self) -> None:
        if self._started:
            with anyio.CancelScope(shield=True):
                await self._finished.wait()

    def statistics(self) -> ReadStatistics:
        fetched = self._scheduler.statistics() if self._scheduler is not None else None
        plan = self._fetcher.plan if self._fetcher is not None else None
        return ReadStatistics(
            row_count=self.row_count,
            batch_count=self.batch_count,
            stripe_count=plan.stripe_count if plan else 0,
            request_count=fetched.request_count if fetched else 0,
            retry_count=fetched.retry_count if fetched else 0,
            hop_count=fetched.hop_count if fetched else 0,
            bytes_wanted=plan.wanted_bytes + plan.control_bytes if plan else 0,
            bytes_read=fetched.byte_count if fetched else 0,
            wait_s=self.wait_s,
            decode_s=self.queue.decode_s,
            peak_fetched_bytes=self.budget.peak_fetched,
        )


class BatchStream:
    """Batches in row order: ``async for batch in stream``, best inside ``async with ... as stream``.

    Errors are raised at the step that needs the rows concerned, and at every later one. A stream is for one
    task at a time.
    """

    def __init__(
        self,
        owner: object,
        make_reading: Callable[[int], Reading],
        tasks: anyio.abc.TaskGroup,
        url: str,
        row_count: int,
    ) -> None:
        self._owner = owner  # the file stays open while one of its streams is in use
        self._make_reading = make_reading
        self._reading = make_reading(0)
        self._past: list[ReadStatistics] = []
        self._tasks = tasks
        self._url = url
        self._row_count = row_count
        self._busy = False
        self._ended = self._closed = False

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that are read."""
        return self._reading.plan.schema.schema

    @property
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that are read."""
        return self._reading.plan.schema

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
        if self._busy:
            raise UsageError("two tasks read from one stream; give each its own", url=self._url)
        if self._ended:
            raise StopAsyncIteration
        self._busy = True
        try:
            self._reading.start(self._tasks)
            batch = await self._reading.next()
        except Exception as error:
            self._reading.fail(error)
            if isinstance(error, OrcError):
                error.locate(url=self._url)
            raise
        finally:
            self._busy = False
        if batch is None:
            self._ended = True
            self._reading.stop()
            await self._reading.wait_stopped()
            raise StopAsyncIteration
        return batch

    async def seek(self, row: int) -> None:
        """Go on with row `row` of the file, backwards too; with the first one after it that the read wants.

        Costs two hops, less where what is needed came with the tail. Raises `UsageError` for a row that the
        file has not, but for the one after the last, where the stream ends.
        """
        if self._busy:
            raise UsageError("two tasks use one stream; give each its own", url=self._url)
        if self._closed:
            raise UsageError("the stream is closed", url=self._url)
        if not 0 <= row <= self._row_count:
            raise UsageError(f"no row {row}: the file has {self._row_count}", url=self._url)
        self._busy = True
        try:
            self._reading.stop()
            await self._reading.wait_stopped()
            self._past.append(self._reading.statistics())
            self._reading = self._make_reading(row)
            self._ended = False
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Stop fetching and decoding, and wait until nothing of it is left."""
        self._ended = self._closed = True
        self._reading.stop()
        await self._reading.wait_stopped()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        reading = getattr(self, "_reading", None)
        if reading is not None and not self._ended:
            reading.stop_from_any_thread()


def _first_of(error: Exception) -> Exception:
    """What went wrong first, where several tasks failed: groups are not for users."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
