"""Threads that encode side by side: those that cannot be started or come late, and tasks that fail."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from orcstream.codec.encode._column import EncodeTask
from orcstream.codec.encode._source import SourceTree
from orcstream.codec.encode.encoders import encoder_of
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.streams.compression import Compression
from orcstream.codec.vectors.column import Vector, VectorOptions, as_buffer, field_of
from orcstream.schema.schema import Schema
from orcstream.writer import workers
from orcstream.writer.workers import Workers


class Round:
    """In place of what encodes: `meanwhile` is called by the round's own thread, before it is done."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile
        self._has_begun = False
        self.running = 0
        self.runs = 0

    def run(self, _: object) -> None:
        self.runs += 1
        if not self._has_begun:
            self._has_begun = True
            self._meanwhile()
            return
        self.running += 1
        helped.set()
        end.wait(0.1)
        self.running -= 1

    def check(self) -> None:
        pass


helped, end = threading.Event(), threading.Event()


def carry_out(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Callable[[], Any]], object]
) -> tuple[Round, Callable[[], Any]]:
    """A round that asks for help while all threads are busy; `meanwhile` is given what was asked."""
    asked: list[Callable[[], Any]] = []
    shared = Round(lambda: meanwhile(asked[0]))
    monkeypatch.setattr(workers, "call_on_thread", asked.append)
    monkeypatch.setattr(workers, "Round", lambda _: shared)

    def then(_: object) -> int:
        return shared.running

    helped.clear()
    assert anyio.run(a_round, then) == 0
    return shared, asked[0]


async def a_round(then: Callable[[object], int]) -> int:
    two: Any = [SimpleNamespace(seconds=0.0)] * 2
    return await Workers(2, lambda: None).round(lambda: two, then)


def test_a_helper_that_comes_when_a_round_is_over_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, asked = carry_out(monkeypatch, lambda _: None)
    asked()
    assert shared.runs == 1


def test_a_round_waits_for_whoever_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(asked: Callable[[], Any]) -> None:
        threading.Thread(target=asked).start()
        assert helped.wait(10)

    shared, _ = carry_out(monkeypatch, take)
    assert shared.runs == 2


def test_a_round_ends_when_a_helper_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(asked: Callable[[], Any]) -> None:
        monkeypatch.setattr(Round, "run", run_out)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asked)

    def run_out(*_: object) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        carry_out(monkeypatch, take)


@pytest.mark.parametrize("why", ["none can be started", "enough help"])
def test_a_round_does_without_help(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    asked: list[Callable[[], Any]] = []

    def refuse(call: Callable[[], Any]) -> None:
        asked.append(call)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(workers, "_helpers", cache(lambda: threading.BoundedSemaphore(1)))
    monkeypatch.setattr(workers, "call_on_thread", refuse)
    monkeypatch.setattr(workers, "Round", lambda _: Round(lambda: None))
    if why == "enough help":
        workers._helpers().acquire()
    for _ in range(3):
        assert anyio.run(a_round, lambda _: 7) == 7
    assert len(asked) == (0 if why == "enough help" else 3)


def fail(ends: NDArray[np.int32]) -> None:
    """A round that refuses lists with these ends."""
    type_ = Schema.parse("array<int>").root
    items = Vector(1, (None, as_buffer(np.zeros(1, np.int32))), 0)
    vector = Vector(2, (None, as_buffer(ends)), 0, children=(items,))

    def make() -> list[EncodeTask]:
        tree = SourceTree(field_of("x", type_, VectorOptions()), vector)
        encoder = encoder_of(type_, EncodeOptions(compression=Compression.NONE))
        return [EncodeTask(encoder, tree, np.array([(0, 2, True, True)], np.int64))]

    with pytest.raises(ValueError, match="beyond the items"):
        Workers(2, lambda: None)._carry_out(make, lambda _: None)


def test_nothing_holds_the_rows_after_a_failure() -> None:
    ends = np.array([0, 1, 9], np.int32)
    held = weakref.ref(ends)
    gc.collect()
    gc.disable()
    try:
        fail(ends)
        del ends
        assert held() is None
    finally:
        gc.enable()
