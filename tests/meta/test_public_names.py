"""The pages of docs/reference name every public name once, and its docstring says what one has to know.

A directive `::: module.name` there is what the site puts the docstring in place of. Public are the names
in `__all__` of the modules below, errors once, and those of all integrations.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import orcstream
from tests.meta.tree import PACKAGE, ROOT, module_name

INTEGRATIONS = sorted(
    module_name(path) for path in (PACKAGE / "integrations").glob("*.py") if not path.name.startswith("_")
)
# Importing Spark's takes a second, and they are looked at as text where that will do.
SPARK = ["orcstream.spark", "orcstream.spark.jobs"]
MODULES = [
    "orcstream",
    "orcstream.acid",
    "orcstream.blocking",
    "orcstream.errors",
    "orcstream.inspect",
    "orcstream.io.keys",
    "orcstream.testing",
    *INTEGRATIONS,
]
DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
REFERENCE = {
    path.stem: DIRECTIVE.findall(path.read_text()) for path in (ROOT / "docs/reference").glob("*.md")
}
# What a method is called whose name says all, and that neither takes nor raises anything of its own.
_QUIET = re.compile(r"test_\w+|checks|to_\w+")


def _all_of(module: str) -> list[str]:
    """`__all__` of a module, as it is written there."""
    path = PACKAGE.parent / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise AssertionError(f"{module} has no __all__")


def _public_names() -> list[str]:
    """As the reference has them: errors are those of their module, and modules have pages of their own.

    What other modules have of the package itself is there once.
    """
    elsewhere = {*_all_of("orcstream.errors"), "blocking"}
    names = [f"orcstream.{name}" for name in _all_of("orcstream") if name not in elsewhere]
    for module in MODULES[1:]:
        found = importlib.import_module(module)
        names += [
            f"{module}.{name}"
            for name in _all_of(module)
            if name in elsewhere or getattr(found, name) is not getattr(orcstream, name, None)
        ]
    return [*names, *(f"{module}.{name}" for module in SPARK for name in _all_of(module))]


def _public_members(owner: type) -> set[str]:
    """Those that bases in the package have, too."""
    ours = [one for one in owner.__mro__ if one.__module__.startswith("orcstream.")]
    return {name for one in ours for name in vars(one) if not name.startswith("_")}


def test_all_is_sorted_and_there() -> None:
    for module in MODULES:
        assert sorted(_all_of(module)) == _all_of(module), module
        found = importlib.import_module(module)
        assert [name for name in _all_of(module) if not hasattr(found, name)] == [], module


def test_every_public_name_is_in_the_reference_once() -> None:
    listed = [name for names in REFERENCE.values() for name in names]
    assert sorted(listed) == sorted(_public_names())


# --- docstrings ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Documented:
    """A name that `help` explains, and how."""

    name: str
    value: Any
    text: str

    @property
    def needs(self) -> list[str]:
        """Parameters, and fields of values. A method that has one says what it does with it."""
        if inspect.isclass(self.value):
            fields = dataclasses.fields(self.value) if dataclasses.is_dataclass(self.value) else ()
            return [field.name for field in fields if field.init and not field.name.startswith("_")]
        own = inspect.signature(self.value).parameters
        names = [name for name in own if name not in ("self", "cls")]
        is_method = "self" in own or inspect.ismethod(self.value)
        return names if len(names) > 1 or not is_method else []


def _shown(module: str) -> Iterator[Documented]:
    """What `help` shows of a module's names, and of classes' members but for plain values."""
    found = importlib.import_module(module)
    for name in _all_of(module):
        value = getattr(found, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        yield Documented(f"{module}.{name}", value, value.__doc__ or "")
        if inspect.isclass(value) and not issubclass(value, enum.Enum):
            for member in sorted(_public_members(value)):
                one = getattr(value, member)
                if isinstance(one, property) or inspect.isroutine(one):
                    text = inspect.getdoc(one) or _inherited(value, member)
                    yield Documented(f"{module}.{name}.{member}", one, text)


def _inherited(owner: type, member: str) -> str:
    """What a protocol says that a class keeps without deriving from it."""
    protocols = [orcstream.io.keys.KeyProvider] if owner.__name__.endswith("KeyProvider") else []
    return next((inspect.getdoc(getattr(one, member)) or "" for one in protocols if hasattr(one, member)), "")


# Not when tests are collected, by every worker: other libraries take seconds to import.
@functools.cache
def _all_shown() -> tuple[Documented, ...]:
    return tuple(one for module in MODULES for one in _shown(module))


@functools.cache
def _by_last_names() -> dict[str, list[Documented]]:
    """By their names within a class or module, and with those of the class or module."""
    found: dict[str, list[Documented]] = {}
    for one in _all_shown():
        for last in (one.name.rpartition(".")[2], ".".join(one.name.split(".")[-2:])):
            found.setdefault(last, []).append(one)
    return found


def _words(text: str) -> set[str]:
    """Those in backquotes, with which code begins there."""
    return set(re.findall(r"`+([\w.]+)[^`\n]*`+", text))


def _told(one: Documented, depth: int = 3) -> str:
    """A docstring, and those of what it names: "the other parameters are those of `open`"."""
    told = one.text
    if depth:
        for word in sorted(_words(told)):
            for named in _by_last_names().get(word.removeprefix("orcstream."), []):
                if named is not one and inspect.isroutine(named.value):
                    told += _told(named, depth - 1)
    return told


def _says_nothing(one: Documented) -> bool:
    return bool(_QUIET.fullmatch(one.name.rpartition(".")[2]))


def test_help_explains_every_name() -> None:
    assert [one.name for one in _all_shown() if not one.text and not _says_nothing(one)] == []


def test_help_says_once_that_a_parameter_is_optional() -> None:
    assert [one.name for one in _all_shown() if "optional, optional" in one.text] == []


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_name_every_parameter(module: str) -> None:
    """And every field of a value."""
    missing = {
        one.name: sorted(set(one.needs) - _words(_told(one)))
        for one in _all_shown()
        if one.name.startswith(f"{module}.")
        and not isinstance(one.value, property)
        and not _says_nothing(one)
    }
    assert {name: names for name, names in missing.items() if names} == {}


def test_docstrings_say_what_is_raised() -> None:
    """By the functions of the package, with which programs begin."""
    silent = [
        one.name
        for one in _all_shown()
        if inspect.isfunction(one.value)
        and one.name.count(".") == 1
        and not re.search(r"Raises|`\w*Error`|`KeyUnavailable`", one.text)
    ]
    assert silent == []


def test_docstrings_give_units() -> None:
    """Names end in `_bytes` or `_s`, or their docstrings say what they count."""
    units = {"memory_limit": "bytes", "length": "bytes", "file_length": "bytes", "bandwidth": "bytes"}
    silent = [
        f"{one.name}: {need}"
        for one in _all_shown()
        if not isinstance(one.value, property)
        for need in one.needs
        if need in units and units[need] not in _told(one)
    ]
    assert silent == []


def test_a_length_is_called_length() -> None:
    """Of all that says how many bytes a file has."""
    for name in ("IngestedFile", "MergeResult", "Prepared", "WriteResult"):
        assert "length" in inspect.signature(getattr(orcstream, name)).parameters, name


@pytest.mark.parametrize(
    "expression",
    [
        "errors.KeyUnavailable",
        "io.keys.InMemoryKeyProvider",
        "io.keys.open_keys",
        "blocking.read",
        "__version__",
    ],
)
def test_modules_that_the_page_names_need_no_import_of_their_own(expression: str) -> None:
    # In a fresh interpreter: whoever imported one of them elsewhere has it as an attribute anyway.
    code = f"import orcstream; print(orcstream.{expression}); print(dir(orcstream))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert f"'{expression.split('.')[0]}'" in run.stdout


# Paths that the documentation tells programs to import, besides `MODULES`; they stay when modules move.
IMPORTED_BY_PROGRAMS = (
    "orcstream.io.webhdfs_filesystem.WebHdfsFileSystem",
    "orcstream.io.webhdfs_filesystem.register",
)


@pytest.mark.parametrize("path", IMPORTED_BY_PROGRAMS)
def test_paths_that_programs_import_stay(path: str) -> None:
    module, _, name = path.rpartition(".")
    assert hasattr(importlib.import_module(module), name)
    assert any(module in page.read_text() for page in (ROOT / "docs").glob("*.md"))


def test_modules_inside_list_no_names() -> None:
    """There, an underscore says what is private; names are imported from where they are defined."""
    public = ("errors", "encryption", "testing", "integrations", "io.webhdfs_filesystem")
    inside = [
        path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
        and not module_name(path).startswith(tuple(f"orcstream.{one}" for one in public))
    ]
    assert len(inside) > 100
    assert [module_name(path) for path in inside if "\n__all__" in path.read_text()] == []
