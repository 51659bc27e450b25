"""Chains of file systems, whose failures are told by libraries that show URLs as they were sent."""

from __future__ import annotations

import traceback

import pytest

import orcstream
from orcstream.errors import RetriesExhausted, SourceError, UsageError
from orcstream.io.stores.fsspec.source import cause_of, translate_error, translated
from tests.servers.loopback import RangeServer, range_server

__all__ = ["range_server"]  # a fixture


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (404, FileNotFoundError),
        (403, PermissionError),
        (400, SourceError),
        (500, RetriesExhausted),
        (503, RetriesExhausted),
    ],
)
async def test_a_refusal_below_a_cache_is_told_without_credentials(
    range_server: RangeServer, status: int, expected: type[Exception]
) -> None:
    range_server.statuses = [(status, {})] * 20
    url = f"simplecache::{range_server.url}/a?X-Amz-Signature=secret&part=1"
    with pytest.raises(expected) as caught:
        await orcstream.open(url, io_options={"retries": 0})
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def raised(error: Exception, cause: Exception | None) -> Exception:
    """`error`, raised where `cause` was handled, and from it or not."""

    def fail() -> None:
        try:
            int("https://host/a?sig=secret")
        except ValueError:
            raise error from cause

    with pytest.raises(type(error)) as caught:
        fail()
    return caught.value


def test_texts_of_libraries_are_shown_without_credentials() -> None:
    error = OSError("no route to https://user:secret@host/a?sig=secret, or to s3://bucket/a")
    told = translate_error(error, "s3://bucket/a")
    assert str(told) == "s3://bucket/a: OSError: no route to https://host/a, or to s3://bucket/a"
    query = (
        "Max retries exceeded with url: /webhdfs/v1/a?op=OPEN&delegation_token=secret&offset=0 (Caused by it)"
    )
    told = translate_error(OSError(query), "webhdfs://host/a")
    assert str(told).endswith("url: /webhdfs/v1/a?op=OPEN&delegation_token=&offset=0 (Caused by it)")


def test_causes_are_shown_where_they_are_clean() -> None:
    clean, other = OSError("no route"), OSError("no route to ftp://user:secret@host/a")
    assert cause_of(raised(clean, None)) is clean
    assert cause_of(other) is None
    assert cause_of(raised(OSError("no route"), other)) is None


def test_errors_of_ours_keep_their_causes() -> None:
    cause = ValueError("odd")
    with pytest.raises(UsageError) as caught, translated("a::b"), translated("a::b"):
        raise UsageError("no chain") from cause
    assert caught.value.__cause__ is cause
