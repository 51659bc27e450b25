"""Streams of tables left, cancelled, closed and dropped: nothing is left behind, nothing ends unnoticed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orcstream.acid import AcidTable, TableStream, create_table, open_table, opening
from orcstream.acid.read.row_ids import KeyBudget
from orcstream.acid.transactions.log import TransactionLog
from orcstream.errors import UsageError
from tests.generators.acid import DELETE, INSERT, UPDATE, Event, key_of, put_events
from tests.support.tables_left import check_cancelled_close, nothing_left, tasks_of_ours

__all__ = ["nothing_left"]  # fixture

DELTAS = 12
PER_DELTA = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve deltas of two buckets, two delete deltas, and one delta of before Hive 3."""
    folder = tmp_path_factory.mktemp("table")
    for write_id in range(1, DELTAS + 1):
        for bucket in range(2):
            keys = [key_of(write_id, row, bucket) for row in range(PER_DELTA)]
            events = [Event(INSERT, key, write_id, {"k": key[2], "v": "x" * 20}) for key in keys]
            name = f"delta_{write_id:07d}_{write_id:07d}_0000/bucket_{bucket:05d}"
            put_events(folder / name, events, version=write_id != 3, stripe_rows=10)
    for write_id in (20, 21):
        deletes = [Event(DELETE, key_of(one, write_id), write_id, None) for one in range(1, DELTAS + 1)]
        put_events(
            folder / f"delete_delta_{write_id:07d}_{write_id:07d}_0000/bucket_00000", deletes, version=True
        )
    update = Event(UPDATE, key_of(3, 0, 1), 22, {"k": -1, "v": "updated"})
    put_events(folder / "delta_0000022_0000022/bucket_00001", [update])
    return folder


ROWS = DELTAS * (2 * PER_DELTA - 2)


async def count(stream: TableStream) -> int:
    return sum([batch.num_rows async for batch in stream])


async def test_all_of_it(folder: Path) -> None:
    async with open_table(folder) as table:
        assert await count(table.batches()) == ROWS
        assert await count(table.batches(memory_limit=1 << 16)) == ROWS


async def test_opened_and_closed_in_different_tasks(folder: Path) -> None:
    opening = open_table(folder)
    table = await asyncio.create_task(opening.__aenter__())
    assert await asyncio.create_task(count(table.batches())) == ROWS
    await asyncio.create_task(table.aclose())
    await table.aclose()
    with pytest.raises(UsageError, match="closed"):
        table.batches()


async def test_a_block_left_early(folder: Path) -> None:
    async with open_table(folder) as table:
        async with table.batches(batch_rows=10) as stream:
            await anext(stream)
            assert tasks_of_ours()
        assert set(tasks_of_ours()) <= {"orcstream file"}
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_a_loop_left_early(folder: Path) -> None:
    async with open_table(folder) as table:
        async for _ in table.batches(batch_rows=10):
            break
        gc.collect()
        assert await count(table.batches()) == ROWS


async def test_a_stream_and_a_table_that_are_dropped(folder: Path) -> None:
    table = await open_table(folder)
    stream = table.batches(batch_rows=10)
    await anext(stream)
    del table, stream
    gc.collect()


async def test_a_stream_never_started(folder: Path) -> None:
    async with open_table(folder) as table:
        stream = table.batches()
        del stream
        async with table.batches():
            pass


async def test_a_table_closed_under_a_stream(folder: Path) -> None:
    """Is an error, and no end: rows are missing."""
    table = await open_table(folder)
    stream = table.batches(batch_rows=10, memory_limit=1 << 16)
    await anext(stream)
    await table.aclose()
    with pytest.raises(UsageError, match="closed"):
        await count(stream)
    with pytest.raises(UsageError, match="closed"):
        await anext(stream)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 20])
