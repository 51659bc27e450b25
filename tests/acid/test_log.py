"""The transaction log: no id twice, the first outcome counts, snapshots stay as they are."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from orcstream.acid.transactions import log as logs
from orcstream.acid.transactions.contract import Snapshot, Transactions, Work, kept_alive
from orcstream.acid.transactions.log import LOG_FOLDER, TransactionLog, create_log
from orcstream.errors import CommitFailed, OrcError, UsageError
from orcstream.log import records
from orcstream.plan.acid.snapshot import WriteIds
from tests.generators.acid_logs import MEMORY, TABLE, delta, scattered, write
from tests.servers.s3_proxy import S3_KINDS, run_s3_proxy, start_s3
from tests.servers.sink_stores import SinkStore, make_store, s3_store
from tests.support.effort import share


def seen(snapshot: Snapshot, up_to: int = 40) -> list[int]:
    return [one for one in range(1, up_to) if snapshot.write_ids.is_visible(one)]


async def test_a_table_is_made_once(url: str) -> None:
    log: Transactions = await create_log(url, TABLE)
    assert await log.definition() == TABLE
    assert await TransactionLog(url).definition() == TABLE
    with pytest.raises(FileExistsError):
        await create_log(url, TABLE)
    assert (await log.snapshot()).write_ids == WriteIds(0)
    await log.aclose()


async def test_what_is_committed_is_seen_and_what_is_open_is_not(url: str) -> None:
    log = await create_log(url, TABLE)
    assert await write(log) == 1
    transaction = await log.begin()
    other = TransactionLog(url)
    assert await write(other) == 3
    assert transaction.snapshot.write_ids == WriteIds(1)
    snapshot = await log.snapshot()
    assert snapshot.write_ids == WriteIds(3, open=(2,))
    assert snapshot.directories == {"country=DE": frozenset({delta(1), delta(3)})}
    assert await transaction.outcome() == "open"
    assert await transaction.abort() == "aborted"
    assert (await other.snapshot()).write_ids == WriteIds(3, aborted=(2,))
    assert (await other.snapshot(2)).write_ids == WriteIds(2, aborted=(2,))
    assert (await other.snapshot(2)).directories == {"country=DE": frozenset({delta(1)})}
    assert (await other.snapshot(99)).write_ids == WriteIds(3, aborted=(2,))
    with pytest.raises(CommitFailed, match=r"\btransaction 2\b"):
        await transaction.commit(Work((delta(2),)))
    with pytest.raises(UsageError):
        await log.snapshot(-1)


async def test_a_commit_may_be_repeated(url: str) -> None:
    log = await create_log(url, TABLE)
    transaction = await log.begin()
    for _ in range(2):
        await transaction.commit(Work((delta(1),)))
    assert await transaction.abort() == await transaction.outcome() == "committed"


async def test_compactions_hide_no_rows_and_no_history(url: str) -> None:
    """An id that a compaction has taken is no row's, be it open, committed or aborted."""
    log = await create_log(url, TABLE)
    await write(log)
    dead, compaction = await log.begin("compaction"), await log.begin("compaction")
    await write(log)
    assert (dead.write_id, dead.transaction_id, compaction.transaction_id) == (0, 2, 3)
    snapshot = await log.snapshot()
    assert snapshot.write_ids == WriteIds(4)
    assert snapshot.transactions == WriteIds(4, open=(2, 3))
    base = "country=DE/base_0000001_v0000003"
    await compaction.commit(Work((base,), replaces=(delta(1),)))
    await dead.abort()
    snapshot = await TransactionLog(url).snapshot()
    assert snapshot.write_ids == WriteIds(4)
    assert snapshot.transactions == WriteIds(4, aborted=(2,))
    assert snapshot.directories == {"country=DE": frozenset({delta(1), delta(4)})}
    await log.removing([delta(1)])
    snapshot = await TransactionLog(url).snapshot()
    assert snapshot.directories == {"country=DE": frozenset({delta(4)})}
    assert snapshot.removed == {"country=DE": ((1, 1),)}
    assert (await log.snapshot(0)).directories == {}


