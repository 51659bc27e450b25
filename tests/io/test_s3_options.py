"""Credentials and options of S3, as AWS's tools have them: each tried on servers, to read, write and join."""

from __future__ import annotations

import base64
import functools
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.cli.main import main
from orcstream.errors import UsageError
from orcstream.io.loop.clients import leased_clients
from orcstream.writer import merge
from tests.servers.certificates import certificate
from tests.servers.loopback import MotoServer, RangeServer, moto_server, range_server, run_range_server
from tests.servers.s3_proxy import S3_KINDS, Asked, S3Proxy, run_s3_proxy, start_s3

__all__ = ["moto_server", "range_server"]  # fixtures

BUCKET = "options"
SCHEMA = "struct<a:binary>"
# Together more than two parts: of what is copied, the first is fetched, since something stands before it.
ROWS = [(os.urandom(900_000),) for _ in range(12)]
FEW = ROWS[:1]
CUSTOMER = "x-amz-server-side-encryption-customer"
COPIED = "x-amz-copy-source-server-side-encryption-customer"


async def write(url: str, options: Mapping[str, Any] | None, rows: list[Any] = ROWS, **more: Any) -> None:
    async with orcstream.create(url, SCHEMA, compression="none", storage_options=options, **more) as out:
        await out.write(rows)


async def read(url: str, options: Mapping[str, Any] | None) -> list[Any]:
    async with orcstream.open(url, storage_options=options, io_options={"retries": 0}) as file:
        return [(row["a"],) for row in (await file.read()).to_pylist()]


async def round_trip(options: Mapping[str, Any] | None, folder: str) -> None:
    """Write a file, have it copied into another, and read that."""
    url, joined = (f"s3://{BUCKET}/{folder}/{name}.orc" for name in ("a", "joined"))
    await write(url, options)
    await orcstream.merge([url], joined, storage_options=options)
    assert await read(joined, options) == ROWS
    assert leased_clients() == 0


@pytest.fixture(autouse=True)
def copied_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter ranges than is worth it."""
    monkeypatch.setattr(merge, "STORE_COPY_BYTES", 1 << 20)


@contextmanager
def proxied(kind: str) -> Iterator[tuple[S3Proxy, dict[str, Any]]]:
    server = start_s3(kind)
    server.put(BUCKET, "there", b"")
    with run_s3_proxy(server.endpoint) as proxy:
        yield proxy, server.options | {"endpoint_url": proxy.endpoint}


def rows_of_numbers() -> bytes:
    buffer = io.BytesIO()
    orc.write_table(pa.table({"n": [1, 2]}), buffer)
    return buffer.getvalue()


def is_copy(asked: Asked) -> bool:
    return "x-amz-copy-source" in asked.headers


# --- what the store is to do with the bytes ----------------------------------------------------------------


@pytest.mark.parametrize("kind", S3_KINDS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ServerSideEncryption": "AES256"}, {"x-amz-server-side-encryption": "AES256"}),
        (
            {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/ours", "BucketKeyEnabled": True},
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": "alias/ours",
                "x-amz-server-side-encryption-bucket-key-enabled": "true",
            },
        ),
    ],
    ids=["S3's keys", "KMS's keys"],
)
async def test_encrypted_by_the_store(kind: str, given: dict[str, Any], expected: dict[str, str]) -> None:
    """Whoever begins an upload says how; S3 refuses these headers with everything else."""
    with proxied(kind) as (proxy, options):
        await round_trip(options | {"s3_additional_kwargs": given}, "by-store")
    begun = [one for one in proxy.asked if one.method == "POST" and one.path.endswith("?uploads")]
    assert len(begun) == 2
    assert any(map(is_copy, proxy.asked))
    for one in proxy.asked:
        said = {name: value for name, value in one.headers.items() if name in expected}
        assert said == (expected if one in begun else {})


def lacks_key(asked: Asked, key: str) -> bool:
    """Whether S3 would refuse the request for a key of the customer's that is not there."""
    needs = "uploads" in asked.path or asked.method in ("PUT", "HEAD")
    needs |= asked.method == "GET" and "uploadId" not in asked.path
    ways = [CUSTOMER] if needs else []
    ways += [COPIED] if is_copy(asked) else []
    return any(
        asked.headers.get(f"{way}-key") != key
        or asked.headers.get(f"{way}-algorithm") != "AES256"
        or f"{way}-key-md5" not in asked.headers
        for way in ways
    )


