"""Files of tables that fail, are damaged, or are not what their names say; and such as are odd and right."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest

from orcstream import acid, col
from orcstream.acid import AcidTable, WriteIds, open_table
from orcstream.errors import FormatError, OrcError, Unsupported
from orcstream.io.loop.clients import leased_clients
from tests.generators.acid import (
    DELETE,
    INSERT,
    NAMES,
    UPDATE,
    Event,
    key_of,
    put_compacted,
    put_events,
    put_flushed,
    put_rows,
)
from tests.support.errors import because

KINDS = ("int", "bigint", "int", "bigint", "bigint", "struct<k:int,v:string>")


def inserts(write_id: int, count: int = 3, bucket: int = 0) -> list[Event]:
    return [
        Event(INSERT, key_of(write_id, row, bucket), write_id, {"k": row, "v": f"{write_id}.{row}"})
        for row in range(count)
    ]


def delta(folder: Path, write_id: int, events: list[Event], kind: str = "delta", **options: Any) -> Path:
    path = folder / f"{kind}_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
    put_events(path, events, **{"version": True, **options})
    return path


def put(path: Path, rows: list[Any], kinds: tuple[str, ...] = KINDS, names: tuple[str, ...] = NAMES) -> None:
    """A file of any rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = ",".join(f"{name}:{kind}" for name, kind in zip(names, kinds, strict=True))
    with path.open("wb") as file, pyorc.Writer(file, f"struct<{fields}>") as writer:
        writer.writerows(rows)


async def read(folder: Path, ids: WriteIds | int | None = None, **asked: Any) -> list[tuple[Any, ...]]:
    async with open_table(folder, write_ids=ids) as table:
        found = pa.table(await table.read(**asked))
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    gc.collect()
    for _ in range(1000):
        if len(os.listdir("/proc/self/fd")) <= before:  # noqa: PTH208
            break
        await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert leased_clients() == 0


# --- what fails


@pytest.mark.parametrize("version", [False, True])
@pytest.mark.parametrize("kind", ["delta", "delete_delta"])
async def test_a_file_that_was_removed_is_named(kind: str, version: bool, tmp_path: Path) -> None:
    for write_id in (1, 2, 3):
        delta(tmp_path, write_id, inserts(write_id), version=version)
    deletes = delta(tmp_path, 4, [Event(DELETE, key_of(1, 0), 4, None)], "delete_delta")
    async with open_table(tmp_path) as table:
        gone = deletes if kind == "delete_delta" else tmp_path / "delta_0000002_0000002_0000" / "bucket_00000"
        gone.unlink()
        for _ in range(2):
            with pytest.raises(FileNotFoundError, match=f"{gone.parent.name}/{gone.name}"):
                await table.read()


async def test_rows_before_a_failure_come_first(tmp_path: Path) -> None:
    for write_id in (1, 2, 3):
        delta(tmp_path, write_id, inserts(write_id))
    async with open_table(tmp_path) as table:
        (tmp_path / "delta_0000002_0000002_0000" / "bucket_00000").write_bytes(b"damaged")
        stream = table.batches()
        assert (await anext(stream)).num_rows == 3
        for _ in range(2):
            with pytest.raises(FormatError, match="delta_0000002"):
                await anext(stream)


@pytest.mark.parametrize("kind", ["delta", "delete_delta"])
@pytest.mark.parametrize("at", range(5))
async def test_events_without_ids(kind: str, at: int, tmp_path: Path) -> None:
    delta(tmp_path, 1, inserts(1))
    row: list[Any] = [2, 1, 1 << 29, 0, 2, None]
    row[at] = None
    if kind == "delta":
        row[0], row[5] = (0 if at else None), (1, "x")
    put(tmp_path / f"{kind}_0000002_0000002_0000" / "bucket_00000", [tuple(row)])
    with pytest.raises(FormatError, match=rf"/{kind}_0000002_.*\bids\b"):
        await read(tmp_path, row_ids=True)


