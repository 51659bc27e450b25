"""Stores to read from, described as anybody describes theirs: how files come there without a source's help.

A new store is a class, or a function that makes one, and a line in `SOURCE_STORES`.
"""

from __future__ import annotations

import functools
import itertools
import os
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.cached import SimpleCacheFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from orcstream.testing import SourceStore
from tests.servers.filesystems import FILES
from tests.servers.hdfs import USER, HdfsServer, start_hdfs
from tests.servers.loopback import MotoServer, RangeServer, range_server
from tests.servers.nginx import AWKWARD, Nginx, start_nginx
from tests.servers.s3_proxy import S3_KINDS, start_s3
from tests.support.effort import DENSE_TURNS

__all__ = ["SOURCE_STORES", "WebServer", "make_source_store", "range_server"]

Maker = Callable[[pytest.FixtureRequest, Path], SourceStore]
BUCKET = "contract"


class LocalFiles(SourceStore):
    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder / "a b%20c"
        self._folder.mkdir(exist_ok=True)
        self._prefix = prefix
        self._times = itertools.count(1)

    def url_of(self, name: str) -> str:
        return f"{self._prefix}{self._folder / name}"

    async def put(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.write_bytes(data)
        # Two writes within one tick of the kernel's clock would have the same time.
        time_ns = next(self._times) * 10**9
        os.utime(path, ns=(time_ns, time_ns))

    async def remove(self, name: str) -> bool:
        (self._folder / name).unlink()
        return True

    async def forbid(self, name: str) -> bool:
        (self._folder / name).chmod(0)
        return os.geteuid() != 0


class MemoryFiles(SourceStore):
    def url_of(self, name: str) -> str:
        return f"memory://contract/{name}"

    async def put(self, name: str, data: bytes) -> None:
        MemoryFileSystem().pipe_file(f"/contract/{name}", data)

    async def remove(self, name: str) -> bool:
        MemoryFileSystem().rm_file(f"/contract/{name}")
        return True


class WebServer(SourceStore):
    answers_in_pieces = True

    def __init__(self, server: RangeServer, kind: str) -> None:
        self.server = server
        server.ranges = kind != "http_whole"
        server.suffix_ranges = kind != "http_no_suffix"
        server.etag = {"http_weak_etag": "weak", "http_no_etag": None}.get(kind, "strong")
        if kind == "http_whole":
            # Came whole with the first answer, so all that is handed out is of one version.
            self.replaced = "kept"
            self.answers_in_pieces = False
            self.long_bytes = 100_000
        self._seconds = itertools.count(10)

    def url_of(self, name: str) -> str:
        return f"{self.server.url}/{urllib.parse.quote(name)}"

    async def put(self, name: str, data: bytes) -> None:
        self.server.modified = f"Sat, 21 Nov 2020 07:00:{next(self._seconds)} GMT"
        self.server.serve(name, data)

    async def remove(self, name: str) -> bool:
        del self.server.files[f"/{name}"]
        return True

    async def forbid(self, name: str) -> bool:  # noqa: ARG002 - the next request
        self.server.statuses.append((403, {}))
        return True

    async def cut_answers(self, missing: int) -> bool:
        self.server.cut = missing
        return self.server.ranges  # else there is one answer, and it was before


class NginxFiles(SourceStore):
    answers_in_pieces = True
    dense_turns = 6

    def __init__(self, server: Nginx, folder: str) -> None:
        self._server = server
        self._folder = f"{folder}/{AWKWARD}"

    def url_of(self, name: str) -> str:
        return self._server.url(f"{self._folder}/{name}")

    async def put(self, name: str, data: bytes) -> None:
        self._server.put(f"{self._folder}/{name}", data)

    async def remove(self, name: str) -> bool:
        self._server.path(f"{self._folder}/{name}").unlink()
        return True

    async def forbid(self, name: str) -> bool:
        self._server.path(f"{self._folder}/{name}.forbidden").touch()
        return True


class S3Objects(SourceStore):
    answers_in_pieces = True
    dense_turns = 6

    def __init__(
        self, server: MotoServer, folder: str, *, called: bool = False, guarded: bool = False
    ) -> None:
        self._client = server.client
        self._folder = f"{folder}/a b/ü+"
        self._guarded = guarded
        self.storage_options = dict(server.options)
        if called:
            # Anything about proxies makes the source leave every request to s3fs.
            self.storage_options |= {"config_kwargs": {"proxies": {}}}
            self.answers_in_pieces = False
        if BUCKET not in [one["Name"] for one in self._client.list_buckets()["Buckets"]]:
            self._client.create_bucket(Bucket=BUCKET)

    def url_of(self, name: str) -> str:
        return f"s3://{BUCKET}/{self._folder}{name}"

    async def put(self, name: str, data: bytes) -> None:
        self._client.put_object(Bucket=BUCKET, Key=f"{self._folder}{name}", Body=data)

    async def remove(self, name: str) -> bool:
        self._client.delete_object(Bucket=BUCKET, Key=f"{self._folder}{name}")
        return True

    async def forbid(self, name: str) -> bool:  # noqa: ARG002 - all of the bucket
        self.storage_options = {**(self.storage_options or {}), "secret": "another"}
        return self._guarded


class FakeFiles(SourceStore):
    """The file systems of tests.servers.filesystems."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def url_of(self, name: str) -> str:
        return f"{self._prefix}contract/{name}"

    async def put(self, name: str, data: bytes) -> None:
        path = f"contract/{name}"
        FILES[path] = (data, FILES.get(path, (b"", 0))[1] + 1)

    async def remove(self, name: str) -> bool:
        del FILES[f"contract/{name}"]
        return True


class HdfsFiles(SourceStore):
    dense_turns = 6

    def __init__(self, server: HdfsServer, folder: str) -> None:
        self._server = server
        # Letters that mean something in URLs, queries and forms, and none of it in a path.
        self._folder = f"/sources/{folder}/a b%20c;ü+&=?#"
        self.storage_options = server.options

    def url_of(self, name: str) -> str:
        return self._server.url(f"{self._folder}/{name}")

    async def put(self, name: str, data: bytes) -> None:
        self._server.put(f"{self._folder}/{name}", data)

    async def remove(self, name: str) -> bool:
        self._server.delete(f"{self._folder}/{name}")
        return True

    async def forbid(self, name: str) -> bool:
        self._server.call("PUT", "SETPERMISSION", f"{self._folder}/{name}", permission="600")
        self.storage_options = {"user": "stranger"}
        return True


class NativeHdfsFiles(HdfsFiles):
    """Over hdfs-native, whose user is the environment's."""

    def __init__(self, server: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(server, folder)
        self.storage_options = None
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HADOOP_USER_NAME", USER)

    def url_of(self, name: str) -> str:
        return self._server.native_url(f"{self._folder}/{name}")

    async def forbid(self, name: str) -> bool:
        await super().forbid(name)
        self.storage_options = None
        self._monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
        return True


def _native(request: pytest.FixtureRequest, folder: Path) -> SourceStore:
    return NativeHdfsFiles(start_hdfs(), folder.name, request.getfixturevalue("monkeypatch"))


def _local(prefix: str, _: pytest.FixtureRequest, folder: Path) -> SourceStore:
    return LocalFiles(folder, prefix)


def _web(kind: str, request: pytest.FixtureRequest, _: Path) -> SourceStore:
    return WebServer(request.getfixturevalue("range_server"), kind)


def _s3(kind: str, called: bool, _: pytest.FixtureRequest, folder: Path) -> SourceStore:
    # moto believes everybody.
    return S3Objects(start_s3(kind), folder.name, called=called, guarded=kind != "moto")


def _fake(prefix: str, _: pytest.FixtureRequest, __: Path) -> SourceStore:
    # fsspec shares instances by thread, whose numbers come again: an earlier test's files would be met.
    SimpleCacheFileSystem.clear_instance_cache()
    return FakeFiles(prefix)


WEB_KINDS = ("http", "http_weak_etag", "http_no_etag", "http_no_suffix", "http_whole")
SOURCE_STORES: dict[str, Maker] = {
    "local": functools.partial(_local, ""),
    "file_url": functools.partial(_local, "file://"),
    "memory": lambda _, __: MemoryFiles(),
    **{kind: functools.partial(_web, kind) for kind in WEB_KINDS},
    "nginx": lambda _, folder: NginxFiles(start_nginx(), folder.name),
    **{kind: functools.partial(_s3, kind, False) for kind in S3_KINDS},
    **{f"{kind}_called": functools.partial(_s3, kind, True) for kind in S3_KINDS},
    "loop_filesystem": functools.partial(_fake, "looptest://"),
    "thread_filesystem": functools.partial(_fake, "threadtest://"),
    "chain": functools.partial(_fake, "simplecache::threadtest://"),
    "hdfs": lambda _, folder: HdfsFiles(start_hdfs(), folder.name),
    "hdfs_native": _native,
}


def make_source_store(request: pytest.FixtureRequest, folder: Path) -> SourceStore:
    """The store that the test's parameter names."""
    store = SOURCE_STORES[request.param](request, folder)
    store.dense_turns = min(store.dense_turns, DENSE_TURNS)
    return store
