"""`import orcstream` is cheap: numpy's own import plus at most 60 ms, and nothing that only a store needs.

CPU time of fresh interpreters is compared, not wall time: another process on the machine must not decide.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 0.060
ROUNDS = 7
ATTEMPTS = 3
# Each costs tens of milliseconds or more, and a local file needs none of them.
ON_FIRST_USE = ("aiobotocore", "aiohttp", "botocore", "cryptography", "fsspec", "s3fs")
NEVER = ("duckdb", "pandas", "polars", "pyarrow", "pytest")


def _cpu_seconds(statement: str) -> float:
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def _difference() -> float:
    pairs = [(_cpu_seconds("import numpy"), _cpu_seconds("import orcstream")) for _ in range(ROUNDS)]
    return statistics.median(ours for _, ours in pairs) - statistics.median(numpy for numpy, _ in pairs)


def test_import_costs_little_more_than_numpy() -> None:
    _cpu_seconds("import orcstream")  # writes the byte code
    # Only a machine that is busy every time fails for another reason than ours.
    measured: list[float] = []
    while len(measured) < ATTEMPTS:
        measured.append(_difference())
        if measured[-1] <= LIMIT_S:
            return
    pytest.fail(f"import orcstream costs numpy's import plus {min(measured):.3f} s")


def _loaded(statement: str) -> set[str]:
    code = f"import sys, orcstream; {statement}; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {".".join(module.split(".")[:2]) for module in run.stdout.split()}


def test_import_leaves_the_heavy_libraries_alone() -> None:
    loaded = _loaded("pass")
    assert "orcstream" in loaded
    assert not loaded & {*ON_FIRST_USE, *NEVER}


def test_local_files_leave_the_heavy_libraries_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "t.orc")
    loaded = _loaded(f"orcstream.blocking.write({path!r}, [(1,)], 'struct<a:int>')")
    assert "orcstream.writer" in loaded
    assert not loaded & {*ON_FIRST_USE, *NEVER}
    loaded = _loaded(f"orcstream.blocking.read({path!r}).to_pylist()")
    assert "orcstream.reader" in loaded
    assert not loaded & {"orcstream.writer", *ON_FIRST_USE, *NEVER}


def test_the_command_line_says_what_it_takes_without_what_carries_it_out() -> None:
    loaded = _loaded("import orcstream.cli; orcstream.cli.make_parser().format_help()")
    assert "orcstream.cli_acid" in loaded
    working = {
        f"orcstream.{name}" for name in ("acid", "codec", "datasets", "inspect", "reader", "writer", "spark")
    }
    assert not loaded & {"numpy", *working, *ON_FIRST_USE, *NEVER}
