"""Memory with encrypted columns: reading, writing and merging under new keys stay as bounded as without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orcstream.writer.merge import IN_FLIGHT_BYTES
from tests.memory.encrypted_child import ROWS
from tests.memory.test_merge import BESIDES as MERGE_BESIDES
from tests.memory.test_merge import TARGET_BYTES
from tests.memory.test_windows import BESIDES, LIMIT, MB, peak_of
from tests.support.effort import ALL, some

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
LEAST = 16 * MIB
# So many times the limit is a file whose memory would show if it grew with the file.
MANY = 40 if ALL else 25
# A block of rows decodes to 5.5 MB.
BLOCK_BYTES = 5_500_000


def run(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.memory.encrypted_child", *map(str, arguments)]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    )
    print(arguments, found)  # noqa: T201  # figures for a report of a failure
    return found


def written(path: Path, blocks: int, **options: Any) -> dict[str, Any]:
    return run("write", path, blocks, json.dumps(options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encrypted")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Path:
    written(folder / "tiny.orc", 1)
    return folder / "tiny.orc"


@pytest.fixture(scope="module")
def large(folder: Path) -> dict[int, Path]:
    """Many times the limit, in stripes of some 30 MB and more, which is far above it, too."""
    paths = {times: folder / f"{times}.orc" for times in (10, MANY)}
    for times, path in paths.items():
        written(path, times * LIMIT // BLOCK_BYTES + 1)
    return paths


def test_reading_does_not_grow_with_the_file(large: dict[int, Path], tiny: Path) -> None:
    peaks = {times: peak_of(path, tiny) for times, path in large.items()}
    for times, found in peaks.items():
        assert found["rows"] == (times * LIMIT // BLOCK_BYTES + 1) * ROWS
        assert found["peak"] <= LIMIT + BESIDES
    assert abs(peaks[10]["peak"] - peaks[MANY]["peak"]) < 20 * MB


def test_reading_at_a_common_limit(large: dict[int, Path], tiny: Path) -> None:
    assert peak_of(large[MANY], tiny, 64 * MB)["peak"] <= 64 * MB + BESIDES


@pytest.mark.parametrize("limit", some([LEAST, 64 * MIB, 256 * MIB]))
def test_writing(folder: Path, limit: int) -> None:
    """Of what is written, more than the limit."""
    blocks = 30 if limit == LEAST else 70
    found = written(folder / "new.orc", blocks, memory_limit=limit)
    assert found["peak"] <= limit + BESIDES
    assert found["bytes"] > blocks * 1_500_000


def test_merging_under_new_keys(folder: Path, large: dict[int, Path], tiny: Path) -> None:
    found = run("merge", folder / "all.orc", large[MANY], 8, tiny)
    assert found["bytes"] > 600 * MIB // 2
    assert found["rows"] == 8 * (MANY * LIMIT // BLOCK_BYTES + 1) * ROWS
    assert found["peak"] <= IN_FLIGHT_BYTES + TARGET_BYTES + MERGE_BESIDES
