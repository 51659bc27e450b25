"""Latency and bandwidth from measurements: against a simulated link whose truth is known."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.byterange import MIB, ByteRange, BytesLike, CostModel
from orcstream.errors import SourceError, UsageError
from orcstream.io.contract.byte_source import IoOptions, OnBytes, RetryPolicy
from orcstream.io.request.estimate import BOUND, LEAST_SAMPLES, CostEstimate, SlowRequests
from orcstream.io.request.scheduler import FetchScheduler
from orcstream.io.stores.memory.source import BytesSource
from tests.support.recording import WrappedSource

PRESET = CostModel.object_store()
Sample = tuple[int, float, float, float]


def simulate(
    sizes: Sequence[int],
    latency_s: float,
    bandwidth: float,
    cap: int,
    noise: Callable[[], float] = lambda: 1.0,
) -> list[Sample]:
    """Requests over a link that all share evenly, `cap` at a time: bytes, start, stop, mean concurrency.

    In small steps of time, so nothing of the estimate's own arithmetic is in it.
    """
    step_s = latency_s / 100
    now = request_s = 0.0
    waiting, done = list(sizes), []
    active: list[list[float]] = []
    while waiting or active:
        while waiting and len(active) < cap:
            size = waiting.pop(0)
            active.append([size, float(size), now, now + latency_s * noise(), request_s])
        moving = [one for one in active if one[3] <= now]
        for one in moving:
            one[1] -= bandwidth * step_s / len(moving)
        now += step_s
        request_s += step_s * len(active)
        for one in [one for one in active if one[1] <= 0]:
            active.remove(one)
            done.append((int(one[0]), one[2], now, (request_s - one[4]) / (now - one[2])))
    return done


def estimate_of(samples: Sequence[Sample], preset: CostModel = PRESET) -> CostModel:
    estimate = CostEstimate(preset)
    for sample in samples:
        estimate.observe(*sample)
    return estimate.model()


TRUTHS = [(0.03, 5e8), (0.1, 1e8), (0.008, 2e9), (0.2, 3e8), (0.03, 8e7)]


@pytest.mark.parametrize(("latency_s", "bandwidth"), TRUTHS)
@pytest.mark.parametrize("cap", [1, 4, 16])
def test_it_finds_the_truth_of_a_link(latency_s: float, bandwidth: float, cap: int) -> None:
    draw = random.Random(1)
    sizes = [int(draw.choice([2e4, 2e5, 2e6, 8e6]) * draw.uniform(0.5, 1)) for _ in range(60)]
    model = estimate_of(simulate(sizes, latency_s, bandwidth, cap))
    assert latency_s / 1.6 < model.latency_s < latency_s * 1.6
    assert bandwidth / 1.6 < model.bandwidth < bandwidth * 1.6


def test_a_few_slow_answers_change_little() -> None:
    draw = random.Random(2)
    sizes = [int(draw.uniform(1e5, 8e6)) for _ in range(60)]
    samples = simulate(sizes, 0.1, 1e8, 4)
    slow = [
        (size, start, stop + (5.0 if number % 8 == 0 else 0.0), shared)
        for number, (size, start, stop, shared) in enumerate(samples)
    ]
    calm, upset = estimate_of(samples), estimate_of(slow)
    assert calm.latency_s / 1.5 < upset.latency_s < calm.latency_s * 1.5
    assert calm.bandwidth / 1.5 < upset.bandwidth < calm.bandwidth * 1.5


def test_it_follows_a_link_that_changes() -> None:
    draw = random.Random(3)
    sizes = [int(draw.uniform(1e5, 8e6)) for _ in range(60)]
    estimate = CostEstimate(PRESET)
    for latency_s in (0.02, 0.15):
        for sample in simulate(sizes, latency_s, 3e8, 4):
            estimate.observe(*sample)
        assert latency_s / 1.6 < estimate.model().latency_s < latency_s * 1.6


def test_small_requests_alone_tell_the_latency() -> None:
    model = estimate_of(simulate([1000] * 40, 0.12, 1e9, 8))
    assert model.latency_s == pytest.approx(0.12, rel=0.1)
    assert model.bandwidth == PRESET.bandwidth


def test_large_requests_alone_tell_the_bandwidth() -> None:
    model = estimate_of(simulate([8 * MIB] * 40, 0.03, 1e8, 4))
    assert model.latency_s == PRESET.latency_s
    assert model.bandwidth == pytest.approx(1e8, rel=0.3)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.floats(0, 1e6),
            st.floats(-1, 1e6),
            st.floats(0, 1e6, allow_nan=False),
        ),
        max_size=120,
    ),
    st.sampled_from([CostModel.http(), CostModel.object_store(), CostModel.hdfs()]),
)
def test_it_never_leaves_its_bounds(
    samples: list[tuple[int, float, float, float]], preset: CostModel
) -> None:
    estimate = CostEstimate(preset)
    for byte_count, start_s, duration_s, shared in samples:
        estimate.observe(byte_count, start_s, start_s + duration_s, shared)
        model = estimate.model()
        assert preset.latency_s / BOUND <= model.latency_s <= preset.latency_s * BOUND
        assert preset.bandwidth / BOUND <= model.bandwidth <= preset.bandwidth * BOUND
        assert (model.request_cap, model.part_bytes) == (preset.request_cap, preset.part_bytes)


def test_nothing_is_said_after_few_requests() -> None:
    samples = simulate([100_000] * LEAST_SAMPLES, 0.1, 1e8, 1)
    assert estimate_of(samples[:-1]) == PRESET
    assert estimate_of(samples) != PRESET


@pytest.mark.parametrize(
    "preset",
    [
        *(CostModel.memory(), CostModel.local()),
        IoOptions(adaptive=False).tune(CostModel.http()),
        IoOptions(latency_s=0.5).tune(CostModel.http()),
        IoOptions(bandwidth=1e6).tune(CostModel.http()),
    ],
    ids=["memory", "local", "not wanted", "latency named", "bandwidth named"],
)
def test_what_is_near_or_named_is_not_measured(preset: CostModel) -> None:
    assert estimate_of(simulate([100_000] * 40, 0.1, 1e8, 4), preset) == preset


def test_options_name_what_requests_cost() -> None:
    cost = IoOptions(latency_s=0.5, bandwidth=1e6, request_cap=5).tune(CostModel.http())
    assert cost.gap_bytes == 100_000
    for wrong in ({"latency_s": 0}, {"latency_s": True}, {"bandwidth": -1}, {"bandwidth": float("inf")}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            IoOptions.of(wrong)
    for wrong_flag in ({"adaptive": 1}, {"hedge": None}):
        with pytest.raises(UsageError, match=next(iter(wrong_flag))):
            IoOptions.of(wrong_flag)


# --- slow requests ---


def test_slow_is_what_is_slower_than_99_in_100() -> None:
    slow = SlowRequests()
    for number in range(200):
        assert (slow.limit_s(1000) is None) == (number < 20)
        slow.observe(1000, 1.0 if number != 100 else 9.0)
    assert slow.limit_s(1000) == 3.0  # three times the median; the one slow answer is no measure
    assert slow.limit_s(1_000_000) is None
    for number in range(256):
        slow.observe(1000, 1.0 + number / 16)
    assert slow.limit_s(1000) == max(1 + 253 / 16, 3 * (1 + 128 / 16))


def test_at_most_one_in_a_hundred_is_hedged() -> None:
    slow = SlowRequests()
    for number in range(1, 2001):
        slow.observe(1000, 1.0)
        if slow.may_hedge():
            slow.hedge_count += 1
        assert slow.hedge_count <= max(1, number * 0.01)
    assert slow.hedge_count == 20


# --- the scheduler ---


class SlowSource(WrappedSource):
    """Answers after a number of turns; `stuck` requests (counted from 0) only when cancelled, or fail."""

    def __init__(self, inner: BytesSource, stuck: dict[int, Exception | None]) -> None:
        super().__init__(inner)
        self.stuck = stuck
        self.asked: list[ByteRange] = []
        self.cancel_count = 0

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        number = len(self.asked)
        self.asked.append(range)
        try:
            await anyio.sleep(0.001)
            if number in self.stuck:
                error = self.stuck[number]
                if error is not None:
                    await anyio.sleep(1)
                    raise error
                await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancel_count += 1
            raise
        return await self.inner.fetch(range, on_bytes)


DATA = bytes(1000) * 100


def far(stuck: dict[int, Exception | None]) -> SlowSource:
    return SlowSource(BytesSource(DATA, PRESET), stuck)


async def fetch_all(source: SlowSource, count: int, *, hedge: bool, step_s: float = 0.1) -> FetchScheduler:
    """One request after the other; by the scheduler's clock each takes `step_s`, on any machine."""
    retry = RetryPolicy(retries=0, timeout_s=60, hedge=hedge)
    ticks = itertools.count()
    async with anyio.create_task_group() as group:
        scheduler = FetchScheduler(source, group, retry=retry, clock=lambda: next(ticks) * step_s)
        for number in range(count):
            ticket = scheduler.submit(ByteRange(number, number + 10), number)
            assert await ticket.wait() == DATA[number : number + 10]
        scheduler.close()
    return scheduler


