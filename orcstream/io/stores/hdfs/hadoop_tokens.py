"""The delegation tokens that Hadoop hands to its jobs in a file, and which of them is for a cluster.

Knows both forms of the file (``HADOOP_TOKEN_FILE_LOCATION``): Hadoop's own writables, version 0, and protocol
buffers, version 1; and how Hadoop names whom a token is for. Must not know what asks for a token: that says
how its cluster is named. `UsageError` for what is no such file.

A token is as good as a password: whoever has it is its user. So it is for the cluster it names alone.
"""

from __future__ import annotations

import base64
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orcstream.errors import UsageError

MAGIC: Final = b"HDTS"
LONGEST_FILE_BYTES = 16 << 20
KINDS: Final = ("HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation")


@dataclass(frozen=True, slots=True)
class HadoopToken:
    """`service` says whom it is for: an address, or a name service."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    kind: str
    service: str

    @property
    def url_text(self) -> str:
        """As WebHDFS takes it in a query."""
        fields = (self.identifier, self.password, self.kind.encode(), self.service.encode())
        data = b"".join(_writable_number(len(one)) + one for one in fields)
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_tokens(path: str) -> list[HadoopToken]:
    """The tokens of a file, in their order. Reads the file."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LONGEST_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"HADOOP_TOKEN_FILE_LOCATION: {path}: {error.strerror or error}") from error
    try:
        return _tokens(data)
    except ValueError as error:
        raise UsageError(f"HADOOP_TOKEN_FILE_LOCATION: {path} is no file of tokens: {error}") from None


def _tokens(data: bytes) -> list[HadoopToken]:
    if len(data) > LONGEST_FILE_BYTES or data[:4] != MAGIC:
        raise ValueError("it does not begin as one")
    if data[4:5] == b"\0":
        return _writables(_Bytes(data, 5))
    if data[4:5] == b"\1":
        return _messages(_Bytes(data, 5))
    raise ValueError("of a version that nobody knows")


def token_for(tokens: Iterable[HadoopToken], services: Iterable[str]) -> HadoopToken | None:
    """The first token for HDFS and one of `services`; None where there are only those for others.

    A service is a name, or ``host:port``: of such, Hadoop names the IP address or the host, as it is
    configured where the token is from. May ask for the addresses of the hosts of `services` (DNS).
    """
    wanted = {service.lower() if _address(service) else service for service in services}
    usable = [token for token in tokens if token.kind in KINDS]
    named = next((token for token in usable if token.service in wanted), None)
    if named is not None or not usable:
        return named
    known = {pair for service in wanted for pair in _addresses(service)}
    return next((token for token in usable if not known.isdisjoint(_literal(token.service))), None)


def services_of(tokens: Iterable[HadoopToken]) -> list[str]:
    """Whom there are tokens for, among those for HDFS."""
    return sorted({token.service for token in tokens if token.kind in KINDS})


_Address = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


def _address(service: str) -> tuple[str, int] | None:
    """Host and port; None where it is something else."""
    host, _, port = service.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5
    return (host, int(port)) if host and is_port else None


def _literal(service: str) -> list[_Address]:
    """The address of a service that is named by one."""
    pair = _address(service)
    try:
        return [(ipaddress.ip_address(pair[0]), pair[1])] if pair else []
    except ValueError:
        return []


def _addresses(service: str) -> list[_Address]:
    """All addresses of its host."""
    pair = _address(service)
    if pair is None:
        return []
    try:
        found = socket.getaddrinfo(pair[0], None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [(ipaddress.ip_address(one[4][0]), pair[1]) for one in found]


class _Bytes:
    """Reads from front to back; `ValueError` at the end."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self._offset = offset

    @property
    def is_over(self) -> bool:
        return self._offset >= len(self._data)

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._offset:
            raise ValueError("it ends before its end")
        self._offset += count
        return self._data[self._offset - count : self._offset]

    def writable_number(self) -> int:
        """Hadoop's integer: one byte from -112 to 127, or sign and count of the bytes that follow."""
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        count = -112 - first if first >= -120 else -120 - first
        value = int.from_bytes(self.take(count), "big")
        return value if first >= -120 else ~value

    def varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a number that does not end")


def _writables(data: _Bytes) -> list[HadoopToken]:
    def one() -> bytes:
        return data.take(data.writable_number())

    found = []
    for _ in range(data.writable_number()):
        one()  # the name that the token has in the file
        found.append(HadoopToken(one(), one(), one().decode(), one().decode()))
    return found  # secrets follow


def _messages(data: _Bytes) -> list[HadoopToken]:
    """``CredentialsProto``, after its own length."""
    message = _Bytes(data.take(data.varint()))
    found = []
    for pair in _fields(message).get(1, ()):
        for token in _fields(_Bytes(pair)).get(2, ()):
            fields = _fields(_Bytes(token))
            identifier, password, kind, service = (fields.get(number, [b""])[-1] for number in range(1, 5))
            found.append(HadoopToken(identifier, password, kind.decode(), service.decode()))
    return found


def _fields(message: _Bytes) -> dict[int, list[bytes]]:
    """The fields of a message that has only such of a length."""
    found: dict[int, list[bytes]] = {}
    while not message.is_over:
        number, wire_type = divmod(message.varint(), 8)
        if wire_type != 2:
            raise ValueError("a field that no token has")
        found.setdefault(number, []).append(message.take(message.varint()))
    return found


def _writable_number(value: int) -> bytes:
    """A length, as `_Bytes.writable_number` reads it."""
    if value <= 127:
        return bytes([value])
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return (-112 - len(data)).to_bytes(1, "big", signed=True) + data
