"""HDFS for tests: one NameNode and two DataNodes in a JVM, on the loopback, with WebHDFS.

`make servers` fetches its jars. Where they are missing, tests that need it are skipped, each by its name.
The JVM ends with this process, whatever ends it, because its standard input does. What tests put and look at
here goes through `http.client`, without any of the package's own code.
"""

from __future__ import annotations

import atexit
import functools
import http.client
import json
import os
import subprocess
import tempfile
import threading
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["HdfsServer", "hdfs_server", "missing_hdfs", "start_hdfs"]

JARS = Path(__file__).resolve().parents[2] / ".cache" / "hdfs"
PROGRAM = Path(__file__).with_name("hdfs_server") / "MiniHdfs.java"
START_TIMEOUT_S = 90
JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")
# Who starts HDFS may do everything there.
USER = "starter"


@dataclass(frozen=True)
class HdfsServer:
    """The calls of a test, which may do everything; paths are absolute and plain."""

    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"webhdfs://{self.address}{path}"

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
        return self.call("GET", "OPEN", path)

    def delete(self, path: str) -> None:
        self.call("DELETE", "DELETE", path, recursive="true")

    def status(self, path: str) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.call("GET", "GETFILESTATUS", path))["FileStatus"]
        return status

    def names(self, path: str) -> list[str]:
        listed = json.loads(self.call("GET", "LISTSTATUS", path))
        return [one["pathSuffix"] for one in listed["FileStatuses"]["FileStatus"]]


def _request(method: str, address: str, target: str, body: bytes | None = None) -> tuple[int, bytes, str]:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, target, body, {"Content-Type": "application/octet-stream"})
        response = connection.getresponse()
        return response.status, response.read(), response.headers.get("Location", "")
    finally:
        connection.close()


def missing_hdfs() -> str | None:
    """What HDFS lacks on this machine, in words; None when it can be started."""
    if (JARS / ".fetched").exists():
        return None
    return "no jars of HDFS in .cache/hdfs: `make servers` fetches them"


@functools.cache
def start_hdfs() -> HdfsServer:
    """The one HDFS of this process, started by whoever asks first."""
    problem = missing_hdfs()
    if problem is not None:
        # Reports fold skips that have the same reason; with its name, each test is told.
        name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        pytest.skip(f"{name} did not run: {problem}")
    folder = tempfile.mkdtemp(prefix="orcstream-hdfs")
    process = subprocess.Popen(
        [*JAVA, "-cp", f"{JARS}/*", str(PROGRAM), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=os.environ | {"HADOOP_USER_NAME": USER},
        text=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None

    def stop() -> None:
        stdin.close()
        try:
            process.wait(20)  # it removes its folder
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        stdout.close()

    atexit.register(stop)
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    line = stdout.readline()
    timer.cancel()
    assert line.startswith("ready "), f"HDFS did not start: {line!r}, status {process.poll()}"
    return HdfsServer(int(line.split()[1]))


@pytest.fixture
def hdfs_server() -> HdfsServer:
    """One for all; asked for by each test, so that each is told of where there is none."""
    return start_hdfs()
