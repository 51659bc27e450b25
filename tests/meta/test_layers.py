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

# Each line is a unit and what it uses of the others, from the bottom up: imports go to layers further up in
# this table only, and units of one layer, between two empty lines, never import each other. A unit is a
# package without the packages in it; `orcstream` is the package's __init__, its public names.
TABLE = """
_buffer:
_cipher:
_credentials:
_lazy:
_printable:
_proto:
codec:

errors: _credentials _printable

_keywords: errors
byterange: errors
codec.streams: _buffer codec errors
encryption: errors
io.loop: _buffer errors
schema: _printable errors
spark.options: errors

figures: schema
plan.acid: errors schema
query: _printable errors schema

codec.vectors: _buffer codec errors query schema

io.contract: _credentials _keywords _printable byterange errors io.loop

io.urls: _credentials _keywords byterange errors io.contract io.loop

batch_values: codec.vectors errors
codec.arrow: _buffer codec.vectors errors schema
codec.convert: _buffer codec.vectors errors schema
codec.hive: _buffer codec codec.vectors
codec.metadata: _buffer _proto byterange codec codec.streams codec.vectors encryption errors schema
io.request: byterange errors io.contract io.loop io.urls
io.stores.http: _buffer _keywords byterange errors io.contract io.loop io.urls
io.stores.memory: byterange errors io.contract io.urls

batch: batch_values codec.arrow codec.vectors errors schema
codec.ingest: _buffer codec codec.arrow codec.convert codec.vectors errors schema
io.stores:
plan: _printable byterange codec.convert codec.metadata codec.streams errors schema
plan.prune: byterange codec.metadata query schema

codec.crypto: _buffer _cipher byterange codec codec.convert codec.ingest codec.metadata codec.streams
    codec.vectors encryption errors schema
io.stores.fsspec: _credentials byterange errors io.contract io.loop io.urls
io.stores.hdfs: byterange errors io.contract io.loop io.request io.urls
io.stores.local: _buffer byterange errors io.contract io.loop io.urls

codec.decode: _buffer byterange codec codec.crypto codec.metadata codec.streams codec.vectors errors
    schema
codec.encode: _buffer codec codec.convert codec.crypto codec.ingest codec.metadata codec.streams
    codec.vectors encryption errors schema
io.keys: _cipher _credentials _lazy _printable encryption errors io.contract io.loop io.stores.hdfs io.urls
io.stores.s3: _credentials _keywords byterange errors io.contract io.loop io.stores.fsspec io.stores.http
    io.urls
plan.merge: byterange codec.crypto codec.metadata codec.streams encryption errors plan schema

file: byterange codec.convert codec.crypto codec.metadata codec.streams codec.vectors encryption errors
    io.contract io.loop plan schema
io: _credentials _keywords _lazy byterange errors io.contract io.keys io.loop io.request io.stores.hdfs
    io.stores.local io.stores.memory io.urls

log: errors io io.contract

acid.transactions: _credentials _keywords _printable errors io.contract io.loop io.urls log
    plan plan.acid schema
reader.engine: _buffer _printable batch byterange codec.crypto codec.decode codec.metadata
    codec.streams codec.vectors errors file io.contract io.loop io.request plan plan.prune query schema
testing: byterange errors io io.contract io.loop io.urls
writer: _credentials _keywords byterange codec.arrow codec.crypto codec.encode codec.ingest codec.metadata
    codec.streams encryption errors file io io.contract io.keys io.loop io.urls plan
    plan.acid plan.merge schema

acid.snapshot: acid.transactions errors io io.contract io.loop plan.acid
reader: _credentials _keywords _printable batch byterange codec.arrow codec.convert codec.encode
    codec.metadata codec.streams codec.vectors encryption errors file io io.contract io.loop io.request
    io.urls plan plan.prune query reader.engine schema

table: _buffer _credentials batch codec.ingest codec.vectors errors io io.contract io.loop io.urls
    plan.acid query reader reader.engine schema

acid.read: acid.snapshot batch codec.hive codec.vectors errors io.loop io.stores.local plan
    plan.acid query reader reader.engine schema table
datasets: _keywords batch codec.arrow codec.vectors errors io io.loop io.urls plan plan.acid query reader
    reader.engine schema table

acid.view: _keywords acid.read acid.snapshot acid.transactions batch errors io.loop plan plan.acid reader
    schema table
blocking: _keywords _lazy batch codec.metadata codec.streams datasets errors file io io.contract io.loop plan
    reader reader.engine schema writer

acid.write: acid.read acid.transactions acid.view batch codec.encode codec.hive codec.ingest codec.vectors
    errors io io.contract io.loop plan.acid reader schema writer
spark.access: blocking encryption errors io.keys io.loop spark.options

acid.compact: _keywords acid.read acid.snapshot acid.transactions acid.view acid.write batch
    codec.encode codec.hive codec.ingest codec.vectors errors io io.contract io.loop plan.acid reader
    reader.engine schema writer

acid: _keywords _lazy acid.compact acid.read acid.snapshot acid.transactions acid.view acid.write
    codec.arrow errors io io.contract io.loop io.urls plan plan.acid reader schema table writer

orcstream: _lazy acid batch batch_values blocking datasets encryption errors file io io.contract plan query
    reader reader.engine schema table writer

cli: _printable io.loop orcstream
inspect: _keywords _printable blocking byterange codec.metadata codec.streams figures io.loop orcstream plan
    reader reader.engine schema
integrations: _keywords datasets errors orcstream query reader schema
spark.read: _credentials _printable blocking errors io io.contract io.loop io.urls
    log orcstream plan plan.acid query reader schema spark.access spark.options table

spark.write: _credentials _printable acid.transactions encryption errors io io.contract io.loop
    io.stores.hdfs io.stores.s3 io.urls log orcstream plan.acid schema spark.access spark.options spark.read

spark.compact: _keywords errors io io.loop log orcstream schema spark.read spark.write

spark.stream: _printable errors io io.loop io.urls log spark.access spark.compact spark.options spark.read
    spark.write

spark: _lazy spark.read spark.stream spark.write

spark.jobs: _credentials _keywords _lazy acid errors io io.contract io.urls orcstream plan.acid
    schema spark spark.access spark.compact spark.options spark.read spark.stream spark.write

cli.commands: _credentials _printable acid cli encryption figures inspect io io.keys io.loop orcstream schema
    spark.jobs

cli.convert: _credentials cli cli.commands encryption figures io.stores.fsspec io.urls orcstream schema

cli.main: _credentials _printable cli cli.commands cli.convert figures orcstream

__main__: cli.main
"""

