"""The delegation tokens that Hadoop hands to its jobs in a file, and which of them is for a cluster.

Knows both forms of the file (``HADOOP_TOKEN_FILE_LOCATION``): Hadoop's own writables, version 0, and protocol
buffers, version 1. Must not know what asks for a token. `UsageError` for what is no such file.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orcstream.errors import UsageError

__all__ = ["HadoopToken", "read_tokens", "token_for"]

MAGIC: Final = b"HDTS"
LONGEST_FILE_BYTES = 16 << 20
KINDS: Final = ("HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation")


@dataclass(frozen=True, slots=True)
class HadoopToken:
    """`service` says whom it is for: an address, or a name service."""

    identifier: bytes
    password: bytes
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
    """The token for one of `services`, or the only one there is for HDFS; `UsageError` where that is open."""
    wanted = set(services)
    usable = [token for token in tokens if token.kind in KINDS]
    exact = [token for token in usable if token.service in wanted]
    if exact or len(usable) <= 1:
        return next(iter(exact or usable), None)
    names = ", ".join(sorted({token.service for token in usable}))
    raise UsageError(
        "HADOOP_TOKEN_FILE_LOCATION: of its tokens none is for this cluster by name, but for "
        f"{names}; give token= in storage_options"
    )


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
