"""What a metastore answers that is none, or does not answer; and addresses that are none."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from orcstream.acid.transactions.metastore import Metastore
from orcstream.acid.transactions.metastore_client import MetastoreClient
from orcstream.errors import SourceError, UsageError
from tests.servers.metastores import opened, server


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()
    finally:
        writer.transport.abort()


async def test_a_metastore_that_says_nothing() -> None:
    async with server(_silent) as url:
        async with opened(url, timeout_s=0.1) as metastore:
            with pytest.raises(SourceError, match=r"\b0\.1 s\b"):
                await metastore.snapshot()
        async with opened(url) as metastore:
            with anyio.move_on_after(0.1) as scope:
                await metastore.snapshot()
            assert scope.cancelled_caught
            assert metastore._client._connection is None


HOSTILE = (
    b"",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    bytes(64),
    b"\xff" * 64,
    # A name, a list and a text of two thousand million bytes, a struct in a struct in a struct.
    b"\x80\x01\x00\x02\x7f\xff\xff\xff",
    b"\x80\x01\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00\x0f\x00\x00\x0b\x7f\xff\xff\xff",
    b"\x80\x01\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00\x0f\x00\x00\x0b\x00\x00\x00\x01\x7f\xff\xff\xff",
    b"\x80\x01\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00" + b"\x0c\x00\x00" * 5000,
)


@pytest.mark.parametrize("answer", HOSTILE)
async def test_whatever_comes_back_is_our_error(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with server(serve) as url, opened(url) as metastore:
        with pytest.raises(SourceError, match=r"\bget_open_txns\b"):
            await metastore.snapshot()


@pytest.mark.parametrize("url", ["", "host:9083", "http://host", "thrift://", "thrift://host:x"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="thrift://host:9083"):
        MetastoreClient(url, user=None, timeout_s=1)


def test_what_cannot_be_asked_for() -> None:
    for table in ("plain", "a.b.c", ".plain", "default."):
        with pytest.raises(UsageError, match=r"database\.table"):
            Metastore("thrift://host", table)
    with pytest.raises(UsageError, match="timeout_s"):
        Metastore("thrift://host", "default.plain", timeout_s=0)
