"""Cancelled at every point a consumer can wait at: no task, request or thread goes on, and no row is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orcstream.reader.file import OrcFile
from tests.support.effort import STEP
from tests.support.read_sources import (
    Leftovers,
    ProbeSource,
    cost_of,
    counted_workers,
    ended_before,
    open_over,
    opened,
    probe,
    sample,
    sample_rows,
)

STRIPES, PER_STRIPE = 4, 30
DATA = sample(STRIPES, PER_STRIPE)
ROWS = [row for stripe in range(STRIPES) for row in sample_rows(stripe, PER_STRIPE)]
# The tail needs a second request, footers four, data as many as there are streams.
COST = cost_of(tail_bytes=100)


async def read_rows(file: OrcFile, into: list[tuple[Any, ...]]) -> None:
    async with file.batches(batch_rows=16) as stream:
        async for batch in stream:
            into += [tuple(row.values()) for row in batch.to_pylist()]


async def open_and_read(source: ProbeSource, into: list[tuple[Any, ...]]) -> None:
    async with opened(source) as file:
        await read_rows(file, into)


async def count_requests() -> int:
    source = probe(DATA, COST)
    rows: list[tuple[Any, ...]] = []
    await open_and_read(source, rows)
    assert rows == ROWS
    return source.request_count


async def test_by_a_scope_at_every_request() -> None:
    total = await count_requests()
    assert total > 6
    for number in range(total):
        scope = anyio.CancelScope()
        source = probe(DATA, COST, on_request=_at(number, scope.cancel))
        left = Leftovers(source)
        rows: list[tuple[Any, ...]] = []
        with counted_workers() as active:
            with scope:
                await open_and_read(source, rows)
            assert scope.cancelled_caught, number
            assert active[0] == 0
        await left.check()
        assert rows == ROWS[: len(rows)]


async def test_by_the_task_at_every_request() -> None:
    for number in range(await count_requests()):
        source = probe(DATA, COST)
        left = Leftovers(source)
        rows: list[tuple[Any, ...]] = []
        task = asyncio.create_task(open_and_read(source, rows))
        source.on_request = _at(number, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        await left.check()
        assert rows == ROWS[: len(rows)]


async def test_by_the_task_after_every_turn_of_the_loop() -> None:
    """Whatever the consumer waits for at that moment: a lock, a thread, a batch, a close."""
    finished = False
    turn = 0
    while not finished:
        source = probe(DATA, COST)
        left = Leftovers(source)
        rows: list[tuple[Any, ...]] = []
        task = asyncio.create_task(open_and_read(source, rows))
        finished = await ended_before(task, turn)
        await left.check(file_closed=turn > 0)  # a task that never ran has opened nothing
        assert rows == ROWS[: len(rows)]
        turn += STEP if turn < 60 else 7
    assert rows == ROWS
    assert turn > 20


async def test_the_file_stays_usable_at_every_request() -> None:
    """Only the stream is cancelled; the same file is read again at once."""
    total = await count_requests()
    for number in range(total - 2):
        source = probe(DATA, COST)
        left = Leftovers(source)
        async with opened(source) as file:
            scope = anyio.CancelScope()
            source.on_request = _at(source.request_count + number, scope.cancel)
            rows: list[tuple[Any, ...]] = []
            with scope:
                await read_rows(file, rows)
            assert len(left.tasks()) <= 1  # the supervisor, which ends in a turn or two
            again: list[tuple[Any, ...]] = []
            await read_rows(file, again)
            assert again == ROWS
        await left.check()


async def test_a_step_that_is_cancelled_loses_no_row() -> None:
    """`wait_for` around each step, as people write it: the next step goes on where the last one stood.

    The first turn is the checkpoint that each step begins with: steps of one turn never get further.
    """
    for turns in range(2, 12):
        source = probe(DATA, COST, turns=lambda number: number % 4)
        rows: list[tuple[Any, ...]] = []
        async with opened(source) as file, file.batches(batch_rows=16) as stream:
            ended = False
            while not ended:
                step = asyncio.create_task(_step(stream.__anext__, rows))
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                step.cancel()
                try:
                    ended = await step
                except asyncio.CancelledError:
                    await anyio.lowlevel.checkpoint()
        assert rows == ROWS


async def _step(take: Callable[[], Any], into: list[tuple[Any, ...]]) -> bool:
    try:
        batch = await take()
    except StopAsyncIteration:
        return True
    into += [tuple(row.values()) for row in batch.to_pylist()]
    return False


async def test_while_the_file_is_opened_nothing_is_left_open() -> None:
    for number in range(2):
        for native in (False, True):
            source = probe(DATA, COST)
            left = Leftovers(source)
            scope = anyio.CancelScope()
            if native:
                task = asyncio.create_task(open_over(source))
                source.on_request = _at(number, task.cancel)
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                source.on_request = _at(number, scope.cancel)
                with scope:
                    await open_over(source)
                assert scope.cancelled_caught
            await left.check()


async def test_after_every_batch() -> None:
    for count in range(1, 8):
        source = probe(DATA, COST)
        left = Leftovers(source)
        async with opened(source) as file:
            scope = anyio.CancelScope()
            with scope:
                async with file.batches(batch_rows=16) as stream:
                    for _ in range(count):
                        await anext(stream)
                    scope.cancel()
                    await anext(stream)
                    await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            assert len(left.tasks()) <= 1  # the supervisor, which ends in a turn or two
        await left.check()


def _at(number: int, act: Callable[[], object]) -> Callable[[int], None]:
    def on_request(found: int) -> None:
        if found == number:
            act()

    return on_request