async def test_closed_while_another_task_waits(turns: int, folder: Path) -> None:
    async def read(stream: TableStream) -> int:
        return await count(stream)

    for whole in (False, True):
        table = await open_table(folder)
        stream = table.batches(batch_rows=10, memory_limit=1 << 16)
        task = asyncio.create_task(read(stream))
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        await (table.aclose() if whole else stream.aclose())
        with anyio.fail_after(20), pytest.raises(UsageError, match="closed"):
            await task
        await table.aclose()


async def test_two_streams_at_once(folder: Path) -> None:
    async with open_table(folder) as table:
        found: list[int] = []

        async def read(**options: Any) -> None:
            found.append(await count(table.batches(**options)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(lambda: read(batch_rows=7))
            tasks.start_soon(lambda: read(memory_limit=1 << 16))
        assert found == [ROWS] * 3


async def test_two_tasks_on_one_stream(folder: Path) -> None:
    async with open_table(folder) as table:
        stream = table.batches(batch_rows=10)
        one = asyncio.create_task(anext(stream))
        await anyio.lowlevel.checkpoint()
        with pytest.raises(UsageError, match=r"\btasks\b"):
            await anext(stream)
        first = await one
        assert first.num_rows + await count(stream) == ROWS


async def read_all(folder: Path, opened: list[AcidTable]) -> int:
    async with open_table(folder) as table:
        opened.append(table)
        async with table.batches(batch_rows=30, memory_limit=1 << 18) as stream:
            return await count(stream)


async def test_cancelled_at_any_turn(folder: Path) -> None:
    """Of the loop: while it lists, opens, loads keys, reads, delivers, closes."""
    cancelled = 0
    for turns in (*range(40), *range(40, 400, 23)):
        task = asyncio.create_task(read_all(folder, []))
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        task.cancel()
        try:
            assert await task == ROWS
        except asyncio.CancelledError:
            cancelled += 1
    assert cancelled > 20


async def test_a_step_that_is_cancelled_loses_no_row(folder: Path) -> None:
    async with open_table(folder) as table:
        stream = table.batches(batch_rows=10, memory_limit=1 << 16)
        found = steps = 0
        while True:
            task = asyncio.create_task(anext(stream, None))
            for _ in range(steps % 7):
                await anyio.lowlevel.checkpoint()
            steps += 1
            if steps < 2000:
                task.cancel()
            try:
                batch = await task
            except asyncio.CancelledError:
                continue
            if batch is None:
                break
            found += batch.num_rows
        assert found == ROWS


async def test_keys_that_are_on_disk_are_given_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no room for keys at all, and the stream left in the middle."""
    monkeypatch.setattr("orcstream.acid.read.planning.KeyBudget", lambda _: KeyBudget(0))
    async with open_table(folder) as table:
        assert await count(table.batches()) == ROWS
        async with table.batches(batch_rows=10) as stream:
            await anext(stream)
        stream = table.batches(batch_rows=10)
        await anext(stream)


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_close_that_is_cancelled_closes_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """Files, clients, and the connection that says what is committed."""
    closed: list[TransactionLog] = []

    async def aclose(log: TransactionLog) -> None:
        await anyio.lowlevel.checkpoint()
        closed.append(log)

    await create_table(tmp_path, "struct<x:bigint>")
    async with open_table(tmp_path) as table, await table.transaction() as change:
        await change.insert([{"x": number} for number in range(100)])
    monkeypatch.setattr(TransactionLog, "aclose", aclose)

    async def open_and_read() -> Callable[[], Awaitable[None]]:
        table = await open_table(tmp_path)
        await anext(table.batches(batch_rows=10))
        return table.aclose

    await check_cancelled_close(open_and_read, turns)
    assert closed


async def test_cancelled_when_all_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[AcidTable] = []
    scope = anyio.CancelScope()

    class Cancelling(AcidTable):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)
            scope.cancel()

    monkeypatch.setattr(opening, "AcidTable", Cancelling)
    with scope:
        await open_table(folder)
    assert scope.cancelled_caught
    with pytest.raises(UsageError):
        await made[0].read()
