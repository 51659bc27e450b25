"""Work on threads: nothing of it goes on after its call, whoever cancels that."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from orcstream.io.loop import system
from orcstream.io.loop.uncancelled import run_in_thread

# Longer than any test waits that does not fail.
LONG_S = 30


class Work:
    """Something that a thread is in the middle of until `go_on`."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.is_over = False

    def __call__(self) -> int:
        self.begun.set()
        assert self.go_on.wait(LONG_S)
        self.is_over = True
        return 7


@pytest.fixture
def work() -> Iterator[Work]:
    found = Work()
    yield found
    found.go_on.set()


async def begun(work: Work) -> None:
    assert await asyncio.to_thread(work.begun.wait, LONG_S)


async def test_the_answer_and_the_error() -> None:
    assert await run_in_thread(lambda: 5) == 5
    with pytest.raises(KeyError):
        await run_in_thread(lambda: os.environ["NO SUCH NAME"])


async def test_an_error_of_generators() -> None:
    """Futures of asyncio refuse it."""
    with pytest.raises((StopIteration, RuntimeError)):
        await run_in_thread(lambda: next(iter(())))


class Held:
    """Something that can be referred to weakly."""


async def test_nothing_is_held_afterwards() -> None:
    held, kept = Held(), Held()
    gone = [weakref.ref(held), weakref.ref(kept)]

    def fail(one: Held) -> None:
        raise KeyError(one)

    answer = await run_in_thread(lambda one=held: one)  # type: ignore[misc]
    with suppress(KeyError):
        await run_in_thread(lambda one=kept: fail(one))  # type: ignore[misc]
    del held, kept, answer
    assert await run_in_thread(lambda: 1) == 1  # on the same thread
    assert [ref() for ref in gone] == [None, None]


async def test_nothing_is_held_after_a_cancelled_call_that_failed(work: Work) -> None:
    held = Held()
    gone = weakref.ref(held)

    def fail(one: Held) -> None:
        work()
        raise KeyError(one)

    gc.disable()
    try:
        task = asyncio.create_task(run_in_thread(partial(fail, held)))
        await begun(work)
        task.cancel()
        await asyncio.sleep(0.01)
        work.go_on.set()
        await asyncio.wait([task])
        assert task.cancelled()
        del held, task
        assert await run_in_thread(lambda: 1) == 1
        assert gone() is None
    finally:
        gc.enable()


UNFINISHED = """
    import asyncio, pathlib, sys, time
    from orcstream.io.loop.uncancelled import run_in_thread
    def work():
        time.sleep(0.3)
        pathlib.Path(sys.argv[1]).write_text("done")
    async def main():
        global task
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.sleep(0.05)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
"""


def test_a_program_waits_for_calls_that_its_loop_has_left(tmp_path: Path) -> None:
    program = textwrap.dedent(UNFINISHED)
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "t")], check=True, timeout=60)
    assert (tmp_path / "t").read_text() == "done"


def test_a_loop_of_another_program_runs_on_a_thread() -> None:
    """A user's iterator, or keys, may run one, whatever says which library is running."""

    async def inner() -> int:
        return 5

    async def outer() -> int:
        return await run_in_thread(lambda: anyio.run(inner))

    assert anyio.run(outer) == 5


async def test_the_context_goes_along() -> None:
    variable: ContextVar[int] = ContextVar("variable")
    variable.set(5)
    assert await run_in_thread(variable.get) == 5
    await run_in_thread(lambda: variable.set(6))
    assert variable.get() == 5


def test_threads_outlive_loops() -> None:
    async def thread() -> int:
        return await run_in_thread(threading.get_ident)

    # A thread that has just answered may not be idle yet when the next loop asks.
    assert len({asyncio.run(thread()) for _ in range(50)}) < 10


def test_calls_come_while_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """While calls come as they are about to."""
    monkeypatch.setattr(system, "_IDLE_S", 0.001)
    made: list[int] = []
    for number in range(300):
        over = threading.Event()

        def call(over: threading.Event = over, number: int = number) -> None:
            made.append(number)
            over.set()

        system.call_on_thread(call)
        assert over.wait(LONG_S)
        time.sleep(0.001 * (number % 3))
    assert made == list(range(300))
    monkeypatch.undo()
    left = threading.active_count()
    assert asyncio.run(run_in_thread(lambda: 5)) == 5
    assert threading.active_count() <= left + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_forked_child_has_threads_of_its_own() -> None:
    async def answer() -> int:
        return await run_in_thread(lambda: 5)

    assert asyncio.run(answer()) == 5
    child = os.fork()
    if not child:
        os._exit(asyncio.run(answer()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_call_ends_with_its_thread(work: Work, times: int, *, native: bool) -> None:
    scope = anyio.CancelScope()
    seen: list[bool] = []

    async def call() -> None:
        with scope:
            try:
                await run_in_thread(work)
            finally:
                seen.append(work.is_over)

    task = asyncio.create_task(call())
    await begun(work)
    for _ in range(times):
        if native:
            task.cancel()
        else:
            scope.cancel()
        await asyncio.wait([task], timeout=0.01)
    assert not task.done()
    work.go_on.set()
    await asyncio.wait([task])
    assert task.cancelled() == native
    assert seen == [True]


@pytest.mark.parametrize("native", [True, False])
async def test_what_no_thread_has_begun_is_never_done(work: Work, *, native: bool) -> None:
    limiter = anyio.CapacityLimiter(1)
    first = asyncio.create_task(run_in_thread(work, limiter=limiter))
    await begun(work)
    done: list[int] = []
    scope = anyio.CancelScope()

    async def call() -> None:
        with scope:
            await run_in_thread(lambda: done.append(1), limiter=limiter)

    second = asyncio.create_task(call())
    await asyncio.sleep(0)
    if native:
        second.cancel()
    else:
        scope.cancel()
    await asyncio.wait([second])
    work.go_on.set()
    assert await first == 7
    assert done == []


def test_a_loop_that_ends_waits_for_the_thread(work: Work) -> None:
    tasks: list[asyncio.Task[int]] = []

    async def main() -> None:
        tasks.append(asyncio.create_task(run_in_thread(work)))
        await begun(work)
        # Not before the loop has cancelled the task.
        asyncio.get_running_loop().call_later(0.05, work.go_on.set)

    asyncio.run(main())
    assert work.is_over
    assert tasks[0].cancelled()


async def test_threads_that_a_program_keeps_busy_are_others() -> None:
    """All of anyio's threads wait for us, as those of a web server may that calls blocking code."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    answers: list[int] = []

    def ask() -> None:
        answers.append(anyio.from_thread.run(run_in_thread, lambda: 1))

    with anyio.fail_after(LONG_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(int(limiter.total_tokens)):
                tasks.start_soon(anyio.to_thread.run_sync, ask)
    assert len(answers) == limiter.total_tokens
