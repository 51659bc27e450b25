"""The specification's worked examples, byte for byte, against the reference and against our kernels.

One table; every decoder that claims an encoding reads all its rows. Encoders of the reference are held to the
same bytes, where the specification's writer made the same choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.reference import byte_rle, compression, rle_v1, rle_v2, values, varint
from tests.support import kernels


@dataclass(frozen=True)
class Example:
    encoding: str
    signed: bool
    data: bytes
    values: list[int]


def _hex(text: str) -> bytes:
    return bytes(int(byte, 16) for byte in text.split(","))


PATCHED = [30, 0, 20, 998000, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190]
EXAMPLES = {
    "byte run": Example("byte", False, _hex("61,00"), [0] * 100),
    "byte literals": Example("byte", False, _hex("fe,44,45"), [0x44, 0x45]),
    "boolean": Example("boolean", False, _hex("ff,80"), [1] + [0] * 7),
    "version 1 repeated": Example("rle_v1", False, _hex("61,00,07"), [7] * 100),
    "version 1 falling": Example("rle_v1", False, _hex("61,ff,64"), list(range(100, 0, -1))),
    "version 1 literals": Example("rle_v1", False, _hex("fb,02,03,06,07,0b"), [2, 3, 6, 7, 11]),
    "short repeat": Example("rle_v2", False, _hex("0a,27,10"), [10000] * 5),
    "direct": Example("rle_v2", False, _hex("5e,03,5c,a1,ab,1e,de,ad,be,ef"), [23713, 43806, 57005, 48879]),
    "patched base": Example(
        "rle_v2",
        False,
        _hex("8e,13,2b,21,07,d0,1e,00,14,70,28,32,3c,46,50,5a,64,6e,78,82,8c,96,a0,aa,b4,be,fc,e8"),
        [2000 + number for number in PATCHED],
    ),
    "delta": Example("rle_v2", False, _hex("c6,09,02,02,22,42,42,46"), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
}

Decode = Callable[[bytes, int, bool], list[int]]
REFERENCE: dict[str, Decode] = {
    "byte": lambda data, count, _: byte_rle.decode(data, count),
    "boolean": lambda data, count, _: [int(bit) for bit in byte_rle.decode_booleans(data, count)],
    "rle_v1": lambda data, count, signed: rle_v1.decode(data, count, signed=signed),
    "rle_v2": lambda data, count, signed: rle_v2.decode(data, count, signed=signed),
}
DECODERS: dict[str, dict[str, Decode]] = {"reference": REFERENCE, "kernel": kernels.DECODERS}


@pytest.mark.parametrize("decoders", DECODERS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_decoding(name: str, decoders: str) -> None:
    example = EXAMPLES[name]
    decode = DECODERS[decoders][example.encoding]
    assert decode(example.data, len(example.values), example.signed) == example.values


def test_encoding() -> None:
    def bytes_of(name: str) -> bytes:
        return EXAMPLES[name].data

    assert byte_rle.encode([0] * 100) == bytes_of("byte run")
    assert byte_rle.encode([0x44, 0x45]) == bytes_of("byte literals")
    assert byte_rle.encode_booleans([True] + [False] * 7) == bytes_of("boolean")
    for name in ("version 1 repeated", "version 1 falling", "version 1 literals"):
        assert rle_v1.encode(EXAMPLES[name].values, signed=False) == bytes_of(name)
    assert rle_v2.short_repeat(10000, 5, signed=False) == bytes_of("short repeat")
    assert rle_v2.direct(EXAMPLES["direct"].values, signed=False) == bytes_of("direct")
    # The specification's writer uses widths that divide evenly: 4 bits where 3 would do.
    assert rle_v2.delta(EXAMPLES["delta"].values, signed=False, width=4) == bytes_of("delta")
    found = rle_v2.patched_base(EXAMPLES["patched base"].values, width=8, patch_width=12, gap_width=2)
    assert found == bytes_of("patched base")


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "80,01"),
        (129, "81,01"),
        (16_383, "ff,7f"),
        (16_384, "80,80,01"),
        (16_385, "81,80,01"),
    ],
)
def test_varints(number: int, data: str) -> None:
    assert varint.write_varint(number) == _hex(data)
    assert varint.read_varint(_hex(data), 0) == (number, len(_hex(data)))


@pytest.mark.parametrize(("signed", "unsigned"), [(0, 0), (-1, 1), (1, 2), (-2, 3), (2, 4)])
def test_zigzag(signed: int, unsigned: int) -> None:
    assert varint.zigzag(signed) == unsigned
    assert varint.unzigzag(unsigned) == signed


@pytest.mark.parametrize(("nanos", "stored"), [(1000, 0x0A), (100_000, 0x0C)])
def test_nanoseconds(nanos: int, stored: int) -> None:
    assert values.encode_nanos(nanos) == stored
    assert values.decode_nanos(stored) == nanos


@pytest.mark.parametrize(
    ("length", "original", "data"), [(100_000, False, "40,0d,03"), (5, True, "0b,00,00")]
)
def test_chunk_headers(length: int, original: bool, data: str) -> None:
    assert compression.header(length, original) == _hex(data)


@pytest.mark.parametrize(
    ("bits", "width"),
    [
        *((n, n) for n in range(1, 25)),
        (25, 26),
        (27, 28),
        (29, 30),
        (31, 32),
        (33, 40),
        (41, 48),
        (49, 56),
        (57, 64),
    ],
)
def test_closest_fixed_bits(bits: int, width: int) -> None:
    assert rle_v2.closest_fixed_bits(bits) == width
