"""How tasks meet: signals of a change, the guard against a second task, and the first failure of several."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from orcstream.errors import UsageError
from orcstream.io.loop.tasks import OneTask, Signal, deferred, first_failure, side_by_side
from orcstream.io.loop.uncancelled import clean_up, end_task, until_over


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# --- signals


async def test_all_who_wait_are_woken() -> None:
    signal, woken = Signal(), []

    async def wait(number: int) -> None:
        await signal.wait()
        woken.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(wait, number)
        await turns()
        assert not woken
        signal.notify()
    assert sorted(woken) == list(range(100))


async def test_a_notification_from_before_wakes_nobody() -> None:
    signal = Signal()
    signal.notify()
    with anyio.move_on_after(0.01) as scope:
        await signal.wait()
    assert scope.cancelled_caught


async def test_what_comes_between_an_awaited_check_and_the_wait_is_not_missed() -> None:
    signal, state = Signal(), {"is_ready": False}

    async def slow_check() -> bool:
        found = state["is_ready"]
        await turns(5)
        return found

    async def wait() -> None:
        while True:
            seen = signal.count
            if await slow_check():
                return
            await signal.wait(seen)

    task = asyncio.create_task(wait())
    await turns(2)  # the check has its answer, and has not handed it over
    state["is_ready"] = True
    signal.notify()
    await asyncio.wait_for(task, 5)


async def test_a_count_that_is_current_waits() -> None:
    signal = Signal()
    signal.notify()
    with anyio.move_on_after(0.01) as scope:
        await signal.wait(signal.count)
    assert scope.cancelled_caught


async def test_a_wait_that_returns_at_once_lets_others_run() -> None:
    signal, ran = Signal(), []

    async def other() -> None:
        ran.append(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(5):
            seen = signal.count
            signal.notify()
            await signal.wait(seen)
        assert ran


async def test_a_wait_that_returns_at_once_can_be_cancelled() -> None:
    signal = Signal()
    signal.notify()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await signal.wait(0)
    assert scope.cancelled_caught


@pytest.mark.parametrize("by_asyncio", [True, False])
async def test_a_cancelled_waiter_takes_nothing_from_others(by_asyncio: bool) -> None:
    signal, woken, scope = Signal(), [], anyio.CancelScope()

    async def wait(number: int) -> None:
        await signal.wait()
        woken.append(number)

    async def wait_in_scope() -> None:
        with scope:
            await wait(0)

    first = asyncio.create_task(wait_in_scope())
    second = asyncio.create_task(wait(1))
    await turns()
    # At the same moment, in both orders of asking.
    signal.notify()
    if by_asyncio:
        first.cancel()
    else:
        scope.cancel()
    await asyncio.wait([first, second], timeout=5)
    assert 1 in woken
    third = asyncio.create_task(wait(2))
    await turns()
    signal.notify()
    await asyncio.wait_for(third, 5)


async def test_waiting_again_at_once_needs_another_notification() -> None:
    signal, count = Signal(), 0

    async def wait() -> None:
        nonlocal count
        while True:
            await signal.wait()
            count += 1

    task = asyncio.create_task(wait())
    for number in range(1, 4):
        await turns()
        signal.notify()
        signal.notify()  # before anybody waits again: both are one change
        await turns()
        assert count == number
    await end_task(task)


# --- the guard


async def test_a_second_task_is_refused_and_the_first_goes_on() -> None:
    guard = OneTask("two tasks use one thing", "file:///x")
    with guard:
        with pytest.raises(UsageError, match="two tasks use one thing") as caught, guard:
            pass
        assert caught.value.url == "file:///x"
        assert guard.is_held
    assert not guard.is_held


async def test_an_error_or_a_cancellation_lets_the_next_one_in() -> None:
    guard = OneTask("two tasks use one thing", "")
    with pytest.raises(ValueError, match="x"), guard:
        raise ValueError("x")

    async def hold() -> None:
        with guard:
            await asyncio.sleep(60)

    task = asyncio.create_task(hold())
    await turns()
    assert guard.is_held
    await end_task(task)
    with guard:
        pass


# --- failures


def test_the_first_failure_of_groups_in_groups() -> None:
    first = ValueError("first")
    group = ExceptionGroup("", [ExceptionGroup("", [first, OSError()]), KeyError()])
    assert first_failure(group) is first
    assert first_failure(first) is first


async def test_side_by_side_keeps_the_cause_of_a_failure() -> None:
    async def fail(item: int) -> None:
        raise ValueError(item) from KeyError(item)

    with pytest.raises(ValueError, match="1") as caught:
        await side_by_side([1], fail)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_side_by_side_answers_in_order_and_bounds_what_is_under_way() -> None:
    under_way = most = 0

    async def work(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await turns(10 - number % 10)
        under_way -= 1
        return number * number

    assert await side_by_side(range(30), work, at_once=4) == [number * number for number in range(30)]
    assert most == 4
    assert await side_by_side([], work) == []


async def test_side_by_side_raises_one_failure_and_no_group() -> None:
    async def work(number: int) -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        await side_by_side(range(3), work)


async def test_side_by_side_lets_calls_end_before_it_raises() -> None:
    begun, ended = [], []

    async def work(number: int) -> None:
        begun.append(number)
        await turns(1 + number)
        if number == 1:
            raise ValueError("1")
        await turns(10)
        ended.append(number)

    with pytest.raises(ValueError, match="1"):
        await side_by_side(range(8), work, at_once=3, cancels=False)
    assert begun == [0, 1, 2]
    assert ended == [0, 2]


# --- ends


async def test_a_task_that_takes_its_time_to_end_is_waited_for() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await until_over(turns(10))
            ended.append(1)

    task = asyncio.create_task(work())
    await turns()
    await end_task(task)
    assert ended
    assert task.cancelled()
    await end_task(task)  # may be called again


async def test_a_cleanup_that_fails_is_a_note_of_what_came_first() -> None:
    error = ValueError("first")

    async def fail() -> None:
        raise OSError("the disk is gone")

    async def pass_() -> None:
        await anyio.lowlevel.checkpoint()

    await clean_up(error, pass_)
    assert not hasattr(error, "__notes__")
    await clean_up(error, fail)
    await clean_up(error, fail, "it could not be given up")
    assert error.__notes__ == ["the disk is gone", "it could not be given up: the disk is gone"]


async def test_a_cancellation_of_a_cleanup_is_raised() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await clean_up(ValueError(), cancelled)


# --- calls that begin with their task


@pytest.mark.parametrize("backend", ["group", "native"])
async def test_a_deferred_call_that_is_cancelled_before_its_first_step(backend: str) -> None:
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if backend == "group":
            with suppress(asyncio.CancelledError):
                async with anyio.create_task_group() as tasks:
                    others = asyncio.all_tasks()
                    tasks.start_soon(deferred(work), 1)
                    (asyncio.all_tasks() - others).pop().cancel()
        else:
            task = asyncio.create_task(deferred(work)(1))
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        gc.collect()
    assert begun == []


@pytest.mark.parametrize("backend", ["group", "native"])
async def test_a_deferred_call_is_like_any_other(backend: str) -> None:
    steps: list[object] = []

    async def work(number: int) -> None:
        steps.append(number)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    async with anyio.create_task_group() as tasks:
        if backend == "group":
            tasks.start_soon(deferred(work), 1)
        else:
            task = asyncio.create_task(deferred(work)(1))
        await asyncio.sleep(0.01)
        assert steps == [1]
        tasks.cancel_scope.cancel()
        if backend == "native":
            task.cancel()
    if backend == "native":
        await asyncio.wait([task])
    assert steps == [1, "cancelled"]
    deferred(work)(1).close()
