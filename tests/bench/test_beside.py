"""The thread that counts counts while an action runs, and what is predicted of threads that share a lock."""

from __future__ import annotations

import time

import pytest

from bench.beside import Counting, queued


def test_counting_goes_on_as_long_as_the_action() -> None:
    counting = Counting()
    speeds: list[float] = []
    assert counting.beside(lambda: "done", speeds) == "done"
    counting.beside(lambda: time.sleep(0.05), speeds)
    assert len(speeds) == 2
    assert speeds[1] > 0


def test_counting_ends_with_an_action_that_fails() -> None:
    counting = Counting()
    speeds: list[float] = []
    with pytest.raises(ZeroDivisionError):
        counting.beside(lambda: 1 // 0, speeds)
    counting.beside(lambda: None, speeds)
    assert len(speeds) == 2


def test_threads_queue_for_the_lock() -> None:
    assert queued(0.0, 16) == pytest.approx(16)
    assert queued(1.0, 16) == pytest.approx(1)
    assert queued(0.3, 1) == pytest.approx(1)
    # Two threads that need the lock for half of their work: it is taken for four fifths of the time.
    assert queued(0.5, 2) == pytest.approx(0.8 / 0.5)
    assert 3 < queued(0.25, 16) < 4
