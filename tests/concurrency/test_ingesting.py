"""Ingesting, cancelled or failing at every await: whole files or none, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

import orcstream
from orcstream.errors import SinkError
from orcstream.io.stores.local import sink as sink_local
from orcstream.writer.ingester import Ingester
from tests.concurrency.test_writing import Stepped
from tests.support.effort import STEP

PARTITIONS = 3
EXPECTED = {f"p{part}": [n for n in range(120) if n % PARTITIONS == part] for part in range(PARTITIONS)}


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"d": f"p{number % PARTITIONS}", "n": number} for number in range(start, stop)]


async def ingest_all(folder: Path) -> None:
    template = f"{folder}/{{d}}/{{number:03}}.orc"
    schema = "struct<d:string,n:bigint>"
    async with orcstream.ingest(template, schema, max_rows=15, max_open_files=2, compression="none") as out:
        await out.write(pa.Table.from_pylist(rows(0, 40)))
        for number in range(40, 60):
            await out.write(rows(number, number + 1))
        await out.flush()
        await out.write(pa.Table.from_pylist(rows(60, 120)))


def check(folder: Path, *, complete: bool) -> None:
    """Whole files of rows that were written, each once, in order within a file; and no temporaries."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        assert path.suffix == ".orc", path
        numbers = pyarrow.orc.ORCFile(path).read()["n"].to_pylist()
        assert numbers == sorted(numbers)
        assert 0 < len(numbers) <= 15
        found[path.parent.name] += numbers
    for part, numbers in found.items():
        assert numbers == sorted(set(numbers))
        assert set(numbers) <= set(EXPECTED[part])
    if complete:
        assert found == EXPECTED
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("orcstream")]


@pytest.mark.timeout(300)
async def test_cancelled_at_every_await_of_the_user(tmp_path: Path) -> None:
    steps = Stepped(ingest_all(tmp_path / "all"), -1, lambda: None)
    await steps
    check(tmp_path / "all", complete=True)
    cancelled = 0
    for number in range(0, steps.count + 2, STEP):
        folder = tmp_path / str(number)
        task = asyncio.create_task(_run(Stepped(ingest_all(folder), number, lambda: task.cancel())))  # noqa: B023
        await asyncio.wait([task])
        cancelled += task.cancelled()
        check(folder, complete=not task.cancelled())
    assert cancelled >= steps.count // STEP // 2


async def _run(steps: Stepped) -> None:
    await steps


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ending", ["abort", "cancel"])
async def test_ended_at_every_await_of_its_own(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `abort` of another task, or as a loop that ends does it."""
    work = Ingester._work
    counts: list[int] = []
    aborting: list[asyncio.Future[None]] = []
    at = -1

    async def stepped(out: Ingester) -> None:
        def act() -> None:
            if ending == "abort":
                aborting.append(asyncio.ensure_future(out.abort()))
            else:
                out._task.cancel()

        steps = Stepped(work(out), at, act)
        try:
            await steps
        finally:
            counts.append(steps.count)

    monkeypatch.setattr(Ingester, "_work", stepped)
    await ingest_all(tmp_path / "all")
    ended = 0
    for number in range(0, counts[0], 2 * STEP):
        at = number
        folder = tmp_path / str(number)
        try:
            await ingest_all(folder)
        except orcstream.UsageError:
            ended += 1
            check(folder, complete=False)
        else:
            check(folder, complete=True)
        await asyncio.gather(*aborting)
    assert ended > counts[0] // STEP // 4


@pytest.mark.parametrize("call", ["begin", "put", "finish"])
async def test_a_store_that_fails_at_each_call(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = getattr(sink_local._Upload, call)
    count = 0
    failing = -1

    async def fail(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count - 1 == failing:
            raise SinkError("no space")
        return await works(*arguments)

    monkeypatch.setattr(sink_local._Upload, call, fail)
    await ingest_all(tmp_path / "all")
    total = count
    assert total >= 8
    for number in range(total):
        count, failing = 0, number
        with pytest.raises(SinkError, match="no space"):
            await ingest_all(tmp_path / str(number))
        check(tmp_path / str(number), complete=False)
