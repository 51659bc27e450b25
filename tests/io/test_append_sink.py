"""Files that grow in place: what a reader may go by at any time, also after the writer was killed."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from orcstream.errors import SinkError, SourceError, Unsupported, UsageError
from orcstream.io.append_sink import open_append_sink
from orcstream.io.contract.append_file import GATHERED_BYTES, last_length
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.loop.clients import Lease
from orcstream.io.stores.hdfs.append import GrowingHdfsFile
from orcstream.io.stores.hdfs.source import OpenedHdfs
from orcstream.io.stores.local import append

DATA = os.urandom(3 * GATHERED_BYTES + 7)
# Longer than any test waits that does not fail.
LONG_S = 30

Seen = Callable[[str], bytes | None]


@pytest.fixture(params=["local", "file_url", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Seen]:
    """A URL, and what lies there under a name that goes on like this."""
    if request.param == "memory":
        path = f"/growing/{tmp_path.name}/a.orc"

        def seen(ending: str) -> bytes | None:
            file = MemoryFileSystem.store.get(path + ending)
            return None if file is None else file.getvalue()

        return f"memory:/{path}", seen
    local = tmp_path / "a b.orc"

    def seen_local(ending: str) -> bytes | None:
        found = Path(str(local) + ending)
        return found.read_bytes() if found.exists() else None

    return (f"file://{local}" if request.param == "file_url" else str(local)), seen_local


def valid(seen: Seen) -> list[int]:
    lengths = seen("_flush_length")
    assert lengths is not None
    first, *found = [length for (length,) in struct.iter_unpack(">q", lengths)]
    assert first == 0  # nothing yet; Hive takes an empty list for damage
    return found


async def test_each_flush_is_seen(place: tuple[str, Seen]) -> None:
    url, seen = place
    sink = await open_append_sink(url)
    assert seen("") == b""
    assert valid(seen) == []
    for number in range(3):
        start, stop = number * GATHERED_BYTES, (number + 1) * GATHERED_BYTES + 3
        await sink.write(DATA[start + 3 * (number > 0) : stop - 2])
        await sink.write(bytearray(DATA[stop - 2 : stop]))
        assert sink.length == stop
        assert len(valid(seen)) == number
        await sink.flush()
        assert valid(seen)[-1] == stop
        assert seen("") == DATA[:stop]
    await sink.write(DATA[sink.length :])
    await sink.finish()
    assert seen("") == DATA
    assert seen("_flush_length") is None
    with pytest.raises(UsageError):
        await sink.write(b"x")
    await sink.aclose()


async def test_one_that_is_given_up_keeps_what_was_flushed(place: tuple[str, Seen]) -> None:
    url, seen = place
    sink = await open_append_sink(url)
    await sink.write(b"flushed")
    await sink.flush()
    await sink.write(b"not")
    await sink.aclose()
    await sink.aclose()
    assert valid(seen) == [7]
    content = seen("")
    assert content is not None
    assert content[:7] == b"flushed"


async def test_nothing_is_written_anew(place: tuple[str, Seen]) -> None:
    url, seen = place
    sink = await open_append_sink(url)
    await sink.write(b"x")
    await sink.flush()
    with pytest.raises(FileExistsError):
        await open_append_sink(url)
    assert valid(seen) == [1]
    await sink.finish()
    with pytest.raises(FileExistsError):
        await open_append_sink(url)
    assert seen("_flush_length") is None
    assert seen("") == b"x"


async def test_after_a_cancellation_it_can_only_be_closed(place: tuple[str, Seen]) -> None:
    url, seen = place
    sink = await open_append_sink(url)
    await sink.write(b"x")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await sink.flush()
    with pytest.raises(UsageError, match="cancelled"):
        await sink.write(b"y")
    await sink.aclose()
    for length in valid(seen):
        assert seen("") == b"x"[:length]


async def test_two_tasks_cannot_write_at_once(tmp_path: Path) -> None:
    sink = await open_append_sink(tmp_path / "a.orc")
    async with anyio.create_task_group() as group:
        group.start_soon(sink.write, DATA)
        await anyio.lowlevel.checkpoint()
        with pytest.raises(UsageError, match=r"\btasks\b"):
            await sink.write(b"x")
    await sink.aclose()


async def test_bytes_are_durable_before_their_length_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.orc"
    at_sync: list[tuple[int, int]] = []
    sync = os.fdatasync

    def watched(descriptor: int) -> None:
        side = Path(f"{path}_flush_length")
        at_sync.append((path.stat().st_size, side.stat().st_size))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", watched)
    sink = await open_append_sink(path)
    await sink.write(b"12345")
    await sink.flush()
    assert at_sync == [(5, 8), (5, 16)]
    await sink.aclose()


@pytest.mark.parametrize(
    "left", [b"", bytes(3), bytes(8), struct.pack(">2q", 0, 500), struct.pack(">2q", 0, 500)[:11]]
)
async def test_lengths_that_an_earlier_writer_left_say_nothing(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "a.orc"
    lengths = Path(f"{path}_flush_length")
    lengths.write_bytes(left)
    sink = await open_append_sink(path)
    assert last_length(lengths.read_bytes()) == 0
    assert lengths.stat().st_size % 8 == 0
    await sink.write(b"12345")
    await sink.flush()
    assert last_length(lengths.read_bytes()) == 5
    await sink.finish()
    assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await open_append_sink(tmp_path / "none" / "a.orc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["s3://bucket/a.orc", "http://host/a.orc", "sftp://host/a.orc"])
async def test_stores_without_growing_files(url: str) -> None:
    with pytest.raises(Unsupported) as caught:
        await open_append_sink(url)
    assert caught.value.reason == "no_append"


CHILD = """
import asyncio, sys
from orcstream.io.append_sink import open_append_sink
async def run():
    sink = await open_append_sink(sys.argv[1])
    for number in range(1 << 30):
        await sink.write(number.to_bytes(8, "big") * 1000)
        await sink.flush()
        print(sink.length, flush=True)
