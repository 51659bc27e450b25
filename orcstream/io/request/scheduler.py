"""Sends requests to one source: concurrently, capped, in order of priority, with retries; and measures.

Knows ranges, priorities and the clock. Must not know what the bytes mean, nor how much memory there is:
the caller submits what its budget admits.

What it measures it hands to the planner: `cost` is the source's cost model with latency and bandwidth as
they turned out to be, and to itself, where the user wants slow requests sent a second time.

Contract. `submit` never waits; of the requests that are queued, the one with the lowest priority number
starts first (ties in the order of submission). A failure stays in its ticket until someone waits for it
and harms no other request. The task group is the caller's and outlives the scheduler's use; `close`
cancels everything at once and must be called before the group is left, or its block waits for the queue.
"""
# ruff: noqa: SLF001 - a ticket and its scheduler are one thing

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, TypeVar

import anyio

from orcstream.byterange import ByteRange, CostModel, RangeBuffer
from orcstream.errors import OrcError, ShortRead, UsageError
from orcstream.io.contract.byte_source import ByteSource, OnBytes, RetryPolicy, Suffix
from orcstream.io.loop.tasks import Signal, TaskStarter, deferred
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.request.estimate import CostEstimate, SlowRequests

T = TypeVar("T")


@dataclass(slots=True)
class FetchStatistics:
    """What was measured so far.

    `request_count` counts attempts, so retries are in it; `byte_count` is what arrived and was kept;
    `wait_s` is how long callers waited for tickets, `busy_s` how long at least one request was under way.
    `hop_count` is the number of such busy periods: requests of one period did not wait for each other's
    answers, so it measures how often the latency of the store was paid in full. `hedge_count` requests were
    sent a second time because they were slow; they are in `request_count` too. `latency_s` and `bandwidth`
    (bytes a second) are those of `FetchScheduler.cost`: measured, or the preset's while little is known.
    """

    request_count: int = 0
    retry_count: int = 0
    byte_count: int = 0
    hop_count: int = 0
    wait_s: float = 0.0
    busy_s: float = 0.0
    hedge_count: int = 0
    latency_s: float = 0.0
    bandwidth: float = 0.0


@dataclass(frozen=True, slots=True)
class FetchReport:
    """A request that is over: `error` is what kept its bytes away, None where they are there."""

    label: Any
    range: ByteRange
    start_s: float
    stop_s: float
    attempt_count: int
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class FetchTicket:
    """One range that was submitted. Its bytes live as long as the ticket."""

    _owner: FetchScheduler
    range: ByteRange
    priority: int
    on_bytes: OnBytes | None
    label: Any
    attempt_count: int = 0
    _done: anyio.Event = field(default_factory=anyio.Event)
    _buffer: RangeBuffer | None = None
    _error: Exception | None = None
    _scope: anyio.CancelScope | None = None

    @property
    def done(self) -> bool:
        """Whether `wait` answers at once: arrived, failed or cancelled."""
        return self._done.is_set()

    async def wait(self) -> memoryview:
        """The bytes, once they are there; raises what kept them away, each time it is asked."""
        if not self._done.is_set():
            with self._owner._waiting():
                await self._done.wait()
        if self._error is not None:
            raise self._error
        if self._buffer is None:
            raise UsageError("the request was cancelled")
        return self._buffer.view(self.range)

    def cancel(self) -> None:
        """Stop the request or keep it from starting; nothing happens to one that is done."""
        if self._done.is_set():
            return
        self._done.set()
        if self._scope is not None:
            self._scope.cancel()

    def _finish(self, buffer: RangeBuffer | None, error: Exception | None) -> None:
        if not self._done.is_set():
            self._buffer = buffer
            self._error = error
            self._done.set()


def beyond_end(wanted: ByteRange, file_length: int, url: str) -> ShortRead:
    """The error for a range that goes beyond the end of the file."""
    text = f"bytes up to {wanted.stop} were asked for, the file has {file_length}"
    return ShortRead(text, url=url, file_offset=wanted.start)


