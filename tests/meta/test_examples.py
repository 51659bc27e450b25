"""The examples that need no server run, and show what they say."""

from __future__ import annotations

import subprocess
import sys

from tests.meta.tree import ROOT


def test_selecting() -> None:
    path = ROOT / "examples" / "selecting.py"
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert "by row group statistics" in run.stdout
    assert "3 match: " in run.stdout
    assert "by bloom filters" in run.stdout
    assert "[{'id': 200000, 'row_number': 200000}, " in run.stdout
    assert "{'value': Decimal('23.4'), 'id': '0', 'unit': None}" in run.stdout