async def test_a_stuck_request_is_sent_again() -> None:
    source = far({30: None})
    scheduler = await fetch_all(source, 40, hedge=True)
    statistics = scheduler.statistics()
    assert (statistics.hedge_count, statistics.request_count) == (1, 41)
    assert source.asked[30] == source.asked[31]
    assert source.cancel_count == 1
    assert statistics.byte_count == 400


async def test_the_second_may_fail_while_the_first_is_under_way() -> None:
    source = far({30: None, 31: SourceError("down")})
    with anyio.move_on_after(2) as scope:
        await fetch_all(source, 40, hedge=True)
    assert scope.cancelled_caught  # the first is still awaited
    assert len(source.asked) == 32


async def test_the_first_may_fail_while_the_second_is_under_way() -> None:
    source = far({30: SourceError("down")})
    scheduler = await fetch_all(source, 40, hedge=True)
    assert scheduler.statistics().hedge_count == 1


async def test_when_both_fail_it_is_told() -> None:
    source = far({30: SourceError("down"), 31: SourceError("down too")})
    with pytest.raises(ExceptionGroup) as caught:
        await fetch_all(source, 40, hedge=True)
    assert isinstance(caught.value.exceptions[0], SourceError)


async def test_hedging_has_to_be_asked_for() -> None:
    source = far({30: None})
    with anyio.move_on_after(1) as scope:
        await fetch_all(source, 40, hedge=False)
    assert scope.cancelled_caught
    assert len(source.asked) == 31


