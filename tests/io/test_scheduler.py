"""The scheduler over sources that are held, fail and are cut short; nothing here sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio
import anyio.abc
import pytest

from orcstream.byterange import ByteRange, CostModel
from orcstream.errors import RetriesExhausted, ShortRead, SourceChanged, SourceError, UsageError
from orcstream.io.contract.byte_source import ByteSource, IoOptions, RetryPolicy, Transient, is_transient
from orcstream.io.request.scheduler import FetchReport, FetchScheduler, FetchTicket
from orcstream.io.stores.memory.source import BytesSource
from tests.support.faulty import Fault, FaultySource, GatedSource, LatencySource
from tests.support.recording import RecordingSource

DATA = bytes(range(256)) * 40


class Waits:
    """A sleep that takes no time, and a dice that always shows `draw`."""

    def __init__(self, draw: float = 1.0) -> None:
        self.waits: list[float] = []
        self._draw = draw

    async def sleep(self, wait_s: float) -> None:
        self.waits.append(wait_s)
        await anyio.lowlevel.checkpoint()

    def policy(self, retries: int = 5, timeout_s: float = 60.0) -> RetryPolicy:
        return RetryPolicy(retries=retries, timeout_s=timeout_s, sleep=self.sleep, draw=lambda: self._draw)


def memory() -> BytesSource:
    return BytesSource(DATA, CostModel.memory(), "memory://t.orc")


def make(
    source: ByteSource,
    group: anyio.abc.TaskGroup,
    *,
    cap: int = 2,
    retry: RetryPolicy | None = None,
    on_finished: Callable[[FetchReport], None] | None = None,
) -> FetchScheduler:
    retry = retry or Waits().policy()
    return FetchScheduler(source, group, request_cap=cap, retry=retry, on_finished=on_finished)


def part(number: int) -> ByteRange:
    return ByteRange(number * 100, number * 100 + 100)


def bytes_of(range: ByteRange) -> bytes:
    return DATA[range.start : range.stop]


async def fetch_with(faults: Iterable[Fault], waits: Waits, retries: int = 5) -> tuple[bytes, FetchScheduler]:
    async with anyio.create_task_group() as group:
        scheduler = make(FaultySource(memory(), faults), group, retry=waits.policy(retries))
        return bytes(await scheduler.submit(part(1), 0).wait()), scheduler
    raise AssertionError


async def test_results_are_the_bytes_in_any_order_of_waiting() -> None:
    async with anyio.create_task_group() as group:
        scheduler = make(memory(), group)
        tickets = [scheduler.submit(part(number), number) for number in range(10)]
        for ticket in reversed(tickets):
            assert await ticket.wait() == bytes_of(ticket.range)
        assert await tickets[3].wait() == bytes_of(part(3)), "a ticket may be waited for again"


@pytest.mark.parametrize("cap", [1, 3, 16])
async def test_no_more_than_the_cap_run_at_once(cap: int) -> None:
    gated = GatedSource(memory())
    source = RecordingSource(gated)
    async with anyio.create_task_group() as group:
        scheduler = make(source, group, cap=cap)
        tickets = [scheduler.submit(part(number), number) for number in range(30)]
        await anyio.wait_all_tasks_blocked()
        assert len(gated.started) == cap
        assert scheduler.queued_count == 30 - cap
        gated.release_all()
        for ticket in tickets:
            await ticket.wait()
    assert source.most_at_once == cap


async def test_the_cap_is_the_sources_unless_told() -> None:
    gated = GatedSource(memory(), CostModel(0.0, 1.0, 5, 0.0, 1, 1))
    async with anyio.create_task_group() as group:
        scheduler = FetchScheduler(gated, group, retry=Waits().policy())
        for number in range(9):
            scheduler.submit(part(number), number)
        await anyio.wait_all_tasks_blocked()
        assert len(gated.started) == 5
        scheduler.close()


async def test_lowest_priority_number_starts_first() -> None:
    gated = GatedSource(memory())
    async with anyio.create_task_group() as group:
        scheduler = make(gated, group, cap=1)
        for number in (5, 3, 9, 1):
            scheduler.submit(part(number), number)
        await anyio.wait_all_tasks_blocked()
        assert gated.started == [part(1)], "what is submitted together is sorted before it starts"
        late = scheduler.submit(part(0), 0)
        same = [scheduler.submit(part(number), 4) for number in (20, 21)]
        gated.release_all()
        for ticket in (late, *same):
            await ticket.wait()
    assert gated.started == [part(number) for number in (1, 0, 3, 20, 21, 5, 9)]


@pytest.mark.parametrize(
    "fault",
    [
        Transient("status 503"),
        TimeoutError(),
        ConnectionResetError(),
        ShortRead("cut"),
        lambda data: data[:-1],
        lambda data: bytes(data) + b"x",
    ],
    ids=["transient", "timeout", "reset", "short", "cut", "over-long"],
)
async def test_passing_failures_are_retried_and_counted(fault: Fault) -> None:
    waits = Waits()
    data, scheduler = await fetch_with([fault, fault], waits)
    assert data == bytes_of(part(1))
    statistics = scheduler.statistics()
    assert (statistics.request_count, statistics.retry_count, statistics.byte_count) == (3, 2, 100)
    assert waits.waits == pytest.approx([0.1, 0.2])


async def test_waits_double_up_to_a_limit_and_half_of_each_is_drawn() -> None:
    waits = Waits(draw=0.0)
    await fetch_with([Transient("busy")] * 9, waits, retries=9)
    assert waits.waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


async def test_a_store_that_names_a_wait_gets_it_within_limits() -> None:
    waits = Waits()
    await fetch_with([Transient("a", retry_after_s=3), Transient("b", retry_after_s=3600)], waits)
    assert waits.waits == pytest.approx([3, 10])


async def test_retries_end_with_the_last_failure_as_cause() -> None:
    waits = Waits()
    last = Transient("the last one")
    with pytest.raises(ExceptionGroup) as caught:
        await fetch_with([Transient("one"), Transient("two"), last, None], waits, retries=2)
    error = caught.value.exceptions[0]
    assert isinstance(error, RetriesExhausted)
    assert error.__cause__ is last
    assert error.url == "memory://t.orc"
    assert error.file_offset == 100
    assert "3 times" in str(error)
    assert len(waits.waits) == 2


@pytest.mark.parametrize(
    "fault", [FileNotFoundError(2, "no"), PermissionError(13, "no"), SourceChanged("no"), SourceError("no")]
)
async def test_lasting_failures_are_not_retried(fault: Exception) -> None:
    source = FaultySource(memory(), [fault])
    async with anyio.create_task_group() as group:
        scheduler = make(source, group)
        ticket = scheduler.submit(part(1), 0)
        with pytest.raises(type(fault)) as caught:
            await ticket.wait()
        assert caught.value is fault
    assert source.attempt_count == 1
    assert scheduler.statistics().retry_count == 0


def test_errors_of_this_package_are_not_taken_for_timeouts() -> None:
    assert not is_transient(SourceChanged("changed"))
    assert not is_transient(RetriesExhausted("tried"))
    assert not is_transient(UsageError("wrong"))


async def test_limits_of_long_parts_are_told_in_seconds() -> None:
    async def late() -> None:
        raise TimeoutError

    policy = RetryPolicy(retries=0, timeout_s=60.0)
    with pytest.raises(RetriesExhausted, match=r"\b2,108 s"):
        await policy.run(late, url="s3://b/a", byte_count=128 << 20)


async def test_an_attempt_that_takes_too_long_is_a_failure() -> None:
    gated = GatedSource(memory())
    async with anyio.create_task_group() as group:
        scheduler = make(gated, group, retry=Waits().policy(retries=1, timeout_s=0.001))
        ticket = scheduler.submit(part(1), 0)
        with pytest.raises(RetriesExhausted, match=r"\b2 times\b") as caught:
            await ticket.wait()
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert gated.cancelled == [part(1), part(1)]


async def test_one_failure_harms_no_other_request_and_waits_for_its_reader() -> None:
    source = FaultySource(memory(), [PermissionError(13, "no")], only=lambda asked: asked == part(2))
    async with anyio.create_task_group() as group:
        scheduler = make(source, group)
        tickets = [scheduler.submit(part(number), number) for number in range(6)]
        for number in (5, 4, 3, 1, 0):
            assert await tickets[number].wait() == bytes_of(part(number))
        assert tickets[2].done
        for _ in range(2):
            with pytest.raises(PermissionError):
                await tickets[2].wait()


async def test_a_range_past_the_end_is_refused_without_a_request() -> None:
    source = RecordingSource(memory())
    waits = Waits()
    async with anyio.create_task_group() as group:
        scheduler = make(source, group, retry=waits.policy())
        await scheduler.fetch_suffix(10)
        ticket = scheduler.submit(ByteRange(len(DATA) - 5, len(DATA) + 5), 0)
        with pytest.raises(ShortRead) as caught:
            await ticket.wait()
    assert caught.value.file_offset == len(DATA) - 5
    assert len(source.ranges) == 1
    assert waits.waits == []


async def test_cancelling_a_ticket_stops_its_request_only() -> None:
    gated = GatedSource(memory())
    async with anyio.create_task_group() as group:
        scheduler = make(gated, group, cap=2)
        running, other, queued, last = (scheduler.submit(part(number), number) for number in range(4))
        await anyio.wait_all_tasks_blocked()
        running.cancel()
        queued.cancel()
        queued.cancel()
        await anyio.wait_all_tasks_blocked()
        assert gated.cancelled == [part(0)]
        assert gated.started == [part(0), part(1), part(3)], "the place goes to the next that is wanted"
        for ticket in (running, queued):
            with pytest.raises(UsageError, match="cancelled"):
                await ticket.wait()
        gated.release_all()
        for ticket in (other, last):
            assert await ticket.wait() == bytes_of(ticket.range)
            ticket.cancel()  # too late to matter
            assert await ticket.wait() == bytes_of(ticket.range)


async def test_close_cancels_everything_and_wakes_who_waits() -> None:
    gated = GatedSource(memory())
    woken: list[int] = []
    async with anyio.create_task_group() as group:
        scheduler = make(gated, group, cap=2)
        tickets = [scheduler.submit(part(number), number) for number in range(5)]

        async def wait(number: int) -> None:
            with pytest.raises(UsageError, match="cancelled"):
                await tickets[number].wait()
            woken.append(number)

        for number in range(5):
            group.start_soon(wait, number)
        await anyio.wait_all_tasks_blocked()
        await scheduler.aclose()
        assert sorted(one.start for one in gated.cancelled) == [0, 100]
        assert scheduler.queued_count == 0
        with pytest.raises(UsageError, match="closed"):
            scheduler.submit(part(9), 9)
        with pytest.raises(UsageError, match="closed"):
            await scheduler.fetch_suffix(9)
    assert sorted(woken) == [0, 1, 2, 3, 4]
    assert len(gated.started) == 2


async def test_cancelling_the_group_cancels_the_requests_and_wakes_who_waits() -> None:
    gated = GatedSource(memory())
    async with anyio.create_task_group() as outer:
        ready = anyio.Event()
        tickets: list[FetchTicket] = []

        async def serve() -> None:
            async with anyio.create_task_group() as group:
                scheduler = make(gated, group, cap=1)
                try:
                    tickets.extend(scheduler.submit(part(number), number) for number in range(3))
                    ready.set()
                    await anyio.sleep_forever()
                finally:
                    scheduler.close()

        scope = anyio.CancelScope()

        async def scoped() -> None:
            with scope:
                await serve()

        outer.start_soon(scoped)
        await ready.wait()
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        for ticket in tickets:
            with pytest.raises(UsageError, match="cancelled"):
                await ticket.wait()
    assert gated.cancelled == [part(0)]


async def test_hops_are_periods_with_a_request_under_way() -> None:
    source = RecordingSource(memory())
    async with anyio.create_task_group() as group:
        scheduler = make(source, group, cap=2)
        await scheduler.fetch_suffix(16)
        for ticket in [scheduler.submit(part(number), number) for number in range(4)]:
            await ticket.wait()
        for ticket in [scheduler.submit(part(number), number) for number in range(7)]:
            await ticket.wait()
    assert scheduler.statistics().hop_count == 3


async def test_a_queue_worked_off_one_by_one_is_one_hop() -> None:
    async with anyio.create_task_group() as group:
        scheduler = make(memory(), group, cap=1)
        for ticket in [scheduler.submit(part(number), number) for number in range(8)]:
            await ticket.wait()
    assert scheduler.statistics().hop_count == 1


async def test_statistics_measure_time_by_the_clock_that_was_given() -> None:
    now = [0.0]

    async def sleep(wait_s: float) -> None:
        now[0] += wait_s
        await anyio.lowlevel.checkpoint()

    source = LatencySource(memory(), latency_s=2.0, bandwidth=100.0, sleep=sleep)
    finished: list[FetchReport] = []
    async with anyio.create_task_group() as group:
        scheduler = FetchScheduler(
            source,
            group,
            retry=Waits().policy(),
            request_cap=1,
            clock=lambda: now[0],
            on_finished=finished.append,
        )
        await scheduler.fetch_suffix(100, "end")
        now[0] += 7  # nobody asks for anything
        await scheduler.submit(part(1), 0, label="part").wait()
    assert finished == [
        FetchReport("end", ByteRange(len(DATA) - 100, len(DATA)), 0.0, 3.0, 1),
        FetchReport("part", part(1), 10.0, 13.0, 1),
    ]
    statistics = scheduler.statistics()
    assert statistics.busy_s == pytest.approx(6.0)
    assert statistics.wait_s == pytest.approx(3.0)
    assert statistics.byte_count == 200
    assert statistics.request_count == statistics.hop_count == 2


async def test_fetch_suffix_is_retried_too() -> None:
    waits = Waits()
    async with anyio.create_task_group() as group:
        source = FaultySource(memory(), [Transient("busy")])
        scheduler = make(source, group, retry=waits.policy())
        suffix = await scheduler.fetch_suffix(10)
    assert bytes(suffix.data) == DATA[-10:]
    assert scheduler.statistics().retry_count == 1


async def test_who_watches_hears_of_failures_and_not_of_what_was_cancelled() -> None:
    heard: list[FetchReport] = []
    busy, gone = Transient("busy"), FileNotFoundError("gone")
    async with anyio.create_task_group() as group:
        source = FaultySource(memory(), [busy, gone])
        scheduler = make(source, group, cap=1, on_finished=heard.append)
        failing, passing, cancelled = (scheduler.submit(part(number), number) for number in range(3))
        cancelled.cancel()
        with pytest.raises(FileNotFoundError):
            await failing.wait()
        assert await passing.wait() == bytes_of(part(1))
    assert [(one.range, one.attempt_count, one.error) for one in heard] == [
        (part(0), 2, gone),
        (part(1), 1, None),
    ]


@pytest.mark.parametrize("fails", [True, False])
async def test_what_who_watches_raises_is_what_the_request_fails_with(fails: bool) -> None:
    def watch(_: FetchReport) -> None:
        raise ArithmeticError

    async with anyio.create_task_group() as group:
        source = FaultySource(memory(), [FileNotFoundError()] if fails else [])
        ticket = make(source, group, on_finished=watch).submit(part(0), 0)
        with pytest.raises(ArithmeticError):
            await ticket.wait()


async def test_attempts_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "orcstream")
    failures = [Transient("busy: https://me:hunter2@host/a?token=hunter3"), TimeoutError()]
    async with anyio.create_task_group() as group:
        source = FaultySource(memory(), failures)
        await make(source, group).submit(part(0), 0).wait()
    first, second = (record.getMessage() for record in caplog.records)
    assert {record.name for record in caplog.records} == {"orcstream.io"}
    assert first.startswith("memory://t.orc: attempt 1 failed, the next is in 0.1 s: busy: https://host/a")
    assert second.endswith("attempt 2 failed, the next is in 0.2 s: no answer in time")
    assert "hunter" not in caplog.text


def test_retry_policy_of_options() -> None:
    policy = RetryPolicy.of(IoOptions(retries=2, timeout_s=9))
    assert (policy.retries, policy.timeout_s) == (2, 9)


class Full:
    """Takes no tasks."""

    def start_soon(self, *_: object, **__: object) -> None:
        raise RuntimeError("closed")


async def test_what_no_task_was_started_for_is_not_waited_for() -> None:
    scheduler = FetchScheduler(memory(), Full(), retry=Waits().policy())
    with pytest.raises(RuntimeError):
        scheduler.submit(part(1), 0)
    assert scheduler.queued_count == 0
    with anyio.fail_after(30):
        await scheduler.aclose()
