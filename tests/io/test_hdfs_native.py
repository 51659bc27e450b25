"""HDFS over its own RPC: what hdfs-native answers and refuses, and reading and writing through it."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import hdfs_native
import pytest

import orcstream
from orcstream import col
from orcstream.byterange import ByteRange
from orcstream.errors import RetriesExhausted, ShortRead, SinkError, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_sink import temporary_name
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import cleanup, commit, open_sink
from orcstream.io.stores.hdfs import native as module
from orcstream.io.stores.hdfs.calls import HdfsRefusal, StandBy, place_of
from orcstream.io.stores.hdfs.native import HdfsNative, NativeConnection, lease_hdfs_native
from orcstream.io.urls import open_source
from tests.io.test_follow import POLL_S, all_of, numbers, rows
from tests.servers.hdfs import HdfsServer, hdfs_server, native_hdfs
from tests.support.clocks import until

__all__ = ["hdfs_server", "native_hdfs"]  # fixtures

SCHEMA = "struct<n:bigint>"
WITH_FOLDERS = hdfs_native.WriteOptions(create_parent=True)
NOBODY = "hdfs://127.0.0.1:1/a.orc"
# Of 0.14.7, and of later ones.
TEXTS: list[tuple[str, type[Exception]]] = [
    (
        'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=x")',
        PermissionError,
    ),
    ('RPCError("org.apache.hadoop.ipc.StandbyException", "Operation category READ")', StandBy),
    ('FatalRPCError("org.apache.hadoop.ipc.StandbyException", "Operation category READ")', StandBy),
    ("RPC error: org.apache.hadoop.hdfs.server.namenode.SafeModeException no", Transient),
    ('RPCError("java.io.IOException", "append: lastBlock=b is not sufficiently replicated yet.")', Transient),
    ('RPCError("java.io.IOException", "no\\n\\tat org.apache.Some.stack")', HdfsRefusal),
    ('RPCError("java.lang.UnsupportedOperationException", "no")', Unsupported),
    ('DataTransferError("the connection broke")', Transient),
    ("ChecksumError", Transient),
    ('InvalidArgument("Cannot rename across different name services")', SourceError),
    ('SASLError("no")', PermissionError),
    ("NoSASLMechanism", PermissionError),
    ("", Transient),
]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"/native/{tmp_path.name}"


class Client:
    """Fails as it is told."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def get_file_info(self, path: str) -> Any:  # noqa: ARG002 - of the client
        raise self.error


@pytest.mark.parametrize(("text", "expected"), TEXTS)
async def test_what_its_errors_stand_for(text: str, expected: type[Exception]) -> None:
    hdfs = HdfsNative(NativeConnection(Client(RuntimeError(text)), hdfs_native), "hdfs://h/a")
    with pytest.raises(expected) as caught:
        await hdfs.status("/a")
    assert type(caught.value) is expected
    assert "stack" not in str(caught.value)


@pytest.mark.parametrize("error", [ValueError("no"), TypeError("no"), OverflowError("no")])
async def test_what_it_cannot_be_asked(error: Exception) -> None:
    hdfs = HdfsNative(NativeConnection(Client(error), hdfs_native), "hdfs://h/a")
    with pytest.raises(SourceError):
        await hdfs.status("/a")


async def test_a_panic_ends_no_program() -> None:
    class PanicException(BaseException):
        """As Rust's come out: none of Python's exceptions."""

    hdfs = HdfsNative(NativeConnection(Client(PanicException("at file.rs")), hdfs_native), "hdfs://h/a")
    with pytest.raises(SourceError, match=r"\bhdfs-native\b.*at file\.rs"):
        await hdfs.status("/a")