# Modules of a package that stand lower than its other modules.
UNITS_OF_THEIR_OWN = (
    "acid.snapshot",
    "acid.view",
    "cli.main",
    "io.urls",
    "spark.access",
    "spark.options",
)

# Modules that only these may import: what reads messages, and what writes them.
ONLY_FOR = {
    "orcstream._proto": {f"orcstream.codec.metadata.{name}" for name in ("parse", "indexes", "write")}
}

# Pure layers: no waiting, no threads, no clock, no randomness, no files, no network.
PURE = (*("_buffer", "_credentials", "byterange", "codec", "errors", "plan", "query", "schema"),)
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
USE_IT_WHERE_IT_IS = {"orcstream.cli.convert.arrow"}
MAY_NEED_IT = ("orcstream.spark.", "orcstream.integrations.")


SOURCES = source_files("orcstream") + sorted((PACKAGE / "_proto").glob("*.py"))
MODULES = frozenset(module_name(path) for path in SOURCES)
PACKAGES = frozenset(module_name(path.parent / "__init__.py") for path in SOURCES)


def _layers() -> list[dict[str, set[str]]]:
    layers = []
    for paragraph in TABLE.strip().replace("\n    ", " ").split("\n\n"):
        units = (line.partition(":") for line in paragraph.splitlines())
        layers.append({unit: set(used.split()) for unit, _, used in units})
    return layers


LAYERS = _layers()
MAY_IMPORT = {unit: used for layer in LAYERS for unit, used in layer.items()}


def _unit(module: str) -> str:
    """The package of a module, without `orcstream`; the module itself at the top, or if it stands alone."""
    if module == "orcstream":
        return module
    name = module.removeprefix("orcstream.")
    if module in PACKAGES or name in UNITS_OF_THEIR_OWN:
        return name
    return name.rpartition(".")[0] or name


def _is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"orcstream.{package}.")


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
    assert units - set(MAY_IMPORT) == set(), "a new unit needs a place in TABLE"
    assert set(MAY_IMPORT) - units == set(), "units that are no more"
    assert {f"orcstream.{unit}" for unit in UNITS_OF_THEIR_OWN} <= MODULES


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
    paths = [path for path in SOURCES if _is_in(module_name(path), unit)]
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
    paths = [path for path in SOURCES if _is_in(module_name(path), "reader") and path.suffix == ".py"]
    assert paths
    assert not {module_name(p): lines for p in paths if (lines := _async_generators(p.read_text()))}
