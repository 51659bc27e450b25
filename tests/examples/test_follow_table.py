"""The follower of a transactional table: its copy is the table, whatever happens to either in between."""

from __future__ import annotations

import runpy
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orcstream import acid, col
from tests.meta.tree import ROOT
from tests.servers.s3_proxy import start_versitygw

SCHEMA = "struct<id:bigint,amount:double>"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "follow_table.py"))


class World:
    """A table, a copy of it, and whether they agree."""

    def __init__(self, example: dict[str, Any], url: str, path: Path, options: dict[str, Any] | None) -> None:
        self.url, self.path, self.options = url, path, options
        self._example = example

    async def make(self) -> None:
        partitions = {"country": "string"}
        await acid.create_table(self.url, SCHEMA, partitions=partitions, storage_options=self.options)

    def open(self) -> Any:
        return acid.open_table(self.url, storage_options=self.options)

    async def insert(self, ids: range) -> None:
        async with self.open() as table, await table.transaction() as change:
            await change.insert([{"id": n, "amount": n / 4, "country": "DE" if n % 2 else "FR"} for n in ids])

    async def catch_up(self) -> int:
        with closing(self._example["Copy"](str(self.path))) as copy:
            count: int = await self._example["catch_up"](self.url, copy, self.options)
        return count

    def copied(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as db:
            return sorted(db.execute("select id, amount, country from rows"))

    async def stored(self) -> list[tuple[Any, ...]]:
        async with self.open() as table:
            return sorted(tuple(row.values()) for row in (await table.read()).to_pylist())


@pytest.mark.parametrize("kind", ["local", "s3"])
async def test_copy_is_the_table(kind: str, example: dict[str, Any], tmp_path: Path) -> None:
    url, options = str(tmp_path / "table"), None
    if kind == "s3":
        server = start_versitygw()
        server.client.create_bucket(Bucket="followed")
        url, options = "s3://followed/orders", server.options
    world = World(example, url, tmp_path / "copy.db", options)
    await world.make()
    async with world.open():  # keeps the connections to the store
        await check_that_it_follows(world)


async def check_that_it_follows(world: World) -> None:
    await world.insert(range(20))
    assert await world.catch_up() == 20
    assert world.copied() == await world.stored()
    assert await world.catch_up() == 0

    async with world.open() as table:
        async with await table.transaction() as change:
            await change.update({"amount": -1.0}, col("id") < 5)
        given_up = await table.transaction()
        await given_up.insert([{"id": 77, "amount": 0.0, "country": "DE"}])
        await given_up.abort()
        async with await table.transaction() as change:
            await change.delete(col("id") >= 18)
            await change.insert([{"id": 100, "amount": 7.0, "country": "IT"}])
    async with world.open() as table, await table.transaction() as change:
        await change.delete(col("id") == 100)  # in the same look as its insert
    assert await world.catch_up() == 2 * 5 + 2 + 1 + 1
    assert world.copied() == await world.stored()


async def test_open_transactions_are_waited_for(example: dict[str, Any], tmp_path: Path) -> None:
    world = World(example, str(tmp_path / "table"), tmp_path / "copy.db", None)
    await world.make()
    await world.insert(range(10))
    await world.catch_up()
    before = world.copied()
    async with world.open() as table:
        late = await table.transaction()
        await late.insert([{"id": 50, "amount": 1.0, "country": "DE"}])
        await world.insert(range(60, 65))
        assert await world.catch_up() == 0
        assert world.copied() == before
        await late.commit()
    assert await world.catch_up() == 6
    assert world.copied() == await world.stored()


async def test_a_failure_in_between_changes_nothing(
    example: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(example, str(tmp_path / "table"), tmp_path / "copy.db", None)
    await world.make()
    await world.insert(range(10))
    await world.catch_up()
    before = world.copied()
    await world.insert(range(10, 20))
    add = example["Copy"]._add

    def full(copy: Any, rows: Any, partition_columns: Any) -> None:
        add(copy, rows, partition_columns)
        raise sqlite3.OperationalError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(example["Copy"], "_add", full)
        with pytest.raises(sqlite3.OperationalError):
            await world.catch_up()
    assert world.copied() == before
    assert await world.catch_up() == 10
    assert world.copied() == await world.stored()


async def test_history_that_is_gone_is_copied_anew(
    example: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World(example, str(tmp_path / "table"), tmp_path / "copy.db", None)
    await world.make()
    await world.insert(range(10))
    await world.catch_up()
    await world.insert(range(10, 20))
    async with world.open() as table, await table.transaction() as change:
        await change.delete(col("id") < 3)
    async with world.open() as table:
        await table.compact("major")
        await table.clean(older_than_s=0)
    monkeypatch.setattr("sys.argv", ["follow_table.py", world.url, str(world.path), "--once"])
    await example["follow"](world.url, str(world.path), once=True)
    assert capsys.readouterr().out == "17 rows or changes, up to write id 4\n"
    assert world.copied() == await world.stored()
