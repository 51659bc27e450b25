"""Base 128 varints and zigzag (specification: "Base 128 Varint"). Knows bytes and integers only."""

from __future__ import annotations

from .errors import Malformed


def wrap(value: int, bits: int = 64) -> int:
    """`value` as a two's complement integer of `bits` bits: what Java's arithmetic makes of an overflow."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def zigzag(value: int) -> int:
    """Signed to unsigned: 0, -1, 1, -2 become 0, 1, 2, 3; unbounded, as decimals need it."""
    return value * 2 if value >= 0 else -value * 2 - 1


def unzigzag(value: int) -> int:
    return -(value + 1) // 2 if value & 1 else value // 2


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_signed(value: int) -> bytes:
    return write_varint(zigzag(value))


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at `at`, of any length, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise Malformed("varint runs past the end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def read_varint64(data: bytes, at: int) -> tuple[int, int]:
    """The same for a number of 64 bits, which takes ten bytes at most."""
    value, stop = read_varint(data, at)
    if stop - at > 10 or value >> 64:
        raise Malformed("varint of more than 64 bits")
    return value, stop


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at)
    return unzigzag(value), at
