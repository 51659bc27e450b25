"""What a loop that ends under a read or a write leaves: it ends, and nothing of the call outlives it.

`asyncio.run` cancels every task once the main one is over, our own among them and in any state: some have
not begun yet. What runs on a thread by then is waited for.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import orcstream
from orcstream.errors import SinkError, UsageError
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.sink import open_sink
from orcstream.reader.engine.decoding import DecodeQueue
from orcstream.reader.engine.pipeline import Shaper
from orcstream.writer.workers import Outflow
from tests.support.read_sources import sample

# Longer than any test waits that does not fail.
LONG_S = 30
TURNS = range(12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.orc"
    path.write_bytes(sample())
    return path


def is_open(path: Path) -> bool:
    """Whether this process has a descriptor of the file."""
    gc.collect()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names, not paths
        with suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{name}") == str(path):  # noqa: PTH115 - may be anything
                return True
    return False


def assert_closed(path: Path) -> None:
    """The threads of a loop that has ended let go of what they were given a moment later."""
    deadline = time.monotonic() + LONG_S
    while is_open(path) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not is_open(path)


# anyio runs what it is given inside of another coroutine, which a loop that ends may never begin.
@pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited", "ignore:Exception ignored in. <coroutine"
)
@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("what", ["batches", "where", "read"])
def test_it_ends_at_every_turn_of_a_read(what: str, turns: int, path: Path) -> None:
    async def read(file: orcstream.OrcFile) -> None:
        if what == "read":
            await file.read()
            return
        where = orcstream.col("a") > 5 if what == "where" else None
        async with file.batches(where=where) as stream:
            async for _ in stream:
                pass

    async def main() -> None:
        file = await orcstream.open(path)
        reading = asyncio.create_task(read(file))
        for _ in range(turns):
            await asyncio.sleep(0)
        kept.append(reading)

    kept: list[object] = []
    asyncio.run(main())
    kept.clear()
    assert_closed(path)


@pytest.mark.parametrize("turns", TURNS)
def test_it_ends_at_every_turn_of_an_open(turns: int, path: Path) -> None:
    async def main() -> None:
        opening = asyncio.ensure_future(_open(path))
        for _ in range(turns):
            await asyncio.sleep(0)
        kept.append(opening)

    kept: list[object] = []
    asyncio.run(main())
    kept.clear()
    assert_closed(path)


async def _open(path: Path) -> orcstream.OrcFile:
    return await orcstream.open(path)


class Slow:
    """A function that a thread is in the middle of until `go_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.is_over = False
        real = getattr(owner, name)

        def slow(*arguments: Any, **options: Any) -> Any:
            self.begun.set()
            assert self.go_on.wait(LONG_S)
            answer = real(*arguments, **options)
            self.is_over = True
            return answer

        monkeypatch.setattr(owner, name, slow)


@pytest.fixture
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    found = Slow(monkeypatch, *request.param)
    yield found
    found.go_on.set()


@pytest.mark.parametrize(
    "slow", [(DecodeQueue, "_decode"), (Shaper, "shape")], indirect=True, ids=["decode", "shape"]
)
def test_it_waits_for_the_threads_of_a_read(slow: Slow, path: Path) -> None:
    async def main() -> None:
        file = await orcstream.open(path)
        stream = file.batches(where=orcstream.col("a") > 5)
        reading = asyncio.ensure_future(anext(stream))
        assert await asyncio.to_thread(slow.begun.wait, LONG_S)
        # Not before the loop has cancelled everything.
        asyncio.get_running_loop().call_later(0.05, slow.go_on.set)
        kept.extend([file, stream, reading])

    kept: list[object] = []
    asyncio.run(main())
    assert slow.is_over
    kept.clear()
    assert_closed(path)


async def test_an_open_that_is_cancelled_leaves_no_descriptor(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch, os, "open")
    opening = asyncio.create_task(_open(path))
    assert await asyncio.to_thread(slow.begun.wait, LONG_S)
    opening.cancel()  # as `asyncio.timeout` does
    slow.go_on.set()
    await asyncio.wait([opening])
    assert opening.cancelled()
    del opening
    with anyio.move_on_after(LONG_S):
        while is_open(path):
            await anyio.lowlevel.checkpoint()
    assert not is_open(path)


async def test_a_part_whose_task_never_began_is_missed() -> None:
    sink = await open_sink("memory://ends/a", sink_options=SinkOptions(part_bytes=4))
    others = asyncio.all_tasks()
    await sink.write(b"12345678")
    for task in asyncio.all_tasks() - others:
        task.cancel()
    with pytest.raises(SinkError):
        await sink.prepare()
    await sink.abort()


async def test_bytes_whose_task_never_began_are_missed() -> None:
    async def write(_: memoryview) -> None:
        raise AssertionError

    outflow = Outflow(write)
    others = asyncio.all_tasks()
    await outflow.start(iter([b"1234"]), 4)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    with anyio.fail_after(LONG_S), pytest.raises(UsageError):
        await outflow.wait()
    await outflow.stop()
