"""Servers that answer, and wrongly: refusals, bodies of another length, objects that change, nobody there.

Readers meet a server that misbehaves request by request, as a web server and as S3; writers meet S3 behind a
proxy that refuses. HDFS's own refusals are in `tests/io/test_webhdfs.py`.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import orcstream
from orcstream.errors import CommitUnknown, RetriesExhausted, SinkError, SourceChanged, SourceError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.s3.source import S3Source
from tests.servers.certificates import certificate
from tests.servers.faults import FILE, TABLE, healing, nothing_leased, rows_of, whole
from tests.servers.http_server import Handler, serving
from tests.servers.loopback import MotoServer
from tests.servers.s3_proxy import Asked, Refusal, S3Proxy, s3_proxies
from tests.servers.sink_stores import SinkStore, s3_store
from tests.support.effort import pairs

__all__ = ["s3_proxies"]  # a fixture

QUICK: dict[str, Any] = {"timeout_s": 20.0, "stall_timeout_s": 0.3}


@dataclass
class Unwell:
    """Serves `data` under any name. `faults` are met by one request each, `always` by all."""

    port: int
    data: bytes = FILE
    etag: str = '"one"'
    faults: list[Misbehave | None] = field(default_factory=list)
    always: Misbehave | None = None
    released: threading.Event = field(default_factory=threading.Event)
    request_count: int = 0

    def url(self, kind: str) -> str:
        return "s3://bucket/a.orc" if kind == "s3" else f"http://127.0.0.1:{self.port}/a.orc"

    def options(self, kind: str) -> dict[str, Any]:
        return s3_options(f"http://127.0.0.1:{self.port}") if kind == "s3" else {}


def s3_options(endpoint: str) -> dict[str, Any]:
    return {
        "key": "testing",
        "secret": "testing",
        "endpoint_url": endpoint,
        "client_kwargs": {"region_name": "us-east-1"},
    }


class _Handler(Handler[Unwell]):
    methods = ("GET", "HEAD")

    def serve(self) -> None:
        unwell = self.state
        unwell.request_count += 1
        fault = unwell.faults.pop(0) if unwell.faults else unwell.always
        if self.headers.get("If-Match") not in (None, unwell.etag):
            self.answer(412)
            return
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "bytes=0-"))
        assert asked is not None
        length = len(unwell.data)
        start = int(asked[1]) if asked[1] else max(0, length - int(asked[2]))
        stop = min(int(asked[2]) + 1, length) if asked[1] and asked[2] else length
        if fault is None:
            self.part(start, stop)
        else:
            fault(self, start, stop)

    def part(self, start: int, stop: int, body: bytes | None = None, **how: Any) -> None:
        """The range, said to be this one, whatever the body is."""
        unwell = self.state
        headers = {"ETag": unwell.etag, "Content-Range": f"bytes {start}-{stop - 1}/{len(unwell.data)}"}
        self.answer(206, unwell.data[start:stop] if body is None else body, headers, **how)


Misbehave = Callable[[_Handler, int, int], None]


def refuse(status: int, code: str = "", **headers: str) -> Misbehave:
    refusal = Refusal(status, code, headers)
    return lambda handler, _start, _stop: handler.answer(status, refusal.body, headers)


def _stall(handler: _Handler, start: int, stop: int) -> None:
    handler.part(start, stop, halfway=lambda: handler.state.released.wait(60))


# What another attempt may not meet.
PASSING: dict[str, Misbehave] = {
    "500": refuse(500, "InternalError"),
    "502": refuse(502),
    "503 SlowDown": refuse(503, "SlowDown"),
    "429 with Retry-After": refuse(429, **{"Retry-After": "7"}),
    "400 RequestTimeout": refuse(400, "RequestTimeout"),
    "truncated body": lambda handler, start, stop: handler.part(start, stop, cut=(stop - start + 1) // 2),
    "short body": lambda handler, start, stop: handler.part(
        start, stop, handler.state.data[start : stop - 1]
    ),
    "over-long body": lambda handler, start, stop: handler.part(
        start, stop, handler.state.data[start:stop] + b"more"
    ),
    "empty body": lambda handler, start, stop: handler.part(start, stop, b""),
    "a body that stalls": _stall,
    "another range": lambda handler, start, stop: handler.part(start + 1, stop),
}
LASTING: dict[str, tuple[Misbehave, type[Exception]]] = {
    "senseless range": (lambda handler, _, stop: handler.part(stop + 5, stop + 5, b"x"), SourceError),
    "403": (refuse(403, "AccessDenied"), PermissionError),
    "404": (refuse(404, "NoSuchKey"), FileNotFoundError),
    "416": (refuse(416), SourceError),
}
CREDENTIALS = {
    "expired token, 400": refuse(400, "ExpiredToken"),
    "expired token, 403": refuse(403, "ExpiredToken"),
    "clock skew": refuse(403, "RequestTimeTooSkewed"),
}


@pytest.fixture
def unwell() -> Iterator[Unwell]:
    with serving(_Handler, Unwell) as server:
        try:
            yield server
        finally:
            server.released.set()


@pytest.mark.parametrize("signs", [True, False])
async def test_an_error_with_status_200_is_not_the_object(
    unwell: Unwell, signs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was `NotOrcFile` at the first request, and `SourceChanged` at later ones."""
    if not signs:
        monkeypatch.setattr(S3Source, "_presign", _no_signature)
    error = refuse(200, "InternalError")
    how: dict[str, Any] = {"storage_options": unwell.options("s3"), "io_options": {**QUICK, "retries": 9}}
    with healing() as met:
        async with nothing_leased():
            unwell.faults = [error]
            async with orcstream.open(unwell.url("s3"), **how) as file:
                unwell.faults = [error, None, error]
                assert (await rows_of(file)).equals(TABLE)
    assert met.count >= 2


