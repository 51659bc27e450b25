"""Cleanup that must run to its end goes through `io.uncancelled`: asyncio ignores the shields of anyio."""

from __future__ import annotations

import ast

from tests.meta.tree import PACKAGE, source_files

# The command line is cancelled by Ctrl-C only, which ends the process.
ALLOWED = {"io/uncancelled.py", "cli_keys.py"}


def shields_in(text: str) -> list[int]:
    """The lines of calls with `shield=True`."""
    return [
        node.value.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.keyword) and node.arg == "shield"
    ]


def test_the_rule_notices() -> None:
    assert shields_in("with anyio.CancelScope(shield=True):\n    pass") == [1]


def test_shields_stand_in_one_place() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in source_files("orcstream")
        if path.suffix == ".py" and shields_in(path.read_text())
    }
    assert found == ALLOWED