@pytest.mark.parametrize("operation", [-1, 3, 1 << 30])
async def test_events_of_no_known_operation(operation: int, tmp_path: Path) -> None:
    put(tmp_path / "delta_0000001_0000001_0000" / "bucket_00000", [(operation, 1, 1 << 29, 0, 1, (1, "x"))])
    with pytest.raises(FormatError, match="operation"):
        await read(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        (("int", "string"), ("k", "v")),
        (("bigint", *KINDS[1:]), NAMES),
        (KINDS[:5], NAMES[:5]),
        (KINDS, ("op", *NAMES[1:])),
    ],
)
async def test_deletes_that_are_no_events(
    kinds: tuple[str, ...], names: tuple[str, ...], tmp_path: Path
) -> None:
    """Are not left out without a word."""
    delta(tmp_path, 1, inserts(1))
    row = (1, "x") if len(kinds) == 2 else (2, 1, 1 << 29, 0, 2, None)[: len(kinds)]
    put(tmp_path / "delete_delta_0000002_0000002_0000" / "bucket_00000", [row], kinds, names)
    with pytest.raises(FormatError, match="delete_delta_0000002"):
        await read(tmp_path)


async def test_damaged_files(tmp_path: Path) -> None:
    """Anything may stand in them: rows, or one of our errors."""
    path = delta(tmp_path, 1, inserts(1, 20), version=False)
    deletes = delta(tmp_path, 2, [Event(DELETE, key_of(1, 3), 2, None)], "delete_delta")
    rng = random.Random(5)
    failed = 0
    for file in (path, deletes):
        whole = file.read_bytes()
        for _ in range(40):
            data = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            file.write_bytes(bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data)))) or 1]))
            try:
                await read(tmp_path, row_ids=True)
            except OrcError:
                failed += 1
        file.write_bytes(whole)
    assert failed > 20
    assert len(await read(tmp_path)) == 19


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[" * 60_000, b"\xff", b"7", b'{"dataFormat": 7}', b"x" * 70_000, b'{"dataFormat":[]}'],
)
async def test_what_is_said_of_a_base_is_no_json(text: bytes, tmp_path: Path) -> None:
    put_events(tmp_path / "base_0000001" / "bucket_00000", inserts(1), version=True)
    (tmp_path / "base_0000001" / "_metadata_acid").write_bytes(text)
    assert len(await read(tmp_path)) == 3


@pytest.mark.parametrize("name", ["999999999_0", "4096_0", "000000_0", "any name", "bucket_999999999"])
async def test_files_of_any_bucket(name: str, tmp_path: Path) -> None:
    put_rows(tmp_path / name, [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}])
    put_rows(tmp_path / "delta_0000001_0000001_99999" / name, [{"k": 3, "v": "z"}])
    found = await read(tmp_path, row_ids=True)
    assert sorted(row[:2] for row in found) == [(1, "x"), (2, "y"), (3, "z")]
    assert all(row[2]["bucketid"] >> 29 == 1 for row in found)


# --- odd and right


async def test_the_schema_of_a_file_that_grows(tmp_path: Path) -> None:
    """Stands before where its writer is now."""
    put_flushed(delta(tmp_path, 1, inserts(1)))
    assert len(await read(tmp_path)) == 3


async def test_a_row_that_is_null(tmp_path: Path) -> None:
    put(
        tmp_path / "delta_0000001_0000001_0000" / "bucket_00000",
        [(0, 1, 1 << 29, 0, 1, (1, "x")), (0, 1, 1 << 29, 1, 1, None), (0, 1, 1 << 29, 2, 1, (3, "z"))],
    )
    assert await read(tmp_path) == [(1, "x"), (None, None), (3, "z")]
    async with open_table(tmp_path) as table:
        assert pa.table(await table.read(where=col("k").is_null())).to_pylist() == [{"k": None, "v": None}]