async def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    for url in ("hdfs://nn/a.orc", "viewfs://nn/a.orc"):
        with pytest.raises(UsageError, match=r"orcstream\[hdfs\].*webhdfs://"):
            await orcstream.open(url)
    assert leased_clients() == 0


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("hdfs://nn/a", {"user": "me"}, "HADOOP_USER_NAME"),
        ("hdfs://me@nn/a", {}, "HADOOP_USER_NAME"),
        ("hdfs://nn/a", {"token": "t"}, "HADOOP_TOKEN_FILE_LOCATION"),
        ("hdfs://nn/a", {"replication": 1}, "'replication'"),
        ("hdfs://nn/a", {"dfs.replication": 1}, r"'dfs\.replication'"),
        ("hdfs:///a", {}, "fs.defaultFS"),
        ("hdfs://no-such-service/a", {}, "NameNode"),
        ("hdfs://nn:1/a", {"hadoop_conf_dir": "/nowhere"}, r"\bhadoop_conf_dir\b.*'/nowhere'"),
        ("hdfs://nn:1/../a", {}, r"'\.\.'"),
    ],
)
async def test_what_it_cannot_be_told(
    url: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=message) as caught:
        await orcstream.open(url, storage_options=options)
    assert caught.value.url is not None
    assert "me@" not in str(caught.value)
    assert leased_clients() == 0


async def test_nobody_answers() -> None:
    options = {"dfs.client.failover.max.attempts": "0"}
    with pytest.raises(RetriesExhausted, match="2 times"):
        await orcstream.open(NOBODY, storage_options=options, io_options={"retries": 1})
    with pytest.raises(SinkError):
        async with orcstream.create(
            NOBODY, SCHEMA, storage_options=options, sink_options={"retries": 1, "abort_timeout_s": 5}
        ) as out:
            await out.write([{"n": 1}])
    assert leased_clients() == 0


def scattered(number: int) -> int:
    """Numbers that nothing makes small."""
    return number * 0x9E3779B97F4A7C15 % (1 << 62)


async def test_a_table_of_several_blocks(native_hdfs: HdfsServer, folder: str) -> None:
    url = native_hdfs.native_url(f"{folder}/a b%20c/t.orc")
    count = 150_000
    async with orcstream.create(
        url, SCHEMA, compression="none", stripe_bytes=1 << 20, sink_options={"part_bytes": 1 << 20}
    ) as out:
        for start in range(0, count, 50_000):
            await out.write([{"n": scattered(number)} for number in range(start, start + 50_000)])
    assert native_hdfs.status(f"{folder}/a b%20c/t.orc")["length"] == out.result.length > 1 << 20
    async with orcstream.open(url) as file:
        assert file.row_count == count
        page = await file.read(rows=range(149_000, 149_003))
        assert [row["n"] for row in page.to_pylist()] == [
            scattered(number) for number in range(149_000, 149_003)
        ]
        found = await file.read(where=col("n") == scattered(1))
        assert found.to_pylist() == [{"n": scattered(1)}]
    assert native_hdfs.names(f"{folder}/a b%20c") == ["t.orc"]


