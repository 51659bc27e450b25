"""Thrift's binary protocol as bytes: where messages end, and the fields of structs that are passed on unread.

Must not know connections, methods, nor what a field means. thriftpy2 makes objects of what was bounded here.
A message does not say how long it is: `Message` walks over it while it arrives, and compares each count
with what a message may hold before anything is allocated for it.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Generator, Mapping
from typing import Any, Final, TypeAlias

CALL: Final = 1
EXCEPTION: Final = 3
STRUCT: Final = 12
LIST: Final = 15
_STRING: Final = 11
_MAP: Final = 13
_SET: Final = 14
_STOP: Final = 0
_VERSION: Final = 0x80010000
_VERSION_MASK: Final = 0xFFFF0000
# bool, byte, double, i16, i32, i64, and the UUID of newer versions.
_FIXED: Final[Mapping[int, int]] = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8, 16: 16}
# The fewest bytes that a value takes. Others, void among them, are no values.
_LEAST: Final[Mapping[int, int]] = {**_FIXED, _STRING: 4, STRUCT: 1, _MAP: 6, _SET: 5, LIST: 5}
# As deep as Thrift's own libraries go.
_MOST_NESTED: Final = 64
_DEADLINE_EVERY: Final = 4096

# A type, and the value's bytes.
Field: TypeAlias = tuple[int, bytes]
_Walk: TypeAlias = Generator[None, None, None]


class MessageError(Exception):
    """Bytes that are no message, or one that is too large."""


class Bounds:
    """The most bytes and values that one message holds."""

    # Hive's own metastore takes no message of more than 100 MiB, and 500 partitions of a wide table take 30.
    BYTES: Final = 128 << 20
    VALUES: Final = 8 << 20


class Message:
    """The bytes of one message, fed piece by piece."""

    def __init__(self, data: bytes = b"", at: int = 0) -> None:
        self.data = bytearray(data)
        self._at = at
        self._values = 0
        self._walk = self._message()
        self.is_whole = False

    def feed(self, data: bytes) -> None:
        """Take what has arrived. Raises `MessageError`, also for bytes after the end of the message."""
        self.data += data
        try:
            next(self._walk)
        except StopIteration:
            self.is_whole = True
            if self._at != len(self.data):
                raise MessageError(f"{len(self.data) - self._at} bytes follow the message") from None

    # --- one value after the other, each waiting for its bytes

    def _message(self) -> _Walk:
        yield from self._need(8)
        self._take(4)
        yield from self._value(_STRING, 0)
        yield from self._need(4)
        self._take(4)
        yield from self._value(STRUCT, 0)

    def _need(self, count: int) -> _Walk:
        if self._at + count > Bounds.BYTES:
            raise MessageError(f"it claims more than {Bounds.BYTES} bytes")
        while len(self.data) < self._at + count:
            yield

    def _take(self, count: int) -> int:
        found = int.from_bytes(self.data[self._at : self._at + count], "big", signed=True)
        self._at += count
        return found

    def _value(self, kind: int, depth: int) -> _Walk:
        if depth > _MOST_NESTED:
            raise MessageError(f"it nests more than {_MOST_NESTED} values in each other")
        fixed = _FIXED.get(kind)
        if fixed is not None:
            yield from self._need(fixed)
            self._at += fixed
        elif kind == _STRING:
            yield from self._need(4)
            length = self._count(self._take(4), 1)
            yield from self._need(length)
            self._at += length
        elif kind == STRUCT:
            yield from self._struct(depth)
        elif kind in (_SET, LIST):
            yield from self._need(5)
            element = self._take(1)
            yield from self._elements(self._take(4), (element,), depth)
        elif kind == _MAP:
            yield from self._need(6)
            pair = (self._take(1), self._take(1))
            yield from self._elements(self._take(4), pair, depth)
        else:
            raise MessageError(f"it has a value of the unknown type {kind}")

    def _struct(self, depth: int) -> _Walk:
        while True:
            yield from self._need(1)
            kind = self._take(1)
            if kind == _STOP:
                return
            self._check_values(1)
            yield from self._need(2)
            self._at += 2
            yield from self._value(kind, depth + 1)

    def _elements(self, count: int, kinds: tuple[int, ...], depth: int) -> _Walk:
        if count == 0:
            return  # an empty map may name no types
        unknown = [one for one in kinds if one not in _LEAST]
        if unknown:
            raise MessageError(f"it has elements of the unknown type {unknown[0]}")
        self._count(count, sum(_LEAST[one] for one in kinds))
        self._check_values(count * len(kinds))
        if all(one in _FIXED for one in kinds):
            length = count * sum(_FIXED[one] for one in kinds)
            yield from self._need(length)
            self._at += length
            return
        for _ in range(count):
            for kind in kinds:
                # Names of partitions come by the hundred thousand: no generator where all of one is there.
                if kind != _STRING or not self._has_skipped_string():
                    yield from self._value(kind, depth + 1)

    def _has_skipped_string(self) -> bool:
        at = self._at
        end = at + 4 + int.from_bytes(self.data[at : at + 4], "big", signed=True)
        if not at + 4 <= end <= len(self.data):
            return False
        self._at = end
        return True

    def _count(self, count: int, least: int) -> int:
        if not 0 <= count * least <= Bounds.BYTES - self._at:
            raise MessageError(f"it claims {count} values of {least} bytes or more")
        return count

    def _check_values(self, count: int) -> None:
        self._values += count
        if self._values > Bounds.VALUES:
            raise MessageError(f"it has more than {Bounds.VALUES} values")


def _end_of(data: bytes, at: int, kind: int) -> int:
    """Where a value ends that begins at `at` of bytes that are whole."""
    message = Message(data, at)
    for _ in message._value(kind, 0):  # noqa: SLF001 - the one walk, on bytes that do not arrive any more
        raise MessageError("it ends within a value")
    return message._at  # noqa: SLF001


def message_head(data: bytes) -> tuple[int, str, int, int]:
    """Kind, method and number of a message, and where its struct begins."""
    version = int.from_bytes(data[:4], "big")
    if version & _VERSION_MASK != _VERSION:
        raise MessageError("it does not begin with the version of the protocol")
    end = _end_of(data, 4, _STRING)
    name = data[8:end].decode("utf-8", "replace")
    return version & 0xFF, name, int.from_bytes(data[end : end + 4], "big"), end + 4


def fields(data: bytes, at: int = 0) -> dict[int, Field]:
    """The fields of a struct that begins there, by their numbers."""
    found: dict[int, Field] = {}
    while data[at] != _STOP:
        kind, number = struct.unpack_from(">bh", data, at)
        end = _end_of(data, at + 3, kind)
        found[number] = (kind, data[at + 3 : end])
        at = end
    return found


def elements(value: bytes) -> list[bytes]:
    """The elements of a list, each as its bytes."""
    kind, count = struct.unpack_from(">bi", value)
    found, at = [], 5
    for _ in range(count):
        end = _end_of(value, at, kind)
        found.append(value[at:end])
        at = end
    return found


def text_map(value: bytes) -> dict[bytes, bytes]:
    """A map from texts to texts, each as its bytes."""
    (count,) = struct.unpack_from(">i", value, 2)
    texts, at = [], 6
    for _ in range(2 * count):
        end = _end_of(value, at, _STRING)
        texts.append(value[at + 4 : end])
        at = end
    return dict(zip(texts[::2], texts[1::2], strict=True))


def encoded_text_map(texts: Mapping[bytes, bytes]) -> bytes:
    """The same, as a value."""
    parts = [struct.pack(">i", len(text)) + text for pair in texts.items() for text in pair]
    return struct.pack(">bbi", _STRING, _STRING, len(texts)) + b"".join(parts)


def with_fields(data: bytes, new: Mapping[int, Field]) -> bytes:
    """A struct with other values of some fields; all others, of whatever version, are those that it has."""
    return (
        b"".join(
            struct.pack(">bh", kind, number) + value
            for number, (kind, value) in {**fields(data), **new}.items()
        )
        + b"\0"
    )


# --- thriftpy2's objects -----------------------------------------------------------------------------------


class _Bytes:
    """What thriftpy2 reads of and writes to."""

    def __init__(self, data: bytes = b"", at: int = 0, deadline_s: float = math.inf) -> None:
        self.written = bytearray()
        self._data = data
        self._at = at
        self._deadline_s = deadline_s
        self._reads = 0

    def read(self, count: int) -> bytes:
        self._reads += 1
        if self._reads % _DEADLINE_EVERY == 0 and time.monotonic() > self._deadline_s:
            raise TimeoutError  # on a thread, which nobody can cancel
        end = self._at + count
        if not self._at <= end <= len(self._data):
            raise MessageError("it ends within a value")
        found = self._data[self._at : end]
        self._at = end
        return found

    def write(self, data: bytes) -> None:
        self.written += data


def _protocol(stream: _Bytes) -> Any:
    from thriftpy2.protocol.binary import TBinaryProtocol

    return TBinaryProtocol(stream)  # type: ignore[no-untyped-call]


def decoded(data: bytes, at: int, into: Any, deadline_s: float = math.inf) -> Any:
    """Fill one of thriftpy2's structs with the one that begins there.

    `TimeoutError` where that lasts beyond `deadline_s`, a time of the monotonic clock.
    """
    _protocol(_Bytes(data, at, deadline_s)).read_struct(into)
    return into


def encoded(value: Any) -> bytes:
    """One of thriftpy2's structs."""
    stream = _Bytes()
    _protocol(stream).write_struct(value)
    return bytes(stream.written)


def encoded_call(method: str, number: int, arguments: bytes) -> bytes:
    """The message that calls a method, `arguments` being a struct."""
    name = method.encode()
    return struct.pack(">II", _VERSION | CALL, len(name)) + name + struct.pack(">I", number) + arguments
