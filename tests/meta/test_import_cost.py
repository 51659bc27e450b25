"""`import orcstream` is cheap: numpy's own import plus at most 60 ms, and nothing that only a store needs.

CPU time of fresh interpreters is compared, not wall time: another process on the machine must not decide.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

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


def test_import_leaves_the_heavy_libraries_alone() -> None:
    code = "import sys, orcstream; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {module.split(".")[0] for module in run.stdout.split()}
    assert "orcstream" in loaded
    assert not loaded & {*ON_FIRST_USE, *NEVER}
