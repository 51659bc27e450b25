"""Batches of transactions in a table's own log: ids in a row that nobody else gets, whoever is late."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.acid.transactions import log as logs
from orcstream.acid.transactions.contract import Work
from orcstream.acid.transactions.log import LOG_FOLDER, TransactionLog, create_log
from orcstream.acid.transactions.log_state import Entry, LogState
from orcstream.errors import CommitFailed
from orcstream.log import records
from orcstream.plan.acid.snapshot import WriteIds
from tests.generators.acid_logs import MEMORY, TABLE, delta, scattered, write
from tests.support.effort import share


def names(folder: Path, kind: str) -> list[int]:
    return [int(path.name[len(kind) + 1 : -5]) for path in sorted((folder / LOG_FOLDER).glob(f"{kind}-*"))]


async def test_ids_in_a_row(url: str) -> None:
    log = await create_log(url, TABLE)
    batch, single, later = await log.begin_batch(3), await log.begin(), await log.begin_batch(2)
    assert [one.write_id for one in batch.transactions] == [1, 2, 3]
    assert (single.write_id, [one.write_id for one in later.transactions]) == (4, [5, 6])
    assert later.transactions[1].snapshot.write_ids == WriteIds(5, open=(1, 2, 3, 4, 5))
    await batch.transactions[0].commit(Work((delta(1),)))
    await batch.transactions[1].abort()
    # Each is ended by itself, and seen at once.
    assert (await TransactionLog(url).snapshot()).write_ids == WriteIds(6, (3, 4, 5, 6), (2,))
    for _ in range(2):
        await batch.abort()
    await later.abort()
    await single.commit(Work((delta(4),)))
    assert (await TransactionLog(url).snapshot()).write_ids == WriteIds(6, (), (2, 3, 5, 6))
    assert await write(TransactionLog(url)) == 7


async def test_an_end_shows_all_of_its_claim(tmp_path: Path) -> None:
    """Where a listing has an outcome, and not the claim: nobody begins inside it."""
    log = await create_log(str(tmp_path), TABLE)
    batch = await log.begin_batch(5)
    await batch.transactions[0].commit(Work((delta(1),)))
    claim = tmp_path / LOG_FOLDER / f"claim-{1:010}.json"
    claim.rename(tmp_path / "away")
    other = await TransactionLog(str(tmp_path)).begin()
    assert (other.write_id, other.snapshot.write_ids.open) == (6, (2, 3, 4, 5))


async def test_the_dead_and_the_living(tmp_path: Path) -> None:
    log = await create_log(str(tmp_path), TABLE)
    dead, alive, used = [await log.begin_batch(3) for _ in range(3)]
    await dead.transactions[0].commit(Work((delta(1),)))
    for one in used.transactions:
        await one.abort()
    long_ago = time.time() - 1000
    for path in (tmp_path / LOG_FOLDER).iterdir():
        os.utime(path, (long_ago, long_ago))
    await alive.heartbeat()
    await used.heartbeat()  # of which none is left
    assert names(tmp_path, "beat") == [4]
    other = TransactionLog(str(tmp_path))
    assert await other.abort_dead(500) == (2, 3)
    assert await other.abort_dead(500) == ()
    for call in (dead.heartbeat(), dead.transactions[1].commit(Work((delta(2),)))):
        with pytest.raises(CommitFailed, match=r"\btransaction [23]\b.*\bheartbeat\b"):
            await call
    await alive.transactions[2].commit(Work((delta(6),)))
    assert (await other.snapshot()).write_ids == WriteIds(9, (4, 5), (2, 3, 7, 8, 9))


async def test_claims_stay_until_all_of_their_ids_have_ended(tmp_path: Path) -> None:
    log = await create_log(str(tmp_path), TABLE)
    batch, ended = await log.begin_batch(3), await log.begin_batch(2)
    await batch.heartbeat()
    await ended.heartbeat()
    await ended.abort()
    await write(log)
    await batch.transactions[0].commit(Work((delta(1),)))
    await batch.transactions[2].abort()
    for _ in range(2):
        await log.clean(0)
    assert (names(tmp_path, "claim"), names(tmp_path, "beat")) == ([1, 6], [1])
    assert (await TransactionLog(str(tmp_path)).snapshot()).write_ids == WriteIds(6, (2,), (3, 4, 5))
    await batch.transactions[1].commit(Work((delta(2),)))
    for _ in range(2):
        await log.clean(0)
    assert (names(tmp_path, "claim"), names(tmp_path, "beat")) == ([6], [])


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_claim_that_comes_too_late(
    url: str, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    """Made under an id that was taken, ended and forgotten meanwhile: it takes nobody's ids."""
    log, away = await create_log(url, TABLE), TransactionLog(url)
    put, is_first = records.Records.put, True
    others: list[Any] = []

    async def late(self: Any, name: str, record: Any, **options: Any) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            for _ in range(2):
                await write(log)
            others.append(await log.begin_batch(2))
            for _ in range(2):
                await log.clean(0)
            await put(self, name, record, **options)
            if is_cancelled:
                scope.cancel()
                await anyio.sleep_forever()
            return
        await put(self, name, record, **options)

    with monkeypatch.context() as patch, anyio.CancelScope() as scope:
        patch.setattr(records.Records, "put", late)
        batch = await away.begin_batch(5)
        assert [one.write_id for one in batch.transactions] == [5, 6, 7, 8, 9]
        await batch.abort()
    assert scope.cancelled_caught == is_cancelled
    (other,) = others
    for one in other.transactions:
        await one.commit(Work((delta(one.write_id),)))
    assert (await TransactionLog(url).snapshot()).write_ids.open == ()
    assert await write(log) == (5 if is_cancelled else 10)


