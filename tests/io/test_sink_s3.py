"""S3 beyond the contract: what is sent, every request lost or refused once, and commits without an answer."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiobotocore.awsrequest import AioAWSResponse

from orcstream.errors import CommitFailed, CommitUnknown, SinkError, UsageError
from orcstream.io.contract.byte_sink import ByteSink, Prepared, SinkOptions
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.clients import leased_clients
from orcstream.io.request.part_sink import GROWS_AFTER_PARTS, PartSink
from orcstream.io.sink import cleanup, open_sink
from orcstream.io.stores.s3.client import lease_s3
from orcstream.io.stores.s3.sink import PART_CAP, TOKEN, _Body, open_target
from orcstream.io.urls import StoreUrl
from tests.servers.loopback import MotoServer, RangeServer, range_server
from tests.servers.s3_proxy import Asked, Fault, Refusal, S3Proxy, s3_proxies
from tests.servers.sink_stores import BUCKET, SinkStore, memory_store, s3_store
from tests.support.effort import some

__all__ = ["range_server", "s3_proxies"]  # fixtures

MIB = 1 << 20
# Answers with status 200 that prove nothing: not carried out, carried out, and an error in the body.
EMPTY: list[Fault] = ["empty", "lose_empty", "lose_xml", Refusal(200, "InternalError")]
DATA = os.urandom(5 * MIB + 1000)


@pytest.fixture
def proxied(s3_proxies: tuple[MotoServer, S3Proxy], tmp_path: Path) -> tuple[SinkStore, S3Proxy]:
    server, proxy = s3_proxies
    return s3_store(server, tmp_path.name, proxy.endpoint), proxy


def is_complete(asked: Asked) -> bool:
    return asked.method == "POST" and "uploadId=" in asked.path


async def write_all(sink: ByteSink) -> Prepared:
    await sink.write(DATA)
    return await sink.prepare()


async def test_requests_of_an_upload(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    await store.commit(await store.write("a.orc", DATA))
    assert [asked.method for asked in proxy.asked] == ["POST", "PUT", "PUT", "GET", "POST"]
    for asked in proxy.asked:
        assert "aws-chunked" not in asked.headers.get("content-encoding", "")
        assert not [
            name for name in asked.headers if name.startswith(("x-amz-checksum", "x-amz-sdk-checksum"))
        ]
    hashes = [asked.headers["x-amz-content-sha256"] for asked in proxy.asked if asked.method == "PUT"]
    parts = DATA[: 5 * MIB], DATA[5 * MIB :]
    assert sorted(hashes) == sorted(hashlib.sha256(part).hexdigest() for part in parts)
    assert f"x-amz-meta-{TOKEN}" in proxy.asked[0].headers
    assert store.seen("a.orc") == DATA


@pytest.mark.parametrize("fault", [*some(["refuse", "lose", "500", "lose_500"]), *EMPTY])
async def test_every_request_may_be_lost_once(proxied: tuple[SinkStore, S3Proxy], fault: Fault) -> None:
    store, proxy = proxied
    for number in range(5):
        name = f"{number}.orc"
        proxy.asked.clear()
        proxy.fault = lambda at, _, number=number: fault if at == number else None  # type: ignore[misc]
        await store.commit(await store.write(name, DATA))
        assert len(proxy.asked) > 5
        proxy.pass_all()
        assert store.seen(name) == DATA
    if not store.is_undated:
        assert store.left() == []  # what a creation began whose answer was lost is found again


@pytest.mark.parametrize("fault", some(["refuse", "lose", "500", "stall"]))
async def test_whichever_request_fails_an_abort_leaves_nothing(
    proxied: tuple[SinkStore, S3Proxy], fault: Fault
) -> None:
    store, proxy = proxied
    store.put("a.orc", b"earlier")
    for number in itertools.count():
        proxy.asked.clear()
        proxy.released.clear()
        proxy.fault = lambda at, _, number=number: fault if at >= number else None  # type: ignore[misc]
        # Three requests are made: on a busy machine the round without a fault needs its time.
        timeout_s = 0.5 if fault == "stall" and number < 3 else 30
        sink = await store.open("a.orc", retries=0, timeout_s=timeout_s)
        try:
            await write_all(sink)
        except SinkError:
            pass
        else:
            break
        proxy.pass_all()
        await sink.abort()
        # moto does not say when an upload was begun, so one whose creation was lost is not found.
        if not (store.is_undated and number == 0):
            assert store.left() == [], number
        else:
            await cleanup(store.url_of("a.orc"), older_than_s=0, storage_options=store.options)
        assert store.seen("a.orc") == b"earlier"
    assert number == 3
    proxy.pass_all()
    await sink.abort()
    assert leased_clients() == 0


async def test_an_abort_tries_again(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    sink = await store.open("a.orc")
    await write_all(sink)
    first = len(proxy.asked)
    proxy.fault = lambda at, _: "500" if at == first else None
    await sink.abort()
    assert store.left() == []


async def test_an_abort_whose_request_hangs_tries_again(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    sink = await store.open("a.orc", abort_timeout_s=6)
    await write_all(sink)
    first = len(proxy.asked)
    proxy.fault = lambda at, _: "stall" if at == first else None
    await sink.abort()
    assert [asked.method for asked in proxy.asked[first:]].count("DELETE") >= 2
    assert store.left() == []


async def test_an_abort_that_cannot_reach_the_store_says_so(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    sink = await store.open("a.orc", retries=0)
    await write_all(sink)
    proxy.fault = lambda _at, _asked: "refuse"
    upload_id = store.left()[0]
    with pytest.raises(SinkError, match=rf"\bcleanup\b.*\bupload {re.escape(upload_id)}"):
        await sink.abort()
    assert leased_clients() == 0
    proxy.pass_all()
    found = await cleanup(store.url_of("a.orc"), older_than_s=0, storage_options=store.options)
    assert [one.kind for one in found] == ["upload"]
    assert store.left() == []


async def test_a_write_cancelled_at_any_request(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    for number in range(3):
        proxy.asked.clear()
        proxy.released.clear()
        # The creation is waited for, cancelled or not: its answer names what has to be aborted.
        held: Fault = "stall" if number else "hold"
        proxy.fault = lambda at, _, number=number, held=held: held if at == number else None  # type: ignore[misc]
        sink = await store.open("a.orc")
        async with anyio.create_task_group() as group:
            group.start_soon(write_all, sink)
            await anyio.to_thread.run_sync(proxy.wait_for_requests, number + 1)
            group.cancel_scope.cancel()
        proxy.pass_all()
        await sink.abort()
        assert store.left() == []
        assert store.seen("a.orc") is None


async def test_a_discard_that_cannot_reach_the_store_says_so(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA)
    proxy.fault = lambda _at, _asked: "refuse"
    with pytest.raises(SinkError, match=rf"\bcleanup\b.*\bupload {re.escape(store.left()[0])}"):
        await store.discard(prepared)
    proxy.pass_all()
    await store.discard(prepared)
    assert store.left() == []


async def test_an_abort_waits_for_a_part_that_was_sent(proxied: tuple[SinkStore, S3Proxy]) -> None:
    # What the store has it carries out, and one that does so after it has aborted has the upload again.
    store, proxy = proxied
    proxy.fault = lambda _, asked: "hold" if asked.method == "PUT" else None
    sink = await store.open("a.orc")
    await sink.write(DATA)
    await anyio.to_thread.run_sync(proxy.wait_for_requests, 2)
    async with anyio.create_task_group() as group:
        group.start_soon(sink.abort)
        await anyio.sleep(0.3)
        assert [asked.method for asked in proxy.asked] == ["POST", "PUT"]
        proxy.pass_all()
    assert [asked.method for asked in proxy.asked][:3] == ["POST", "PUT", "DELETE"]
    assert store.left() == []


async def test_an_abort_does_not_wait_for_ever(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    proxy.fault = lambda _, asked: "stall" if asked.method == "PUT" else None
    sink = await store.open("a.orc", abort_timeout_s=3)
    await sink.write(DATA)
    await anyio.to_thread.run_sync(proxy.wait_for_requests, 2)
    with anyio.fail_after(20):
        await sink.abort()
    # Looked for more than once: the part may still arrive.
    assert len([asked for asked in proxy.asked if asked.method == "DELETE"]) == 3
    assert store.left() == []


async def test_a_part_that_was_damaged_is_sent_again(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    if store.is_undated:
        return  # moto checks nothing
    proxy.fault = lambda at, _: "damage" if at in (1, 2) else None
    await store.commit(await store.write("a.orc", DATA))
    assert len([asked for asked in proxy.asked if asked.method == "PUT"]) == 4
    assert store.seen("a.orc") == DATA


@pytest.mark.parametrize(
    ("endpoint", "given", "expected"),
    [
        ("https://store.example", {}, "UNSIGNED-PAYLOAD"),
        ("https://store.example", {"s3": {"payload_signing_enabled": True}}, None),
        ("http://store.example", {}, None),
        ("http://store.example", {"s3": {"payload_signing_enabled": False}}, "UNSIGNED-PAYLOAD"),
    ],
)
async def test_bodies_are_hashed_where_the_transport_does_not(
    endpoint: str, given: dict[str, Any], expected: str | None
) -> None:
    options = {"key": "k", "secret": "s", "endpoint_url": endpoint, "config_kwargs": given}
    lease = await lease_s3(options, "s3://bucket")
    seen: list[str] = []

    def send(request: Any, **_: Any) -> AioAWSResponse:
        hashed = request.headers["X-Amz-Content-SHA256"]
        seen.append(hashed if isinstance(hashed, str) else hashed.decode())
        response = AioAWSResponse(request.url, 200, {"ETag": '"e"'}, None)
        response._content = b""
        return response

    filesystem = lease.client.filesystem
    filesystem._s3.meta.events.register("before-send.s3.UploadPart", send)
    try:
        await filesystem._call_s3("upload_part", Bucket="b", Key="k", UploadId="u", PartNumber=1, Body=b"abc")
    finally:
        await lease.aclose()
    assert seen == [expected or hashlib.sha256(b"abc").hexdigest()]


async def test_a_writer_that_may_not_list_uploads(proxied: tuple[SinkStore, S3Proxy]) -> None:
    # A creation whose answer was lost cannot be found then; that is no reason to give up the file.
    store, proxy = proxied
    lists: list[Asked] = []

    def fault(at: int, asked: Asked) -> Fault | None:
        if asked.method == "GET" and "uploads" in asked.path and "uploadId" not in asked.path:
            lists.append(asked)
            return "403"
        return "lose" if at == 0 else None

    proxy.fault = fault
    await store.commit(await store.write("a.orc", DATA))
    assert store.seen("a.orc") == DATA
    assert lists
    assert len(store.left()) == 1  # and `cleanup`, by who may list, finds it


async def test_memory_of_parts_is_not_copied() -> None:
    data = bytes(10)
    body = _Body(data)
    assert body.getbuffer().obj is data
    assert body.read() == data
    assert body.tell() == len(data)


@pytest.mark.parametrize("fault", ["lose", "lose_500"])
async def test_a_commit_without_an_answer_is_found_out(
    proxied: tuple[SinkStore, S3Proxy], fault: Fault
) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA)
    proxy.fault = lambda _, asked: fault if is_complete(asked) else None
    await store.commit(prepared, retries=0)
    assert store.seen("a.orc") == DATA


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("fault", EMPTY)
async def test_a_commit_that_is_only_said_to_be_one_is_made(
    proxied: tuple[SinkStore, S3Proxy], fault: Fault, overwrite: bool
) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA, overwrite=overwrite)
    left = [1]
    proxy.fault = lambda _, asked: fault if is_complete(asked) and left and left.pop() else None
    await store.commit(prepared)
    assert store.seen("a.orc") == DATA
    assert store.left() == []


@pytest.mark.parametrize("fault", ["empty", "lose_empty"])
async def test_a_commit_that_is_never_answered_properly(
    proxied: tuple[SinkStore, S3Proxy], fault: Fault
) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA)
    proxy.fault = lambda _, asked: fault if is_complete(asked) or asked.method == "HEAD" else None
    with pytest.raises(CommitUnknown):
        await store.commit(prepared, retries=1)
    proxy.pass_all()
    await store.commit(prepared)
    assert store.seen("a.orc") == DATA


async def test_uploads_of_others_are_not_taken_for_lost_ones(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    if store.is_undated:
        return  # moto's are all of 2010, and none is taken for a lost one
    other = await store.write("a.orc", DATA)
    lost: Iterator[Fault] = iter(["lose"])
    proxy.fault = lambda _, asked: (
        next(lost, None)
        if asked.path.endswith("?uploads") and asked.method == "POST"
        else "empty"
        if asked.method == "GET" and "uploadId=" in asked.path
        else None
    )
    sink = await store.open("a.orc", retries=1)
    with pytest.raises(SinkError):
        await write_all(sink)
    proxy.pass_all()
    await sink.abort()
    await store.commit(other)
    assert store.seen("a.orc") == DATA


async def test_a_commit_of_which_nothing_is_known(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA)
    losses: dict[str, Fault] = {"POST": "lose", "HEAD": "refuse"}
    proxy.fault = lambda _, asked: losses.get(asked.method)
    with pytest.raises(CommitUnknown, match=TOKEN) as caught:
        await store.commit(prepared, retries=0)
    assert caught.value.url == prepared.shown
    proxy.pass_all()
    await store.commit(prepared)
    assert store.seen("a.orc") == DATA
    assert store.left() == []


async def test_a_commit_whose_answer_is_lost_before_credentials_end_is_not_known(
    proxied: tuple[SinkStore, S3Proxy],
) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA)
    sent = itertools.count()

    def fault(_: int, asked: Asked) -> Fault | None:
        if is_complete(asked) and next(sent) == 0:
            proxy.fault = lambda *_: Refusal(403, "AccessDenied")
            return "lose"
        return None

    proxy.fault = fault
    with pytest.raises(CommitUnknown, match=TOKEN):
        await store.commit(prepared, retries=1)
    assert store.seen("a.orc") == DATA
    proxy.fault = lambda *_: Refusal(403, "AccessDenied")
    with pytest.raises(PermissionError):  # of a commit that nobody has carried out
        await store.commit(await _prepared_elsewhere(store, proxy), retries=1)


async def _prepared_elsewhere(store: SinkStore, proxy: S3Proxy) -> Prepared:
    fault, proxy.fault = proxy.fault, lambda *_: None
    prepared = await store.write("b.orc", DATA)
    proxy.fault = fault
    return prepared


async def test_a_store_that_names_a_wait_is_heard(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    proxy.fault = lambda *_: Refusal(503, "SlowDown", {"Retry-After": "7"})
    opened = await open_target(StoreUrl.of(f"s3://{BUCKET}/a.orc", store.options))
    with pytest.raises(Transient) as caught:
        await opened.new_upload(SinkOptions()).begin()
    assert caught.value.retry_after_s == 7
    await opened.aclose()


async def test_a_commit_that_never_arrived(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    store.put("a.orc", b"earlier")
    prepared = await store.write("a.orc", DATA)
    proxy.fault = lambda _, asked: "refuse" if is_complete(asked) else None
    with pytest.raises(CommitUnknown):
        await store.commit(prepared, retries=0)
    assert store.seen("a.orc") == b"earlier"
    await store.discard(prepared)
    assert store.left() == []
    proxy.pass_all()
    with pytest.raises(CommitFailed):
        await store.commit(prepared)
    assert store.seen("a.orc") == b"earlier"


async def test_a_commit_cancelled_at_any_request(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    store.put("a.orc", b"earlier")
    prepared = await store.write("a.orc", DATA)
    for number in range(2):
        proxy.asked.clear()
        proxy.released.clear()
        proxy.fault = lambda at, _, number=number: "hold" if at == number else None  # type: ignore[misc]
        async with anyio.create_task_group() as group:
            group.start_soon(store.commit, prepared)
            await anyio.to_thread.run_sync(proxy.wait_for_requests, number + 1)
            assert store.seen("a.orc") == b"earlier"
            group.cancel_scope.cancel()
        proxy.pass_all()
    # The last was sent: it happens, sooner or later, and another commit finds out.
    await store.commit(prepared)
    assert store.seen("a.orc") == DATA
    assert store.left() == []
    assert leased_clients() == 0


async def test_a_file_that_appears_meanwhile_is_not_replaced(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA, overwrite=False)

    def fault(_: int, asked: Asked) -> Fault | None:
        if is_complete(asked):
            store.put("a.orc", b"another's")
        return None

    proxy.fault = fault
    with pytest.raises(FileExistsError):
        await store.commit(prepared)
    assert store.seen("a.orc") == b"another's"


async def test_without_overwrite_a_lost_answer_is_found_out(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, proxy = proxied
    prepared = await store.write("a.orc", DATA, overwrite=False)
    proxy.fault = lambda _, asked: "lose" if is_complete(asked) else None
    await store.commit(prepared, retries=1)
    assert store.seen("a.orc") == DATA


ODD_UPLOADS = [
    "<Upload><UploadId>u</UploadId><Initiated>2024-01-01T00:00:00Z</Initiated></Upload>",
    "<Upload><Key>a</Key><Initiated>2024-01-01T00:00:00Z</Initiated></Upload>",
    "<Upload><Key>a</Key><UploadId>u</UploadId></Upload>",
    "<Upload><Key>a</Key><UploadId>u</UploadId><Initiated>once</Initiated></Upload>",
    "<IsTruncated>true</IsTruncated>",
    "<IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker>",
    "<IsTruncated>perhaps</IsTruncated><Upload/>",
]


@pytest.mark.parametrize("inner", ODD_UPLOADS)
async def test_a_listing_of_uploads_that_is_none(inner: str, range_server: RangeServer) -> None:
    name = "ListMultipartUploadsResult"
    range_server.refusal = f'<?xml version="1.0"?><{name}><Bucket>bucket</Bucket>{inner}</{name}>'.encode()
    range_server.statuses = [(200, {"Content-Type": "application/xml"})] * 20
    options = {"key": "k", "secret": "s", "endpoint_url": range_server.url}
    with pytest.raises(SinkError) as caught:
        await cleanup("s3://bucket/a", storage_options=options, older_than_s=0, remove=False)
    assert caught.value.url == "s3://bucket/a"
    assert leased_clients() == 0


async def test_a_bucket_that_is_not_there(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, _ = proxied
    sink = await open_sink("s3://no-such-bucket/a.orc", storage_options=store.options)
    with pytest.raises(FileNotFoundError):
        await write_all(sink)
    await sink.abort()
    assert leased_clients() == 0


@pytest.mark.parametrize("url", ["s3://", f"s3://{BUCKET}/a?versionId=3"])
async def test_urls_that_name_no_object(url: str) -> None:
    with pytest.raises(UsageError):
        await open_sink(url)
    assert leased_clients() == 0


async def test_a_bucket_is_no_object(proxied: tuple[SinkStore, S3Proxy]) -> None:
    store, _ = proxied
    sink = await open_sink(f"s3://{BUCKET}", storage_options=store.options)
    with pytest.raises(UsageError):
        await write_all(sink)
    await sink.abort()


async def test_parts_grow_so_that_there_are_never_too_many() -> None:
    sink = await memory_store().open("a.orc")
    assert isinstance(sink, PartSink)
    sink._store.part_cap = PART_CAP  # type: ignore[misc]
    sink._options = type(sink._options)()
    first = sink._part_bytes()
    while sink._part_count < PART_CAP:
        size = sink._part_bytes()
        assert size == first or sink._part_count >= GROWS_AFTER_PARTS
        sink._length += size
        sink._part_count += 1
    assert sink._length > 3 << 40
    with pytest.raises(SinkError, match="part_bytes"):
        await sink.write(b"x")
    sink._length = 0
    await sink.abort()
