"""Bloom filters of a column's values (specification: "Bloom Filter Index"), in both forms of stream.

Hashes as ORC Java computes them: integers, dates, milliseconds of timestamps and the bits of doubles by
Thomas Wang's function, texts and bytes by Murmur3; decimals by their shortest text. A filter is a list of
64-bit words.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from . import wire
from .types import T
from .values import NANOS
from .varint import wrap, write_varint

BLOOM_FILTER, BLOOM_FILTER_UTF8 = 7, 8
_MASK = (1 << 64) - 1
_SEED = 104_729
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def hash_long(key: int) -> int:
    """Thomas Wang's 64-bit hash; shifts to the right keep the sign, as Java's do."""
    key = wrap(~key + (key << 21))
    key = wrap(key ^ (key >> 24))
    key = wrap(key + (key << 3) + (key << 8))
    key = wrap(key ^ (key >> 14))
    key = wrap(key + (key << 2) + (key << 4))
    key = wrap(key ^ (key >> 28))
    return wrap(key + (key << 31))


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _MASK


def _mix(number: int) -> int:
    return _rotate(number * _C1 & _MASK, 31) * _C2 & _MASK


def hash_bytes(data: bytes) -> int:
    """Murmur3, 64 bits."""
    found = _SEED
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        found ^= _mix(int.from_bytes(data[at : at + 8], "little"))
        found = (_rotate(found, 27) * 5 + 1_390_208_809) & _MASK
    if whole < len(data):
        found ^= _mix(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        found ^= found >> 33
        found = found * factor & _MASK
    return wrap(found ^ found >> 33)


def hash_of(type_: T, value: Any) -> int | None:
    """The hash of a value that is there; None for kinds that have no filters."""
    kind = type_.kind
    if kind in ("tinyint", "smallint", "int", "bigint", "date"):
        return hash_long(value)
    if kind in ("float", "double"):
        bits = struct.pack("<d", math.nan if math.isnan(value) else value)
        return hash_long(int.from_bytes(bits, "little", signed=True))
    if kind in ("string", "varchar"):
        return hash_bytes(value.encode())
    if kind == "char":
        assert type_.max_length is not None
        return hash_bytes(value.ljust(type_.max_length).encode())
    if kind == "binary":
        return hash_bytes(value)
    if kind == "decimal":
        return hash_bytes(_shortest(value).encode())
    if kind.startswith("timestamp"):
        return hash_long(value // (NANOS // 1000))
    return None


def _shortest(value: Decimal) -> str:
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) if value else "0"


def size_of(entries: int, share: float) -> tuple[int, int]:
    """Bits and hash functions for so many values and such a share of false positives."""
    bits = int(-entries * math.log(share) / math.log(2) ** 2)
    bits += 64 - bits % 64
    return bits, max(1, round(bits / entries * math.log(2)))


def make(hashes: Sequence[int], bits: int, functions: int) -> list[int]:
    words = [0] * (bits // 64)
    for found in hashes:
        for at in _bits_of(found, bits, functions):
            words[at // 64] |= 1 << at % 64
    return words


def _bits_of(found: int, bits: int, functions: int) -> Iterator[int]:
    low, high = wrap(found, 32), wrap(found >> 32, 32)
    for number in range(1, functions + 1):
        combined = wrap(low + number * high, 32)
        yield (~combined if combined < 0 else combined) % bits


def message(words: Sequence[int], functions: int, kind: int) -> bytes:
    """A BloomFilter: as 64-bit numbers in the old form, as bytes in the new one."""
    if kind == BLOOM_FILTER_UTF8:
        packed = b"".join(word.to_bytes(8, "little") for word in words)
        return wire.message((1, functions), (3, packed))
    fixed = b"".join(write_varint(2 << 3 | 1) + word.to_bytes(8, "little") for word in words)
    return wire.message((1, functions)) + fixed


def parse(data: bytes) -> tuple[list[int], int]:
    """Words and number of functions of a BloomFilter of either form."""
    fields = wire.parse(data)
    packed = wire.blob(fields, 3) or b"".join(wire.blobs(fields, 2))
    words = [int.from_bytes(packed[at : at + 8], "little") for at in range(0, len(packed), 8)]
    return words, wire.number(fields, 1)