async def _no_signature(_: S3Source) -> None:
    return None


@pytest.mark.parametrize(("fault", "kind"), pairs(PASSING, ["http", "s3"]))
async def test_a_fault_that_passes(unwell: Unwell, kind: str, fault: str) -> None:
    how: dict[str, Any] = {
        "storage_options": unwell.options(kind),
        "io_options": {**QUICK, "retries": 9},
    }
    with healing() as met:
        async with nothing_leased():
            unwell.faults = [PASSING[fault]]
            async with orcstream.open(unwell.url(kind), **how) as file:
                unwell.faults = [PASSING[fault], None, PASSING[fault]]
                assert (await rows_of(file)).equals(TABLE)
                unwell.faults = [PASSING[fault]]
                page = await rows_of(file, rows=range(20_100, 20_110))
                assert page.equals(TABLE.slice(20_100, 10))
    assert met.count >= 2  # the end of a file is found by another way where it is answered wrongly
    assert (7.0 in met.asked_s) == ("Retry-After" in fault)


@pytest.mark.parametrize(("fault", "kind"), pairs(PASSING, ["http", "s3"]))
async def test_a_fault_that_stays(unwell: Unwell, kind: str, fault: str) -> None:
    how: dict[str, Any] = {
        "storage_options": unwell.options(kind),
        "io_options": {**QUICK, "retries": 1},
    }
    with healing() as met:
        async with nothing_leased(), orcstream.open(unwell.url(kind), **how) as file:
            unwell.always = PASSING[fault]
            with pytest.raises(RetriesExhausted) as caught:
                await rows_of(file)
            assert caught.value.url == unwell.url(kind)
            with pytest.raises(SourceError) as again:
                await orcstream.open(unwell.url(kind), **how)
            assert again.value.url == unwell.url(kind)
            unwell.always = None
            assert (await rows_of(file)).equals(TABLE)
    assert met.count >= 2


@pytest.mark.parametrize("kind", ["http", "s3"])
@pytest.mark.parametrize("fault", LASTING)
async def test_a_refusal_is_not_tried_again(unwell: Unwell, kind: str, fault: str) -> None:
    misbehave, expected = LASTING[fault]
    with healing():
        how: dict[str, Any] = {"storage_options": unwell.options(kind), "io_options": QUICK}
        async with nothing_leased(), orcstream.open(unwell.url(kind), **how) as file:
            unwell.always = misbehave
            with pytest.raises(expected) as caught:
                await rows_of(file)
            assert unwell.url(kind) in str(caught.value)


