"""Servers on the loopback: an HTTP server of ranges on threads, and moto's S3 as a process of its own.

Neither runs in the event loop of the test, so each serves asynchronous and blocking callers alike.
"""

from __future__ import annotations

import functools
import hashlib
import re
import ssl
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config

from tests.servers.http_server import Handler, serving
from tests.servers.processes import await_port, free_port, new_folder, start_process

__all__ = ["MotoServer", "RangeServer", "moto_server", "range_server", "run_range_server", "start_moto"]

RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass
class RangeServer:
    """What the server serves and how well it behaves; change it between requests.

    `statuses` are answered first, one a request in the order of arrival, before anything is served. `gate`
    holds every answer until it is set.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    refusal: bytes = b"no"  # the body that goes with `statuses`
    headers: dict[str, str] = field(default_factory=dict)
    etag: str | None = "strong"  # or "weak", or None
    modified: str | None = None
    ranges: bool = True
    suffix_ranges: bool | None = True  # None: answered with the whole object
    length: bool = True  # whether Content-Range and 416 say how long the object is
    cut: int = 0  # this many bytes of a body are kept back and the connection is closed
    conditions: bool = True  # whether If-Match is honoured
    gate: threading.Event = field(default_factory=threading.Event)
    halfway: threading.Event | None = None  # holds the second half of each body
    arrived: threading.Condition = field(default_factory=threading.Condition)

    def wait_for_requests(self, count: int) -> None:
        """Block until `count` requests have arrived; call it on a thread."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: len(self.requests) >= count, timeout=60):
                raise TimeoutError(f"{len(self.requests)} requests arrived, not {count}")

    def serve(self, name: str, data: bytes) -> str:
        self.files[f"/{name}"] = data
        return f"{self.url}/{name}"

    @property
    def ranges_asked(self) -> list[str]:
        return [headers.get("Range", "") for _, _, headers in self.requests]


class _Handler(Handler[RangeServer]):
    methods = ("GET",)

    def serve(self) -> None:
        config = self.state
        with config.arrived:
            config.requests.append((self.command, self.path, dict(self.headers.items())))
            refusal = config.statuses.pop(0) if config.statuses else None
            config.arrived.notify_all()
        config.gate.wait(60)
        if refusal is not None:
            self._answer(refusal[0], config.refusal, refusal[1])
            return
        data = config.files.get(urllib.parse.unquote(self.path.partition("?")[0]))
        if data is None:
            self._answer(404, b"no such thing", {})
            return
        headers = dict(config.headers)
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        if config.etag:
            headers["ETag"] = etag if config.etag == "strong" else f"W/{etag}"
        if config.modified:
            headers["Last-Modified"] = config.modified
        if config.conditions and self.headers.get("If-Match") not in (None, headers.get("ETag")):
            self._answer(412, b"", headers)
            return
        match = RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None or not config.ranges or (not match[1] and config.suffix_ranges is None):
            self._answer(200, data, headers)
            return
        if match[1]:
            start, stop = int(match[1]), min(int(match[2] or len(data)) + 1, len(data))
        else:
            start, stop = max(0, len(data) - int(match[2])), len(data)
        total = str(len(data)) if config.length else "*"
        if start >= stop or not (match[1] or config.suffix_ranges):
            self._answer(416, b"", headers | {"Content-Range": f"bytes */{total}"})
            return
        self._answer(206, data[start:stop], headers | {"Content-Range": f"bytes {start}-{stop - 1}/{total}"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        held = self.state.halfway
        cut = self.state.cut if status in (200, 206) else 0
        self.answer(status, body, headers, cut=cut, halfway=None if held is None else lambda: held.wait(60))


@contextmanager
def run_range_server(certificate: Path | None = None) -> Iterator[RangeServer]:
    """Over TLS where there is a certificate, with its key in the same file."""
    tls, scheme = None, "http"
    if certificate is not None:
        tls, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
        tls.load_cert_chain(certificate)
    with serving(_Handler, lambda port: RangeServer(url=f"{scheme}://127.0.0.1:{port}"), tls=tls) as server:
        server.gate.set()
        try:
            yield server
        finally:
            server.gate.set()


@pytest.fixture
def range_server() -> Iterator[RangeServer]:
    with run_range_server() as server:
        yield server


@dataclass(frozen=True)
class MotoServer:
    """An S3 store; `options` are the storage options that reach it, `client` is botocore's."""

    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        return {
            "key": "testing",
            "secret": "testing",
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    @functools.cached_property
    def client(self) -> Any:
        return botocore.session.get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    def put(self, bucket: str, key: str, data: bytes) -> str:
        """Store an object, in a bucket that is made on the way; answers its URL."""
        with suppress(self.client.exceptions.BucketAlreadyOwnedByYou):
            self.client.create_bucket(Bucket=bucket)
        self.client.put_object(Bucket=bucket, Key=key, Body=data)
        return f"s3://{bucket}/{key}"


@functools.cache
def start_moto() -> MotoServer:
    """The one server of this process, started by whoever asks first and stopped at exit."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    await_port(start_process(command, new_folder("moto")), port)
    return MotoServer(f"http://127.0.0.1:{port}")


@pytest.fixture(scope="session")
def moto_server() -> MotoServer:
    return start_moto()
