"""Transactions by a Hive metastore: a real one, beside Hive itself; and what becomes of lost connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import orcstream
from orcstream.acid.transactions.contract import Snapshot, TableDefinition, Transactions, Work, kept_alive
from orcstream.acid.transactions.metastore_calls import HivePartition
from orcstream.acid.transactions.metastore_client import services
from orcstream.errors import CommitFailed, CommitUnknown, SourceError, Unsupported, UsageError
from orcstream.plan.acid.snapshot import WriteIds
from orcstream.schema.schema import Schema
from tests.generators import bucketed_rows
from tests.generators.acid_history import History, Options
from tests.servers.hive import Hive, start_hive
from tests.servers.metastores import opened, server
from tests.support.errors import because

TRANSACTIONAL = "stored as orc tblproperties('transactional'='true'"


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    with start_hive(tmp_path_factory.mktemp("warehouse")) as hive:
        hive.sql(f"create table plain (id int, name string) {TRANSACTIONAL})")
        hive.sql(
            "create table parted (id int, a struct<x:int,y:array<string>>, t timestamp with local time zone) "
            f"partitioned by (country string, day int) clustered by (id) into 2 buckets {TRANSACTIONAL})"
        )
        yield hive


@pytest.fixture
def url(hive: Hive) -> str:
    return f"thrift://127.0.0.1:{hive.thrift_port}"


def whole(snapshot: Snapshot) -> bool:
    """Whether nothing is hidden below the high watermark."""
    return snapshot.write_ids == WriteIds(snapshot.write_ids.high_watermark)


# --- the table -------------------------------------------------------------------------------------


async def test_what_a_table_is(hive: Hive, url: str) -> None:
    async with opened(url, "Default.Parted") as metastore:
        keeper: Transactions = metastore
        assert await keeper.definition() == TableDefinition(
            Schema.parse("struct<id:int,a:struct<x:int,y:array<string>>,t:timestamp with local time zone>"),
            (("country", "string"), ("day", "int")),
            ("id",),
            2,
            by_position=True,
            hive_compacts=True,
        )
        table = await metastore.table()
        assert table.name == "default.parted"
        assert Path(table.location.removeprefix("file:")) == hive.location("parted")
        assert await metastore.partitions() == ()


async def test_partitions_come_and_are_known(hive: Hive, url: str) -> None:
    path = "country=a%2Fb%3D/day=1"
    async with opened(url, "default.parted") as metastore:
        transaction = await metastore.begin()
        await transaction.commit(Work((f"{path}/delta_0000001_0000001_0000",)))
        location = f"file:{hive.location('parted')}/{path}"
        assert await metastore.partitions() == (HivePartition(path, ("a/b=", "1"), location),)
        again = await metastore.begin()
        await again.commit(Work((f"{path}/delta_0000002_0000002_0000",), (path,)))
        assert len(await metastore.partitions()) == 1
        number = await metastore.compact("minor", path)
        assert await metastore.compact("minor", path) == number
        (asked,) = [one for one in await metastore.compactions() if one.id == number]
        assert (asked.partition, asked.kind, asked.state) == (path, "minor", "initiated")
    assert hive.sql("show partitions parted") == [(path,)]


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("", UsageError, r"\bdefault\.other0\b"),
        (
            "(id int) stored as orc tblproperties('transactional'='false')",
            UsageError,
            r"\bdefault\.other\d+\b.*\btransactional\b",
        ),
        (
            "(id int) tblproperties('transactional'='true', 'transactional_properties'='insert_only')",
            Unsupported,
            r"\bLazySimpleSerDe\b",
        ),
    ],
)
async def test_tables_that_are_none_of_ours(
    hive: Hive, url: str, sql: str, error: type[Exception], match: str
) -> None:
    name = f"other{len(sql)}"
    if sql:
        hive.sql(f"create table {name} {sql}")
    async with opened(url, f"default.{name}") as metastore:
        with pytest.raises(error, match=match):
            await metastore.table()


async def test_buckets_by_the_older_hash_are_not_written(hive: Hive, url: str) -> None:
    hive.sql(
        f"create table old (a int) clustered by (a) into 2 buckets {TRANSACTIONAL}, 'bucketing_version'='1')"
    )
    async with opened(url, "default.old") as metastore:
        with pytest.raises(Unsupported, match=r"\bdefault\.old\b", check=because("bucketing_version")):
            await metastore.begin()
        await (await metastore.begin("compaction")).abort()


# --- transactions ----------------------------------------------------------------------------------


async def test_ids_snapshots_and_outcomes(url: str) -> None:
    async with opened(url) as metastore, opened(url) as other:
        before = await metastore.snapshot()
        first, second = await metastore.begin(), await other.begin()
        assert second.write_id == first.write_id + 1 == before.write_ids.high_watermark + 2
        for one in (first, second):
            assert whole(one.snapshot) or not one.snapshot.write_ids.is_visible(one.write_id)
            assert not one.snapshot.write_ids.is_visible(first.write_id)
            assert not one.snapshot.transactions.is_visible(first.transaction_id)
        await second.heartbeat()
        await second.commit(Work(("delta_0000002_0000002_0000",)))
        await second.commit(Work(("delta_0000002_0000002_0000",)))
        snapshot = await metastore.snapshot()
        assert snapshot.write_ids.open == (first.write_id,)
        assert snapshot.write_ids.is_visible(second.write_id)
        assert await first.outcome() == "open"
        assert await second.abort() == await second.outcome() == "committed"
        for _ in range(2):
            assert await first.abort() == "aborted"
        assert await first.outcome() == "aborted"
        with pytest.raises(CommitFailed, match=r"\btxnid:\d+ already aborted\b"):
            await first.commit(Work(("delta_0000001_0000001_0000",)))
        with pytest.raises(CommitFailed, match=r"\btxnid:\d+ already aborted\b"):
            await first.heartbeat()
        past = await metastore.snapshot(first.write_id)
        assert past.write_ids.high_watermark == first.write_id
        assert past.write_ids.is_aborted(first.write_id)
        assert past.transactions.is_aborted(first.transaction_id)


async def test_the_first_that_changes_rows_wins(hive: Hive, url: str) -> None:
    """Against another of ours, and against Hive."""
    async with opened(url) as metastore:
        first, second, insert = [await metastore.begin() for _ in range(3)]
        await second.commit(Work(("delete_delta_0000002_0000002_0000",), ("",)))
        with pytest.raises(CommitFailed, match="write conflict"):
            await first.commit(Work(("delete_delta_0000001_0000001_0000",), ("",)))
        assert await first.outcome() == "aborted"
        await insert.commit(Work(("delta_0000003_0000003_0000",)))
        third = await metastore.begin()
        hive.sql("update plain set name = 'c' where id = 1")
        with pytest.raises(CommitFailed, match="write conflict"):
            await third.commit(Work((), ("",)))
        snapshot = await metastore.snapshot()
        assert {first.write_id, third.write_id} <= set(snapshot.write_ids.aborted)


async def test_a_lock_that_others_hold(url: str) -> None:
    async with opened(url) as metastore, opened(url, lock_timeout_s=0.2) as hasty, opened(url) as patient:
        holder, waiting = await metastore.begin(), await patient.begin()
        await holder.lock("change", [""])
        await holder.lock("insert", [""])  # which the other includes
        third = await hasty.begin()
        await third.lock("insert", [""])
        with pytest.raises(CommitFailed, match="lock_timeout_s"):
            await third.lock("change", [""])
        await third.abort()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiting.lock, "change", [""])
            await anyio.sleep(0.1)
            await holder.abort()
        await waiting.commit(Work((), ("",)))


async def test_compactions_are_transactions_without_rows(url: str) -> None:
    async with opened(url) as metastore:
        mark = (await metastore.snapshot()).write_ids.high_watermark
        done, given_up = await metastore.begin("compaction"), await metastore.begin("compaction")
        assert (done.write_id, given_up.write_id) == (0, 0)
        async with kept_alive(done):
            assert await done.outcome() == "open"
        await done.commit(Work((f"base_0000001_v{done.transaction_id:07}",), replaces=("delta_1_1",)))
        assert await given_up.abort() == await given_up.outcome() == "aborted"
        snapshot = await metastore.snapshot()
        assert snapshot.write_ids.high_watermark == mark
        assert snapshot.transactions.is_visible(done.transaction_id)
        assert snapshot.transactions.is_aborted(given_up.transaction_id)


async def test_a_batch_has_ids_in_a_row(url: str) -> None:
    async with opened(url) as metastore, opened(url) as other:
        batch, single = await metastore.begin_batch(4), await other.begin()
        first, second, third, _ = batch.transactions
        ids = [one.write_id for one in batch.transactions]
        assert ids == list(range(ids[0], ids[0] + 4)) == list(range(single.write_id - 4, single.write_id))
        assert batch.transaction_id == first.transaction_id
        await first.commit(Work(("delta_0000001_0000004_0000",)))
        await second.abort()
        await batch.heartbeat()
        snapshot = (await other.snapshot()).write_ids
        assert [snapshot.is_visible(one) for one in ids] == [True, False, False, False]
        assert set(snapshot.open) >= set(ids[2:])
        # Somebody gives one up.
        await other.call("abort_txn", services().AbortTxnRequest(txnid=third.transaction_id))
        with pytest.raises(CommitFailed, match=rf"\btransaction {third.transaction_id}\b"):
            await batch.heartbeat()
        for _ in range(2):
            await batch.abort()
        assert set(ids[1:]) <= set((await other.snapshot()).write_ids.aborted)
        assert await first.outcome() == "committed"
        await single.abort()


async def test_a_beginning_that_is_cancelled_leaves_no_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url) as metastore, opened(url) as other:
        before = await other.transactions()
        allocate = metastore._allocate

        async def cancelled(transaction_ids: Sequence[int]) -> Sequence[int]:
            await allocate(transaction_ids)
            scope.cancel()
            await anyio.sleep_forever()
            raise AssertionError

        monkeypatch.setattr(metastore, "_allocate", cancelled)
        with anyio.CancelScope() as scope:
            await metastore.begin()
        after = await other.transactions()
        assert after.open == before.open
        assert len(after.aborted) == len(before.aborted) + 1


async def test_hive_and_we_change_one_table(hive: Hive, url: str) -> None:
    hive.sql(f"create table shared (id int, name string) {TRANSACTIONAL})")
    hive.sql("insert into shared values (1, 'a'), (2, 'b')")
    place = str(hive.location("shared"))
    with pytest.raises(UsageError, match=r"\bmetastore=.*\btable="):
        orcstream.acid.open_table(place, metastore=url)
    async with (
        orcstream.acid.open_table(place, metastore=url, table="default.shared") as table,
        await table.transaction() as change,
    ):
        await change.insert([(3, "c")])
        await change.delete(orcstream.col("id") == 1)
    assert sorted(hive.sql("select * from shared")) == [(2, "b"), (3, "c")]
    async with orcstream.acid.open_table(place, metastore=url, table="default.shared") as table:
        rows = [tuple(row.values()) for row in (await table.read()).to_pylist()]
        assert sorted(rows) == [(2, "b"), (3, "c")]
    async with opened(url, "default.shared") as metastore:
        transaction = await metastore.begin()
        with pytest.raises(CommitFailed, match=rf"\b{transaction.transaction_id}\b"):
            await metastore.removing(["delta_0000001_0000001_0000"])
        await transaction.abort()


async def test_hive_and_we_compact_one_table(hive: Hive, url: str) -> None:
    """Whoever writes, whoever compacts and cleans, both read the same rows with the same ids."""
    hive.sql(f"create table worked (id int, name string) partitioned by (day string) {TRANSACTIONAL})")
    place = str(hive.location("worked"))
    named: dict[str, Any] = {"metastore": url, "table": "default.worked"}

    async def check(expected: dict[int, tuple[str, str]]) -> None:
        theirs = hive.sql("select row__id, id, name, day from worked")
        async with orcstream.acid.open_table(place, **named) as table:
            rows = (await table.read(row_ids=True)).to_pylist()
        mine = [(row["row__id"], row["id"], row["name"], row["day"]) for row in rows]
        assert sorted(map(str, mine)) == sorted(map(str, theirs))
        assert {one: (name, day) for _, one, name, day in mine} == expected

    hive.sql("insert into worked partition (day='mon') values (1, 'a'), (2, 'b'), (3, 'c')")
    async with orcstream.acid.open_table(place, **named) as table, await table.transaction() as change:
        await change.insert([(4, "d", "mon"), (5, "e", "tue")])
        await change.update({"name": "B"}, orcstream.col("id") == 2)
    expected = {1: ("a", "mon"), 2: ("B", "mon"), 3: ("c", "mon"), 4: ("d", "mon"), 5: ("e", "tue")}
    await check(expected)
    hive.compact("worked", "minor", "day='mon'")
    hive._ask({"run": "cleaner"})  # without the initiator, which would ask for more compactions
    await check(expected)
    hive.sql("update worked set name = 'E' where id = 5")
    hive.sql("delete from worked where id = 1")
    async with orcstream.acid.open_table(place, **named) as table:
        async with await table.transaction() as change:
            assert await change.delete(orcstream.col("id") == 3) == 1
            await change.insert([(6, "f", "tue")])
        done = await table.compact("major")
        assert {one.path: one.row_count for one in done.partitions} == {"day=mon": 2, "day=tue": 2}
        assert (await table.clean(older_than_s=0)).directories
    expected = {2: ("B", "mon"), 4: ("d", "mon"), 5: ("E", "tue"), 6: ("f", "tue")}
    await check(expected)
    hive.sql("insert into worked partition (day='mon') values (7, 'g')")
    hive.compact("worked", "major", "day='mon'")
    hive._ask({"run": "cleaner"})  # without the initiator, which would ask for more compactions
    await check({**expected, 7: ("g", "mon")})


@pytest.mark.parametrize("more", ["", ", 'transactional_properties'='insert_only'"])
async def test_hive_and_we_overwrite_one_table(hive: Hive, url: str, more: str) -> None:
    """With rows and without, in the place of each other's."""
    name = f"over{len(more)}"
    hive.sql(f"create table {name} (id int, name string) partitioned by (day string) {TRANSACTIONAL}{more})")
    hive.sql(f"insert into {name} values (1, 'a', 'mon'), (2, 'b', 'mon'), (3, 'c', 'tue')")
    place = str(hive.location(name))
    named: dict[str, Any] = {"metastore": url, "table": f"default.{name}"}

    async def check(*expected: tuple[int, str, str]) -> None:
        assert sorted(hive.sql(f"select * from {name}")) == sorted(expected)
        async with orcstream.acid.open_table(place, **named) as table:
            rows = [tuple(row.values()) for row in (await table.read()).to_pylist()]
        assert sorted(rows) == sorted(expected)

    async with orcstream.acid.open_table(place, **named) as table:
        async with await table.transaction() as change:
            await change.overwrite([(4, "d", "mon"), (5, "e", "wed")])
        await check((4, "d", "mon"), (5, "e", "wed"), (3, "c", "tue"))
        async with await table.transaction() as change:
            await change.overwrite([], partition={"day": "tue"})
    await check((4, "d", "mon"), (5, "e", "wed"))
    hive.sql(f"insert into {name} partition (day='tue') values (6, 'f')")
    hive.sql(f"insert overwrite table {name} partition (day='mon') select 7, 'g' from {name} where id = 6")
    hive.sql(f"insert overwrite table {name} partition (day='wed') select 7, 'g' from {name} where id = 77")
    await check((6, "f", "tue"), (7, "g", "mon"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("decimal(10,2)", ["1.50", "100", "0", "-0.01", "12345678.90"]),
        ("char(3)", ["a", "abc", " b", "é", ""]),
    ],
)
async def test_folders_are_named_as_hive_names_them(
    hive: Hive, url: str, kind: str, values: list[str]
) -> None:
    """Rows of one value are in one folder, whoever writes them; rows of Hive are overwritten and deleted."""
    name = f"named_{kind[:4]}"
    hive.sql(f"create table {name} (id int) partitioned by (p {kind}) {TRANSACTIONAL})")
    rows = " union all ".join(f"select {at}, cast('{value}' as {kind})" for at, value in enumerate(values))
    hive.sql(f"insert into {name} {rows}")
    folders = hive.sql(f"show partitions {name}")
    assert len(folders) == len(values)
    convert = Decimal if kind.startswith("decimal") else str
    place = str(hive.location(name))
    async with orcstream.acid.open_table(place, metastore=url, table=f"default.{name}") as table:
        async with await table.transaction() as change:
            await change.insert([(10 + at, convert(value)) for at, value in enumerate(values)])
            await change.insert([(20,)], partition={"p": convert(values[0])})
        assert hive.sql(f"show partitions {name}") == folders
        async with await table.transaction() as change:
            last = await table.read(columns=["p"], where=orcstream.col("id") == len(values) - 1, row_ids=True)
            assert await change.delete_rows(last) == 1
            await change.overwrite([(30,)], partition={"p": convert(values[0])})
    expected = [*range(1, len(values) - 1), *range(11, 10 + len(values)), 30]
    assert sorted(row[0] for row in hive.sql(f"select id from {name}")) == expected
    assert hive.sql(f"show partitions {name}") == folders


