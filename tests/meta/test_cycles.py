"""No modules of the package import each other in a circle.

Imports inside functions and under TYPE_CHECKING count: they only hide that two modules cannot be understood,
tested or moved one without the other. That Python runs a package's `__init__` before its modules does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.meta.tree import PACKAGE, imports_of, module_name, source_files

# Circles that are meant, each with the reason.
MEANT: dict[frozenset[str], str] = {}

Graph = Mapping[str, set[str]]


def _graph(sources: Mapping[Path, str]) -> Graph:
    """Which modules of the package each of its modules imports, by the texts of all of them."""
    modules = frozenset(map(module_name, sources))
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for path, text in sources.items():
        name = module_name(path)
        for found in imports_of(text, path.suffix, modules):
            graph[name].add(found.module)
        graph[name] = graph[name] & modules - {name}
    return graph


def _circles(graph: Graph) -> list[frozenset[str]]:
    """The groups of modules that each lead to all others of the group (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            at = path.index(module)
            if len(path) - at > 1:
                found.append(frozenset(path[at:]))
            del path[at:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def _shown(graph: Graph, circles: list[frozenset[str]]) -> Iterator[str]:
    for circle in circles:
        for module in sorted(circle):
            yield f"{module} imports {', '.join(sorted(graph[module] & circle))}"


def _package() -> dict[Path, str]:
    paths = source_files("orcstream") + sorted((PACKAGE / "_proto").glob("*.py"))
    return {path: path.read_text() for path in paths}


def test_no_modules_import_each_other() -> None:
    graph = _graph(_package())
    assert len(graph) > 300
    circles = _circles(graph)
    assert list(_shown(graph, [one for one in circles if one not in MEANT])) == []
    assert set(MEANT) <= set(circles), "circles that are no more"


@pytest.mark.parametrize(
    "text",
    [
        "from orcstream.acid.table import AcidTable",
        "from orcstream.acid import table",
        "import orcstream.acid.table",
        "def f():\n    from orcstream.acid.table import AcidTable",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from orcstream.acid.table import AcidTable",
    ],
)
def test_a_circle_is_noticed(text: str) -> None:
    """One that is made up: what lies under a table imports the table."""
    sources = _package()
    sources[PACKAGE / "acid/read/event_file.py"] += f"\n{text}\n"
    (circle,) = _circles(_graph(sources))
    assert {"orcstream.acid.table", "orcstream.acid.view", "orcstream.acid.read.event_file"} <= circle


def test_a_circle_through_a_kernel_is_noticed() -> None:
    sources = {
        PACKAGE / "a.py": "from orcstream.b import x",
        PACKAGE / "b.pyx": "from orcstream.c cimport y",
        PACKAGE / "c.pxd": "",
        PACKAGE / "c.pyx": "from orcstream.a import z",
        PACKAGE / "d.py": "import orcstream.a",
    }
    names = {"orcstream.a", "orcstream.b", "orcstream.c"}
    assert _circles(_graph(sources)) == [frozenset(names)]
