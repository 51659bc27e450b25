"""Data sets left, cancelled, closed and dropped at any time: nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.datasets.dataset import OrcDataset
from orcstream.datasets.opening import OpeningDataset
from orcstream.errors import UsageError
from tests.support.tables_left import check_cancelled_close, nothing_left, tasks_of_ours

__all__ = ["nothing_left"]  # fixture

FILES = 20
PER_FILE = 50
ROWS = FILES * PER_FILE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for number in range(FILES):
        (folder / f"n={number}").mkdir()
        ids = range(number * PER_FILE, (number + 1) * PER_FILE)
        orc.write_table(pa.table({"id": list(ids)}), folder / f"n={number}" / "part.orc")
    return folder


async def read_all(folder: Path) -> int:
    async with orcstream.dataset(folder) as files:
        await files.splits()
        async with files.batches(batch_rows=30, memory_limit=1 << 18) as stream:
            return sum([batch.num_rows async for batch in stream])


async def test_cancelled_at_any_turn(folder: Path) -> None:
    """Of the loop: while it lists, opens, shares out, reads, delivers, closes."""
    cancelled = 0
    for turns in (*range(40), *range(40, 500, 23)):
        task = asyncio.create_task(read_all(folder))
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        task.cancel()
        try:
            assert await task == ROWS
        except asyncio.CancelledError:
            cancelled += 1
    assert cancelled > 20


async def test_files_that_were_read_are_let_go(folder: Path) -> None:
    """The plan of a read has all of its files: their metadata added up until the stream was closed."""
    gc.collect()
    before = {id(one) for one in gc.get_objects() if isinstance(one, orcstream.OrcFile)}
    async with orcstream.dataset(folder) as files, files.batches() as stream:
        assert sum([batch.num_rows async for batch in stream]) == ROWS
        gc.collect()
        held = [one for one in gc.get_objects() if isinstance(one, orcstream.OrcFile)]
        assert len([one for one in held if id(one) not in before]) <= 1  # the first is kept open


async def test_a_stream_that_is_left(folder: Path) -> None:
    async with orcstream.dataset(folder) as files:
        async with files.batches(batch_rows=10) as stream:
            await anext(stream)
            assert tasks_of_ours()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        async for _ in files.batches(batch_rows=10):
            break
        gc.collect()
        assert await files.count() == ROWS


async def test_dropped(folder: Path) -> None:
    files = await orcstream.dataset(folder)
    stream = files.batches(batch_rows=10)
    await anext(stream)
    del files, stream
    gc.collect()


async def test_closed_under_a_stream(folder: Path) -> None:
    files = await orcstream.dataset(folder)
    stream = files.batches(batch_rows=10, memory_limit=1 << 16)
    await anext(stream)
    await files.aclose()
    with pytest.raises(UsageError, match="closed"):
        [_ async for _ in stream]


async def test_opened_and_closed_in_different_tasks(folder: Path) -> None:
    opening = orcstream.dataset(folder)
    files = await asyncio.create_task(opening.__aenter__())
    assert await asyncio.create_task(files.count()) == ROWS
    await asyncio.create_task(files.aclose())


@pytest.mark.parametrize("turns", range(1, 8))
async def test_a_close_that_is_cancelled_closes_everything(folder: Path, turns: int) -> None:
    """The file that the columns were taken from, and the clients that were kept for the data set."""

    async def open_and_read() -> Callable[[], Awaitable[None]]:
        files = await orcstream.dataset(folder)
        await anext(files.batches(batch_rows=10, memory_limit=1 << 16))
        return files.aclose

    await check_cancelled_close(open_and_read, turns)


async def test_cancelled_when_all_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[OrcDataset] = []
    scope = anyio.CancelScope()

    def cancels(*arguments: Any) -> OrcDataset:
        made.append(dataset_of(*arguments))
        scope.cancel()
        return made[-1]

    dataset_of = OpeningDataset._dataset
    monkeypatch.setattr(OpeningDataset, "_dataset", cancels)
    with scope:
        await orcstream.dataset(folder)
    assert scope.cancelled_caught
    with pytest.raises(UsageError):
        await made[0].read()
