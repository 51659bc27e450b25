"""HTTP servers that know ranges, half of them, or none; that fail, lie and hang."""

from __future__ import annotations

import base64
import gc
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.http.source import HttpSource
from orcstream.io.urls import open_source
from tests.servers.loopback import RangeServer, range_server, run_range_server
from tests.support.effort import share

__all__ = ["range_server"]  # a fixture

DATA = bytes(range(256)) * 100
LARGE = bytes(2 << 20)


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[HttpSource]:
    source = await open_source(url, storage_options=options, io_options=None)
    assert isinstance(source, HttpSource)
    try:
        yield source
    finally:
        await source.aclose()


async def test_a_tail_is_one_request_and_ranges_are_conditional(range_server: RangeServer) -> None:
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(100)
        await source.fetch(ByteRange(7, 20))
    assert range_server.ranges_asked == ["bytes=-100", "bytes=7-19"]
    first, second = (headers for _, _, headers in range_server.requests)
    assert "If-Match" not in first
    assert second["If-Match"] == source.fingerprint
    assert first["Accept-Encoding"] == "identity"


async def test_a_refused_suffix_costs_one_more_request_when_the_refusal_says_the_length(
    range_server: RangeServer,
) -> None:
    range_server.suffix_ranges = False
    async with opened(range_server.serve("a", DATA)) as source:
        assert bytes((await source.fetch_suffix(100)).data) == DATA[-100:]
    assert range_server.ranges_asked == ["bytes=-100", "bytes=25500-25599"]


@pytest.mark.parametrize("status", [400, 416, 501])
async def test_a_refused_suffix_without_length_asks_for_the_first_byte(
    range_server: RangeServer, status: int
) -> None:
    range_server.statuses = [(status, {})]
    async with opened(range_server.serve("a", DATA)) as source:
        assert bytes((await source.fetch_suffix(100)).data) == DATA[-100:]
    assert range_server.ranges_asked == ["bytes=-100", "bytes=0-0", "bytes=25500-25599"]


async def test_a_suffix_answered_with_a_large_whole_is_asked_again_as_a_range(
    range_server: RangeServer,
) -> None:
    range_server.suffix_ranges = None
    async with opened(range_server.serve("a", LARGE)) as source:
        assert len((await source.fetch_suffix(100)).data) == 100
    assert range_server.ranges_asked == ["bytes=-100", f"bytes={len(LARGE) - 100}-{len(LARGE) - 1}"]


async def test_no_ranges_of_a_large_object_is_unsupported(range_server: RangeServer) -> None:
    range_server.ranges = False
    async with opened(range_server.serve("a", LARGE)) as source:
        with pytest.raises(Unsupported) as caught:
            await source.fetch_suffix(100)
    assert caught.value.reason == "no_range_requests"


async def test_a_small_object_that_comes_whole_is_asked_for_once(range_server: RangeServer) -> None:
    range_server.ranges = False
    async with opened(range_server.serve("a", DATA)) as source:
        assert bytes((await source.fetch_suffix(100)).data) == DATA[-100:]
        assert bytes(await source.fetch(ByteRange(5, 50))) == DATA[5:50]
    assert len(range_server.requests) == 1


async def test_a_length_nobody_says_is_unsupported(range_server: RangeServer) -> None:
    range_server.length = False
    async with opened(range_server.serve("a", DATA)) as source:
        with pytest.raises(Unsupported) as caught:
            await source.fetch_suffix(100)
    assert caught.value.reason == "no_range_requests"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, PermissionError),
        (403, PermissionError),
        (404, FileNotFoundError),
        (410, FileNotFoundError),
        (412, SourceChanged),
        (416, ShortRead),
        (418, SourceError),
        (408, Transient),
        (429, Transient),
        (500, Transient),
        (503, Transient),
        (504, Transient),
    ],
)
async def test_statuses(range_server: RangeServer, status: int, expected: type[Exception]) -> None:
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(100)
        range_server.statuses = [(status, {"Retry-After": "7"})]
        with pytest.raises(expected) as caught:
            await source.fetch(ByteRange(0, 10))
        assert type(caught.value) is expected
        if isinstance(caught.value, Transient):
            assert caught.value.retry_after_s == 7
        assert bytes(await source.fetch(ByteRange(0, 10))) == DATA[:10], "the source is still good"


