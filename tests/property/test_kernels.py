"""Every form a run can have, decoded by the kernels as the reference decodes it.

Runs are made of raw parts (any width, any body) where every such run is legal, so that forms come up that no
writer emits; each is decoded alone, where the input ends with it, and among others, where loads are wide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from orcstream.errors import CorruptStream
from tests.generators import chunks
from tests.reference import byte_rle, rle_v1, rle_v2
from tests.reference.errors import Malformed
from tests.reference.varint import unzigzag, wrap, write_signed, write_varint, zigzag
from tests.support.effort import share, some
from tests.support.kernels import Fed, decode

pytestmark = pytest.mark.usefixtures("simd")

LOW, HIGH = -(1 << 63), (1 << 63) - 1
EDGES = (0, 1, -1, 127, 128, -128, 255, 1 << 31, 1 << 32, 1 << 55, 1 << 56, HIGH - 1, HIGH, LOW, LOW + 1)
SIGNED = pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])


def header(kind: int, code: int, length: int) -> bytes:
    return bytes((kind << 6 | code << 1 | (length - 1) >> 8, (length - 1) & 0xFF))


def unpack(body: bytes, width: int, length: int) -> list[int]:
    """Big-endian values by way of numpy's bits: a third opinion, fast enough for every length."""
    bits = np.unpackbits(np.frombuffer(body, np.uint8), count=length * width).reshape(length, width)
    powers = np.uint64(1) << np.arange(width - 1, -1, -1, dtype=np.uint64)
    return [int(value) for value in (bits * powers).sum(axis=1, dtype=np.uint64)]


def judge(data: bytes, expected: Sequence[int], *, signed: bool, encoding: str = "rle_v2") -> None:
    assert decode(encoding, [data], len(expected), signed=signed) == expected


