"""Selected reads that are cancelled, fail or are refused: nothing is left behind, and no row is wrong."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orcstream.errors import ColumnNotFound, SourceChanged, SourceError, UsageError
from tests.support.effort import STEP
from tests.support.faulty import FaultySource
from tests.support.read_sources import (
    Leftovers,
    ProbeSource,
    assert_nothing_held,
    cost_of,
    counted_budgets,
    counted_workers,
    indexed_sample,
    open_over,
    opened,
    probe,
    sample_rows,
)
from tests.support.selecting import API

STRIPES, PER_STRIPE = 4, 30
DATA = indexed_sample(STRIPES, PER_STRIPE)
ROWS: list[tuple[Any, ...]] = [row for stripe in range(STRIPES) for row in sample_rows(stripe, PER_STRIPE)]
# The tail needs a second request; each footer, index and stream is a request of its own.
COST = cost_of(tail_bytes=100)
Into = list[tuple[Any, ...]]
MATCHING = [row for row in ROWS if row[2] >= 5.0 and row[0] < 500]
TAKEN = [100, 3, 3, 59, 119, 0]


async def collect(stream: Any, into: Into) -> None:
    async for batch in stream:
        into += [tuple(row.values()) for row in batch.to_pylist()]


async def by_predicate(file: Any, into: Into) -> None:
    async with file.batches(where=(API.col("d") >= 5.0) & (API.col("a") < 500), batch_rows=16) as stream:
        await collect(stream, into)


async def by_range(file: Any, into: Into) -> None:
    async with file.batches(rows=range(25, 95), batch_rows=16) as stream:
        await collect(stream, into)


async def by_seek(file: Any, into: Into) -> None:
    async with file.batches(batch_rows=16) as stream:
        await stream.seek(70)
        into += [tuple(row.values()) for row in (await anext(stream)).to_pylist()]
        await stream.seek(11)
        await collect(stream, into)


async def by_take(file: Any, into: Into) -> None:
    into += [tuple(row.values()) for row in (await file.take(TAKEN)).to_pylist()]


WAYS: dict[str, Callable[[Any, Into], Coroutine[Any, Any, None]]] = {
    "where": by_predicate,
    "rows": by_range,
    "seek": by_seek,
    "take": by_take,
}
WANTED: dict[str, Callable[[Into], bool]] = {
    "where": lambda rows: rows == MATCHING,
    "rows": lambda rows: rows == ROWS[25:95],
    "seek": lambda rows: rows == ROWS[70 : 70 + len(rows) - 109] + ROWS[11:],
    "take": lambda rows: rows == [ROWS[number] for number in TAKEN],
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


async def open_and_read(source: ProbeSource, way: str, into: Into) -> None:
    async with opened(source) as file:
        await WAYS[way](file, into)


async def count_requests(way: str) -> int:
    source = probe(DATA, COST)
    rows: Into = []
    await open_and_read(source, way, rows)
    assert WANTED[way](rows)
    assert source.request_count > 3
    return source.request_count


@EVERY_WAY
async def test_cancelled_at_every_request(way: str) -> None:
    for number in range(await count_requests(way)):
        scope = anyio.CancelScope()
        source = probe(DATA, COST, on_request=_at(number, scope.cancel))
        left = Leftovers(source)
        with counted_workers() as active, counted_budgets() as held:
            with scope:
                await open_and_read(source, way, [])
            assert scope.cancelled_caught, number
            assert active[0] == 0
        await left.check()
        await assert_nothing_held(held)


@EVERY_WAY
async def test_cancelled_after_every_turn_of_the_loop(way: str) -> None:
    finished = False
    turn = 0
    while not finished:
        source = probe(DATA, COST)
        left = Leftovers(source)
        rows: Into = []
        with counted_budgets() as held:
            task = asyncio.create_task(open_and_read(source, way, rows))
            for _ in range(turn):
                await anyio.lowlevel.checkpoint()
            finished = not task.cancel()
            if not finished:
                with pytest.raises(asyncio.CancelledError):
                    await task
        await left.check(file_closed=turn > 0)
        del task
        await assert_nothing_held(held)
        turn += STEP if turn < 30 else 11
    assert WANTED[way](rows)
    assert turn > 20


@EVERY_WAY
async def test_the_file_stays_usable_at_every_request(way: str) -> None:
    total = await count_requests(way)
    source = probe(DATA, COST)
    async with opened(source):
        opening = source.request_count
    for number in range(total - opening):
        source = probe(DATA, COST)
        left = Leftovers(source)
        async with opened(source) as file:
            scope = anyio.CancelScope()
            source.on_request = _at(source.request_count + number, scope.cancel)
            with scope:
                await WAYS[way](file, [])
            assert scope.cancelled_caught
            assert len(left.tasks()) <= 1  # the supervisor, which ends in a turn or two
            again: Into = []
            await WAYS[way](file, again)
            assert WANTED[way](again)
        await left.check()


async def test_a_seek_that_is_cancelled_leaves_a_stream_that_can_seek() -> None:
    for turns in range(1, 12):
        source = probe(DATA, COST, turns=lambda number: number % 4)
        async with opened(source) as opened_file:
            file: Any = opened_file
            async with file.batches(batch_rows=16) as stream:
                await anext(stream)
                step = asyncio.create_task(stream.seek(100))
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                step.cancel()
                await asyncio.wait([step])
                rows: Into = []
                await stream.seek(40)
                await collect(stream, rows)
        assert rows == ROWS[40:]


async def test_seeking_while_another_task_waits_for_a_batch_is_refused() -> None:
    source = probe(DATA, COST)
    async with opened(source) as opened_file:
        file: Any = opened_file
        async with file.batches() as stream:
            waiting = asyncio.create_task(anext(stream))
            await anyio.lowlevel.checkpoint()
            with pytest.raises(UsageError):
                await stream.seek(5)
            await waiting


async def test_many_selections_of_one_file_at_once() -> None:
    source = probe(DATA, COST, turns=lambda number: number % 5)
    left = Leftovers(source)
    async with opened(source) as file:
        found: dict[str, Into] = {way: [] for way in WAYS}
        async with anyio.create_task_group() as tasks:
            for way, into in found.items():
                tasks.start_soon(WAYS[way], file, into)
        assert all(WANTED[way](rows) for way, rows in found.items())
    await left.check()


# --- failures ----------------------------------------------------------------------------------------


@EVERY_WAY
async def test_a_store_that_fails_at_any_request(way: str) -> None:
    """What a seek has left behind may fail unseen."""
    total, failed = await count_requests(way), 0
    for number in range(total):
        source = probe(DATA, COST, on_request=_at(number, _raiser(SourceError("it is down"))))
        left = Leftovers(source)
        rows: Into = []
        caught: SourceError | None = None
        try:
            await open_and_read(source, way, rows)
        except SourceError as error:
            caught = error
        await left.check()
        failed += caught is not None
        assert caught.url == source.url if caught else WANTED[way](rows)
    assert failed > total / 2
    assert failed == total or way == "seek"


@EVERY_WAY
async def test_a_file_replaced_between_two_requests(way: str) -> None:
    """Where the store compares fingerprints, it refuses the request."""
    total = await count_requests(way)
    for number in range(1, total):
        source = probe(DATA, COST, on_request=_from(number, _raiser(SourceChanged("replaced"))))
        left = Leftovers(source)
        with pytest.raises(SourceChanged):
            await open_and_read(source, way, [])
        await left.check()


@EVERY_WAY
async def test_a_file_replaced_between_two_waves(way: str) -> None:
    """Where the store cannot, size and time are looked at after each wave: rows of both files never mix."""

    class Replaced(FaultySource):
        verify_count = 0

        def __init__(self, last: int) -> None:
            super().__init__(probe(DATA, COST), [])
            self._last = last

        async def verify(self) -> None:
            self.verify_count += 1
            if self.verify_count > self._last:
                raise SourceChanged("replaced", url=self.url)

    refused = 0
    for last in range(1, 100):  # opening looks once
        source = Replaced(last)
        rows: Into = []
        try:
            async with await open_over(source) as file:
                await WAYS[way](file, rows)
        except SourceChanged:
            refused += 1
            continue
        assert WANTED[way](rows)
        break
    # At least after the control wave and after the data wave.
    assert refused >= 2
    assert source.verify_count <= last


# --- refused before anything is asked for ------------------------------------------------------------

REFUSED: dict[str, tuple[type[Exception], Callable[[], dict[str, Any]]]] = {
    "an unknown column": (ColumnNotFound, lambda: {"where": API.col("nope") == 1}),
    "an unknown field of no struct": (ColumnNotFound, lambda: {"where": API.col("a.x").is_null()}),
    "a text for a number": (UsageError, lambda: {"where": API.col("a") == "one"}),
    "a number for a text": (UsageError, lambda: {"where": API.col("s") > 5}),
    "a date for a number": (UsageError, lambda: {"where": API.col("d") < datetime.date(2020, 1, 1)}),
    "the start of a number": (UsageError, lambda: {"where": API.col("a").starts_with("1")}),
    "a text for a predicate": (UsageError, lambda: {"where": "a > 1"}),
    "a column for a predicate": (UsageError, lambda: {"where": API.col("a")}),
    "an unknown operator": (UsageError, lambda: {"where": [("a", "~~", 1)]}),
    "a tuple too long": (UsageError, lambda: {"where": [("a", ">", 1, 2)]}),
    "steps": (UsageError, lambda: {"rows": range(0, 10, 2)}),
    "backwards": (UsageError, lambda: {"rows": range(10, 0, -1)}),
    "a slice": (UsageError, lambda: {"rows": slice(0, 10)}),
    "before the first row": (UsageError, lambda: {"rows": range(-5, 5)}),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refused_before_any_request(what: str) -> None:
    expected, make = REFUSED[what]
    source = probe(DATA, COST)
    left = Leftovers(source)
    async with opened(source) as opened_file:
        file: Any = opened_file
        before = source.request_count
        with pytest.raises(expected):
            file.batches(**make())
        for read in (file.read, file.explain):
            with pytest.raises(expected):
                await read(**make())
        assert source.request_count == before
    await left.check()


@pytest.mark.parametrize("numbers", [[-1], [120], [0, 1 << 40], ["1"], [1.5]])
async def test_rows_that_cannot_be_taken(numbers: list[Any]) -> None:
    source = probe(DATA, COST)
    async with opened(source) as opened_file:
        file: Any = opened_file
        before = source.request_count
        with pytest.raises((UsageError, TypeError)):
            await file.take(numbers)
        assert source.request_count == before


@pytest.mark.parametrize("row", [-1, 121, "1", 1.5])
async def test_rows_that_cannot_be_sought(row: Any) -> None:
    source = probe(DATA, COST)
    async with opened(source) as opened_file:
        file: Any = opened_file
        async with file.batches() as stream:
            with pytest.raises((UsageError, TypeError)):
                await stream.seek(row)
            rows: Into = []
            await collect(stream, rows)
    assert rows == ROWS


def _at(number: int, act: Callable[[], object]) -> Callable[[int], None]:
    def on_request(found: int) -> None:
        if found == number:
            act()

    return on_request


def _from(number: int, act: Callable[[], object]) -> Callable[[int], None]:
    def on_request(found: int) -> None:
        if found >= number:
            act()

    return on_request


def _raiser(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act