async def test_what_hive_has_overwritten_meanwhile_hides_no_rows(hive: Hive, url: str) -> None:
    """Our id is lower than Hive's, whose base would stand above our rows."""
    hive.sql(f"create table hidden (id int) {TRANSACTIONAL})")
    async with orcstream.acid.open_table(
        str(hive.location("hidden")), metastore=url, table="default.hidden"
    ) as table:
        change, other = await table.transaction(), await table.transaction()
        await other.insert([(1,)])
        await other.commit()
        hive.sql("insert overwrite table hidden select 2")
        await change.insert([(3,)])
        with pytest.raises(CommitFailed, match=r"\boverwritten\b"):
            await change.commit()
        await change.abort()
        async with await table.transaction() as again:
            await again.insert([(3,)])
    assert sorted(hive.sql("select * from hidden")) == [(2,), (3,)]


async def test_nobody_else_is_at_work_where_rows_are_overwritten(hive: Hive, url: str) -> None:
    async with opened(url, lock_timeout_s=0.2) as metastore:
        first, second = await metastore.begin(), await metastore.begin()
        await first.lock("overwrite", [""])
        await first.lock("insert", [""])  # which is included
        await first.lock("change", [""])
        for operation in ("insert", "change", "overwrite"):
            with pytest.raises(CommitFailed, match="lock_timeout_s"):
                await second.lock(operation, [""])
        await first.commit(Work(("base_0000001",), ("",)))
        with pytest.raises(CommitFailed, match="write conflict"):
            await second.commit(Work((), ("",)))


