"""Codecs in C: what packages compress comes back, and damaged chunks are what the packages take them for."""

from __future__ import annotations

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream.codec.streams import compression
from orcstream.codec.streams.compression import Compression, Compressor, Decompressor
from tests.reference import compression as reference
from tests.support import chunk_codecs

EVERY_KIND = pytest.mark.parametrize("kind", chunk_codecs.PACK)
SEEDS = st.integers(0, 1 << 40)


@EVERY_KIND
@hypothesis.given(seed=SEEDS)
def test_chunks_come_back(kind: Compression, seed: int) -> None:
    rng = random.Random(seed)
    data = chunk_codecs.plain(rng, rng.choice((100, 5000, 65_536, 262_144))) + bytes(100)
    chunk = Compressor(kind)(memoryview(data))
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
        found = compressor(memoryview(data))
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


@hypothesis.given(seed=SEEDS)
def test_every_element_of_snappy(seed: int) -> None:
    """Also in chunks that end near an element, and with room of all sizes behind it."""
    rng = random.Random(seed)
    data, chunk = chunk_codecs.snappy_elements(rng)
    codec = Decompressor(Compression.SNAPPY)
    for more in (0, 1, 15, 64, 71, 143, 144, 145, 5000):
        assert chunk_codecs.outcome(codec, chunk, len(data) + more) == data
    for room in {0, len(data) - 1, len(data) // 2}:
        assert chunk_codecs.outcome(codec, chunk, room) is None
    for stop in {*range(min(len(chunk), 150)), *range(max(0, len(chunk) - 150), len(chunk))}:
        assert chunk_codecs.outcome(codec, chunk[:stop], len(data) + 200) is None


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
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
)
def test_snappy_by_hand(chunk: str, expected: bytes | None) -> None:
    codec = Decompressor(Compression.SNAPPY)
    for room in (len(expected or b""), 8, 1000):
        assert chunk_codecs.outcome(codec, bytes.fromhex(chunk), room) == expected