async def test_the_first_that_changes_rows_wins(url: str) -> None:
    log = await create_log(url, TABLE)
    first, second, elsewhere, insert = [await log.begin() for _ in range(4)]
    # The later id is first.
    await second.commit(Work((delta(2),), ("country=DE",)))
    for _ in range(2):
        with pytest.raises(CommitFailed, match="country=DE"):
            await first.commit(Work((delta(1),), ("country=FR", "country=DE")))
    await elsewhere.commit(Work((delta(3),), ("country=FR",)))
    await insert.commit(Work((delta(4),)))
    assert await first.outcome() == "open"
    assert await first.abort() == "aborted"
    await write(log, deletes=True)


async def test_a_conflict_is_seen_through_checkpoints_and_after_the_directories_are_gone(url: str) -> None:
    log, late = await create_log(url, TABLE), TransactionLog(url)
    transaction = await late.begin()
    changed = await write(log, deletes=True)
    await log.removing([delta(changed)])
    for _ in range(25):
        await write(log)
    await log.clean(0)
    await log.clean(0)
    with pytest.raises(CommitFailed):
        await transaction.commit(Work((delta(1),), ("country=DE",)))
    await transaction.commit(Work((delta(1),)))


async def test_two_compactions_of_one_range(url: str) -> None:
    log = await create_log(url, TABLE)
    for _ in range(4):
        await write(log)
    first, second, third, fourth = [await log.begin("compaction") for _ in range(4)]
    of = "country=DE/delta_0000001_0000002_v0000005"
    await first.commit(Work((of,), replaces=(delta(1), delta(2))))
    with pytest.raises(CommitFailed, match=r"\bcompaction\b"):
        await second.commit(Work((of,), replaces=(delta(2), delta(3))))
    await third.commit(Work((delta(3),), replaces=(delta(3), delta(4))))
    await log.removing([of])
    with pytest.raises(CommitFailed, match=r"\bdirectories\b.*\bcountry=DE\b"):
        await fourth.commit(Work((of,), replaces=(delta(1), delta(2))))


async def test_the_dead_are_given_up_and_the_living_are_not(tmp_path: Path) -> None:
    url = str(tmp_path)
    log = await create_log(url, TABLE)
    dead, alive, young = [await log.begin() for _ in range(3)]
    for number in (1, 2):
        os.utime(tmp_path / LOG_FOLDER / f"claim-{number:010}.json", (1000, 1000))
    await alive.heartbeat()
    assert await log.abort_dead(600) == (1,)
    with pytest.raises(CommitFailed, match=r"\btransaction 1\b.*\bheartbeat\b"):
        await dead.heartbeat()
    with pytest.raises(CommitFailed, match=r"\btransaction 1\b.*\bheartbeat\b"):
        await dead.commit(Work((delta(1),)))
    await alive.commit(Work((delta(2),)))
    assert await log.abort_dead(0) == (3,)
    assert await young.outcome() == "aborted"
    assert await log.abort_dead(0) == ()
    with pytest.raises(UsageError):
        await log.abort_dead(-1)


async def test_signs_of_life_while_a_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    log = await create_log(MEMORY, TABLE)
    transaction = await log.begin()
    beats, enough = 0, asyncio.Event()
    heartbeat = transaction.heartbeat

    async def beat() -> None:
        nonlocal beats
        beats += 1
        if beats == 1:
            raise OrcError("the store is away for a moment")
        await heartbeat()
        enough.set()

    monkeypatch.setattr(transaction, "heartbeat", beat)
    async with kept_alive(transaction, interval_s=0.001):
        await enough.wait()
    assert f"/acid-log/table/{LOG_FOLDER}/beat-{1:010}.json" in MemoryFileSystem.store
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "orcstream heartbeat"]


