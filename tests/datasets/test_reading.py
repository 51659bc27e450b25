"""Many files as one table: the rows that pyarrow's data set finds, no file too many, no request too many."""

from __future__ import annotations

import datetime
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

import orcstream
from orcstream import Schema, col
from orcstream.errors import (
    ColumnNotFound,
    FormatError,
    SchemaMismatch,
    SourceChanged,
    Unsupported,
    UsageError,
)
from tests.servers.s3_proxy import S3Proxy, run_s3_proxy, start_s3
from tests.servers.sink_stores import s3_store
from tests.support.effort import share

ROWS = 300
COUNTRIES = ("DE", "FR", None)
DAYS = ("2024-05-01", "2024-05-02", "2024-06-01")


def rows_of(start: int, count: int = ROWS) -> pa.Table:
    numbers = np.arange(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers),
            "amount": pa.array(numbers / 4, mask=numbers % 5 == 0),
            "text": pa.array([f"text {number % 37}" for number in numbers]),
            "at": pa.array(numbers * 1_000_000_007, pa.timestamp("ns")),
        }
    )


def put(path: Path, table: pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(table, path, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files in each of nine partitions, and what is no file of the table."""
    folder = tmp_path_factory.mktemp("trips")
    start = 0
    for country in COUNTRIES:
        for day in DAYS:
            for name in ("part-0.orc", "part-1.orc"):
                below = folder / f"country={country or '__HIVE_DEFAULT_PARTITION__'}" / f"day={day}"
                put(below / name, rows_of(start), stripe_size=1 << 16)
                start += ROWS
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "half.orc").write_bytes(b"half a file")
    (folder / "country=DE" / ".hidden.orc").write_bytes(b"hidden")
    (folder / "country=DE" / "day=2024-05-01" / "empty.orc").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def reference(folder: Path) -> pa.Table:
    """What pyarrow reads of it."""
    types = pa.schema([("country", pa.string()), ("day", pa.string())])
    files = sorted(str(path) for path in folder.rglob("part-*.orc"))
    found = ds.dataset(
        files,
        format="orc",
        partitioning=ds.partitioning(types, flavor="hive"),
        partition_base_dir=str(folder),
    )
    table = found.to_table()
    return table.set_column(5, "day", table["day"].cast(pa.date32()))


def ordered(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return found


# --- rows ------------------------------------------------------------------------------------------


async def test_all_rows_in_the_order_of_their_files(folder: Path, reference: pa.Table) -> None:
    async with orcstream.dataset(folder) as files:
        assert str(files.schema) == (
            "struct<id:bigint,amount:double,text:string,at:timestamp,country:string,day:date>"
        )
        assert files.partition_columns == ("country", "day")
        assert [file.path for file in files.files] == sorted(
            str(path.relative_to(folder)) for path in folder.rglob("part-*.orc")
        )
        assert {file.partition["country"] for file in files.files} == set(COUNTRIES)
        found = pa.table(await files.read())
        assert found.column("id").to_pylist() == [
            one for path in files.files for one in orc.read_table(folder / path.path)["id"].to_pylist()
        ]
        assert ordered(found) == ordered(reference)
        assert await files.count() == reference.num_rows


CONDITIONS = st.sampled_from(
    [
        (col("id") < 700, pc.field("id") < 700),
        (col("amount") >= 300.0, pc.field("amount") >= 300.0),
        (col("text") == "text 7", pc.field("text") == "text 7"),
        (col("country") == "DE", pc.field("country") == "DE"),
        (col("country").is_null(), pc.field("country").is_null()),
        (
            col("day") > datetime.date(2024, 5, 1),
            pc.field("day") > pa.scalar(19844, pa.int32()).cast(pa.date32()),
        ),
        (col("amount").is_null(), pc.field("amount").is_null()),
        (col("country").isin(["FR", "IT"]), (pc.field("country") == "FR") | (pc.field("country") == "IT")),
    ]
)


@settings(max_examples=share(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(CONDITIONS, min_size=1, max_size=4), kinds=st.lists(st.integers(0, 3), min_size=3))
async def test_predicates_over_rows_and_folders(
    parts: list[Any], kinds: list[int], folder: Path, reference: pa.Table
) -> None:
    ours, theirs = parts[0]
    for (one, other), kind in zip(parts[1:], kinds, strict=False):
        ours, theirs = (ours & one, theirs & other) if kind % 2 else (ours | one, theirs | other)
        if kind > 1:
            ours, theirs = ~ours, ~theirs
    expected = reference.filter(theirs)
    async with orcstream.dataset(folder) as files:
        found = pa.table(await files.read(columns=["day", "id", "country"], where=ours))
        assert found.column_names == ["day", "id", "country"]
        assert ordered(found) == ordered(expected.select(["day", "id", "country"]))
        assert await files.count(ours) == expected.num_rows


@pytest.mark.parametrize("limit", [0, 1, ROWS - 1, ROWS, 2 * ROWS + 7, 100 * ROWS])
async def test_a_limit_is_of_the_first_rows(limit: int, folder: Path) -> None:
    async with orcstream.dataset(folder) as files:
        every = pa.table(await files.read(columns=["id", "country"]))
        found = pa.table(await files.read(columns=["id", "country"], limit=limit))
        assert found.to_pylist() == every.to_pylist()[:limit]
        odd = every.filter(pc.field("id") >= 100)
        found = pa.table(await files.read(columns=["id", "country"], limit=limit, where=col("id") >= 100))
        assert found.to_pylist() == odd.to_pylist()[:limit]
        (split, *_) = await files.splits()
        with pytest.raises(UsageError, match="limit"):
            files.batches(limit=-1)
    async with orcstream.dataset(split) as one:
        assert (await one.read(limit=limit)).num_rows == min(limit, split.row_count)


async def test_no_columns_count_rows(folder: Path) -> None:
    async with orcstream.dataset(folder) as files:
        assert (await files.read(columns=[])).num_rows == 18 * ROWS
        assert (
            pa.table(await files.read(columns=["country"], where=col("id") < 3)).to_pylist()
            == [{"country": "DE"}] * 3
        )


async def test_types_that_are_asked_for(folder: Path) -> None:
    opening = orcstream.dataset(
        folder, partition_schema="struct<country:string,day:string>", schema="struct<id:int,text:string>"
    )
    async with opening as files:
        assert str(files.schema) == "struct<id:int,text:string,country:string,day:string>"
        found = pa.table(await files.read(where=col("day") == "2024-06-01"))
        assert set(found["day"].to_pylist()) == {"2024-06-01"} and found.num_rows == 6 * ROWS
    async with orcstream.dataset(folder, partitioning=None) as files:
        assert files.partition_columns == () and await files.count() == 18 * ROWS


@pytest.mark.parametrize(
    ("places", "count"),
    [
        ("country=DE", 6),
        ("country=DE/day=2024-05-01/part-0.orc", 1),
        ("*/day=2024-05-*/part-[1-9].orc", 6),
        ("country={DE,FR}", 12),
        (["country=DE", "country=FR/day=2024-06-01"], 8),
        (["country=DE/*/part-0.orc", "country=DE"], 6),
    ],
)
async def test_paths_and_patterns(places: Any, count: int, folder: Path) -> None:
    several = [folder / one for one in ([places] if isinstance(places, str) else places)]
    where = several[0] if isinstance(places, str) else several
    async with orcstream.dataset(where, partitioning=None) as files:
        assert len(files.files) == count
        assert (await files.read(columns=["id"])).num_rows == count * ROWS


async def test_a_pattern_of_names(folder: Path) -> None:
    async with orcstream.dataset(folder, pattern="*-0.orc") as files:
        assert await files.count() == 9 * ROWS


# --- files that differ -----------------------------------------------------------------------------


async def test_columns_that_were_added_and_widened(tmp_path: Path) -> None:
    put(tmp_path / "1.orc", pa.table({"id": pa.array([1, 2], pa.int32())}))
    put(tmp_path / "2.orc", pa.table({"id": pa.array([3], pa.int64()), "new": ["x"]}))
    os.utime(tmp_path / "1.orc", (1_000_000_000, 1_000_000_000))
    expected = [{"id": 1, "new": None}, {"id": 2, "new": None}, {"id": 3, "new": "x"}]
    async with orcstream.dataset(tmp_path) as files:
        assert pa.table(await files.read()).to_pylist() == expected
        found = pa.table(await files.read(where=col("new").is_null(), columns=["id"]))
        assert found["id"].to_pylist() == [1, 2]


async def test_a_column_of_files_and_folders_is_that_of_the_folders(tmp_path: Path) -> None:
    put(tmp_path / "day=7" / "a.orc", pa.table({"id": [1], "day": ["monday"]}))
    async with orcstream.dataset(tmp_path) as files:
        assert str(files.schema) == "struct<id:bigint,day:int>"
        assert pa.table(await files.read()).to_pylist() == [{"id": 1, "day": 7}]


async def test_a_folder_named_like_a_file(folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "table.orc" / "part-0", rows_of(0))
    async with orcstream.dataset(tmp_path / "table.orc") as files:
        assert await files.count() == ROWS


# --- what cannot be --------------------------------------------------------------------------------


async def test_transactional_tables_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "t" / "delta_0000001_0000001_0000" / "bucket_00000", rows_of(0))
    places = (
        "",
        "/t",
        "/t/delta_0000001_0000001_0000",
        "/t/*/bucket_*",
        "/t/delta_0000001_0000001_0000/bucket_00000",
    )
    for place in places:
        with pytest.raises(UsageError, match=r"acid\.open_table"):
            await orcstream.dataset(f"{tmp_path}{place}")


async def test_what_is_not_there(tmp_path: Path, folder: Path) -> None:
    for place in (tmp_path / "nothing", tmp_path, tmp_path / "*.orc", folder / "nothing.orc"):
        with pytest.raises(FileNotFoundError):
            await orcstream.dataset(place)
    with pytest.raises(FileNotFoundError, match=r"\*\.csv"):
        await orcstream.dataset(folder, pattern="*.csv")
    with pytest.raises(UsageError, match=r"\bfiles\b"):
        await orcstream.dataset([])
    with pytest.raises(UsageError, match="partitioning"):
        await orcstream.dataset(folder, partitioning="directory")
    put(tmp_path / "a=1" / "one.orc", rows_of(0))
    put(tmp_path / "b=1" / "one.orc", rows_of(0))
    with pytest.raises(SchemaMismatch, match=r"'b=1'.*\bb\b.*\ba\b"):
        await orcstream.dataset(tmp_path)


async def test_questions_that_cannot_be_asked(folder: Path) -> None:
    files = await orcstream.dataset(folder)
    with pytest.raises(ColumnNotFound):
        files.batches(columns=["city"])
    with pytest.raises(UsageError):
        files.batches(where=col("id") == "a text")
    with pytest.raises(UsageError, match="split_bytes"):
        await files.splits(split_bytes=0)
    await files.aclose()
    await files.aclose()
    with pytest.raises(UsageError, match="closed"):
        files.batches()


async def test_an_error_comes_when_it_is_the_turn_of_its_file(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path / f"{number}.orc", rows_of(number * ROWS))
    (tmp_path / "1.orc").write_bytes(b"this is no ORC file, but it has some bytes" * 10)
    async with orcstream.dataset(tmp_path, schema="struct<id:bigint>") as files:
        stream = files.batches(batch_rows=100)
        assert sum([(await anext(stream)).num_rows for _ in range(3)]) == ROWS
        with pytest.raises(FormatError) as caught:
            await anext(stream)
        assert caught.value.url is not None and caught.value.url.endswith("1.orc")
        with pytest.raises(FormatError):
            await anext(stream)


async def test_what_is_too_large_ahead_of_its_turn_is_read_in_its_turn(tmp_path: Path) -> None:
    """A dictionary of some kilobytes in the file, and of megabytes in memory."""
    texts = [f"{number:03d}" + "x" * 60_000 for number in range(60)]
    put(tmp_path / "0.orc", rows_of(0).select(["text"]), compression="zstd")
    for number in (1, 2):
        put(
            tmp_path / f"{number}.orc",
            pa.table({"text": texts * 40}),
            compression="zstd",
            dictionary_key_size_threshold=1.0,
        )
    assert (tmp_path / "1.orc").stat().st_size < 100_000
    async with orcstream.dataset(tmp_path) as files:
        found = pa.table(await files.read(memory_limit=32 << 20, dictionaries=False))
    assert found["text"].to_pylist() == rows_of(0)["text"].to_pylist() + 2 * (texts * 40)
    async with orcstream.dataset(tmp_path) as files:
        with pytest.raises(Unsupported) as caught:
            await files.read(memory_limit=1 << 20)
        assert caught.value.reason == "dictionary_too_large"


# --- shared out ------------------------------------------------------------------------------------


async def test_splits_have_every_row_once(folder: Path, reference: pa.Table) -> None:
    async with orcstream.dataset(folder) as files:
        splits = pickle.loads(pickle.dumps(await files.splits(split_bytes=1000)))
    assert len(splits) >= 18 and sum(split.row_count for split in splits) == reference.num_rows
    parts = []
    for split in splits:
        async with orcstream.dataset(split) as files:
            assert await files.count() == split.row_count
            parts.append(pa.table(await files.read()))
    assert ordered(pa.concat_tables(parts)) == ordered(reference)
    async with orcstream.dataset(splits) as files:
        assert ordered(pa.table(await files.read())) == ordered(reference)


async def test_splits_leave_out_what_cannot_match(folder: Path, reference: pa.Table) -> None:
    where = (col("country") == "FR") & (col("id") < 6 * ROWS + 10)
    async with orcstream.dataset(folder) as files:
        splits = await files.splits(where)
    assert [split.path for split in splits] == ["country=FR/day=2024-05-01/part-0.orc"]
    async with orcstream.dataset(splits) as files:
        assert await files.count(where) == 10


async def test_a_split_of_a_file_that_is_another_one(tmp_path: Path) -> None:
    put(tmp_path / "one.orc", rows_of(0))
    async with orcstream.dataset(tmp_path) as files:
        (split,) = await files.splits()
    put(tmp_path / "one.orc", rows_of(1, ROWS + 1))
    async with orcstream.dataset(split) as files:
        with pytest.raises(SourceChanged):
            await files.read()
    with pytest.raises(UsageError, match=r"\bsplits\b"):
        await orcstream.dataset([split, str(tmp_path)])  # type: ignore[arg-type]


async def test_large_stripes_are_cut_at_row_groups(tmp_path: Path) -> None:
    put(tmp_path / "one.orc", rows_of(0, 100_000), row_index_stride=1000)
    async with orcstream.dataset(tmp_path) as files:
        splits = await files.splits(split_bytes=100_000)
        assert len(splits) > 5 and {split.rows.start % 1000 for split in splits} == {0}
        async with orcstream.dataset(splits[3]) as one:
            found = pa.table(await one.read(columns=["id"]))
    assert found["id"].to_pylist() == list(splits[3].rows)


# --- requests --------------------------------------------------------------------------------------


@pytest.fixture
def distant(folder: Path, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any], S3Proxy]]:
    """The folder on S3, and a proxy that sees what is asked for."""
    server = start_s3("versitygw")
    with run_s3_proxy(server.endpoint) as proxy:
        store = s3_store(server, tmp_path.name, proxy.endpoint)
        for path in folder.rglob("part-*.orc"):
            store.put(str(path.relative_to(folder)), path.read_bytes())
        assert store.options is not None
        yield store.url_of("").rstrip("/"), dict(store.options), proxy


async def test_each_file_costs_one_request_and_others_none(
    distant: tuple[str, dict[str, Any], S3Proxy], reference: pa.Table
) -> None:
    """Small files come with their tails; of folders that do not match nothing is asked for."""
    url, options, proxy = distant
    async with orcstream.dataset(url, storage_options=options) as files:
        proxy.asked.clear()
        found = pa.table(await files.read())
        assert ordered(found) == ordered(reference)
        assert len(proxy.asked) == 17  # the one that the columns were taken from is open
        proxy.asked.clear()
        assert await files.count() == 18 * ROWS
        assert len(proxy.asked) == 17
        proxy.asked.clear()
        french = await files.read(columns=["id"], where=col("country") == "FR")
        assert french.num_rows == 6 * ROWS
        assert {"FR" in asked.path for asked in proxy.asked} == {True} and len(proxy.asked) <= 6
        proxy.asked.clear()
        assert await files.count(col("day") == datetime.date(2024, 6, 1)) == 6 * ROWS
        assert len(proxy.asked) <= 6


async def test_a_folder_is_listed_once(distant: tuple[str, dict[str, Any], S3Proxy]) -> None:
    url, options, proxy = distant
    pattern = f"{url}/country=DE/day=2024-05-01/part-{{0,1}}*.orc"
    async with orcstream.dataset(pattern, storage_options=options) as files:
        assert len(files.files) == 2
    listings = [asked.path for asked in proxy.asked if "part-" not in asked.path]
    assert len(listings) == 1, listings


async def test_one_file_is_not_listed(distant: tuple[str, dict[str, Any], S3Proxy]) -> None:
    url, options, proxy = distant
    async with orcstream.dataset(
        f"{url}/country=DE/day=2024-05-01/part-0.orc", storage_options=options
    ) as files:
        assert (await files.read()).num_rows == ROWS
    assert len(proxy.asked) == 1


async def test_tails_are_read_side_by_side(distant: tuple[str, dict[str, Any], S3Proxy]) -> None:
    url, options, proxy = distant
    async with orcstream.dataset(url, storage_options=options) as files:
        proxy.asked.clear()
        proxy.fault = lambda _number, _asked: "hold"
        async with files.batches() as stream, anyio.create_task_group() as tasks:

            async def release() -> None:
                await anyio.to_thread.run_sync(proxy.wait_for_requests, 12)
                proxy.pass_all()

            tasks.start_soon(release)
            assert sum([batch.num_rows async for batch in stream]) == 18 * ROWS


# --- without await ---------------------------------------------------------------------------------


def test_blocking(folder: Path, reference: pa.Table) -> None:
    with orcstream.blocking.dataset(folder) as files:
        assert files.partition_columns == ("country", "day")
        assert len(files.files) == 18
        assert isinstance(files.schema, Schema)
        with files.batches(columns=["id"], where=col("country") == "DE") as stream:
            assert sum(batch.num_rows for batch in stream) == 6 * ROWS
            assert stream.stats.row_count == 6 * ROWS
        assert ordered(pa.table(files.read())) == ordered(reference)
        (split, *_) = files.splits()
        assert files.count(col("id") < 5) == 5
    with orcstream.blocking.dataset(split) as part:
        assert part.read().num_rows == split.row_count
