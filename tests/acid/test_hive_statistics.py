"""Hive answers count, min and max from statistics: after our writes it has to read, as after its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import orcstream
from orcstream import col
from orcstream.acid import AcidTable
from orcstream.acid.transactions.metastore import Metastore
from tests.servers.hive import Hive, start_hive
from tests.servers.metastores import opened
from tests.support.effort import ALL

TRANSACTIONAL = "stored as orc tblproperties('transactional'='true'"
INSERT_ONLY = ", 'transactional_properties'='insert_only'"
ACCURATE = "COLUMN_STATS_ACCURATE"


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    with start_hive(tmp_path_factory.mktemp("warehouse")) as hive:
        yield hive


@pytest.fixture
def url(hive: Hive) -> str:
    return f"thrift://127.0.0.1:{hive.thrift_port}"


def make(hive: Hive, name: str, parted: str, more: str = "") -> Path:
    """A table with four rows and statistics of them, by Hive's own defaults."""
    by = "partitioned by (day string)" if parted else ""
    hive.sql(f"create table {name} (id int, text string) {by} {TRANSACTIONAL}{more})")
    to = "partition (day='mon')" if parted else ""
    hive.run(f"insert into {name} {to} values (1, 'a'), (2, 'b')", f"insert into {name} {to} values (3, 'c')")
    return hive.location(name)


def answers(hive: Hive, name: str) -> tuple[Any, ...]:
    (row,) = hive.sql(f"select count(*), min(id), max(id), count(text) from {name}")
    return row


def rows(hive: Hive, name: str) -> list[int]:
    return sorted(one for (one,) in hive.sql(f"select id from {name}"))


def expected(ids: list[int]) -> tuple[Any, ...]:
    return (len(ids), min(ids, default=None), max(ids, default=None), len(ids))


async def accurate(metastore: Metastore, parted: str) -> list[bool]:
    """Whether Hive would believe its statistics: of the table, or of each partition."""
    if not parted:
        return [ACCURATE in (await metastore.table()).parameters]
    names = [one.name for one in await metastore.partitions()]
    found = await metastore.call("get_partitions_by_names_req", metastore.partitions_request(names))
    return [ACCURATE in one.parameters for one in found.partitions]


def some_rows(*ids: int, day: str) -> list[tuple[Any, ...]]:
    return [(one, "ours", day) if day else (one, "ours") for one in ids]


async def insert(table: AcidTable, day: str) -> None:
    async with await table.transaction() as change:
        await change.insert(some_rows(10, 0, day=day))


async def delete(table: AcidTable, day: str) -> None:
    async with await table.transaction() as change:
        assert await change.delete(col("id") < 3) == 2


async def update(table: AcidTable, day: str) -> None:
    async with await table.transaction() as change:
        assert await change.update({"id": 30}, col("id") == 3) == 1


async def overwrite(table: AcidTable, day: str) -> None:
    async with await table.transaction() as change:
        await change.overwrite(some_rows(7, day=day))


async def empty(table: AcidTable, day: str) -> None:
    async with await table.transaction() as change:
        await change.overwrite([], partition={"day": day} if day else None)


async def stream(table: AcidTable, day: str) -> None:
    count = 1 if "insert_only" in table.url else 3
    async with table.stream(transactions=count) as rows:
        for number in (20, -20):
            await rows.write(some_rows(number, day=day))
            await rows.commit()


async def insert_elsewhere(table: AcidTable, day: str) -> None:
    async with await table.transaction() as change:
        await change.insert(some_rows(11, day="sun" if day else ""))


Change = Callable[[AcidTable, str], Coroutine[Any, Any, None]]
CHANGES: dict[Change, list[int]] = {
    insert: [0, 1, 2, 3, 10],
    delete: [3],
    update: [1, 2, 30],
    overwrite: [7],
    empty: [],
    stream: [-20, 1, 2, 3, 20],
    insert_elsewhere: [1, 2, 3, 11],
}


