"""Local files beyond the contract: every call of the system that a write makes fails once."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import orcstream
from orcstream.errors import CommitFailed, CommitUnknown, SinkError, UsageError
from orcstream.io import sink as sinks
from orcstream.io.folders import list_files
from orcstream.io.sink import commit, discard, open_sink
from orcstream.io.stores.local.sink import LocalFile

# What a write and its commit call; reading calls do no harm.
CALLS = [
    (os, "open"),
    (os, "pwrite"),
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (os, "link"),
    (os, "unlink"),
]
DATA = os.urandom(2500)
PARTS = {"part_bytes": 1000, "retries": 0}


@contextmanager
def failing_at(number: int | None, folder: Path) -> Iterator[list[str]]:
    """The calls that were made for files of this folder; that of this number fails as a broken disk does."""
    made: list[str] = []

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            first = arguments[0]
            path = Path(f"/proc/self/fd/{first}").readlink() if isinstance(first, int) else os.fspath(first)
            if not str(path).startswith(str(folder)):
                return real(*arguments, **named)
            made.append(name)
            if len(made) - 1 == number:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patched:
        for owner, name in CALLS:
            patched.setattr(owner, name, wrap(name, getattr(owner, name)))
        yield made


@pytest.mark.parametrize("overwrite", [True, False])
async def test_another_file_with_the_same_inode_number_is_no_commit(
    tmp_path: Path, *, overwrite: bool
) -> None:
    path = tmp_path / "a.orc"
    sink = await open_sink(path, sink_options=PARTS, overwrite=overwrite)
    await sink.write(DATA)
    prepared = await sink.prepare()
    await sink.aclose()
    assert isinstance(prepared.state, LocalFile)
    Path(prepared.state.temporary).unlink()
    path.write_bytes(bytes(len(DATA)))
    # What file systems do that give out numbers again, as ext4 and XFS do at once.
    reused = replace(prepared, state=replace(prepared.state, inode=path.stat().st_ino))
    with pytest.raises(CommitFailed, match=r"\bgone\b"):
        await commit(reused)
    assert path.read_bytes() == bytes(len(DATA))


async def test_a_file_may_be_committed_again(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    sink = await open_sink(path, sink_options=PARTS)
    await sink.write(DATA)
    prepared = await sink.prepare()
    await sink.aclose()
    for _ in range(3):
        await commit(prepared)
    assert path.read_bytes() == DATA


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="Windows has no such permissions")
async def test_a_temporary_is_never_wider_than_the_file_that_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    modes = []
    real = os.open

    def spy(name: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        descriptor = real(name, flags, mode, **more)
        if str(name).endswith(".tmp"):
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", spy)
    sink = await open_sink(path, sink_options=PARTS)
    await sink.write(DATA)
    prepared = await sink.prepare()
    await sink.aclose()
    assert modes
    assert not any(mode & 0o077 for mode in modes)
    await commit(prepared)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("overwrite", [True, False])
async def test_a_disk_that_fails_at_any_call(tmp_path: Path, *, overwrite: bool) -> None:
    path = tmp_path / "a.orc"
    for number in itertools.count():
        path.unlink(missing_ok=True)
        if overwrite:
            path.write_bytes(b"earlier")
        failure: BaseException | None = None
        with failing_at(number, tmp_path) as made:
            sink = await open_sink(path, sink_options=PARTS, overwrite=overwrite)
            try:
                await sink.write(DATA)
                prepared = await sink.prepare()
            except SinkError:
                await sink.abort()
                assert [one.name for one in tmp_path.iterdir()] == (["a.orc"] if overwrite else [])
                assert not overwrite or path.read_bytes() == b"earlier"
                continue
            try:
                await commit(prepared)
            except (CommitFailed, CommitUnknown) as error:
                failure = error
                # Whole, or not at all; and what it is can be settled.
                assert path.exists() or not overwrite
                if isinstance(error, CommitFailed):
                    assert not path.exists() or path.read_bytes() == b"earlier"
                else:
                    assert path.read_bytes() == DATA
                await commit(prepared)
        assert path.read_bytes() == DATA
        await sink.aclose()
        assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]
        if failure is None:
            break
    assert number == len(made)
    assert made.count("pwrite") == 3
    # The file before its name is durable, its name before the writer is told.
    assert made.index("fsync") > max(at for at, name in enumerate(made) if name == "pwrite")
    assert made[-1] == "fsync"


async def test_a_large_file_comes_to_the_disk_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it at the end took 0.1 s for 230 MB, while nothing was encoded any more."""
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    sink = await open_sink(tmp_path / "a.orc", sink_options={"part_bytes": 8 << 20})
    for _ in range(10):
        await sink.write(bytes(8 << 20))
    await commit(await sink.prepare())
    await sink.aclose()
    assert len(flushed) == 2
    assert min(flushed) >= 32 << 20
    assert (tmp_path / "a.orc").stat().st_size == 80 << 20

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    sink = await open_sink(tmp_path / "b.orc", sink_options={"part_bytes": 8 << 20})
    await sink.write(bytes(32 << 20))
    with pytest.raises(SinkError):
        await sink.prepare()
    await sink.abort()
    assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]


