"""Transactions as their users see them: what they refuse, who wins, what is left of them."""

from __future__ import annotations

import asyncio
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import orcstream
from orcstream import CommitFailed, KeyUnavailable, SchemaMismatch, Unsupported, UsageError, acid, col
from orcstream.io.keys import InMemoryKeyProvider
from tests.generators.acid_tables import SCHEMA, rows_of
from tests.support.errors import because

ROWS = [{"id": one, "name": "old"} for one in range(10)]


async def make(url: str, **options: Any) -> None:
    await acid.create_table(url, SCHEMA, **options)
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert(ROWS)


async def test_the_first_that_changes_rows_wins(url: str) -> None:
    await make(url)
    async with acid.open_table(url) as table:
        first, second = await table.transaction(), await table.transaction()
        await second.update({"name": "second"}, col("id") == 1)
        await first.delete(col("id") == 2)
        await second.commit()
        with pytest.raises(CommitFailed):
            await first.commit()
        await first.abort()
        # Inserts are in nobody's way.
        third, fourth = await table.transaction(), await table.transaction()
        await third.insert([(20, "third")])
        await fourth.delete(col("id") == 3)
        await fourth.commit()
        await third.commit()
    found = await rows_of(url)
    assert (found[1], found[2], found[20], 3 in found) == ("second", "old", "third", False)


async def test_only_inserts(url: str) -> None:
    await make(url, insert_only=True)
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert(pa.table({"id": [10, 11], "name": ["new", None]}))
        change = await table.transaction()
        for work in (change.delete(), change.update({"name": "x"}), change.delete_rows([])):
            with pytest.raises(Unsupported, check=because("insert_only")):
                await work
        await change.abort()
        for kind, expected in (("minor", 12), ("major", 12)):
            done = await table.compact(kind)  # type: ignore[arg-type]
            assert [one.row_count for one in done.partitions] == [expected]
    assert len(await rows_of(url)) == 12
    # Rows without ids do not say which of the write ids of a wide delta they are of.
    with pytest.raises(Unsupported, check=because("history_is_gone")):
        await rows_of(url, 1)


async def test_what_is_refused(url: str) -> None:
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table:
        change = await table.transaction()
        await change.insert([{"id": 1, "name": "a", "part": 1}])
        await change.insert([{"id": 2, "name": "b"}], partition={"part": 2})
        for work, error in (
            (change.insert([{"id": "x", "name": "a", "part": 1}]), SchemaMismatch),
            (change.insert([{"id": 1}], partition={"other": 1}), UsageError),
            (change.update({"part": 3}), UsageError),
            (change.update({"nothing": 3}), UsageError),
            (change.update(lambda _: {"name": ["one too many"] * 7}), SchemaMismatch),
            (change.delete(col("nothing") == 1), UsageError),
            (change.delete_rows([{"row__id": None, "part": 1}]), SchemaMismatch),
        ):
            with pytest.raises(error):
                await work
        # What was refused left nothing, and the transaction goes on.
        assert await change.update({"name": None}, col("part") == 2) == 1
        await change.commit()
        with pytest.raises(UsageError, match=r"\bended\b"):
            await change.insert([])
    assert await rows_of(url) == {1: "a", 2: None}


async def test_misspelt_keywords_name_the_table(url: str) -> None:
    await make(url)
    async with acid.open_table(url) as table:
        with pytest.raises(TypeError, match=r"AcidTable\.read\(\).*'columns'"):
            await table.read(colums=["id"])  # type: ignore[call-arg]


@pytest.mark.parametrize("limit", [0, -1, "1GB", 1e9, True])
async def test_memory_limits_that_are_none(limit: Any, url: str) -> None:
    """They are refused before anything is begun."""
    await make(url)
    async with acid.open_table(url) as table:
        with pytest.raises(UsageError):
            await table.transaction(memory_limit=limit)
        with pytest.raises(UsageError):
            table.stream(memory_limit=limit)
        with pytest.raises(UsageError):
            await table.compact("major", memory_limit=limit)
        with pytest.raises(UsageError):
            await table.compact("major", memory_limit=3)
        with pytest.raises(UsageError):
            await table.read(memory_limit=limit)
    async with acid.open_table(url) as table:
        assert table.write_ids.open == ()