@pytest.mark.parametrize("fault", CREDENTIALS)
async def test_credentials_that_ended_while_reading(unwell: Unwell, fault: str) -> None:
    """A signature is made anew once; credentials that stay refused are said to be the reason."""
    how: dict[str, Any] = {"storage_options": unwell.options("s3"), "io_options": {**QUICK, "retries": 0}}
    url = unwell.url("s3")
    async with nothing_leased(), orcstream.open(url, **how) as file:
        unwell.faults = [CREDENTIALS[fault]]
        assert (await rows_of(file)).equals(TABLE)
        unwell.always = CREDENTIALS[fault]
        with pytest.raises(PermissionError, match=r"ExpiredToken|RequestTimeTooSkewed"):
            await rows_of(file)
        with pytest.raises(PermissionError, match=r"ExpiredToken|RequestTimeTooSkewed"):
            await orcstream.open(url, **how)


@pytest.mark.parametrize("kind", ["http", "s3"])
async def test_an_object_that_is_replaced_or_deleted_while_it_is_read(unwell: Unwell, kind: str) -> None:
    how: dict[str, Any] = {"storage_options": unwell.options(kind), "io_options": QUICK}
    async with nothing_leased(), orcstream.open(unwell.url(kind), **how) as file:
        async with file.batches(batch_rows=1000, memory_limit=1 << 16) as stream:
            await anext(stream)
            unwell.etag = '"two"'
            with pytest.raises(SourceChanged, match="replaced"):
                async for _ in stream:
                    pass
        unwell.etag, unwell.always = '"one"', refuse(404, "NoSuchKey")
        with pytest.raises(FileNotFoundError):
            await rows_of(file)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def nowhere(unwell: Unwell) -> dict[str, tuple[str, type[Exception]]]:
    """Where nobody, or nobody who may be trusted, answers; and what reading there is."""
    return {
        "refused": (f"http://127.0.0.1:{closed_port()}", RetriesExhausted),
        "no such host": ("http://nobody.invalid:80", RetriesExhausted),
        "no TLS there": (f"https://127.0.0.1:{unwell.port}", SourceError),
    }


@pytest.mark.parametrize("kind", ["http", "s3", "webhdfs"])
@pytest.mark.parametrize("fault", ["refused", "no such host", "no TLS there"])
async def test_nobody_to_read_from(unwell: Unwell, kind: str, fault: str) -> None:
    endpoint, expected = nowhere(unwell)[fault]
    scheme, _, server = endpoint.partition("://")
    url = {
        "http": f"{endpoint}/a.orc",
        "s3": "s3://bucket/a.orc",
        "webhdfs": f"{'swebhdfs' if scheme == 'https' else 'webhdfs'}://{server}/a.orc",
    }[kind]
    options = s3_options(endpoint) if kind == "s3" else {}
    with healing():
        async with nothing_leased():
            with pytest.raises(expected) as caught:
                await orcstream.open(url, storage_options=options, io_options={**QUICK, "retries": 1})
    assert isinstance(caught.value, SourceError)
    assert caught.value.url == url


async def test_a_certificate_of_a_stranger(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate(tmp_path))
    with serving(_Handler, Unwell, tls=tls) as server:
        url = f"https://127.0.0.1:{server.port}/a.orc"
        async with nothing_leased():
            with pytest.raises(SourceError, match=r"\bcertificate verify failed\b") as caught:
                await orcstream.open(url, io_options=QUICK)
        assert caught.value.url == url


# --- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["s3", "webhdfs"])
@pytest.mark.parametrize("fault", ["refused", "no such host", "no TLS there"])
async def test_nobody_to_write_to(unwell: Unwell, kind: str, fault: str) -> None:
    endpoint, _ = nowhere(unwell)[fault]
    scheme, _, server = endpoint.partition("://")
    url = "s3://bucket/a.orc"
    if kind == "webhdfs":
        url = f"{'swebhdfs' if scheme == 'https' else 'webhdfs'}://{server}/a.orc"
    out = await orcstream.create(
        url,
        TABLE.schema,
        storage_options=s3_options(endpoint) if kind == "s3" else {},
        sink_options={"retries": 1, "timeout_s": 10, "abort_timeout_s": 3},
    )
    with healing():
        with pytest.raises(SinkError) as caught:
            await write_and_commit(out)
        assert caught.value.url == url
        if kind == "s3":
            with pytest.raises(SinkError):  # whether an upload was created, nobody knows
                await out.abort()
        else:
            await out.abort()
    assert leased_clients() == 0


