"""The calls of WebHDFS against a server that answers as it is told, and reading from a real one."""

from __future__ import annotations

import contextlib
import io
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

import orcstream
from orcstream.byterange import ByteRange
from orcstream.errors import (
    OrcError,
    RetriesExhausted,
    ShortRead,
    SourceChanged,
    SourceError,
    Unsupported,
    UsageError,
)
from orcstream.io.contract.byte_source import Transient
from orcstream.io.folders import list_files
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import open_sink
from orcstream.io.stores.fsspec import sink as sink_filesystem
from orcstream.io.stores.fsspec import source as filesystem
from orcstream.io.stores.hdfs.calls import FileStatus, HdfsRefusal, StandBy, place_of
from orcstream.io.stores.hdfs.webhdfs import WebHdfs
from orcstream.io.stores.hdfs.webhdfs_connection import lease_webhdfs
from orcstream.io.urls import StoreUrl, cost_of, open_source
from tests.servers.certificates import certificate
from tests.servers.hdfs import HdfsServer
from tests.servers.hdfs_proxy import HdfsProxy, hdfs_proxy, hdfs_server

__all__ = ["hdfs_proxy", "hdfs_server"]  # fixtures

Answer = tuple[int, Mapping[str, str], bytes]
JSON = {"Content-Type": "application/json"}
STATUS: dict[str, dict[str, Any]] = {
    "FileStatus": {
        "pathSuffix": "",
        "type": "FILE",
        "length": 7,
        "modificationTime": 1500,
        "fileId": 42,
        "permission": "640",
        "owner": "o",
        "group": "g",
        "replication": 3,
    }
}


