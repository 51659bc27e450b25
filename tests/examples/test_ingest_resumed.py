"""The example of an ingest that goes on after kills: each record once, in order."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow.orc
import pytest

from tests.meta.tree import ROOT
from tests.support.effort import share

RECORDS = 60_000


def start(folder: Path) -> subprocess.Popen[str]:
    program = [
        sys.executable,
        str(ROOT / "examples/ingest_resumed.py"),
        str(folder),
        "--records",
        str(RECORDS),
    ]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


def numbers_in(folder: Path) -> list[int]:
    """The records of all files, in the order of their names."""
    found: list[int] = []
    for path in sorted(folder.glob("*.orc")):
        found += pyarrow.orc.ORCFile(path).read()["number"].to_pylist()
    return found


@pytest.mark.timeout(600)
def test_each_record_is_there_once(tmp_path: Path) -> None:
    """Killed again and again, at any time after it began to write."""
    folder = tmp_path / "events"
    chance = random.Random(7)
    interrupted = 0
    for _ in range(share(100, 6)):
        with start(folder) as program:
            assert program.stdout is not None
            program.stdout.readline()
            try:
                program.wait(chance.uniform(0.01, 0.15))
            except subprocess.TimeoutExpired:
                program.kill()
                interrupted += 1
        found = numbers_in(folder)
        assert found == list(range(len(found)))
    assert interrupted >= 3
    with start(folder) as program:
        assert program.wait(120) == 0
    assert numbers_in(folder) == list(range(RECORDS))
