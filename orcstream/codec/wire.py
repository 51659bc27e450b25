"""Cuts serialised protobuf messages into the bytes of one repeated field, or joins them; names their faults.

Knows the wire format's tags and lengths. Must not know messages. Contract: the pieces are views of the
data given, at most `limit` of them; bytes that are no protobuf message are `CorruptTail`, and so is one with
more other fields than any format would have. For messages whose parts are mostly never needed, and which may
be larger than a parsed message may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from google.protobuf.message import DecodeError

from orcstream.errors import CorruptTail, FormatError, Unsupported

__all__ = ["MOST_PARTS", "foreign", "join_field", "split_each", "split_field"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
# A message of hundreds of megabytes of two bytes each would keep a reader busy for minutes.
_MAX_OTHERS = 100_000
# Each part takes 60 bytes and a microsecond, however short it is, and a file claims them for next to nothing.
MOST_PARTS = 1 << 24


def split_field(data: memoryview, number: int, limit: int, what: str) -> list[memoryview]:
    """Views of the length-delimited field `number`, at most `limit` of them; others are passed over."""
    pieces: list[memoryview] = []
    at, stop, others = 0, len(data), 0
    while at < stop:
        tag, at = _varint(data, at, what)
        wire_type = tag & 7
        if tag != number << 3 | _BYTES:
            others += 1
            if others > _MAX_OTHERS:
                raise CorruptTail(f"the {what} has more than {_MAX_OTHERS} fields that nobody knows")
        if wire_type == _VARINT:
            _, at = _varint(data, at, what)
            continue
        if wire_type == _BYTES:
            length, at = _varint(data, at, what)
        elif wire_type == _FIXED64:
            length = 8
        elif wire_type == _FIXED32:
            length = 4
        else:
            raise CorruptTail(f"the {what} cannot be parsed: wire type {wire_type} at byte {at}")
        if length > stop - at:
            raise CorruptTail(
                f"the {what} cannot be parsed: a field of {length} bytes at byte {at} of {stop}"
            )
        if tag == number << 3 | _BYTES:
            if len(pieces) == limit:
                raise CorruptTail(f"the {what} has more than the {limit} parts that the file has use for")
            pieces.append(data[at : at + length])
        at += length
    return pieces


def split_each(
    messages: Iterable[memoryview], number: int, limit: int, what: str
) -> Iterator[tuple[bytes, ...]]:
    """Copies of the parts of each message, as `split_field` finds them; `MOST_PARTS` of them in all."""
    room = MOST_PARTS
    for message in messages:
        parts = split_field(message, number, limit, what)
        room -= len(parts)
        if room < 0:
            raise Unsupported(f"more than {MOST_PARTS} {what}", reason="metadata_too_large")
        yield tuple(map(bytes, parts))


def join_field(number: int, pieces: Iterable[bytes]) -> bytes:
    """A message that holds these pieces as its length-delimited field `number` and nothing else."""
    tag = _varint_bytes(number << 3 | _BYTES)
    return b"".join(part for piece in pieces for part in (tag, _varint_bytes(len(piece)), piece))


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(data: memoryview, at: int, what: str) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise CorruptTail(f"the {what} cannot be parsed: no end of the number at byte {at}")


@contextmanager
def foreign(error_class: type[FormatError], what: str) -> Iterator[None]:
    """What goes wrong in foreign code on foreign bytes (protobuf, UTF-8, integers) is the file's fault."""
    try:
        yield
    except (DecodeError, ValueError, OverflowError) as error:
        raise error_class(f"the {what} cannot be parsed: {error}") from error
