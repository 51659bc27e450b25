"""Opening: which source reads what, how options are checked, and what stores may not do to us."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from orcstream.byterange import ByteRange, CostModel
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import IoOptions, Transient
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.fsspec.source import FilesystemSource, translate_error
from orcstream.io.stores.local.source import LocalSource
from orcstream.io.stores.memory.source import BytesSource, MemoryFileSource
from orcstream.io.urls import local_path, open_source, protocol_of
from tests.servers.filesystems import FILES, LoopFileSystem

DATA = bytes(range(256)) * 10


async def open_plain(url: Any, **options: Any) -> Any:
    return await open_source(url, storage_options=options, io_options=None)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_bytes_are_their_own_source_and_are_not_copied(kind: type) -> None:
    data = kind(DATA)
    source = await open_plain(data)
    assert isinstance(source, BytesSource)
    await source.fetch_suffix(10)
    view = memoryview(await source.fetch(ByteRange(3, 30)))
    assert view == DATA[3:30]
    assert view.obj is (data.obj if isinstance(data, memoryview) else data)
    await source.aclose()


async def test_paths_of_any_kind_are_local(tmp_path: Path) -> None:
    path = tmp_path / "a::b#?.orc"  # no chain, no query
    path.write_bytes(DATA)
    for url in (str(path), path, f"file://{path}", f"local://{path}"):
        source = await open_plain(url)
        assert isinstance(source, LocalSource)
        assert bytes((await source.fetch_suffix(3)).data) == DATA[-3:]
        await source.aclose()


async def test_memory_urls_are_read_in_place() -> None:
    import fsspec

    fsspec.filesystem("memory").pipe_file("/dir/a.orc", DATA)
    for url in ("memory://dir/a.orc", "memory:///dir/a.orc"):
        source = await open_plain(url)
        assert isinstance(source, MemoryFileSource)
        assert bytes((await source.fetch_suffix(3)).data) == DATA[-3:]


async def test_a_view_of_a_memory_file_does_not_lock_it() -> None:
    import fsspec

    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file("/locked.orc", DATA)
    source = await open_plain("memory://locked.orc")
    kept = await source.fetch(ByteRange(0, 10))
    with filesystem.open("/locked.orc", "ab") as file:
        file.write(b"more")
    assert bytes(kept) == DATA[:10]


async def test_no_bytes_are_an_empty_file() -> None:
    source = await open_plain(b"")
    assert (await source.fetch_suffix(5)).file_length == 0


@pytest.mark.parametrize("url", ["nosuchprotocol://x/y", "simplecache::nosuchprotocol://x", b"".join])
async def test_what_cannot_be_opened_is_a_usage_error(url: Any) -> None:
    with pytest.raises(UsageError):
        await open_plain(url)
    assert leased_clients() == 0


@pytest.mark.parametrize(
    ("make", "hint"), [(os.mkdir, r"\bfolder\b.*\bopen_many\b"), (os.mkfifo, "regular file")]
)
async def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None], hint: str) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(SourceError, match=hint) as caught:
        await open_plain(path)
    assert caught.value.url == str(path)


async def test_a_local_file_renamed_over_is_noticed_and_a_removed_one_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(DATA)
    source = await open_plain(path)
    await source.fetch_suffix(1)
    path.unlink()
    assert bytes(await source.fetch(ByteRange(0, 9))) == DATA[:9]
    path.write_bytes(DATA)
    with pytest.raises(SourceChanged):
        await source.fetch(ByteRange(0, 9))
    await source.aclose()


async def test_closing_a_local_file_frees_its_descriptor_and_ends_its_use(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(DATA)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths
    source = await open_plain(path)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(source.fetch, ByteRange(0, 100))
        await anyio.wait_all_tasks_blocked()
    await source.aclose()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    with pytest.raises(SourceError):
        await source.fetch(ByteRange(0, 1))


async def test_a_read_that_the_system_answers_in_parts_is_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Linux answers at most 2 GiB at once; here the limit is 1000 bytes.
    path = tmp_path / "a.orc"
    path.write_bytes(DATA)
    counts: list[int] = []
    preadv = os.preadv

    def at_most(descriptor: int, views: list[memoryview], at: int, flags: int = 0) -> int:
        if flags:  # part of it is at hand, which is not enough
            return preadv(descriptor, [views[0][:10]], at, flags)
        counts.append(preadv(descriptor, [views[0][:1000]], at))
        return counts[-1]

    monkeypatch.setattr(os, "preadv", at_most)
    source = await open_plain(path)
    assert bytes(await source.fetch(ByteRange(7, 2500))) == DATA[7:2500]
    assert counts == [1000, 1000, 493]
    await source.aclose()


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="this system cannot say what takes no waiting")
@pytest.mark.parametrize("answer", [None, errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO])
async def test_what_is_cached_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int | None
) -> None:
    """On the loop's own thread; on another one, if the system says that it would have to wait."""
    path = tmp_path / "a.orc"
    path.write_bytes(DATA)
    threads: list[threading.Thread] = []
    preadv = os.preadv

    def watched(descriptor: int, views: list[memoryview], at: int, flags: int = 0) -> int:
        if flags and answer is not None:
            raise OSError(answer, os.strerror(answer))
        count = preadv(descriptor, views, at)
        threads.append(threading.current_thread())
        return count

    if answer == errno.EOPNOTSUPP:
        monkeypatch.setattr(os, "preadv", watched)  # so it is with file systems of a network
    source = await open_plain(path)
    monkeypatch.setattr(os, "preadv", watched)
    if answer == errno.EIO:
        with pytest.raises(SourceError, match="Input/output error"):
            await source.fetch(ByteRange(7, 2500))
    else:
        assert bytes(await source.fetch(ByteRange(7, 2500))) == DATA[7:2500]
        assert bytes((await source.fetch_suffix(9)).data) == DATA[-9:]
        own = threading.current_thread()
        assert [one is own for one in threads] == [answer is None] * 2
    await source.aclose()


