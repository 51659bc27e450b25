"""What every source of bytes keeps, whichever store is behind it."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fsspec.implementations.cached import SimpleCacheFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.errors import ShortRead, SourceChanged
from orcstream.io.byte_source import ByteSource
from orcstream.io.clients import leased_clients
from orcstream.io.source import open_source
from tests.support.filesystems import FILES
from tests.support.hdfs import HdfsServer, hdfs_server, native_hdfs
from tests.support.servers import MotoServer, RangeServer, moto_server, range_server

__all__ = ["hdfs_server", "moto_server", "native_hdfs", "range_server"]  # fixtures

DATA = bytes(os.urandom(50_000))


class Store:
    """How a test puts bytes where a source will find them, without the source's help."""

    def __init__(self, put: Callable[[str, bytes], str], options: Mapping[str, Any] | None = None) -> None:
        self.put = put
        self.options = options

    @asynccontextmanager
    async def open(self, url: str, tuned: dict[str, int] | None = None) -> AsyncIterator[ByteSource]:
        source = await open_source(url, storage_options=self.options, io_options=tuned)
        try:
            yield source
        finally:
            await source.aclose()

    def missing(self) -> str:
        return self.put("there.orc", b"x").replace("there.orc", "missing.orc")


KINDS = [
    *(
        "local",
        "file_url",
        "memory",
        "http",
        "http_weak_etag",
        "http_no_etag",
        "http_no_suffix",
        "http_whole",
    ),
    *("s3", "s3_called", "loop_filesystem", "thread_filesystem", "chain", "hdfs", "hdfs_native"),
]


def local_store(folder: Path, kind: str) -> Store:
    count = itertools.count(1)

    def put(name: str, data: bytes) -> str:
        path = folder / "a b%20c" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        # Two writes within one tick of the kernel's clock would have the same time.
        time_ns = next(count) * 10**9
        os.utime(path, ns=(time_ns, time_ns))
        return str(path) if kind == "local" else f"file://{path}"

    return Store(put)


def memory_store() -> Store:
    def put(name: str, data: bytes) -> str:
        MemoryFileSystem().pipe_file(f"/contract/{name}", data)
        return f"memory://contract/{name}"

    return Store(put)


def http_store(server: RangeServer, kind: str) -> Store:
    server.ranges = kind != "http_whole"
    server.suffix_ranges = kind != "http_no_suffix"
    server.etag = {"http_weak_etag": "weak", "http_no_etag": None}.get(kind, "strong")
    count = itertools.count(10)

    def put(name: str, data: bytes) -> str:
        server.modified = f"Sat, 21 Nov 2020 07:00:{next(count)} GMT"
        return server.serve(name, data)

    return Store(put)


def s3_store(moto: MotoServer, kind: str) -> Store:
    # Anything about proxies makes the source leave every request to s3fs.
    options = moto.options | ({"config_kwargs": {"proxies": {}}} if kind == "s3_called" else {})
    return Store(lambda name, data: moto.put("contract", f"a b/ü+{name}", data), options)


def filesystem_store(prefix: str) -> Store:
    def put(name: str, data: bytes) -> str:
        path = f"contract/{name}"
        FILES[path] = (data, FILES.get(path, (b"", 0))[1] + 1)
        return prefix + path

    return Store(put)


def hdfs_store(server: HdfsServer, folder: str, kind: str) -> Store:
    is_native = kind == "hdfs_native"

    def put(name: str, data: bytes) -> str:
        path = f"/sources/{folder}/a b%20c;ü+&=?#/{name}"
        server.put(path, data)
        return server.native_url(path) if is_native else server.url(path)

    return Store(put, None if is_native else server.options)


FILESYSTEMS = {
    "loop_filesystem": "looptest://",
    "thread_filesystem": "threadtest://",
    "chain": "simplecache::threadtest://",
}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    kind: str = request.param
    if kind.startswith("http"):
        return http_store(request.getfixturevalue("range_server"), kind)
    if kind.startswith("s3"):
        return s3_store(request.getfixturevalue("moto_server"), kind)
    if kind.startswith("hdfs"):
        server = request.getfixturevalue("native_hdfs" if kind == "hdfs_native" else "hdfs_server")
        return hdfs_store(server, tmp_path.name, kind)
    if kind == "chain":
        # fsspec shares instances by thread, whose numbers come again: an earlier test's files would be met.
        SimpleCacheFileSystem.clear_instance_cache()
    if kind in FILESYSTEMS:
        return filesystem_store(FILESYSTEMS[kind])
    return memory_store() if kind == "memory" else local_store(tmp_path, kind)


async def test_fetch_suffix_answers_end_length_and_fingerprint(store: Store) -> None:
    async with store.open(store.put("a.orc", DATA)) as source:
        assert source.file_length is None
        suffix = await source.fetch_suffix(1000)
        assert bytes(suffix.data) == DATA[-1000:]
        assert suffix.file_length == source.file_length == len(DATA)
        assert suffix.fingerprint == source.fingerprint
        longer = await source.fetch_suffix(2000)
        assert bytes(longer.data) == DATA[-2000:]


