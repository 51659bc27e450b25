"""The layers of docs/design.md: who may import whom, and what the pure ones must not touch.

The table below is the whole truth: an import that it does not list fails, and so does an entry that no
import uses any more, so it can't rot. Rules about the outside world are each tried on a text that breaks
them before they are trusted with the package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.tree import PACKAGE, ROOT, imports_of, module_name, source_files

# From the bottom up. Imports go to layers further down only; units of one layer never import each other.
LAYERS = (
    ("_credentials", "_keywords", "_printable"),
    ("errors", "_buffer", "_cipher", "encryption", "pending"),
    ("byterange",),
    ("schema", "column_statistics", "_proto"),
    ("predicate", "figures"),
    ("expr", "codec"),
    ("plan", "io"),
    ("batch", "tails", "unlocking", "zones"),
    ("reader", "writer"),
    ("acid", "datasets"),
    ("blocking",),
    ("orcstream",),
    ("spark", "testing", "inspect", "integrations"),
    ("cli",),
    ("__main__",),
)

# What each unit uses of the others. `orcstream` is the package's __init__: its public names.
MAY_IMPORT: dict[str, set[str]] = {
    "_credentials": set(),
    "_printable": set(),
    "errors": {"_credentials", "_printable"},
    "_buffer": set(),
    "_cipher": set(),
    "encryption": set(),
    "pending": set(),
    "_keywords": set(),
    "byterange": {"errors"},
    "schema": {"_printable", "errors"},
    "column_statistics": set(),
    "_proto": set(),
    "predicate": {"schema"},
    "figures": {"column_statistics"},
    "expr": {"errors", "schema", "predicate"},
    "codec": {
        "errors",
        "_buffer",
        "_cipher",
        "encryption",
        "byterange",
        "schema",
        "predicate",
        "column_statistics",
        "_proto",
    },
    "plan": {
        "_printable",
        "errors",
        "encryption",
        "byterange",
        "schema",
        "codec",
        "column_statistics",
        "predicate",
    },
    "io": {"_credentials", "_printable", "errors", "_buffer", "_cipher", "encryption", "byterange"},
    "batch": {"errors", "schema", "codec"},
    "tails": {"byterange", "plan", "io"},
    "unlocking": {"encryption", "errors", "byterange", "schema", "codec", "plan", "io"},
    "zones": {"errors", "codec"},
    "reader": {
        "_keywords",
        "_credentials",
        "_printable",
        "pending",
        "_buffer",
        "unlocking",
        "errors",
        "byterange",
        "schema",
        "column_statistics",
        "codec",
        "plan",
        "io",
        "batch",
        "expr",
        "predicate",
        "tails",
        "zones",
    },
    "writer": {
        "_keywords",
        "_credentials",
        "pending",
        "encryption",
        "unlocking",
        "errors",
        "byterange",
        "schema",
        "codec",
        "plan",
        "io",
        "tails",
        "zones",
    },
    "acid": {
        "_keywords",
        "_credentials",
        "_printable",
        "pending",
        "errors",
        "schema",
        "codec",
        "plan",
        "io",
        "batch",
        "expr",
        "reader",
        "writer",
    },
    "datasets": {
        "_keywords",
        "_credentials",
        "pending",
        "errors",
        "schema",
        "codec",
        "plan",
        "io",
        "batch",
        "expr",
        "reader",
    },
    "blocking": {
        "_keywords",
        "datasets",
        "errors",
        "unlocking",
        "schema",
        "codec",
        "plan",
        "io",
        "batch",
        "reader",
        "writer",
    },
    "orcstream": {
        "acid",
        "datasets",
        "expr",
        "errors",
        "encryption",
        "unlocking",
        "schema",
        "plan",
        "io",
        "batch",
        "reader",
        "writer",
        "blocking",
    },
    "cli": {"_credentials", "_printable", "acid", "figures", "inspect", "schema", "io", "spark", "orcstream"},
    # It shows what files consist of, and so knows the values that say it.
    "inspect": {
        "_keywords",
        "_printable",
        "blocking",
        "byterange",
        "codec",
        "figures",
        "io",
        "orcstream",
        "plan",
        "reader",
        "schema",
    },
    "testing": {"errors", "byterange", "io"},
    # They take keywords that are declared where they are used.
    "integrations": {"_keywords", "datasets", "errors", "expr", "orcstream", "reader", "schema"},
    "spark": {
        "_credentials",
        "_printable",
        "acid",
        "errors",
        "expr",
        "reader",
        "schema",
        "column_statistics",
        "plan",
        "io",
        "blocking",
        "orcstream",
    },
    "__main__": {"cli"},
}

# Modules that are part of a unit without being named like it.
PART_OF = {
    "batch_values": "batch",
    "blocking_facade": "blocking",
    "blocking_loop": "blocking",
    "blocking_tables": "blocking",
    "blocking_writing": "blocking",
    "cli_acid": "cli",
    "cli_arguments": "cli",
    "cli_arrow": "cli",
    "cli_cat": "cli",
    "cli_completion": "cli",
    "cli_convert": "cli",
    "cli_discretion": "cli",
    "cli_file": "cli",
    "cli_input": "cli",
    "cli_inspect": "cli",
    "cli_job": "cli",
    "cli_keys": "cli",
    "cli_output": "cli",
    "cli_parser": "cli",
    "cli_progress": "cli",
    "cli_verify": "cli",
    "cli_rows": "cli",
    "cli_text": "cli",
    "cli_values": "cli",
    "expr_binding": "expr",
    "expr_text": "expr",
    "schema_text": "schema",
    "schema_types": "schema",
}

# Modules that only these may import: what reads messages, and what writes them.
ONLY_FOR = {
    "orcstream._proto": {
        f"orcstream.codec.{name}" for name in ("metadata", "metadata_indexes", "metadata_out")
    }
}

# Pure layers: no waiting, no threads, no clock, no randomness, no files, no network.
PURE = (
    *("_buffer", "_credentials", "byterange", "codec", "column_statistics", "errors", "expr", "plan"),
    *("predicate", "schema"),
)
IMPURE_MODULES = (
    "aiohttp",
    "anyio",
    "asyncio",
    "concurrent",
    "fsspec",
    "io",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "s3fs",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "zoneinfo",
)
IMPURE_SYNTAX = (
    "async def f(): pass",
    "async def f(x):\n    await x",
    "async def f(x):\n    async for _ in x: pass",
    "async def f(x):\n    async with x: pass",
    "open('name')",
    "import datetime\ndatetime.datetime.now()",
    "import datetime\ndatetime.date.today()",
)
# The package never needs pyarrow: Arrow goes out through the PyCapsule protocol. One command uses it if it is
# there, and Spark and other libraries take nothing else.
NEVER_MODULES = ("pyarrow",)
USE_IT_WHERE_IT_IS = {"orcstream.cli_arrow"}
MAY_NEED_IT = ("orcstream.spark.", "orcstream.integrations.")


def _unit(module: str) -> str:
    parts = module.split(".")
    if len(parts) == 1:
        return "orcstream"
    return PART_OF.get(parts[1], parts[1])


SOURCES = source_files("orcstream") + sorted((PACKAGE / "_proto").glob("*.py"))
MODULES = frozenset(module_name(path) for path in SOURCES)


def _internal(path: Path) -> Iterator[tuple[str, int]]:
    for found in imports_of(path.read_text(), path.suffix, MODULES):
        if found.module.split(".")[0] == "orcstream":
            yield found.module, found.line


def _impurities(source: str, suffix: str) -> list[str]:
    """What a pure layer may not have, in words."""
    named = {found.module.split(".")[0] for found in imports_of(source, suffix)}
    troubles = [f"imports {name}" for name in sorted(named & set(IMPURE_MODULES))]
    if suffix in (".pyx", ".pxd"):
        return troubles
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            troubles.append(f"line {node.lineno} is asynchronous")
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if isinstance(node.func, ast.Name) and node.func.id == "open":
                troubles.append(f"line {node.lineno} opens a file")
            elif called in ("now", "today", "utcnow"):
                troubles.append(f"line {node.lineno} asks the clock")
    return troubles


def _async_generators(source: str) -> list[int]:
    """Lines of `yield` in asynchronous functions: a task group may not be left through one."""
    lines = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.AsyncFunctionDef):
            lines += [n.lineno for n in ast.walk(function) if isinstance(n, ast.Yield | ast.YieldFrom)]
    return lines


def test_the_table_is_in_order() -> None:
    rank = {unit: index for index, layer in enumerate(LAYERS) for unit in layer}
    assert set(rank) == set(MAY_IMPORT)
    upward = [(u, v) for u, below in MAY_IMPORT.items() for v in below if rank[v] >= rank[u]]
    assert not upward


def test_every_module_belongs_to_a_unit() -> None:
    units = {_unit(module) for module in MODULES}
    assert units - set(MAY_IMPORT) == set(), "a new unit needs a place in LAYERS and MAY_IMPORT"
    assert set(MAY_IMPORT) - units == set(), "units that are no more"
    assert set(PART_OF) <= {module.split(".")[1] for module in MODULES if "." in module}


def test_imports_follow_the_table() -> None:
    assert [wrong for path in SOURCES for wrong in _wrong_imports(path)] == []


def _wrong_imports(path: Path) -> Iterator[str]:
    """What the table does not allow, and what is relative."""
    unit = _unit(module_name(path))
    allowed = MAY_IMPORT[unit] | ({unit} if unit != "orcstream" else set())
    for module, line in _internal(path):
        if _unit(module) not in allowed:
            yield f"{path.relative_to(ROOT)}:{line}: {module}, but {unit} may import {sorted(allowed)}"
    for found in imports_of(path.read_text(), path.suffix):
        if found.module[0] == ".":
            yield f"{path.relative_to(ROOT)}:{found.line}: {found.module} is relative"


def test_every_entry_of_the_table_is_used() -> None:
    used = {(_unit(module_name(path)), _unit(module)) for path in SOURCES for module, _ in _internal(path)}
    stale = [(u, v) for u, below in MAY_IMPORT.items() for v in sorted(below) if (u, v) not in used]
    assert not stale


@pytest.mark.parametrize("package", sorted(ONLY_FOR))
def test_private_modules_have_no_other_user(package: str) -> None:
    users = {
        module_name(path)
        for path in SOURCES
        for module, _ in _internal(path)
        if (module + ".").startswith(package + ".") and not module_name(path).startswith(package)
    }
    assert users == ONLY_FOR[package]


@pytest.mark.parametrize("unit", PURE)
def test_pure_layers_are_pure(unit: str) -> None:
    paths = [path for path in SOURCES if _unit(module_name(path)) == unit]
    assert paths
    troubles = {module_name(p): found for p in paths if (found := _impurities(p.read_text(), p.suffix))}
    assert not troubles


@pytest.mark.parametrize("name", IMPURE_MODULES)
def test_impure_imports_are_noticed(name: str) -> None:
    for text in (f"import {name}", f"from {name} import x", f"def f():\n    import {name}.y"):
        assert _impurities(text, ".py")
        assert _impurities(text, ".pyx")
    assert _impurities(f"cimport {name}", ".pyx")
    assert _impurities(f"from {name} cimport x", ".pxd")


@pytest.mark.parametrize("text", IMPURE_SYNTAX)
def test_impure_syntax_is_noticed(text: str) -> None:
    assert _impurities(text, ".py")


def test_nothing_needs_pyarrow() -> None:
    users = {
        module_name(path)
        for path in SOURCES
        for found in imports_of(path.read_text(), path.suffix)
        if found.module.split(".")[0] in NEVER_MODULES
    }
    assert {user for user in users if not user.startswith(MAY_NEED_IT)} == USE_IT_WHERE_IT_IS


def test_reader_has_no_async_generator() -> None:
    assert _async_generators("async def f():\n    yield 1") == [2]
    paths = [path for path in SOURCES if _unit(module_name(path)) == "reader" and path.suffix == ".py"]
    assert paths
    assert not {module_name(p): lines for p in paths if (lines := _async_generators(p.read_text()))}
