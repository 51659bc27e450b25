"""Stores to write to, seen without a sink's help: what is visible there, and what was left behind.

With two fsspec file systems over one dictionary: of one, a move takes effect at once; of the other
it copies and deletes. As with real stores, closing a file object makes its file appear.
"""

from __future__ import annotations

import functools
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from orcstream import testing
from orcstream.io.contract.byte_sink import ByteSink, Prepared
from orcstream.io.sink import commit, discard, open_sink
from tests.servers.hdfs import start_hdfs
from tests.servers.loopback import MotoServer, start_moto
from tests.servers.s3_proxy import S3_KINDS, start_s3
from tests.support.effort import DENSE_TURNS

__all__ = [
    "BUCKET",
    "FILES",
    "SINK_STORES",
    "CopyingFileSystem",
    "DescribedSinkStore",
    "RenamingFileSystem",
    "SinkStore",
    "uploads_of",
]

BUCKET = "sinks"
# Path to (content, time).
FILES: dict[str, tuple[bytes, float]] = {}


@dataclass
class SinkStore:
    """`seen` answers what is visible under a name, `left` the hidden things there are."""

    url_of: Callable[[str], str]
    put: Callable[[str, bytes], None]
    seen: Callable[[str], bytes | None]
    left: Callable[[], list[str]]
    options: Mapping[str, Any] | None = None
    part_bytes: int = 1000
    is_undated: bool = False  # moto says of every upload that it was begun in 2010
    sink_options: dict[str, Any] = field(default_factory=dict)
    stranger: Mapping[str, Any] | None = None  # options of one who may not write there

    def tuned(self, **more: Any) -> dict[str, Any]:
        quick = {"part_bytes": self.part_bytes, "retries": 1, "abort_timeout_s": 20}
        return {**quick, **self.sink_options, **more}

    async def open(self, name: str, *, overwrite: bool = True, **more: Any) -> ByteSink:
        return await open_sink(
            self.url_of(name),
            storage_options=self.options,
            sink_options=self.tuned(**more),
            overwrite=overwrite,
        )

    async def commit(self, prepared: Prepared, **more: Any) -> None:
        await commit(prepared, storage_options=self.options, sink_options=self.tuned(**more))

    async def discard(self, prepared: Prepared) -> None:
        await discard(prepared, storage_options=self.options, sink_options=self.tuned())

    async def write(self, name: str, data: bytes, *, overwrite: bool = True) -> Prepared:
        sink = await self.open(name, overwrite=overwrite)
        try:
            await sink.write(data)
            return await sink.prepare()
        finally:
            await sink.aclose()


class DescribedSinkStore(testing.SinkStore):
    """A store as the shipped checks want it described."""

    def __init__(self, store: SinkStore) -> None:
        self._store = store
        self.storage_options = store.options
        self.sink_options = store.sink_options
        self.part_bytes = store.part_bytes
        self.tells_age = not store.is_undated
        self.commits_at_once = not store.sink_options.get("allow_non_atomic", False)
        self.dense_turns = DENSE_TURNS if store.part_bytes < 10_000 else 4

    def url_of(self, name: str) -> str:
        return self._store.url_of(name)

    async def put(self, name: str, data: bytes) -> None:
        self._store.put(name, data)

    async def seen(self, name: str) -> bytes | None:
        return self._store.seen(name)

    async def left(self) -> list[str]:
        return self._store.left()

    async def forbid(self, name: str) -> bool:  # noqa: ARG002 - nothing may be written there
        self.storage_options = self._store.stranger or self.storage_options
        return self._store.stranger is not None