@pytest.mark.parametrize("length", [100, 101, 5000])
async def test_fetch_suffix_of_a_shorter_file_is_the_file(store: Store, length: int) -> None:
    async with store.open(store.put("short.orc", DATA[:100])) as source:
        suffix = await source.fetch_suffix(length)
        assert bytes(suffix.data) == DATA[:100]
        assert suffix.file_length == 100


async def test_fetch_suffix_of_an_empty_file(store: Store) -> None:
    async with store.open(store.put("empty.orc", b"")) as source:
        suffix = await source.fetch_suffix(1000)
        assert bytes(suffix.data) == b""
        assert suffix.file_length == 0
        with pytest.raises(ShortRead):
            await source.fetch(ByteRange(0, 1))


async def test_fetch_is_exact(store: Store) -> None:
    async with store.open(store.put("a.orc", DATA)) as source:
        await source.fetch_suffix(1)
        size = len(DATA)
        for start, stop in [(0, 1), (0, size), (17, 4099), (size - 1, size), (5, 5), (0, 0), (size, size)]:
            wanted = ByteRange(start, stop)
            buffer = RangeBuffer(wanted, await source.fetch(wanted))
            assert buffer.view(wanted) == DATA[start:stop]
        await source.verify()


async def test_fetch_many_at_once(store: Store) -> None:
    async with store.open(store.put("a.orc", DATA)) as source:
        await source.fetch_suffix(10)
        answers: dict[int, bytes] = {}

        async def fetch(start: int) -> None:
            answers[start] = bytes(await source.fetch(ByteRange(start, start + 1000)))

        async with anyio.create_task_group() as group:
            for start in range(0, len(DATA), 2500):
                group.start_soon(fetch, start)
        assert answers == {start: DATA[start : start + 1000] for start in range(0, len(DATA), 2500)}


@pytest.mark.parametrize(("start", "stop"), [(100, 50_001), (50_000, 50_001), (60_000, 60_010)])
async def test_fetch_past_the_end_is_a_short_read(store: Store, start: int, stop: int) -> None:
    async with store.open(store.put("a.orc", DATA)) as source:
        await source.fetch_suffix(10)
        with pytest.raises(ShortRead) as caught:
            await source.fetch(ByteRange(start, stop))
        assert caught.value.url == source.url


async def test_missing_file(store: Store) -> None:
    url = store.missing()
    with pytest.raises(FileNotFoundError) as caught:
        async with store.open(url) as source:
            await source.fetch_suffix(10)
    assert caught.value.filename == url


async def fetch_and_verify(source: ByteSource) -> None:
    await source.fetch(ByteRange(3, 33))
    await source.verify()


@pytest.mark.parametrize("other", [DATA[::-1], DATA[:-1], DATA + b"x"], ids=["content", "shorter", "longer"])
async def test_a_file_replaced_meanwhile_is_noticed(
    store: Store, other: bytes, request: pytest.FixtureRequest
) -> None:
    url = store.put("a.orc", DATA)
    async with store.open(url) as source:
        await source.fetch_suffix(10)
        store.put("a.orc", other)
        if "http_whole" in request.node.callspec.params.values():
            # Came whole with the first answer, so all that is handed out is of one version.
            assert bytes(await source.fetch(ByteRange(0, 1000))) == DATA[:1000]
            return
        with pytest.raises(SourceChanged) as caught:
            await fetch_and_verify(source)
        assert caught.value.url == source.url


async def test_pin_holds_a_source_to_a_version_known_from_elsewhere(store: Store) -> None:
    url = store.put("a.orc", DATA)
    async with store.open(url) as source:
        suffix = await source.fetch_suffix(10)
    async with store.open(url) as source:
        source.pin(suffix.file_length, suffix.fingerprint)
        assert source.file_length == len(DATA)
        assert bytes(await source.fetch(ByteRange(3, 33))) == DATA[3:33]
        await source.verify()
    async with store.open(url) as source:
        source.pin(suffix.file_length + 1, suffix.fingerprint)
        with pytest.raises(SourceChanged):
            await fetch_and_verify(source)


async def test_aclose_leaves_nothing_and_may_be_called_again(store: Store) -> None:
    async with store.open(store.put("a.orc", DATA)) as source:  # closes once more, whatever happens here
        await source.fetch_suffix(10)
        await source.aclose()
        assert leased_clients() == 0
    gc.collect()  # what was left open warns here, in this test, and warnings are errors


async def test_cancelled_fetches_leave_the_source_usable(store: Store) -> None:
    async with store.open(store.put("a.orc", DATA)) as source:
        await source.fetch_suffix(10)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(source.fetch, ByteRange(0, 40_000))
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert bytes(await source.fetch(ByteRange(5, 50))) == DATA[5:50]
    assert leased_clients() == 0


async def test_io_options_tune_the_cost(store: Store) -> None:
    url = store.put("a.orc", DATA)
    tuned = {"request_cap": 3, "part_bytes": 1 << 20, "tail_bytes": 999}
    async with store.open(url, tuned) as source:
        assert {name: getattr(source.cost, name) for name in tuned} == tuned