async def test_closing_a_local_file_is_finished_when_it_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(DATA)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths
    source = await open_plain(path)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await source.aclose()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_asynchronous_file_systems_are_made_in_the_running_loop_shared_and_closed() -> None:
    FILES["loop/a"] = (DATA, 1)
    LoopFileSystem.made.clear()
    one, two = [await open_plain("looptest://loop/a", option=1) for _ in range(2)]
    other = await open_plain("looptest://loop/a", option=2)
    assert isinstance(one, FilesystemSource)
    assert len(LoopFileSystem.made) == 2
    first = LoopFileSystem.made[0]
    closed = []
    for source in (one, two):
        await source.aclose()
        closed.append(first._session.closed)
    assert closed == [False, True]
    await other.aclose()
    assert leased_clients() == 0


async def test_a_file_system_that_answers_other_bytes_is_a_short_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FILES["loop/a"] = (DATA, 1)

    async def whole(self: LoopFileSystem, path: str, **_: Any) -> bytes:
        return DATA

    monkeypatch.setattr(LoopFileSystem, "_cat_file", whole)
    source = await open_plain("looptest://loop/a")
    with pytest.raises(ShortRead, match=r"\b2550 to 2560\b.*\b2560\b"):
        await source.fetch_suffix(10)
    await source.aclose()


class BotoLike(Exception):
    """Carries a status the way requests does."""

    def __init__(self, status: int) -> None:
        self.response = type("Response", (), {"status_code": status})()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError("s3://secret@x"), FileNotFoundError),
        (PermissionError("s3://secret@x"), PermissionError),
        (TimeoutError(), Transient),
        (ConnectionResetError(), Transient),
        (OSError(errno.EBUSY, "slow down"), Transient),
        (OSError(errno.EIO, "disk"), SourceError),
        (aiohttp.ClientPayloadError("cut"), Transient),
        (type("IncompleteReadError", (Exception,), {})(), Transient),
        (BotoLike(503), Transient),
        (BotoLike(404), FileNotFoundError),
        (BotoLike(403), PermissionError),
        (BotoLike(400), SourceError),
        (NotImplementedError(), Unsupported),
        (RuntimeError("odd"), SourceError),
        (SourceChanged("ours"), SourceChanged),
    ],
)
def test_foreign_errors_become_ours(error: Exception, expected: type[Exception]) -> None:
    translated = translate_error(error, "x://shown")
    assert type(translated) is expected
    assert "secret" not in str(translated)


async def test_foreign_errors_are_translated_where_they_happen() -> None:
    FILES["loop/a"] = (DATA, 1)
    source = await open_plain("looptest://loop/a")
    LoopFileSystem.errors.append(ConnectionResetError("gone"))
    with pytest.raises(Transient) as caught:
        await source.fetch_suffix(10)
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    await source.aclose()


@pytest.mark.parametrize(
    "options",
    [
        {"request_cap": 0},
        {"request_cap": True},
        {"part_bytes": -1},
        {"tail_bytes": 1.5},
        {"retries": -1},
        {"retries": None},
        {"timeout_s": 0},
        {"timeout_s": "1"},
        {"unknown": 1},
        [],
    ],
)
def test_io_options_are_checked(options: Any) -> None:
    with pytest.raises(UsageError, match="io_options"):
        IoOptions.of(options)


def test_io_options_leave_to_the_source_what_is_not_set() -> None:
    cost = CostModel.http()
    assert IoOptions.of(None).tune(cost) == cost
    assert IoOptions.of(IoOptions(part_bytes=7)).tune(cost).part_bytes == 7
    assert IoOptions.of({}) == IoOptions()


def test_protocols_and_paths() -> None:
    assert [protocol_of(url) for url in ("/a", "a.orc", "S3://b/k", "a+b://x", "1x://y")] == [
        *("file", "file", "s3", "a+b", "file"),
    ]
    assert local_path("FILE:///a/b") == "/a/b"
    assert local_path("file:/a/b") == "/a/b"
    assert local_path("file:a") == "file:a"


def test_opening_a_path_imports_no_client_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(DATA)
    program = (
        "import asyncio, sys; from orcstream.io.urls import open_source\n"
        "async def main():\n"
        f"    s = await open_source({str(path)!r}, storage_options=None, io_options=None)\n"
        "    await s.fetch_suffix(9); await s.aclose()\n"
        "asyncio.run(main())\n"
        "print([n for n in ('aiohttp', 's3fs', 'fsspec', 'botocore') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_outside_asyncio_opening_is_unsupported() -> None:
    coroutine = open_source(DATA, storage_options=None, io_options=None)
    with pytest.raises(Unsupported) as caught:
        coroutine.send(None)  # as another event loop would
    assert caught.value.reason == "trio"