async def test_two_tasks_in_one_transaction(url: str) -> None:
    await make(url)
    async with acid.open_table(url) as table, await table.transaction() as change:
        one = asyncio.create_task(change.delete(col("id") == 1))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match=r"\btasks\b"):
            await change.insert([(1, "x")])
        assert await one == 1


async def test_cancelled_after_each_turn_of_the_loop(tmp_path: Path) -> None:
    """All of it or nothing, and nothing is left of what was given up."""
    url = str(tmp_path / "table")
    await make(url)
    before = {one: "old" for one in range(10)}  # noqa: C420
    after = {one: "old" if one else "new" for one in range(9)}

    async def work() -> None:
        async with acid.open_table(url) as table, await table.transaction() as change:
            await change.update({"name": "new"}, col("id") == 0)
            await change.delete(col("id") == 9)

    turns, is_over = 0, False
    while not is_over:
        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        is_over = not task.cancelled()
        found = await rows_of(url)
        assert found == after if is_over else found in (before, after)
        if found == after:
            break
        # A program that goes on gives up by itself.
        async with acid.open_table(url) as table:
            assert table.write_ids.open == ()
            left = [one.name for one in await table.describe() if one.state != "read"]
        assert left == []
        turns = turns + 1 + turns // 2  # most of them wait for threads
    assert turns > 100


async def test_masked_values_are_not_written_again(tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes(16))
    encrypt = [orcstream.Encrypt(key="pii", columns=["row.name"])]
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:
        async with await table.transaction(encrypt=encrypt, keys=keys) as change:
            await change.insert(ROWS)
        with pytest.raises(KeyUnavailable):
            await table.compact("major")
    assert await rows_of(url) == dict.fromkeys(range(10))
    async with acid.open_table(url, keys=keys) as table:
        with pytest.raises(UsageError, match="encrypt="):
            await table.compact("major")
        done = await table.compact("major", encrypt=encrypt, keys=keys)
        assert [one.row_count for one in done.partitions] == [10]
    assert await rows_of(url) == dict.fromkeys(range(10))
    assert await rows_of(url, keys=keys) == dict.fromkeys(range(10), "old")


async def test_a_compaction_stops_below_what_is_open(url: str) -> None:
    await make(url)
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([(10, "second")])
        is_open = await table.transaction()
        await is_open.insert([(11, "open")])
        async with await table.transaction() as change:
            await change.insert([(12, "later")])
        (done,) = (await table.compact("minor")).partitions
        assert done.directories[0].startswith("delta_0000001_0000002_v")
        assert set(await rows_of(url)) == {*range(11), 12}
        await is_open.commit()
    assert set(await rows_of(url)) == set(range(13))