async def test_a_retry_after_that_is_a_date_is_ignored(range_server: RangeServer) -> None:
    range_server.statuses = [(503, {"Retry-After": "Sat, 21 Nov 2020 07:00:00 GMT"})]
    async with opened(range_server.serve("a", DATA)) as source:
        with pytest.raises(Transient) as caught:
            await source.fetch_suffix(100)
    assert caught.value.retry_after_s == 0


async def test_a_body_cut_short_may_be_tried_again(range_server: RangeServer) -> None:
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(100)
        range_server.cut = 10
        with pytest.raises((Transient, ShortRead)):
            await source.fetch(ByteRange(0, 1000))
        range_server.cut = 0
        assert bytes(await source.fetch(ByteRange(0, 1000))) == DATA[:1000]


async def test_a_server_that_ignores_conditions_is_caught_by_its_answer(range_server: RangeServer) -> None:
    range_server.conditions = False
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(100)
        range_server.serve("a", DATA[::-1])
        with pytest.raises(SourceChanged):
            await source.fetch(ByteRange(0, 10))


@pytest.mark.parametrize(
    "content_range",
    [
        "",
        "bytes 0-9",
        "bytes */25600",
        "lines 0-9/25600",
        "bytes 9-0/25600",
        "bytes 0-9/5",
        "bytes 5-4/25600",
        f"bytes 0-9/{'9' * 5000}",
        f"bytes 0-9/{10**30}",
    ],
)
async def test_a_senseless_content_range_is_an_error(range_server: RangeServer, content_range: str) -> None:
    url = range_server.serve("a", DATA)
    range_server.statuses = [(206, {"Content-Range": content_range})]
    async with opened(url) as source:
        with pytest.raises(SourceError, match="Content-Range"):
            await source.fetch(ByteRange(0, 10))


@pytest.mark.parametrize(
    ("content_range", "what"),
    [
        ("bytes 3-4/25600", r"\b0 to 9\b.*\b3 to 5\b"),
        ("bytes 0-0/25600", r"\b0 to 9\b.*\b0 to 1\b"),
        ("bytes 0-8/25600", r"\b2\b.*\b9 bytes\b"),
    ],
    ids=["elsewhere", "body longer than announced", "body shorter than announced"],
)
async def test_another_range_than_asked_for_is_a_short_read(
    range_server: RangeServer, content_range: str, what: str
) -> None:
    url = range_server.serve("a", DATA)
    range_server.statuses = [(206, {"Content-Range": content_range})]  # with a body of two bytes
    async with opened(url) as source:
        with pytest.raises(ShortRead, match=what):
            await source.fetch(ByteRange(0, 9))


@given(
    named=st.tuples(st.integers(0, 30_000), st.integers(1, 30_000)),
    total=st.none() | st.integers(1, 30_000),
    asked=st.tuples(st.integers(0, 20_000), st.integers(1, 5_000)),
)
@settings(max_examples=share(60), deadline=None)
@example(named=(92, 2000), total=len(DATA), asked=(100, 2000))
@example(named=(100, 1999), total=len(DATA), asked=(100, 2000))
@example(named=(100, 2000), total=len(DATA) + 1, asked=(100, 2000))
@example(named=(100, 2000), total=None, asked=(100, 2000))
async def test_nothing_is_told_of_a_range_that_is_not_the_one_asked_for(
    named: tuple[int, int], total: int | None, asked: tuple[int, int]
) -> None:
    wanted, length = ByteRange(asked[0], sum(asked)), named[1]
    told: list[RangeBuffer] = []
    with run_range_server() as server:
        async with opened(server.serve("a", DATA)) as source:
            await source.fetch_suffix(10)
            content_range = f"bytes {named[0]}-{sum(named) - 1}/{'*' if total is None else total}"
            server.statuses = [(206, {"Content-Range": content_range})]
            server.refusal = bytes(length)
            server.halfway = threading.Event()
            threading.Timer(0.01, server.halfway.set).start()
            is_right = named == asked and total in (None, len(DATA))
            with nullcontext() if is_right else pytest.raises((SourceError, Unsupported)):
                assert bytes(await source.fetch(wanted, told.append)) == bytes(length)
    assert is_right or not told


