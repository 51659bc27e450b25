"""The transaction log, whoever dies and whenever, and whatever answers get lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orcstream.acid.transactions import log as logs
from orcstream.acid.transactions.contract import Work
from orcstream.acid.transactions.log import TransactionLog, create_log
from orcstream.acid.transactions.log_state import Entry
from orcstream.errors import CommitUnknown
from orcstream.io import sink
from orcstream.log import records
from tests.generators.acid_logs import MEMORY, TABLE, delta, write
from tests.support.effort import STEP


class Killed(BaseException):
    """The program is no more."""


class Killer:
    """Lets so many steps pass that change the store, and kills before or after the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, death: type[BaseException] = Killed) -> None:
        self.left: int | None = None
        self.death = death
        self._at(monkeypatch, sink, "commit")
        self._at(monkeypatch, records, "remove_files")

    def _at(self, monkeypatch: pytest.MonkeyPatch, home: Any, name: str) -> None:
        call = getattr(home, name)

        async def step(*arguments: Any, **options: Any) -> Any:
            self._step()
            found = await call(*arguments, **options)
            self._step()
            return found

        monkeypatch.setattr(home, name, step)

    def _step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise self.death("killed")


async def everything(url: str, told: list[str]) -> None:
    """All that a program does with a log; what it was told is over is in `told`."""
    log = TransactionLog(url)
    first, second = await log.begin(), await log.begin()
    told.append("begun")
    await first.commit(Work((delta(first.write_id),), ("country=DE",)))
    told.append("committed")
    await second.abort()
    told.append("aborted")
    compaction = await log.begin("compaction")
    await compaction.commit(Work(("country=DE/base_0000001_v0000003",), replaces=(delta(1),)))
    await log.removing([delta(1)])
    await log.clean(0)
    await log.clean(0)
    told.append("cleaned")


async def check_after(url: str, told: list[str]) -> None:
    log = TransactionLog(url)
    snapshot = await log.snapshot()
    assert ("committed" in told) <= snapshot.write_ids.is_visible(1)
    assert ("aborted" in told) <= snapshot.write_ids.is_aborted(2)
    for one in snapshot.transactions.open:
        assert await log._append(Entry(one, "aborted"), None) == "aborted"
    assert (await log.snapshot(1)).write_ids.is_visible(1) == snapshot.write_ids.is_visible(1)
    number = await write(log, deletes=True)
    assert (await TransactionLog(url).snapshot()).write_ids.is_visible(number)


async def test_killed_at_each_step(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logs, "_CHECKPOINT_EVERY", 2)
    killer = Killer(monkeypatch)
    for steps in range(0, 100, STEP):
        table = f"{url}-{steps}"
        await create_log(table, TABLE)
        told: list[str] = []
        killer.left = steps
        try:
            await everything(table, told)
        except Killed:
            await check_after(table, told)
            continue
        killer.left = None
        assert told[-1] == "cleaned"
        assert steps > 15
        return
    raise AssertionError("there is no end to it")


async def test_cancelled_after_each_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was taken by a call that was cancelled is given up; a commit is there or not."""
    monkeypatch.setattr(logs, "_CHECKPOINT_EVERY", 2)
    turns, is_over = 0, False
    while not is_over:
        table = f"{MEMORY}-{turns}"
        await create_log(table, TABLE)
        told: list[str] = []
        task = asyncio.create_task(everything(table, told))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_over = task.done()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or is_over
        open_ids = set((await TransactionLog(table).snapshot()).transactions.open)
        if "begun" not in told:
            assert open_ids <= {1}  # what was handed over
        await check_after(table, told)
        turns += 7
    assert turns > 100


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_store_that_loses_its_answers(
    url: str, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    log = await create_log(url, TABLE)
    commit, lost = sink.commit, 0

    async def losing(*arguments: Any, **options: Any) -> None:
        nonlocal lost
        if is_done or not lost:
            await commit(*arguments, **options)
        if lost:
            lost -= 1
            raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(sink, "commit", losing)
    lost = 5
    transaction = await log.begin()
    lost = 5
    await transaction.commit(Work((delta(transaction.write_id),)))
    assert await transaction.outcome() == "committed"
    lost = 1000
    second = transaction
    if is_done:
        second = await log.begin()
        await second.commit(Work((delta(2),)))
        assert await second.outcome() == "committed"
    else:
        lost = 0
        second = await log.begin()
        lost = 1000
        with pytest.raises(CommitUnknown):
            await second.commit(Work((delta(2),)))
        lost = 0
        assert await second.abort() == "aborted"


async def test_a_store_that_cannot_be_read_after_a_commit(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await create_log(url, TABLE)
    transaction = await log.begin()

    async def fail(*_: Any, **__: Any) -> Any:
        raise PermissionError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(records, "list_files", fail)
        with pytest.raises(CommitUnknown, match="no more"):
            await transaction.commit(Work((delta(1),)))
        with pytest.raises(PermissionError):
            await log.snapshot()
    assert await transaction.abort() == "committed"
