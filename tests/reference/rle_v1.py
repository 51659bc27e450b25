"""Integer run lengths, version 1 (specification: "Integer Run Length Encoding, version 1").

Results are 64-bit two's complement, also for unsigned streams, as in the reference implementations.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import Malformed
from .varint import read_varint64, unzigzag, wrap, write_varint, zigzag


def _number(value: int, signed: bool) -> bytes:
    return write_varint(zigzag(value) if signed else value & (1 << 64) - 1)


def run(base: int, delta: int, length: int, *, signed: bool) -> bytes:
    """3 to 130 values that differ by `delta` (-128 to 127)."""
    assert 3 <= length <= 130 and -128 <= delta <= 127
    return bytes((length - 3, delta & 0xFF)) + _number(base, signed)


def literals(values: Sequence[int], *, signed: bool) -> bytes:
    """1 to 128 values one by one."""
    assert 1 <= len(values) <= 128
    return bytes((256 - len(values),)) + b"".join(_number(value, signed) for value in values)


def encode(values: Sequence[int], *, signed: bool) -> bytes:
    """Greedy: a run where at least three values follow one small delta."""
    out = bytearray()
    pending: list[int] = []
    at = 0
    while at < len(values):
        length = 1
        if at + 1 < len(values) and -128 <= (delta := values[at + 1] - values[at]) <= 127:
            while (
                at + length < len(values)
                and length < 130
                and values[at + length] - values[at + length - 1] == delta
            ):
                length += 1
        if length >= 3:
            if pending:
                out += literals(pending, signed=signed)
                pending = []
            out += run(values[at], delta, length, signed=signed)
            at += length
            continue
        pending.append(values[at])
        at += 1
        if len(pending) == 128:
            out += literals(pending, signed=signed)
            pending = []
    if pending:
        out += literals(pending, signed=signed)
    return bytes(out)


def decode(data: bytes, count: int, *, signed: bool) -> list[int]:
    values: list[int] = []
    at = 0
    while len(values) < count:
        if at >= len(data):
            raise Malformed("integer runs end early")
        control = data[at]
        at += 1
        if control < 0x80:
            if at >= len(data):
                raise Malformed("integer run without its delta")
            delta = wrap(data[at], 8)
            base, at = _read(data, at + 1, signed)
            values += [wrap(base + i * delta) for i in range(control + 3)]
        else:
            for _ in range(256 - control):
                value, at = _read(data, at, signed)
                values.append(wrap(value))
    return values[:count]


def _read(data: bytes, at: int, signed: bool) -> tuple[int, int]:
    value, at = read_varint64(data, at)
    return (unzigzag(value) if signed else value), at
