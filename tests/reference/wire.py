"""The protobuf wire format, by hand: so that a test can write fields no honest writer would.

A message is written from (field number, value) pairs: an int is a varint, bytes and str are
length-delimited, a list of ints is packed, a float is a fixed 64-bit double. It is read as a mapping of
field number to the list of raw values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from .errors import Malformed
from .varint import read_varint, write_varint

Field = tuple[int, "int | bytes | str | float | Sequence[int] | None"]
Message = dict[int, list["int | bytes"]]


def message(*fields: Field) -> bytes:
    """The serialized message; a field with the value None is left out."""
    out = bytearray()
    for number, value in fields:
        if value is None:
            continue
        if isinstance(value, int):
            out += write_varint(number << 3) + write_varint(value & (1 << 64) - 1)
        elif isinstance(value, float):
            out += write_varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            if isinstance(value, str):
                value = value.encode()
            elif not isinstance(value, bytes):
                value = b"".join(write_varint(item) for item in value)
            out += write_varint(number << 3 | 2) + write_varint(len(value)) + value
    return bytes(out)


def repeated(number: int, values: Iterable[int | bytes | str]) -> list[Field]:
    return [(number, value) for value in values]


def parse(data: bytes) -> Message:
    fields: Message = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        value: int | bytes
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 2:
            size, at = read_varint(data, at)
            value, at = data[at : at + size], at + size
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise Malformed(f"wire type {key & 7}")
        if at > len(data):
            raise Malformed("field runs past the end of its message")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def number(fields: Message, key: int, default: int = 0) -> int:
    value = fields.get(key, [default])[-1]
    if not isinstance(value, int):
        raise Malformed(f"field {key} is no number")
    return value


def blob(fields: Message, key: int) -> bytes:
    value = fields.get(key, [b""])[-1]
    if not isinstance(value, bytes):
        raise Malformed(f"field {key} is no bytes")
    return value


def blobs(fields: Message, key: int) -> list[bytes]:
    values = fields.get(key, [])
    if not all(isinstance(value, bytes) for value in values):
        raise Malformed(f"field {key} is no bytes")
    return [value for value in values if isinstance(value, bytes)]


def numbers(fields: Message, key: int) -> list[int]:
    """A repeated number, packed or not."""
    out: list[int] = []
    for value in fields.get(key, []):
        if isinstance(value, int):
            out.append(value)
            continue
        at = 0
        while at < len(value):
            item, at = read_varint(value, at)
            out.append(item)
    return out