async def test_hive_reads_what_we_made_of_tables_of_before_hive_3(hive: Hive, url: str) -> None:
    """Updates beside inserts: Hive knows them no more, and reads the base that they become."""
    hive.sql(f"create table aged (k int, v string) {TRANSACTIONAL})")
    place = hive.location("aged")
    history = History(place, 24, Options(version=1, compactions=False))
    async with opened(url, "default.aged") as metastore:
        begun = [await metastore.begin() for _ in range(history.last)]
        for one in begun:
            if one.write_id in history.aborted:
                await one.abort()
            else:
                await one.commit(Work(tuple(history.directories(one.write_id))))
    ids = WriteIds(history.last, (), tuple(history.aborted))
    expected = [(key, row["k"], row["v"]) for (_, key), row in history.rows(ids).items()]
    async with orcstream.acid.open_table(str(place), metastore=url, table="default.aged") as table:
        before = (await table.read(row_ids=True)).to_pylist()
        await table.compact("major")
    mine = [(tuple(row["row__id"].values()), row["k"], row["v"]) for row in before]
    theirs = [(tuple(one.values()), k, v) for one, k, v in hive.sql("select row__id, k, v from aged")]
    assert sorted(mine, key=str) == sorted(theirs, key=str) == sorted(expected, key=str) != []
    hive.sql("update aged set v = 'changed' where k is not null")
    assert {v for k, v in hive.sql("select k, v from aged") if k is not None} == {"changed"}


