"""Tables whose columns change: we read, write and compact them as a real Hive reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from orcstream import acid, col
from orcstream.errors import Unsupported
from tests.acid.test_hive_tables import as_hive
from tests.servers.hive import Hive, start_hive

pytestmark = pytest.mark.anyio
KINDS = ("full", "insert_only", "converted")
PROPERTIES = {
    "full": "'transactional'='true'",
    "insert_only": "'transactional'='true', 'transactional_properties'='insert_only'",
    "converted": "'transactional'='false'",
}


@dataclass(frozen=True)
class Change:
    """Columns, a row of Hive's in them, what is altered then, and a row of ours in the new columns.

    `lost` is what a compaction would lose.
    """

    columns: str
    row: str
    alters: tuple[str, ...]
    ours: dict[str, Any]
    lost: str = ""


CHANGES = {
    "renamed": Change("id int, a string", "1, 'x'", ("change a b string",), {"id": 2, "b": "y"}),
    "swapped": Change(
        "a int, b int",
        "1, 2",
        ("change a t int", "change b a int", "change t b int"),
        {"b": 3, "a": 4},
    ),
    "swapped_types": Change(
        "a int, b string",
        "1, 'x'",
        ("change a t int", "change b a string", "change t b int"),
        {"b": 3, "a": "y"},
    ),
    "added": Change("a int", "1", ("add columns (c string)",), {"a": 2, "c": "c"}),
    "added_after_rename": Change(
        "a int, b string",
        "1, 'x'",
        ("change a d int", "add columns (a string)"),
        {"d": 2, "b": "y", "a": "z"},
    ),
    "replaced": Change(
        "a int, b string", "1, 'x'", ("replace columns (c int, d string)",), {"c": 2, "d": "y"}
    ),
    "replaced_by_more": Change(
        "a int, b string",
        "1, 'x'",
        ("replace columns (b int, a string, e double)",),
        {"b": 2, "a": "y", "e": 0.5},
    ),
    "wider": Change(
        "a int, b decimal(5,2), c int, f float",
        "1, 1.25, -7, 1.5",
        (
            "change a a bigint",
            "change b b decimal(12,4)",
            "change c c string",
            "change f f double",
        ),
        {"a": 3_000_000_000, "b": Decimal("12345.2525"), "c": "z", "f": 0.1},
    ),
    "rounded": Change(
        "i bigint",
        "3000000001",
        ("change i i double",),
        {"i": 0.5},
        lost=r"'i'.*\bbigint\b.*\bdouble\b",
    ),
    "field_added": Change(
        "id int, s struct<x:int,y:string>",
        "1, named_struct('x', 1, 'y', 'a')",
        ("change s s struct<x:int,y:string,z:double>",),
        {"id": 2, "s": {"x": 2, "y": "b", "z": 0.5}},
    ),
    "field_renamed": Change(
        "id int, s array<struct<x:int,y:string>>",
        "1, array(named_struct('x', 1, 'y', 'a'))",
        ("change s s array<struct<x:int,q:string>>",),
        {"id": 2, "s": [{"x": 2, "q": "b"}]},
        lost=r"'s\.y'",
    ),
    "fields_swapped": Change(
        "id int, s struct<x:int,y:int>",
        "1, named_struct('x', 1, 'y', 2)",
        ("change s r struct<y:int,x:int>",),
        {"id": 2, "r": {"y": 3, "x": 4}},
    ),
}


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    with start_hive(tmp_path_factory.mktemp("warehouse")) as hive:
        yield hive


def opened(hive: Hive, table: str, **options: Any) -> Any:
    place = f"thrift://127.0.0.1:{hive.thrift_port}"
    return acid.open_table(str(hive.location(table)), metastore=place, table=f"default.{table}", **options)


async def ours(hive: Hive, table: str, **options: Any) -> list[tuple[Any, ...]]:
    kinds = [kind for _, kind in hive.query(f"select * from {table}")[0]]
    async with opened(hive, table) as opened_table:
        rows = (await opened_table.read(**options)).to_pylist()
    return sorted((tuple(map(as_hive, row.values(), kinds)) for row in rows), key=repr)


def hives(hive: Hive, table: str, where: str = "") -> list[tuple[Any, ...]]:
    return sorted(hive.sql(f"select * from {table} {where}"), key=repr)


def make(hive: Hive, table: str, kind: str, change: Change) -> None:
    hive.run(
        f"create table {table} ({change.columns}) stored as orc tblproperties({PROPERTIES[kind]})",
        f"insert into {table} select {change.row}",
    )
    if kind == "converted":
        hive.sql(f"alter table {table} set tblproperties('transactional'='true')")
    hive.run(*(f"alter table {table} {alter}" for alter in change.alters))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CHANGES)
async def test_columns_that_change(hive: Hive, name: str, kind: str) -> None:
    change, table = CHANGES[name], f"{name}_{kind}"
    make(hive, table, kind, change)
    columns, before = hive.query(f"select * from {table}")
    async with opened(hive, table) as one:
        assert [f"{table}.{column}" for column in one.schema.names] == [column for column, _ in columns]
    assert await ours(hive, table) == before
    async with opened(hive, table) as one, await one.transaction() as transaction:
        await transaction.insert([change.ours])
    rows = await ours(hive, table)
    assert rows == hives(hive, table)
    assert len(rows) == 2
    assert rows != before
    for compaction in ("minor", "major"):
        async with opened(hive, table) as one:
            if change.lost:
                with pytest.raises(Unsupported, match=change.lost) as caught:
                    await one.compact("major")
                assert caught.value.reason == "columns_would_be_lost"
            else:
                done = await one.compact(compaction)
                assert done.partitions or compaction == "minor"
        assert hives(hive, table) == await ours(hive, table) == rows


@pytest.mark.parametrize("kind", ["full", "converted"])
async def test_rows_are_changed_in_the_new_columns(hive: Hive, kind: str) -> None:
    """Also by a program that opened the table before its columns changed."""
    table = f"changing_{kind}"
    change = Change(
        "a int, b int, s struct<x:int>",
        "stack(3, 1, 10, named_struct('x', 5), 2, 20, named_struct('x', 6), 3, 30, named_struct('x', 7))",
        (),
        {},
    )
    make(hive, table, kind, change)
    async with opened(hive, table) as early:
        hive.run(
            f"alter table {table} change a t int",
            f"alter table {table} change b a bigint",
            f"alter table {table} change t b int",
            f"alter table {table} add columns (c string)",
        )
        async with await early.transaction() as transaction:
            assert await transaction.update({"c": "new"}, col("a") == 20) == 1
            assert await transaction.delete(col("b") == 3) == 1
        expected = [(1, 10, {"x": 5}, None), (2, 20, {"x": 6}, "new")]
        assert hives(hive, table) == await ours(hive, table) == expected
        await early.compact("major")
    assert hives(hive, table) == await ours(hive, table) == expected
    assert await ours(hive, table, where=(col("a") > 15) & (col("s.x") < 7)) == expected[1:]
    assert await ours(hive, table, where=col("c").is_null()) == expected[:1]


async def test_predicates_prune_by_the_column_they_mean(hive: Hive) -> None:
    """Statistics and bloom filters of the column at the same position decide, not those of the name."""
    table = "pruned"
    hive.run(
        f"create table {table} (a int, b int, s struct<x:int,y:int>) stored as orc "
        "tblproperties('transactional'='true', 'orc.bloom.filter.columns'='a,b', "
        "'orc.row.index.stride'='1000')",
        f"insert into {table} select pos, 100000 + pos, named_struct('x', pos, 'y', -pos) "
        "from (select posexplode(split(space(4999), ' '))) t",
        f"alter table {table} change a t int",
        f"alter table {table} change b a int",
        f"alter table {table} change t b int",
        f"alter table {table} change s r struct<y:int,x:int>",
    )
    async with opened(hive, table) as one:
        for where, text, count in (
            (col("b") == 77, "b = 77", 1),
            (col("a") == 77, "a = 77", 0),
            (col("a") >= 104_990, "a >= 104990", 10),
            (col("r.x") < 5, "r.x < 5", 5),
        ):
            async with one.batches(columns=["r.y", "a"], where=where) as batches:
                found = [row async for batch in batches for row in batch.to_pylist()]
                statistics = batches.stats
            assert len(found) == count
            assert sorted((row["r"]["y"], row["a"]) for row in found) == sorted(
                hive.sql(f"select r.y, a from {table} where {text}")
            )
            pruned = statistics.rows_pruned_by_file + statistics.rows_pruned_by_row_group
            assert pruned >= 4000


async def test_partitions_with_columns_of_their_own(hive: Hive) -> None:
    """Without CASCADE a partition keeps its old columns in the metastore; Hive reads the table's."""
    table = "parted"
    hive.run(
        f"create table {table} (id int, a string) partitioned by (p string) stored as orc "
        "tblproperties('transactional'='true')",
        f"insert into {table} partition (p='old') values (1, 'x')",
        f"alter table {table} change a b string",
        f"alter table {table} change id a bigint",
        f"alter table {table} add columns (id int)",
    )
    async with opened(hive, table) as one, await one.transaction() as transaction:
        for p in ("old", "new"):
            await transaction.insert([{"a": 3_000_000_000, "b": "y", "id": 7, "p": p}])
    expected = [(1, "x", None, "old"), (3_000_000_000, "y", 7, "new"), (3_000_000_000, "y", 7, "old")]
    assert hives(hive, table) == await ours(hive, table) == expected
    async with opened(hive, table) as one:
        assert len((await one.compact("major")).partitions) == 2
    assert hives(hive, table) == await ours(hive, table) == expected
    assert await ours(hive, table, where=col("id") == 7) == hives(hive, table, "where id = 7")


async def test_without_a_metastore_the_newest_file_names_the_columns(hive: Hive) -> None:
    """`schema=` may have the names of the newest file, in any order, or those that the table has since."""
    table, change = "bare", CHANGES["swapped"]
    make(hive, table, "full", change)
    hive.sql(f"insert into {table} values (3, 4)")
    folder = str(hive.location(table))
    for schema, expected in (
        (None, [{"b": 1, "a": 2}, {"b": 3, "a": 4}]),
        ("struct<a:bigint,b:int>", [{"a": 2, "b": 1}, {"a": 4, "b": 3}]),
        ("struct<a:int>", [{"a": 2}, {"a": 4}]),
        ("struct<x:int,a:int,c:string>", [{"x": 1, "a": 2, "c": None}, {"x": 3, "a": 4, "c": None}]),
    ):
        async with acid.open_table(folder, schema=schema) as one:
            assert (await one.read()).to_pylist() == expected
