"""Keys of deleted rows against plain sets: sorted or not, in memory or on disk, and kernels on odd input."""

from __future__ import annotations

import io
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcstream.acid.read import row_ids as module
from orcstream.acid.read.row_ids import KeyBudget, KeyCollector, RowIds
from orcstream.codec.hive._row_keys import are_ascending, find_keys
from orcstream.errors import SinkError
from tests.support.effort import share

LONGS = st.one_of(st.integers(0, 3), st.sampled_from([-(1 << 63), -1, (1 << 63) - 1, 1 << 40]))
INTS = st.one_of(st.integers(0, 3), st.sampled_from([-(1 << 31), -1, (1 << 31) - 1, 1 << 29]))
KEYS = st.tuples(LONGS, INTS, LONGS)
EVENTS = st.tuples(KEYS, st.integers(0, 4), st.integers(-1, 2))
LIMIT = 1 << 20

Key = tuple[int, int, int]


def ids(keys: Sequence[Key]) -> RowIds:
    return RowIds(
        np.array([key[0] for key in keys], np.int64),
        np.array([key[1] for key in keys], np.int32),
        np.array([key[2] for key in keys], np.int64),
    )


def versioned(events: Sequence[tuple[Key, int, int]]) -> RowIds:
    plain = ids([key for key, _, _ in events])
    versions = np.array([version for _, version, _ in events], np.int64)
    statements = np.array([statement for _, _, statement in events], np.int32)
    return RowIds(plain.write_ids, plain.buckets, plain.row_ids, versions, statements)


def coded(key: Key) -> Key:
    """With the bucket in its newer form."""
    bucket = key[1] if key[1] >> 29 == 1 else 1 << 29 | (key[1] & 4095) << 16
    return key[0], bucket, key[2]


# --- the collector


@pytest.mark.parametrize("limit", [0, 200, LIMIT])
@given(st.lists(st.lists(KEYS, max_size=8), max_size=5), st.lists(KEYS, max_size=20), st.booleans())
@settings(max_examples=share(100, 4))
def test_what_is_hidden(limit: int, parts: list[list[Key]], rows: list[Key], ascending: bool) -> None:
    if ascending:
        rows = sorted(rows)
        parts = [sorted(set(part)) for part in parts]
    budget = KeyBudget(limit)
    collector = KeyCollector(budget)
    for part in parts:
        collector.add(ids(part))
    hidden = collector.finish()
    known = {coded(key) for part in parts for key in part}
    expected = [coded(row) in known for row in rows]
    assert hidden.hides(ids(rows)).tolist() == expected
    assert hidden.hides(ids(rows)).tolist() == expected  # a second time
    assert hidden.count >= len(known)
    assert hidden.is_spilled is (limit < LIMIT and bool(known) and hidden.is_spilled)
    if limit == 0:
        assert hidden.is_spilled is bool(known)
    hidden.close()
    assert budget.take(limit)
    assert not budget.take(1)


@pytest.mark.parametrize("limit", [0, 200, LIMIT])
@given(st.lists(st.lists(EVENTS, max_size=8), max_size=5), st.lists(EVENTS, max_size=20))
@settings(max_examples=share(100, 4))
def test_versions(
    limit: int, parts: list[list[tuple[Key, int, int]]], rows: list[tuple[Key, int, int]]
) -> None:
    """A row is hidden by any later event of its key."""
    budget = KeyBudget(limit)
    collector = KeyCollector(budget)
    for part in parts:
        collector.add(versioned(part))
    hidden = collector.finish()
    events = [event for part in parts for event in part]
    expected = [
        any(coded(key) == coded(row) and order > mine for key, *order in events) for row, *mine in rows
    ]
    assert hidden.hides(versioned(rows)).tolist() == expected
    hidden.close()
    assert budget.take(limit)


@pytest.mark.parametrize("limit", [0, 100, LIMIT])
def test_what_was_not_finished_is_given_back(limit: int) -> None:
    budget = KeyBudget(limit)
    collector = KeyCollector(budget)
    for write_id in range(10):
        collector.add(ids([(write_id, 0, 0)]))
    collector.discard()
    assert budget.take(limit)
    budget.give_back(limit)
    again = collector.finish()
    assert again.count == 0
    assert not again.hides(ids([(1, 0, 0)])).any()