async def test_hive_reads_what_is_streamed(hive: Hive, url: str) -> None:
    """While the batch is open, after an abort in it, after it was closed; and compacts it then."""
    hive.sql(f"create table streamed (id int, name string) clustered by (id) into 2 buckets {TRANSACTIONAL})")
    place = str(hive.location("streamed"))
    named: dict[str, Any] = {"metastore": url, "table": "default.streamed"}

    async def check(expected: set[int]) -> None:
        theirs = hive.sql("select row__id, id, name from streamed")
        async with orcstream.acid.open_table(place, **named) as table:
            rows = (await table.read(row_ids=True)).to_pylist()
        mine = [(row["row__id"], row["id"], row["name"]) for row in rows]
        assert sorted(map(str, mine)) == sorted(map(str, theirs))
        assert {one for _, one, _ in mine} == expected

    first, second = (2, 3, 6, 7, 10), (0, 1, 4)  # their buckets
    async with orcstream.acid.open_table(place, **named) as table, table.stream(transactions=3) as stream:
        await stream.write([(first[0], "a"), (first[1], "b")])
        await stream.commit()
        await check(set(first[:2]))
        await stream.write([(second[0], "c")])  # another file, of which nothing is there yet
        await check(set(first[:2]))
        await stream.commit()
        await check({*first[:2], second[0]})
        await stream.write([(first[2], "d"), (second[1], "e")])
        await stream.abort()
        await stream.write([(first[3], "f"), (second[2], "g")])
        assert stream.write_ids.start == 4
        await stream.commit()
        expected = {*first[:2], second[0], first[3], second[2]}
        await check(expected)
        hive.sql(f"delete from streamed where id = {first[0]}")
        await stream.write([(first[4], "h")])
        await stream.commit()
        expected = {*expected, first[4]} - {first[0]}
        await check(expected)
    await check(expected)
    for kind in ("minor", "major"):
        hive.compact("streamed", kind)
        hive._ask({"run": "cleaner"})
        await check(expected)


