"""Programs that end at each step of a change, a compaction, a cleaning: what was there stays, all or none."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from orcstream import Unsupported, acid, col
from orcstream.acid.compact import cleaning, compacting
from orcstream.acid.transactions import log
from orcstream.acid.transactions.log import TransactionLog
from orcstream.acid.write import delta_files
from orcstream.io import sink
from orcstream.io.stores.local.append import GrowingLocalFile
from orcstream.log import records
from tests.generators.acid_tables import SCHEMA, rows_of
from tests.support.effort import STEP

OLD = dict.fromkeys(range(20), "old")
SECOND = {**OLD, 20: "second"}


class Killed(BaseException):
    """The program is no more."""


class Killer:
    """Lets so many steps pass that change the store, then none: a dead program cleans nothing up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        self.count = 0
        self._at(monkeypatch, sink, "commit")
        self._at(monkeypatch, sink, "discard")
        for home in (records, delta_files, compacting, cleaning):
            self._at(monkeypatch, home, "remove_files")
        for home in (delta_files, compacting, cleaning):
            self._at(monkeypatch, home, "remove_folders")
        for name in ("begin", "append", "flush", "finish", "cut"):
            self._at(monkeypatch, GrowingLocalFile, name)

    def _at(self, monkeypatch: pytest.MonkeyPatch, home: Any, name: str) -> None:
        call = getattr(home, name)

        async def step(*arguments: Any, **options: Any) -> Any:
            self._step()
            found = await call(*arguments, **options)
            self._step()
            return found

        monkeypatch.setattr(home, name, step)

    def _step(self) -> None:
        self.count += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


async def make(url: str) -> None:
    """Two write ids, then an update."""
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:
        async with await table.transaction() as transaction:
            await transaction.insert([{"id": one, "name": "old"} for one in OLD])
        async with await table.transaction() as transaction:
            await transaction.insert([{"id": 20, "name": "second"}])
            await transaction.update({"name": "old"}, col("id") < 5)


async def change(table: acid.AcidTable) -> None:
    async with await table.transaction() as transaction:
        await transaction.insert([{"id": 30, "name": "new"}])
        await transaction.update({"name": "new"}, col("id") < 10)
        await transaction.delete(col("id").between(8, 12))


async def overwrite(table: acid.AcidTable) -> None:
    async with await table.transaction() as transaction:
        await transaction.overwrite([{"id": one, "name": "new"} for one in range(2)])


async def stream(table: acid.AcidTable) -> None:
    """One that is committed, one that is aborted, one that is not used."""
    async with table.stream(transactions=3) as rows:
        await rows.write([{"id": 30, "name": "new"}])
        await rows.commit()
        await rows.write([{"id": 31, "name": "never"}])
        await rows.abort()


async def compact_minor(table: acid.AcidTable) -> None:
    await table.compact("minor")


async def compact_major(table: acid.AcidTable) -> None:
    await table.compact("major")


async def clean(table: acid.AcidTable) -> None:
    await table.clean(older_than_s=0)


CHANGED = {
    **dict.fromkeys(range(8), "new"),
    **dict.fromkeys(range(13, 20), "old"),
    20: "second",
    30: "new",
}
OUTCOMES = {
    change: [SECOND, CHANGED],
    overwrite: [SECOND, {0: "new", 1: "new"}],
    stream: [SECOND, {**SECOND, 30: "new"}],
}


async def _after_killing(url: str, steps: int, killer: Killer, work: Callable[..., Awaitable[None]]) -> bool:
    """Whether the work came to its end before so many steps."""
    async with acid.open_table(url) as table:
        killer.left = steps
        try:
            await work(table)
        except Killed:
            return False
        finally:
            killer.left = None
    return True


@pytest.mark.parametrize("work", [change, overwrite, stream, compact_minor, compact_major])
async def test_killed_at_each_step(work: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log, "_LOOK_AGAIN_S", 0)
    killer = Killer(monkeypatch)
    await make(str(tmp_path / "made"))
    for steps in range(0, 200, STEP):
        url = str(tmp_path / f"table{steps}")
        shutil.copytree(tmp_path / "made", url)
        is_done = await _after_killing(url, steps, killer, work)
        assert await rows_of(url, 1) == OLD
        assert await rows_of(url, 2) == SECOND
        now = await rows_of(url)
        assert now in OUTCOMES.get(work, [SECOND])
        # Others give up what is dead, and go on.
        await TransactionLog(url).abort_dead(0)
        assert await rows_of(url) == now
        async with acid.open_table(url) as table:
            await compact_major(table)
            async with await table.transaction() as transaction:
                await transaction.delete(col("id") > 0)
        assert set(await rows_of(url)) == {0}
        if is_done:
            assert steps > 5
            return
    raise AssertionError("there is no end to it")


async def test_killed_while_cleaning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log, "_LOOK_AGAIN_S", 0)
    killer = Killer(monkeypatch)
    made = str(tmp_path / "made")
    await make(made)
    async with acid.open_table(made) as table:
        await table.compact("minor")
        await change(table)
        await table.compact("major")
    for steps in range(100):
        url = str(tmp_path / f"table{steps}")
        shutil.copytree(made, url)
        is_done = await _after_killing(url, steps, killer, clean)
        assert await rows_of(url) == CHANGED
        for then, expected in ((1, OLD), (2, SECOND)):
            try:
                assert await rows_of(url, then) == expected
            except Unsupported as error:
                assert error.reason == "history_is_gone"  # noqa: PT017
        async with acid.open_table(url) as table:
            await table.clean(older_than_s=0)
        assert await rows_of(url) == CHANGED
        assert len([one for one in Path(url).iterdir() if one.name[0] != "_"]) == 1
        if is_done:
            assert steps > 1
            return
    raise AssertionError("there is no end to it")
