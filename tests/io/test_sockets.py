"""Sockets that keep the interpreter's lock behave as Python's own do."""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from orcstream.byterange import MIB
from orcstream.io.loop.sockets import socket_factory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has Python's own")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours, which never waits, and one of Python's, connected."""
    assert socket_factory is not None
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket_factory((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0)))
        ours.connect(server.getsockname())
        ours.setblocking(False)
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def arrived(ours: socket.socket, size: int) -> None:
    ours.setblocking(True)
    while len(ours.recv(size, socket.MSG_PEEK)) < size:
        pass
    ours.setblocking(False)


def fill(ours: socket.socket) -> NoReturn:
    """Send until that fails."""
    while True:
        assert ours.send(bytes(1000)) > 0


def test_what_is_there_is_received(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(b"0123456789")
    arrived(ours, 10)
    room = bytearray(4)
    assert ours.recv_into(room) == 4
    assert room == b"0123"
    assert ours.recv_into(memoryview(room)[1:]) == 3
    assert room == b"0456"
    assert ours.recv(2) == b"78"
    assert ours.recv(MIB) == b"9"


@pytest.mark.parametrize("nbytes", [2, 3])
def test_less_than_the_room_is_received(pair: tuple[socket.socket, socket.socket], nbytes: int) -> None:
    ours, theirs = pair
    theirs.sendall(b"0123")
    arrived(ours, 4)
    room = bytearray(4)
    assert ours.recv_into(room, nbytes) == nbytes
    assert room == b"0123"[:nbytes].ljust(4, b"\0")


def test_nothing_waits(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    with pytest.raises(BlockingIOError):
        ours.recv(10)
    with pytest.raises(BlockingIOError):
        ours.recv_into(bytearray(10))
    with pytest.raises(BlockingIOError):
        fill(ours)


def test_the_other_end(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.shutdown(socket.SHUT_WR)
    assert select.select([ours], [], [], 10)[0]
    assert ours.recv(10) == b""
    assert ours.recv_into(bytearray(10)) == 0


def test_a_connection_that_was_reset(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    assert ours.send(b"never read") == 10
    arrived(theirs, 10)
    theirs.close()  # with data that nobody read
    ours.settimeout(10)
    with pytest.raises(ConnectionResetError):
        ours.recv(1, socket.MSG_PEEK)
    ours.setblocking(False)
    with pytest.raises(BrokenPipeError):
        fill(ours)


def test_a_closed_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    ours.close()
    for act in (lambda: ours.recv(1), lambda: ours.recv_into(bytearray(1)), lambda: ours.send(b"1")):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - its kind has no class
            act()
        assert caught.value.errno == errno.EBADF


def test_other_memory_than_buffers(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = pair
    with pytest.raises((TypeError, BufferError)):
        ours.recv_into(b"read only")
    with pytest.raises(TypeError):
        ours.send("a text")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 64 * 1024, MIB])
def test_a_socket_that_waits_is_pythons_own(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    ours, theirs = pair
    ours.setblocking(True)
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    ours.settimeout(10)
    theirs.settimeout(10)
    sent = 0
    while sent < size:
        sent += ours.send(memoryview(data)[sent : sent + 100_000])
        theirs.recv(100_000)
    theirs.sendall(data[:1000])
    assert ours.recv(1000, socket.MSG_WAITALL) == data[:1000]
