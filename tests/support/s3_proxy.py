"""A proxy in front of an S3 server that loses, refuses and holds requests, and versitygw to put behind it."""

from __future__ import annotations

import atexit
import functools
import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.servers import MotoServer

__all__ = ["Asked", "S3Proxy", "run_s3_proxy", "s3_proxies", "start_versitygw", "versitygw_path"]

# Before the server sees it; after it was carried out; with an answer that is no answer; not until released,
# and then let through or dropped; with a byte of the body changed.
Fault = Literal["refuse", "lose", "500", "lose_500", "hold", "stall", "damage", "403"]
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class S3Proxy:
    """`fault` is asked for each request, with its number from 0; None lets it pass."""

    port: int
    target_port: int
    fault: Callable[[int, Asked], Fault | None] = lambda _number, _asked: None
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Condition = field(default_factory=threading.Condition)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for_requests(self, count: int) -> None:
        """Block until `count` requests have arrived; call it on a thread."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: len(self.asked) >= count, timeout=60):
                raise TimeoutError(f"{len(self.asked)} requests arrived, not {count}")

    def pass_all(self) -> None:
        self.fault = lambda _number, _asked: None
        self.released.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
        with proxy.arrived:
            number = len(proxy.asked)
            proxy.asked.append(asked)
            fault = proxy.fault(number, asked)
            proxy.arrived.notify_all()
        if fault in ("hold", "stall"):
            proxy.released.wait(60)
        if fault in ("refuse", "stall"):
            self.close_connection = True
            return
        if fault in ("500", "403"):
            self._answer(int(fault), [], b"")
            return
        if fault == "damage":
            body = bytes([body[0] ^ 1]) + body[1:]
        status, headers, answer = self._forward(body)
        if fault == "lose":
            self.close_connection = True
        elif fault == "lose_500":
            self._answer(500, [], b"")
        else:
            self._answer(status, headers, answer)

    def do_GET(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_OPTIONS(self) -> None:
        self._serve()

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.proxy.target_port, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_HEADERS | {"expect"}:
                    connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in HOP_HEADERS | (
                    {"content-length"} if self.command != "HEAD" else set()
                ):
                    self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: S3Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of these tests hang up in the middle."""


@contextmanager
def run_s3_proxy(endpoint: str) -> Iterator[S3Proxy]:
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.proxy = S3Proxy(server.server_address[1], int(endpoint.rpartition(":")[2]))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.proxy
        finally:
            server.proxy.released.set()
            server.shutdown()
            thread.join()


def versitygw_path() -> str | None:
    """Where `make servers` puts the server, or where the system has it; None where there is none."""
    built = Path(__file__).resolve().parents[2] / ".cache" / "bin" / "versitygw"
    return str(built) if built.exists() else shutil.which("versitygw")


@functools.cache
def start_versitygw() -> MotoServer:
    """The one server of this process over a folder of its own, stopped at exit; reached as moto is."""
    path = versitygw_path()
    assert path is not None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="versitygw")
    process = subprocess.Popen(
        [path, "--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}", "posix", folder],
        env=os.environ | {"ROOT_ACCESS_KEY": "testing", "ROOT_SECRET_KEY": "testing"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def stop() -> None:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    deadline_s = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return MotoServer(f"http://127.0.0.1:{port}")
        except ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)  # a process of its own can only be polled


S3_KINDS = ["moto", *(["versitygw"] if versitygw_path() else [])]


def start_s3(kind: str) -> MotoServer:
    from tests.support.servers import start_moto

    return start_moto() if kind == "moto" else start_versitygw()


@pytest.fixture(params=S3_KINDS)
def s3_proxies(request: pytest.FixtureRequest) -> Iterator[tuple[MotoServer, S3Proxy]]:
    """Each S3 server there is, with a proxy in front."""
    server = start_s3(request.param)
    with run_s3_proxy(server.endpoint) as proxy:
        yield server, proxy
