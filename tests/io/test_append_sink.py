"""Files that grow in place: what a reader may go by at any time, also after the writer was killed."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from orcstream.errors import Unsupported, UsageError
from orcstream.io.append_sink import GATHERED_BYTES, open_append_sink

DATA = os.urandom(3 * GATHERED_BYTES + 7)

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
    return [length for (length,) in struct.iter_unpack(">q", lengths)]


async def test_each_flush_is_seen(place: tuple[str, Seen]) -> None:
    url, seen = place
    sink = await open_append_sink(url)
    assert seen("") == b""
    assert seen("_flush_length") == b""
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
        with pytest.raises(UsageError, match="two tasks"):
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
    assert at_sync == [(5, 0), (5, 8)]
    await sink.aclose()


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await open_append_sink(tmp_path / "none" / "a.orc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["s3://bucket/a.orc", "http://host/a.orc", "hdfs://host/a.orc"])
async def test_stores_without_growing_files(url: str) -> None:
    with pytest.raises(Unsupported, match="local paths, webhdfs:// and memory://") as caught:
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
