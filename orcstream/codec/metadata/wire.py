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

from orcstream.codec.metadata._wire import find_field
from orcstream.codec.metadata.limits import Room
from orcstream.errors import CorruptTail, FormatError

_BYTES = 2
# A message of hundreds of megabytes of two bytes each would keep a reader busy for minutes.
_MAX_OTHERS = 100_000
# What each part takes besides its bytes, however short it is: a file claims millions for next to nothing.
_PART_BYTES = 44


def split_field(data: memoryview, number: int, limit: int, what: str) -> list[memoryview]:
    """Views of the length-delimited field `number`, at most `limit` of them; others are passed over."""
    try:
        places, others = find_field(data, number, limit)
    except ValueError as error:
        raise CorruptTail(f"the {what} cannot be parsed: {error}") from error
    if others > _MAX_OTHERS:
        raise CorruptTail(f"the {what} has more than {_MAX_OTHERS} fields that nobody knows")
    ends = iter(memoryview(places).cast("q"))
    pieces = [data[start:stop] for start, stop in zip(ends, ends, strict=True)]
    if len(pieces) > limit:
        raise CorruptTail(f"the {what} has more than the {limit} parts that the file has use for")
    return pieces


def split_each(
    messages: Iterable[memoryview], number: int, limit: int, what: str, room: Room
) -> Iterator[tuple[bytes, ...]]:
    """Copies of the parts of each message, as `split_field` finds them; they take some of `room`."""
    for message in messages:
        parts = split_field(message, number, limit, what)
        room.take(len(message) + len(parts) * _PART_BYTES)
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


@contextmanager
def foreign(error_class: type[FormatError], what: str) -> Iterator[None]:
    """What goes wrong in foreign code on foreign bytes (protobuf, UTF-8, integers) is the file's fault."""
    try:
        yield
    except (DecodeError, ValueError, OverflowError) as error:
        raise error_class(f"the {what} cannot be parsed: {error}") from error
