"""What Hive declares of a table holds for our writes: where it is, and which rows it may have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcstream import col
from orcstream.acid import open_table
from orcstream.acid.opening import OpeningTable
from orcstream.acid.transactions.contract import Constraint
from orcstream.errors import SchemaMismatch, Unsupported, UsageError
from tests.servers.hive import Hive, HiveError, start_hive
from tests.servers.metastores import opened

TRANSACTIONAL = "stored as orc tblproperties('transactional'='true')"


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    with start_hive(tmp_path_factory.mktemp("warehouse")) as hive:
        hive.run(
            f"create table one (id int) {TRANSACTIONAL}",
            f"create table two (id int) {TRANSACTIONAL}",
            "create table full_names (id int constraint id_is_there not null enable, name string, "
            f"note string not null disable novalidate) partitioned by (day string) {TRANSACTIONAL}",
            "create table filled (id int, kind string constraint kind_is_plain default 'plain') "
            f"{TRANSACTIONAL}",
            f"create table checked (id int constraint id_is_small check (id < 10) enable) {TRANSACTIONAL}",
        )
        yield hive


@pytest.fixture
def url(hive: Hive) -> str:
    return f"thrift://127.0.0.1:{hive.thrift_port}"


def shared(hive: Hive, url: str, name: str) -> OpeningTable:
    return open_table(hive.location(name), metastore=url, table=f"default.{name}")


# --- where it is -------------------------------------------------------------------------------------------


async def test_the_url_and_the_table_are_of_one_place(hive: Hive, url: str, tmp_path: Path) -> None:
    one, two = hive.location("one"), hive.location("two")
    with pytest.raises(UsageError) as caught:
        await open_table(one, metastore=url, table="default.two")
    assert caught.value.message.index(str(two)) < caught.value.message.rindex(str(one))
    with pytest.raises(UsageError, match=r"\bdefault\.one\b"):
        await open_table(one / "sub", metastore=url, table="default.one")
    link = tmp_path / "link"
    link.symlink_to(one)
    for place in (one, f"{one}/", f"file:{one}", f"file://{one}", link):
        async with (
            open_table(place, metastore=url, table="default.one") as table,
            await table.transaction() as change,
        ):
            await change.insert([(1,)])
    assert hive.sql("select * from two") == []
    assert len(hive.sql("select * from one")) == 5


# --- which rows it may have --------------------------------------------------------------------------------


async def test_which_constraints_there_are(url: str) -> None:
    async with opened(url, "default.full_names") as metastore:
        assert await metastore.constraints() == (Constraint("NOT NULL", "id_is_there", "id"),)
    async with opened(url, "default.filled") as metastore:
        assert await metastore.constraints() == (Constraint("DEFAULT", "kind_is_plain", "kind", "'plain'"),)
    async with opened(url, "default.checked") as metastore:
        (check,) = await metastore.constraints()
        assert (check.kind, check.name) == ("CHECK", "id_is_small")
    async with opened(url, "default.one") as metastore:
        assert await metastore.constraints() == ()


MISSING = (
    [{"id": 1, "name": "a", "note": None}, {"id": None, "name": "b", "note": "n"}],
    [(1, "a", "n"), (None, "b", "n")],
    pa.table({"id": pa.array([1, None], pa.int32()), "name": ["a", "b"], "note": ["n", None]}),
)


@pytest.mark.parametrize("data", MISSING)
async def test_a_column_that_is_not_null(hive: Hive, url: str, data: Any) -> None:
    with pytest.raises(HiveError, match="MapRedTask"):  # its job fails
        hive.sql("insert into full_names partition (day='mon') values (null, 'a', 'n')")
    refused = pytest.raises(SchemaMismatch, match=r"'id'.*\b1\b.*\bid_is_there\b")
    day = {"day": "mon"}
    async with shared(hive, url, "full_names") as table:
        for name in ("insert", "overwrite"):
            with refused:
                async with await table.transaction() as change:
                    await getattr(change, name)(data, partition=day)
        with refused:
            async with table.stream(transactions=2, partition=day) as stream:
                await stream.write(data)
        async with await table.transaction() as change:
            await change.insert([(7, None, None)], partition=day)  # the others may be null
            with pytest.raises(SchemaMismatch, match="id_is_there"):
                await change.update({"id": None}, col("id") == 7)
            assert await change.delete(col("id") == 7) == 1
    hive.sql("insert into full_names partition (day='mon') values (8, 'a', 'n')")
    assert {one for (one,) in hive.sql("select id from full_names")} == {8}


async def test_the_row_is_counted_over_batches(hive: Hive, url: str) -> None:
    ids = pa.array([*range(2500), None], pa.int32())
    whole = pa.table({"id": ids, "name": ["x"] * 2501, "note": ["x"] * 2501, "day": ["tue"] * 2501})
    data = pa.Table.from_batches(whole.to_batches(max_chunksize=1000))
    async with shared(hive, url, "full_names") as table:
        with pytest.raises(SchemaMismatch, match=r"\b2500\b"):
            async with await table.transaction() as change:
                await change.insert(data)


async def test_a_column_with_a_default_is_named(hive: Hive, url: str) -> None:
    lacking: tuple[Any, ...] = (
        [{"id": 1, "kind": "x"}, {"id": 2}],
        {"id": np.array([1], "i4")},
        pa.table({"id": pa.array([1], pa.int32())}),
    )
    async with shared(hive, url, "filled") as table:
        for data in lacking:
            with pytest.raises(SchemaMismatch, match=r"'kind'.*\bkind_is_plain\b.*'plain'"):
                async with await table.transaction() as change:
                    await change.insert(data)
        async with await table.transaction() as change:
            await change.insert([{"id": 1, "kind": None}, {"id": 2, "kind": "x"}])
            await change.insert([(3, "y")])
            await change.update({"id": 4}, col("id") == 3)
    hive.sql("insert into filled (id) values (5)")
    assert sorted(hive.sql("select * from filled")) == [(1, None), (2, "x"), (4, "y"), (5, "plain")]


async def test_a_check_is_hives_to_make(hive: Hive, url: str) -> None:
    hive.sql("insert into checked values (1), (2)")
    with pytest.raises(HiveError, match="MapRedTask"):  # its job fails
        hive.sql("insert into checked values (11)")
    async with shared(hive, url, "checked") as table:
        async with await table.transaction() as change:
            for statement in (change.insert([(3,)]), change.update({"id": 4}, col("id") == 1)):
                with pytest.raises(Unsupported, match=r"\bid_is_small\b") as caught:
                    await statement
                assert caught.value.reason == "check_constraint"
            assert await change.delete(col("id") == 2) == 1
        assert (await table.compact("major")).partitions
    assert hive.sql("select * from checked") == [(1,)]
