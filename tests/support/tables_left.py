"""A fixture that looks whether anything is left of a test that read a table."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest

from orcstream.io.clients import leased_clients

__all__ = ["nothing_left", "tasks_of_ours"]


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