async def test_an_overwrite_with_nothing_hides_what_is_older(tmp_path: Path) -> None:
    delta(tmp_path, 1, inserts(1))
    (tmp_path / "base_0000002").mkdir()
    async with open_table(tmp_path, schema="struct<k:int,v:string>") as table:
        assert pa.table(await table.read()).num_rows == 0
    delta(tmp_path, 3, inserts(3))
    assert [row[1] for row in await read(tmp_path)] == ["3.0", "3.1", "3.2"]
    assert [row[1] for row in await read(tmp_path, 1)] == ["1.0", "1.1", "1.2"]
    assert len(await read(tmp_path, WriteIds(3, (), (2,)))) == 6


async def test_updates_of_before_hive_3_of_original_files(tmp_path: Path) -> None:
    """Their ids run on through the copies of a bucket, which are not deleted but replaced."""
    rows = [{"k": at, "v": "old"} for at in range(6)]
    put_rows(tmp_path / "000000_0", rows[:3])
    put_rows(tmp_path / "000000_0_copy_1", rows[3:])
    events = [Event(UPDATE, (0, 0, 4), 1, {"k": 4, "v": "new"}), Event(DELETE, (0, 0, 1), 1, None)]
    put_events(tmp_path / "delta_0000001_0000001" / "bucket_00000", events)
    expected = [(0, "old"), (2, "old"), (3, "old"), (4, "new"), (5, "old")]
    assert sorted(await read(tmp_path)) == expected
    assert sorted(await read(tmp_path, batch_rows=1, memory_limit=1 << 16)) == expected


async def test_rows_that_do_not_say_whose_they_are(tmp_path: Path) -> None:
    """A compaction of a table that only takes inserts."""
    put_rows(
        tmp_path / "delta_0000001_0000003_v0000009" / "000000_0", [{"k": 1, "v": "x"}, {"k": 3, "v": "z"}]
    )
    put_rows(tmp_path / "delta_0000004_0000004_0000" / "000000_0", [{"k": 4, "v": "y"}])
    assert len(await read(tmp_path)) == 3
    assert len(await read(tmp_path, WriteIds(4, (), (2,)))) == 3  # left out when the others were compacted
    assert len(await read(tmp_path, 3)) == 2
    for ids in (WriteIds(2), WriteIds(4, (2,)), WriteIds(1)):
        with pytest.raises(Unsupported, match=r"\b3\b") as caught:
            await read(tmp_path, ids)
        assert caught.value.reason == "history_is_gone"


async def test_columns_that_were_added(tmp_path: Path) -> None:
    delta(tmp_path, 1, inserts(1))
    wide = "struct<k:int,v:string,x:double,s:struct<a:int>>"
    later = [Event(INSERT, key_of(2, 0), 2, {"k": 9, "v": "w", "x": 0.5, "s": {"a": 1}})]
    delta(tmp_path, 2, later, row=wide)
    delta(tmp_path, 3, [Event(DELETE, key_of(1, 1), 3, None)], "delete_delta", row=wide)
    old = [(0, "1.0", None, None), (2, "1.2", None, None)]
    assert await read(tmp_path) == [*old, (9, "w", 0.5, {"a": 1})]
    assert await read(tmp_path, 1) == [(0, "1.0"), (1, "1.1"), (2, "1.2")]
    assert await read(tmp_path, columns=["x", "k"], where=col("x").is_null()) == [(None, 0), (None, 2)]
    assert await read(tmp_path, columns=["s.a"], where=col("x") > 0) == [({"a": 1},)]
    async with open_table(tmp_path) as table:
        assert str(table.schema) == wide


async def test_files_that_are_read_first_are_many(tmp_path: Path) -> None:
    """One stream of few rows each: batches are put together."""
    for write_id in range(1, 60):
        delta(tmp_path, write_id, inserts(write_id, 1))
    put_compacted(tmp_path / "base_0000000")
    async with open_table(tmp_path) as table:
        batches = [batch.num_rows async for batch in table.batches()]
    assert sum(batches) == 59
    assert len(batches) < 5


