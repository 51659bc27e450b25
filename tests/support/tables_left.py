"""A fixture that looks whether anything is left of a test that read a table."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from orcstream.io.loop.clients import lease_client, leased_clients

__all__ = ["check_cancelled_close", "nothing_left", "tasks_of_ours"]


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Neither tasks nor clients nor open files."""
    gc.collect()
    before = descriptors()
    yield
    gc.collect()
    with anyio.move_on_after(10):
        while tasks_of_ours() or descriptors() > before:
            await anyio.lowlevel.checkpoint()
    assert not tasks_of_ours()
    assert descriptors() <= before
    assert leased_clients() == 0


def tasks_of_ours() -> list[str]:
    return [name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("orcstream")]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - and nothing else of it


class _Connections:
    """A client that notes its close."""

    def __init__(self, closed: list[object]) -> None:
        self._closed = closed

    async def aclose(self) -> None:
        self._closed.append(self)


async def check_cancelled_close(
    open_and_read: Callable[[], Awaitable[Callable[[], Awaitable[None]]]], turns: int
) -> None:
    """Cancel a close after `turns` turns of the loop; check that it closes files and idle clients anyway.

    `open_and_read` opens a table, starts a read, and returns the table's `aclose`. The garbage collector does
    not run, because it would hide files that nobody closes.
    """
    closed: list[object] = []

    async def connections() -> _Connections:
        return _Connections(closed)

    gc.collect()
    before = descriptors()
    gc.disable()
    try:
        close = await open_and_read()
        used = await lease_client("a store", {}, connections)
        await used.aclose()
        assert closed == []  # the table keeps it
        closing = asyncio.ensure_future(close())
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        assert closed == [used.client]
        assert descriptors() <= before
    finally:
        gc.enable()