async def write_and_commit(out: orcstream.OrcWriter) -> None:
    await out.write(TABLE)
    await out.commit()


STEPS: dict[str, Callable[[Asked], bool]] = {
    "create": lambda asked: asked.method == "POST" and "uploadId=" not in asked.path,
    "part": lambda asked: asked.method == "PUT",
    "complete": lambda asked: asked.method == "POST" and "uploadId=" in asked.path,
}
BUSY = {
    "500": Refusal(500, "InternalError"),
    "503 SlowDown": Refusal(503, "SlowDown"),
    "429": Refusal(429, "TooManyRequests", {"Retry-After": "1"}),
    "400 RequestTimeout": Refusal(400, "RequestTimeout"),
    "200 with an error": Refusal(200, "InternalError"),
}
REFUSED = {
    "expired token, 400": Refusal(400, "ExpiredToken"),
    "expired token, 403": Refusal(403, "ExpiredToken"),
    "clock skew": Refusal(403, "RequestTimeTooSkewed"),
}


@pytest.fixture
def proxied(s3_proxies: tuple[MotoServer, S3Proxy], tmp_path: Path) -> tuple[SinkStore, S3Proxy]:
    server, proxy = s3_proxies
    return s3_store(server, tmp_path.name, proxy.endpoint), proxy


@pytest.mark.parametrize("fault", BUSY)
async def test_a_busy_store_gets_the_file_in_the_end(proxied: tuple[SinkStore, S3Proxy], fault: str) -> None:
    """Each step of an upload is refused once; an answer of 200 that holds an error is that of a commit."""
    store, proxy = proxied
    for step in ["complete"] if fault == "200 with an error" else STEPS:
        refused: list[int] = []

        def once(number: int, asked: Asked, step: str = step, refused: list[int] = refused) -> Refusal | None:
            if refused or not STEPS[step](asked):
                return None
            refused.append(number)
            return BUSY[fault]

        proxy.fault = once
        with healing() as met:
            async with (
                nothing_leased(),
                orcstream.create(
                    store.url_of(f"{step}.orc"), TABLE.schema, storage_options=store.options
                ) as out,
            ):
                await out.write(TABLE)
        assert refused and met.count >= 1
        assert whole(store.seen(f"{step}.orc")).equals(TABLE)
    assert store.left() == []


@pytest.mark.parametrize("fault", REFUSED)
async def test_credentials_that_ended_while_writing(proxied: tuple[SinkStore, S3Proxy], fault: str) -> None:
    store, proxy = proxied
    store.put("a.orc", FILE)
    for is_step in STEPS.values():
        proxy.fault = lambda _, asked, is_step=is_step: REFUSED[fault] if is_step(asked) else None  # type: ignore[misc]
        out = await orcstream.create(
            store.url_of("a.orc"),
            TABLE.schema,
            storage_options=store.options,
            sink_options={"retries": 1, "timeout_s": 20},
        )
        with pytest.raises(PermissionError, match=REFUSED[fault].code):
            await write_and_commit(out)
        proxy.pass_all()
        await out.abort()
        assert store.seen("a.orc") == FILE
        assert store.left() == []
        assert leased_clients() == 0


async def test_a_commit_keeps_to_the_options_of_its_file(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    proxy.fault = lambda _, asked: BUSY["500"] if STEPS["complete"](asked) else None
    out = await orcstream.create(
        store.url_of("a.orc"), TABLE.schema, storage_options=store.options, sink_options={"retries": 0}
    )
    with healing() as met, pytest.raises(CommitUnknown):
        await write_and_commit(out)
    assert met.count == 0
    proxy.pass_all()
    await out.abort()
    assert store.left() == []
    assert store.seen("a.orc") is None
