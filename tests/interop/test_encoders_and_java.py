"""The same values through ORC Java's encoders and ours: the same bytes, and the same positions.

Java writes a file without compression, so that its streams are what its encoders made.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from orcstream import blocking
from orcstream.codec.metadata.structure import EncodingKind, positions_of
from orcstream.schema.types import Kind
from tests.reference import java_orc
from tests.reference import reader as reference_reader
from tests.reference.reader import DATA, LENGTH, SECONDARY
from tests.reference.types import KINDS, parse
from tests.support.effort import share
from tests.support.encoding import encode, integers

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

STRIDE = 1000
SEEDS = st.integers(0, 1 << 32)


@dataclass(frozen=True)
class Written:
    """The streams of the one column that Java wrote, and its positions in each, by row group."""

    streams: dict[int, bytes]
    positions: dict[int, list[tuple[int, ...]]]


def by_java(path: Path, text: str, values: Sequence[Any], **options: object) -> Written:
    conf = {
        "orc.compress": "NONE",
        "orc.row.index.stride": STRIDE,
        "orc.stripe.row.count": 1 << 30,
        **{f"orc.{key.replace('_', '.')}": value for key, value in options.items()},
    }
    type_ = parse(f"struct<a:{text}>")
    java_orc.write(path, type_, [(value,) for value in values], options=conf)
    data = path.read_bytes()
    tail = reference_reader.read_tail(data)
    (span,) = tail.stripes
    footer = reference_reader.read_stripe(data, tail, span)
    with blocking.open(path) as file:
        index = file.row_index(0)[1]
    expected = positions_of(
        Kind(KINDS.index(type_.children[0].kind)),
        EncodingKind(footer.encodings[1][0]),
        has_present=False,
        compressed=False,
    )
    assert (1, reference_reader.PRESENT) not in footer.streams
    return Written(
        {kind: stream for (column, kind), stream in footer.streams.items() if column == 1},
        {
            int(part.kind): [
                tuple(index.entry(group)[part.first : part.first + len(part)].tolist())
                for group in range(len(index))
            ]
            for part in expected
        },
    )


def judge(
    written: Written,
    kind: int,
    encoding: str,
    values: Sequence[int],
    *,
    signed: bool = False,
    aligned: bool = True,
    groups: bool = True,
) -> None:
    parts = [STRIDE] * (len(values) // STRIDE) if groups else ()
    ours = encode(encoding, values, parts, signed=signed, aligned=aligned)
    assert ours.data == written.streams[kind]
    if groups:
        assert ours.entries[: -(-len(values) // STRIDE)] == written.positions[kind]


def textures(seed: int, count: int) -> dict[str, list[int]]:
    """Columns as they are met: ids, times, prices, keys."""
    rng = random.Random(seed)
    ids = list(range(10**9, 10**9 + count))
    times = [1_700_000_000_000 + index * 250 + rng.randrange(250) for index in range(count)]
    return {
        "random": [rng.randint(-(1 << 63), (1 << 63) - 1) for _ in range(count)],
        "random of 20 bits": [rng.getrandbits(20) for _ in range(count)],
        "ids": ids,
        "sorted times": times,
        "times": rng.sample(times, count),
        "prices": [int(rng.lognormvariate(7, 1.5)) for _ in range(count)],
        "outliers": [rng.getrandbits(50 if rng.random() < 0.03 else 7) for _ in range(count)],
        "runs": [value for _ in range(count // 5) for value in [rng.randrange(100)] * rng.randint(1, 9)],
        "flags": [rng.randrange(2) for _ in range(count)],
        "zipf": [min(99, int(rng.paretovariate(1))) for _ in range(count)],
        "mixed": integers(rng, count),
    }


@pytest.mark.parametrize("strategy", ["SPEED", "COMPRESSION"])
@pytest.mark.parametrize("texture", textures(0, 5))
def test_integers_as_they_are_met(tmp_path: Path, texture: str, strategy: str) -> None:
    values = textures(5, 12_500)[texture]
    written = by_java(tmp_path / "a.orc", "bigint", values, encoding_strategy=strategy)
    judge(written, DATA, "rle_v2", values, signed=True, aligned=strategy == "SPEED")


@pytest.mark.parametrize("strategy", ["SPEED", "COMPRESSION"])
@hypothesis.settings(max_examples=share(25))
@hypothesis.given(seed=SEEDS)
def test_any_integers(tmp_path_factory: pytest.TempPathFactory, strategy: str, seed: int) -> None:
    rng = random.Random(seed)
    values = integers(rng, rng.choice((1, 511, 512, 513, 1023, 1025, 12_000)))
    path = tmp_path_factory.mktemp("java") / "a.orc"
    written = by_java(path, "bigint", values, encoding_strategy=strategy)
    judge(written, DATA, "rle_v2", values, signed=True, aligned=strategy == "SPEED")


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(seed=SEEDS)
def test_integers_of_version_1(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    values = integers(rng, rng.choice((1, 127, 130, 131, 12_000)))
    path = tmp_path_factory.mktemp("java") / "a.orc"
    written = by_java(path, "bigint", values, write_format="0.11")
    judge(written, DATA, "rle_v1", values, signed=True)


@pytest.mark.parametrize("write_format", ["0.11", "0.12"])
@pytest.mark.parametrize("distinct", [1, 30, 2000])
@pytest.mark.parametrize("strategy", ["SPEED", "COMPRESSION"])
def test_unsigned_integers(tmp_path: Path, write_format: str, distinct: int, strategy: str) -> None:
    """Lengths of strings, and the indexes into a dictionary with its own lengths."""
    rng = random.Random(distinct)
    words = [f"{number:x}" * rng.choice((1, 1, 1, 1, 9, 200)) for number in range(distinct)]
    values = sorted(rng.choices(words, k=3000)) + rng.choices(words, k=3000)
    version = {"0.11": "rle_v1", "0.12": "rle_v2"}[write_format]
    how = {"signed": False, "aligned": strategy == "SPEED"}
    options = {"write_format": write_format, "encoding_strategy": strategy}
    plain = by_java(tmp_path / "a.orc", "binary", [word.encode() for word in values], **options)
    judge(plain, LENGTH, version, [len(word) for word in values], **how)
    keyed = by_java(
        tmp_path / "b.orc", "string", values, dictionary_key_threshold=1.0, stripe_size=1 << 30, **options
    )
    entries = sorted(set(values))
    places = {word: place for place, word in enumerate(entries)}
    # Java knows the places of sorted words only at the end of a stripe, and writes them then.
    judge(keyed, DATA, version, [places[word] for word in values], **how)
    judge(keyed, LENGTH, version, [len(word) for word in entries], groups=False, **how)


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(seed=SEEDS, share=st.sampled_from((0.0, 0.001, 0.1, 0.5, 1.0)))
def test_booleans_and_bytes(tmp_path_factory: pytest.TempPathFactory, seed: int, share: float) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("java")
    bits = [rng.random() < share for _ in range(9999)]
    judge(by_java(folder / "a.orc", "boolean", bits), DATA, "boolean", [int(bit) for bit in bits])
    small = integers(rng, 9999, least=-128, most=127)
    judge(by_java(folder / "b.orc", "tinyint", small), DATA, "byte", [value & 0xFF for value in small])


def test_decimals(tmp_path: Path) -> None:
    rng = random.Random(38)
    most = 10**38 - 1
    edges = (0, 1, -1, 63, 64, -64, -65, 1 << 62, 1 << 63, 1 << 64, -(1 << 63), -(1 << 64), most, -most)
    values = [rng.choice((*edges, rng.randrange(10 ** rng.randint(1, 38)))) for _ in range(4000)]
    written = by_java(tmp_path / "a.orc", "decimal(38,0)", [Decimal(value) for value in values])
    judge(written, DATA, "varint128", values)
    judge(written, SECONDARY, "rle_v2", [0] * len(values), signed=True)


def test_floating_point(tmp_path: Path) -> None:
    rng = random.Random(8)
    values = [rng.gauss(0, 1e6) for _ in range(3000)]
    written = by_java(tmp_path / "a.orc", "double", values)
    bits = struct.unpack("<3000Q", struct.pack("<3000d", *values))
    judge(written, DATA, "raw8", bits)
