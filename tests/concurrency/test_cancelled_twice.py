"""Tasks that asyncio cancels again while the first cancellation cleans up: nothing stays."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import orcstream

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors are counted in /proc or /dev/fd")

SCHEMA = "struct<x:bigint>"


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def _cancelled_repeatedly(task: asyncio.Task[None], turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(4):
        task.cancel()
        await asyncio.sleep(0.0005)
    await asyncio.wait([task])
    assert task.cancelled()


async def _write(path: Path, *, growing: bool) -> None:
    async with orcstream.create(path, SCHEMA, growing=growing) as out:
        await out.write([{"x": 1}])
        await asyncio.sleep(60)


@pytest.mark.parametrize("growing", [True, False])
async def test_a_file_that_was_never_flushed(tmp_path: Path, growing: bool) -> None:
    await asyncio.sleep(0)
    before = descriptors()
    for number in range(300):
        task = asyncio.create_task(_write(tmp_path / f"{number}.orc", growing=growing))
        await _cancelled_repeatedly(task, number % 30)
    assert list(tmp_path.iterdir()) == []
    assert descriptors() <= before + 2


async def test_opened_files_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    async with orcstream.create(path, SCHEMA) as out:
        await out.write([{"x": 1}])

    async def read() -> None:
        async with orcstream.open(path) as file:
            await file.read()
            await asyncio.sleep(60)

    await asyncio.sleep(0)
    before = descriptors()
    for number in range(200):
        await _cancelled_repeatedly(asyncio.create_task(read()), number % 40)
    assert descriptors() <= before + 2
