"""Sharing of clients: who makes one, who closes it, and what happens when that fails."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from orcstream.io.loop.clients import Lease, canonical_options, keep_clients, lease_client, leased_clients


class FakeClient:
    def __init__(self) -> None:
        self.close_count = 0

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.close_count += 1


class Factory:
    """Makes clients once `gate` is set; `errors` are raised first."""

    def __init__(self, *errors: Exception) -> None:
        self.made: list[FakeClient] = []
        self.call_count = 0
        self.gate = anyio.Event()
        self._errors = list(errors)

    async def __call__(self) -> FakeClient:
        self.call_count += 1
        await self.gate.wait()
        if self._errors:
            raise self._errors.pop(0)
        self.made.append(FakeClient())
        return self.made[-1]


async def test_concurrent_first_users_get_one_client_closed_by_the_last() -> None:
    factory = Factory()
    leases: list[Lease[FakeClient]] = []

    async def use() -> None:
        leases.append(await lease_client("x", {"a": 1}, factory))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        factory.gate.set()
    assert factory.call_count == 1
    for lease in leases[1:]:
        await lease.aclose()
        await lease.aclose()  # counts once
    assert factory.made[0].close_count == 0
    await leases[0].aclose()
    assert factory.made[0].close_count == 1
    assert leased_clients() == 0


async def test_other_options_or_protocols_get_another_client() -> None:
    factory = Factory()
    factory.gate.set()
    leases = [
        await lease_client(protocol, {"a": value}, factory)
        for protocol, value in [("x", 1), ("x", True), ("y", 1), ("x", 1)]
    ]
    assert len(factory.made) == leased_clients() == 3
    assert leases[0].client is leases[3].client
    for lease in leases:
        await lease.aclose()
    assert leased_clients() == 0


async def test_a_failed_factory_leaves_nothing_and_the_next_in_line_tries() -> None:
    factory = Factory(OSError("no"))
    outcomes: list[object] = []

    async def use() -> None:
        try:
            lease = await lease_client("x", {}, factory)
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(lease.client)
            await lease.aclose()

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        factory.gate.set()
    assert isinstance(outcomes[0], OSError)
    assert outcomes[1] is factory.made[0]
    assert factory.made[0].close_count == 1
    assert leased_clients() == 0


async def test_a_cancelled_maker_leaves_the_making_to_the_next() -> None:
    factory = Factory()
    clients: list[FakeClient] = []
    scope = anyio.CancelScope()

    async def cancelled() -> None:
        with scope:
            await lease_client("x", {}, factory)

    async def patient() -> None:
        lease = await lease_client("x", {}, factory)
        clients.append(lease.client)
        await lease.aclose()

    async with anyio.create_task_group() as group:
        group.start_soon(cancelled)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(patient)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        factory.gate.set()
    assert factory.call_count == 2
    assert clients == factory.made
    assert leased_clients() == 0


async def test_closing_is_finished_when_the_last_user_is_cancelled() -> None:
    factory = Factory()
    factory.gate.set()
    lease = await lease_client("x", {}, factory)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await lease.aclose()
    assert factory.made[0].close_count == 1
    assert leased_clients() == 0


async def test_an_open_during_the_close_gets_a_new_client() -> None:
    factory = Factory()
    factory.gate.set()
    first = await lease_client("x", {}, factory)
    leases: list[Lease[FakeClient]] = []

    async def reopen() -> None:
        leases.append(await lease_client("x", {}, factory))

    async with anyio.create_task_group() as group:
        group.start_soon(first.aclose)
        group.start_soon(reopen)
    assert leases[0].client is not first.client
    assert (factory.made[0].close_count, factory.made[1].close_count) == (1, 0)
    await leases[0].aclose()
    assert leased_clients() == 0


def test_loops_never_share_and_closed_loops_are_forgotten() -> None:
    made: list[FakeClient] = []

    async def make() -> FakeClient:
        made.append(FakeClient())
        return made[-1]

    async def leave_open() -> int:
        await lease_client("x", {}, make)
        return leased_clients()

    assert asyncio.run(leave_open()) == 1
    assert asyncio.run(leave_open()) == 1
    assert len(made) == 2


def test_canonical_options_compare_by_value_where_there_is_one() -> None:
    thing = object()
    one = {"b": [1, {"x": None}], "a": "t", "c": thing}
    two = {"a": "t", "c": thing, "b": (1, {"x": None})}
    assert canonical_options(one) == canonical_options(two)
    assert hash(canonical_options(one)) == hash(canonical_options(two))
    for other in ({**one, "a": b"t"}, {**one, "c": object()}, {**one, "b": [True, {"x": None}]}, {"a": "t"}):
        assert canonical_options(other) != canonical_options(one)


@pytest.mark.parametrize(("one", "two"), [(1, True), (1, 1.0), ("1", 1), ([], {}), (None, "None")])
def test_canonical_options_keep_types_apart(one: object, two: object) -> None:
    assert canonical_options(one) != canonical_options(two)


async def test_closing_is_finished_however_often_the_last_user_is_cancelled() -> None:
    begun, go_on, is_closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow:
        async def aclose(self) -> None:
            begun.set()
            await go_on.wait()
            is_closed.set()

    async def make() -> Slow:
        return Slow()

    lease = await lease_client("p", {}, make)
    closing = asyncio.create_task(lease.aclose())
    await begun.wait()
    for _ in range(3):
        closing.cancel()
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([closing])
    assert closing.cancelled()
    assert is_closed.is_set()


async def test_every_client_that_was_kept_is_closed_however_often_this_is_cancelled() -> None:
    go_on = asyncio.Event()
    closed: list[object] = []

    class Slow:
        async def aclose(self) -> None:
            await go_on.wait()
            closed.append(self)

    async def make() -> Slow:
        return Slow()

    kept = keep_clients()
    for number in range(3):
        lease = await lease_client("p", {"number": number}, make)
        await lease.aclose()
    closing = asyncio.create_task(kept.aclose())
    for _ in range(3):
        await asyncio.sleep(0)
        closing.cancel()
    go_on.set()
    await asyncio.wait([closing])
    assert closing.cancelled()
    assert len(closed) == 3
    assert leased_clients() == 0