async def test_a_multipart_answer_is_refused(range_server: RangeServer) -> None:
    url = range_server.serve("a", DATA)
    content_type = {"Content-Type": "multipart/byteranges; boundary=x"}
    for headers in (content_type, {**content_type, "Content-Range": f"bytes 0-1/{len(DATA)}"}):
        range_server.statuses = [(206, headers)]
        async with opened(url) as source:
            with pytest.raises(SourceError, match="Content-Range"):
                await source.fetch(ByteRange(0, 2))


async def test_a_part_that_is_called_the_whole_is_refused(range_server: RangeServer) -> None:
    url = range_server.serve("a", DATA)
    range_server.statuses = [(200, {"Content-Range": f"bytes 25598-25599/{len(DATA)}"})]
    async with opened(url) as source:
        with pytest.raises(SourceError, match=r"\bstatus 200\b.*\bContent-Range\b"):
            await source.fetch_suffix(2)


@pytest.mark.parametrize("etag", [{}, {"ETag": '"1"'}], ids=["no version", "a version"])
async def test_one_empty_answer_does_not_make_an_object_empty(
    range_server: RangeServer, etag: dict[str, str]
) -> None:
    url = range_server.serve("a", DATA)
    range_server.statuses, range_server.refusal = [(200, etag)], b""
    async with opened(url) as source:
        with pytest.raises(Transient, match=r"\bempty\b"):
            await source.fetch_suffix(100)
        assert bytes((await source.fetch_suffix(100)).data) == DATA[-100:]
        range_server.statuses = [(200, {})]
        with pytest.raises(Transient, match=r"\bempty\b"):
            await source.fetch(ByteRange(0, 9))
        range_server.statuses = [(200, {"ETag": '"2"'})]
        with pytest.raises(SourceChanged):
            await source.fetch(ByteRange(0, 9))


@pytest.mark.parametrize("ranges", [True, False])
async def test_an_object_that_is_empty_twice_is_empty(range_server: RangeServer, ranges: bool) -> None:
    range_server.ranges = ranges
    async with opened(range_server.serve("a", b"")) as source:
        suffix = await source.fetch_suffix(100)
        assert (bytes(suffix.data), suffix.file_length) == (b"", 0)
    assert len(range_server.requests) == (1 if ranges else 2)


async def test_an_encoded_object_is_unsupported(range_server: RangeServer) -> None:
    range_server.headers = {"Content-Encoding": "gzip"}
    async with opened(range_server.serve("a", DATA)) as source:
        with pytest.raises(Unsupported) as caught:
            await source.fetch_suffix(10)
    assert caught.value.reason == "content_encoding"


async def test_no_server_is_worth_another_attempt() -> None:
    async with opened("http://127.0.0.1:9/a") as source:
        with pytest.raises(Transient) as caught:
            await source.fetch_suffix(10)
    assert caught.value.url == "http://127.0.0.1:9/a"


async def test_credentials_are_used_but_never_shown(range_server: RangeServer) -> None:
    url = (
        range_server.serve("a", DATA).replace("http://", "http://user:hunter2@")
        + "?X-Amz-Signature=abc&part=1"
    )
    async with opened(url) as source:
        await source.fetch_suffix(10)
        range_server.files.clear()
        with pytest.raises(FileNotFoundError) as caught:
            await source.fetch(ByteRange(0, 10))
    _, path, headers = range_server.requests[0]
    assert headers["Authorization"].startswith("Basic ")
    assert path == "/a?X-Amz-Signature=abc&part=1"
    assert str(caught.value.filename) == source.url == f"{range_server.url}/a?part=1"
    assert caught.value.__cause__ is None


async def test_redirects_without_end_do_not_show_the_url(range_server: RangeServer) -> None:
    url = range_server.serve("a", DATA) + "?token=hunter2"
    range_server.statuses = [(302, {"Location": url})] * 30
    async with opened(url) as source:
        with pytest.raises(SourceError) as caught:
            await source.fetch_suffix(10)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


