"""Answers that come little by little: decoded while the rest is on its way, and whatever becomes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcstream.byterange import ByteRange, BytesLike, CostModel, RangeBuffer
from orcstream.errors import SourceError
from orcstream.io.contract import byte_source as retry
from orcstream.io.contract.byte_source import ByteSource, OnBytes, Transient
from orcstream.io.growing_source import GrowingSource
from orcstream.io.stores.memory.source import BytesSource
from orcstream.plan import selection as plan
from orcstream.reader.engine.fetching import _Fetch, _Wave
from orcstream.reader.engine.runs import StreamFeed, StreamPiece
from orcstream.reader.stream import BatchStream
from tests.concurrency.test_flow import LEAST_LIMIT, file_of, table
from tests.support.effort import share
from tests.support.read_sources import (
    URL,
    Leftovers,
    ProbeSource,
    assert_nothing_held,
    counted_budgets,
    opened,
)


@pytest.fixture(autouse=True)
def short_pieces_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 4 KiB, so that small files have many; attempts follow one another at once."""
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(plan, "_STREAMED_BYTES", 1 << 12)
    monkeypatch.setattr(plan, "_WHOLE_BYTES", 1 << 10)


def distant(cap: int = 4, part_bytes: int = 1 << 20) -> CostModel:
    """Far enough for answers to be taken as they come; no gap is worth reading."""
    return CostModel(0.01, 1.0, cap, 0.0, part_bytes, 256)


class DrippingSource(ProbeSource):
    """Shows what of an answer is there, `step` bytes more each turn, in memory of its own for each attempt.

    `pause(number, share)` is awaited after each step; what it raises ends the attempt. Bytes that were not
    shown yet are zeros.
    """

    def __init__(
        self, data: bytes, cost: CostModel, step: int, pause: Callable[[int, float], object]
    ) -> None:
        super().__init__(BytesSource(data, cost, URL))
        self._step = step
        self._pause = pause
        self.gate = anyio.Event()

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        with self._counted() as number:
            whole = memoryview(await self.inner.fetch(range))
            data = memoryview(bytearray(len(whole)))
            for at in [*_stops(len(whole), self._step), len(whole)]:
                data[:at] = whole[:at]
                if on_bytes is not None and at < len(whole):
                    on_bytes(RangeBuffer(ByteRange(range.start, range.start + at), data[:at]))
                if self._pause(number, at / max(1, len(whole))):
                    await self.gate.wait()
                await anyio.lowlevel.checkpoint()
            return data


def _stops(length: int, step: int) -> range:
    return range(step, length, step)


async def test_rows_come_before_their_requests_have_ended() -> None:
    data = file_of(1 << 30, "uncompressed")
    source = DrippingSource(data, distant(cap=40), 1 << 12, lambda _, share: 0.9 < share < 1)
    left = Leftovers(source)
    with anyio.fail_after(20):
        async with opened(source) as file:
            async with file.batches(columns=["n", "few"], batch_rows=1000) as stream:
                first = pa.record_batch(await anext(stream))
                assert source.open_count > 0
                assert stream.stats.bytes_read < 1000  # a footer, and no answer to the end
                source.gate.set()
                rest = [pa.record_batch(batch) async for batch in stream]
    assert pa.Table.from_batches([first, *rest]).equals(table().select(["n", "few"]))
    await left.check()


@settings(max_examples=share(25))
@given(
    seed=st.integers(0, 2**32),
    stripe_size=st.sampled_from([1 << 16, 1 << 18, 1 << 30]),
    compression=st.sampled_from(["zstd", "uncompressed"]),
    cap=st.integers(1, 6),
    part_bytes=st.sampled_from([5000, 1 << 16, 1 << 22]),
    step=st.sampled_from([3000, 1 << 14, 1 << 20]),
    memory_limit=st.sampled_from([LEAST_LIMIT, 1 << 19, 1 << 28]),
    threads=st.sampled_from([1, 3]),
    failing=st.sampled_from([0.0, 0.002, 0.02]),
)
def test_attempts_that_end_early_change_nothing(
    seed: int,
    stripe_size: int,
    compression: str,
    cap: int,
    part_bytes: int,
    step: int,
    memory_limit: int,
    threads: int,
    failing: float,
) -> None:
    dice = random.Random(seed)
    failed: set[int] = set()

    def pause(number: int, _: float) -> bool:
        if number not in failed and number - 1 not in failed and dice.random() < failing:
            failed.add(number)
            raise Transient("the connection was reset")
        return False

    async def run() -> None:
        source = DrippingSource(file_of(stripe_size, compression), distant(cap, part_bytes), step, pause)
        left = Leftovers(source)
        with counted_budgets() as held, anyio.fail_after(60):
            async with opened(source, retries=8) as file:
                rows = pa.table(await file.read(memory_limit=memory_limit, decode_threads=threads))
            assert rows.equals(table())
            await assert_nothing_held(held)
        await left.check()

    anyio.run(run)