async def test_hive_overwrites_a_table_that_is_streamed_to(hive: Hive, url: str) -> None:
    """Between two transactions of a batch, whose ids are lower than Hive's."""
    hive.sql(f"create table poured (id int) partitioned by (day string) {TRANSACTIONAL})")
    place = str(hive.location("poured"))
    named: dict[str, Any] = {"metastore": url, "table": "default.poured"}
    async with orcstream.acid.open_table(place, **named) as table, table.stream(transactions=5) as stream:
        await stream.write([(1, "mon"), (2, "tue")])
        await stream.commit()
        hive.sql("insert overwrite table poured partition (day='mon') select 3")
        await stream.write([(4, "tue")])
        assert await stream.commit() == 2
        assert sorted(hive.sql("select id from poured")) == [(2,), (3,), (4,)]
        await stream.write([(5, "mon")])
        with pytest.raises(CommitFailed, match=r"\bday=mon\b.*\boverwritten\b"):
            await stream.commit()
        await stream.abort()
        await stream.write([(5, "mon")])
        assert await stream.commit() == 7
        async with await table.transaction() as change:
            await change.overwrite([(6,)], partition={"day": "tue"})
        assert sorted(hive.sql("select id from poured")) == [(3,), (5,), (6,)]
        with pytest.raises(CommitFailed, match=r"\bday=tue\b.*\boverwritten\b"):
            async with stream.transaction():
                await stream.write([(7, "tue")])
    assert sorted(hive.sql("select id from poured")) == [(3,), (5,), (6,)]


