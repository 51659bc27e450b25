"""Byte and boolean run lengths (specification: "Byte Run Length Encoding", "Boolean Run Length Encoding").

Decoders take the whole stream and a count; encoders are built of the two forms, so that a test can put any
legal sequence of them together: `run(value, length)` and `literals(values)`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import Malformed


def run(value: int, length: int) -> bytes:
    """3 to 130 equal bytes."""
    assert 3 <= length <= 130
    return bytes((length - 3, value & 0xFF))


def literals(values: Sequence[int]) -> bytes:
    """1 to 128 bytes as they are."""
    assert 1 <= len(values) <= 128
    return bytes((256 - len(values),)) + bytes(value & 0xFF for value in values)


def encode(values: Sequence[int]) -> bytes:
    """A plain greedy encoder: runs where three or more are equal, else literals."""
    out = bytearray()
    at = 0
    pending: list[int] = []
    while at < len(values):
        length = 1
        while at + length < len(values) and length < 130 and values[at + length] == values[at]:
            length += 1
        if length >= 3:
            if pending:
                out += literals(pending)
                pending = []
            out += run(values[at], length)
            at += length
        else:
            pending.append(values[at])
            at += 1
            if len(pending) == 128:
                out += literals(pending)
                pending = []
    if pending:
        out += literals(pending)
    return bytes(out)


def decode(data: bytes, count: int) -> list[int]:
    """The first `count` bytes, 0 to 255."""
    values: list[int] = []
    at = 0
    while len(values) < count:
        if at >= len(data):
            raise Malformed("byte runs end early")
        control = data[at]
        at += 1
        if control < 0x80:
            if at >= len(data):
                raise Malformed("byte run without its value")
            values += [data[at]] * (control + 3)
            at += 1
        else:
            length = 256 - control
            if at + length > len(data):
                raise Malformed("byte literals run past the end")
            values += data[at : at + length]
            at += length
    return values[:count]


def pack_bits(values: Sequence[bool]) -> bytes:
    """Bits from most to least significant, the last byte filled with zeros."""
    out = bytearray((len(values) + 7) // 8)
    for i, value in enumerate(values):
        if value:
            out[i // 8] |= 0x80 >> (i % 8)
    return bytes(out)


def encode_booleans(values: Sequence[bool]) -> bytes:
    return encode(pack_bits(values))


def decode_booleans(data: bytes, count: int) -> list[bool]:
    packed = decode(data, (count + 7) // 8)
    return [bool(packed[i // 8] & (0x80 >> (i % 8))) for i in range(count)]
