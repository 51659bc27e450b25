"""The project's own files, for tests that look at them: which there are, and what modules import.

Answers are computed from the files alone; nothing here imports the package.
"""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orcstream"

# What tools leave behind, and what a virtual environment holds.
_GENERATED_FOLDERS = {"build", "dist", "__pycache__", "data"}
_SOURCE_SUFFIXES = {".py", ".pyi", ".pyx", ".pxd"}

_CYTHON_FROM = re.compile(r"^\s*from\s+([\w.]+)\s+c?import\s+(.*)")
_CYTHON_IMPORT = re.compile(r"^\s*c?import\s+([\w.]+(?:\s*,\s*[\w.]+)*)")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, as deep as it can be told: `module` is dotted, `line` 1-based."""

    module: str
    line: int


@functools.cache
def project_files(root: Path = ROOT) -> tuple[Path, ...]:
    """Every file of the project that a person wrote, in order of their paths."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = filter(_is_written, folders)
        # In a git worktree, .git is a file with a path of this machine.
        paths = (Path(folder, name) for name in names if name != ".git")
        found += [path for path in paths if path.is_file() and path.suffix not in (".so", ".c", ".pyc")]
    return tuple(sorted(found))


def _is_written(folder: str) -> bool:
    """By persons."""
    hidden = folder.startswith(".") and folder != ".ci"
    return not (hidden or folder in _GENERATED_FOLDERS or folder.endswith(".egg-info"))


def source_files(*folders: str) -> list[Path]:
    """Python and Cython sources under these folders of the project, without what protoc generated."""
    return [
        path
        for path in project_files()
        if path.suffix in _SOURCE_SUFFIXES
        and path.relative_to(ROOT).parts[0] in folders
        and "_proto" not in path.parts
    ]


def module_name(path: Path) -> str:
    """The dotted name of a source of the project."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports_of(source: str, suffix: str, modules: frozenset[str] = frozenset()) -> tuple[Import, ...]:
    """Every import in a source text, wherever in it; `modules` are the project's, to tell them from names.

    Relative imports come as they are written, dots first.
    """
    if suffix in (".pyx", ".pxd"):
        return tuple(_cython_imports(source))
    return tuple(_python_imports(ast.parse(source), modules))


def _python_imports(tree: ast.Module, modules: frozenset[str]) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for name in node.names:
                deeper = f"{base}.{name.name}"
                yield Import(deeper if deeper in modules else base, node.lineno)


def _cython_imports(source: str) -> Iterator[Import]:
    for number, line in enumerate(source.splitlines(), 1):
        if found := _CYTHON_FROM.match(line):
            yield Import(found[1], number)
        elif found := _CYTHON_IMPORT.match(line):
            for name in found[1].split(","):
                yield Import(name.strip(), number)
