"""A proxy before the NameNode and the DataNodes that loses, breaks and delays requests.

DataNodes are reached through it because the client is told to (`data_proxy`): their address becomes the first
part of the path.
"""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tests.servers.hdfs import HdfsServer, hdfs_server
from tests.servers.http_server import Handler, serving

__all__ = ["HdfsAsked", "HdfsProxy", "hdfs_proxy", "hdfs_server"]

# Before the server sees it; after it was carried out; after half of the body; with an answer that is no
# answer; the connection is closed at once, and the request carried out when it is let go.
Fault = Literal["refuse", "lose", "half", "500", "late"]
DATA_NODE = "/to/"


@dataclass(frozen=True)
class HdfsAsked:
    """A request as it arrived."""

    op: str
    path: str
    to_data_node: bool
    options: dict[str, str]
    body_bytes: int

    @property
    def where(self) -> str:
        return f"{self.op} {'data' if self.to_data_node else 'name'}"


@dataclass
class HdfsProxy:
    """`fault` is asked for each request, with how many of its kind (`where`) there were before.

    `late` holds the statuses of requests that were let go.
    """

    server: HdfsServer
    port: int
    fault: Callable[[int, HdfsAsked], Fault | None] = lambda _number, _asked: None
    asked: list[HdfsAsked] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)
    late: list[int] = field(default_factory=list)
    lock: threading.Condition = field(default_factory=threading.Condition)

    def url(self, path: str) -> str:
        return f"webhdfs://127.0.0.1:{self.port}{path}"

    @property
    def options(self) -> dict[str, Any]:
        return {**self.server.options, "data_proxy": self.lead_here}

    def lead_here(self, location: str) -> str:
        parts = urllib.parse.urlsplit(location)
        # By another name, so that no connection to the NameNode is used.
        return f"http://localhost:{self.port}{DATA_NODE}{parts.netloc}{parts.path}?{parts.query}"

    @property
    def traffic(self) -> list[str]:
        return [asked.where for asked in self.asked]

    def finish_late(self, count: int) -> list[int]:
        """Let go what was late; the statuses of `count` answers, in order. Call it on a thread."""
        self.let_go.set()
        with self.lock:
            if not self.lock.wait_for(lambda: len(self.late) >= count, timeout=60):
                raise TimeoutError(f"{len(self.late)} late requests ended, not {count}")
        return sorted(self.late)

    def fail_once(self, where: str, fault: Fault, number: int = 0) -> None:
        """Only the request of this kind and number meets the fault."""
        self.fault = lambda count, asked: fault if (asked.where, count) == (where, number) else None


class _Handler(Handler[HdfsProxy]):
    methods = ("GET", "PUT", "POST", "DELETE")

    def serve(self) -> None:
        proxy = self.state
        body = self.read_body()
        address, target = proxy.server.address, self.path
        if target.startswith(DATA_NODE):
            address, _, target = target.removeprefix(DATA_NODE).partition("/")
            target = f"/{target}"
        parts = urllib.parse.urlsplit(target)
        options = dict(urllib.parse.parse_qsl(parts.query))
        path = urllib.parse.unquote(parts.path).removeprefix("/webhdfs/v1")
        to_data_node = self.path.startswith(DATA_NODE)
        asked = HdfsAsked(options.get("op", ""), path, to_data_node, options, len(body))
        with proxy.lock:
            count = proxy.traffic.count(asked.where)
            proxy.asked.append(asked)
            fault = proxy.fault(count, asked)
        self._suffer(fault, address, target, body)

    def _suffer(self, fault: Fault | None, address: str, target: str, body: bytes) -> None:
        proxy = self.state
        if fault == "500":
            self.answer(500)
        elif fault is None:
            status, headers, answer = self._forward(address, target, body, len(body))
            if self.path.startswith(DATA_NODE):
                headers["Connection"] = "close"  # as DataNodes do
            self.answer(status, answer, headers)
        else:
            self.close_connection = True
            if fault == "lose":
                self._forward(address, target, body, len(body))
            elif fault == "half":
                self._forward(address, target, body, len(body) // 2)
            elif fault == "late":
                self.connection.shutdown(socket.SHUT_RDWR)
                proxy.let_go.wait(60)
                status = self._forward(address, target, body, len(body))[0]
                with proxy.lock:
                    proxy.late.append(status)
                    proxy.lock.notify_all()

    def _forward(
        self, address: str, target: str, body: bytes, most: int
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            connection.putrequest(self.command, target)
            if self.headers.get("Content-Length"):
                connection.putheader("Content-Length", str(len(body)))
                connection.putheader("Content-Type", "application/octet-stream")
            connection.endheaders(body[:most])
            if most < len(body):
                return 0, {}, b""
            response = connection.getresponse()
            names = ("Content-Type", "Location")
            headers = {name: response.headers[name] for name in names if name in response.headers}
            return response.status, headers, response.read()
        finally:
            connection.close()


@contextmanager
def run_hdfs_proxy(target: HdfsServer) -> Iterator[HdfsProxy]:
    with serving(_Handler, lambda port: HdfsProxy(target, port)) as proxy:
        try:
            yield proxy
        finally:
            proxy.let_go.set()


@pytest.fixture
def hdfs_proxy(hdfs_server: HdfsServer) -> Iterator[HdfsProxy]:
    with run_hdfs_proxy(hdfs_server) as proxy:
        yield proxy
