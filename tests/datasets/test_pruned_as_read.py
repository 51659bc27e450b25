"""What is ruled out for a read is what that read would not answer; and no more is read than is wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import orcstream
from orcstream import col
from orcstream.acid import open_table
from orcstream.errors import SchemaMismatch, SourceChanged, Unsupported
from orcstream.query.expr import Expr
from orcstream.reader.engine.session import DecodeSpan, ReadStatistics, RequestSpan

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
    from orcstream.integrations.dask import read_orc
    from orcstream.integrations.ray import OrcDatasource

    zone = None if type_ == "timestamp" else "UTC"
    rows = pa.table({"t": pa.array([START_NS + offset], pa.timestamp("ns", zone))})
    path = await put(tmp_path / "a.orc", f"struct<t:{type_}>", rows)
    async with orcstream.dataset(path) as files:
        assert (await files.read(where=where, timestamp_unit=unit)).num_rows == 1
        splits = await files.splits(where, timestamp_unit=unit)
    assert [split.rows for split in splits] == [range(1)]
    async with orcstream.open(path) as file:
        assert await file.matching_stripes(where, timestamp_unit=unit) == (0,)
        assert (await file.explain(where=where, timestamp_unit=unit)).selected_row_count == 1
    assert len(read_orc(path, where=where, timestamp_unit=unit)) == 1
    tasks = OrcDatasource(path, where=where, timestamp_unit=unit).get_read_tasks(1)
    assert sum(block.num_rows for task in tasks for block in task.read_fn()) == 1


async def far(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / "t" / name).mkdir(parents=True)
        await put(folder / "t" / name / "f.orc", "struct<a:int>", [{"a": 1}])
    return folder / "t"


def clock(text: str) -> np.datetime64:
    return np.datetime64(text)


FOLDERS = [
    ("ts=9999-12-31 00%3A00%3A00", "9999-12-31", "us"),
    ("ts=0001-01-01 00%3A00%3A00", "0001-01-01", "ms"),
    ("ts=2020-01-02 03%3A04%3A05.123456789", "2020-01-02T03:04:05.123456789", "ns"),
    ("ts=2020-01-02T03%3A04%3A05.12", "2020-01-02T03:04:05.120", "ms"),
    ("ts=2020-01-02", "2020-01-02", "s"),
]


@pytest.mark.parametrize(("name", "value", "unit"), FOLDERS, ids=range(len(FOLDERS)))
async def test_times_of_folders(tmp_path: Path, name: str, value: str, unit: str) -> None:
    folder, time = await far(tmp_path, name), clock(value)
    async with orcstream.dataset(folder, partition_schema="struct<ts:timestamp>") as files:
        found = pa.table(await files.read(timestamp_unit=unit))
        assert found["ts"].cast(pa.int64()).to_pylist() == [int(time.astype(f"M8[{unit}]").astype(int))]
        for where, count in (
            (col("ts") == time, 1),
            (col("ts") != time, 0),
            (col("ts") >= clock("2019-01-01"), int(time >= clock("2019-01-01"))),
            (col("ts") < clock("2019-01-01"), int(time < clock("2019-01-01"))),
        ):
            assert (await files.read(where=where, timestamp_unit=unit)).num_rows == count, where
            assert await files.count(where) == count, where
            assert len(await files.splits(where)) == count, where


async def test_times_of_folders_are_cut_as_they_are_delivered(tmp_path: Path) -> None:
    folder = await far(tmp_path, "ts=2020-01-02 03%3A04%3A05.5")
    async with orcstream.dataset(folder, partition_schema="struct<ts:timestamp>") as files:
        for unit, text in (("s", "2020-01-02T03:04:05"), ("ms", "2020-01-02T03:04:05.5")):
            assert (await files.read(where=col("ts") == clock(text), timestamp_unit=unit)).num_rows == 1


async def test_times_that_do_not_fit(tmp_path: Path) -> None:
    folder = await far(tmp_path, "ts=9999-12-31 00%3A00%3A00")
    async with orcstream.dataset(folder, partition_schema="struct<ts:timestamp>") as files:
        with pytest.raises(Unsupported, match=r"\btimestamp_unit\b") as caught:
            await files.read()
        assert caught.value.reason == "timestamp_out_of_range"
        assert (await files.read(columns=["a"])).num_rows == 1


@pytest.mark.parametrize("type_", ["timestamp", INSTANT])
async def test_zones_of_folders(tmp_path: Path, type_: str) -> None:
    folder = await far(tmp_path, "ts=2020-01-02 00%3A00%3A00%2B02%3A00")
    async with orcstream.dataset(folder, partition_schema=f"struct<ts:{type_}>") as files:
        if type_ == "timestamp":
            with pytest.raises(SchemaMismatch, match=r"\btimestamp\b"):
                await files.read()
        else:
            found = pa.table(await files.read())["ts"].cast(pa.int64()).to_pylist()
            assert found == [int(clock("2020-01-01T22:00:00").astype("M8[ns]").astype(int))]


async def test_folders_that_are_no_text(tmp_path: Path) -> None:
    folder = await far(tmp_path, "k=%FF", "k=%FE")
    with pytest.raises(SchemaMismatch, match=r"'k=%FE'.*\bUTF-8\b"):
        await orcstream.dataset(folder)


async def test_chars_of_folders_are_padded(tmp_path: Path) -> None:
    """As those of files are."""
    folder = await far(tmp_path, "k=ab")
    path = await put(tmp_path / "one.orc", "struct<k:char(5)>", [{"k": "ab"}])
    async with orcstream.dataset(folder, partition_schema="struct<k:char(5)>") as files:
        async with orcstream.dataset(path) as others:
            (theirs,) = (await others.read(columns=["k"])).to_pylist()
            for text in ("ab", "ab   "):
                where = col("k") == text
                assert await files.count(where) == await others.count(where)
        assert (await files.read(columns=["k"])).to_pylist() == [theirs]


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
