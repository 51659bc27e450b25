"""Codecs in C: what packages compress comes back, and damaged chunks are what the packages take them for."""

from __future__ import annotations

import random
from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream.codec.streams import compression
from orcstream.codec.streams.compression import Compression, Compressor, Decompressor
from tests.reference import compression as reference
from tests.support import chunk_codecs
from tests.support.encoding import chunk_of

EVERY_KIND = pytest.mark.parametrize("kind", chunk_codecs.PACK)
SEEDS = st.integers(0, 1 << 40)


@EVERY_KIND
@hypothesis.given(seed=SEEDS)
def test_chunks_come_back(kind: Compression, seed: int) -> None:
    rng = random.Random(seed)
    data = chunk_codecs.plain(rng, rng.choice((100, 5000, 65_536, 262_144))) + bytes(100)
    chunk = chunk_of(Compressor(kind), data)
    assert chunk is not None
    for codec in (Decompressor(kind), chunk_codecs.by_package(kind)):
        for room in (len(data), len(data) + 1, len(data) + 1000):
            assert chunk_codecs.outcome(codec, chunk[3:], room) == data
        assert chunk_codecs.outcome(codec, chunk[3:], len(data) - 1) is None


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("kind", chunk_codecs.PACKAGES)
@hypothesis.given(seed=SEEDS)
def test_chunks_are_those_of_packages(kind: Compression, hidden: bool, seed: int) -> None:
    """So files do not change with what calls a library."""
    rng = random.Random(seed)
    level = rng.choice(chunk_codecs.LEVELS.get(kind, (None,)))
    with pytest.MonkeyPatch.context() as patch:
        if hidden:
            patch.setattr(compression, "_addresses", lambda *_: None)
        compressor = Compressor(kind, level)
    for size in (1, 10, 1000, 5000, rng.choice((20_000, 65_536, 100_000))):
        data = rng.choice((chunk_codecs.plain(rng, size), rng.randbytes(size), bytes(size)))
        packed = chunk_codecs.PACKAGES[kind](data, level)
        found = chunk_of(compressor, data)
        if len(packed) < size:
            assert found == reference.header(len(packed), original=False) + packed
        else:
            assert found is None


@EVERY_KIND
@hypothesis.given(seed=SEEDS)
def test_packages_and_codecs_agree(kind: Compression, seed: int) -> None:
    rng = random.Random(seed)
    accepted = sum(chunk_codecs.check(kind, *chunk_codecs.case(kind, rng)) for _ in range(30))
    assert accepted < 30


@pytest.mark.parametrize(
    ("kind", "elements"),
    [
        (Compression.SNAPPY, chunk_codecs.snappy_elements),
        (Compression.LZ4, chunk_codecs.lz4_elements),
    ],
)
@hypothesis.given(seed=SEEDS)
def test_every_element(
    kind: Compression, elements: Callable[[random.Random], tuple[bytes, bytes]], seed: int
) -> None:
    """Also in chunks that end near an element, and with room of all sizes behind it."""
    data, chunk = elements(random.Random(seed))
    for codec in (Decompressor(kind), chunk_codecs.by_package(kind)):
        for more in (0, 1, 15, 64, 71, 143, 144, 145, 5000):
            assert chunk_codecs.outcome(codec, chunk, len(data) + more) == data
    codec = Decompressor(kind)
    for room in {0, len(data) - 1, len(data) // 2}:
        assert chunk_codecs.outcome(codec, chunk, room) is None
    for stop in {*range(min(len(chunk), 150)), *range(max(0, len(chunk) - 150), len(chunk))}:
        found = chunk_codecs.outcome(codec, chunk[:stop], len(data) + 200)
        # A block of LZ4 that ends in a literal is whole.
        assert found is None or (kind is Compression.LZ4 and data.startswith(found) and found != data)


BY_HAND = {
    Compression.SNAPPY: [
        ("00", b""),
        ("8000", b""),
        ("80808080808080808000", b""),
        ("808080800003", None),  # four more bytes of a length are none of it
        ("80808080800000", None),
        ("ffffffff0f0061", None),
        ("ffffffffff", None),
        ("0100", None),
        ("010061", b"a"),
        ("01f00061", b"a"),
        ("01f4000061", b"a"),
        ("01fc0000000061", b"a"),
        ("01fcffffffff61", None),
        ("0500610101", b"aaaaa"),
        ("0500610f01000000", b"aaaaa"),
        ("0500610fffffffff", None),
        ("0500610f00000000", None),
        ("0500610102", None),
        ("0500610100", None),
        ("0400610101", None),
        ("0600610101", None),
    ],
    Compression.LZ4: [
        ("", None),
        ("00", b""),
        ("0000", None),
        ("1061", b"a"),
        ("10", None),
        ("106161", None),
        ("1061ff", None),
        ("f0", None),
        ("f0ff", None),
        ("f00061", None),
        ("f000" + "61" * 15, b"a" * 15),
        ("f001" + "61" * 16, b"a" * 16),
        ("1061010000", b"aaaaa"),
        ("1061010010" + "62", b"aaaaab"),
        ("1061000000", None),
        ("1061020000", None),
        ("10610100", None),
        ("106101", None),
        ("1f610100" + "0110" + "62", b"a" * 21 + b"b"),
        ("1f610100" + "ff", None),
        ("1f610100" + "ffff" * 200 + "0000", None),
        ("0f" + "0100" * 8, None),
    ],
}


@pytest.mark.parametrize(
    ("kind", "chunk", "expected"), [(kind, *case) for kind, cases in BY_HAND.items() for case in cases]
)
def test_by_hand(kind: Compression, chunk: str, expected: bytes | None) -> None:
    codec = Decompressor(kind)
    for room in (len(expected or b""), 30, 1000):
        assert chunk_codecs.outcome(codec, bytes.fromhex(chunk), room) == expected
