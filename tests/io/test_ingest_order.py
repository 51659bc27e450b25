"""Ingesting: the order of files, and what one bad value or file means for the rows of others."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcstream
from orcstream.errors import SchemaMismatch, SinkError
from orcstream.io.stores.local import sink as sink_local
from tests.io.test_ingest_files import PARTITIONED, numbers


@pytest.mark.parametrize("call", ["begin", "put", "finish"])
async def test_a_file_that_fails_takes_no_rows_of_others(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = getattr(sink_local._Upload, call)

    async def fail(self: Any, *arguments: Any) -> Any:
        if "d=1/" in self._path:
            raise SinkError("no space")
        return await works(self, *arguments)

    monkeypatch.setattr(sink_local._Upload, call, fail)
    out = await orcstream.ingest(f"{tmp_path}/d={{d}}/{{number}}.orc", PARTITIONED)
    taken = []

    async def run() -> None:
        for number in range(30):
            await out.write(pa.table({"d": [number % 3], "n": [number]}))
            taken.append(number)
        await out.flush()

    with pytest.raises(SinkError, match="no space"):
        await run()
    await out.abort()
    assert len(taken) >= 3
    found = sorted(number for one in out.files for number in numbers(one.url))
    assert found == [number for number in taken if number % 3 != 1]
    assert out.files[-1].low_water == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".orc"]


@pytest.mark.parametrize(
    ("template", "value", "reason"),
    [
        ("d={d}/{number}.orc", "a\0b", "NUL"),
        ("d={d}/{number}.orc", "a" * 254, r"\b255 bytes\b"),
        ("{d}-{number}.orc", "a" * 250, r"\b255 bytes\b"),
        ("{d}/{d}-{number}.orc", "/" * 86, r"\b255 bytes\b"),
    ],
)
@pytest.mark.parametrize("as_rows", [True, False])
async def test_values_that_paths_cannot_hold_are_refused(
    template: str, value: str, reason: str, as_rows: bool, tmp_path: Path
) -> None:
    async with orcstream.ingest(f"{tmp_path}/{template}", "struct<d:string,n:bigint>") as out:
        await out.write([{"d": "good", "n": 1}])
        bad = [{"d": value, "n": 2}]
        with pytest.raises(SchemaMismatch, match=reason) as caught:
            await out.write(bad if as_rows else pa.Table.from_pylist(bad))
        assert caught.value.row == 0
        await out.write([{"d": "good", "n": 3}])
    assert [number for one in out.files for number in numbers(one.url)] == [1, 3]


@pytest.mark.parametrize("seed", range(4))
async def test_files_come_in_the_order_of_rows(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long each takes; at each call of `on_file`, all rows before `low_water` are visible."""
    chance = random.Random(seed)
    works = sink_local._Upload.finish

    async def slow(self: Any, length: int) -> Any:
        await asyncio.sleep(chance.choice([0, 0.001, 0.02]))
        return await works(self, length)

    monkeypatch.setattr(sink_local._Upload, "finish", slow)
    marks: list[int] = []
    by_value: dict[int, list[int]] = defaultdict(list)

    async def on_file(file: orcstream.IngestedFile) -> None:
        marks.append(file.low_water)
        by_value[file.partition["d"]] += numbers(file.url)
        await asyncio.sleep(chance.choice([0, 0.002]))
        visible = {number for path in tmp_path.rglob("*.orc") for number in numbers(path)}
        assert visible.issuperset(range(file.low_water))

    template = f"{tmp_path}/d={{d}}/{{number}}.orc"
    async with orcstream.ingest(template, PARTITIONED, max_rows=5, on_file=on_file) as out:
        number = 0
        while number < 300:
            count = chance.choice([1, 1, 1, 20])
            data = [{"d": chance.randrange(3), "n": n} for n in range(number, number + count)]
            await out.write(pa.Table.from_pylist(data) if count > 1 else data)
            number += count
    assert marks == sorted(marks)
    assert marks[-1] == number
    assert all(found == sorted(found) for found in by_value.values())
