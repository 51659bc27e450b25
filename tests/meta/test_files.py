"""What holds for every file: a length that a person can hold in mind, and a head that says what it is."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.meta.tree import ROOT, source_files

LONGEST = 650
LONGEST_OF_THE_PACKAGE = 500
FOLDERS = ("orcstream", "tests", "bench", "examples", "scripts", "proto")
SOURCES = source_files(*FOLDERS)


def _label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_all_folders_are_looked_at() -> None:
    # A folder that is left out of an sdist is absent there; the package and the tests never are.
    assert {"orcstream", "tests"} <= {path.relative_to(ROOT).parts[0] for path in SOURCES}


def test_files_are_short() -> None:
    assert [_label(path) for path in SOURCES if len(path.read_text().splitlines()) > _most_lines(path)] == []


def test_files_say_what_they_are() -> None:
    assert [_label(path) for path in SOURCES if not _says_what_it_is(path)] == []


def test_contributors_are_told_what_each_folder_of_tests_holds() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.relative_to(ROOT).parts[1] for path in SOURCES if path.parts[len(ROOT.parts)] == "tests"}
    missing = [
        name for name in folders if (ROOT / "tests" / name).is_dir() and f"| `tests/{name}` |" not in text
    ]
    assert not missing


def _most_lines(path: Path) -> int:
    return LONGEST_OF_THE_PACKAGE if path.is_relative_to(ROOT / "orcstream") else LONGEST


def _says_what_it_is(path: Path) -> bool:
    text = path.read_text()
    if path.suffix == ".pyx":
        # Compiler directives and comments may stand before it.
        code = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        return code[0].startswith(('"""', 'r"""'))
    return path.suffix != ".py" or not text.strip() or bool(ast.get_docstring(ast.parse(text)))