# --- buckets ---------------------------------------------------------------------------------------


def make_bucketed(hive: Hive, name: str) -> str:
    columns = ", ".join(f"{column} {type_}" for column, type_ in bucketed_rows.COLUMNS.items())
    by = ", ".join(list(bucketed_rows.COLUMNS)[1:])
    hive.sql(f"create table {name} ({columns}) clustered by ({by}) into 7 buckets {TRANSACTIONAL})")
    return str(hive.location(name))


def buckets_in_hive(hive: Hive, name: str) -> dict[int, int]:
    """By the numbers of the rows."""
    found = hive.sql(f"select n, (row__id.bucketid div 65536) % 4096 from {name}")
    return {int(number): int(bucket) for number, bucket in found}


async def test_buckets_are_those_of_hive(hive: Hive, url: str) -> None:
    """Of every type that rows are told by; and Hive reads and changes what we put there."""
    columns = ", ".join(f"{column} {type_}" for column, type_ in bucketed_rows.COLUMNS.items())
    hive.sql(f"create table source ({columns}) stored as orc tblproperties('transactional'='false')")
    bucketed_rows.write_rows(hive.location("source") / "000000_0")
    make_bucketed(hive, "by_hive")
    hive.sql("insert into by_hive select * from source")
    expected = buckets_in_hive(hive, "by_hive")
    place = make_bucketed(hive, "by_us")
    async with (
        orcstream.acid.open_table(place, metastore=url, table="default.by_us") as table,
        await table.transaction() as change,
    ):
        await change.insert(bucketed_rows.rows())
    assert len(expected) == bucketed_rows.rows().num_rows
    assert buckets_in_hive(hive, "by_us") == expected
    for value in ("c3 = 65536", "c7 = '日本語'", "c11 = date '1969-12-31'", "c13 = 12.8"):
        found = [hive.sql(f"select n from {name} where {value}") for name in ("by_us", "source")]
        assert found[0] == found[1] != [], value
    hive.run("update by_us set n = n + 1000 where n % 2 = 0", "delete from by_us where n % 3 = 0")
    kept = {number + 1000 * (number % 2 == 0): bucket for number, bucket in expected.items()}
    kept = {number: bucket for number, bucket in kept.items() if number % 3}
    assert buckets_in_hive(hive, "by_us") == kept
    hive.compact("by_us", "major")
    assert buckets_in_hive(hive, "by_us") == kept