WHOLE, PARTED = "", "mon"
# Each kind of change, of both kinds of tables, partitioned and not; `make test-all` has every combination.
CASES = {
    (insert, "", PARTED),
    (insert, INSERT_ONLY, WHOLE),
    (delete, "", WHOLE),
    (delete, "", PARTED),
    (update, "", PARTED),
    (overwrite, "", WHOLE),
    (overwrite, INSERT_ONLY, PARTED),
    (empty, "", WHOLE),
    (stream, "", WHOLE),
    (stream, INSERT_ONLY, PARTED),
    (insert_elsewhere, "", PARTED),
}
EVERY = [
    (change, more, day)
    for change in CHANGES
    for more in (("",) if change in (delete, update) else ("", INSERT_ONLY))
    for day in (WHOLE, PARTED)
]


@pytest.mark.parametrize(
    ("change", "more", "day"),
    [case for case in EVERY if ALL or case in CASES],
    ids=lambda value: value.__name__ if callable(value) else None,
)
async def test_hive_counts_what_is_there(hive: Hive, url: str, change: Change, more: str, day: str) -> None:
    name = f"{change.__name__}_{'insert_only' if more else 'full'}_{day or 'whole'}"
    place = make(hive, name, day, more)
    assert answers(hive, name) == expected([1, 2, 3])
    async with opened(url, f"default.{name}") as metastore:
        assert await accurate(metastore, day) == [True]
        async with orcstream.acid.open_table(place, metastore=url, table=f"default.{name}") as table:
            await change(table, day)
        ids = CHANGES[change]
        assert rows(hive, name) == ids
        assert answers(hive, name) == expected(ids)
        hive.sql(f"insert into {name} {'partition (day=' + repr(day) + ')' if day else ''} values (5, 'd')")
        assert answers(hive, name) == expected(sorted([*ids, 5]))


async def test_an_analysis_beside_our_transaction_is_not_believed(hive: Hive, url: str) -> None:
    """It counted without rows that are committed after it; and another that sees them is."""
    place = make(hive, "analysed", "")
    async with opened(url, "default.analysed") as metastore:
        async with (
            orcstream.acid.open_table(place, metastore=url, table="default.analysed") as table,
            await table.transaction() as change,
        ):
            await change.insert([(4, "ours")])
            hive.sql("analyze table analysed compute statistics for columns")
        assert answers(hive, "analysed") == expected([1, 2, 3, 4])
        hive.sql("analyze table analysed compute statistics for columns")
        assert await accurate(metastore, "") == [True]
        assert answers(hive, "analysed") == expected([1, 2, 3, 4])


async def test_what_hive_inserts_beside_our_transaction_is_counted(hive: Hive, url: str) -> None:
    place = make(hive, "beside", "")
    async with (
        orcstream.acid.open_table(place, metastore=url, table="default.beside") as table,
        await table.transaction() as change,
    ):
        await change.insert([(4, "ours")])
        hive.sql("insert into beside values (5, 'd')")
        assert answers(hive, "beside") == expected([1, 2, 3, 5])
    assert answers(hive, "beside") == expected([1, 2, 3, 4, 5])


async def test_nothing_else_of_a_table_changes(hive: Hive, url: str) -> None:
    """Comments, owners, and what is in no definition of ours."""
    hive.sql(
        "create table described (id int comment 'a number') comment 'a table' partitioned by (day string) "
        f"clustered by (id) into 2 buckets {TRANSACTIONAL}, 'mine'='kept')"
    )
    hive.run(
        "insert into described partition (day='mon') values (1)",
        "alter table described partition (day='mon') set serdeproperties ('kept'='too')",
    )

    def shown() -> list[tuple[Any, ...]]:
        found = hive.sql("describe formatted described") + hive.sql(
            "describe formatted described partition (day='mon')"
        )
        # Statistics, and the time of the last change.
        moving = (ACCURATE, "transient_lastDdlTime", "numFiles", "totalSize", "numRows", "rawDataSize")
        return [row for row in found if not any(word in str(row) for word in moving)]

    before = shown()
    async with (
        orcstream.acid.open_table(
            hive.location("described"), metastore=url, table="default.described"
        ) as table,
        await table.transaction() as change,
    ):
        await change.insert([(2, "mon")])
    assert answers_of_ids(hive) == (2, 1, 2)
    assert shown() == before


def answers_of_ids(hive: Hive) -> tuple[Any, ...]:
    (row,) = hive.sql("select count(*), min(id), max(id) from described")
    return row
