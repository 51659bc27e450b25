"""An event of anyio's happens once; what changes again and again has an `io.loop.tasks.Signal`."""

from __future__ import annotations

import ast
from collections import Counter

from tests.meta.tree import PACKAGE, source_files


def renewed_in(text: str) -> list[str]:
    """The attributes that are given a new event in more than one place of a class."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            counts = Counter(
                ast.unparse(target)
                for one in ast.walk(node)
                if isinstance(one, ast.Assign) and _makes_event(one.value)
                for target in one.targets
                if isinstance(target, ast.Attribute)
            )
            found += [name for name, count in counts.items() if count > 1]
    return found


def _makes_event(value: ast.expr) -> bool:
    return any(
        isinstance(one, ast.Call) and ast.unparse(one.func) in ("anyio.Event", "asyncio.Event")
        for one in ast.walk(value)
    )


def test_the_rule_notices() -> None:
    once = "class A:\n def __init__(self):\n  self.x = anyio.Event()\n"
    assert renewed_in(once) == []
    assert renewed_in(once + " def f(self):\n  self.x.set()\n  self.x = anyio.Event()\n") == ["self.x"]


def test_events_happen_once() -> None:
    renewed = {
        str(path.relative_to(PACKAGE)): found
        for path in source_files("orcstream")
        if path.suffix == ".py" and (found := renewed_in(path.read_text()))
    }
    # A signal renews its own, which is how it works, but in one place.
    assert renewed == {}
