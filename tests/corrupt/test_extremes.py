"""Metadata at their extremes: the invariant holds, within seconds and some hundred megabytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.generators import seeds
from tests.generators.extremes import extreme, message_of, parts_of
from tests.support import hostile
from tests.support.effort import share

MOST_BYTES = 300 << 20


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    return [data for data in seeds.write_all(tmp_path_factory.mktemp("seeds")).values() if data]


@pytest.mark.parametrize("part", range(8))
def test_extremes(sound: list[bytes], tmp_path: Path, part: int) -> None:
    path = tmp_path / "extreme.orc"
    hostile.run(path_of(path, sound[0]))
    before = hostile.peak_bytes()
    for number in range(share(100, 12)):
        rng = random.Random(part << 20 | number)
        hostile.run(path_of(path, extreme(rng.choice(sound), rng)))
    assert hostile.peak_bytes() - before < MOST_BYTES


def path_of(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_messages_come_back(sound: list[bytes]) -> None:
    """What is not changed stays as it was."""
    for data in sound:
        ending = data[-1 - data[-1] : -1]
        assert message_of(parts_of(ending)) == ending
