"""What a contract is: a class of checks; how they are run without a test framework; how a check says no.

Checks also cancel calls at each turn of the event loop, and look what is left behind.

Knows methods, tasks and outcomes. Must not know what is checked. Checks raise `AssertionError` by the
functions below and not by ``assert``, which ``python -O`` leaves out and which says little where no framework
rewrites it.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import hashlib
import inspect
import unittest
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from orcstream.byterange import BytesLike

__all__ = [
    "CheckResult",
    "Contract",
    "Watch",
    "cancelled_at_each_turn",
    "data_of",
    "declared",
    "expect",
    "expect_bytes",
    "expect_raised",
    "run_contract",
]


# What was told to stop has so long to do it.
SETTLE_S = 20.0
# From turn to turn, where not each is tried.
GROWTH = 1.6


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _Holding(Protocol):
    def held(self) -> list[str]: ...


class Contract:
    """Checks: each asynchronous method that starts with ``test_`` is one, and is given a store.

    Under pytest, derive a class whose name starts with ``Test``, mark it for the plug-in that runs
    asynchronous tests, and have a fixture ``store``. Elsewhere `run_contract` runs them all.
    """

    def checks(self) -> list[str]:
        """The names of the checks, in the order they are written."""
        names = [name for owner in reversed(type(self).__mro__) for name in vars(owner)]
        return [
            name
            for name in dict.fromkeys(names)
            if name.startswith("test_") and inspect.iscoroutinefunction(getattr(self, name))
        ]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one `check`.

    Its `outcome` is ``"passed"``, ``"failed"``, or ``"declared"``: the store says it cannot.
    `reason` says why where it did not pass; `error` is what a failed check raised.
    """

    check: str
    outcome: Literal["passed", "failed", "declared"]
    reason: str = ""
    error: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.outcome} {self.check}{': ' * bool(self.reason)}{self.reason}"


async def run_contract(
    contract: Contract,
    make_store: Callable[[], _Closable],
    *,
    checks: Sequence[str] | None = None,
    timeout_s: float = 60.0,
) -> list[CheckResult]:
    """Run the checks of a `contract` one after the other; never raises what a check does.

    `make_store` is called for each check, and what it answers is closed after it. `checks` are names of those
    to run, all by default. One that takes longer than `timeout_s` seconds has failed.
    """
    return [
        await _run(name, functools.partial(_with_store, getattr(contract, name), make_store), timeout_s)
        for name in (contract.checks() if checks is None else checks)
    ]


async def _with_store(check: Callable[[Any], Any], make_store: Callable[[], _Closable]) -> None:
    store = make_store()
    try:
        await check(store)
    finally:
        await store.aclose()


async def _run(name: str, check: Callable[[], Any], timeout_s: float) -> CheckResult:
    # A task of its own: one that cannot be cancelled must not hold up the others.
    task = asyncio.create_task(check())
    try:
        await asyncio.wait([task], timeout=timeout_s)
    finally:  # also where the run itself is cancelled
        task.cancel()
    if not task.done():
        return CheckResult(name, "failed", f"no end within {timeout_s:g} s", TimeoutError())
    if task.cancelled():
        return CheckResult(name, "failed", "it was cancelled", asyncio.CancelledError())
    error = task.exception()
    if error is None:
        return CheckResult(name, "passed")
    if isinstance(error, unittest.SkipTest):
        return CheckResult(name, "declared", str(error))
    return CheckResult(name, "failed", str(error) or type(error).__name__, error)


def declared(inability: str) -> unittest.SkipTest:
    """Raise it where the description of the store says that there is nothing to check; pytest shows it."""
    return unittest.SkipTest(f"declared: {inability}")


def expect(condition: object, message: str) -> None:
    """`AssertionError` unless it holds."""
    if not condition:
        raise AssertionError(message)


def expect_bytes(found: BytesLike | None, wanted: BytesLike | None, what: str) -> None:
    """The same bytes, or none at all (None); the message names the first that differs."""
    if found is None or wanted is None:
        expect(found is wanted, f"{what}: expected {_shown(wanted)}, found {_shown(found)}")
        return
    left, right = bytes(found), bytes(wanted)
    if left == right:
        return
    common = min(len(left), len(right))
    at = next((index for index in range(common) if left[index] != right[index]), common)
    raise AssertionError(f"{what}: expected {_shown(right)}, found {_shown(left)}; they differ at byte {at}")


def _shown(data: BytesLike | None) -> str:
    return "nothing" if data is None else f"{len(memoryview(data))} bytes"


class Raised:
    """Holds what `expect_raised` caught."""

    error: Any = None


@contextmanager
def expect_raised(wanted: type[Exception] | tuple[type[Exception], ...], what: str) -> Iterator[Raised]:
    """What is done in the block raises one of these errors; `what` says what was done."""
    names = " or ".join(kind.__name__ for kind in (wanted if isinstance(wanted, tuple) else (wanted,)))
    caught = Raised()
    try:
        yield caught
    except wanted as error:
        caught.error = error
        return
    except Exception as error:
        raise AssertionError(f"{what}: expected {names}, and it raised {error!r}") from error
    raise AssertionError(f"{what}: expected {names}, and nothing was raised")


@functools.lru_cache(maxsize=4)
def data_of(length: int, kind: str = "") -> bytes:
    """So many bytes without a pattern; shorter ones are the beginning of longer ones of the same kind."""
    return hashlib.shake_256(f"orcstream {kind}".encode()).digest(length)


class Watch:
    """Finds tasks and connections that are left; made before they could be, in the task that looks later."""

    def __init__(self, store: _Holding) -> None:
        self._store = store
        self._before = asyncio.all_tasks()
        self._held = store.held()

    async def nothing_left(self, after: str) -> None:
        """No task is running that was not before, and nothing is held open."""
        waited = 0
        while (left := self._tasks()) and waited < 2:
            await asyncio.wait(left, timeout=SETTLE_S)
            waited += 1
        expect(not left, f"{after}: tasks are still running: {left}")
        held = self._store.held()
        if held != self._held:
            gc.collect()  # in cycles, which is no leak
            held = self._store.held()
        expect(held == self._held, f"{after}: still held: {held}, before: {self._held}")

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return {task for task in asyncio.all_tasks() - self._before if not task.done()}


async def cancelled_at_each_turn(
    begin: Callable[[], Coroutine[Any, Any, Any]],
    after: Callable[[bool], Awaitable[None]],
    *,
    what: str,
    dense_turns: int,
) -> None:
    """Begin a call again and again, and cancel it one turn later each time, until it ends before that.

    `after` is awaited each time, with whether the call had come to its end. The first `dense_turns` turns are
    tried one by one, later ones with growing steps. A cancellation must come out as one: who swallows it
    runs on where nobody waits any more.
    """
    turns, finished = 0.0, False
    while not finished:
        task = asyncio.create_task(begin())
        for _ in range(int(turns)):
            await asyncio.sleep(0)
            if task.done():
                break
        finished = task.done()
        task.cancel()
        await asyncio.wait([task], timeout=SETTLE_S)
        where = f"{what}, cancelled after {int(turns)} turns of the event loop"
        expect(task.done(), f"{where}: it did not end")
        if finished:
            task.result()
        elif not task.cancelled():
            error = task.exception()
            expect(False, f"{where}: the cancellation was swallowed, {error!r} came instead")
        await after(finished)
        turns = turns + 1 if turns < dense_turns else turns * GROWTH
    expect(turns > 1, f"{what}: it never gives way to other tasks")
