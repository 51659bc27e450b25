"""S3 beyond the contract: what is signed, when signed URLs are given up, and how refusals are told."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import pytest

import orcstream
from orcstream.byterange import ByteRange
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import Transient
from orcstream.io.folders import list_files
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.s3.client import S3Place, lease_s3
from orcstream.io.stores.s3.source import RENEWED_AFTER_S, S3Source
from orcstream.io.urls import StoreUrl, open_source
from tests.servers.loopback import MotoServer, RangeServer, moto_server, range_server

__all__ = ["moto_server", "range_server"]  # fixtures

DATA = bytes(range(256)) * 100


@asynccontextmanager
async def opened(url: str, options: Mapping[str, Any]) -> AsyncIterator[S3Source]:
    source = await open_source(url, storage_options=options, io_options=None)
    assert isinstance(source, S3Source)
    try:
        yield source
    finally:
        await source.aclose()


def options_of(server: RangeServer, **more: Any) -> dict[str, Any]:
    """The HTTP server taken for an S3 store: it serves /bucket/key, whatever the signature."""
    client = {"region_name": "us-east-1"}
    return {"key": "AKIAKEY", "secret": "hunter2", "endpoint_url": server.url, "client_kwargs": client} | more


def query_of(server: RangeServer, number: int) -> dict[str, list[str]]:
    return parse_qs(urlsplit(server.requests[number][1]).query)


async def test_one_signature_serves_all_requests(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        assert bytes((await source.fetch_suffix(10)).data) == DATA[-10:]
        assert bytes(await source.fetch(ByteRange(3, 33))) == DATA[3:33]
    assert len({path for _, path, _ in range_server.requests}) == 1
    assert query_of(range_server, 0)["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    tail, part = (headers for _, _, headers in range_server.requests)
    assert "Authorization" not in tail
    assert (tail["Range"], part["Range"], part["If-Match"]) == ("bytes=-10", "bytes=3-32", source.fingerprint)


async def test_an_explicit_signature_version_is_kept(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    options = options_of(range_server, config_kwargs={"signature_version": "s3"})
    async with opened("s3://bucket/a", options) as source:
        await source.fetch_suffix(10)
    assert "AWSAccessKeyId" in query_of(range_server, 0)


async def test_anonymous_requests_carry_no_signature(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", {"anon": True, "endpoint_url": range_server.url}) as source:
        await source.fetch_suffix(10)
    assert query_of(range_server, 0) == {}
    assert "Authorization" not in range_server.requests[0][2]


async def test_a_version_is_asked_for_by_name(moto_server: MotoServer) -> None:
    url = moto_server.put("versioned", "a", b"")
    moto_server.client.put_bucket_versioning(
        Bucket="versioned", VersioningConfiguration={"Status": "Enabled"}
    )
    old = moto_server.client.put_object(Bucket="versioned", Key="a", Body=DATA)["VersionId"]
    moto_server.put("versioned", "a", b"new")
    async with opened(f"{url}?versionId={old}", moto_server.options) as source:
        assert bytes((await source.fetch_suffix(10)).data) == DATA[-10:]


@pytest.mark.parametrize(
    "more",
    [{"requester_pays": True}, {"config_kwargs": {"proxies": {}}}],
    ids=["signed header", "proxies of botocore"],
)
async def test_what_cannot_be_signed_ahead_goes_through_s3fs(
    range_server: RangeServer, more: dict[str, Any]
) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server, **more)) as source:
        assert bytes((await source.fetch_suffix(10)).data) == DATA[-10:]
        assert bytes(await source.fetch(ByteRange(3, 33))) == DATA[3:33]
    for _, path, headers in range_server.requests:
        assert path.partition("?")[0] == "/bucket/a"
        assert "X-Amz-Signature" not in path
        assert headers["Authorization"].startswith("AWS4-HMAC-SHA256")
    assert range_server.requests[1][2]["If-Match"] == source.fingerprint


async def test_parameters_of_writing_do_not_hinder_signing(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    options = options_of(range_server, s3_additional_kwargs={"ServerSideEncryption": "AES256"})
    async with opened("s3://bucket/a", options) as source:
        await source.fetch_suffix(10)
    assert "X-Amz-Signature" in query_of(range_server, 0)


@pytest.mark.parametrize("status", [301, 307, 400, 403])
async def test_a_refused_signature_gives_way_to_s3fs_for_good(range_server: RangeServer, status: int) -> None:
    range_server.serve("bucket/a", DATA)
    # A suffix that is refused with 400 is asked for in two more ways first.
    range_server.statuses = [(status, {})] * (2 if status == 400 else 1)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        assert bytes((await source.fetch_suffix(10)).data) == DATA[-10:]
        assert bytes(await source.fetch(ByteRange(3, 33))) == DATA[3:33]
    signed = ["X-Amz-Signature" in path for _, path, _ in range_server.requests]
    assert signed == [True] * (len(signed) - 2) + [False, False]


async def test_refused_by_both_ways_is_a_permission_error(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    range_server.statuses = [(403, {}), (403, {})]
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        with pytest.raises(PermissionError) as caught:
            await source.fetch_suffix(10)
        assert caught.value.filename == "s3://bucket/a"
        await source.fetch_suffix(10)  # nothing was concluded from a refusal of both


async def test_a_signature_that_ended_is_renewed_once(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        await source.fetch_suffix(10)
        signature = source._signature
        range_server.statuses = [(403, {})]
        assert bytes(await source.fetch(ByteRange(3, 33))) == DATA[3:33]
        assert source._signature is not signature
        range_server.statuses = [(403, {}), (403, {})]
        with pytest.raises(PermissionError):
            await source.fetch(ByteRange(3, 33))
    assert len(range_server.requests) == 5


async def test_requests_refused_together_share_one_new_signature(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        await source.fetch_suffix(10)
        made: list[object] = []
        presign = source._presign

        async def counted() -> str | None:
            made.append(1)
            return await presign()

        source._presign = counted  # type: ignore[method-assign]
        range_server.gate.clear()
        range_server.statuses = [(403, {})] * 4
        async with anyio.create_task_group() as group:
            for start in range(4):
                group.start_soon(source.fetch, ByteRange(start, start + 1))
            await anyio.to_thread.run_sync(range_server.wait_for_requests, 5)
            range_server.gate.set()
    assert len(made) == 1
    assert len(range_server.requests) == 9


async def test_signatures_are_renewed_before_they_end(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    now = [0.0]
    lease = await lease_s3(options_of(range_server), "s3://bucket")
    async with opened("s3://bucket/a", options_of(range_server)):
        source = S3Source(
            S3Place(lease, "bucket", "a", None), StoreUrl.of("s3://bucket/a", None), clock=lambda: now[0]
        )
        signatures = []
        for now[0] in (0.0, RENEWED_AFTER_S - 1, RENEWED_AFTER_S + 1):
            await source.fetch_suffix(10)
            signatures.append(source._signature)
        await source.aclose()
    assert signatures[0] is signatures[1] is not signatures[2]


@pytest.mark.parametrize("more", [{}, {"config_kwargs": {"proxies": {}}}], ids=["signed", "called"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [(404, FileNotFoundError), (412, SourceChanged), (416, ShortRead), (500, Transient), (503, Transient)],
)
async def test_statuses(
    range_server: RangeServer, more: dict[str, Any], status: int, expected: type[Exception]
) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server, **more)) as source:
        await source.fetch_suffix(10)
        before = len(range_server.requests)
        range_server.statuses = [(status, {"Retry-After": "7"})]
        with pytest.raises(expected) as caught:
            await source.fetch(ByteRange(0, 10))
        assert type(caught.value) is expected
        if isinstance(caught.value, Transient):
            assert caught.value.retry_after_s == 7
        assert len(range_server.requests) == before + 1, "attempts are the scheduler's business"


@pytest.mark.parametrize("more", [{}, {"config_kwargs": {"proxies": {}}}], ids=["signed", "called"])
@pytest.mark.parametrize(
    ("content_range", "expected"),
    [
        ("bytes 92-101/25600", ShortRead),
        ("bytes 100-108/25600", ShortRead),
        ("bytes 100-109/25601", SourceChanged),
        ("lines 100-109/25600", (SourceError, Unsupported)),
    ],
)
async def test_another_range_than_asked_for_is_refused(
    range_server: RangeServer, more: Mapping[str, Any], content_range: str, expected: Any
) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server, **more)) as source:
        await source.fetch_suffix(10)
        range_server.statuses = [(206, {"Content-Range": content_range, "ETag": source.fingerprint})]
        range_server.refusal = DATA[92:102]
        with pytest.raises(expected):
            await source.fetch(ByteRange(100, 110))


@pytest.mark.parametrize("more", [{}, {"config_kwargs": {"proxies": {}}}], ids=["signed", "called"])
async def test_one_empty_answer_does_not_make_an_object_empty(
    range_server: RangeServer, more: Mapping[str, Any]
) -> None:
    range_server.serve("bucket/a", DATA)
    range_server.refusal = b""
    async with opened("s3://bucket/a", options_of(range_server, **more)) as source:
        range_server.statuses = [(200, {})]
        with pytest.raises(SourceError):
            await source.fetch_suffix(10)
        await source.fetch_suffix(10)
        range_server.statuses = [(200, {})]
        with pytest.raises(Transient):
            await source.fetch(ByteRange(100, 110))


@pytest.mark.parametrize("answer", [b"", b"<ListBucketResult/>"])
async def test_a_listing_that_says_nothing_is_asked_for_again(
    range_server: RangeServer, answer: bytes
) -> None:
    range_server.refusal = answer
    range_server.statuses = [(200, {"Content-Type": "application/xml"})] * 2
    range_server.serve(
        "bucket",
        b"<ListBucketResult><Name>bucket</Name><Contents><Key>t/a.orc</Key>"
        b"<Size>3</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>",
    )
    found = await list_files("s3://bucket/t", storage_options=options_of(range_server))
    assert [one.path for one in found] == ["a.orc"]
    assert len(range_server.requests) == 3


async def test_s3fs_does_not_try_again_by_itself(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server, config_kwargs={"proxies": {}})) as source:
        await source.fetch_suffix(10)
        range_server.refusal = b"<Error><Code>SlowDown</Code></Error>"  # what s3fs would try five times
        range_server.statuses = [(503, {})]
        with pytest.raises(Transient):
            await source.fetch(ByteRange(0, 10))
    assert len(range_server.requests) == 2


async def test_a_body_cut_short_in_a_call_may_be_tried_again(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    options = options_of(range_server, config_kwargs={"proxies": {}})
    async with opened("s3://bucket/a", options) as source:
        await source.fetch_suffix(10)
        range_server.cut = 5
        with pytest.raises((Transient, ShortRead)):
            await source.fetch(ByteRange(0, 100))
        range_server.cut = 0
        assert bytes(await source.fetch(ByteRange(0, 100))) == DATA[:100]


async def test_secrets_are_not_shown(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        await source.fetch_suffix(10)
        range_server.statuses = [(418, {})]
        with pytest.raises(SourceError) as caught:
            await source.fetch(ByteRange(0, 10))
    assert "Signature" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/", "s3:///key"])
async def test_a_url_without_bucket_or_key_is_a_usage_error(moto_server: MotoServer, url: str) -> None:
    with pytest.raises(UsageError):
        await open_source(url, storage_options=moto_server.options, io_options=None)
    assert leased_clients() == 0


async def test_cancelling_in_the_middle_leaves_no_request_and_no_session(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        await source.fetch_suffix(10)
        session = source._lease.client.session
        connector: Any = session.connector
        range_server.gate.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(source.fetch, ByteRange(0, 10))
            await anyio.to_thread.run_sync(range_server.wait_for_requests, 2)
            group.cancel_scope.cancel()
        assert len(connector._acquired) == 0
        range_server.gate.set()
    assert session.closed
    assert leased_clients() == 0


async def test_a_thousand_opens_share_one_client(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    sources: list[S3Source] = []

    async def open_one() -> None:
        source = await open_source("s3://bucket/a", storage_options=options_of(range_server), io_options=None)
        assert isinstance(source, S3Source)
        sources.append(source)

    async with anyio.create_task_group() as group:
        for _ in range(1000):
            group.start_soon(open_one)
    assert leased_clients() == 1
    assert len({id(source._lease.client) for source in sources}) == 1
    session = sources[0]._lease.client.session
    assert bytes((await sources[0].fetch_suffix(10)).data) == DATA[-10:]
    closed = []
    for source in sources:
        await source.aclose()
        closed.append(session.closed)
    assert closed == [False] * 999 + [True]
    assert leased_clients() == 0


# --- what a refusal says, so that somebody can do something about it ---


def refusal(code: str, message: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


async def refused_with(url: str, options: Mapping[str, Any]) -> OSError:
    with pytest.raises((PermissionError, FileNotFoundError)) as caught:
        async with opened(url, options) as source:
            await source.fetch_suffix(10)
    assert caught.value.filename == url
    return caught.value


async def test_a_refusal_says_why(range_server: RangeServer) -> None:
    range_server.refusal = refusal("ExpiredToken", "The provided token has expired.")
    range_server.statuses = [(403, {})] * 4
    error = await refused_with("s3://bucket/a", options_of(range_server))
    assert isinstance(error, PermissionError)
    assert error.strerror == "Permission denied (ExpiredToken: The provided token has expired.)"


async def test_a_later_refusal_says_why(range_server: RangeServer) -> None:
    range_server.serve("bucket/a", DATA)
    async with opened("s3://bucket/a", options_of(range_server)) as source:
        await source.fetch_suffix(10)
        range_server.refusal = refusal("AccessDenied", "Access\nDenied")
        range_server.statuses = [(403, {})] * 4
        with pytest.raises(PermissionError, match=r"Permission denied \(AccessDenied: Access Denied\)"):
            await source.fetch(ByteRange(0, 10))


async def test_a_web_server_that_refuses_a_signed_url_says_why(range_server: RangeServer) -> None:
    range_server.refusal = refusal("AccessDenied", "Request has expired")
    range_server.statuses = [(403, {})]
    source = await open_source(f"{range_server.url}/a", storage_options=None, io_options=None)
    try:
        with pytest.raises(PermissionError, match="Request has expired"):
            await source.fetch_suffix(10)
    finally:
        await source.aclose()


async def test_a_bucket_that_is_not_there_is_told_from_a_key(moto_server: MotoServer) -> None:
    moto_server.put("there", "a", DATA)
    error = await refused_with("s3://there/b", moto_server.options)
    assert (type(error), error.strerror) == (FileNotFoundError, "No such file or directory")
    error = await refused_with("s3://nowhere/b", moto_server.options)
    assert type(error) is FileNotFoundError
    assert "NoSuchBucket" in str(error)


async def test_writing_to_a_bucket_that_is_not_there(moto_server: MotoServer) -> None:
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        async with orcstream.create("s3://nowhere/b", storage_options=moto_server.options) as out:
            await out.write([{"a": 1}])


async def write_one(options: Mapping[str, Any]) -> None:
    async with orcstream.create("s3://bucket/a", storage_options=options) as out:
        await out.write([{"a": 1}])


@pytest.mark.parametrize("step", ["read", "write"])
async def test_without_credentials_it_is_said_what_to_give(
    range_server: RangeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    options = {"endpoint_url": range_server.url}
    with pytest.raises(PermissionError, match=r"\bstorage_options\b.*\bkey\b.*\bsecret\b"):
        await (
            orcstream.open("s3://bucket/a", storage_options=options) if step == "read" else write_one(options)
        )
    assert not range_server.requests


@pytest.mark.parametrize("make", [orcstream.open, orcstream.create])
async def test_storage_options_that_s3fs_does_not_know_are_named(make: Any) -> None:
    with pytest.raises(UsageError, match=r"'aws_access_key_id'.*\bkey, secret\b"):
        await make("s3://bucket/a", storage_options={"aws_access_key_id": "a"})


BAD_NAMES = ["s3://my bucket/a", "s3://KEY:secret@bucket/a"]


@pytest.mark.parametrize("url", BAD_NAMES)
@pytest.mark.parametrize("step", ["read", "list", "write"])
async def test_what_cannot_be_a_bucket_is_said_so(range_server: RangeServer, url: str, step: str) -> None:
    options = options_of(range_server)

    async def write() -> None:
        async with orcstream.create(url, "struct<a:int>", storage_options=options):
            pass

    steps: dict[str, Callable[[], Awaitable[Any]]] = {
        "read": lambda: orcstream.open(url, storage_options=options),
        "list": lambda: list_files(url, storage_options=options),
        "write": write,
    }
    with pytest.raises(UsageError, match=r"\bbucket\b.*s3://bucket/key") as caught:
        await steps[step]()
    assert "KEY:secret" not in "".join(traceback.format_exception(caught.value))
    assert leased_clients() == 0


async def test_a_file_of_certificates_that_is_not_there_is_not_taken_for_the_object(tmp_path: Path) -> None:
    options = {"key": "k", "secret": "s", "client_kwargs": {"verify": str(tmp_path / "none.pem")}}
    with pytest.raises(UsageError, match=r"\bverify\b.*none\.pem"):
        await orcstream.open("s3://bucket/a", storage_options=options)
    assert leased_clients() == 0
