"""Rows that are streamed into a table: each commit is seen at once, and whole, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from anyio.lowlevel import checkpoint
from fsspec.implementations.memory import MemoryFileSystem

from orcstream import Unsupported, acid, col
from orcstream.acid.transactions.log import TransactionLog
from orcstream.acid.write import delta_files
from orcstream.errors import CommitFailed, SchemaMismatch, SinkError, SourceError, UsageError
from orcstream.io.append_sink import AppendSink
from tests.generators.acid_tables import SCHEMA, rows_of
from tests.servers.sink_stores import make_store


def rows(first: int, count: int, name: str = "new") -> list[dict[str, Any]]:
    return [{"id": one, "name": name} for one in range(first, first + count)]


def names_in(url: str) -> set[str]:
    """Of all files of a table but those of its log, by their paths below it."""
    if url.startswith("memory://"):
        root = "/" + url.removeprefix("memory://")
        paths = [path[len(root) + 1 :] for path in MemoryFileSystem.store if path.startswith(f"{root}/")]
    else:
        paths = [str(path.relative_to(url)) for path in Path(url).rglob("*") if path.is_file()]
    return {path for path in paths if not path.startswith("_orcstream_acid/")}


async def test_each_commit_is_seen_at_once(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table, table.stream(transactions=3) as stream:
        assert (stream.write_id, list(stream.write_ids), await stream.commit()) == (0, [], 0)
        assert await stream.write(rows(0, 3)) == 3
        assert (stream.write_id, stream.write_ids) == (1, range(1, 4))
        assert await rows_of(url) == {}
        assert await stream.commit() == 1
        assert set(await rows_of(url)) == {0, 1, 2}
        async with stream.transaction():
            await stream.write(rows(3, 2))
            await stream.write(rows(5, 1))
            assert len(await rows_of(url)) == 3
        assert len(await rows_of(url)) == 6
        directory = "delta_0000001_0000003_0000"
        growing = {f"{directory}/{name}" for name in ("_orc_acid_version", "bucket_00000")}
        assert names_in(url) == growing | {f"{directory}/bucket_00000_flush_length"}
        # A batch is used up by the third; the fourth is of another.
        assert (await stream.write(rows(6, 1)), await stream.commit()) == (1, 3)
        assert (await stream.write(rows(7, 1)), await stream.commit()) == (1, 4)
        assert stream.write_ids == range(4, 7)
        assert growing <= names_in(url)
        assert f"{directory}/bucket_00000_flush_length" not in names_in(url)
        await stream.write(rows(8, 1))  # which the end of the block commits
    assert set(await rows_of(url)) == set(range(9))
    assert not [name for name in names_in(url) if "flush_length" in name]
    snapshot = await TransactionLog(url).snapshot()
    assert (snapshot.write_ids.open, snapshot.write_ids.aborted) == ((), (6,))
    for then, count in ((1, 3), (2, 6), (3, 7), (4, 8)):
        assert len(await rows_of(url, then)) == count
    async with acid.open_table(url) as table:
        found = (await table.read(columns=["id"], row_ids=True)).to_pylist()
        assert [(row["row__id"]["writeid"], row["row__id"]["rowid"]) for row in found] == [
            *((1, one) for one in range(3)),
            *((2, one) for one in range(3)),
            *((one, 0) for one in (3, 4, 5)),
        ]
        changes = (await anext(aiter(table.changes(2, 2)))).to_pylist()
        assert [row["id"] for row in changes] == [3, 4, 5]


async def test_an_abort_in_the_middle(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table, table.stream() as stream:
        await stream.write(rows(0, 2))
        await stream.commit()
        await stream.write(rows(10, 5))
        await stream.abort()
        await stream.abort()
        with suppress(ZeroDivisionError):
            async with stream.transaction():
                await stream.write(rows(20, 2))
                raise ZeroDivisionError
        await stream.write(rows(2, 2))
        assert await stream.commit() == 4  # of one batch, and of one file
        assert set(await rows_of(url)) == {0, 1, 2, 3}
    assert set(await rows_of(url)) == {0, 1, 2, 3}
    async with acid.open_table(url) as table:
        done = await table.compact("major")
        assert [one.row_count for one in done.partitions] == [4]


async def test_nothing_stays_of_a_stream_that_committed_nothing(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    with suppress(ZeroDivisionError):
        async with acid.open_table(url) as table, table.stream() as stream:
            await stream.write(rows(0, 2))
            raise ZeroDivisionError
    assert names_in(url) == set()
    assert (await TransactionLog(url).snapshot()).write_ids.aborted == tuple(range(1, 11))


async def test_partitions_and_buckets(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More files than may be open: those that were are whole, and others follow."""
    monkeypatch.setattr(delta_files, "_MOST_OPEN", 3)
    options: dict[str, Any] = {"bucket_columns": ["id"], "bucket_count": 2}
    await acid.create_table(url, SCHEMA, partitions={"part": "int"}, **options)
    written = {}
    async with acid.open_table(url) as table, table.stream(transactions=4) as stream:
        for turn in range(6):
            data = [{**row, "part": row["id"] % 3} for row in rows(turn * 20, 20)]
            await stream.write(data)
            written.update({row["id"]: row["part"] for row in data})
            await stream.commit()
            async with acid.open_table(url) as other:
                found = (await other.read(columns=["id", "part"])).to_pylist()
            assert {row["id"]: row["part"] for row in found} == written
    async with acid.open_table(url) as table:
        ids = (await table.read(columns=["id", "part"], row_ids=True)).to_pylist()
        assert len({(row["part"], *row["row__id"].values()) for row in ids}) == len(written)
        for kind in ("minor", "major"):
            assert len((await table.compact(kind)).partitions) == 3
            assert set(await rows_of(url)) == set(written)


