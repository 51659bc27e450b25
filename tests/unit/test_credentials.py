"""URLs that may be shown, and errors, none of which shows another form."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream import errors
from orcstream._credentials import strip_credentials
from orcstream.errors import FormatError, OrcError, located

SECRET = "https://user:pw@host/p?sig=abc&part=3"
SHOWN = "https://host/p?part=3"

# What URLs are made of, put together in any order.
PIECES = st.sampled_from(
    [
        *("https://", "s3://", "abfs://", "kms://", "file:///", "simplecache::", "::", "http@", "user:pw@"),
        *("pw", "host", ":80", ":", "@", "/", "?", "#", "&", ";", "[::1]", "sig=1", "token", "=", "part=3"),
    ]
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/plain/a@b.orc", "/plain/a@b.orc"),
        ("https://user:pw@host:8080/p?id=3", "https://host:8080/p?id=3"),
        ("https://user@host/p", "https://host/p"),
        ("https://user:p/w@host/p", "https://host/p"),
        ("https://host/p@x", "https://host/p@x"),
        ("https://[::1]:80/p", "https://[::1]:80/p"),
        ("https://h/p?X-Amz-Signature=1&X-Amz-Credential=2&part=3", "https://h/p?part=3"),
        ("https://h/p?sv=2020&sig=abc&se=1", "https://h/p"),
        ("https://h/p?AWSAccessKeyId=1&Signature=2&Expires=3", "https://h/p"),
        ("https://h/p?X%2DAmz-Signature=1", "https://h/p"),
        ("https://h/p?access_token=1;n=2#frag-token", "https://h/p?n=2"),
        ("s3://key:secret@bucket/k", "s3://bucket/k"),
        ("s3://bucket/k?versionId=1", "s3://bucket/k?versionId=1"),
        ("s3://bucket/k#1", "s3://bucket/k#1"),
        ("abfs://container@account.host/p", "abfs://container@account.host/p"),
        ("abfs://container:pw@account.host/p", "abfs://container@account.host/p"),
        ("simplecache::ftp://u:p@h/x", "simplecache::ftp://h/x"),
        ("simplecache::s3://k:s@b/k::/x/y@z", "simplecache::s3://b/k::/x/y@z"),
        ("https://user:a::b@host/p", "https://host/p"),
        ("https://user@host:p/w@host/p", "https://host/p"),
        ("kms://https@host1;host2:9600/kms", "kms://https@host1;host2:9600/kms"),
        ("kms://http@etl:pw@host:9600/kms", "kms://http@host:9600/kms"),
    ],
)
def test_strip_credentials(url: str, expected: str) -> None:
    assert strip_credentials(url) == expected


@given(st.lists(PIECES, max_size=12).map("".join) | st.text())
def test_what_is_clean_stays_as_it_is(url: str) -> None:
    shown = strip_credentials(url)
    assert strip_credentials(shown) == shown
    assert len(shown) <= len(url)


@given(
    st.sampled_from(["https", "s3", "ftp", "webhdfs", "memory"]),
    st.text(st.characters(exclude_characters="/?#@", exclude_categories=["C"]), min_size=1),
    st.lists(st.sampled_from(["a", "b.orc", "c@d"]), max_size=3).map("/".join),
)
def test_a_password_is_never_shown(scheme: str, password: str, path: str) -> None:
    expected = f"{scheme}://host/{path}"
    assert strip_credentials(f"{scheme}://user:{password}@host/{path}") == expected


KINDS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", KINDS)
def test_no_error_shows_a_secret(kind: type[OrcError]) -> None:
    reason: Any = {"reason": "why"} if kind is errors.Unsupported else {}
    for error in (kind("failed", url=SECRET, **reason), kind("failed", **reason).locate(url=SECRET)):
        assert error.url == SHOWN
        assert str(error) == f"{SHOWN}: failed"
        assert "pw" not in repr(pickle.loads(pickle.dumps(error)).__dict__)
    assert kind("failed", url=SHOWN, **reason).locate(url="s3://other/x").url == SHOWN


def test_a_place_told_on_the_way_out_shows_no_secret() -> None:
    with pytest.raises(FormatError) as caught, located(url=SECRET):
        raise FormatError("failed")
    assert caught.value.url == SHOWN