async def test_an_abort_that_fails_names_what_is_left(tmp_path: Path) -> None:
    sink = await open_sink(tmp_path / "a.orc", sink_options=PARTS)
    await sink.write(DATA)
    prepared = await sink.prepare()
    assert isinstance(prepared.state, LocalFile)
    named = rf"\bcleanup\b.*{re.escape(prepared.state.temporary)}"
    with failing_at(0, tmp_path), pytest.raises(SinkError, match=named):
        await sink.abort()
    with failing_at(0, tmp_path), pytest.raises(SinkError, match=named):
        await discard(prepared)
    await discard(prepared)
    assert list(tmp_path.iterdir()) == []


async def test_a_discard_that_asyncio_cancels_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `cancel` knows no shields."""
    sink = await open_sink(tmp_path / "a.orc", sink_options=PARTS)
    await sink.write(DATA)
    prepared = await sink.prepare()
    await sink.aclose()
    store_of = sinks._store_of

    async def cancelled(*arguments: Any) -> Any:
        task.cancel()
        await anyio.lowlevel.checkpoint()
        return await store_of(*arguments)

    monkeypatch.setattr(sinks, "_store_of", cancelled)
    task = asyncio.create_task(discard(prepared))
    await asyncio.wait([task])
    assert task.cancelled()
    assert list(tmp_path.iterdir()) == []


async def test_a_commit_that_is_cancelled_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(b"earlier")
    sink = await open_sink(path, sink_options=PARTS)
    await sink.write(DATA)
    prepared = await sink.prepare()
    await sink.aclose()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await commit(prepared)
    assert path.read_bytes() in (b"earlier", DATA)
    await commit(prepared)
    assert path.read_bytes() == DATA
    assert [one.name for one in tmp_path.iterdir()] == ["a.orc"]


async def test_permissions_and_links_stay(tmp_path: Path) -> None:
    target = tmp_path / "target.orc"
    target.write_bytes(b"earlier")
    target.chmod(0o640)
    link = tmp_path / "link.orc"
    link.symlink_to(target)
    sink = await open_sink(link, sink_options=PARTS)
    await sink.write(DATA)
    await commit(await sink.prepare())
    await sink.aclose()
    assert link.is_symlink()
    assert target.read_bytes() == DATA
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    sink = await open_sink(tmp_path, sink_options=PARTS)
    with pytest.raises(IsADirectoryError):
        await sink.prepare()
    await sink.abort()
    assert list(tmp_path.parent.glob(".*orcstream*")) == []


@pytest.mark.parametrize("path", ["/", "a\0b", "a\ud800b"])
async def test_what_cannot_be_a_file_is_an_error_of_ours(path: str, tmp_path: Path) -> None:
    async def write() -> None:
        sink = await open_sink(path)
        try:
            await sink.prepare()
        finally:
            await sink.abort()

    steps: list[Callable[[], Any]] = [write, lambda: list_files(path), lambda: orcstream.open(path)]
    for step in steps[: 1 if path == "/" else None]:
        with pytest.raises((UsageError, IsADirectoryError)):
            await step()