async def test_a_table_that_nobody_keeps(tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    await make(url)
    (tmp_path / "table" / "_orcstream_acid").rename(tmp_path / "log")
    async with acid.open_table(url) as table:
        for work in (table.transaction(), table.compact(), table.clean()):
            with pytest.raises(Unsupported) as caught:
                await work
            assert caught.value.reason == "no_transactions"


async def test_half_of_a_statement_never_counts(url: str) -> None:
    """Rows with new values that were written before the update failed must not stand beside the old ones."""
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    calls = 0

    def failing(batch: orcstream.Batch) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise ValueError("no more")
        return {"name": ["new"] * batch.num_rows}

    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([{"id": one, "name": "old", "part": one % 2} for one in range(10)])
        change = await table.transaction()
        with pytest.raises(ValueError, match="no more"):
            await change.update(failing)
        with pytest.raises(UsageError, match=r"\babort\b"):
            await change.insert([{"id": 30, "name": "x", "part": 0}])
        with pytest.raises(UsageError, match=r"\babort\b"):
            await change.commit()
        await change.abort()
    assert calls == 2
    assert await rows_of(url) == dict.fromkeys(range(10), "old")


async def test_a_partition_whose_name_begins_with_an_underscore(url: str) -> None:
    await acid.create_table(url, SCHEMA, partitions={"_part": "int"})
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert([{"id": 1, "name": "a", "_part": 2}])
    async with acid.open_table(url) as table:
        assert (await table.read()).to_pylist() == [{"id": 1, "name": "a", "_part": 2}]


@pytest.mark.parametrize(
    ("kind", "value", "odd"),
    [
        ("int", 7, "abc"),
        ("int", 7, "007"),
        ("int", 7, 7.0),
        ("int", 7, True),
        ("int", 7, 1 << 31),
        ("boolean", True, 1),
        ("date", datetime.date(2024, 5, 1), "2024-5-1"),
        ("decimal(10,2)", Decimal("1.50"), Decimal("1.505")),
        ("char(3)", "ab", "abcd"),
        ("string", "a", 7),
        ("string", "a", "\0"),
        ("string", "a", "b" * 300),
    ],
)
async def test_a_partition_has_a_value_of_its_type(url: str, kind: str, value: Any, odd: Any) -> None:
    """A folder with another one would make the table unreadable, or be a second one of the same value."""
    await acid.create_table(url, SCHEMA, partitions={"part": kind})
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([{"id": 1, "name": "a", "part": value}])
            for work in (
                change.insert([{"id": 2, "name": "b"}], partition={"part": odd}),
                change.overwrite([], partition={"part": odd}),
                change.delete_rows([], partition={"part": odd}),
            ):
                with pytest.raises(SchemaMismatch, match="part"):
                    await work
        with pytest.raises(SchemaMismatch, match="part"):
            await table.stream(transactions=1, partition={"part": odd})
    assert await rows_of(url) == {1: "a"}


@pytest.mark.parametrize(
    ("kind", "value", "same"),
    [
        ("decimal(10,2)", Decimal("1.50"), Decimal("1.5")),
        ("decimal(10,2)", Decimal("100.00"), 100),
        ("char(3)", "a", "a  "),
        ("string", "", None),
        ("int", 7, np.int16(7)),
    ],
)
async def test_a_partition_has_one_folder(url: str, kind: str, value: Any, same: Any) -> None:
    """Whether rows name it or the caller does, and however the value is written."""
    await acid.create_table(url, SCHEMA, partitions={"part": kind})
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([{"id": 1, "name": "a", "part": value}])
            await change.insert([{"id": 2, "name": "b"}], partition={"part": same})
        async with await table.transaction() as change:
            await change.overwrite([{"id": 3, "name": "c"}], partition={"part": same})
    async with acid.open_table(url) as table:
        assert len(table.partitions) == 1
    assert await rows_of(url) == {3: "c"}


@pytest.mark.parametrize("part", ["part=1", "part=1/", "part=1/delta_0000001_0000001_0000"])
async def test_a_part_of_a_table_with_a_log(part: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not know what is committed; rows of a transaction in progress would be there."""
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert([{"id": 1, "name": "a", "part": 1}])
    with pytest.raises(UsageError, match=r"\bwrite_ids="):
        await acid.open_table(f"{url}/{part}")
    async with acid.open_table(f"{url}/{part}", write_ids=1) as table:
        assert (await table.read()).to_pylist() == [{"id": 1, "name": "a"}]
    if not url.startswith("memory"):
        monkeypatch.chdir(url)
        with pytest.raises(UsageError, match=r"\bwrite_ids="):
            await acid.open_table(part)


@pytest.mark.parametrize("kind", ["double", "float", "timestamp", "timestamp with local time zone", "binary"])
async def test_partition_columns_that_no_folder_can_name(kind: str, url: str) -> None:
    """Nobody could write such a table, which was only said by its first transaction."""
    with pytest.raises(UsageError, match=rf"'part'.*\b{kind}\b"):
        await acid.create_table(url, SCHEMA, partitions={"part": kind})
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