class FetchScheduler:
    """See the module. `on_finished` is told of each request that delivered or failed, not of cancelled ones.

    A label is what the caller calls a request, and means nothing here. What `on_finished` raises is what the
    request fails with.
    `estimate` carries on what another scheduler of the same source has measured.
    """

    def __init__(
        self,
        source: ByteSource,
        task_group: TaskStarter,
        *,
        retry: RetryPolicy,
        request_cap: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        on_finished: Callable[[FetchReport], None] | None = None,
        estimate: CostEstimate | None = None,
    ) -> None:
        self._source = source
        self._task_group = task_group
        self._retry = retry
        self._request_cap = request_cap or source.cost.request_cap
        self._clock = clock
        self._on_finished = on_finished
        self._queue: list[tuple[int, int, FetchTicket]] = []
        self._running: set[FetchTicket] = set()
        self._submit_count = 0
        self._worker_count = 0
        self._closed = False
        self._idle = Signal()
        self._active_count = 0  # requests under way, the suffix included
        self._active_since = 0.0
        self._period_open = False
        self._counts = FetchStatistics()
        # What is not adaptive is not measured.
        self._estimate = estimate or (CostEstimate(source.cost) if source.cost.adaptive else None)
        # Near sources answer from memory, or on threads that cannot be interrupted.
        self._slow = SlowRequests() if retry.hedge and not source.cost.is_near else None
        self._request_s = 0.0  # how long requests were under way, each for itself, up to `_counted_s`
        self._counted_s = 0.0

    @property
    def cost(self) -> CostModel:
        """What requests cost, as far as it was measured: plan each window with the answer of that time."""
        return self._source.cost if self._estimate is None else self._estimate.model()

    @property
    def queued_count(self) -> int:
        """How many submitted requests have not started."""
        return sum(1 for _, _, ticket in self._queue if not ticket.done)

    def statistics(self) -> FetchStatistics:
        under_way_s = self._clock() - self._active_since if self._active_count else 0.0
        cost = self.cost
        return replace(
            self._counts,
            busy_s=self._counts.busy_s + under_way_s,
            hedge_count=self._slow.hedge_count if self._slow else 0,
            latency_s=cost.latency_s,
            bandwidth=cost.bandwidth,
        )

    def submit(
        self, range: ByteRange, priority: int, on_bytes: OnBytes | None = None, label: Any = ""
    ) -> FetchTicket:
        """Queue a request; it starts as soon as a place is free, the lowest `priority` first.

        `on_bytes` may be told of its first bytes as they come, of each attempt anew; see `ByteSource.fetch`.
        """
        if self._closed:
            raise UsageError("the scheduler is closed")
        # The worker takes its ticket when it runs, not now: what is submitted together is sorted first.
        if self._worker_count < self._request_cap:
            self._task_group.start_soon(deferred(self._work), name="orcstream fetch")
            self._worker_count += 1
        ticket = FetchTicket(self, range, priority, on_bytes, label)
        heappush(self._queue, (priority, self._submit_count, ticket))
        self._submit_count += 1
        return ticket

    async def fetch_suffix(self, length: int, label: Any = "") -> Suffix:
        """The source's `fetch_suffix`, at once and in the caller's task, with retries and measured.

        `on_finished` is not told where it fails: nobody knows then which range it was.
        """
        if self._closed:
            raise UsageError("the scheduler is closed")
        attempt_count = 0

        def attempt() -> Awaitable[Suffix]:
            nonlocal attempt_count
            attempt_count += 1
            return self._source.fetch_suffix(length)

        start_s = self._begin()
        try:
            suffix = await self._attempts(length, attempt)
        finally:
            self._end()
        self._counts.byte_count += len(suffix.data)
        if self._on_finished is not None:
            stop = suffix.file_length
            range_ = ByteRange(stop - len(suffix.data), stop)
            self._on_finished(FetchReport(label, range_, start_s, self._clock(), attempt_count))
        return suffix

    def close(self) -> None:
        """Cancel what is queued and under way; later submissions are refused."""
        self._closed = True
        for _, _, ticket in self._queue:
            ticket.cancel()
        self._queue.clear()
        for ticket in list(self._running):
            ticket.cancel()

    async def aclose(self) -> None:
        """`close`, and wait until no request is under way."""
        self.close()
        await until_over(self._until_idle())

    async def _until_idle(self) -> None:
        while self._worker_count:
            await self._idle.wait()

    async def _work(self) -> None:
        try:
            while self._queue:
                ticket = heappop(self._queue)[2]
                if not ticket.done:
                    await self._run(ticket)
        finally:
            self._worker_count -= 1
            if self._worker_count == 0:
                self._idle.notify()

    async def _run(self, ticket: FetchTicket) -> None:
        wanted = ticket.range
        file_length = self._source.file_length
        if file_length is not None and wanted.stop > file_length:  # no attempt can help
            ticket._finish(None, beyond_end(wanted, file_length, self._source.url))
            return
        buffer: RangeBuffer | None = None
        failure: Exception | None = None
        start_s = self._begin()
        self._running.add(ticket)
        try:
            with anyio.CancelScope() as ticket._scope:
                buffer = await self._attempts(wanted.length, lambda: self._fetch(ticket))
            if buffer is not None:
                self._counts.byte_count += wanted.length
        except Exception as error:  # noqa: BLE001 - raised where someone waits for the ticket
            if isinstance(error, OrcError):
                error.locate(url=self._source.url, file_offset=wanted.start)
            failure = error
        finally:
            ticket._scope = None
            self._running.discard(ticket)
            self._end()
            if buffer is not None or failure is not None:
                failure = self._told(ticket, start_s, failure)
            ticket._finish(buffer if failure is None else None, failure)

    def _told(self, ticket: FetchTicket, start_s: float, failure: Exception | None) -> Exception | None:
        """What the request fails with, after somebody was told that it is over."""
        if self._on_finished is not None:
            stop_s = self._clock()
            report = FetchReport(ticket.label, ticket.range, start_s, stop_s, ticket.attempt_count, failure)
            try:
                self._on_finished(report)
            except Exception as error:  # noqa: BLE001 - raised where someone waits for the ticket
                return error
        return failure

    async def _fetch(self, ticket: FetchTicket) -> RangeBuffer:
        """One attempt, measured by itself: failures and waits before it say nothing of the store's speed."""
        ticket.attempt_count += 1
        wanted = ticket.range
        start_s, before_s = self._count_time(), self._request_s
        limit_s = self._slow.limit_s(wanted.length) if self._slow else None
        if limit_s is None:
            buffer = RangeBuffer(wanted, await self._source.fetch(wanted, ticket.on_bytes))
        else:
            buffer = await self._fetch_hedged(ticket, limit_s)
        stop_s = self._count_time()
        if self._estimate is not None and stop_s > start_s:
            concurrency = (self._request_s - before_s) / (stop_s - start_s)
            self._estimate.observe(wanted.length, start_s, stop_s, concurrency)
        if self._slow is not None:
            self._slow.observe(wanted.length, stop_s - start_s)
        return buffer

    async def _fetch_hedged(self, ticket: FetchTicket, limit_s: float) -> RangeBuffer:
        """One request, and a second one should it take longer than `limit_s`; the first answer counts.

        A failure counts only when no other request is under way.
        """
        answers: list[RangeBuffer] = []
        failures: list[Exception] = []
        settled = anyio.Event()
        sent_count = 0

        async def ask() -> None:
            try:
                data = await self._source.fetch(ticket.range, ticket.on_bytes)
                answers.append(RangeBuffer(ticket.range, data))
            except Exception as error:  # noqa: BLE001 - raised below, unless the other one answers
                failures.append(error)
            if answers or len(failures) == sent_count:
                settled.set()

        async with anyio.create_task_group() as tasks:
            sent_count = 1
            tasks.start_soon(deferred(ask), name="orcstream fetch")
            with anyio.move_on_after(limit_s):
                await settled.wait()
            if not settled.is_set() and self._slow is not None and self._slow.may_hedge():
                self._slow.hedge_count += 1
                self._counts.request_count += 1
                sent_count = 2
                tasks.start_soon(deferred(ask), name="orcstream hedge")
            await settled.wait()
            tasks.cancel_scope.cancel()
        if answers:
            return answers[0]
        raise failures[-1]

    async def _attempts(self, byte_count: int, attempt: Callable[[], Awaitable[T]]) -> T:
        async def counted() -> T:
            self._counts.request_count += 1
            return await attempt()

        return await self._retry.run(
            counted, url=self._source.url, byte_count=byte_count, on_retry=self._count_retry
        )

    def _count_retry(self) -> None:
        self._counts.retry_count += 1

    def _begin(self) -> float:
        now = self._count_time()
        if self._active_count == 0:
            self._active_since = now
            self._counts.hop_count += not self._period_open
            self._period_open = True
        self._active_count += 1
        return now

    def _end(self) -> None:
        now = self._count_time()
        self._active_count -= 1
        if self._active_count == 0:
            self._counts.busy_s += now - self._active_since
            # What was queued meanwhile waited for a place, not for an answer: the period goes on.
            self._period_open = self.queued_count > 0

    def _count_time(self) -> float:
        now = self._clock()
        self._request_s += self._active_count * (now - self._counted_s)
        self._counted_s = now
        return now

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        start_s = self._clock()
        try:
            yield
        finally:
            self._counts.wait_s += self._clock() - start_s
