"""Work on threads: nothing of it goes on after its call, whoever cancels that."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

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