async def test_a_file_of_which_nothing_was_flushed(url: str) -> None:
    """Others of its directory are read, and nobody waits for it; nor for what a killed program left of it."""
    await acid.create_table(url, SCHEMA, bucket_columns=["id"], bucket_count=2)
    async with acid.open_table(url) as table:
        stream = await table.stream()
        await stream.write([{"id": 2, "name": "bucket 0"}])
        await stream.commit()
        await stream.write([{"id": 0, "name": "bucket 1"}])
        assert len([name for name in names_in(url) if name.endswith("_flush_length")]) == 2
        for _ in range(2):
            with anyio.fail_after(60):
                assert set(await rows_of(url)) == {2}
            # What would be left by a program that is killed, but for the files that this one keeps open.
            await TransactionLog(url).abort_dead(0)
        assert [one.row_count for one in (await table.compact("major")).partitions] == [1]
        assert (await table.clean(older_than_s=0)).directories == ("delta_0000001_0000010_0000",)
        assert set(await rows_of(url)) == {2}
        # The stream finds out, and goes on in another batch.
        with pytest.raises(CommitFailed, match=r"\btransaction 2\b.*\bheartbeat\b"):
            await stream.commit()
        await stream.abort()
        await stream.write([{"id": 0, "name": "bucket 1"}])
        await stream.commit()
        await stream.aclose()
    assert set(await rows_of(url)) == {0, 2}


async def test_one_partition_for_all_rows(url: str) -> None:
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table:
        with pytest.raises(UsageError, match=r"\bpart\b"):
            await table.stream(partition={"other": 1})
        async with table.stream(partition={"part": 7}) as stream:
            await stream.write(rows(0, 2))
    async with acid.open_table(url) as table:
        assert [row["part"] for row in (await table.read(columns=["part"])).to_pylist()] == [7, 7]


async def test_streams_side_by_side(tmp_path: Path) -> None:
    """No id is taken twice, and every row is there once."""
    url = str(tmp_path)
    await acid.create_table(url, SCHEMA)
    written: list[int] = []

    async def run(number: int) -> None:
        async with acid.open_table(url) as table, table.stream(transactions=2 + number) as stream:
            for turn in range(5):
                await stream.write(rows(number * 100 + turn * 10, 10))
                written.append(await stream.commit())
                await checkpoint()

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(run, number)
    assert len(set(written)) == len(written) == 15
    assert len(await rows_of(url)) == 150


