"""Events sorted by their keys, against Python's own sorting: in memory, and by runs on disk."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orcstream
from orcstream import Encrypt, OrcFile
from orcstream.acid.compact import sorting
from orcstream.acid.compact.sorting import EventRows, EventSorter
from orcstream.acid.read.row_ids import RowIds
from orcstream.codec.ingest.ingest import UserData
from orcstream.errors import SinkError
from orcstream.io.keys import InMemoryKeyProvider
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import batch_of
from tests.support.effort import share

SCHEMA = Schema.parse("struct<number:bigint,text:string,items:array<int>>")
INSERT, UPDATE, DELETE = range(3)
Given: TypeAlias = tuple[tuple[int, int, int], int, int]

KEYS = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 1 << 29]), st.integers(0, 4))
EVENTS = st.lists(st.tuples(KEYS, st.integers(1, 4), st.sampled_from([INSERT, UPDATE, DELETE])), max_size=200)


def events_of(given_: list[Given], first: int) -> EventRows:
    """Rows tell the number of their event."""
    keys = [key for key, _, _ in given_]
    ids = RowIds(
        np.array([key[0] for key in keys], np.int64),
        np.array([key[1] for key in keys], np.int32),
        np.array([key[2] for key in keys], np.int64),
        np.array([version for _, version, _ in given_], np.int64),
        np.zeros(len(keys), np.int32),
    )
    rows = [row_of(number) for number in range(first, first + len(keys))]
    (ingested,) = UserData(rows).vectors(SCHEMA)
    return EventRows(ids, np.array([operation for *_, operation in given_], np.int32), ingested)


def expected(given_: list[Given]) -> list[tuple[Any, ...]]:
    """Sorted one by one."""
    order = sorted(range(len(given_)), key=lambda at: (given_[at][0], -given_[at][1], at))
    return [
        (*given_[at], None if given_[at][2] == DELETE else row_of(at))
        for at, after in zip(order, [*order[1:], -1], strict=False)
        if after < 0 or given_[after][:2] != given_[at][:2] or given_[after][2] == INSERT
    ]


def row_of(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * (number % 7), "items": [number] * (number % 3)}


async def found_in(sorter: EventSorter) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    async with aclosing(sorter.sorted()) as parts:
        async for part in parts:
            rows = batch_of(part.rows).to_pylist()
            for at, row in enumerate(rows):
                operation, versions = int(part.operations[at]), part.ids.versions
                assert versions is not None
                # On disk, a delete has no row.
                known = None if operation == DELETE else row
                found.append((part.ids.key(at), int(versions[at]), operation, known))
    return found


@pytest.mark.parametrize("memory_limit", [8, 1 << 14, 1 << 28])
@given(EVENTS, st.integers(1, 40))
@settings(max_examples=share(60, 12), deadline=None)
async def test_as_python_sorts(memory_limit: int, given_: list[Given], step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_FAN_IN", 2)
        patch.setattr(sorting, "_WINDOW_ROWS", 5)
        async with aclosing(EventSorter(SCHEMA, {}, memory_limit=memory_limit)) as sorter:
            for first in range(0, len(given_), step):
                await sorter.add(events_of(given_[first : first + step], first))
            assert await found_in(sorter) == expected(given_)
            added = -(-len(given_) // step)
            if memory_limit == 8:
                # Each part is a run, and runs were merged two by two.
                assert sorter.spilled_runs == 2 * added - added.bit_count()
            elif memory_limit == 1 << 28:
                assert sorter.spilled_runs == 0


async def test_events_that_cannot_be_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    async with aclosing(EventSorter(SCHEMA, {}, memory_limit=8)) as sorter:
        with pytest.raises(SinkError, match=r"\bgone: .*\bTMPDIR\b"):
            await sorter.add(events_of([((1, 0, 3), 1, UPDATE)], 0))


async def test_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither names, while it is at work, nor open files, wherever it is stopped."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sorting, "_FAN_IN", 2)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    events = [((1, 0, 3 - one % 4), one + 1, UPDATE) for one in range(12)]

    async def work(turns: int | None) -> bool:
        async with aclosing(EventSorter(SCHEMA, {}, memory_limit=8)) as sorter:
            with anyio.CancelScope() as scope:
                for at in range(6):
                    await sorter.add(events_of(events[2 * at : 2 * at + 2], 2 * at))
                    assert turns is not None or list(tmp_path.iterdir()) == []
                assert len(await found_in(sorter)) == 12
                return True
            assert scope.cancelled_caught
        return False

    assert await work(None)
    for turns in (0, 1, 3, 7, 15, 40, 90, 200):
        task = asyncio.create_task(work(turns))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert list(tmp_path.iterdir()) == []
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


async def test_what_is_encrypted_stays_so_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes(16))
    encrypt = [Encrypt(key="pii", columns=["row.text"])]
    opened: list[OrcFile] = []

    async def opening(*arguments: Any, **options: Any) -> OrcFile:
        opened.append(await orcstream.open(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sorting, "open_file", opening)
    events: list[Given] = [((1, 0, 1), 1, INSERT), ((1, 0, 0), 1, INSERT)]
    sorter = EventSorter(SCHEMA, {"encrypt": encrypt, "keys": keys}, memory_limit=8)
    async with aclosing(sorter):
        await sorter.add(events_of(events, 0))
        assert await found_in(sorter) == expected(events)
        assert [one.name for one in opened[0].encrypted_columns] == ["row.text"]
