"""URLs signed after a pattern: against the example that AWS published, and against botocore."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import botocore.session
import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st

from orcstream.io.stores.s3.source import RENEWED_AFTER_S, S3Source, pattern_of
from orcstream.io.urls import open_source
from tests.servers.loopback import MotoServer, RangeServer, moto_server, range_server

__all__ = ["moto_server", "range_server"]  # fixtures

# "Authenticating Requests: Using Query Parameters", the Amazon S3 API reference.
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
PUBLISHED = (
    "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


def test_the_published_example() -> None:
    pattern = pattern_of(PUBLISHED, "test.txt", SECRET)
    assert pattern is not None
    assert pattern.url_for("test.txt") == PUBLISHED


@pytest.mark.parametrize(
    ("url", "key", "secret"),
    [
        (PUBLISHED, "test.txt", SECRET + "x"),
        (PUBLISHED, "other.txt", SECRET),
        (PUBLISHED.replace("404", "405"), "test.txt", SECRET),
        (PUBLISHED.partition("?")[0], "test.txt", SECRET),
        (
            PUBLISHED.replace("SignedHeaders=host", "SignedHeaders=host%3Bx-amz-request-payer"),
            "test.txt",
            SECRET,
        ),
        (PUBLISHED.replace("X-Amz-Date", "X-Amz-When"), "test.txt", SECRET),
        (PUBLISHED.replace("%2Faws4_request", ""), "test.txt", SECRET),
        ("https://b.s3.amazonaws.com/a?AWSAccessKeyId=a&Signature=b%3D&Expires=1795267017", "a", SECRET),
        ("https://b.s3.amazonaws.com/a", "a", SECRET),
    ],
)
def test_what_was_signed_otherwise_is_no_pattern(url: str, key: str, secret: str) -> None:
    assert pattern_of(url, key, secret) is None


def client(style: str, token: str | None) -> Any:
    return botocore.session.get_session().create_client(
        "s3",
        region_name="eu-west-1",
        aws_access_key_id="AKIA/+",
        aws_secret_access_key=SECRET,
        aws_session_token=token,
        config=Config(signature_version="s3v4", s3={"addressing_style": style}),
    )


CLIENTS = [client(style, token) for style in ("path", "virtual") for token in (None, "t/=+ü")]


@given(
    st.sampled_from(CLIENTS),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_it_signs_as_botocore_does(client: Any, first: str, second: str) -> None:
    def sign(key: str) -> str:
        text: str = client.generate_presigned_url(
            "get_object", Params={"Bucket": "b", "Key": key}, ExpiresIn=9
        )
        return text

    pattern, theirs = pattern_of(sign(first), first, SECRET), sign(second)
    assert pattern is not None
    while f"X-Amz-Date={pattern.date}" not in theirs:  # another second has begun
        pattern, theirs = pattern_of(sign(first), first, SECRET), sign(second)
        assert pattern is not None
    ours = pattern.url_for(second)
    assert ours.partition("?")[0] == theirs.partition("?")[0]
    assert sorted(urlsplit(ours).query.split("&")) == sorted(urlsplit(theirs).query.split("&"))


async def opened(url: str, options: dict[str, Any], **more: Any) -> S3Source:
    source = await open_source(url, storage_options=options, io_options=None)
    assert isinstance(source, S3Source)
    for name, value in more.items():
        setattr(source, name, value)
    return source


async def test_other_objects_of_a_bucket_are_signed_after_the_first(
    moto_server: MotoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    original = S3Source._presign

    async def counted(self: S3Source) -> str | None:
        asked.append(self.url)
        return await original(self)

    monkeypatch.setattr(S3Source, "_presign", counted)
    urls = [
        moto_server.put(f"signed-{number % 2}", f"a b/{number}", bytes(number + 1)) for number in range(10)
    ]
    sources = [await opened(url, moto_server.options) for url in urls]
    for number, source in enumerate(sources):
        assert (await source.fetch_suffix(100)).file_length == number + 1
    assert asked == urls[:2]
    for source in sources:
        await source.aclose()


async def test_a_pattern_ends_with_its_signature(range_server: RangeServer) -> None:
    """It is as old as the first URL; a refusal of what it signed has botocore sign afresh."""
    for name in "abcd":
        range_server.serve(f"bucket/{name}", b"data")
    options = {
        "key": "AKIAKEY",
        "secret": "hunter2",
        "endpoint_url": range_server.url,
        "client_kwargs": {"region_name": "us-east-1"},
    }
    now = [1000.0]
    a, b, c, d = [await opened(f"s3://bucket/{n}", options, _clock=lambda: now[0]) for n in "abcd"]
    patterns = a._lease.client.patterns
    await a.fetch_suffix(3)
    first = patterns["bucket"]
    assert first[1] == 1000.0
    now[0] += 100
    await b.fetch_suffix(3)
    assert b._signature is not None
    assert b._signature.made_s == 1000.0
    assert patterns["bucket"] is first
    range_server.statuses = [(403, {})]
    await c.fetch_suffix(3)
    assert patterns["bucket"][1] == 1100.0
    assert c._signs is True
    now[0] += RENEWED_AFTER_S
    await d.fetch_suffix(3)
    assert patterns["bucket"][1] == 1100.0 + RENEWED_AFTER_S
    for source in (a, b, c, d):
        await source.aclose()
