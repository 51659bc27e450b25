"""Each step of an asynchronous iterator lets other tasks run, and loses nothing where it is cancelled."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import orcstream
from orcstream import acid, blocking
from orcstream.io.loop.tasks import Stream
from orcstream.reader.opening import FileStream
from orcstream.reader.stream import BatchStream
from orcstream.table.lanes import TableStream

ROWS = 5000
STEP_ROWS = 50
CLASSES = {BatchStream, TableStream, FileStream}
SCHEMA = "struct<k:bigint,text:string>"
Steps = AsyncIterator[Any]


def columns() -> dict[str, Any]:
    return {"k": np.arange(ROWS), "text": [f"{number}" for number in range(ROWS)]}


def put(folder: Path) -> str:
    path = str(folder / "a.orc")
    blocking.write(path, columns(), SCHEMA, row_index_stride=1000)
    return path


async def of_a_file(folder: Path, stack: AsyncExitStack) -> Steps:
    file = await stack.enter_async_context(orcstream.open(put(folder)))
    return await stack.enter_async_context(file.batches(batch_rows=STEP_ROWS))


async def filtered(folder: Path, stack: AsyncExitStack) -> Steps:
    file = await stack.enter_async_context(orcstream.open(put(folder)))
    chosen = file.batches(batch_rows=STEP_ROWS, where=orcstream.col("k") >= 0, columns=["text"])
    return await stack.enter_async_context(chosen)


async def of_a_followed_file(folder: Path, stack: AsyncExitStack) -> Steps:
    file = await stack.enter_async_context(orcstream.open(put(folder), follow=True))
    return await stack.enter_async_context(file.batches(batch_rows=STEP_ROWS))


async def of_a_data_set(folder: Path, stack: AsyncExitStack) -> Steps:
    put(folder)
    data = await stack.enter_async_context(orcstream.dataset(str(folder)))
    return await stack.enter_async_context(data.batches(batch_rows=STEP_ROWS))


async def of_a_transactional_table(folder: Path, stack: AsyncExitStack) -> Steps:
    url = str(folder / "table")
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert(columns())
    table = await stack.enter_async_context(acid.open_table(url))
    return await stack.enter_async_context(table.batches(batch_rows=STEP_ROWS))


async def of_many_files(folder: Path, stack: AsyncExitStack) -> Steps:
    return await stack.enter_async_context(orcstream.open_many([put(folder)] * (ROWS // STEP_ROWS)))


MAKERS = [of_a_file, filtered, of_a_followed_file, of_a_data_set, of_a_transactional_table, of_many_files]


def test_the_makers_cover_every_iterator() -> None:
    package = Path(orcstream.__file__).parent
    found = {
        node.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(part, ast.AsyncFunctionDef) and part.name == "__anext__" for part in node.body)
    }
    assert found == {Stream.__name__}
    assert {one for one in _below(Stream) if not inspect.isabstract(one)} == set(CLASSES)


def _below(base: type[Any]) -> Iterator[type[Any]]:
    for one in base.__subclasses__():
        yield one
        yield from _below(one)


def rows_in(step: Any) -> int:
    return STEP_ROWS if isinstance(step, orcstream.OrcFile) else step.num_rows


@pytest.mark.parametrize("make", MAKERS)
async def test_every_step_lets_others_run(make: Any, tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        steps = await make(tmp_path, stack)
        assert type(steps) in CLASSES
        count = done = 0
        while done < ROWS:
            turns: list[int] = []
            loop.call_soon(turns.append, count)
            step = await anext(steps)
            assert turns == [count], "the loop went nowhere else"
            count, done = count + 1, done + rows_in(step)
            if isinstance(step, orcstream.OrcFile):
                await step.aclose()
    assert count >= ROWS // STEP_ROWS


@pytest.mark.parametrize("by", ["scope", "task"])
@pytest.mark.parametrize("make", MAKERS)
async def test_steps_that_are_cancelled_at_once_lose_nothing(make: Any, by: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        steps = await make(tmp_path, stack)
        done = 0
        while done < ROWS:
            if by == "scope":
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await anext(steps)
                assert scope.cancelled_caught, "the step did not notice"
            else:
                step = asyncio.ensure_future(anext(steps))
                await asyncio.sleep(0)  # it has begun
                step.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await step
            found = await anext(steps)
            if not isinstance(found, orcstream.OrcFile):
                assert found.to_pylist()[0]["text"] == str(done)
            else:
                await found.aclose()
            done += rows_in(found)
    assert done == ROWS