ODD_FOLDERS = [
    "p=x",
    "p=",
    "p=1_0",
    "p=²",
    "p=nan",
    "p=99999999999999999999",
    "p=%ff",
    "p=\udcff",
    "p=1e999999",
]
ODD_KINDS = [
    "tinyint",
    "bigint",
    "string",
    "date",
    "decimal(3,1)",
    "boolean",
    "float",
    "timestamp",
    "char(2)",
]
ODD_KINDS += ["binary", "array<int>"]


@pytest.mark.parametrize("kind", ODD_KINDS)
@pytest.mark.parametrize("folder", ODD_FOLDERS)
async def test_folders_that_name_odd_values(folder: str, kind: str, tmp_path: Path) -> None:
    """Are a value of the type, or one of our errors."""
    put_rows(tmp_path / "p" / "000000_0", [{"k": 1, "v": "x"}])
    (tmp_path / "p").rename(tmp_path / folder)

    async def attempt(ask: Callable[[AcidTable], Any], **options: Any) -> None:
        try:
            async with open_table(tmp_path, **options) as table:
                found = pa.table(await ask(table))
                assert found.num_rows in (0, 1)
                found.validate(full=True)
        except OrcError:
            pass

    await attempt(lambda table: table.read(), partition_schema=f"struct<p:{kind}>")
    await attempt(
        lambda table: table.read(where=col("p").is_not_null()), partition_schema=f"struct<p:{kind}>"
    )
    await attempt(lambda table: table.read())


# --- columns that files and table do not share


async def test_a_log_goes_by_name_and_loses_nothing(tmp_path: Path) -> None:
    """Original files may be anybody's: their columns are in any order, and some may be unknown."""
    put_rows(tmp_path / "000000_0", [{"v": "x", "k": 1}], "struct<v:string,k:int>")
    await acid.create_table(tmp_path, "struct<k:int,v:string>")
    async with open_table(tmp_path) as table:
        assert pa.table(await table.read()).to_pylist() == [{"k": 1, "v": "x"}]
        async with await table.transaction() as transaction:
            await transaction.insert([{"k": 2, "v": "y"}])
        await table.compact("major")
    assert await read(tmp_path) == [(1, "x"), (2, "y")]


async def test_a_log_compacts_no_column_away(tmp_path: Path) -> None:
    put_rows(tmp_path / "000000_0", [{"k": 1, "other": "x"}], "struct<k:int,other:string>")
    await acid.create_table(tmp_path, "struct<k:int,v:string>")
    async with open_table(tmp_path) as table:
        async with await table.transaction() as transaction:
            await transaction.insert([{"k": 2, "v": "y"}])
        await table.compact("minor")  # which leaves the file alone
        with pytest.raises(Unsupported, match=r"'other'.*\b000000_0\b") as caught:
            await table.compact("major")
        assert caught.value.reason == "columns_would_be_lost"
        compaction = await table.begin_compaction("major")
        with pytest.raises(Unsupported, match="'other'", check=because("columns_would_be_lost")):
            await acid.write_piece(pickle.loads(pickle.dumps(compaction.pieces[0])))
        await compaction.give_up(caught.value)
    assert await read(tmp_path) == [(1, None), (2, "y")]
    assert (tmp_path / "000000_0").exists()


async def test_events_of_before_columns_had_names(tmp_path: Path) -> None:
    """HIVE-4243."""
    old = [Event(INSERT, key_of(1, 0), 1, {"_col0": 1, "_col1": "x"})]
    delta(tmp_path, 1, old, row="struct<_col0:int,_col1:string>")
    delta(tmp_path, 2, inserts(2, 1))
    expected = [(1, "x"), (0, "2.0")]
    assert await read(tmp_path) == expected
    async with open_table(tmp_path, schema="struct<v:string,k:bigint>") as table:
        assert pa.table(await table.read(where=col("v") == "x")).to_pylist() == [{"v": "x", "k": 1}]
