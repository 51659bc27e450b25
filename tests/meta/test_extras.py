"""Who uses an optional part that is missing is told which extra brings it, for each extra there is."""

from __future__ import annotations

import subprocess
import sys

from scripts.try_extras import extras
from tests.meta.tree import ROOT


def test_each_part_that_is_missing_names_its_extra() -> None:
    child = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "try_extras.py"), "--pretend"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert len(child.stdout.splitlines()) == len(extras()) > 5
