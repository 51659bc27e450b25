"""What is ruled out for a read is what that read would not answer; and no more is read than is wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcstream
from orcstream import col
from orcstream.acid import open_table
from orcstream.errors import SourceChanged
from orcstream.expr import Expr
from orcstream.integrations.dask import read_orc
from orcstream.integrations.ray import OrcDatasource
from orcstream.reader.observing import DecodeSpan, RequestSpan
from orcstream.reader.stream import ReadStatistics

START_NS = 1_600_000_000 * 10**9
INSTANT = "timestamp with local time zone"


async def put(path: Path, schema: str, data: object) -> str:
    async with orcstream.create(path, schema) as out:
        await out.write(data)
    return str(path)


def at(offset_ns: int) -> np.datetime64:
    return np.datetime64(START_NS + offset_ns, "ns")


CASES = [
    (999_800, col("t") > at(999_500), "ns"),
    (999_800, col("t") == at(999_800), "ns"),
    (999_800, ~(col("t") <= at(999_500)), "ns"),
    (500_000_000, col("t") == at(0), "s"),
    (500_000_000, col("t") == at(500_000_000), "us"),
    (500_999_999, col("t") == at(500_000_000), "ms"),
]


@pytest.mark.parametrize("type_", ["timestamp", INSTANT])
@pytest.mark.parametrize(("offset", "where", "unit"), CASES, ids=range(len(CASES)))
async def test_times_are_compared_as_they_are_delivered(
    tmp_path: Path, type_: str, offset: int, where: Expr, unit: str
) -> None:
    zone = None if type_ == "timestamp" else "UTC"
    rows = pa.table({"t": pa.array([START_NS + offset], pa.timestamp("ns", zone))})
    path = await put(tmp_path / "a.orc", f"struct<t:{type_}>", rows)
    async with orcstream.dataset(path) as files:
        assert (await files.read(where=where, timestamp_unit=unit)).num_rows == 1
        splits = await files.splits(where, timestamp_unit=unit)
    assert [split.rows for split in splits] == [range(1)]
    async with orcstream.open(path) as file:
        assert await file.matching_stripes(where, timestamp_unit=unit) == (0,)
    assert len(read_orc(path, where=where, timestamp_unit=unit)) == 1
    tasks = OrcDatasource(path, where=where, timestamp_unit=unit).get_read_tasks(1)
    assert sum(block.num_rows for task in tasks for block in task.read_fn()) == 1


async def test_times_of_a_transactional_table(tmp_path: Path) -> None:
    """Its original files, too."""
    (tmp_path / "t").mkdir()
    rows = pa.table({"t": pa.array([START_NS + 999_800], pa.timestamp("ns", "UTC"))})
    await put(tmp_path / "t" / "000000_0", f"struct<t:{INSTANT}>", rows)
    async with open_table(tmp_path / "t") as table:
        for _, where, unit in CASES[:3]:
            assert (await table.read(where=where, timestamp_unit=unit)).num_rows == 1


async def test_no_file_is_looked_into_once_enough_is_there(tmp_path: Path) -> None:
    """With a filter that leaves a row of each file, as many as are wanted."""
    for number in range(60):
        await put(tmp_path / f"{number:02}.orc", "struct<a:int>", [{"a": number}, {"a": 1000}])
    for limit in (4, 10):
        seen: list[str] = []
        async with orcstream.dataset(tmp_path, observer=Watching(seen)) as files:
            where = (col("a") >= 0) & (col("a") < limit)
            async with files.batches(where=where, limit=limit) as stream:
                assert [row["a"] async for batch in stream for row in batch.to_pylist()] == [*range(limit)]
        assert limit <= len(seen) < 60


class Watching:
    """Notes which files are opened."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    def begin(self, operation: str, url: str) -> Watching:
        if operation == "open":
            self._seen.append(url)
        return self

    def on_request(self, span: RequestSpan) -> None: ...

    def on_decode(self, span: DecodeSpan) -> None: ...

    def end(self, statistics: ReadStatistics | None, error: BaseException | None) -> None: ...


async def test_a_file_that_has_changed_is_closed(tmp_path: Path) -> None:
    paths = [await put(tmp_path / f"{n}.orc", "struct<a:int>", [{"a": n}]) for n in range(4)]
    async with orcstream.dataset(paths) as files:
        splits = await files.splits()
    for path in paths:
        await put(Path(path), "struct<a:int>", [{"a": 1}, {"a": 2}])
    async with orcstream.dataset(list(splits)) as files:
        with pytest.raises(SourceChanged):
            await files.read()
        held = [link for link in Path("/proc/self/fd").iterdir() if str(tmp_path) in link_of(link)]
    assert held == []


def link_of(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # that of this listing
        return ""
