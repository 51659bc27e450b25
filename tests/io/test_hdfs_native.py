"""HDFS over its own RPC: what hdfs-native answers and refuses, and reading and writing through it."""

from __future__ import annotations

import asyncio
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
from orcstream.io import hdfs_native as module
from orcstream.io.byte_sink import temporary_name
from orcstream.io.byte_source import Transient
from orcstream.io.clients import leased_clients
from orcstream.io.hdfs import HdfsRefusal, StandBy, place_of
from orcstream.io.hdfs_native import HdfsNative, NativeConnection, lease_hdfs_native
from orcstream.io.sink import cleanup, commit, open_sink
from orcstream.io.source import open_source
from tests.io.test_follow import POLL_S, all_of, numbers, rows
from tests.support.hdfs import HdfsServer, hdfs_server, native_hdfs

__all__ = ["hdfs_server", "native_hdfs"]  # fixtures

SCHEMA = "struct<n:bigint>"
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
    with pytest.raises(SourceError, match="hdfs-native failed: at file"):
        await hdfs.status("/a")


async def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    for url in ("hdfs://nn/a.orc", "viewfs://nn/a.orc"):
        with pytest.raises(UsageError, match=r"pip install 'orcstream\[hdfs\]'; or use webhdfs://"):
            await orcstream.open(url)
    assert leased_clients() == 0


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("hdfs://nn/a", {"user": "me"}, "HADOOP_USER_NAME"),
        ("hdfs://me@nn/a", {}, "HADOOP_USER_NAME"),
        ("hdfs://nn/a", {"token": "t"}, "HADOOP_TOKEN_FILE_LOCATION"),
        ("hdfs://nn/a", {"replication": 1}, "property of Hadoop's"),
        ("hdfs://nn/a", {"dfs.replication": 1}, "property of Hadoop's"),
        ("hdfs:///a", {}, "fs.defaultFS"),
        ("hdfs://no-such-service/a", {}, "NameNode"),
        ("hdfs://nn:1/a", {"hadoop_conf_dir": "/nowhere"}, "no folder"),
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
    await hdfs.append(path, b"abc")
    assert bytes(await hdfs.read(path, 8, 5)) == b"89abc"
    with pytest.raises(FileNotFoundError):
        await hdfs.read(f"{path}b", 0, 1)
    with pytest.raises(Unsupported):
        await hdfs.truncate(path, 1)
    await lease.aclose()


async def test_a_file_that_grew_is_opened_anew(native_hdfs: HdfsServer, folder: str) -> None:
    path = f"{folder}/a"
    native_hdfs.put(path, b"0123456789")
    hdfs, lease = await _calls(native_hdfs, path)
    assert bytes(await hdfs.read(path, 8, 2)) == b"89"
    await hdfs.append(path, b"abc")
    assert bytes(await hdfs.read(path, 8, 5)) == b"89abc"
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


async def test_an_append_that_broke_off_is_closed(native_hdfs: HdfsServer, folder: str) -> None:
    """As after a killed writer: its lease is taken from it, and the file goes on from what had arrived."""
    path = f"{folder}/{temporary_name('a')}"
    hdfs, lease = await _calls(native_hdfs, path)
    await hdfs.create(path)
    writer = await anyio.to_thread.run_sync(lease.client.client.append, path)
    await anyio.to_thread.run_sync(writer.write, b"x" * 100_000)
    await anyio.to_thread.run_sync(writer.hsync)
    for _ in range(20):  # each waits for some seconds
        try:
            await hdfs.append(path, b"y")
        except Transient:
            continue
        break
    assert native_hdfs.get(path) == b"x" * 100_000 + b"y"
    await lease.aclose()


