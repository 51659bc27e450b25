"""Who waits for whom: slow consumers stop the fetching, slow stores stop nothing, order stays the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache

import anyio
import anyio.lowlevel
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.io.contract.byte_source import OnBytes
from orcstream.io.stores.memory.source import BytesSource
from tests.reference.builder import FileBuilder
from tests.reference.columns import add_stripe
from tests.support.effort import share
from tests.support.read_sources import (
    NEAR,
    SAMPLE,
    ProbeSource,
    cost_of,
    counted_workers,
    opened,
    probe,
    sample_rows,
)

LEAST_LIMIT = 1 << 16


@lru_cache
def table(rows: int = 60_000) -> pa.Table:
    """Columns of which some have nulls at the start and some at the end, so that their bytes lie skewed."""
    rng = np.random.default_rng(5)
    numbers = rng.integers(-(1 << 62), 1 << 62, rows)
    early, late = np.arange(rows) < rows // 2, np.arange(rows) >= rows // 2
    texts = [f"{number:x}" * (1 + row % 3) for row, number in enumerate(numbers.tolist())]
    return pa.table(
        {
            "n": numbers,
            "early": pa.array(numbers, mask=early),
            "late": pa.array(texts, mask=late),
            "few": pa.array([text[:1] for text in texts]),
            "list": pa.array([[number] * (row % 4) for row, number in enumerate(numbers.tolist())]),
        }
    )


@lru_cache
def file_of(stripe_size: int, compression: str = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    orc.write_table(
        table(), sink, stripe_size=stripe_size, compression=compression, compression_block_size=64 << 10
    )
    return bytes(sink.getvalue())


async def read(source: ProbeSource, **options: object) -> pa.Table:
    async with opened(source) as file:
        return pa.table(await file.read(**options))  # type: ignore[arg-type]


@settings(max_examples=share(25))
@given(
    seed=st.integers(0, 2**32),
    stripe_size=st.sampled_from([1 << 16, 1 << 18, 1 << 30]),
    compression=st.sampled_from(["zstd", "uncompressed"]),
    cost=st.builds(
        cost_of,
        gap_bytes=st.sampled_from([0, 1000, 1 << 20]),
        cap=st.integers(1, 6),
        part_bytes=st.sampled_from([5000, 1 << 16, 1 << 22]),
    ),
    longest=st.sampled_from([1, 3, 40]),
    memory_limit=st.sampled_from([LEAST_LIMIT, 1 << 19, 1 << 28]),
    threads=st.sampled_from([1, 2, 4]),
    batch_rows=st.sampled_from([100, 10_000, 1 << 17]),
)
def test_latencies_never_change_the_rows(
    seed: int,
    stripe_size: int,
    compression: str,
    cost: CostModel,
    longest: int,
    memory_limit: int,
    threads: int,
    batch_rows: int,
) -> None:
    dice = random.Random(seed)
    source = probe(file_of(stripe_size, compression), cost, turns=lambda _: dice.randint(1, longest))

    async def run() -> pa.Table:
        with anyio.fail_after(60):
            return await read(
                source, memory_limit=memory_limit, decode_threads=threads, batch_rows=batch_rows
            )

    assert anyio.run(run).equals(table())


@pytest.mark.parametrize("stripe_size", [1 << 16, 1 << 30], ids=["many-stripes", "one-stripe"])
async def test_a_slow_consumer_stops_the_fetching(stripe_size: int) -> None:
    data = file_of(stripe_size, "uncompressed")
    limit = 1 << 20
    source = probe(data)
    with counted_workers() as active:
        async with opened(source) as file, file.batches(memory_limit=limit, batch_rows=500) as stream:
            batches = [await anext(stream)]
            await quiet(source, active)
            asked = source.request_count
            assert stream.stats.bytes_read < len(data) * 0.6
            assert stream.stats.peak_fetched_bytes <= limit
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
            assert source.request_count == asked
            batches += [batch async for batch in stream]
            stats = stream.stats
    assert pa.Table.from_batches(map(pa.record_batch, batches)).equals(table())
    assert stats.bytes_read > len(data) * 0.9
    assert stats.peak_fetched_bytes <= limit


async def quiet(source: ProbeSource, active: list[int]) -> None:
    """Wait until nothing is fetched or decoded any more."""
    calm = 0
    with anyio.fail_after(20):
        while calm < 50:
            before = source.request_count
            await anyio.lowlevel.checkpoint()
            calm = calm + 1 if source.open_count == active[0] == source.request_count - before == 0 else 0


async def test_skewed_columns_do_not_cost_a_request_each() -> None:
    """Where some columns need their bytes earlier than others, budget or no."""
    data = file_of(1 << 30, "uncompressed")
    source = probe(data, cost_of(gap_bytes=1 << 14))
    limit = 1 << 19
    async with opened(source) as file:
        plan = await file.explain(memory_limit=limit)
        before = source.request_count
        rows = pa.table(await file.read(memory_limit=limit))
    assert rows.equals(table())
    # A window that is asked for in two halves may cost as many requests again, not more.
    assert source.request_count - before <= 2 * plan.request_count


@pytest.mark.parametrize("cap", [1, 16])
async def test_a_store_that_answers_in_reverse(cap: int) -> None:
    source = probe(file_of(1 << 16), cost_of(cap=cap), turns=lambda number: 400 - min(number, 399))
    assert (await read(source, memory_limit=1 << 20)).equals(table())


async def test_figures_of_a_stream() -> None:
    data = file_of(1 << 16)
    source = probe(data, cost_of(gap_bytes=1 << 12))
    async with opened(source) as file, file.batches(columns=["n", "few"]) as stream:
        before = source.request_count
        assert stream.stats.request_count == stream.stats.bytes_read == stream.stats.row_count == 0
        batches = [batch async for batch in stream]
        stats = stream.stats
    assert stats.row_count == sum(batch.num_rows for batch in batches) == 60_000
    assert stats.batch_count == len(batches)
    assert stats.stripe_count == len(file.stripes) > 3
    assert stats.request_count == source.request_count - before
    assert stats.retry_count == 0
    assert 0 < stats.bytes_wanted <= stats.bytes_read < len(data)
    assert stats.wait_s >= 0
    assert stats.decode_s > 0


class LateSource(ProbeSource):
    """Late requests are answered when the gate is opened, all others at once."""

    def __init__(self, data: bytes) -> None:
        super().__init__(BytesSource(data, NEAR))
        self.late: Callable[[ByteRange], bool] = lambda _: False
        self.gate = anyio.Event()
        self.held_count = 0

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        if self.late(range):
            self.held_count += 1
            await self.gate.wait()
        return await super().fetch(range, on_bytes)


async def test_the_next_stripe_goes_on_when_one_is_delivered() -> None:
    """One column of the second stripe has filled the budget before the bytes of the other came.

    Only the first stripe is served beyond the budget; that the second becomes the first must wake it.
    """
    rows = sample_rows(0, 20_401)
    builder = FileBuilder(SAMPLE)
    add_stripe(builder, rows[:401])
    add_stripe(builder, rows[401:])
    source = LateSource(builder.build())
    with counted_workers() as active, anyio.fail_after(20):
        async with opened(source) as file:
            first_column = file.stripes[1].range.start
            source.late = lambda one: one.start == first_column
            async with file.batches(columns=["a", "d"], batch_rows=400, memory_limit=LEAST_LIMIT) as stream:
                found = (await anext(stream)).to_pylist()
                while not source.held_count:
                    await anyio.lowlevel.checkpoint()
                await quiet(source, active)
                source.gate.set()
                await quiet(source, active)
                async for batch in stream:
                    found += batch.to_pylist()
                    await anyio.lowlevel.checkpoint()  # workers look before the consumer is back
    assert [tuple(row.values()) for row in found] == [(row[0], row[2]) for row in rows]
