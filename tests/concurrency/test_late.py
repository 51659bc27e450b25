"""Predicates, their columns read first or with the others: what is held, what is counted, what fails."""

from __future__ import annotations

import asyncio
import gc
import random
from dataclasses import replace
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orcstream.errors import CorruptStream, FormatError, OrcError, UsageError
from orcstream.plan.prune import prune
from tests.reference import rle_v2
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import Encoder, add_stripe
from tests.reference.indexes import Index
from tests.reference.statistics import honest
from tests.reference.types import T, parse
from tests.support.read_sources import (
    Leftovers,
    ProbeSource,
    cost_of,
    indexed_sample,
    listed_budgets,
    opened,
    probe,
    sample_rows,
)
from tests.support.selecting import API

STRIPES, PER_STRIPE = 4, 30
DATA = indexed_sample(STRIPES, PER_STRIPE)
ROWS: list[tuple[Any, ...]] = [row for stripe in range(STRIPES) for row in sample_rows(stripe, PER_STRIPE)]
COST = cost_of(tail_bytes=100)
WHERE = (API.col("d") >= 5.0) & (API.col("a") < 500)
MATCHING = [row for row in ROWS if row[2] >= 5.0 and row[0] < 500]
Into = list[tuple[Any, ...]]


@pytest.fixture(params=["predicate first", "all at once"], autouse=True)
def late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the columns of the predicate come first, whatever that pays."""
    first: bool = request.param == "predicate first"
    monkeypatch.setattr(prune, "late_pays", lambda *_: first)
    return first


def rows_in(batch: Any) -> Into:
    return [tuple(row.values()) for row in batch.to_pylist()]


def file_of(text: str, rows: list[tuple[Any, ...]], per_stripe: int, encoder: Encoder) -> bytes:
    type_: T = parse(text)
    stride = encoder.index.stride if encoder.index else 0
    builder = FileBuilder(type_, Options(stride=stride, statistics=honest))
    for start in range(0, len(rows), per_stripe):
        add_stripe(
            builder,
            rows[start : start + per_stripe],
            replace(encoder, streams=[], encodings={}, cells={}, seats={}),
        )
    return builder.build()


# --- steps that are cancelled ------------------------------------------------------------------------

STEPS: dict[str, tuple[dict[str, Any], Into]] = {
    "where": ({"where": WHERE}, MATCHING),
    "row numbers": ({"row_numbers": True}, [(*row, number) for number, row in enumerate(ROWS)]),
    "a read schema": (
        {"schema": "struct<a:bigint,s:string,d:double>", "rows": range(5, 100)},
        ROWS[5:100],
    ),
}


@pytest.mark.parametrize("way", STEPS)
@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_step_that_is_cancelled_loses_no_row(way: str, by: str) -> None:
    """As of a plain read; a step may be cancelled while a thread filters or converts what it waits for.

    The first turn is the checkpoint that each step begins with: steps of one turn never get further.
    """
    options, expected = STEPS[way]
    for turns in range(2, 12):
        source = probe(DATA, COST, turns=lambda number: number % 4)
        left = Leftovers(source)
        rows: Into = []
        async with opened(source) as opened_file:
            file: Any = opened_file
            async with file.batches(batch_rows=16, **options) as stream:
                with anyio.fail_after(20):
                    while not await _step(stream, rows, turns, by):
                        await anyio.lowlevel.checkpoint()
        assert rows == expected
        await left.check()


async def _step(stream: Any, into: Into, turns: int, by: str) -> bool:
    """One step that is given so many turns of the loop; whether the rows have ended."""
    ended = False

    async def go() -> None:
        nonlocal ended
        batch = await anext(stream, None)
        ended = batch is None
        if batch is not None:
            into.extend(rows_in(batch))

    if by == "scope":
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        return ended
    task = asyncio.create_task(go())
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return ended


async def _collect(stream: Any, into: Into) -> None:
    async for batch in stream:
        into += rows_in(batch)


# --- failures ----------------------------------------------------------------------------------------


def broken(stripe: int, column: int) -> tuple[bytes, list[tuple[Any, ...]]]:
    """A file in which the integers of one column end early in one stripe."""
    type_ = parse("struct<a:int,b:int>")
    builder = FileBuilder(type_, Options(statistics=honest))
    rows = [(row, -row) for row in range(120)]
    for number in range(4):
        columns = count(1)

        def integers(found: Any, *, signed: bool, columns: Any = columns, number: int = number) -> bytes:
            short = next(columns) == column and number == stripe
            return rle_v2.encode(found[:-5] if short else found, signed=signed)

        add_stripe(builder, rows[number * 30 : number * 30 + 30], Encoder(integers=integers))
    return builder.build(), rows


@pytest.mark.parametrize("column", [1, 2])
async def test_rows_before_a_failure_come_before_it(column: int) -> None:
    data, rows = broken(2, column)
    async with opened(probe(data, COST)) as opened_file:
        file: Any = opened_file
        async with file.batches(where=API.col("a") != 7) as stream:
            found: Into = []
            with pytest.raises(CorruptStream):
                await _collect(stream, found)
            assert found == [row for row in rows[:60] if row[0] != 7]
            with pytest.raises(CorruptStream):
                await anext(stream)


@pytest.mark.parametrize("column", [1, 2])
async def test_a_failed_stream_holds_no_bytes(column: int) -> None:
    """Whoever keeps the error keeps frames of the decoder, but nothing that was fetched."""
    data, _ = broken(1, column)
    kept: OrcError | None = None
    with listed_budgets() as budgets:
        async with opened(probe(data, COST)) as opened_file:
            file: Any = opened_file
            async with file.batches(where=API.col("a") != 7) as stream:
                try:
                    while True:
                        await anext(stream)
                except CorruptStream as error:
                    kept = error
    gc.collect()
    assert kept is not None
    assert stream is not None
    assert [budget.fetched for budget in budgets] == [0] * len(budgets)
    assert [budget.decoded + budget.dictionaries for budget in budgets] == [0] * len(budgets)


@pytest.mark.parametrize("row_count", [1 << 20, 10**10, 1 << 62])
async def test_more_row_groups_than_memory(row_count: int) -> None:
    """Only the number of rows says that there are so many."""
    builder = FileBuilder(parse("struct<a:int,b:string>"), Options(stride=1))
    add_stripe(builder, [(row, "x" * row) for row in range(20)], Encoder(index=Index(stride=1)))
    builder._stripes[0] = (*builder._stripes[0][:4], row_count)
    async with opened(probe(builder.build(), COST)) as opened_file:
        file: Any = opened_file
        with anyio.fail_after(10):
            for rows in (None, range(row_count - 5, row_count)):
                with pytest.raises(FormatError):
                    await file.read(where=API.col("a") > 3, rows=rows)
            assert rows_in(await file.read(rows=range(5, 7))) == [(5, "x" * 5), (6, "x" * 6)]


async def test_passing_over_rows_that_take_no_bytes() -> None:
    """A struct without fields has as many rows as the footer claims."""
    builder = FileBuilder(parse("struct<e:struct<>>"), Options())
    builder.stripe(1 << 62, [], [(0, 0), (0, 0)])
    async with opened(probe(builder.build(), COST)) as opened_file:
        file: Any = opened_file
        with anyio.fail_after(10):
            assert rows_in(await file.read(rows=range(1 << 61, (1 << 61) + 2))) == [({},), ({},)]


# --- null structs at the root ------------------------------------------------------------------------


async def test_a_root_with_nulls(late: bool) -> None:
    """It is decoded whole in such stripes; its columns are null there."""
    rows: list[Any] = [None if row % 7 == 3 else (row, f"{row}", [row] * (row % 3)) for row in range(300)]
    columns = [(None, None, None) if row is None else row for row in rows]
    data = file_of("struct<a:int,s:string,l:array<int>>", rows, 70, Encoder(index=Index(stride=10)))
    async with opened(probe(data, COST)) as opened_file:
        file: Any = opened_file
        for where, keeps in (
            (API.col("a") >= 150, lambda row: row[0] is not None and row[0] >= 150),
            (API.col("s").is_null(), lambda row: row[1] is None),
        ):
            expected = [(*row, at) for at, row in enumerate(columns) if keeps(row)]
            assert (await file.explain(where=where)).predicate_first is late
            for names in (["a", "s", "l"], ["l", "a"], ["l"], []):
                found = await file.read(where=where, columns=names, row_numbers=True)
                order = [*("asl".index(name) for name in names), 3]
                assert rows_in(found) == [tuple(row[at] for at in order) for row in expected]
            schema = "struct<s:string,new:double,a:bigint>"
            found = await file.read(where=where, schema=schema, rows=range(40, 260))
            assert rows_in(found) == [(row[1], None, row[0]) for row in expected if 40 <= row[3] < 260]


# --- what is counted, and how much is held -----------------------------------------------------------


async def test_every_row_is_counted_once() -> None:
    """Where one column has no index that leads anywhere, rows that were pruned are decoded all the same."""

    def none_for_l(column: int, _group: int, numbers: list[int]) -> list[int]:
        return [] if column == 3 else numbers

    rows = [(row // 50 % 3 * 100 + row % 50, f"{row}", row) for row in range(900)]
    data = file_of(
        "struct<a:int,s:string,l:bigint>", rows, 400, Encoder(index=Index(stride=50, positions=none_for_l))
    )
    async with opened(probe(data, COST)) as opened_file:
        file: Any = opened_file
        for wanted in (range(900), range(120, 777)):
            async with file.batches(where=API.col("a").isin([5, 220]), rows=wanted) as stream:
                found = [row for batch in [b async for b in stream] for row in rows_in(batch)]
            assert found == [row for row in rows[wanted.start : wanted.stop] if row[0] in (5, 220)]
            stats = stream.stats
            assert stats.rows_pruned_by_row_group > 0
            assert stats.row_count == len(found)
            pruned = stats.rows_pruned_by_file + stats.rows_pruned_by_stripe + stats.rows_pruned_by_row_group
            assert stats.row_count + stats.rows_filtered + pruned == len(wanted)


async def test_the_least_memory_limit() -> None:
    async with opened(probe(DATA, COST)) as opened_file:
        file: Any = opened_file
        assert rows_in(await file.read(where=WHERE, memory_limit=1 << 16)) == MATCHING
        assert (await file.explain(where=WHERE, memory_limit=1 << 16)).selected_row_count > 0
        with pytest.raises(UsageError, match="65535"):
            await file.read(where=WHERE, memory_limit=(1 << 16) - 1)


async def test_a_slow_consumer_stops_the_decoding() -> None:
    """What a predicate's columns have left is decoded already; it waits within the limit too."""
    rng = random.Random(1)
    rows = [(f"{rng.getrandbits(400):0100x}", row) for row in range(40_000)]
    data = file_of("struct<s:string,n:bigint>", rows, 1000, Encoder(index=Index(stride=1000)))
    limit = 1 << 20
    source = probe(data)
    with listed_budgets() as budgets:
        async with opened(source) as opened_file:
            file: Any = opened_file
            async with file.batches(where=API.col("s") > "0", memory_limit=limit, batch_rows=500) as stream:
                found = rows_in(await anext(stream))
                await _quiet(source)
                assert sum(budget.decoded for budget in budgets) <= limit // 2
                assert stream.stats.bytes_read < len(data) * 0.6
                async for batch in stream:
                    found += rows_in(batch)
                    assert 0 <= sum(budget.decoded for budget in budgets) <= limit
    assert found == rows


async def _quiet(source: ProbeSource) -> None:
    """Wait until nothing is fetched any more, for long enough to decode what was."""
    calm = 0
    with anyio.fail_after(20):
        while calm < 20:
            before = source.request_count
            await anyio.sleep(0.01)
            calm = calm + 1 if source.open_count == source.request_count - before == 0 else 0


@pytest.mark.parametrize("stride", [0, 500])
async def test_no_part_of_a_stripe_is_read_again_and_again(stride: int) -> None:
    """A stripe too large to be kept decoded goes on in parts, unless each would begin with its first row."""
    rng = random.Random(2)
    rows = [(f"{rng.getrandbits(400):0100x}", rng.getrandbits(60)) for _ in range(20_000)]
    data = file_of(
        "struct<s:string,n:bigint>", rows, 20_000, Encoder(index=Index(stride=stride) if stride else None)
    )
    async with opened(probe(data)) as opened_file:
        file: Any = opened_file
        async with file.batches(where=API.col("s") > "4", memory_limit=1 << 20) as stream:
            found = [row for batch in [b async for b in stream] for row in rows_in(batch)]
    assert found == [row for row in rows if row[0] > "4"]
    assert stream.stats.bytes_read < 2.1 * len(data)
