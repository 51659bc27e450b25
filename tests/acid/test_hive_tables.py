"""Tables that Hive wrote read equal to what Hive reads there: rows, row ids, and the columns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import orcstream
import orcstream.acid
from tests.generators.hive_tables import TABLES, HiveTable, make_tables
from tests.servers.hive import start_hive
from tests.support.effort import ALL

pytestmark = pytest.mark.anyio
# What Hive shows for a partition without a value where it needs no job.
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
NAMES = [make.__name__ for make in TABLES]


def as_hive(value: Any, kind: str) -> Any:
    """A value of ours in the form of `Hive.sql`: text of decimals, dates and timestamps as Hive writes it."""
    if value is None:
        return None
    if kind.startswith("decimal"):
        return f"{Decimal(value).normalize():f}"
    if kind == "date":
        return str(value)
    if kind == "timestamp":
        seconds, _, fraction = str(value).replace("T", " ").partition(".")
        return f"{seconds}.{fraction.rstrip('0') or '0'}"
    if kind.startswith("map<"):
        return dict(value)
    return value


@pytest.mark.parametrize("name", NAMES)
async def test_rows_are_hives(hive_tables: dict[str, HiveTable], name: str) -> None:
    await check_rows(hive_tables[name])


@pytest.mark.timeout(900)
@pytest.mark.skipif(not ALL, reason="`make test-all` has Hive make its tables anew")
async def test_hive_makes_the_same_again(hive_tables: dict[str, HiveTable], tmp_path: Path) -> None:
    with start_hive(tmp_path) as hive:
        made = make_tables(hive)
    assert set(made) == set(hive_tables)
    for name, table in made.items():
        kept = hive_tables[name]
        assert (table.columns, sorted(table.rows, key=repr)) == (kept.columns, sorted(kept.rows, key=repr))
        await check_rows(table)


async def check_rows(table: HiveTable) -> None:
    kinds = [kind for _, kind in table.columns]
    is_insert_only = any(row_id is None for row_id, _ in table.rows)
    # Without rows there is no file that says the columns.
    columns = ",".join(f"{column}:{kind}" for column, kind in table.columns)
    schema = None if table.rows else f"struct<{columns}>"
    rows = []
    async with (
        orcstream.acid.open_table(
            table.path, write_ids=table.write_ids, transactions=table.transactions, schema=schema
        ) as opened,
        opened.batches(row_ids=not is_insert_only) as batches,
    ):
        assert [name for name, _ in table.columns] == list(opened.schema.root.field_names)
        async for batch in batches:
            rows += batch.to_pylist()
    mine = []
    for row in rows:
        row_id = row.pop("row__id", None)
        ids = None if row_id is None else (row_id["writeid"], row_id["bucketid"], row_id["rowid"])
        mine.append((ids, tuple(as_hive(v, kind) for v, kind in zip(row.values(), kinds, strict=True))))
    theirs = [
        (ids, tuple(None if value == NO_PARTITION else value for value in values))
        for ids, values in table.rows
    ]
    assert sorted(mine, key=repr) == sorted(theirs, key=repr)