async def take_all(stream: BatchStream, batches: list[pa.RecordBatch]) -> None:
    async for batch in stream:
        batches.append(pa.record_batch(batch))  # noqa: PERF401 - kept, should the stream fail


async def take_until_it_fails(source: DrippingSource, batches: list[pa.RecordBatch]) -> None:
    async with (
        opened(source) as file,
        file.batches(columns=["n"], batch_rows=500, memory_limit=1 << 18) as stream,
    ):
        with pytest.raises(SourceError, match="gone"):
            await take_all(stream, batches)


@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
async def test_a_failure_in_the_middle_of_an_answer(share: float, number: int) -> None:
    """Rows that come before it are those of the file; nothing of the answer is held afterwards."""

    def pause(asked: int, there: float) -> bool:
        if asked >= number and there > share:
            raise SourceError("the store is gone")
        return False

    source = DrippingSource(
        file_of(1 << 30, "uncompressed"), distant(cap=1, part_bytes=1 << 22), 1 << 12, pause
    )
    left = Leftovers(source)
    batches: list[pa.RecordBatch] = []
    with counted_budgets() as held, anyio.fail_after(20):
        await take_until_it_fails(source, batches)
        await assert_nothing_held(held)
    expected = table().select(["n"])
    found = pa.Table.from_batches(batches, expected.schema)
    assert found.num_rows < expected.num_rows
    assert found.equals(expected[: found.num_rows])
    await left.check()


async def test_a_read_that_is_cancelled_in_the_middle_of_an_answer_leaves_nothing() -> None:
    source = DrippingSource(
        file_of(1 << 30), distant(part_bytes=1 << 16), 1 << 12, lambda _, share: 0.4 < share < 1
    )
    left = Leftovers(source)
    with counted_budgets() as held:
        async with opened(source) as file:
            async with anyio.create_task_group() as group:
                group.start_soon(file.read)
                await left.wait_open(3)
                for _ in range(100):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            assert source.open_count == 0
        await assert_nothing_held(held)
    await left.check()


@pytest.mark.parametrize("is_complete", [False, True])
async def test_of_a_file_that_grows_nothing_is_told_before_it_is_verified(*, is_complete: bool) -> None:
    told: list[RangeBuffer] = []
    data = bytes(range(100))

    async def open_file() -> ByteSource:
        return DrippingSource(data, distant(), 10, lambda _, __: False)

    async def open_lengths() -> ByteSource:
        if is_complete:
            raise FileNotFoundError
        return BytesSource((80).to_bytes(8, "big"), distant(), URL)

    policy = retry.RetryPolicy(retries=0, timeout_s=10)
    source = GrowingSource(URL, distant(), open_file, open_lengths, policy)
    await source.refresh()
    await source.fetch_suffix(10)
    assert bytes(await source.fetch(ByteRange(0, 70), told.append)) == data[:70]
    assert bool(told) is is_complete
    await source.aclose()


class CountedPieces(list[StreamPiece]):
    """Counts how often a piece is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


def test_many_pieces_of_one_request_are_looked_at_a_few_times_each() -> None:
    """However small the parts are in which its answer comes, and however often it is begun."""
    feed = cast("StreamFeed", None)  # nobody asks for it
    pieces = CountedPieces(StreamPiece(feed, ByteRange(at, at + 10), 0) for at in range(0, 10_000, 10))
    wave = _Wave(pieces, plan.plan_requests([piece.range for piece in pieces], distant(part_bytes=1 << 20)))
    (fetch,) = wave.fetches
    begun = [
        piece.range.start
        for _ in range(2)
        for stop in range(1, 10_000)
        for piece, _, _ in wave.begun(fetch, RangeBuffer(ByteRange(0, stop), bytes(stop)))
    ]
    assert begun == list(range(0, 9990, 10))
    assert pieces.looks < 25_000
    assert [piece.range.start for piece, _, _ in wave.arrived(fetch_done(fetch))] == [9990]


def fetch_done(fetch: _Fetch) -> _Fetch:
    fetch.buffer = RangeBuffer(fetch.request.range, bytes(fetch.request.range.length))
    return fetch
