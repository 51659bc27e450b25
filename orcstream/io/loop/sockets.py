"""Sockets for connections to stores, which keep the interpreter's lock while they receive.

Python's own give the lock away at each call, and take it again. Beside a thread that runs Python this takes
up to 5 ms (`sys.getswitchinterval`), while to copy a megabyte from the kernel takes a tenth of a millisecond:
beside such a thread, a scan from afar took four times as long as alone. With these it takes less than twice
as long. Must not know stores or HTTP.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from orcstream._buffer import Buffer
from orcstream.io.loop._receive import receive_into, send_at_once

if TYPE_CHECKING:
    from typing_extensions import Buffer as Room

# Sending more than this may take a while, since it may do a part of the receiver's work.
_MOST_SENT_BYTES = 64 * 1024


class _LoopSocket(socket.socket):
    """Keeps the interpreter's lock where an event loop calls it, which never lets a socket wait."""

    __slots__ = ()

    def recv_into(self, buffer: Room, nbytes: int = 0, flags: int = 0) -> int:
        if nbytes or flags or self.gettimeout() != 0:
            return super().recv_into(buffer, nbytes, flags)
        return receive_into(self.fileno(), buffer)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        if flags or self.gettimeout() != 0:
            return super().recv(bufsize, flags)
        room = Buffer(bufsize)
        return bytes(memoryview(room)[: receive_into(self.fileno(), room)])

    def send(self, data: Room, flags: int = 0) -> int:
        if flags or memoryview(data).nbytes > _MOST_SENT_BYTES or self.gettimeout() != 0:
            return super().send(data, flags)
        return send_at_once(self.fileno(), data)


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    return _LoopSocket(family, kind, protocol)


# For `aiohttp.TCPConnector`; None, for Python's own, where those of the system are others.
socket_factory: Final[Callable[[tuple[Any, ...]], socket.socket] | None] = (
    None if sys.platform == "win32" else _new_socket
)
