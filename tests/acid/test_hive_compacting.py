"""Hive compacts and cleans what we wrote: both read the same rows, with the same ids, before and after."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import orcstream
from orcstream import acid, col
from orcstream.acid import AcidTable
from orcstream.errors import Unsupported
from orcstream.io.keys import InMemoryKeyProvider
from tests.servers.hive import Hive, start_hive

pytestmark = pytest.mark.anyio
PARTED, BUCKETED = "partitioned by (p string)", "clustered by (id) into 3 buckets"
ENCRYPT = [orcstream.Encrypt(key="pii", columns=["row.name"])]


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    with start_hive(tmp_path_factory.mktemp("warehouse")) as hive:
        yield hive


def make(hive: Hive, name: str, how: str = "", more: str = "") -> None:
    hive.sql(
        f"create table {name} (id int, name string) {how} stored as orc "
        f"tblproperties('transactional'='true'{more})"
    )


def opened(hive: Hive, name: str, **options: Any) -> Any:
    place = f"thrift://127.0.0.1:{hive.thrift_port}"
    return acid.open_table(str(hive.location(name)), metastore=place, table=f"default.{name}", **options)


def rows(parted: str, first: int, last: int) -> list[dict[str, Any]]:
    names = [{"id": one, "name": f"name {one}"} for one in range(first, last)]
    return [{**row, "p": "ab"[one % 2]} for one, row in enumerate(names)] if parted else names


async def write(table: AcidTable, parted: str) -> dict[int, str]:
    """Every way to write, several statements in one transaction, one that is given up; the rows by id."""
    expected = {one: f"name {one}" for one in range(400)}
    async with await table.transaction() as change:
        await change.insert(rows(parted, 0, 300))
    async with await table.transaction() as change:
        await change.insert(rows(parted, 300, 350))
        await change.insert(rows(parted, 350, 400))
        await change.delete(col("id").between(10, 30))
        await change.update({"name": "once"}, col("id").between(340, 360))
    async with await table.transaction() as change:
        await change.update({"name": "twice"}, col("id").between(350, 380))
    async with await table.transaction() as change:
        await change.delete(col("id").between(370, 390))
    given_up = await table.transaction()
    await given_up.insert(rows(parted, 5000, 5010))
    await given_up.abort()
    async with table.stream(transactions=3) as stream:
        for first in (1000, 1010, 1020, 1030):
            await stream.write(rows(parted, first, first + 10))
            await stream.commit()
    expected |= {one: f"name {one}" for one in range(1000, 1040)}
    expected |= dict.fromkeys(range(340, 350), "once") | dict.fromkeys(range(350, 370), "twice")
    return {one: name for one, name in expected.items() if not (10 <= one <= 30 or 370 <= one <= 390)}


def clean(hive: Hive) -> None:
    time.sleep(1.1)  # Hive cleans what was compacted a second ago; it has no other clock
    hive.clean()


async def check(hive: Hive, name: str, expected: dict[int, str]) -> list[str]:
    """The rows, with their ids, as both read them."""
    theirs = sorted(map(str, hive.sql(f"select row__id, * from {name}")))
    async with opened(hive, name) as table:
        found = (await table.read(row_ids=True)).to_pylist()
    assert sorted(str((row.pop("row__id"), *row.values())) for row in found) == theirs
    assert {row["id"]: row["name"] for row in found} == expected
    assert len(found) == len(expected)
    return theirs


@pytest.mark.parametrize("bucketed", ["", BUCKETED], ids=["", "bucketed"])
@pytest.mark.parametrize("parted", ["", PARTED], ids=["", "parted"])
async def test_hive_compacts_and_cleans_what_we_wrote(hive: Hive, parted: str, bucketed: str) -> None:
    name = f"compacted{'_p' * bool(parted)}{'_b' * bool(bucketed)}"
    make(hive, name, f"{parted} {bucketed}")
    async with opened(hive, name) as table:
        expected = await write(table, parted)
    before = await check(hive, name, expected)
    for kind in ("minor", "major"):
        for partition in ("p='a'", "p='b'") if parted else (None,):
            hive.compact(name, kind, partition)
        assert await check(hive, name, expected) == before
        made = {path.name.partition("_")[0] for path in hive.location(name).rglob("*_v*") if path.is_dir()}
        assert made >= ({"base"} if kind == "major" else {"delta", "delete"})
        clean(hive)
        assert await check(hive, name, expected) == before
    left = [path.name for path in hive.location(name).rglob("*") if path.is_dir() and "_" in path.name]
    assert len(left) == (2 if parted else 1)
    assert all(one.startswith("base_") for one in left)
    async with opened(hive, name) as table, await table.transaction() as change:
        await change.update({"name": "after"}, col("id") < 5)
        await change.delete(col("id") >= 1000)
    expected = {one: "after" if one < 5 else text for one, text in expected.items() if one < 1000}
    await check(hive, name, expected)


@pytest.mark.parametrize(
    "alters",
    [("change id key int",), ("change id t int", "change name id string", "change t name int")],
    ids=["renamed", "swapped"],
)
async def test_buckets_go_by_the_column_that_was_renamed(hive: Hive, alters: tuple[str, ...]) -> None:
    """Hive's own rows and ours go to the same buckets, by the values of the column under its new name."""
    name = f"renamed_{len(alters)}"
    make(hive, name, "clustered by (id) into 4 buckets")
    hive.run(*(f"alter table {name} {alter}" for alter in alters))
    columns = [column.partition(".")[2] for column, _ in hive.query(f"select * from {name}")[0]]
    hive.sql(f"insert into {name} select pos, 'hive' from (select posexplode(split(space(39), ' '))) q")
    async with opened(hive, name) as table, await table.transaction() as change:
        await change.insert([{columns[0]: one, columns[1]: "ours"} for one in range(40)])
    found = {
        who: dict(hive.sql(f"select {columns[0]}, row__id.bucketid from {name} where {columns[1]} = '{who}'"))
        for who in ("hive", "ours")
    }
    assert found["ours"] == found["hive"]
    assert len(set(found["hive"].values())) == 4
    assert sorted(found["hive"]) == list(range(40))


