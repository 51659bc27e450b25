"""Receives the bodies of large answers in larger pieces than event loops do by themselves.

asyncio receives at most 256 KiB at a time. Each piece takes the interpreter's lock. Beside a thread that
computes in Python this can take 5 ms, which leaves 50 MB a second, over all connections. Must not know HTTP:
the client's own protocol gets what was received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from orcstream._buffer import Buffer
from orcstream.byterange import MIB

# Shorter bodies are received as ever.
_LARGE_BODY_BYTES = MIB
# The most in one piece, which is at most a quarter of its body.
RECEIVED_BYTES = MIB


class _Receiver(asyncio.BufferedProtocol):
    """Stands in for a protocol while the transport receives for it."""

    def __init__(self, protocol: asyncio.Protocol, size: int) -> None:
        self._protocol = protocol
        self._room = memoryview(Buffer(size))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - it is a guess
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._room[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


@contextmanager
def in_large_pieces(response: aiohttp.ClientResponse, length: int) -> Iterator[None]:
    """Receive a body of `length` bytes meanwhile; nothing changes for a small one, or one that is there."""
    connection = response.connection
    protocol = None if connection is None else connection.protocol
    transport = None if protocol is None else protocol.transport
    if protocol is None or transport is None or transport.is_closing() or length < _LARGE_BODY_BYTES:
        yield
        return
    transport.set_protocol(_Receiver(protocol, min(RECEIVED_BYTES, length // 4)))
    try:
        yield
    finally:
        if not transport.is_closing():
            transport.set_protocol(protocol)
