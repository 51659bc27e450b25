"""Encoders: what they write is read back by the kernels and by the reference, from every position.

What the reference implementation chooses is compared in tests/interop/test_encoders_and_java.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from orcstream.codec.streams._encode_rle_v2 import IntEncoder
from orcstream.codec.streams._encode_values import BoolEncoder, IntEncoderV1
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams.compression import Compression
from tests.golden.test_spec_examples import EXAMPLES
from tests.reference import byte_rle, rle_v1, rle_v2, varint
from tests.support.effort import share
from tests.support.encoding import EDGES, HIGH, LOW, Encoded, encode, encoder_of, integers, packed, split
from tests.support.kernels import Fed

RUNS = ("rle_v1", "rle_v2", "byte", "boolean")
ALL = (*RUNS, "varint128", "raw1", "raw4", "raw8")
SEEDS = st.integers(0, 1 << 32)
SIGNED = pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])


def reference_decode(encoding: str, data: bytes, count: int, *, signed: bool) -> list[int]:
    if encoding == "rle_v2":
        return rle_v2.decode(data, count, signed=signed)
    if encoding == "rle_v1":
        return rle_v1.decode(data, count, signed=signed)
    if encoding == "byte":
        return byte_rle.decode(data, count)
    if encoding == "boolean":
        return [int(bit) for bit in byte_rle.decode_booleans(data, count)]
    if encoding == "varint128":
        values, at = [], 0
        for _ in range(count):
            value, at = varint.read_signed(data, at)
            values.append(value)
        assert at == len(data)
        return values
    width = int(encoding.removeprefix("raw"))
    return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


def kernel_values(encoding: str, found: Sequence[object]) -> list[object]:
    if encoding.startswith("raw"):
        return [int.from_bytes(value, "little") for value in found if isinstance(value, bytes)]
    return list(found)


def column(encoding: str, rng: random.Random, count: int) -> list[int]:
    if encoding == "byte":
        return integers(rng, count, least=0, most=255)
    if encoding == "boolean":
        ones = rng.choice((0.0, 0.01, 0.5, 0.99, 1.0))
        return [int(rng.random() < ones) for _ in range(count)]
    if encoding == "varint128":
        edges = (-(1 << 127), (1 << 127) - 1, *EDGES)
        return [rng.choice((rng.choice(edges), rng.getrandbits(rng.randint(1, 127)))) for _ in range(count)]
    if encoding.startswith("raw"):
        return [rng.getrandbits(8 * int(encoding.removeprefix("raw"))) for _ in range(count)]
    return integers(rng, count)


def judge(encoding: str, values: list[int], *, signed: bool, aligned: bool = True) -> Encoded:
    made = encode(encoding, values, signed=signed, aligned=aligned)
    assert reference_decode(encoding, made.data, len(values), signed=signed) == values
    fed = Fed(encoding, [made.data], signed=signed)
    assert kernel_values(encoding, fed.take(len(values))) == values
    return made


@pytest.mark.parametrize("encoding", ALL)
@hypothesis.settings(max_examples=share(150))
@hypothesis.given(seed=SEEDS, count=st.integers(0, 4000), signed=st.booleans(), aligned=st.booleans())
def test_what_is_written_is_read(encoding: str, seed: int, count: int, signed: bool, aligned: bool) -> None:
    rng = random.Random(seed)
    values = column(encoding, rng, count)
    if not signed and encoding == "rle_v2":
        # Java's base of a patched run is signed whatever the stream: the reference decodes it so, too.
        values = [value & HIGH for value in values]
    made = judge(encoding, values, signed=signed, aligned=aligned)
    parts = encode(encoding, values, split(rng, count), signed=signed, aligned=aligned)
    assert parts.data == made.data, "how the values arrive changes nothing"


@pytest.mark.parametrize("encoding", ALL)
@hypothesis.settings(max_examples=share(150))
@hypothesis.given(
    seed=SEEDS,
    count=st.integers(1, 3000),
    signed=st.booleans(),
    compression=st.sampled_from((Compression.NONE, Compression.ZLIB, Compression.LZ4)),
    block_size=st.sampled_from((1, 7, 64, 1000, 4096, 1 << 18)),
)
def test_positions_lead_to_the_rest(
    encoding: str, seed: int, count: int, signed: bool, compression: Compression, block_size: int
) -> None:
    rng = random.Random(seed)
    values = column(encoding, rng, count)
    parts = split(rng, count)
    made = encode(encoding, values, parts, signed=signed, compression=compression, block_size=block_size)
    compressed = compression is not Compression.NONE
    at = 0
    for index, entry in enumerate(made.entries):
        offset, into, skips = (entry[0], entry[1], entry[2:]) if compressed else (entry[0], 0, entry[1:])
        fed = Fed(
            encoding, [made.data[offset:]], signed=signed, compression=compression, block_size=block_size
        )
        fed.input.restart(file_offset=offset, bytes_to_skip=into)
        fed.values.seek(*skips or (0,))
        take = min(700, len(values) - at)
        assert kernel_values(encoding, fed.take(take)) == values[at : at + take]
        at += parts[index] if index < len(parts) else 0
    assert at == sum(parts)


@SIGNED
@pytest.mark.parametrize("encoding", ["rle_v1", "rle_v2"])
def test_every_length_around_the_ends_of_runs(encoding: str, signed: bool) -> None:
    makers: list[Callable[[int], list[int]]] = [
        lambda n: [7] * n,
        lambda n: list(range(n)),
        lambda n: [index * index for index in range(n)],
        lambda n: [index % 97 * 31 % 89 for index in range(n)],
        lambda n: [1, 2, 3, *[5] * (n - 3)][:n],
        lambda n: [*range(max(0, n - 3)), 1, 1, 1][-n:] if n else [],
        lambda n: [index % 89 + (1 << 40 if index in (1, n - 1) else 0) for index in range(n)],
    ]
    lengths = [*range(16), *range(125, 136), *range(254, 262), *range(500, 530), *range(1015, 1030)]
    for make in makers:
        for length in lengths:
            judge(encoding, make(length), signed=signed)


EXTREMES = {
    "delta overflows": [LOW, HIGH, LOW, HIGH, LOW],
    "rising over all": [LOW, -1, 0, HIGH],
    "falling over all": [HIGH, 0, -1, LOW],
    "just too far": [LOW, LOW + 1, -5, 0],
    "just not too far": [LOW, LOW + 1, -5, -1],
    "fixed steps that wrap": [HIGH - 1, HIGH, LOW, LOW + 1],
    "large fixed steps": [LOW, LOW + (1 << 61), LOW + (1 << 62), LOW + 3 * (1 << 61)],
    "first step of all bits": [LOW, -1, -1, 0 - 1],
    "least repeated": [LOW] * 5,
    "least in a long run": [LOW] * 600,
    "most in a long run": [HIGH] * 600,
    "least base": [LOW, *([LOW + 1, LOW + 3] * 30), -1],
    "base of 2^56": [-(1 << 56), *([1 - (1 << 56), 3 - (1 << 56)] * 30), 0],
    "base under 2^56": [1 - (1 << 56), *([2, 4] * 30), 1 << 62],
    "patch of 63 bits": [*([0, 1] * 30), 1 << 62],
    "patch of 63 bits, last": [*([0, 1] * 250), 3, HIGH],
    "negative base of a whole byte": [-128, *([0, 3] * 60), 1 << 40],
    "two bytes of base": [-32768, *([0, 3] * 60), 1 << 40],
}


@SIGNED
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("encoding", ["rle_v1", "rle_v2"])
def test_extremes(encoding: str, name: str, signed: bool) -> None:
    values = EXTREMES[name]
    made = encode(encoding, values, signed=signed)
    fed = Fed(encoding, [made.data], signed=signed)
    assert fed.take(len(values)) == values
    found = reference_decode(encoding, made.data, len(values), signed=signed)
    assert [varint.wrap(value) for value in found] == values


@pytest.mark.parametrize("gap", [0, 1, 254, 255, 256, 257, 509, 510, 511])
def test_gaps_of_patches(gap: int) -> None:
    values = [index % 7 for index in range(512)]
    values[gap] = 1 << 30
    made = judge("rle_v2", values, signed=True)
    assert made.data[0] >> 6 == 2, "a patched run"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_specification(name: str) -> None:
    example = EXAMPLES[name]
    assert encode(example.encoding, example.values, signed=example.signed).data == example.data


def test_widths_that_do_not_divide_evenly() -> None:
    """The same delta example in 3 bits, as the reference packs it, where nobody asks for even widths."""
    values = EXAMPLES["delta"].values
    expected = rle_v2.delta(values, signed=False, width=3)
    assert encode("rle_v2", values, aligned=False).data == expected


@SIGNED
@pytest.mark.parametrize("kind", [IntEncoder, IntEncoderV1])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 11, 130, 131, 512, 513, 5000])
def test_repeated_values(kind: type[IntEncoder | IntEncoderV1], count: int, signed: bool) -> None:
    streams = []
    for repeated in (False, True):
        out = OutStream(compressed=False, block_size=1000)
        encoder = kind(out, signed=signed)
        encoder.put(packed("rle_v2", [1, 5]), 2)
        if repeated:
            encoder.put_repeated(5, count)
        else:
            encoder.put(packed("rle_v2", [5] * count), count)
        encoder.flush()
        out.finish(None)
        streams.append(b"".join(bytes(piece) for piece in out.drain()))
    assert streams[0] == streams[1]


@hypothesis.given(seed=SEEDS, count=st.integers(0, 70_000))
def test_bitmaps_and_constants(seed: int, count: int) -> None:
    """Bits of an Arrow bitmap from any offset, and stretches of one bit, are the booleans they stand for."""
    rng = random.Random(seed)
    out = OutStream(compressed=False, block_size=4096)
    encoder = BoolEncoder(out)
    expected: list[int] = []
    while len(expected) < count:
        size = min(count - len(expected), rng.choice((0, 1, 5, 8, 100, 33_000)))
        if rng.random() < 0.5:
            offset = rng.randrange(20)
            bits = [rng.getrandbits(1) for _ in range(offset + size)]
            bitmap = np.packbits(np.array(bits, np.uint8), bitorder="little")
            encoder.put_bits(bitmap.tobytes(), offset, size)
            expected += bits[offset:]
        else:
            value = rng.random() < 0.5
            encoder.put_repeated(value, size)
            expected += [int(value)] * size
    encoder.flush()
    out.finish(None)
    data = b"".join(bytes(piece) for piece in out.drain())
    assert data == encode("boolean", expected).data
    assert [int(bit) for bit in byte_rle.decode_booleans(data, count)] == expected


@pytest.mark.parametrize("encoding", ALL)
@pytest.mark.parametrize("count", [3, -1, HIGH])
def test_short_buffers_are_refused(encoding: str, count: int) -> None:
    out = OutStream(compressed=False, block_size=100)
    encoder = encoder_of(encoding, out, signed=True, aligned=True)
    with pytest.raises(ValueError, match=r"\bbuffer\b"):
        encoder.put(packed(encoding, [1, 0]), count)
    assert (out.stream_offset, any(encoder.position)) == (0, False)


@pytest.mark.parametrize(("offset", "count"), [(3, 6), (9, 0), (0, HIGH), (HIGH, 1)])
def test_short_bitmaps_are_refused(offset: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"\b(buffer|bits)\b"):
        BoolEncoder(OutStream(compressed=False, block_size=100)).put_bits(b"\xff", offset, count)


def test_values_at_odd_addresses() -> None:
    values = list(range(1, 3000, 7))
    data = b"x" + packed("rle_v2", values)
    out = OutStream(compressed=False, block_size=1 << 18)
    encoder = IntEncoder(out, signed=True)
    encoder.put(memoryview(data)[1:], len(values))
    encoder.flush()
    out.finish(None)
    assert b"".join(bytes(piece) for piece in out.drain()) == encode("rle_v2", values, signed=True).data
