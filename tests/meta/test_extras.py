"""Who uses an optional part that is missing is told which extra brings it, for each extra there is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.check_wheel import TESTS
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


@pytest.mark.parametrize("folder", TESTS)
def test_the_wheel_is_tested_without_spark(folder: str) -> None:
    """A module that imports it could not even be collected there."""
    modules = list((ROOT / "tests" / folder).glob("*.py"))
    assert modules
    assert [module.name for module in modules if "spark" in _imports(module)] == []


def _imports(module: Path) -> str:
    nodes = ast.parse(module.read_text()).body
    return " ".join(ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