async def writer(url: str, outcomes: dict[int, str], begun: list[int], draw: random.Random) -> None:
    log = TransactionLog(url)
    for _ in range(3):
        batch = await log.begin_batch(draw.randrange(1, 5))
        ids = [one.write_id for one in batch.transactions]
        assert ids == list(range(ids[0], ids[0] + len(ids)))
        begun += ids
        for one in batch.transactions[: draw.randrange(0, len(ids) + 1)]:
            if draw.random() < 0.3:
                outcomes[one.write_id] = await one.abort()
            else:
                await one.commit(Work((delta(one.write_id),)))
                outcomes[one.write_id] = "committed"
        await batch.abort()
        if draw.random() < 0.4:
            await log.clean(0 if draw.random() < 0.5 else 3600)


@pytest.mark.parametrize("seed", range(share(60, 6)))
async def test_several_writers_side_by_side(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No id is taken twice, and each has the outcome that its writer was told."""
    draw = random.Random(seed)
    await create_log(MEMORY, TABLE)
    outcomes: dict[int, str] = {}
    begun: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(logs, "_CHECKPOINT_EVERY", 3)
        scattered(patch, draw)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(writer, MEMORY, outcomes, begun, random.Random(draw.random()))
    assert len(set(begun)) == len(begun) >= 12
    last = (await TransactionLog(MEMORY).snapshot()).write_ids
    assert (last.high_watermark, last.open) == (max(begun), ())
    for one in begun:
        assert last.is_visible(one) == (outcomes.get(one) == "committed")


entries = st.builds(
    lambda first, count, at, outcome, rest: Entry(
        first + at % count,
        outcome,
        work=Work((delta(first + at % count),)) if outcome == "committed" else Work(),
        claimed=first + count - 1,
        rest=rest and outcome == "aborted",
    ),
    st.integers(1, 30),
    st.integers(1, 6),
    st.integers(0, 5),
    st.sampled_from(["committed", "aborted"]),
    st.booleans(),
)


@given(st.lists(entries, max_size=30))
def test_the_first_entry_of_each_id_counts(made: list[Entry]) -> None:
    state, claimed = LogState(), 0
    expected: dict[int, str] = {}
    for entry in made:
        assert Entry.of(entry.record()) == entry
        state = state.add(entry)
        claimed = max(claimed, entry.claimed)
        for one in entry.ids:
            expected.setdefault(one, entry.outcome)
        assert state.is_settled(entry)
        assert LogState.of(state.record()) == state
    assert state.highest == claimed
    assert {one: state.outcome(one) for one in expected} == expected
    assert state.open_up_to(claimed, most=100) == [
        one for one in range(1, claimed + 1) if one not in expected
    ]


@pytest.mark.parametrize(
    "more", [{"claimed": 1}, {"claimed": 3000}, {"claimed": "5"}, {"rest": True}, {"rest": 1, "claimed": 5}]
)
def test_entries_that_are_none(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"number|rest"):
        Entry.of({"id": 2, "outcome": "aborted", "purpose": "write", **more})