@pytest.fixture
def keys() -> InMemoryKeyProvider:
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes(16))
    return keys


async def test_encrypted_columns_that_hive_would_compact(hive: Hive, keys: InMemoryKeyProvider) -> None:
    """Hive has no keys and writes what it reads: nulls. So the table has to rule out its compactions."""
    make(hive, "masked")
    async with opened(hive, "masked", keys=keys) as table:
        with pytest.raises(Unsupported, match="NO_AUTO_COMPACTION") as caught:
            await table.transaction(encrypt=ENCRYPT, keys=keys)
        assert caught.value.reason == "hive_compacts"
        with pytest.raises(Unsupported, match="NO_AUTO_COMPACTION"):
            async with table.stream(transactions=2, encrypt=ENCRYPT, keys=keys) as stream:
                await stream.write([(1, "one")])
        hive.sql("alter table masked set tblproperties('NO_AUTO_COMPACTION'='true')")
        async with await table.transaction(encrypt=ENCRYPT, keys=keys) as change:
            await change.insert([(1, "one")])
    assert hive.sql("select * from masked") == [(1, None)]
    async with opened(hive, "masked", keys=keys) as table:
        assert (await table.read()).to_pylist() == [{"id": 1, "name": "one"}]


async def test_hive_leaves_encrypted_columns_alone(hive: Hive, keys: InMemoryKeyProvider) -> None:
    """Its initiator asks for a compaction of a table with so many deltas, but not of this one."""
    make(hive, "by_itself")
    make(hive, "left_alone", more=", 'no_auto_compaction'='TRUE'")
    for name, options in (("by_itself", {}), ("left_alone", {"encrypt": ENCRYPT, "keys": keys})):
        async with opened(hive, name, keys=keys) as table:
            for one in range(12):
                async with await table.transaction(**options) as change:
                    await change.insert([(one, f"name {one}")])
    hive.clean()
    asked = {row[2] for row in hive.sql("show compactions")}
    assert "by_itself" in asked
    assert "left_alone" not in asked
    async with opened(hive, "left_alone", keys=keys) as table:
        expected = (await table.read()).to_pylist()
        assert expected == [{"id": one, "name": f"name {one}"} for one in range(12)]
        await table.compact("major", encrypt=ENCRYPT, keys=keys)
    async with opened(hive, "left_alone", keys=keys) as table:
        assert (await table.read()).to_pylist() == expected
