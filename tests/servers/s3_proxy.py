"""A proxy in front of an S3 server that loses, refuses and holds requests, and versitygw to put behind it."""

from __future__ import annotations

import functools
import http.client
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import pytest

from orcstream.io.contract import byte_source as retry
from tests.servers.http_server import Handler, serving
from tests.servers.loopback import MotoServer, start_moto
from tests.servers.processes import await_port, free_port, new_folder, start_process
from tests.support.effort import ALL
from tests.support.needs import CACHE, not_here

__all__ = ["Asked", "Refusal", "S3Proxy", "run_s3_proxy", "s3_proxies", "start_versitygw", "versitygw_path"]

# Before the server sees it; after it was carried out; with an answer that is no answer; not until released,
# and then let through or dropped; with a byte of the body changed. Empty answers have status 200 and no more.
Named = Literal[
    "refuse", "lose", "500", "lose_500", "hold", "stall", "damage", "403", "empty", "lose_empty", "lose_xml"
]
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True)
class Refusal:
    """An error as S3 words it."""

    status: int
    code: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        text = f"<Error><Code>{self.code}</Code><Message>as the test wants it</Message></Error>"
        return f"<?xml version='1.0' encoding='UTF-8'?>{text}".encode()


Fault = Named | Refusal


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class S3Proxy:
    """`fault` is asked for each request, with its number from 0; None lets it pass.

    Of what is only created if it is not there, it passes one at a time, as S3 does: versitygw looks first,
    and creates then, so that two writers side by side may both be told that they did.
    """

    port: int
    target_port: int
    fault: Callable[[int, Asked], Fault | None] = lambda _number, _asked: None
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    creating: threading.Lock = field(default_factory=threading.Lock)
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


class _Handler(Handler[S3Proxy]):
    methods = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS")

    def serve(self) -> None:
        proxy = self.state
        body = self.read_body()
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
        if isinstance(fault, Refusal):
            self.answer(fault.status, fault.body, {"Content-Type": "application/xml", **fault.headers})
            return
        if fault in ("500", "403"):
            self.answer(int(fault))
            return
        if fault == "empty":
            self.answer(200)
            return
        if fault == "damage":
            body = bytes([body[0] ^ 1]) + body[1:]
        with proxy.creating if "if-none-match" in asked.headers else nullcontext():
            status, headers, answer = self._forward(body)
        if fault == "lose":
            self.close_connection = True
        elif fault == "lose_500":
            self.answer(500)
        elif fault == "lose_empty":
            self.answer(200)
        elif fault == "lose_xml":
            self.answer(200, b"<?xml version='1.0' encoding='UTF-8'?><Result/>")
        else:
            dropped = HOP_HEADERS | ({"content-length"} if self.command != "HEAD" else set())
            kept = [(name, value) for name, value in headers if name.lower() not in dropped]
            self.answer(status, answer, kept)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.state.target_port, timeout=60)
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


@contextmanager
def run_s3_proxy(endpoint: str) -> Iterator[S3Proxy]:
    """Behind it no server has to recover, so requests that failed are sent again soon."""
    target_port = int(endpoint.rpartition(":")[2])
    with (
        serving(_Handler, lambda port: S3Proxy(port, target_port)) as proxy,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(retry, "FIRST_WAIT_S", 0.001)
        try:
            yield proxy
        finally:
            proxy.released.set()


def versitygw_path() -> str | None:
    """Where `make servers` puts the server, or where the system has it; None where there is none."""
    built = CACHE / "bin" / "versitygw"
    return str(built) if built.exists() else shutil.which("versitygw")


@functools.cache
def start_versitygw() -> MotoServer:
    """The one server of this process over a folder of its own, stopped at exit; reached as moto is."""
    path = versitygw_path()
    if path is None:
        not_here("there is no versitygw: `make servers` builds it with Go")
    port, folder = free_port(), new_folder("versitygw")
    objects, versions = folder / "objects", folder / "versions"
    objects.mkdir()
    versions.mkdir()
    options = ("--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}")
    process = start_process(
        [path, *options, "posix", "--versioning-dir", str(versions), str(objects)],
        folder,
        {"ROOT_ACCESS_KEY": "testing", "ROOT_SECRET_KEY": "testing"},
    )
    await_port(process, port)
    return MotoServer(f"http://127.0.0.1:{port}")


# One server that people run is enough for most runs; `make test-all` asks the other one, too. Where it is not
# built, its tests are to name themselves.
S3_KINDS = ("versitygw",) if versitygw_path() and not ALL else ("moto", "versitygw")


def start_s3(kind: str) -> MotoServer:
    """One of `S3_KINDS`; where there is no versitygw, the test that asks says so."""
    return start_moto() if kind == "moto" else start_versitygw()


@pytest.fixture(params=S3_KINDS)
def s3_proxies(request: pytest.FixtureRequest) -> Iterator[tuple[MotoServer, S3Proxy]]:
    """Each S3 server there is, with a proxy in front."""
    server = start_s3(request.param)
    with run_s3_proxy(server.endpoint) as proxy:
        yield server, proxy