def test_many_keys_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """In several runs of several blocks, of which those are read that may matter."""
    monkeypatch.setattr(module, "_BLOCK_KEYS", 64)
    budget = KeyBudget(0)
    collector = KeyCollector(budget)
    rng = np.random.default_rng(3)
    known: set[Key] = set()
    for _ in range(4):
        keys = [(int(a), 1 << 29, int(b)) for a, b in rng.integers(0, 100, (500, 2))]
        known.update(keys)
        collector.add(ids(keys))
    hidden = collector.finish()
    assert hidden.is_spilled
    rows = [(a, 1 << 29, b) for a in range(100) for b in range(100)]
    expected = [row in known for row in rows]
    assert hidden.hides(ids(rows)).tolist() == expected
    for first in range(0, len(rows), 999):
        part = rows[first : first + 7]
        assert hidden.hides(ids(part)).tolist() == expected[first : first + 7]
    hidden.close()


@pytest.mark.parametrize("fault", ["no folder", "full"])
def test_keys_that_cannot_be_put_aside(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where, and what to do; memory is given back."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    if fault == "full":
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: io.FileIO("/dev/full", "r+"))
    budget = KeyBudget(0)
    collector = KeyCollector(budget)
    collector.add(ids([(1, 1, number) for number in range(100)]))
    with pytest.raises(SinkError, match=r"\bgone: .*\bTMPDIR\b"):
        collector.finish()
    collector.discard()
    assert not budget.take(1)


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of one bucket are read side by side, and share what is deleted."""
    monkeypatch.setattr(module, "_BLOCK_KEYS", 16)
    collector = KeyCollector(KeyBudget(0))
    known = [(1, 1 << 29, row) for row in range(0, 20_000, 2)]
    collector.add(ids(known))
    hidden = collector.finish()
    start = threading.Barrier(4)

    def look(worker: int) -> bool:
        start.wait(20)
        for step in range(150):
            first = (worker * 4999 + step * 37) % 19_900
            rows = [(1, 1 << 29, row) for row in range(first, first + 100)]
            if hidden.hides(ids(rows)).tolist() != [row % 2 == 0 for row in range(first, first + 100)]:
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(4)))
    hidden.close()


@pytest.mark.usefixtures("restless")
def test_budgets_are_shared_by_threads() -> None:
    budget = KeyBudget(LIMIT)
    start = threading.Barrier(4)

    def work(size: int) -> None:
        start.wait(20)
        for _ in range(20_000):
            assert budget.take(size)
            budget.give_back(size)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [1, 10, 100, 1000]))
    assert budget.take(LIMIT)
    assert not budget.take(1)


# --- kernels


def arrays(keys: Sequence[Key]) -> tuple[Any, Any, Any, int]:
    found = ids(keys)
    return found.write_ids, found.buckets, found.row_ids, len(keys)


@given(st.lists(KEYS, max_size=20), st.lists(KEYS, max_size=20))
def test_find_keys(rows: list[Key], known: list[Key]) -> None:
    known = sorted(set(known))
    found = np.frombuffer(memoryview(find_keys(*arrays(rows), *arrays(known))), np.int64, len(rows))
    assert found.tolist() == [known.index(row) if row in known else -1 for row in rows]


@given(st.lists(KEYS, max_size=20))
def test_are_ascending(keys: list[Key]) -> None:
    assert are_ascending(*arrays(keys)) is all(a < b for a, b in pairwise(keys))
    ordered = sorted(set(keys))
    assert are_ascending(*arrays(ordered))
    assert len(ordered) == len(keys) or not are_ascending(*arrays(sorted(keys)))


@given(st.lists(KEYS, max_size=20), st.lists(KEYS, max_size=20))
def test_known_keys_that_do_not_ascend_are_no_danger(rows: list[Key], known: list[Key]) -> None:
    found = np.frombuffer(memoryview(find_keys(*arrays(rows), *arrays(known))), np.int64, len(rows))
    for row, place in zip(rows, found.tolist(), strict=True):
        assert place == -1 or known[place] == row


SHORT, LONG = arrays([(1, 2, 3)] * 3), arrays([(1, 2, 3)] * 4)


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("count", [4, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
def test_lengths_that_are_not_there(at: int, count: int) -> None:
    parts = [*LONG[:3]]
    if count == 4:
        parts[at] = SHORT[at]
    some: tuple[Any, Any, Any, int] = (parts[0], parts[1], parts[2], count)
    with pytest.raises(ValueError, match=r"\bbuffer\b"):
        are_ascending(*some)
    with pytest.raises(ValueError, match=r"\bbuffer\b"):
        find_keys(*some, *SHORT)
    with pytest.raises(ValueError, match=r"\bbuffer\b"):
        find_keys(*SHORT, *some)


@pytest.mark.parametrize("odd", [None, 5, "x", [1, 2, 3]])
def test_what_has_no_memory(odd: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        are_ascending(odd, *SHORT[1:])
    with pytest.raises((TypeError, ValueError)):
        find_keys(*SHORT, *SHORT[:2], odd, 3)
