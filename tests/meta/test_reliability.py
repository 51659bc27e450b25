"""Tests that `docs/reliability.md` names as evidence are there."""

from __future__ import annotations

import ast
import re

from tests.meta.tree import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)?::(test_\w+)`")


def test_named_tests_exist() -> None:
    found = 0
    for line in (ROOT / "docs" / "reliability.md").read_text().splitlines():
        path = ""
        for named, test in NAMED.findall(line):
            path = named or path
            tree = ast.parse((ROOT / path).read_text())
            functions = {
                node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert test in functions, f"{path}::{test}"
            found += 1
    assert found > 30


def test_each_fault_has_a_test() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    rows = text.partition("| fault |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) > 20
    assert [row for row in rows if not NAMED.search(row)] == []