# --- readers and cleaners meanwhile ----------------------------------------------------------------


async def test_readers_never_see_half_of_a_commit(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    sizes: list[int] = []
    is_over = anyio.Event()

    async def read() -> None:
        while not is_over.is_set():
            before = committed
            found = await rows_of(url)
            assert before * 7 <= len(found) <= committed * 7 + 7
            assert sorted(found) == list(range(len(found)))
            sizes.append(len(found))

    committed = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        async with acid.open_table(url) as table, table.stream(transactions=4) as stream:
            for turn in range(25):
                await stream.write(rows(turn * 7, 3))
                await stream.write(rows(turn * 7 + 3, 4))
                await stream.commit()
                committed += 1
        is_over.set()
    assert all(size % 7 == 0 for size in sizes)
    assert len(set(sizes)) > 3


async def test_compacted_and_cleaned_meanwhile(url: str) -> None:
    """Compactions stop below a batch with ids that are open: its directory goes beyond."""
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:
        for first in (0, 1):
            async with await table.transaction() as change:
                await change.insert(rows(first, 1))
        async with table.stream(transactions=3) as stream:
            await stream.write(rows(2, 2))
            await stream.commit()
            for kind, made in (("minor", "delta_0000001_0000002"), ("major", "base_0000002")):
                done = await table.compact(kind)  # type: ignore[arg-type]
                (one,) = done.partitions
                assert one.directories[0].startswith(made)
                await table.clean(older_than_s=0)
                assert set(await rows_of(url)) == {0, 1, 2, 3}
            await stream.write(rows(4, 1))
            await stream.commit()
            assert (await table.compact("major")).partitions == ()
            assert set(await rows_of(url)) == set(range(5))
        done = await table.compact("major")
        assert done.partitions[0].directories[0].startswith("base_0000005")
        await table.clean(older_than_s=0)
        async with await table.transaction() as change:
            assert await change.delete(col("id") == 3) == 1
    assert set(await rows_of(url)) == {0, 1, 2, 4}


# --- what fails ------------------------------------------------------------------------------------


async def test_data_that_does_not_fit(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table, table.stream() as stream:
        with pytest.raises(SchemaMismatch):
            await stream.write([{"id": "x", "name": "a"}])
        await stream.write(rows(0, 1))
        with pytest.raises(UsageError, match=r"\bcommitted\b"):
            async with stream.transaction():
                raise AssertionError
        await stream.commit()

        # A call that fails half-way: only its transaction is lost.
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pylist(rows(1, 5), schema)
            raise ZeroDivisionError

        schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
        with pytest.raises(SourceError, match=r"\bArrow stream\b.*\b22\b"):
            await stream.write(pa.RecordBatchReader.from_batches(schema, batches()))
        with pytest.raises(UsageError, match=r"\babort\b"):
            await stream.commit()
        await stream.abort()
        assert (await stream.write(rows(6, 1)), await stream.commit()) == (1, 11)
    assert set(await rows_of(url)) == {0, 6}


async def test_a_flush_that_fails(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed stays; what was not is gone; the next write begins another batch."""
    await acid.create_table(url, SCHEMA)
    flush = AppendSink.flush
    async with acid.open_table(url) as table, table.stream() as stream:
        await stream.write(rows(0, 2))
        await stream.commit()
        await stream.write(rows(2, 2))

        async def fail(_: AppendSink) -> None:
            raise SinkError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(AppendSink, "flush", fail)
            with pytest.raises(SinkError, match="disk is full"):
                await stream.commit()
        assert AppendSink.flush is flush
        for work in (stream.commit(), stream.write(rows(4, 1))):
            with pytest.raises(UsageError, match=r"\babort\b"):
                await work
        await stream.abort()
        assert set(await rows_of(url)) == {0, 1}
        await stream.write(rows(4, 1))
        assert stream.write_ids == range(11, 21)
    assert set(await rows_of(url)) == {0, 1, 4}
    assert not [name for name in names_in(url) if "flush_length" in name]
    assert (await TransactionLog(url).snapshot()).write_ids.open == ()


async def test_given_up_by_others(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table, table.stream() as stream:
        await stream.write(rows(0, 1))
        await stream.commit()
        await stream.write(rows(1, 1))
        assert await TransactionLog(url).abort_dead(0) == tuple(range(2, 11))
        with pytest.raises(CommitFailed, match=r"\btransaction 2\b.*\bheartbeat\b"):
            await stream.commit()
        await stream.abort()
        assert (await stream.write(rows(1, 1)), await stream.commit()) == (1, 11)
    assert set(await rows_of(url)) == {0, 1}


async def test_cancelled_after_each_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it stays open, and nothing that was committed is lost."""
    turns, is_over = 0, False
    while not is_over:
        url = f"memory://acid-log/{turns}"
        await acid.create_table(url, SCHEMA)
        committed: list[int] = []

        async def work(url: str = url, committed: list[int] = committed) -> None:
            async with acid.open_table(url) as table, table.stream(transactions=2) as stream:
                for turn in range(3):
                    await stream.write(rows(turn, 1))
                    await stream.commit()
                    committed.append(turn)

        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        is_over = task.done()
        task.cancel()
        await asyncio.wait([task])
        found = await rows_of(url)
        assert sorted(found) == list(range(len(found)))
        assert len(committed) <= len(found) <= len(committed) + 1
        assert (await TransactionLog(url).snapshot()).write_ids.open == ()
        assert not [name for name in names_in(url) if "flush_length" in name]
        turns += 41


async def test_two_tasks_and_closed_streams(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:
        stream = await table.stream()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.write, rows(0, 1))
            await checkpoint()
            with pytest.raises(UsageError, match=r"\btasks\b"):
                await stream.write(rows(1, 1))
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(UsageError, match="closed"):
            await stream.write(rows(1, 1))
        for count in (0, 1001, True):
            with pytest.raises(UsageError, match=rf"\b1000\b.*\b{count}\b"):
                table.stream(transactions=count)
    assert await rows_of(url) == {}


# --- stores and tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["versitygw"])
async def test_stores_whose_files_do_not_grow(kind: str, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    url = store.url_of("t")
    options: dict[str, Any] = {"storage_options": store.options}
    await acid.create_table(url, SCHEMA, **options)
    async with acid.open_table(url, **options) as table:
        with pytest.raises(Unsupported) as caught:
            await table.stream()
        assert caught.value.reason == "no_append"
        async with table.stream(transactions=1) as stream:
            for turn in range(2):
                await stream.write(rows(turn, 1))
                await stream.commit()
    assert set(await rows_of(url, **options)) == {0, 1}


async def test_tables_that_only_take_inserts(url: str) -> None:
    await acid.create_table(url, SCHEMA, insert_only=True)
    async with acid.open_table(url) as table:
        with pytest.raises(Unsupported, match=r"\btransactions=1\b") as caught:
            await table.stream()
        assert caught.value.reason == "insert_only"
        async with table.stream(transactions=1) as stream:
            for turn in range(2):
                await stream.write(rows(turn, 1))
                await stream.commit()
                assert len(await rows_of(url)) == turn + 1


async def test_on_hdfs(tmp_path: Path) -> None:
    store = make_store("hdfs", tmp_path)
    url = store.url_of("t")
    options: dict[str, Any] = {"storage_options": store.options}
    await acid.create_table(url, SCHEMA, **options)
    async with acid.open_table(url, **options) as table, table.stream(transactions=2) as stream:
        for turn in range(3):
            await stream.write(rows(turn, 1))
            await stream.commit()
            assert len(await rows_of(url, **options)) == turn + 1
        await stream.write(rows(9, 1))
        await stream.abort()
    assert set(await rows_of(url, **options)) == {0, 1, 2}