async def test_refusals(native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native_hdfs.put(f"{folder}/a.orc", b"earlier")
    url = native_hdfs.native_url(f"{folder}/a.orc")
    with pytest.raises(FileNotFoundError):
        await orcstream.open(native_hdfs.native_url(f"{folder}/b.orc"))
    with pytest.raises(SourceError, match="directory"):
        await orcstream.open(native_hdfs.native_url(folder))
    with pytest.raises(IsADirectoryError):
        await _write(native_hdfs.native_url(folder))
    with pytest.raises(FileExistsError):
        await _write(url, overwrite=False)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    with pytest.raises(PermissionError):
        await _write(url)
    native_hdfs.call("PUT", "SETPERMISSION", f"{folder}/a.orc", permission="600")
    with pytest.raises(PermissionError):
        await orcstream.open(url)
    assert native_hdfs.names(folder) == ["a.orc"]
    assert native_hdfs.get(f"{folder}/a.orc") == b"earlier"
    assert leased_clients() == 0


async def _write(url: str, *, overwrite: bool = True) -> None:
    async with orcstream.create(url, SCHEMA, overwrite=overwrite) as out:
        await out.write([{"n": 1}])


async def test_past_the_end_and_after_a_change(native_hdfs: HdfsServer, folder: str) -> None:
    """hdfs-native panics past the end of what it opened; and what it opened is as it was then."""
    path = f"{folder}/a"
    native_hdfs.put(path, b"0123456789")
    hdfs, lease = await _calls(native_hdfs, path)
    assert bytes(await hdfs.read(path, 8, 2)) == b"89"
    for offset, length in ((8, 3), (20, 1)):
        with pytest.raises(ShortRead):
            await hdfs.read(path, offset, length)
    native_hdfs.call("POST", "APPEND", path, b"abc")
    assert bytes(await hdfs.read(path, 8, 5)) == b"89abc"
    with pytest.raises(FileNotFoundError):
        await hdfs.read(f"{path}b", 0, 1)
    await lease.aclose()


async def test_a_file_that_grew_is_opened_anew(native_hdfs: HdfsServer, folder: str) -> None:
    path = f"{folder}/a"
    native_hdfs.put(path, b"0123456789")
    hdfs, lease = await _calls(native_hdfs, path)
    assert bytes(await hdfs.read(path, 8, 2)) == b"89"
    native_hdfs.call("POST", "APPEND", path, b"abc")
    assert bytes(await hdfs.read(path, 8, 5)) == b"89abc"
    await lease.aclose()


async def test_the_last_block_of_an_open_file(native_hdfs: HdfsServer, folder: str) -> None:
    """Its writer has told the NameNode its length, and others read it: hdfs-native once it is closed."""
    path = f"{folder}/a"
    hdfs, lease = await _calls(native_hdfs, path)
    writer = await anyio.to_thread.run_sync(lease.client.client.create, path, WITH_FOLDERS)
    await anyio.to_thread.run_sync(writer.write, b"x" * 1000)
    await anyio.to_thread.run_sync(writer.hsync)
    assert (await hdfs.status(path)).length == 1000
    assert native_hdfs.get(path) == b"x" * 1000
    with pytest.raises(Transient, match="webhdfs://"):
        await hdfs.read(path, 0, 1)
    with pytest.raises(ShortRead):
        await hdfs.read(path, 0, 1001)
    await anyio.to_thread.run_sync(writer.close)
    assert bytes(await hdfs.read(path, 0, 1000)) == b"x" * 1000
    await lease.aclose()


async def test_a_file_of_the_same_length_and_time_is_replaced(native_hdfs: HdfsServer, folder: str) -> None:
    """hdfs-native tells no ids, so these two say little of which file is there."""
    path = f"{folder}/a"
    native_hdfs.put(path, b"earlier")
    sink = await open_sink(native_hdfs.native_url(path))
    await sink.write(b"written")
    prepared = await sink.prepare()
    await sink.aclose()
    (temporary,) = [name for name in native_hdfs.names(folder) if name != "a"]
    modified = native_hdfs.status(f"{folder}/{temporary}")["modificationTime"]
    native_hdfs.call("PUT", "SETTIMES", path, modificationtime=str(modified))
    for _ in range(2):
        await commit(prepared)
        assert native_hdfs.get(path) == b"written"
        assert native_hdfs.names(folder) == ["a"]


async def _calls(server: HdfsServer, path: str) -> tuple[HdfsNative, Any]:
    url = server.native_url(path)
    lease = await lease_hdfs_native(place_of(url, url), {}, url)
    return HdfsNative(lease.client, url), lease


async def test_nothing_is_appended(native_hdfs: HdfsServer, folder: str) -> None:
    path = f"{folder}/a"
    native_hdfs.put(path, b"0123456789")
    hdfs, lease = await _calls(native_hdfs, path)
    assert not hdfs.appends
    for call in (hdfs.append(path, b"x"), hdfs.truncate(path, 1)):
        with pytest.raises(Unsupported, match="webhdfs://"):
            await call
    await lease.aclose()
    with pytest.raises(Unsupported, match="webhdfs://") as caught:
        await orcstream.create(native_hdfs.native_url(f"{folder}/b.orc"), SCHEMA, growing=True)
    assert caught.value.reason == "no_append"
    assert native_hdfs.names(folder) == ["a"]
    assert leased_clients() == 0


@dataclass
class Watched:
    """What is asked of hdfs-native's client and of its writers, which may be told to do otherwise."""

    asked: list[str] = field(default_factory=list)
    instead: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = field(default_factory=dict)

    def begin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make, watch = module._imported, self._watch

        class Asked:
            def __init__(self, client: Any) -> None:
                self._client = client

            def __getattr__(self, name: str) -> Any:
                return watch(name, getattr(self._client, name))

        class Package:
            WriteOptions = make().WriteOptions

            @staticmethod
            def Client(*arguments: Any, **options: Any) -> Asked:  # noqa: N802 - of hdfs-native
                return Asked(make().Client(*arguments, **options))

        monkeypatch.setattr(module, "_imported", lambda: Package)

    def _watch(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        if name in self.instead:
            method = self.instead[name](method)

        def run(*arguments: Any) -> Any:
            self.asked.append(name)
            answer = method(*arguments)
            if name == "create":
                for call in ("write", "hsync", "close"):
                    setattr(answer, call, self._watch(call, getattr(answer, call)))
            return answer

        return run


async def test_a_file_has_one_writer(
    native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never an append, which may leave replicas behind: each part goes to the writer that made the file."""
    watched = Watched()
    watched.begin(monkeypatch)
    sink = await open_sink(native_hdfs.native_url(f"{folder}/a"), sink_options={"part_bytes": 10})
    await sink.write(b"x" * 35)
    prepared = await sink.prepare()
    await sink.aclose()
    await commit(prepared)
    assert native_hdfs.get(f"{folder}/a") == b"x" * 35
    changes = [call for call in watched.asked if call != "get_file_info"]
    assert changes == ["create", "write", "write", "write", "write", "close", "rename"]


async def test_every_replica_has_every_byte(native_hdfs: HdfsServer, folder: str) -> None:
    """Of files that are written side by side, in parts, some of them of several blocks."""
    part, block = 70_000, 1 << 20
    lengths = [3 * part + number for number in range(15)]
    lengths += [block - 1, block, block + 1, 2 * block, 2 * block + part]

    async def write(number: int) -> None:
        sink = await open_sink(
            native_hdfs.native_url(f"{folder}/{number}"), sink_options={"part_bytes": part, "retries": 0}
        )
        await sink.write(_content(number, lengths[number]))
        prepared = await sink.prepare()
        await sink.aclose()
        await commit(prepared)

    async with anyio.create_task_group() as group:
        for number in range(len(lengths)):
            group.start_soon(write, number)
    replicas = native_hdfs.replicas(folder)
    for number, length in enumerate(lengths):
        assert native_hdfs.get(f"{folder}/{number}") == _content(number, length)
        assert replicas[f"{folder}/{number}"] == [_content(number, length)] * 2


def _content(number: int, length: int) -> bytes:
    return b"".join(b"%08d" % at for at in range(number, number + length // 8 + 1))[:length]


@pytest.mark.parametrize("call", ["write", "close"])
async def test_what_fails_ends_the_upload(
    call: str, native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that failed is neither used again nor closed, which would take it many seconds."""

    def fail(_: Callable[..., Any]) -> Callable[..., Any]:
        def run(*_: Any) -> None:
            raise RuntimeError('DataTransferError("All nodes failed for write")')

        return run

    watched = Watched(instead={call: fail})
    watched.begin(monkeypatch)
    sink = await open_sink(
        native_hdfs.native_url(f"{folder}/a"), sink_options={"part_bytes": 10, "retries": 3}
    )
    await sink.write(b"x" * 10)
    with pytest.raises(SinkError, match=r"All nodes failed for write.*\bwebhdfs://"):
        await sink.prepare()
    await sink.abort()
    gc.collect()
    assert watched.asked.count(call) == 1
    assert watched.asked.count("close") == (call == "close")
    assert native_hdfs.names(folder) == []
    assert leased_clients() == 0


async def test_an_abort_leaves_no_connection(native_hdfs: HdfsServer, folder: str) -> None:
    """A writer of hdfs-native that is only dropped keeps its connection to a DataNode, and heartbeats."""
    before = _sockets()
    keep = await open_sink(native_hdfs.native_url(f"{folder}/keep"))
    for number in range(10):
        sink = await open_sink(
            native_hdfs.native_url(f"{folder}/{number}"), sink_options={"part_bytes": 10_000}
        )
        await sink.write(b"x" * 100_000)
        await sink.abort()
    await until(lambda: _sockets() < before + 5)  # the client that is kept has one of its own
    await keep.aclose()
    assert native_hdfs.names(folder) == []


def _sockets() -> int:
    return sum(
        one.readlink().name.startswith("socket:")
        for one in Path("/proc/self/fd").iterdir()
        if one.is_symlink()
    )


@dataclass
class Hanging:
    """A call that waits for `go_on`."""

    hangs: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self.hangs.set()
            self.go_on.wait(60)
            try:
                return method(*arguments)
            finally:
                self.ended.set()

        return run


@pytest.mark.parametrize("call", ["write", "create", "close"])
async def test_cancelled_while_a_call_hangs(
    call: str, native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits is let go at once, the call finishes by itself, and nothing is left of the file."""
    hanging = Hanging()
    Watched(instead={call: hanging}).begin(monkeypatch)
    sink = await open_sink(
        native_hdfs.native_url(f"{folder}/a"),
        sink_options={"part_bytes": 10, "retries": 0, "abort_timeout_s": 20},
    )
    await sink.write(b"x" * 10)
    ending = asyncio.create_task(sink.prepare())
    await anyio.to_thread.run_sync(hanging.hangs.wait, 60)
    ending.cancel()
    await asyncio.wait([ending])
    if call == "create":
        hanging.go_on.set()  # a creation is waited for: what is made after a writer gave up would stay
    await sink.abort()
    assert native_hdfs.names(folder) == []
    hanging.go_on.set()
    await anyio.to_thread.run_sync(hanging.ended.wait, 60)
    assert native_hdfs.names(folder) == []
    url = native_hdfs.native_url(f"{folder}/a")
    assert await cleanup(url, older_than_s=0) == []
    assert leased_clients() == 0


async def test_a_part_that_is_not_taken_in_time(
    native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    Watched(instead={"write": hanging}).begin(monkeypatch)
    sink = await open_sink(
        native_hdfs.native_url(f"{folder}/a"), sink_options={"part_bytes": 10, "timeout_s": 0.5}
    )
    await sink.write(b"x" * 10)
    with pytest.raises(SinkError, match=r"\b0\.5 s\b"):
        await sink.prepare()
    await sink.abort()
    hanging.go_on.set()
    await anyio.to_thread.run_sync(hanging.ended.wait, 60)
    assert native_hdfs.names(folder) == []


async def test_an_upload_that_was_killed_is_cleaned_up(native_hdfs: HdfsServer, folder: str) -> None:
    """Its temporary is still open for writing."""
    path = f"{folder}/{temporary_name('a')}"
    _, lease = await _calls(native_hdfs, path)
    writer = await anyio.to_thread.run_sync(lease.client.client.create, path, WITH_FOLDERS)
    await anyio.to_thread.run_sync(writer.write, b"x" * 100_000)
    await anyio.to_thread.run_sync(writer.hsync)
    (found,) = await cleanup(native_hdfs.native_url(folder), older_than_s=0, remove=True)
    assert found.identity == path
    with pytest.raises(FileNotFoundError):
        await anyio.to_thread.run_sync(writer.close)
    io.RawIOBase.close(writer)  # or its finalizer tries again, and Python 3.13 reports the failure
    assert native_hdfs.names(folder) == []
    await lease.aclose()


async def test_a_cancelled_read(native_hdfs: HdfsServer, folder: str) -> None:
    data = bytes(range(256)) * 20_000
    native_hdfs.put(f"{folder}/a", data)
    source = await open_source(native_hdfs.native_url(f"{folder}/a"), storage_options=None, io_options=None)
    with anyio.move_on_after(0):
        await source.fetch(ByteRange(0, len(data)))
    async with anyio.create_task_group() as group:
        for start in range(0, len(data), 500_000):
            group.start_soon(source.fetch, ByteRange(start, min(len(data), start + 500_000)))
    assert bytes(await source.fetch(ByteRange(5, 300))) == data[5:300]
    await source.aclose()


async def test_a_growing_file_is_followed(native_hdfs: HdfsServer, folder: str) -> None:
    """Over WebHDFS, which appends to it, its blocks are closed between the appends."""
    url = native_hdfs.url(f"{folder}/a.orc")
    out = await orcstream.create(url, SCHEMA, growing=True, storage_options=native_hdfs.options)
    await out.write(rows(0, 5))
    await out.flush()
    url = native_hdfs.native_url(f"{folder}/a.orc")
    async with orcstream.open(url, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
        assert numbers(await anext(stream)) == [0, 1, 2, 3, 4]
        await out.write(rows(5, 7))
        await out.flush()
        assert numbers(await anext(stream)) == [5, 6]
        await out.commit()
        assert await all_of(stream) == []
    assert native_hdfs.names(folder) == ["a.orc"]