SECRET = "hunter2"
HEADERS = ("Authorization", "X-Api-Key", "Cookie")


def secrets_of(name: str) -> dict[str, Any]:
    """Storage options with the secret in one place."""
    kind, _, header = name.partition(" ")
    value = {
        "header": {header: SECRET},
        "login": aiohttp.BasicAuth("user", SECRET) if kind == "login" else None,
        "cookies": {"sid": SECRET},
        "params": {"token": SECRET},
    }[kind]
    option = {"header": "headers", "login": "auth"}.get(kind, kind)
    return {option: value}


def sent(server: RangeServer) -> str:
    """What the server was told, logins in the clear."""
    text = repr([(path, headers) for _, path, headers in server.requests])
    for encoded in re.findall(r"Basic ([\w+/=]+)", text):
        text += base64.b64decode(encoded).decode()
    return text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # aiohttp's, of logins
@pytest.mark.parametrize("of_client", [False, True], ids=["request", "client"])
@pytest.mark.parametrize("name", [*(f"header {name}" for name in HEADERS), "login", "cookies", "params"])
async def test_redirects_take_nothing_of_the_users_to_other_origins(
    range_server: RangeServer, name: str, of_client: bool
) -> None:
    if name == "params" and of_client:
        options, first = {}, f"user:{SECRET}@"  # sessions have no parameters
    else:
        options, first = secrets_of(name), ""
    if of_client and options:
        options = {"client_kwargs": options}
    with run_range_server() as other:
        url = range_server.serve("a", DATA).replace("//", f"//{first}")
        # A redirect on the same server, then to another one; then one that comes back.
        range_server.statuses = [(302, {"Location": "/c"}), (307, {"Location": other.serve("b", DATA)})]
        async with opened(url, **options) as source:
            assert bytes((await source.fetch_suffix(100)).data) == DATA[-100:]
            range_server.statuses = [(308, {"Location": f"{other.url}/back"})]
            other.statuses = [(302, {"Location": f"{range_server.url}/a"})]
            assert bytes(await source.fetch(ByteRange(3, 33))) == DATA[3:33]
        assert sent(range_server).count(SECRET) == (2 if name == "params" and not first else 4)
        assert len(range_server.requests) == 4
        assert SECRET not in sent(other)
        assert other.ranges_asked == ["bytes=-100", "bytes=3-32"]


async def test_headers_that_are_no_secret_go_along(range_server: RangeServer) -> None:
    with run_range_server() as other:
        range_server.statuses = [(302, {"Location": other.serve("b", DATA)})]
        async with opened(f"{range_server.url}/a", headers={"User-Agent": "mine", "X-Own": "1"}) as source:
            await source.fetch_suffix(100)
    headers = other.requests[0][2]
    assert headers["User-Agent"] == "mine"
    assert "X-Own" not in headers


async def test_a_refusal_behind_a_redirect_says_where_it_comes_from(range_server: RangeServer) -> None:
    with run_range_server() as other:
        range_server.statuses = [(302, {"Location": f"{other.url}/b?token=hunter2"})]
        other.statuses = [(401, {})]
        async with opened(range_server.serve("a", DATA), headers={"X-Api-Key": "1"}) as source:
            with pytest.raises(PermissionError, match=rf"{other.url}\b.*\bcredentials\b") as caught:
                await source.fetch_suffix(100)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/a", "file:///etc/passwd", "http://[::1"])
async def test_redirects_to_what_is_not_http_are_refused(range_server: RangeServer, location: str) -> None:
    range_server.statuses = [(302, {"Location": location})]
    async with opened(range_server.serve("a", DATA)) as source:
        with pytest.raises(SourceError, match=r"\bredirect\b"):
            await source.fetch_suffix(100)


async def test_redirects_may_be_switched_off_or_bounded(range_server: RangeServer) -> None:
    url = range_server.serve("a", DATA)
    options: dict[str, Any]
    for options in ({"allow_redirects": False}, {"max_redirects": 1}):
        range_server.statuses = [(302, {"Location": url})] * 2
        async with opened(url, **options) as source:
            with pytest.raises(SourceError):
                await source.fetch_suffix(100)
        range_server.statuses = []


