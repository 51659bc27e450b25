"""Memory while files are merged: it follows what is under way, not how much there is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc

from orcstream.writer.merge import IN_FLIGHT_BYTES
from tests.support.effort import ALL

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
# What the target holds, whose parts are copies.
TARGET_BYTES = 64 * MIB
BESIDES = 48 * MIB
# The same file so many times, of 64 MiB.
TIMES = 10 if ALL else 6


def test_large_files(tmp_path: Path) -> None:
    path, tiny = tmp_path / "large.orc", tmp_path / "tiny.orc"
    numbers = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, 8 * MIB)
    orc.write_table(pa.table({"n": numbers}), path, compression="uncompressed", stripe_size=1 << 30)
    orc.write_table(pa.table({"n": numbers[:10]}), tiny, compression="uncompressed")
    command = [
        sys.executable,
        "-m",
        "tests.memory.merge_child",
        str(tmp_path / "all.orc"),
        str(path),
        str(TIMES),
    ]
    run = subprocess.run([*command, str(tiny)], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found = json.loads(run.stdout)
    print(found)  # noqa: T201  # figures for a report of a failure
    assert found["rows"] == TIMES * 8 * MIB
    assert found["bytes"] > TIMES * 64 * MIB
    assert found["peak"] <= IN_FLIGHT_BYTES + TARGET_BYTES + BESIDES