# --- connections -----------------------------------------------------------------------------------


class Cutting:
    """Passes everything on, and cuts the connection when a method is asked, before or after its answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.method = b"nothing"
        self.left = 0
        self.passes = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        is_cut = asyncio.Event()

        async def answers() -> None:
            while (data := await inner_reader.read(65536)) and not is_cut.is_set():
                writer.write(data)

        answering = asyncio.create_task(answers())
        try:
            while data := await reader.read(65536):
                if self.method in data and self.left:
                    self.left -= 1
                    is_cut.set()
                    if self.passes:
                        inner_writer.write(data)
                        await answering
                    return
                inner_writer.write(data)
        finally:
            answering.cancel()
            writer.transport.abort()
            inner_writer.transport.abort()


@pytest.mark.parametrize(("lost", "passes"), [(1, True), (1, False), (2, True), (10, True), (10, False)])
async def test_a_commit_whose_answer_is_lost(hive: Hive, lost: int, *, passes: bool) -> None:
    cutting = Cutting(hive.thrift_port)
    async with server(cutting.serve) as url, opened(url) as metastore:
        transaction = await metastore.begin()
        await transaction.lock("insert", [""])
        cutting.method, cutting.left, cutting.passes = b"commit_txn", lost, passes
        work = Work((f"delta_{transaction.write_id:07}_{transaction.write_id:07}_0000",))
        if lost > 2:
            with pytest.raises(
                CommitUnknown, match=rf"\bcommit_txn\b.*\btransaction {transaction.transaction_id}\b"
            ):
                await transaction.commit(work)
            cutting.left = 0
            assert await transaction.outcome() == ("committed" if passes else "open")
            assert await transaction.abort() == ("committed" if passes else "aborted")
        else:
            await transaction.commit(work)
            assert await transaction.outcome() == "committed"


async def test_questions_are_asked_again_over_a_new_connection(hive: Hive) -> None:
    cutting = Cutting(hive.thrift_port)
    async with server(cutting.serve) as url, opened(url) as metastore:
        await metastore.snapshot()
        for method in (b"get_open_txns", b"get_valid_write_ids", b"get_table_req"):
            cutting.method, cutting.left = method, 1
            await metastore.snapshot()
            await metastore.table()
            assert (cutting.left, metastore.url) == (0, url)


async def test_the_next_metastore_is_asked_where_one_is_away(hive: Hive, url: str) -> None:
    async with opened(f"thrift://127.0.0.1:1, {url}") as metastore:
        await metastore.snapshot()
    async with opened("thrift://127.0.0.1:1") as metastore:
        with pytest.raises(SourceError, match=r"127\.0\.0\.1:1"):
            await metastore.snapshot()