@SIGNED
@pytest.mark.parametrize("width", rle_v2.WIDTHS)
def test_direct(width: int, signed: bool) -> None:
    rng = random.Random(width)
    stream, expected = bytearray(), []
    for length in (*some(range(1, 512)), 512):
        body = rng.randbytes((length * width + 7) // 8)
        run = header(1, rle_v2.WIDTHS.index(width), length) + body
        numbers = unpack(body, width, length)
        values = [wrap(unzigzag(number) if signed else number) for number in numbers]
        judge(run, values, signed=signed)
        if length % 61 == 0:
            assert rle_v2.decode(run, length, signed=signed) == values
        stream += run
        expected += values
    judge(bytes(stream), expected, signed=signed)


@SIGNED
@pytest.mark.parametrize("width_bytes", range(1, 9))
def test_short_repeat(width_bytes: int, signed: bool) -> None:
    rng = random.Random(width_bytes)
    stream, expected = b"", []
    bodies = [bytes(width_bytes), b"\xff" * width_bytes, b"\x80" + bytes(width_bytes - 1)]
    for body in (*bodies, *(rng.randbytes(width_bytes) for _ in range(20))):
        for count in range(3, 11):
            run = bytes(((width_bytes - 1) << 3 | count - 3,)) + body
            values = rle_v2.decode(run, count, signed=signed)
            judge(run, values, signed=signed)
            stream += run
            expected += values
    judge(stream, expected, signed=signed)


@SIGNED
@pytest.mark.parametrize("code", range(32))
def test_delta(code: int, signed: bool) -> None:
    # The widest deltas overflow 64 bits, where all arithmetic wraps.
    rng = random.Random(code)
    width = rle_v2.WIDTHS[code] if code else 0
    stream, expected = b"", []
    for length in (*range(1, 35), *rng.sample(range(35, 510), 8), 510, 511, 512):
        base = rng.choice(EDGES)
        first = rng.choice((*EDGES, rng.getrandbits(20), -rng.getrandbits(20)))
        run = header(3, code, length)
        run += write_signed(base) if signed else write_varint(base & (1 << 64) - 1)
        run += write_signed(first) + rng.randbytes((max(length - 2, 0) * width + 7) // 8)
        values = rle_v2.decode(run, length, signed=signed)
        judge(run, values, signed=signed)
        stream += run
        expected += values
    judge(stream, expected, signed=signed)


def test_delta_wraps() -> None:
    up = header(3, 0, 3) + write_signed(HIGH) + write_signed(1)
    judge(up, [HIGH, LOW, LOW + 1], signed=True)
    down = header(3, 0, 3) + write_signed(LOW) + write_signed(-1)
    judge(down, [LOW, HIGH, HIGH - 1], signed=True)
    steps = header(3, 31, 4) + write_signed(5) + write_signed(LOW) + b"\xff" * 16
    judge(steps, [5, wrap(5 + LOW), wrap(6 + LOW), wrap(7 + LOW)], signed=True)


def patched(
    width: int,
    gap_width: int,
    patch_width: int,
    base: bytes,
    body: bytes,
    length: int,
    entries: Sequence[tuple[int, int]],
) -> bytes:
    """A patched run of raw parts; `entries` are (gap, patch)."""
    entry_width = rle_v2.closest_fixed_bits(gap_width + patch_width)
    return (
        header(2, rle_v2.WIDTHS.index(width), length)
        + bytes(
            (
                len(base) - 1 << 5 | rle_v2.WIDTHS.index(patch_width),
                gap_width - 1 << 5 | len(entries),
            )
        )
        + base
        + body
        + rle_v2.pack([gap << patch_width | patch for gap, patch in entries], entry_width)
    )


@pytest.mark.parametrize("gap_width", range(1, 9))
def test_patched_base(gap_width: int) -> None:
    rng = random.Random(gap_width)
    patch_widths = [width for width in rle_v2.WIDTHS if width + gap_width <= 64]
    cases = [(width, patch) for width in rle_v2.WIDTHS if width < 64 for patch in patch_widths]
    stream, expected = b"", []
    for width, patch_width in rng.sample(cases, 200):
        length = rng.choice((1, 2, 3, 20, 511, 512, rng.randint(1, 512)))
        at, entries = 0, []
        for _ in range(rng.choice((0, 1, 2, 30, 31))):
            gap = rng.randint(0, min(length - 1 - at, (1 << gap_width) - 1))
            entries.append((gap, rng.getrandbits(patch_width)))
            at += gap
        run = patched(
            width,
            gap_width,
            patch_width,
            rng.randbytes(rng.randint(1, 8)),
            rng.randbytes((length * width + 7) // 8),
            length,
            entries,
        )
        values = rle_v2.decode(run, length, signed=True)
        judge(run, values, signed=rng.random() < 0.5)
        stream += run
        expected += values
    judge(stream, expected, signed=False)


def patched_extremes() -> Iterator[tuple[str, list[int], dict[str, int]]]:
    flat = [3] * 512
    yield "gap of 255", [*flat[:255], 1 << 20, *flat[256:]], {"width": 2}
    yield "gap of 256", [*flat[:256], 1 << 20, *flat[257:]], {"width": 2}
    yield "gap of 511", [*flat[:511], 1 << 20], {"width": 2}
    yield "first and last", [1 << 20, *flat[1:511], 1 << 20], {"width": 2}
    yield "31 patches", [9 if row % 16 else 1 << 30 for row in range(16 * 31)], {"width": 4}
    yield "the whole range", [LOW + 1, HIGH, *[LOW + 5] * 30], {"width": 56, "base_bytes": 8}
    yield "a large base", [HIGH - 9, HIGH, *[HIGH - 8] * 30], {"width": 2}
    yield "no patch", [5, 6, 7], {"width": 3}


@pytest.mark.parametrize(
    ("name", "values", "choices"), list(patched_extremes()), ids=lambda item: str(item)[:16]
)
def test_patched_extremes(name: str, values: list[int], choices: dict[str, int]) -> None:
    run = rle_v2.patched_base(values, base=min(values), **choices)
    assert rle_v2.decode(run, len(values), signed=True) == values
    judge(run, values, signed=True)
    judge(run, values, signed=False)


@pytest.mark.parametrize(
    ("message", "run"),
    [
        ("gap and patch over 64 bits", header(2, 3, 3) + bytes((31, 0 << 5 | 1)) + bytes(40)),
        ("a patch behind the run", patched(4, 8, 8, b"\1", bytes(2), 3, [(3, 1)])),
        ("a patch behind the run, by steps", patched(4, 8, 8, b"\1", bytes(2), 3, [(2, 0), (2, 1)])),
        ("a patch of what has all bits", patched(64, 8, 8, b"\1", bytes(24), 3, [(1, 1)])),
        # 26 bits hold a gap of 1 bit and a patch of 24, and one bit that must be 0: with it the gap is 2.
        ("a gap wider than its width", patched(4, 1, 24, b"\1", bytes(1), 2, [(2, 1)])),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_patches_against_the_rules(message: str, run: bytes) -> None:
    with pytest.raises(CorruptStream, match="patch list") as caught:
        Fed("rle_v2", [run + bytes(100)]).take(2)
    assert (caught.value.column, caught.value.stream_kind) == (7, "DATA"), message


@SIGNED
def test_version_1(signed: bool) -> None:
    rng = random.Random(1)
    stream, expected = b"", []
    for length in range(3, 131):
        deltas = rng.sample(range(-128, 128), 6)
        for delta in (*deltas, -128, 0, 127):
            run = rle_v1.run(rng.choice(EDGES), delta, length, signed=signed)
            values = rle_v1.decode(run, length, signed=signed)
            judge(run, values, signed=signed, encoding="rle_v1")
            stream += run
            expected += values
    for length in range(1, 129):
        values = [rng.choice((*EDGES, rng.getrandbits(63), rng.getrandbits(9))) for _ in range(length)]
        run = rle_v1.literals(values, signed=signed)
        judge(run, values, signed=signed, encoding="rle_v1")
        stream += run
        expected += values
    judge(stream, expected, signed=signed, encoding="rle_v1")


def test_bytes() -> None:
    stream, expected = b"", []
    rng = random.Random(2)
    for length in range(3, 131):
        value = rng.randrange(256)
        judge(byte_rle.run(value, length), [value] * length, signed=False, encoding="byte")
        stream += byte_rle.run(value, length)
        expected += [value] * length
    for length in range(1, 129):
        values = list(rng.randbytes(length))
        judge(byte_rle.literals(values), values, signed=False, encoding="byte")
        stream += byte_rle.literals(values)
        expected += values
    judge(stream, expected, signed=False, encoding="byte")


@pytest.mark.parametrize("encoding", ["rle_v1", "rle_v2"])
def test_varints_over_64_bits(encoding: str) -> None:
    too_long = b"\x80" * 10 + b"\x01"
    too_large = b"\xff" * 9 + b"\x02"
    for bad in (too_long, too_large):
        run = b"\xff" + bad if encoding == "rle_v1" else header(3, 0, 5) + bad + b"\x02"
        with pytest.raises(CorruptStream, match=r"\bvarint\b.*\b64 bits\b"):
            Fed(encoding, [run]).take(1)
    overlong = b"\x81" + b"\x80" * 8 + b"\x00"  # ten bytes for 1, which is legal
    run = b"\xff" + overlong if encoding == "rle_v1" else header(3, 0, 2) + overlong + b"\x00"
    assert Fed(encoding, [run]).take(1) == [1]


BIG = 10**38 - 1
WORDS = st.one_of(
    st.integers(-(1 << 127), (1 << 127) - 1),
    st.integers(0, 127).flatmap(lambda bits: st.integers(-(1 << bits), (1 << bits) - 1)),
    st.sampled_from((0, -1, BIG, -BIG, BIG + 1, -(1 << 127), (1 << 127) - 1, 1 << 63, -(1 << 63), 1 << 64)),
)


@hypothesis.given(values=st.lists(WORDS, max_size=60), seed=st.integers(0, 1 << 32))
def test_varint128(values: list[int], seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray()
    for value in values:
        number = zigzag(value)
        plain = write_varint(number)
        pad = rng.choice((0, 0, 0, rng.randint(0, 19 - len(plain))))
        if pad:  # zeros that say nothing, which are legal as far as 128 bits go
            plain = plain[:-1] + bytes((plain[-1] | 0x80,)) + b"\x80" * (pad - 1) + b"\x00"
        data += plain
    pieces = chunks.pieces(bytes(data), [rng.randint(1, 30) for _ in range(30)])
    fed = Fed("varint128", pieces)
    assert fed.take(len(values)) == values
    assert Fed("varint128", [bytes(data)]).take(len(values)) == values


@pytest.mark.parametrize("number", [1 << 128, (1 << 128) + 1, 1 << 133, 1 << 200])
@pytest.mark.parametrize("before", [b"", b"\x02" * 9])
def test_varints_over_128_bits(number: int, before: bytes) -> None:
    for behind in (b"", b"\x02" * 9):
        with pytest.raises(CorruptStream, match=r"\bvarint\b.*\b128 bits\b"):
            Fed("varint128", [before + write_varint(number) + behind]).take(len(before) + 1)
    with pytest.raises(CorruptStream, match=r"\bvarint\b.*\b128 bits\b"):
        Fed("varint128", [b"\x80" * 19 + b"\x00"]).take(1)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16])
def test_raw_values(width: int) -> None:
    data = random.Random(width).randbytes(width * 20)
    expected = [data[at : at + width] for at in range(0, len(data), width)]
    for pieces in chunks.ways(data):
        for turn in (1, 3, 20):
            fed = Fed(f"raw{width}", pieces)
            assert [value for at in range(0, 20, turn) for value in fed.take(min(turn, 20 - at))] == expected
    if width > 1:
        with pytest.raises(CorruptStream, match=r"\b1 bytes\b"):
            Fed(f"raw{width}", [data[:-1]]).take(20)


@hypothesis.settings(max_examples=share(300))
@hypothesis.given(
    encoding=st.sampled_from(("rle_v1", "rle_v2", "byte", "boolean")),
    runs=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    seed=st.integers(0, 1 << 32),
    signed=st.booleans(),
)
def test_any_bytes_with_plausible_headers(encoding: str, runs: list[bytes], seed: int, signed: bool) -> None:
    """Random runs, in random pieces: the kernel gives what the reference gives, or refuses."""
    rng = random.Random(seed)
    data = b"".join(bytes((rng.choice((0x0A, 0x46, 0x5E, 0x8E, 0xC6, 0xC1)),)) + run for run in runs)
    count = rng.randint(0, 300)
    expected: list[int] | None
    try:
        if encoding == "byte":
            expected = byte_rle.decode(data, count)
        elif encoding == "boolean":
            expected = [int(bit) for bit in byte_rle.decode_booleans(data, count)]
        else:
            expected = (rle_v1 if encoding == "rle_v1" else rle_v2).decode(data, count, signed=signed)
    except Malformed:
        expected = None
    pieces = chunks.pieces(data, [rng.randint(1, 30) for _ in range(30)])
    fed = Fed(encoding, pieces, signed=signed)
    if expected is None:
        with pytest.raises(CorruptStream):
            fed.take(count)
        return
    try:
        found = fed.take(count)
    except CorruptStream as error:
        # Stricter than the reference in two things, which no writer does.
        refusal = error.message
    else:
        assert found == expected
        return
    assert "64 bits" in refusal or "patch list" in refusal