@pytest.mark.parametrize(
    ("kind", "form"),
    [("versitygw", "bytes"), ("moto", "bytes"), ("versitygw", "text"), ("versitygw", "encoded")],
)
async def test_encrypted_by_a_key_of_the_customer(kind: str, form: str) -> None:
    """The servers store in the clear; the proxy is as strict about keys as S3 is."""
    key = b"0123456789abcdef0123456789abcdef"
    code = base64.b64encode(key).decode()
    given: dict[str, Any] = {"SSECustomerAlgorithm": "AES256"}
    if form == "encoded":
        given |= {"SSECustomerKey": code, "SSECustomerKeyMD5": "anything"}
    else:
        given |= {"SSECustomerKey": key if form == "bytes" else key.decode()}
    with proxied(kind) as (proxy, options):
        proxy.fault = lambda _number, asked: "403" if lacks_key(asked, code) else None
        await round_trip(options | {"s3_additional_kwargs": given}, "by-customer")
        assert any(is_copy(one) for one in proxy.asked)
        with pytest.raises(PermissionError):
            await read(f"s3://{BUCKET}/by-customer/a.orc", options)


@pytest.mark.parametrize(
    "given",
    [
        {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": 471_147},
        {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "x", "SSECustomerKeyMD5": 471_147},
        {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"471147", "SSECustomerKeyMD5": "x"},
    ],
)
async def test_what_cannot_be_sent_is_not_shown(moto_server: MotoServer, given: dict[str, Any]) -> None:
    options = moto_server.options | {"s3_additional_kwargs": given}
    url = moto_server.put(BUCKET, "a.orc", b"")
    with pytest.raises(UsageError, match="SSECustomerKey") as reading:
        await read(url, options)
    with pytest.raises(UsageError, match="SSECustomerKey") as writing:
        await write(url, options)
    for caught in (reading, writing):
        assert "471147" not in str(caught.value)
        assert caught.value.__suppress_context__ or "471147" not in str(caught.value.__cause__)
    assert leased_clients() == 0


@pytest.mark.parametrize("kind", S3_KINDS)
async def test_whoever_asks_pays(kind: str) -> None:
    with proxied(kind) as (proxy, options):
        await round_trip(options | {"requester_pays": True}, "paid")
    assert {one.headers.get("x-amz-request-payer") for one in proxy.asked} == {"requester"}


@pytest.mark.parametrize("kind", S3_KINDS)
async def test_versions(kind: str) -> None:
    """A version that the URL names is read, and copied, when it is no longer the last one."""
    server = start_s3(kind)
    server.put("versions", "x", b"")
    server.client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    url = "s3://versions/a.orc"
    await write(url, server.options)
    version = server.client.head_object(Bucket="versions", Key="a.orc")["VersionId"]
    server.put("versions", "a.orc", b"later")
    named = f"{url}?versionId={version}"
    assert await read(named, server.options) == ROWS
    await orcstream.merge([named], "s3://versions/joined.orc", storage_options=server.options)
    assert await read("s3://versions/joined.orc", server.options) == ROWS


# --- who asks ----------------------------------------------------------------------------------------------


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that knows no credentials; answers the folder that AWS's files are looked for in."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


PROFILES = """
[default]
region = us-east-1
endpoint_url = {endpoint}
[profile named]
region = us-east-1
endpoint_url = {endpoint}
[profile role]
region = us-east-1
endpoint_url = {endpoint}
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = named
[profile process]
region = us-east-1
endpoint_url = {endpoint}
credential_process = echo {answer}
[profile services]
region = us-east-1
services = ours
[services ours]
s3 =
  endpoint_url = {endpoint}
"""
CREDENTIALS = "\n".join(
    f"[{name}]\naws_access_key_id = testing\naws_secret_access_key = testing"
    for name in ("default", "named", "services")
)
BY_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
WAYS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "environment": ({**BY_ENVIRONMENT, "AWS_ENDPOINT_URL": "{endpoint}"}, {}),
    "endpoint of S3": ({**BY_ENVIRONMENT, "AWS_ENDPOINT_URL_S3": "{endpoint}"}, {}),
    "default profile": ({}, {}),
    "named profile": ({"AWS_PROFILE": "named"}, {}),
    "profile by option": ({}, {"profile": "named"}),
    "endpoint of a service": ({}, {"profile": "services"}),
    "role": ({}, {"profile": "role"}),
    "process": ({}, {"profile": "process"}),
    "web identity": (
        {
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/reader",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "{folder}/token",
            "AWS_ENDPOINT_URL": "{endpoint}",
        },
        {},
    ),
    "token": ({}, {"key": "testing", "secret": "testing", "token": "t", "endpoint_url": "{endpoint}"}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_credentials(
    way: str, moto_server: MotoServer, nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are signed by who was named. The roles' service is moto's, too."""
    answer = json.dumps({"Version": 1, "AccessKeyId": "from-process", "SecretAccessKey": "testing"}).replace(
        '"', '\\"'
    )
    variables, options = WAYS[way]
    moto_server.put(BUCKET, "there", b"")
    with run_s3_proxy(moto_server.endpoint) as proxy:
        fill = functools.partial(str.format, endpoint=proxy.endpoint, folder=nobody, answer=answer)
        if way not in ("environment", "endpoint of S3", "web identity", "token"):
            (nobody / "config").write_text(fill(PROFILES))
            (nobody / "credentials").write_text(CREDENTIALS)
        (nobody / "token").write_text("a token")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name, value in variables.items():
            monkeypatch.setenv(name, fill(value))
        given = {name: fill(value) for name, value in options.items()}
        await write(f"s3://{BUCKET}/who/a.orc", given, FEW)
        assert await read(f"s3://{BUCKET}/who/a.orc", given) == FEW
    asked = [one for one in proxy.asked if f"/{BUCKET}/" in one.path]
    who = {
        "process": "Credential=from-process/",
        "role": "Credential=ASIA",
        "web identity": "Credential=ASIA",
    }
    for one in asked:
        assert who.get(way, "Credential=testing/") in one.path.replace("%2F", "/") + one.headers.get(
            "authorization", ""
        )
    assert way not in ("role", "web identity") or len(asked) < len(proxy.asked), "a role was asked for"
    assert leased_clients() == 0


async def test_nobody(nobody: Path, moto_server: MotoServer) -> None:
    url = moto_server.put(BUCKET, "a.orc", b"")
    with pytest.raises(PermissionError, match=r"\bstorage_options\b.*\bkey\b.*\bsecret\b"):
        await read(url, {"endpoint_url": moto_server.endpoint})


async def test_anonymous(nobody: Path) -> None:
    """Of what everybody may read; the server asks for signatures elsewhere."""
    server = start_s3("versitygw")
    for bucket in ("public", "private"):
        server.put(bucket, "x", b"")
        await write(f"s3://{bucket}/a.orc", server.options, FEW)
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}
    policy = {"Version": "2012-10-17", "Statement": [everybody | {"Resource": "arn:aws:s3:::public/*"}]}
    server.client.put_bucket_policy(Bucket="public", Policy=json.dumps(policy))
    options = {"anon": True, "endpoint_url": server.endpoint}
    assert await read("s3://public/a.orc", options) == FEW
    with pytest.raises(PermissionError):
        await read("s3://private/a.orc", options)
    with pytest.raises(PermissionError):
        await write("s3://public/b.orc", options)


async def test_wrong_credentials() -> None:
    server = start_s3("versitygw")
    server.put(BUCKET, "there", b"")
    options = server.options | {"secret": "hunter2"}
    with pytest.raises(PermissionError, match="SignatureDoesNotMatch") as caught:
        await read(f"s3://{BUCKET}/there", options)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(PermissionError, match="SignatureDoesNotMatch"):
        await write(f"s3://{BUCKET}/new.orc", options)


# --- where it goes -----------------------------------------------------------------------------------------

ACCESS_POINT = "arn:aws:s3:eu-west-1:123456789012:accesspoint/ours"


@pytest.mark.parametrize(
    ("bucket", "more", "host"),
    [
        ("bucket", {}, "bucket.s3.amazonaws.com"),
        (
            "bucket",
            {"config_kwargs": {"s3": {"addressing_style": "virtual"}}},
            "bucket.s3.eu-west-1.amazonaws.com",
        ),
        (
            "bucket",
            {"config_kwargs": {"s3": {"addressing_style": "path"}}},
            "s3.eu-west-1.amazonaws.com/bucket",
        ),
        ("bucket", {"endpoint_url": "http://store.test"}, "store.test/bucket"),
        (
            "bucket",
            {"endpoint_url": "http://store.test", "config_kwargs": {"s3": {"addressing_style": "virtual"}}},
            "bucket.store.test",
        ),
        (ACCESS_POINT, {}, "ours-123456789012.s3-accesspoint.eu-west-1.amazonaws.com"),
    ],
    ids=["hosts", "hosts of the region", "paths", "other store", "other store's hosts", "access point"],
)
async def test_hosts_and_paths_and_a_proxy(
    range_server: RangeServer,
    monkeypatch: pytest.MonkeyPatch,
    nobody: Path,
    bucket: str,
    more: dict[str, Any],
    host: str,
) -> None:
    """What a proxy that the environment names is asked for: it is told of whole URLs."""
    monkeypatch.setenv("HTTP_PROXY", range_server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    region = {"client_kwargs": {"region_name": "eu-west-1"}}
    options = {"key": "k", "secret": "hunter2", "use_ssl": False, **region, **more}
    with pytest.raises(FileNotFoundError):
        await read(f"s3://{bucket}/a b/ü.orc", options)
    assert range_server.requests[0][1].startswith(f"http://{host}/a%20b/%C3%BC.orc?X-Amz")


@pytest.mark.parametrize("way", ["verify", "AWS_CA_BUNDLE", "ca_bundle"])
async def test_certificates_of_ones_own(
    way: str, tmp_path: Path, nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate(tmp_path)
    region = {"region_name": "us-east-1"}
    options: dict[str, Any] = {"key": "k", "secret": "s", "client_kwargs": region}
    with run_range_server(path) as server:
        url = "s3://bucket/a.orc"
        options["endpoint_url"] = server.url
        with pytest.raises(OSError, match="certificate"):
            await read(url, options)
        if way == "verify":
            options["client_kwargs"] = region | {"verify": str(path)}
        elif way == "AWS_CA_BUNDLE":
            monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
        else:
            (tmp_path / "config").write_text(f"[default]\nca_bundle = {path}\n")
        with pytest.raises(FileNotFoundError):
            await read(url, options)
        with pytest.raises((orcstream.SinkError, OSError)) as caught:
            await write(url, options, sink_options={"retries": 0})
        assert "certificate" not in str(caught.value)


# --- the command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"secret": "hunter2"}, {"bogus": 1}, {"client_kwargs": {"bogus": 1}}])
@pytest.mark.parametrize("command", ["meta", "plan", "count", "cat"])
def test_the_command_line_shows_no_secrets(
    command: str, more: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    server = start_s3("versitygw")
    url = server.put(BUCKET, "shown.orc", rows_of_numbers())
    options = {**server.options, **more, "token": None}
    status = main([command, url, "--storage-options", json.dumps(options)])
    printed = capfd.readouterr()
    assert (status == 0) == (not more), printed
    for text in (printed.out, printed.err):
        assert "hunter2" not in text
        assert "testing" not in text


def test_the_command_line_joins_from_store_to_store(capfd: pytest.CaptureFixture[str]) -> None:
    source, target = start_s3("versitygw"), start_s3("moto")
    url = source.put(BUCKET, "n.orc", rows_of_numbers())
    target.put(BUCKET, "there", b"")
    options = ["--storage-options", json.dumps(source.options)]
    options += ["--target-storage-options", json.dumps(target.options)]
    assert main(["merge", f"s3://{BUCKET}/joined.orc", url, url, *options]) == 0, capfd.readouterr()
    data = target.client.get_object(Bucket=BUCKET, Key="joined.orc")["Body"].read()
    assert orc.read_table(pa.BufferReader(data)).column("n").to_pylist() == [1, 2, 1, 2]