async def test_storage_options_mean_what_they_mean_to_fsspec(range_server: RangeServer) -> None:
    url = range_server.serve("a", DATA)
    options = {
        "headers": {"X-Own": "1", "Range": "bytes=0-1"},
        "client_kwargs": {"headers": {"X-Client": "2"}},
    }
    async with opened(url, **options) as source:
        await source.fetch_suffix(10)
    headers = range_server.requests[0][2]
    assert (headers["X-Own"], headers["X-Client"], headers["Range"]) == ("1", "2", "bytes=-10")


async def test_cancelling_in_the_middle_leaves_no_request_and_no_session(range_server: RangeServer) -> None:
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(10)
        session = source._lease.client.session
        connector: Any = session.connector
        range_server.gate.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(source.fetch, ByteRange(0, 10))
            await anyio.to_thread.run_sync(range_server.wait_for_requests, 2)
            assert len(connector._acquired) == 1
            group.cancel_scope.cancel()
        assert len(connector._acquired) == 0
        range_server.gate.set()
        assert bytes(await source.fetch(ByteRange(0, 10))) == DATA[:10]
    assert session.closed
    assert leased_clients() == 0
    del source, session, connector
    gc.collect()


async def test_what_is_there_is_told_before_the_rest_has_come(range_server: RangeServer) -> None:
    told: list[RangeBuffer] = []
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(10)
        halfway = range_server.halfway = threading.Event()

        def on_bytes(there: RangeBuffer) -> None:
            told.append(there)
            halfway.set()

        with anyio.fail_after(10):
            assert bytes(await source.fetch(ByteRange(100, 20_100), on_bytes)) == DATA[100:20_100]
    assert told
    for there in told:
        assert there.range.start == 100
        assert 0 < there.range.length < 20_000
        assert there.view(there.range) == DATA[100 : there.range.stop]


@pytest.mark.parametrize("body", [DATA, DATA[:9000]], ids=["longer", "shorter"])
async def test_nothing_is_told_of_a_body_of_another_length(range_server: RangeServer, body: bytes) -> None:
    async with opened(range_server.serve("a", DATA)) as source:
        await source.fetch_suffix(10)
        range_server.statuses = [(206, {"Content-Range": f"bytes 100-20099/{len(DATA)}"})]
        range_server.refusal = body
        told: list[RangeBuffer] = []
        halfway = range_server.halfway = threading.Event()
        threading.Timer(0.2, halfway.set).start()
        with anyio.fail_after(10), pytest.raises(ShortRead, match=r"\b20000 bytes\b"):
            await source.fetch(ByteRange(100, 20_100), told.append)
    assert not told


@pytest.mark.parametrize("status", [206, 200])
async def test_nothing_is_told_of_another_version(range_server: RangeServer, status: int) -> None:
    url = range_server.serve("a", DATA)
    async with opened(url) as source:
        await source.fetch_suffix(10)
        range_server.conditions = False
        range_server.serve("a", bytes(len(DATA)))
        range_server.ranges = status == 206
        with pytest.raises(SourceChanged):
            await source.fetch(ByteRange(100, 20_100), lambda _: pytest.fail("told"))


@pytest.mark.parametrize(
    ("host", "options", "what"),
    [
        (f"{'a' * 64}.example", {}, r"\bUnicodeError\b"),
        ("127.0.0.1", {"tokn": 1}, "tokn"),
    ],
    ids=["a label that is too long", "an option that nobody knows"],
)
async def test_what_cannot_be_asked_is_a_usage_error(host: str, options: dict[str, Any], what: str) -> None:
    async with opened(f"http://{host}:9/a", **options) as source:
        with pytest.raises(UsageError, match=what):
            await source.fetch_suffix(10)


async def test_options_of_sessions_that_nobody_knows_are_named() -> None:
    with pytest.raises(UsageError, match="'tokn'"):
        await open_source(
            "http://127.0.0.1:9/a", storage_options={"client_kwargs": {"tokn": 1}}, io_options=None
        )
    assert leased_clients() == 0
