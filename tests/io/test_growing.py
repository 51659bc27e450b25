"""Files that can be read while they are written: what readers of all kinds find at each flush."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.orc
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import orcstream
from orcstream.errors import Unsupported, UsageError
from tests.reference import java_orc

SCHEMA = "struct<n:bigint>"


def rows(start: int, stop: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(start, stop)]


def lengths_of(path: Path) -> list[int]:
    data = Path(f"{path}_flush_length").read_bytes()
    return [int.from_bytes(data[at : at + 8], "big") for at in range(8, len(data), 8)]


def pyarrow_numbers(path: Path, length: int | None = None) -> list[int]:
    data = path.read_bytes()[:length]
    found: list[int] = pyarrow.orc.ORCFile(io.BytesIO(data)).read()["n"].to_pylist()
    return found


async def test_each_flush_is_a_complete_file_for_everybody(tmp_path: Path, java: None) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        for part in range(4):
            await out.write(rows(10 * part, 10 * part + 10))
            await out.flush()
        await out.write(rows(40, 45))
        lengths = lengths_of(path)
        assert len(lengths) == 4
        for part, length in enumerate(lengths):
            expected = list(range(10 * part + 10))
            assert pyarrow_numbers(path, length) == expected
            assert java_orc.longs_up_to(path, length) == expected
    assert pyarrow_numbers(path) == java_orc.longs_up_to(path, path.stat().st_size) == list(range(45))
    assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]
    assert (out.result.row_count, out.result.stripe_count, out.result.length) == (45, 5, path.stat().st_size)


async def test_nothing_new_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.flush()
        assert pyarrow_numbers(path, lengths_of(path)[-1]) == []
        await out.write(rows(0, 3))
        await out.flush()
        size = path.stat().st_size
        await out.flush()
        assert path.stat().st_size == size
        out.add_user_metadata({"k": "v"})
    assert path.stat().st_size > size
    async with orcstream.open(path) as file:
        assert file.user_metadata == {"k": b"v"}
        assert file.row_count == 3


async def test_an_abort_keeps_what_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"

    async def write() -> None:
        async with orcstream.create(path, SCHEMA, growing=True) as out:
            await out.write(rows(0, 3))
            await out.flush()
            await out.write(rows(3, 6))
            await out.end_stripe()
            raise KeyError

    with pytest.raises(KeyError):
        await write()
    assert pyarrow_numbers(path) == [0, 1, 2]
    assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]


async def test_an_abort_before_the_first_flush_leaves_nothing(tmp_path: Path) -> None:
    for url in (str(tmp_path / "a.orc"), "memory://aborted/a.orc"):
        out = await orcstream.create(url, SCHEMA, growing=True)
        await out.write(rows(0, 3))
        await out.abort()
        await out.abort()
    assert list(tmp_path.iterdir()) == []
    assert not [path for path in MemoryFileSystem.store if path.startswith("/aborted/")]


async def test_a_file_that_is_there_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(b"earlier")
    with pytest.raises(FileExistsError):
        await orcstream.create(path, SCHEMA, growing=True)
    assert path.read_bytes() == b"earlier"


@pytest.mark.parametrize("url", ["s3://bucket/a.orc", "sftp://host/a.orc"])
async def test_stores_that_cannot(url: str) -> None:
    with pytest.raises(Unsupported) as raised:
        await orcstream.create(url, SCHEMA, growing=True)
    assert raised.value.reason == "no_append"
    assert "local paths" in raised.value.message


async def test_buffers_cannot() -> None:
    with pytest.raises(Unsupported):
        await orcstream.create(io.BytesIO(), SCHEMA, growing=True)


async def test_what_each_kind_of_file_is_not_for(tmp_path: Path) -> None:
    async with orcstream.create(tmp_path / "a.orc", SCHEMA) as out:
        with pytest.raises(UsageError, match="growing=True"):
            await out.flush()
    async with orcstream.create(tmp_path / "b.orc", SCHEMA, growing=True) as out:
        with pytest.raises(Unsupported):
            await out.prepare()
        await out.abort()
    async with orcstream.create(tmp_path / "c.orc", growing=True) as out:
        with pytest.raises(UsageError, match=r"\bschema\b.*\bcreate\(\)"):
            await out.flush()
        await out.abort()


async def test_sizes_while_writing(tmp_path: Path) -> None:
    async with orcstream.create(tmp_path / "a.orc", SCHEMA, growing=True, compression="none") as out:
        assert out.size_bytes == 0
        await out.write([{"n": number * 2**40 + number**3} for number in range(1000)])
        assert out.held_bytes > 0
        assert out.size_bytes > 1000
        await out.flush()
        flushed = lengths_of(tmp_path / "a.orc")[-1]
        assert out.size_bytes == flushed
    assert out.result.length == flushed


@pytest.mark.parametrize("failing", ["append", "flush", "finish"])
async def test_a_store_that_fails(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was flushed before can be read, whatever fails afterwards."""
    from orcstream.io.stores.local.append import GrowingLocalFile

    path = tmp_path / "a.orc"

    async def fail(*_: Any) -> None:
        raise OSError("no space")

    async def write() -> None:
        async with orcstream.create(path, SCHEMA, growing=True) as out:
            await out.write(rows(0, 3))
            await out.flush()
            monkeypatch.setattr(GrowingLocalFile, failing, fail)
            await out.write(rows(3, 6))
            await out.flush()

    with pytest.raises(OSError, match="no space"):
        await write()
    assert pyarrow_numbers(path)[:3] == [0, 1, 2]
    assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]


async def test_an_abort_waits_for_what_flows_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stripe that is being written is not written to a file that somebody opens meanwhile."""
    path = tmp_path / "a.orc"
    out = await orcstream.create(path, SCHEMA, growing=True, compression="none")
    await out.write(rows(0, 3))
    await out.flush()
    begun, go_on, real = threading.Event(), threading.Event(), os.pwrite

    def slow(*arguments: Any) -> int:
        begun.set()
        assert go_on.wait(30)
        return real(*arguments)

    monkeypatch.setattr(os, "pwrite", slow)
    await out.write({"n": np.random.default_rng(1).integers(0, 1 << 60, 1 << 18)})
    await out.end_stripe()
    assert await asyncio.to_thread(begun.wait, 30)
    aborting = asyncio.create_task(out.abort())
    await asyncio.wait([aborting], timeout=0.05)
    assert not aborting.done()
    other = tmp_path / "other"
    with other.open("wb"):
        go_on.set()
        await aborting
    assert other.read_bytes() == b""
    assert pyarrow_numbers(path) == [0, 1, 2]
