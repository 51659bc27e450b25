"""Readers of a table that Hive shares: Hive's cleaner waits for them, and nothing of them is left."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from orcstream.acid import AcidTable, TableStream, open_table, opening
from orcstream.acid import snapshot as snapshots
from orcstream.acid.compact.piece import PieceWriter
from orcstream.acid.transactions import metastore_transactions
from orcstream.acid.transactions.metastore import Metastore
from orcstream.acid.transactions.metastore_client import MetastoreClient, services
from orcstream.cli.main import main
from orcstream.errors import CommitFailed, SourceError, Unsupported
from orcstream.io.contract.folder import FolderListing
from orcstream.io.folders import list_folder
from tests.servers.hive import Hive, start_hive
from tests.servers.metastores import opened
from tests.support.errors import because

ROWS = 3_000
DELTAS = 4


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    with start_hive(tmp_path_factory.mktemp("warehouse")) as hive:
        yield hive


@pytest.fixture
def url(hive: Hive) -> str:
    return f"thrift://127.0.0.1:{hive.thrift_port}"


@pytest.fixture
async def other(url: str) -> AsyncIterator[Metastore]:
    async with opened(url, "default.cleaned") as other:
        yield other


def shared(hive: Hive, url: str, name: str = "cleaned", **options: Any) -> opening.OpeningTable:
    return open_table(hive.location(name), metastore=url, table=f"default.{name}", **options)


async def make(hive: Hive, url: str, name: str = "cleaned") -> None:
    """A table of several deltas."""
    hive.run(
        f"drop table if exists {name}",
        f"create table {name} (id int, text string) stored as orc tblproperties('transactional'='true')",
    )
    async with shared(hive, url, name) as table:
        for at in range(DELTAS):
            async with await table.transaction() as change:
                await change.insert([(at * ROWS + one, f"text {one}" * 3) for one in range(ROWS)])


def compact_and_clean(hive: Hive) -> None:
    hive.compact("cleaned", "major")
    for _ in range(3):
        time.sleep(1.1)  # Hive cleans what was compacted a second ago; it has no other clock
        hive.clean()


def deltas(hive: Hive) -> list[str]:
    return sorted(path.name for path in hive.location("cleaned").iterdir() if path.name.startswith("delta_"))


async def opened_now(other: Metastore) -> list[int]:
    return await other.open_now()


async def until_opened(other: Metastore, count: int) -> None:
    """What was stopped without being waited for ends a moment later."""
    with anyio.fail_after(20):
        while len(await opened_now(other)) != count:
            pass


async def test_hive_cleans_after_the_last_reader(hive: Hive, url: str, other: Metastore) -> None:
    await make(hive, url)
    count = 0
    async with shared(hive, url) as table:
        assert not await opened_now(other)
        async with table.batches(batch_rows=100, memory_limit=1 << 20) as stream:
            async for batch in stream:
                count += batch.num_rows
                if count == 100:
                    (_,) = await opened_now(other)
                    locks = [set(map(str.strip, row)) for row in hive.sql("show locks")]
                    assert any({"cleaned", "SHARED_READ", "ACQUIRED"} <= lock for lock in locks)
                    compact_and_clean(hive)
                    assert len(deltas(hive)) == DELTAS
            assert not await opened_now(other)
        assert count == DELTAS * ROWS
        hive.clean()
        assert deltas(hive) == []
        with pytest.raises(Unsupported) as caught:
            await table.read()
        assert caught.value.reason == "history_is_gone"
        with pytest.raises(Unsupported, check=because("history_is_gone")):
            await table.describe()
    assert not await opened_now(other)


async def test_compacted_and_cleaned_while_it_is_opened(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compaction is open in the snapshot, and commits and cleans before the files are listed."""
    await make(hive, url)
    results: list[object] = []
    async with shared(hive, url) as writer:
        compaction = await writer.begin_compaction("major")
        pieces = PieceWriter({}, memory_limit=64 << 20)
        counts = [
            await pieces.write(compaction.table.of(piece.snapshot), piece) for piece in compaction.pieces
        ]

        async def listed(*asked: Any) -> Any:
            if not results:
                await compaction.commit(counts)
                try:
                    results.append(await writer.clean(older_than_s=0))
                except CommitFailed as error:
                    results.append(error)
            return await snapshots.list_table(*asked)

        monkeypatch.setattr(opening, "list_table", listed)
        for read_lock in (True, False):
            async with shared(hive, url, read_lock=read_lock) as table:
                assert not await opened_now(other)
                assert (await table.read(columns=[])).num_rows == DELTAS * ROWS
        assert isinstance(results[0], CommitFailed), "nobody cleans under who opens a table"


