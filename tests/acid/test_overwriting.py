"""Tables and partitions that are overwritten: what stands there then, who wins, what is left of before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyorc
import pytest

from orcstream import CommitFailed, SchemaMismatch, Unsupported, UsageError, acid, col
from orcstream.io.folders import list_files
from tests.generators.acid_tables import SCHEMA, rows_of

ROWS = [{"id": one, "name": "old"} for one in range(10)]
OLD = dict.fromkeys(range(10), "old")


async def make(url: str, **options: Any) -> None:
    await acid.create_table(url, SCHEMA, **options)
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert(ROWS)


async def overwrite(url: str, rows: list[Any], **options: Any) -> None:
    async with acid.open_table(url) as table, await table.transaction() as change:
        assert await change.overwrite(rows, **options) == len(rows)


@pytest.mark.parametrize("insert_only", [False, True])
@pytest.mark.parametrize("rows", [[(20, "new"), (21, None)], []], ids=["rows", "none"])
async def test_a_table(url: str, rows: list[Any], insert_only: bool) -> None:
    await make(url, insert_only=insert_only)
    await overwrite(url, rows)
    assert await rows_of(url) == dict(rows)
    assert await rows_of(url, 1) == OLD
    found = sorted(one.path for one in await list_files(url) if one.path.startswith("base_"))
    names = ["000000_0"] if insert_only else ["_orc_acid_version", "bucket_00000"]
    assert found == [f"base_0000002/{name}" for name in names]
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([(30, "later")])
        assert (await table.compact("major")).partitions[0].row_count == len(rows) + 1
        assert await rows_of(url) == {**dict(rows), 30: "later"}
        await table.clean(older_than_s=0)
    assert await rows_of(url) == {**dict(rows), 30: "later"}
    with pytest.raises(Unsupported) as caught:
        await rows_of(url, 1)
    assert caught.value.reason == "history_is_gone"


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_snapshot_whose_files_are_cleaned_while_it_is_open(url: str, is_deleted: bool) -> None:
    await make(url)
    if is_deleted:
        async with acid.open_table(url) as table, await table.transaction() as change:
            await change.delete(col("id") < 5)
    async with acid.open_table(url) as earlier, acid.open_table(url) as table:
        assert (await table.compact("major")).partitions
        assert (await table.clean(older_than_s=0)).directories
        for ask in (earlier.read, earlier.describe):
            with pytest.raises(Unsupported) as caught:
                await ask()
            assert caught.value.reason == "history_is_gone"
    assert len(await rows_of(url)) == (5 if is_deleted else 10)


async def test_partitions(url: str) -> None:
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert([{"id": one, "name": "old", "part": one % 3} for one in range(6)])
    # Those that rows go to are replaced, as by Hive, or the one that is named.
    await overwrite(url, [{"id": 10, "name": "new", "part": 1}, {"id": 11, "name": "new", "part": 7}])
    assert await rows_of(url) == {0: "old", 3: "old", 2: "old", 5: "old", 10: "new", 11: "new"}
    await overwrite(url, [], partition={"part": 0})
    await overwrite(url, [(12, "new")], partition={"part": 2})
    await overwrite(url, [])
    assert await rows_of(url) == {10: "new", 11: "new", 12: "new"}


async def test_buckets_and_ids(tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    await make(url, bucket_columns=["id"], bucket_count=3)
    await overwrite(url, [{"id": one, "name": "new"} for one in range(100, 200)])
    async with acid.open_table(url) as table:
        rows = (await table.read(row_ids=True)).to_pylist()
    assert len({tuple(row["row__id"].values()) for row in rows}) == len(rows) == 100
    assert {row["row__id"]["writeid"] for row in rows} == {2}
    for bucket in range(3):
        with (tmp_path / "table" / "base_0000002" / f"bucket_{bucket:05d}").open("rb") as file:
            found = [row[:5] for row in pyorc.Reader(file)]
        assert found == [(0, 2, 1 << 29 | bucket << 16, at, 2) for at in range(len(found))] != []


async def test_more_files_than_there_is_memory_for(tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    rows = [{"id": one, "name": "new", "part": one} for one in range(40)]
    async with acid.open_table(url) as table:
        change = await table.transaction(memory_limit=1 << 20)
        with pytest.raises(Unsupported, match=r"\bmemory_limit\b") as caught:
            await change.overwrite(rows)
        assert caught.value.reason == "too_many_files"
        await change.abort()
        async with await table.transaction(memory_limit=1 << 30) as change:
            assert await change.overwrite(rows) == 40
    assert len(await rows_of(url)) == 40


# --- who wins


async def test_what_is_inserted_before_and_committed_after(url: str) -> None:
    """Is not lost without a word: its rows would be hidden."""
    await make(url)
    async with acid.open_table(url) as table:
        before = await table.transaction()
        await before.insert([(20, "before")])
        change = await table.transaction()
        after = await table.transaction()
        await after.insert([(30, "after")])
        await change.overwrite([(10, "new")])
        await change.commit()
        with pytest.raises(CommitFailed, match=r"\boverwritten\b"):
            await before.commit()
        await before.abort()
        await after.commit()
    assert await rows_of(url) == {10: "new", 30: "after"}


@pytest.mark.parametrize("is_overwrite", [False, True])
async def test_the_first_that_changes_rows_wins(url: str, is_overwrite: bool) -> None:
    await make(url)
    async with acid.open_table(url) as table:
        for first_is_overwrite in (False, True):
            change, other = await table.transaction(), await table.transaction()
            await change.overwrite(ROWS)
            await (other.overwrite(ROWS) if is_overwrite else other.update({"name": "changed"}))
            first, second = (change, other) if first_is_overwrite else (other, change)
            await first.commit()
            with pytest.raises(CommitFailed, match=r"\btransaction\b.*\brows\b"):
                await second.commit()
            await second.abort()
            left = "changed" if not is_overwrite and not first_is_overwrite else "old"
            assert await rows_of(url) == dict.fromkeys(range(10), left)


async def test_a_transaction_does_nothing_else_there(url: str) -> None:
    await make(url)
    async with acid.open_table(url) as table:
        change = await table.transaction()
        await change.insert([(20, "new")])
        with pytest.raises(UsageError, match=r"\boverwrites\b"):
            await change.overwrite([(21, "new")])
        await change.commit()
        for work in ("insert", "overwrite", "update", "delete"):
            change = await table.transaction()
            with pytest.raises(SchemaMismatch):
                await change.overwrite([("x", 1)])
            await change.overwrite([(30, "new")])
            given: dict[str, Any] = {"insert": [(1, "x")], "overwrite": [], "update": {"name": "x"}}
            with pytest.raises(UsageError, match=r"\boverwrites\b"):
                await getattr(change, work)(*([given[work]] if work in given else []))
            await change.abort()
    assert await rows_of(url) == {**OLD, 20: "new"}


# --- what is left


async def test_what_was_there_stays_while_somebody_is_at_work(url: str) -> None:
    await make(url)
    async with acid.open_table(url) as table, acid.open_table(url) as reader:
        is_open = await table.transaction()
        await overwrite(url, [(20, "new")])
        done = await table.clean(older_than_s=0)
        assert (done.directories, done.kept) == ((), ("delta_0000001_0000001_0000",))
        assert (await reader.read()).num_rows == 10
        await is_open.abort()
        done = await table.clean(older_than_s=0)
        assert done.directories[0] == "delta_0000001_0000001_0000"
    assert await rows_of(url) == {20: "new"}


async def test_snapshots_between_are_read_until_what_they_need_is_gone(url: str) -> None:
    """Also where earlier ones were cleaned away before; and never as fewer rows."""
    await make(url)
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.delete(col("id") < 5)
        await table.compact("major")
        await table.clean(older_than_s=0)
        async with await table.transaction() as change:
            await change.insert([(20, "between")])
        between = change.write_id
        await overwrite(url, [(30, "new")])
        expected = {**dict.fromkeys(range(5, 10), "old"), 20: "between"}
        assert await rows_of(url, between) == expected
        # A program that cleans is killed after it has removed some.
        log = table._transactions
        assert log is not None
        await log.removing([f"delta_{between:07d}_{between:07d}_0000"])
        with pytest.raises(Unsupported) as caught:
            await rows_of(url, between)
        assert caught.value.reason == "history_is_gone"
        await table.clean(older_than_s=0)
    assert await rows_of(url) == {30: "new"}


async def test_what_is_given_up_leaves_nothing(url: str) -> None:
    await make(url)
    before = {one.path for one in await list_files(url) if not one.path.startswith("_")}
    async with acid.open_table(url) as table:
        change = await table.transaction()
        await change.overwrite([(20, "new")])
        await change.abort()
    assert {one.path for one in await list_files(url) if not one.path.startswith("_")} == before
    assert await rows_of(url) == OLD