async def test_who_writes_a_file_of_a_known_name_is_left_alone(
    native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{folder}/a"
    hdfs, lease = await _calls(native_hdfs, path)
    await hdfs.create(path)
    writer = await anyio.to_thread.run_sync(lease.client.client.append, path)
    await anyio.to_thread.run_sync(writer.write, b"x")
    await anyio.to_thread.run_sync(writer.hsync)
    monkeypatch.setattr(module, "LEASE_WAITS_S", (0.01,))
    with pytest.raises(Transient, match=r"somebody has the file open.*recoverLease"):
        await hdfs.append(path, b"y")
    await anyio.to_thread.run_sync(writer.write, b"x" * 100)
    await anyio.to_thread.run_sync(writer.close)
    await hdfs.append(path, b"y")
    assert native_hdfs.get(path) == b"x" * 101 + b"y"
    await lease.aclose()


@dataclass
class Hanging:
    """One of the client's calls waits for `go_on`."""

    hangs: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def begin(self, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
        make, slow = module._imported, self._slow

        class Slow:
            def __init__(self, client: Any) -> None:
                self._client = client

            def __getattr__(self, name: str) -> Any:
                method = getattr(self._client, name)
                return slow(method) if name == call else method

        class Package:
            WriteOptions = make().WriteOptions

            @staticmethod
            def Client(*arguments: Any, **options: Any) -> Slow:  # noqa: N802 - of hdfs-native
                return Slow(make().Client(*arguments, **options))

        monkeypatch.setattr(module, "_imported", lambda: Package)

    def _slow(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self.hangs.set()
            self.go_on.wait(60)
            try:
                return method(*arguments)
            finally:
                self.ended.set()

        return run


@pytest.mark.parametrize("native_cancel", [True, False])
async def test_a_growing_file_that_is_cancelled_while_it_is_made(
    native_cancel: bool, native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    hanging.begin("create", monkeypatch)
    scope = anyio.CancelScope()

    async def make() -> None:
        with scope:
            await orcstream.create(native_hdfs.native_url(f"{folder}/a.orc"), SCHEMA, growing=True)

    making = asyncio.create_task(make())
    await anyio.to_thread.run_sync(hanging.hangs.wait, 60)
    if native_cancel:
        making.cancel()
    else:
        scope.cancel()
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    hanging.go_on.set()
    await asyncio.wait([making])
    await anyio.to_thread.run_sync(hanging.ended.wait, 60)
    assert native_hdfs.names(folder) == []
    assert making.cancelled() == native_cancel
    assert leased_clients() == 0


@pytest.mark.parametrize("call", ["append", "create"])
async def test_cancelled_while_a_call_hangs(
    call: str, native_hdfs: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits is let go at once, the call finishes by itself, and nothing is left of the file."""
    hanging = Hanging()
    hanging.begin(call, monkeypatch)
    sink = await open_sink(
        native_hdfs.native_url(f"{folder}/a"),
        sink_options={"part_bytes": 10, "retries": 0, "abort_timeout_s": 20},
    )
    await sink.write(b"x" * 10)
    await anyio.to_thread.run_sync(hanging.hangs.wait, 60)
    if call == "create":
        hanging.go_on.set()  # a creation is waited for: what is made after a writer gave up would stay
    await sink.abort()
    hanging.go_on.set()
    await anyio.to_thread.run_sync(hanging.ended.wait, 60)
    assert native_hdfs.names(folder) == []
    url = native_hdfs.native_url(f"{folder}/a")
    assert await cleanup(url, older_than_s=0) == []
    assert leased_clients() == 0


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


async def test_a_growing_file(native_hdfs: HdfsServer, folder: str) -> None:
    url = native_hdfs.native_url(f"{folder}/a.orc")
    out = await orcstream.create(url, SCHEMA, growing=True)
    await out.write(rows(0, 5))
    await out.flush()
    async with orcstream.open(url, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
        assert numbers(await anext(stream)) == [0, 1, 2, 3, 4]
        await out.write(rows(5, 7))
        await out.flush()
        assert numbers(await anext(stream)) == [5, 6]
        await out.commit()
        assert await all_of(stream) == []
    assert native_hdfs.names(folder) == ["a.orc"]


async def test_an_aborted_growing_file_keeps_its_last_flush(native_hdfs: HdfsServer, folder: str) -> None:
    """hdfs-native cannot cut files off: what came after the last flush stays, and nobody reads it."""
    url = native_hdfs.native_url(f"{folder}/a.orc")
    out = await orcstream.create(
        url, SCHEMA, growing=True, compression="none", sink_options={"part_bytes": 100}
    )
    await out.write(rows(0, 5))
    await out.flush()
    await out.write([{"n": number**5} for number in range(1000)])
    await out.end_stripe()
    await out.write([{"n": 1}])
    await out.end_stripe()
    with pytest.raises(SinkError, match="followed up to the last flush"):
        await out.abort()
    assert native_hdfs.names(folder) == ["a.orc", "a.orc_flush_length"]
    async with orcstream.open(url, follow=True) as file:
        assert (file.row_count, file.is_complete) == (5, False)
    empty = await orcstream.create(native_hdfs.native_url(f"{folder}/b.orc"), SCHEMA, growing=True)
    await empty.abort()
    assert native_hdfs.names(folder) == ["a.orc", "a.orc_flush_length"]
