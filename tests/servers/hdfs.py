"""HDFS for tests: one NameNode and two DataNodes in a JVM, on the loopback, over WebHDFS and RPC.

What tests put and look at here goes through `http.client`, without any of the package's own code.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import json
import re
import socket
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers.java_server import start_java_server

__all__ = [
    "USER",
    "FaultyHdfs",
    "GuardedHdfs",
    "HdfsServer",
    "faulty_hdfs",
    "guarded_hdfs",
    "hdfs_server",
    "native_hdfs",
    "start_hdfs",
    "write_configuration",
]

PROGRAM = Path(__file__).with_name("hdfs_server") / "MiniHdfs.java"
REPLICA = "orcstream-hdfs*/data/data*/current/{}/current/finalized/*/*/{}"
# Who starts HDFS may do everything there.
USER = "starter"


@dataclass(frozen=True)
class HdfsServer:
    """The calls of a test, which may do everything; paths are absolute and plain."""

    port: int
    rpc_port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"webhdfs://{self.address}{path}"

    def native_url(self, path: str) -> str:
        """For hdfs-native, which knows its user from ``HADOOP_USER_NAME`` (`native_hdfs`)."""
        return f"hdfs://127.0.0.1:{self.rpc_port}{path}"

    @property
    def options(self) -> dict[str, Any]:
        return {"user": USER}

    def call(self, method: str, op: str, path: str, body: bytes | None = None, **options: str) -> bytes:
        """One call, which goes on where it is redirected to; `FileNotFoundError` for status 404."""
        query = urllib.parse.urlencode({"op": op, "user.name": USER, **options})
        status, answer, location = _request(
            method, self.address, f"/webhdfs/v1{urllib.parse.quote(path)}?{query}"
        )
        if status == 307:
            target = urllib.parse.urlsplit(location)
            status, answer, _ = _request(method, target.netloc, f"{target.path}?{target.query}", body or b"")
        if status == 404:
            raise FileNotFoundError(path)
        assert status in (200, 201), (status, answer)
        return answer

    def put(self, path: str, data: bytes) -> None:
        self.call("PUT", "CREATE", path, data, overwrite="true")

    def get(self, path: str) -> bytes:
        """A file's bytes; asked for anew where it was replaced after the DataNode had sent its header."""
        for _ in range(5):
            with contextlib.suppress(http.client.IncompleteRead):
                return self.call("GET", "OPEN", path)
        raise AssertionError(f"{path}: five answers in a row were cut")

    def delete(self, path: str) -> None:
        self.call("DELETE", "DELETE", path, recursive="true")

    def status(self, path: str) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.call("GET", "GETFILESTATUS", path))["FileStatus"]
        return status

    def replicas(self, folder: str) -> dict[str, list[bytes]]:
        """Each file of a folder, as its replicas have it on the disks of the DataNodes."""
        query = urllib.parse.urlencode({"ugi": USER, "path": folder, "files": "1", "blocks": "1"})
        _, answer, _ = _request("GET", self.address, f"/fsck?{query}")
        found: dict[str, list[bytes]] = {}
        for path, blocks in re.findall(r"(?m)^(/\S+) \d+ bytes,.*\n((?:\d+\. BP-.*\n)*)", answer.decode()):
            copies = [_copies(*block) for block in re.findall(r"(BP-[\w.-]+):(blk_\d+)_", blocks)]
            found[path] = [b"".join(parts) for parts in zip(*copies, strict=True)]
        return found

    def names(self, path: str) -> list[str]:
        listed = json.loads(self.call("GET", "LISTSTATUS", path))
        return [one["pathSuffix"] for one in listed["FileStatuses"]["FileStatus"]]


def _copies(pool: str, block: str) -> list[bytes]:
    folder = Path(tempfile.gettempdir())
    return [one.read_bytes() for one in folder.glob(REPLICA.format(pool, block))]


def _request(method: str, address: str, target: str, body: bytes | None = None) -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, target, body, {"Content-Type": "application/octet-stream"})
        response = connection.getresponse()
        return response.status, response.read(), response.headers.get("Location", "")
    finally:
        connection.close()