async def test_records_that_nobody_needs_go(tmp_path: Path) -> None:
    log, reader = await create_log(str(tmp_path), TABLE), TransactionLog(str(tmp_path))
    folder = tmp_path / LOG_FOLDER
    waiting = await log.begin()
    await waiting.heartbeat()
    for _ in range(45):
        await write(log)
    names = sorted(path.name for path in folder.glob("checkpoint-*"))
    assert names == [f"checkpoint-{number:010}.json" for number in (20, 40)]
    before = await reader.snapshot()
    await log.clean(3600)  # all are young, but a checkpoint of now is there for later
    assert len(list(folder.glob("entry-*"))) == 45
    await log.clean(0)
    left = sorted(path.name for path in folder.iterdir())
    numbers = [1, 46]
    assert left == sorted(
        [f"beat-{1:010}.json", f"checkpoint-{45:010}.json", "table.json"]
        + [f"claim-{number:010}.json" for number in numbers]
    )
    assert await reader.snapshot() == await TransactionLog(str(tmp_path)).snapshot() == before
    assert await write(reader) == 47
    await waiting.commit(Work((delta(1),)))
    assert (await log.snapshot()).write_ids == WriteIds(47)


async def test_who_was_away_while_numbers_were_forgotten(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of records are created under a number that was used, ended and removed meanwhile."""
    log, away = await create_log(url, TABLE), TransactionLog(url)
    transaction = await away.begin()
    put, lists = records.Records.put, records.Records.listed

    async def forget() -> None:
        for _ in range(3):
            await write(log)
        await log.clean(0)
        await log.clean(0)

    stalled = False

    async def late(self: Any, name: str, record: Any, **options: Any) -> None:
        nonlocal stalled
        if not stalled:
            stalled = True
            await forget()
        await put(self, name, record, **options)

    with monkeypatch.context() as patch:
        patch.setattr(records.Records, "put", late)
        await transaction.commit(Work((delta(1),)))
        stalled = False
        second = await away.begin()
    assert second.write_id == 8
    assert (await TransactionLog(url).snapshot()).write_ids == WriteIds(8, open=(8,))
    assert lists is records.Records.listed


async def test_a_later_id_that_is_committed_before_the_first_look(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not seen, so what it changed is in conflict, although no entry is newer than the snapshot."""
    log, other = await create_log(url, TABLE), TransactionLog(url)
    put, is_first = records.Records.put, True

    async def overtaken(self: Any, name: str, record: Any, **options: Any) -> None:
        nonlocal is_first
        await put(self, name, record, **options)
        if is_first:
            is_first = False
            await write(other, deletes=True)

    with monkeypatch.context() as patch:
        patch.setattr(records.Records, "put", overtaken)
        transaction = await log.begin()
    assert transaction.snapshot.write_ids == WriteIds(0)
    with pytest.raises(CommitFailed, match=r"\bcountry=DE\b"):
        await transaction.commit(Work((delta(1),), ("country=DE",)))


# --- several writers -------------------------------------------------------------------------------


@dataclass
class History:
    """What several writers saw and did, in the order it was over."""

    begun: list[int] = field(default_factory=list)
    committed: dict[int, tuple[Snapshot, Work]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    snapshots: list[tuple[set[int], Snapshot]] = field(default_factory=list)


async def writer(url: str, history: History, draw: random.Random) -> None:
    log = TransactionLog(url)
    for _ in range(4):
        before = set(history.committed)
        history.snapshots.append((before, await log.snapshot()))
        transaction = await log.begin()
        number = transaction.write_id
        history.begun.append(number)
        history.snapshots.append(({one for one in before if one < number}, transaction.snapshot))
        partition = draw.choice(["country=DE", "country=FR"])
        work = Work((delta(number, partition),), (partition,) if draw.random() < 0.6 else ())
        if draw.random() < 0.15:
            assert await transaction.abort() == "aborted"
            history.failed.add(number)
            continue
        try:
            await transaction.commit(work)
            history.committed[number] = (transaction.snapshot, work)
        except CommitFailed:
            history.failed.add(number)
            await transaction.abort()
        if draw.random() < 0.2:
            await log.clean(0 if draw.random() < 0.3 and url == MEMORY else 3600)


@pytest.mark.parametrize("seed", range(share(60, 6)))
async def test_several_writers_side_by_side(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    await interleaved(MEMORY, random.Random(seed), monkeypatch)


@pytest.mark.parametrize("seed", range(share(10)))
async def test_several_writers_of_one_disk(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await interleaved(str(tmp_path), random.Random(seed), monkeypatch)


async def interleaved(url: str, draw: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    await create_log(url, TABLE)
    history = History()
    with monkeypatch.context() as patch:
        patch.setattr(logs, "_CHECKPOINT_EVERY", 3)
        scattered(patch, draw)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(writer, url, history, random.Random(draw.random()))
    last = await TransactionLog(url).snapshot()
    # Each id is one writer's, and what it was told is what everybody sees.
    assert sorted(history.begun) == list(range(1, 17))
    assert last.write_ids == WriteIds(16, aborted=tuple(history.failed))
    assert set(seen(last, 17)) == set(history.committed)
    assert last.directories is not None
    made = {path for paths in last.directories.values() for path in paths or ()}
    assert made == {path for _, work in history.committed.values() for path in work.directories}
    # What was over before a snapshot is in it; nothing in it was ever taken back.
    for before, snapshot in history.snapshots:
        assert before <= set(seen(snapshot, 17)) <= set(history.committed)
    # Of two that changed rows of one partition, one had seen the other.
    changes = [(number, *done) for number, done in history.committed.items() if done[1].deletes_in]
    for one, saw, work in changes:
        for other, saw_too, work_too in changes:
            if one < other and work.deletes_in == work_too.deletes_in:
                assert saw_too.write_ids.is_visible(one) or saw.write_ids.is_visible(other)


# --- stores ----------------------------------------------------------------------------------------


@pytest.fixture(params=["hdfs", *S3_KINDS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SinkStore]:
    if request.param == "hdfs":
        yield make_store("hdfs", tmp_path)
        return
    server = start_s3(request.param)
    with run_s3_proxy(server.endpoint) as proxy:
        yield s3_store(server, tmp_path.name, proxy.endpoint)


async def test_writers_side_by_side_on_a_store(store: SinkStore) -> None:
    url, options = store.url_of("table"), {"storage_options": store.options}
    await create_log(url, TABLE, **options)
    with pytest.raises(FileExistsError):
        await create_log(url, TABLE, **options)
    numbers: list[int] = []
    won: list[int] = []

    async def change() -> None:
        transaction = await TransactionLog(url, **options).begin()
        numbers.append(transaction.write_id)
        if len(numbers) == 3:
            all_begun.set()
        await all_begun.wait()
        try:
            await transaction.commit(Work((delta(transaction.write_id),), ("country=DE",)))
            won.append(transaction.write_id)
        except CommitFailed:
            await transaction.heartbeat()
            assert await transaction.abort() == "aborted"

    all_begun = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(change)
    assert sorted(numbers) == [1, 2, 3]
    assert len(won) == 1
    log = TransactionLog(url, **options)
    losers = tuple(one for one in (1, 2, 3) if one not in won)
    assert (await log.snapshot()).write_ids == WriteIds(3, aborted=losers)
    left = await log.begin()
    assert await log.abort_dead(0) in ((), (left.write_id,))  # where the store's clock is ahead of ours
    await left.abort()
    for _ in range(2):
        await log.clean(0)
    assert (await TransactionLog(url, **options).snapshot()).write_ids == WriteIds(4, aborted=(*losers, 4))
