"""Cancelled by asyncio, which knows no shields, while something is given up: it is given up all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from orcstream import acid
from orcstream.acid.transactions.log import TransactionLog
from orcstream.acid.transactions.log_state import Entry
from tests.generators.acid_tables import SCHEMA, rows_of

ROWS = [{"id": 0, "name": "old"}]


async def cancelled_while_it_gives_up(
    patch: pytest.MonkeyPatch, work: Callable[[acid.AcidTable], Awaitable[None]], url: str
) -> None:
    """Run `work` with a table that has a row; once it writes to the log that it gave up, it is cancelled."""
    append = TransactionLog._append

    async def cancel(log: TransactionLog, entry: Entry, begun_at: int | None) -> Any:
        if entry.outcome == "aborted":
            task.cancel()
            await asyncio.sleep(0)
        return await append(log, entry, begun_at)

    async def run() -> None:
        async with acid.open_table(url) as table:
            await work(table)

    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.insert(ROWS)
    patch.setattr(TransactionLog, "_append", cancel)
    task = asyncio.create_task(run())
    await asyncio.wait([task])
    assert task.cancelled()
    patch.undo()
    async with acid.open_table(url) as table:
        assert table.write_ids.open == ()
        assert [one.name for one in await table.describe() if one.state != "read"] == []


async def test_what_is_left_of_a_stream(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """At its good end: the ids of its batch that nothing was written with."""

    async def work(table: acid.AcidTable) -> None:
        async with table.stream(transactions=2) as stream:
            await stream.write([{"id": 1, "name": "new"}])

    await cancelled_while_it_gives_up(monkeypatch, work, url)
    assert set(await rows_of(url)) == {0, 1}


async def test_a_transaction_that_failed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    async def work(table: acid.AcidTable) -> None:
        async with await table.transaction() as change:
            await change.insert([{"id": 1, "name": "new"}])
            raise ZeroDivisionError

    await cancelled_while_it_gives_up(monkeypatch, work, url)
    assert set(await rows_of(url)) == {0}


async def test_a_compaction_that_failed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    async def work(table: acid.AcidTable) -> None:
        compaction = await table.begin_compaction("major")
        await compaction.give_up(ZeroDivisionError())

    await cancelled_while_it_gives_up(monkeypatch, work, url)
    assert set(await rows_of(url)) == {0}