async def test_compacted_and_cleaned_between_two_pages_of_the_listing(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(hive, url)
    calls: list[str] = []

    async def listed(place: str, **options: Any) -> FolderListing:
        before = await list_folder(place, **options)
        calls.append(place)
        if len(calls) > 1:
            return before
        compact_and_clean(hive)
        after = await list_folder(place, **options)
        bases = [one for one in before.files if one.path.startswith("base_")]
        return FolderListing([*bases, *(one for one in after.files if not one.path.startswith("base_"))])

    monkeypatch.setattr(snapshots, "list_folder", listed)
    async with shared(hive, url, read_lock=False) as table:
        assert (await table.read(columns=[])).num_rows == DELTAS * ROWS
    assert not await opened_now(other)


async def test_without_the_lock_hive_cleans_under_a_reader(hive: Hive, url: str, other: Metastore) -> None:
    await make(hive, url)
    async with (
        shared(hive, url, read_lock=False) as table,
        table.batches(batch_rows=100, memory_limit=1 << 20) as stream,
    ):
        await anext(stream)
        assert not await opened_now(other)
        compact_and_clean(hive)
        assert deltas(hive) == []
        with pytest.raises(Unsupported) as caught:
            async for _ in stream:
                pass
        assert caught.value.reason == "history_is_gone"


async def test_however_a_read_ends(hive: Hive, url: str, other: Metastore) -> None:
    await make(hive, url)
    async with shared(hive, url) as table:
        assert (await table.read(columns=[])).num_rows == DELTAS * ROWS
        assert not await opened_now(other)
        assert len(await table.describe()) == DELTAS
        assert not await opened_now(other)
        async with table.batches(batch_rows=100) as left:
            await anext(left)
        assert not await opened_now(other)
        changes = table.changes(1, batch_rows=100)
        (only,) = table.split()
        dropped = only.batches(batch_rows=100)
        await anext(changes)
        await anext(dropped)
        assert len(await opened_now(other)) == 2
        del dropped
        gc.collect()
        await until_opened(other, 1)
        never_begun = table.batches()
    assert not await opened_now(other)  # the table was closed
    del never_begun, changes


async def test_a_read_that_fails(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(hive, url)

    async def failing(*_: object) -> None:
        raise OSError("the disk is on fire")

    async with shared(hive, url) as table:
        monkeypatch.setattr(AcidTable, "_open_file", failing)
        with pytest.raises(OSError, match="on fire"):
            await table.read()
        assert not await opened_now(other)


async def slowly(stream: TableStream) -> None:
    async for _ in stream:
        await anyio.sleep(0.01)


async def test_an_aborted_transaction_ends_the_read(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(hive, url)
    quick = partial(metastore_transactions.read_transaction, interval_s=0.02)
    monkeypatch.setattr(metastore_transactions, "read_transaction", quick)
    async with (
        shared(hive, url) as table,
        table.batches(batch_rows=10, memory_limit=1 << 20) as stream,
    ):
        await anext(stream)
        await anyio.sleep(0.1)  # some heartbeats
        (transaction,) = await opened_now(other)
        await other.call("abort_txns", services().AbortTxnsRequest(txn_ids=[transaction]))
        with pytest.raises(SourceError, match=rf"\btransaction {transaction}\b"):
            await slowly(stream)


async def test_a_heartbeat_that_is_lost_is_no_end(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await make(hive, url)
    quick = partial(metastore_transactions.read_transaction, interval_s=0.01)
    monkeypatch.setattr(metastore_transactions, "read_transaction", quick)
    call = Metastore.call
    lost = 0

    async def losing(self: Metastore, method: str, *arguments: Any, repeat: bool = False) -> Any:
        nonlocal lost
        if method == "heartbeat":
            lost += 1
            raise SourceError("no answer")
        return await call(self, method, *arguments, repeat=repeat)

    monkeypatch.setattr(Metastore, "call", losing)
    async with shared(hive, url) as table, table.batches(batch_rows=500) as stream:
        count = 0
        async for batch in stream:
            count += batch.num_rows
            await anyio.sleep(0.01)
    assert count == DELTAS * ROWS
    assert lost
    assert "a heartbeat failed" in caplog.text
    assert not await opened_now(other)


async def test_a_table_that_is_being_overwritten(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read waits for it, and in vain for as long as was said."""
    await make(hive, url)
    writer = await other.begin()
    await writer.lock("overwrite", [""])
    async with shared(hive, url) as table:
        waiting = asyncio.create_task(table.read(columns=[]))
        await anyio.sleep(0.2)
        assert not waiting.done()
        await writer.abort()
        assert (await waiting).num_rows == DELTAS * ROWS
        again = await other.begin()
        await again.lock("overwrite", [""])
        assert table._transactions is not None
        monkeypatch.setattr(table._transactions, "lock_timeout_s", 0.2)
        with pytest.raises(SourceError, match="read_lock=False"):
            await table.read()
        assert await opened_now(other) == [again.transaction_id]
        await again.abort()


CALLS = (
    "open_txns",
    "get_open_txns",
    "get_valid_write_ids",
    "add_write_ids_to_min_history",
    "lock",
    "commit_txn",
)


@pytest.mark.parametrize("by", ["task", "scope"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", CALLS)
async def test_cancelled_at_any_call(
    hive: Hive, url: str, other: Metastore, monkeypatch: pytest.MonkeyPatch, method: str, when: str, by: str
) -> None:
    """A read that is cancelled when it has called the metastore, or has its answer."""
    name = "cancelled"
    if not hive.location(name).exists():
        await make(hive, url, name)
    call, reached = MetastoreClient.call, anyio.Event()

    async def slow(self: MetastoreClient, asked: str, *arguments: Any, repeat: bool = False) -> Any:
        async def stop() -> None:
            if asked == method and not reached.is_set():
                reached.set()
                for _ in range(20):
                    await asyncio.sleep(0)

        if when == "before":
            await stop()
        answer = await call(self, asked, *arguments, repeat=repeat)
        if when == "after":
            await stop()
        return answer

    async with shared(hive, url, name) as table:

        async def read() -> None:
            async with table.batches(batch_rows=1000) as stream:
                async for _ in stream:
                    pass

        with monkeypatch.context() as patched:
            patched.setattr(MetastoreClient, "call", slow)
            if by == "task":
                reading = asyncio.create_task(read())
                await reached.wait()
                reading.cancel()
                await asyncio.wait([reading])
            else:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read)
                    await reached.wait()
                    tasks.cancel_scope.cancel()
        await until_opened(other, 0)
        assert (await table.read(columns=[])).num_rows == DELTAS * ROWS
    assert not await opened_now(other)


async def test_writers_do_not_wait_for_themselves(hive: Hive, url: str, other: Metastore) -> None:
    """What a transaction reads for a change is read in it: another of its own would wait for its locks."""
    await make(hive, url)
    async with shared(hive, url) as table:
        assert (await table.read(columns=[])).num_rows
        async with await table.transaction() as change:
            assert await change.update({"text": "new"}, None) == DELTAS * ROWS
            assert len(await opened_now(other)) == 1
        await table.compact("major")
        assert (await table.clean(older_than_s=0)).directories


def test_the_command_line_reads_with_a_lock_and_without(
    hive: Hive, url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del tmp_path
    asyncio.run(make(hive, url))
    named = ["acid", "show", str(hive.location("cleaned")), "--metastore", url, "--table", "default.cleaned"]
    for more in ([], ["--no-read-lock"]):
        main([*named, "--json", *more])
        assert json.loads(capsys.readouterr().out)["row_count"] == DELTAS * ROWS
    assert not asyncio.run(_opened_once(url))


async def _opened_once(url: str) -> list[int]:
    async with opened(url, "default.cleaned") as other:
        return await opened_now(other)


# --- statements of Hive in progress


@pytest.mark.parametrize("more", ["", ", 'transactional_properties'='insert_only'"], ids=["full", "inserts"])
async def test_manifests_of_hive_are_no_partitions(hive: Hive, url: str, more: str) -> None:
    """Hive writes a manifest into a folder of the table until its statement ends; a killed one leaves it."""
    name = f"staged{len(more)}"
    hive.run(
        f"create table {name} (id int) partitioned by (p string) stored as orc "
        f"tblproperties('transactional'='true'{more})",
        f"insert into {name} values (1, 'a'), (2, 'b')",
    )
    for folder in ("-tmp.delta_0000009_0000009_0000", "-tmp.base_0000009_0"):
        manifest = hive.location(name) / folder / "000000_0.manifest"
        manifest.parent.mkdir()
        manifest.write_bytes(bytes(4))
    async with shared(hive, url, name) as table:
        assert sorted(row["id"] for row in (await table.read()).to_pylist()) == [1, 2]
        async with await table.transaction() as change:
            await change.insert([(3, "a")])
        await table.compact("major")
        await table.clean(older_than_s=0)
    assert sorted(row[0] for row in hive.sql(f"select id from {name}")) == [1, 2, 3]


async def test_reads_beside_an_insert_of_hive(hive: Hive, url: str) -> None:
    hive.sql(
        "create table beside (id int) partitioned by (p string) stored as orc "
        "tblproperties('transactional'='true')"
    )

    def insert() -> None:
        for number in range(3):
            hive.sql(f"insert into beside values ({number}, 'a'), ({number}, 'b')")

    inserting = asyncio.create_task(asyncio.to_thread(insert))
    counts = []
    while not inserting.done():
        async with shared(hive, url, "beside") as table:
            counts.append((await table.read()).num_rows)
    await inserting
    assert counts == sorted(counts)
    assert set(counts) <= {0, 2, 4, 6}