async def test_near_sources_are_never_hedged() -> None:
    source = SlowSource(BytesSource(DATA, CostModel.local()), {30: None})
    with anyio.move_on_after(1) as scope:
        await fetch_all(source, 40, hedge=True)
    assert scope.cancelled_caught
    assert len(source.asked) == 31


async def test_the_scheduler_measures() -> None:
    scheduler = await fetch_all(far({}), 40, hedge=False, step_s=0.01)
    statistics = scheduler.statistics()
    assert scheduler.cost.latency_s == statistics.latency_s
    assert statistics.latency_s == pytest.approx(0.01, rel=0.01)
    assert statistics.bandwidth == scheduler.cost.bandwidth
    assert scheduler.cost.request_cap == PRESET.request_cap


async def test_what_was_measured_goes_on_with_the_next_scheduler() -> None:
    estimate = CostEstimate(PRESET)
    for sample in simulate([1000] * 40, 0.12, 1e9, 8):
        estimate.observe(*sample)
    async with anyio.create_task_group() as group:
        retry = RetryPolicy(retries=0, timeout_s=20)
        scheduler = FetchScheduler(far({}), group, retry=retry, estimate=estimate)
        assert scheduler.cost.latency_s == pytest.approx(0.12, rel=0.1)


async def test_waits_between_attempts_are_not_measured() -> None:
    """Every request fails at first, and the next attempt waits long."""
    now = 0.0

    class Source(WrappedSource):
        attempt_count = 0

        async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
            nonlocal now
            now += 0.05
            self.attempt_count += 1
            if self.attempt_count % 2:
                raise ConnectionError
            return await self.inner.fetch(range, on_bytes)

    async def wait(_: float) -> None:
        nonlocal now
        now += 5.0

    retry = RetryPolicy(retries=1, timeout_s=20, sleep=wait)
    async with anyio.create_task_group() as group:
        source = Source(BytesSource(DATA, PRESET))
        scheduler = FetchScheduler(source, group, retry=retry, request_cap=1, clock=lambda: now)
        for number in range(10):
            await scheduler.submit(ByteRange(number, number + 10), number).wait()
        assert scheduler.statistics().retry_count == 10
        assert scheduler.cost.latency_s == pytest.approx(0.05, rel=0.01)
