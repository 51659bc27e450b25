"""Large bodies are received in large pieces, and small ones as ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import numpy as np
import pytest

from orcstream.byterange import MIB, ByteRange
from orcstream.io.stores.http.receiving import RECEIVED_BYTES, in_large_pieces
from orcstream.io.urls import open_source
from tests.servers.loopback import RangeServer, range_server

__all__ = ["range_server"]  # a fixture

ASYNCIO_BYTES = 256 * 1024


class Protocol(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.pieces: list[bytes] = []
        self.told: list[str] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def eof_received(self) -> bool:
        self.told.append("end")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(f"lost: {exc}")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Transport:
    """Receives what the test says."""

    def __init__(self) -> None:
        self.protocol: Any = Protocol(self)
        self.is_over = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.is_over

    def receive(self, data: bytes) -> None:
        room = self.protocol.get_buffer(-1)
        room[: len(data)] = data
        self.protocol.buffer_updated(len(data))


def response_over(transport: Transport) -> aiohttp.ClientResponse:
    connection = SimpleNamespace(protocol=transport.protocol)
    return cast("aiohttp.ClientResponse", SimpleNamespace(connection=connection))


def test_the_client_gets_whole_pieces_and_all_else_meanwhile() -> None:
    transport = Transport()
    client = transport.protocol
    pieces = [bytes([number]) * size for number, size in enumerate((1, RECEIVED_BYTES, 3 * ASYNCIO_BYTES))]
    with in_large_pieces(response_over(transport), 8 * MIB):
        assert transport.protocol is not client
        for piece in pieces:
            transport.receive(piece)
        assert transport.protocol.eof_received()
        transport.protocol.pause_writing()
        transport.protocol.resume_writing()
        transport.protocol.connection_lost(None)
    assert client.pieces == pieces
    assert client.told == ["end", "pause", "resume", "lost: None"]
    assert transport.protocol is client


@pytest.mark.parametrize("body_bytes", [MIB, 2 * MIB, 64 * MIB])
def test_pieces_are_bounded_by_the_body(body_bytes: int) -> None:
    transport = Transport()
    with in_large_pieces(response_over(transport), body_bytes):
        room = len(transport.protocol.get_buffer(-1))
    assert ASYNCIO_BYTES <= room <= min(RECEIVED_BYTES, body_bytes // 4)


@pytest.mark.parametrize("why", ["small", "closing", "there already"])
def test_nothing_changes(why: str) -> None:
    transport = Transport()
    client = transport.protocol
    transport.is_over = why == "closing"
    response = response_over(transport)
    if why == "there already":
        response = cast("aiohttp.ClientResponse", SimpleNamespace(connection=None))
    with in_large_pieces(response, MIB - 1 if why == "small" else MIB):
        assert transport.protocol is client


async def test_answers_of_all_sizes_on_kept_connections(range_server: RangeServer) -> None:
    data = np.random.default_rng(1).bytes(6 * MIB)
    source = await open_source(range_server.serve("a", data), storage_options={}, io_options=None)
    try:
        await source.fetch_suffix(10)
        for size in (4 * MIB, 9, MIB, 100, 5 * MIB):
            there = []
            wanted = ByteRange(7, 7 + size)
            found = await source.fetch(wanted, lambda begun: there.append(begun.range.length))  # noqa: B023
            assert bytes(found) == data[7 : 7 + size]
            assert there == sorted(there)
    finally:
        await source.aclose()