asyncio.run(run())
"""


@pytest.mark.parametrize("flush_count", [1, 5, 20])
def test_a_writer_that_is_killed(tmp_path: Path, flush_count: int) -> None:
    path = tmp_path / "a.orc"
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(flush_count)]
    finally:
        process.kill()
        process.communicate()
    lengths = Path(f"{path}_flush_length").read_bytes()
    length = int.from_bytes(lengths[len(lengths) // 8 * 8 - 8 :][:8], "big")
    assert length >= told[-1]
    expected = b"".join(number.to_bytes(8, "big") * 1000 for number in range(length // 8000))
    assert path.read_bytes()[:length] == expected


class SlowDisk:
    """Calls of `os` that wait for `go_on`, from the moment on when `is_slow` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.is_slow = False
        self.begun, self.go_on = threading.Event(), threading.Event()
        real = getattr(os, name)

        def slow(*arguments: Any) -> Any:
            if self.is_slow:
                self.begun.set()
                assert self.go_on.wait(LONG_S)
            return real(*arguments)

        monkeypatch.setattr(os, name, slow)

    async def busy(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, LONG_S)


@pytest.mark.parametrize("call", ["write", "flush", "finish"])
@pytest.mark.parametrize("by", ["itself", "another task"])
async def test_a_cut_waits_for_the_disk(
    call: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is being written is not written behind the end, nor to a file that is opened meanwhile."""
    path = tmp_path / "a.orc"
    sink = await open_append_sink(path)
    await sink.write(b"flushed")
    await sink.flush()
    disk = SlowDisk(monkeypatch, "pwrite")
    disk.is_slow = True
    if call == "write":
        busy = asyncio.create_task(sink.write(DATA))
    else:
        await sink.write(b"more")
        busy = asyncio.create_task(sink.flush() if call == "flush" else sink.finish())
    await disk.busy()
    if by == "itself":
        busy.cancel()  # as `wait_for` does
    cut = asyncio.create_task(sink.cut())
    await asyncio.wait([cut], timeout=0.05)
    assert not cut.done()
    other = tmp_path / "other"
    with other.open("wb"):
        disk.go_on.set()
        await cut
        await asyncio.wait([busy])
    assert other.read_bytes() == b""
    # A flush that is not cancelled is carried out first.
    is_more = by == "another task" and call != "write"
    assert path.read_bytes() == (b"flushedmore" if is_more else b"flushed")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.orc", "other"]


async def test_a_beginning_that_is_cancelled_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch, "fsync")
    disk.is_slow = True
    opening = asyncio.create_task(open_append_sink(tmp_path / "a.orc"))
    await disk.busy()
    opening.cancel()
    disk.go_on.set()
    await asyncio.wait([opening])
    assert opening.cancelled()
    assert list(tmp_path.iterdir()) == []


async def test_a_beginning_that_fails_halfway_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(append, "sync_folder", full)
    with pytest.raises(SinkError, match="no space"):
        await open_append_sink(tmp_path / "a.orc")
    assert list(tmp_path.iterdir()) == []


class HalfwayHdfs:
    """Makes the file, and fails or hangs where its lengths are made."""

    def __init__(self, failure: Exception | None) -> None:
        self.names: set[str] = set()
        self._failure = failure
        self.is_asked = anyio.Event()

    async def create(self, path: str, **_: bool) -> None:
        self.is_asked.set()
        if self.names:
            if self._failure is not None:
                raise self._failure
            await anyio.sleep_forever()
        self.names.add(path)

    async def status(self, path: str) -> None:
        raise FileNotFoundError(path)

    async def delete(self, path: str) -> None:
        await anyio.lowlevel.checkpoint()
        self.names.discard(path)


@pytest.mark.parametrize("failure", [None, SourceError("no"), FileExistsError()])
async def test_a_beginning_that_fails_halfway_leaves_nothing_on_hdfs(
    failure: Exception | None,
) -> None:
    hdfs = HalfwayHdfs(failure)

    async def give_back() -> None:
        await anyio.lowlevel.checkpoint()

    calls: Any = hdfs
    opened = OpenedHdfs(calls, Lease(calls, give_back), "/a")
    file = GrowingHdfsFile(opened, "webhdfs://h/a", SinkOptions(timeout_s=0.5))
    beginning = asyncio.create_task(file.begin())
    await hdfs.is_asked.wait()
    if failure is None:
        for _ in range(5):
            await asyncio.sleep(0)
        beginning.cancel()
    await asyncio.wait([beginning])
    assert beginning.cancelled() if failure is None else beginning.exception() is not None
    assert hdfs.names == set()