class _Written(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            FILES[self._path] = (self.getvalue(), time.time())
        super().close()


class CopyingFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A move is what fsspec makes of it: a copy, and then a removal."""

    protocol = "copytest"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path in FILES:
            return {"name": path, "size": len(FILES[path][0]), "type": "file", "mtime": FILES[path][1]}
        if any(name.startswith(f"{path}/") for name in FILES):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        found = [self.info(name) for name in FILES if self._parent(name) == path]
        return found if detail else [one["name"] for one in found]

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        assert mode == "wb"
        return _Written(self._strip_protocol(path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return FILES[self._strip_protocol(path)][0][start:end]

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        FILES[self._strip_protocol(path2)] = FILES[self._strip_protocol(path1)]

    def rm_file(self, path: str) -> None:
        if FILES.pop(self._strip_protocol(path), None) is None:
            raise FileNotFoundError(path)


class RenamingFileSystem(CopyingFileSystem):
    """Its sink knows how to rename at once."""

    protocol = "renametest"

    def rename_now(self, source: str, target: str, *, overwrite: bool) -> None:
        if not overwrite and target in FILES:
            raise FileExistsError(target)
        FILES[target] = FILES.pop(source)


fsspec.register_implementation("copytest", CopyingFileSystem, clobber=True)
fsspec.register_implementation("renametest", RenamingFileSystem, clobber=True)


def rename_at_once(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    filesystem.rename_now(source, target, overwrite=overwrite)


def local_store(folder: Path, *, as_url: bool = False) -> SinkStore:
    folder = folder / "a b%20c"
    folder.mkdir()
    names: set[str] = set()

    def url_of(name: str) -> str:
        names.add(name)
        return f"file://{folder / name}" if as_url else str(folder / name)

    def put(name: str, data: bytes) -> None:
        names.add(name)
        (folder / name).write_bytes(data)

    def seen(name: str) -> bytes | None:
        return (folder / name).read_bytes() if (folder / name).exists() else None

    return SinkStore(url_of, put, seen, lambda: [p.name for p in folder.iterdir() if p.name not in names])


def memory_store() -> SinkStore:
    prefix = "/sinks/"
    for path in [path for path in MemoryFileSystem.store if path.startswith(prefix)]:
        del MemoryFileSystem.store[path]
    names: set[str] = set()

    def url_of(name: str) -> str:
        names.add(name)
        return f"memory:/{prefix}{name}"

    def put(name: str, data: bytes) -> None:
        MemoryFileSystem().pipe_file(prefix + name, data)

    def seen(name: str) -> bytes | None:
        file = MemoryFileSystem.store.get(prefix + name)
        return None if file is None else file.getvalue()

    def left() -> list[str]:
        return [p for p in MemoryFileSystem.store if p.startswith(prefix) and p[len(prefix) :] not in names]

    return SinkStore(url_of, put, seen, left)


def filesystem_store(kind: str) -> SinkStore:
    FILES.clear()
    names: set[str] = set()

    def url_of(name: str) -> str:
        names.add(name)
        return f"{kind}://sinks/{name}"

    def put(name: str, data: bytes) -> None:
        FILES[f"sinks/{name}"] = (data, time.time())

    def seen(name: str) -> bytes | None:
        return FILES.get(f"sinks/{name}", (None, 0.0))[0]

    def left() -> list[str]:
        return [path for path in FILES if path.removeprefix("sinks/") not in names]

    more = {"allow_non_atomic": True} if kind == "copytest" else {}
    return SinkStore(url_of, put, seen, left, sink_options=more)


def uploads_of(server: MotoServer) -> list[str]:
    """The unfinished uploads of the test's bucket."""
    answer = server.client.list_multipart_uploads(Bucket=BUCKET)
    return [one["UploadId"] for one in answer.get("Uploads") or ()]


def s3_store(server: MotoServer, folder: str, endpoint: str | None = None) -> SinkStore:
    client = server.client
    if BUCKET not in [one["Name"] for one in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    for upload in client.list_multipart_uploads(Bucket=BUCKET).get("Uploads") or ():
        client.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])

    def put(name: str, data: bytes) -> None:
        client.put_object(Bucket=BUCKET, Key=f"{folder}/{name}", Body=data)

    def seen(name: str) -> bytes | None:
        try:
            body: bytes = client.get_object(Bucket=BUCKET, Key=f"{folder}/{name}")["Body"].read()
        except client.exceptions.NoSuchKey:
            return None
        return body

    return SinkStore(
        lambda name: f"s3://{BUCKET}/{folder}/{name}",
        put,
        seen,
        lambda: uploads_of(server),
        options=server.options | {"endpoint_url": endpoint or server.endpoint},
        part_bytes=5 << 20,
        is_undated=server is start_moto(),
        stranger=None if server is start_moto() else {**server.options, "secret": "another"},
    )


def hdfs_store(kind: str, name: str) -> SinkStore:
    is_native = kind == "hdfs_native"
    server, names = start_hdfs(), set()
    # Letters that mean something in URLs, queries and forms, and none of it in a path.
    folder = f"/sinks/{name}/a b%20c;ü+&=?#"
    server.call("PUT", "MKDIRS", folder)

    def url_of(name: str) -> str:
        names.add(name)
        path = f"{folder}/{name}"
        return server.native_url(path) if is_native else server.url(path)

    def put(name: str, data: bytes) -> None:
        names.add(name)
        server.put(f"{folder}/{name}", data)

    def seen(name: str) -> bytes | None:
        try:
            return server.get(f"{folder}/{name}")
        except FileNotFoundError:
            return None

    def left() -> list[str]:
        return [name for name in server.names(folder) if name not in names]

    return SinkStore(
        url_of,
        put,
        seen,
        left,
        options=None if is_native else server.options,
        part_bytes=70_000,
        stranger=None if is_native else {"user": "stranger"},
    )


def _s3(kind: str, folder: Path) -> SinkStore:
    return s3_store(start_s3(kind), f"a b/ü+{folder.name}")


# A new store is a function that makes one, and a line here.
SINK_STORES: dict[str, Callable[[Path], SinkStore]] = {
    "local": local_store,
    "file_url": functools.partial(local_store, as_url=True),
    "memory": lambda _: memory_store(),
    "copytest": lambda _: filesystem_store("copytest"),
    "renametest": lambda _: filesystem_store("renametest"),
    "hdfs": lambda folder: hdfs_store("hdfs", folder.name),
    # Its user is the environment's, HADOOP_USER_NAME.
    "hdfs_native": lambda folder: hdfs_store("hdfs_native", folder.name),
    **{kind: functools.partial(_s3, kind) for kind in S3_KINDS},
}


def make_store(kind: str, folder: Path) -> SinkStore:
    return SINK_STORES[kind](folder)