@dataclass
class FakeServer:
    """Answers the requests in their order; the last answer is for all that follow."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)
    authorized: list[str | None] = field(default_factory=list)
    port: int = 0
    announced: int | None = None  # instead of the length of the body

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path, request.query, await request.read()))
        self.authorized.append(request.headers.get("Authorization"))
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        headers = {name: value.replace("{port}", str(self.port)) for name, value in headers.items()}
        body = body.replace(b"{port}", str(self.port).encode())
        if self.announced is None:
            return web.Response(status=status, headers=headers, body=body)
        response = web.StreamResponse(
            status=status, headers=headers | {"Content-Length": str(self.announced), "Connection": "close"}
        )
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.close()
        return response

    @property
    def url(self) -> str:
        return f"webhdfs://127.0.0.1:{self.port}/d/a.orc"


@asynccontextmanager
async def serving(
    *answers: Answer, announced: int | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeServer]:
    fake = FakeServer(list(answers), announced=announced)
    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{any:.*}", fake.handle)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    fake.port = runner.addresses[0][1]
    try:
        yield fake
    finally:
        await runner.cleanup()


@asynccontextmanager
async def calling(fake: FakeServer, **options: Any) -> AsyncIterator[WebHdfs]:
    place = place_of(fake.url, fake.url)
    lease = await lease_webhdfs({**place.options, **options}, fake.url)
    try:
        yield WebHdfs(lease.client, fake.url)
    finally:
        await lease.aclose()
        assert leased_clients() == 0


def said(body: object, status: int = 200) -> Answer:
    return status, JSON, json.dumps(body).encode()


def refused(status: int, name: str, message: str = "because") -> Answer:
    exception = {"exception": name, "javaClassName": f"org.apache.{name}", "message": message}
    return said({"RemoteException": exception}, status)


# As NameNodes and DataNodes spell them.
REFUSALS: list[tuple[Answer, type[Exception]]] = [
    (refused(404, "FileNotFoundException"), FileNotFoundError),
    (refused(403, "AccessControlException"), PermissionError),
    (refused(401, "AuthenticationException"), PermissionError),
    (refused(403, "InvalidToken"), PermissionError),
    (refused(403, "SecurityException", "Failed to obtain user group information"), PermissionError),
    (
        refused(403, "SecurityException", "Failed to obtain user group: InvalidToken: StandbyException"),
        StandBy,
    ),
    (refused(403, "StandbyException", "Operation category READ is not supported"), StandBy),
    (refused(403, "RetriableException"), Transient),
    (refused(403, "SafeModeException", "Cannot create file. Name node is in safe mode."), Transient),
    (refused(403, "AlreadyBeingCreatedException"), Transient),
    (refused(403, "RecoveryInProgressException"), Transient),
    (refused(403, "FileAlreadyExistsException"), FileExistsError),
    (refused(400, "UnsupportedOperationException"), Unsupported),
    (refused(400, "IllegalArgumentException"), HdfsRefusal),
    (refused(403, "DSQuotaExceededException"), HdfsRefusal),
    (refused(403, "IOException"), HdfsRefusal),
    (refused(500, "RuntimeException"), Transient),
    ((503, {"Retry-After": "2"}, b"busy"), Transient),
    ((502, {}, b""), Transient),
    ((401, {}, b"<html>"), PermissionError),
    ((404, {}, b"<html>"), HdfsRefusal),
    ((418, JSON, b"[]"), HdfsRefusal),
    ((403, JSON, b'{"RemoteException": 7}'), PermissionError),
    ((410, JSON, b"[" * 50_000), HdfsRefusal),
]


@pytest.mark.parametrize(("answer", "expected"), REFUSALS, ids=lambda one: str(one)[:60])
async def test_what_refusals_stand_for(answer: Answer, expected: type[Exception]) -> None:
    async with serving(answer) as fake, calling(fake) as hdfs:
        for call in (hdfs.status("/d/a.orc"), hdfs.read("/d/a.orc", 0, 3), hdfs.append("/d/a.orc", b"x")):
            with pytest.raises(expected) as caught:
                await call
            assert type(caught.value) is expected
            shown = caught.value.filename if expected.__module__ == "builtins" else caught.value.url  # type: ignore[attr-defined]
            assert shown == fake.url
        if expected is Transient:
            assert caught.value.retry_after_s == (2 if b"busy" in answer[2] else 0)  # type: ignore[attr-defined]


async def test_a_long_reason_is_cut() -> None:
    trace = "first line\n" + "\tat org.apache.Some.java\n" * 1000
    async with serving(refused(403, "x.y.IOException", trace)) as fake, calling(fake) as hdfs:
        with pytest.raises(HdfsRefusal) as caught:
            await hdfs.status("/d")
        assert caught.value.message == "IOException: first line"
        assert caught.value.kind == "IOException"


async def test_a_status() -> None:
    async with serving(said(STATUS)) as fake, calling(fake, user="u") as hdfs:
        assert await hdfs.status("/d/é b%20;+&?#") == FileStatus("", False, 7, 1500, 42, "640")
        method, path, query, _ = fake.asked[0]
        assert (method, path) == ("GET", "/webhdfs/v1/d/é b%20;+&?#")
        assert dict(query) == {"op": "GETFILESTATUS", "user.name": "u"}


REDIRECT: Answer = (307, {"Location": "http://127.0.0.1:{port}/data?x=1%2B2&token=secret"}, b"")
NAMED: Answer = (200, JSON, b'{"Location": "http://127.0.0.1:{port}/data?x=1%2B2&token=secret"}')
BYTES: Answer = (200, {"Content-Type": "application/octet-stream"}, b"12345")


@pytest.mark.parametrize("leads", [REDIRECT, NAMED], ids=["redirect", "named"])
async def test_bytes_come_from_where_the_name_node_leads(leads: Answer) -> None:
    async with serving(leads, BYTES) as fake, calling(fake) as hdfs:
        assert bytes(await hdfs.read("/d/a.orc", 3, 5)) == b"12345"
        (_, _, query, _), (method, path, data_query, _) = fake.asked
        assert dict(query) == {"op": "OPEN", "offset": "3", "length": "5", "noredirect": "true"}
        assert (method, path, dict(data_query)) == ("GET", "/data", {"x": "1+2", "token": "secret"})


async def test_a_gateway_may_serve_the_bytes_itself() -> None:
    async with serving(BYTES) as fake, calling(fake) as hdfs:
        assert bytes(await hdfs.read("/d/a.orc", 3, 5)) == b"12345"
        assert len(fake.asked) == 1


@pytest.mark.parametrize("leads", [REDIRECT, NAMED], ids=["redirect", "named"])
async def test_bytes_go_to_where_the_name_node_leads(leads: Answer) -> None:
    done: Answer = (200, {}, b"")
    async with serving(leads, done, leads, (201, {}, b"")) as fake, calling(fake) as hdfs:
        await hdfs.append("/d/a.orc", memoryview(b"12345")[1:])
        await hdfs.create("/d/a.orc", permission="600")
        assert [(method, body) for method, _, _, body in fake.asked] == [
            *(("POST", b""), ("POST", b"2345")),
            *(("PUT", b""), ("PUT", b"")),
        ]
        assert fake.asked[2][2]["overwrite"] == "false"
        assert fake.asked[2][2]["permission"] == "600"


@pytest.mark.parametrize(
    "location",
    [
        *("", "ftp://host/x", "http://", "http://[::1/x", "http://host:99999/x", "//", "http://:80/x"),
        *("webhdfs://h/x", "http://a:b@127.0.0.1:1/x"),
    ],
)
async def test_where_nobody_can_be_led(location: str) -> None:
    async with serving((307, {"Location": location}, b"")) as fake, calling(fake) as hdfs:
        with pytest.raises(SourceError):
            await hdfs.read("/d/a.orc", 0, 5)
        with pytest.raises(SourceError):
            await hdfs.append("/d/a.orc", b"x")


@pytest.mark.parametrize(
    ("announced", "body", "expected"),
    [(5, b"123", Transient), (None, b"123", ShortRead), (None, b"", ShortRead), (None, b"123456", ShortRead)],
)
async def test_bytes_that_are_not_what_was_asked_for(
    announced: int | None, body: bytes, expected: type[Exception]
) -> None:
    async with serving((200, {}, body), announced=announced) as fake, calling(fake) as hdfs:
        with pytest.raises(expected):
            await hdfs.read("/d/a.orc", 0, 5)


async def test_a_data_node_may_send_no_more_than_was_asked_for() -> None:
    async with serving(NAMED, (200, {}, b"x" * 1_000_000)) as fake, calling(fake) as hdfs:
        with pytest.raises(ShortRead, match=r"\b5\b"):
            await hdfs.read("/d/a.orc", 0, 5)


async def test_a_file_that_ends_before() -> None:
    out = refused(403, "IOException", "Offset=7 out of the range [0, 5); OPEN, path=/d/a.orc")
    async with serving(out) as fake, calling(fake) as hdfs:
        with pytest.raises(ShortRead) as caught:
            await hdfs.read("/d/a.orc", 7, 5)
        assert caught.value.file_offset == 7


async def test_a_listing_is_read_page_by_page() -> None:
    def page(names: list[str], remaining: int) -> Answer:
        statuses = [STATUS["FileStatus"] | {"pathSuffix": name, "type": "DIRECTORY"} for name in names]
        listing = {
            "partialListing": {"FileStatuses": {"FileStatus": statuses}},
            "remainingEntries": remaining,
        }
        return said({"DirectoryListing": listing})

    async with serving(page(["a", "b"], 1), page(["c"], 0)) as fake, calling(fake) as hdfs:
        found = await hdfs.list_folder("/d")
        assert [one.name for one in found] == ["a", "b", "c"]
        assert all(one.is_folder for one in found)
        assert [query.get("startAfter") for _, _, query, _ in fake.asked] == [None, "b"]
    for pages in ([page(["a"], 1)], [page(["a"], 1), page(["b"], 1), page(["a"], 1)], [page([], 1)]):
        async with serving(*pages) as fake, calling(fake) as hdfs:
            with pytest.raises(SourceError, match=r"\blisting\b"):
                await hdfs.list_folder("/d")
    for name in ("..", "x/y", "\ud800", ""):
        async with serving(page([name], 0)) as fake, calling(fake) as hdfs:
            with pytest.raises(SourceError):
                await hdfs.list_folder("/d")


@pytest.mark.parametrize("name", ["length", "modificationTime", "fileId"])
async def test_numbers_that_no_clock_or_file_has(name: str) -> None:
    status = {"FileStatus": STATUS["FileStatus"] | {name: 10**400}}
    async with serving(said(status)) as fake:
        with pytest.raises(SourceError, match=r"\bnumber\b"):
            await list_files(fake.url)
        with pytest.raises(SourceError, match=r"\bnumber\b"):
            await orcstream.open(fake.url)


CALLS: list[Callable[[WebHdfs], Any]] = [
    lambda hdfs: hdfs.read("/a", 0, 5),
    lambda hdfs: hdfs.append("/a", b"x"),
    lambda hdfs: hdfs.create("/a"),
    lambda hdfs: hdfs.rename("/a", "/b", overwrite=True),
    lambda hdfs: hdfs.delete("/a"),
    lambda hdfs: hdfs.status("/a"),
    lambda hdfs: hdfs.list_folder("/a"),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(
        st.sampled_from(
            "FileStatus RemoteException exception message Location boolean length modificationTime "
            "type fileId DirectoryListing partialListing FileStatuses remainingEntries pathSuffix".split()
        ),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)


@given(
    status=st.sampled_from([200, 201, 204, 206, 301, 307, 400, 403, 404, 500, 599]),
    headers=st.sampled_from([{}, JSON, {"Location": "x"}, {"Content-Encoding": "gzip"}]),
    body=st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()),
)
async def test_any_answer_gives_an_error_of_ours(
    status: int, headers: Mapping[str, str], body: bytes
) -> None:
    async with serving((status, headers, body)) as fake, calling(fake) as hdfs:
        for call in CALLS:
            with contextlib.suppress(OrcError, FileNotFoundError, FileExistsError, PermissionError):
                await call(hdfs)


async def test_who_asks() -> None:
    wanted: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"user": "u"}, {"user.name": "u"}),
        ({"token": "t"}, {"delegation": "t"}),
        ({"user": "u", "proxy_to": "other"}, {"user.name": "u", "doas": "other"}),
        ({}, {}),
    ]
    for options, query in wanted:
        async with serving(said(STATUS)) as fake, calling(fake, **options) as hdfs:
            await hdfs.status("/a")
            assert dict(fake.asked[0][2]) == {"op": "GETFILESTATUS", **query}


async def test_the_password_is_for_the_name_node_alone() -> None:
    leads: Answer = (307, {"Location": "http://localhost:{port}/data"}, b"")
    async with serving(leads, BYTES) as fake, calling(fake, user="u", password="p") as hdfs:
        await hdfs.read("/a", 0, 5)
        assert fake.authorized == ["Basic dTpw", None]


async def test_data_nodes_behind_other_names() -> None:
    leads: Answer = (307, {"Location": "http://inside:1/data"}, b"")
    for proxy in ("dictionary", "function"):
        async with serving(leads, BYTES) as fake:
            here = f"http://127.0.0.1:{fake.port}"
            given_: Any = {"http://inside:1": here}
            if proxy == "function":
                given_ = lambda location: location.replace("http://inside:1", here)  # noqa: E731, B023
            async with calling(fake, data_proxy=given_) as hdfs:
                assert bytes(await hdfs.read("/a", 0, 5)) == b"12345"


@pytest.mark.parametrize(
    ("url", "options", "host", "path"),
    [
        ("webhdfs://nn/a//b/", {"user": "u"}, "http://nn:9870", "/a/b"),
        ("swebhdfs://nn/a", {}, "https://nn:9871", "/a"),
        ("webhdfs://u@nn:1/a?b#c", {}, "http://nn:1", "/a?b#c"),
        ("webhdfs://[::1]:1/", {}, "http://[::1]:1", "/"),
        ("webhdfs:///a", {"host": "nn", "port": 5, "use_https": True}, "https://nn:5", "/a"),
    ],
)
async def test_urls(url: str, options: dict[str, Any], host: str, path: str) -> None:
    place = place_of(url, url)
    assert place.path == path
    lease = await lease_webhdfs({**place.options, **options}, url)
    assert [str(origin) for origin in lease.client.name_nodes] == [host]
    if "u@" in url or "user" in options:
        assert lease.client.identity == (("user.name", "u"),)
    await lease.aclose()


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("webhdfs:///a", {}, "NameNode"),
        ("webhdfs://nn:x/a", {}, "URL"),
        ("webhdfs://nn/a/../b", {}, r"'\.\.'"),
        ("webhdfs://nn/a", {"port": "x"}, "port"),
        ("webhdfs://nn/a", {"usr": "u"}, "usr"),
        ("webhdfs://u@nn/a", {"token": "t"}, "token"),
        ("webhdfs://nn/a", {"password": "p"}, "password"),
        ("webhdfs://nn/a", {"data_proxy": 3}, "data_proxy"),
        ("webhdfs://nn/\ud800", {}, "UTF-8"),
        ("swebhdfs://nn/a", {"session_verify": "no such file"}, "session_verify"),
    ],
)
async def test_what_cannot_be_asked(url: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        await open_source(url, storage_options=options, io_options=None)
    assert leased_clients() == 0


async def test_over_tls(tmp_path: Path) -> None:
    path = certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(path)
    async with serving(said(STATUS), tls=tls) as fake:
        url = fake.url.replace("webhdfs:", "swebhdfs:")
        for verify, expected in (
            (str(path), None),
            (False, None),
            (True, "Certificate"),
            (None, "Certificate"),
        ):
            place = place_of(url, url)
            lease = await lease_webhdfs({**place.options, "session_verify": verify}, url)
            try:
                call = WebHdfs(lease.client, url).status("/d/a.orc")
                if expected is None:
                    assert (await call).length == 7
                else:
                    with pytest.raises(SourceError, match=expected):
                        await call
            finally:
                await lease.aclose()


async def test_kerberos_is_left_to_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def note(target: StoreUrl) -> None:
        asked.append(target.kind)

    monkeypatch.setattr(filesystem, "open_target", note)
    monkeypatch.setattr(sink_filesystem, "open_target", note)
    options = {"kerberos": True}
    await open_source("webhdfs://nn/a", storage_options=options, io_options=None)
    with pytest.raises(AttributeError):  # there is no store
        await open_sink("webhdfs://nn/a", storage_options=options)
    assert asked == ["webhdfs", "webhdfs"]


def table(rows: int) -> pa.Table:
    return pa.table({"id": range(rows), "name": [f"row {i * 7919}" for i in range(rows)]})


async def test_a_file_of_several_blocks(hdfs_proxy: HdfsProxy) -> None:
    out = io.BytesIO()
    orc.write_table(table(400_000), out, compression="uncompressed", stripe_size=1 << 20)
    assert len(out.getvalue()) > 3 << 20, "blocks of the server have 1 MiB"
    path = "/read/several blocks.orc"
    hdfs_proxy.server.put(path, out.getvalue())
    url, options = hdfs_proxy.url(path), hdfs_proxy.options
    tuned = {"part_bytes": 700_000}
    async with orcstream.open(url, storage_options=options, io_options=tuned) as file:
        # A status, and two trips for the tail.
        assert hdfs_proxy.traffic == ["GETFILESTATUS name", "OPEN name", "OPEN data"]
        assert pa.table(await file.read()).equals(table(400_000))
        assert pa.table(await file.read(rows=range(200_000, 200_010))).column("id").to_pylist() == [
            *range(200_000, 200_010)
        ]
    assert hdfs_proxy.traffic.count("OPEN data") > 6
    assert leased_clients() == 0
    # A read that fails is asked for again from the start.
    hdfs_proxy.fault = lambda count, asked: "refuse" if count % 3 == 0 and asked.to_data_node else None
    async with orcstream.open(url, storage_options=options, io_options=tuned | {"retries": 20}) as file:
        assert pa.table(await file.read()).equals(table(400_000))


async def test_a_file_that_is_replaced_while_it_is_read(hdfs_server: HdfsServer) -> None:
    path = "/read/replaced.orc"
    hdfs_server.put(path, b"a" * 1000)
    source = await open_source(hdfs_server.url(path), storage_options=hdfs_server.options, io_options=None)
    await source.fetch_suffix(10)
    hdfs_server.put(path, b"b" * 1000)
    await source.fetch(ByteRange(0, 10))  # nothing in the answer tells
    with pytest.raises(SourceChanged):
        await source.verify()
    hdfs_server.call("DELETE", "DELETE", path)
    with pytest.raises(FileNotFoundError):
        await source.fetch(ByteRange(0, 10))
    await source.aclose()


async def test_a_folder_is_no_file(hdfs_server: HdfsServer) -> None:
    hdfs_server.call("PUT", "MKDIRS", "/read/folder")
    source = await open_source(
        hdfs_server.url("/read/folder"), storage_options=hdfs_server.options, io_options=None
    )
    with pytest.raises(SourceError, match="directory"):
        await source.fetch_suffix(10)
    await source.aclose()


async def test_a_stand_by_name_node_is_asked_again_and_again() -> None:
    standby = refused(403, "StandbyException")
    async with serving(standby, standby, said(STATUS), NAMED, (200, {}, b"1234567")) as fake:
        with pytest.raises(OrcError):  # seven bytes that are no ORC file
            await orcstream.open(fake.url)
        assert len(fake.asked) == 5
    async with serving(standby) as fake:
        with pytest.raises(RetriesExhausted, match="StandbyException"):
            await orcstream.open(fake.url, io_options={"retries": 1})


def test_reading_costs_what_hdfs_costs() -> None:
    assert cost_of("swebhdfs://nn/a", None) == cost_of("hdfs://nn/a", None)
