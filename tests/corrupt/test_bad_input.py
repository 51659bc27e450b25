"""Real files, damaged: cut off anywhere, bytes changed anywhere. Only the errors of the invariant come out.

Damage is seeded, so a failure names the file, the kind of damage and the seed that repeat it. What comes
through undetected (ORC has no checksums) must still be rows.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.generators import seeds
from tests.support import hostile
from tests.support.effort import share

FLIPS = share(250)
GROWTH_BYTES = 600 << 20


@pytest.fixture(scope="module")
def seed_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return seeds.write_all(tmp_path_factory.mktemp("seeds"))


@pytest.fixture(scope="module", autouse=True)
def memory_stays_bounded(seed_files: dict[str, bytes]) -> object:
    before = hostile.peak_bytes()
    yield None
    grown = hostile.peak_bytes() - before
    assert grown < GROWTH_BYTES, f"the process grew by {grown >> 20} MiB"


NAMES = [
    *(f"pyarrow-{kind}" for kind in ("uncompressed", "zlib", "snappy", "lz4", "zstd")),
    "pyorc-nested",
    "built-unions",
    "built-version-1",
]


def damaged_and_run(path: Path, data: bytes, what: str) -> int:
    path.write_bytes(data)
    try:
        return hostile.run(path)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


def check(path: Path, name: str, data: bytes) -> None:
    assert damaged_and_run(path, data, f"{name} as it is") >= 0
    for cut in hostile.truncations(data):
        # No bytes are an empty table; no other cut may pass for a file.
        assert damaged_and_run(path, cut, f"{name} cut to {len(cut)} bytes") <= 0
    for seed in range(FLIPS):
        harmed = hostile.mutate(data, random.Random(f"{name} {seed}"))
        damaged_and_run(path, harmed, f"{name} with damage of seed {seed}")


@pytest.mark.parametrize("name", NAMES)
def test_generated(seed_files: dict[str, bytes], tmp_path: Path, name: str) -> None:
    check(tmp_path / "bad.orc", name, seed_files[name])


@pytest.mark.parametrize("name", seeds.CORPUS_SEEDS)
def test_corpus(corpus_folder: Path, tmp_path: Path, name: str) -> None:
    check(tmp_path / "bad.orc", name, (corpus_folder / name).read_bytes())