@functools.cache
def start_hdfs() -> HdfsServer:
    """The one HDFS of this process, started by whoever asks first."""
    return HdfsServer(*start_java_server("hdfs", PROGRAM, environment={"HADOOP_USER_NAME": USER}))


@pytest.fixture
def hdfs_server() -> HdfsServer:
    """One for all; asked for by each test, so that each is told of where there is none."""
    return start_hdfs()


@pytest.fixture
def native_hdfs(hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> HdfsServer:
    """The same, whose user is the one that hdfs-native goes by."""
    monkeypatch.setenv("HADOOP_USER_NAME", USER)
    return hdfs_server


@dataclass(frozen=True)
class FaultyHdfs:
    """One NameNode and two DataNodes, of which one can be stopped; the NameNode takes it for alive."""

    server: HdfsServer
    control_port: int

    def stop(self, number: int) -> None:
        self._order(f"stop {number}")

    def start(self) -> None:
        """Start what was stopped, if anything was."""
        self._order("start")

    def _order(self, order: str) -> None:
        with socket.create_connection(("127.0.0.1", self.control_port), timeout=60) as connection:
            connection.sendall(f"{order}\n".encode())
            assert connection.recv(10) == b"done"


@functools.cache
def start_faulty_hdfs() -> FaultyHdfs:
    http_port, rpc_port, control_port = start_java_server(
        "hdfs", PROGRAM, "faulty", environment={"HADOOP_USER_NAME": USER}
    )
    return FaultyHdfs(HdfsServer(http_port, rpc_port), control_port)


@pytest.fixture
def faulty_hdfs(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyHdfs]:
    """Both DataNodes are up before and after a test."""
    monkeypatch.setenv("HADOOP_USER_NAME", USER)
    faulty = start_faulty_hdfs()
    try:
        yield faulty
    finally:
        faulty.start()


@dataclass(frozen=True)
class GuardedHdfs:
    """Two NameNodes, of which the second is active; WebHDFS looks at tokens."""

    ports: tuple[int, ...]
    """For HTTP and RPC, of the one in stand-by and of the active one."""
    tokens: Path
    """A folder: ``tokens-writable`` and ``tokens-protobuf``, as Hadoop writes them."""

    @property
    def active(self) -> HdfsServer:
        return HdfsServer(*self.ports[2:])

    def properties(self) -> dict[str, str]:
        """The configuration of a client: the name service ``minidfs-ns``, with the one in stand-by first."""
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        return {
            "fs.defaultFS": "hdfs://minidfs-ns",
            "dfs.nameservices": "minidfs-ns",
            "dfs.ha.namenodes.minidfs-ns": "nn1,nn2",
            "dfs.namenode.http-address.minidfs-ns.nn1": addresses[0],
            "dfs.namenode.rpc-address.minidfs-ns.nn1": addresses[1],
            "dfs.namenode.http-address.minidfs-ns.nn2": addresses[2],
            "dfs.namenode.rpc-address.minidfs-ns.nn2": addresses[3],
        }


def write_configuration(folder: Path, properties: Mapping[str, str]) -> None:
    """A configuration folder of Hadoop's: what is named ``dfs.…`` in one file, the rest in the other."""
    for name, is_mine in (("core-site.xml", False), ("hdfs-site.xml", True)):
        pairs = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in properties.items()
            if key.startswith("dfs.") is is_mine
        )
        (folder / name).write_text(f'<?xml version="1.0"?><configuration>{pairs}</configuration>')


@functools.cache
def start_guarded_hdfs() -> GuardedHdfs:
    folder = tempfile.TemporaryDirectory(prefix="orcstream-tokens")
    atexit.register(folder.cleanup)
    ports = start_java_server("hdfs", PROGRAM, "guarded", folder.name, environment={"HADOOP_USER_NAME": USER})
    return GuardedHdfs(tuple(ports), Path(folder.name))


@pytest.fixture
def guarded_hdfs() -> GuardedHdfs:
    return start_guarded_hdfs()
