"""docs/api.md documents every public name, its parameters and its members, and nothing that is not there.

A heading in it is `name`, `name(parameters)` or `Class.member(parameters)`; what is in backquotes is held
against the package. Errors are listed in a table.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import orcstream
import orcstream.acid
import orcstream.errors
import orcstream.inspect
import orcstream.io.keys
import orcstream.testing
from tests.meta.tree import ROOT

API = (ROOT / "docs" / "api.md").read_text()
HEADING = re.compile(r"^#{2,4} `([\w.]+)(?:\(([^)`]*)\))?`", re.MULTILINE)
HEADINGS = {match[1]: match[2] for match in HEADING.finditer(API)}
# Classes whose attributes are values, told by their dataclass or enum; they are documented in prose.
CLASSES = (
    "OrcFile",
    "BatchStream",
    "FileStream",
    "Batch",
    "Column",
    "ReadResult",
    "Schema",
    "Expr",
    "OrcWriter",
    "Ingester",
)


def _public_members(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def _resolve(dotted: str) -> Any:
    found: Any = orcstream
    for name in dotted.split("."):
        found = inspect.getattr_static(found, name) if inspect.isclass(found) else getattr(found, name)
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found


def test_all_is_sorted_and_there() -> None:
    assert sorted(orcstream.__all__) == list(orcstream.__all__)
    for name in orcstream.__all__:
        assert hasattr(orcstream, name)


def test_every_public_name_is_documented() -> None:
    documented = {name for name in HEADINGS if "." not in name}
    errors = {name for name in orcstream.__all__ if name in orcstream.errors.__all__}
    assert documented == set(orcstream.__all__) - errors


def test_every_name_of_the_checks_is_documented() -> None:
    part = API.split("\n## Testing\n")[1].split("\n## ")[0]
    listed = re.findall(r"^- `(\w+)`", part, re.MULTILINE)
    assert sorted(listed) == sorted(orcstream.testing.__all__)
    assert sorted(orcstream.testing.__all__) == list(orcstream.testing.__all__)


def test_every_name_of_transactional_tables_is_documented() -> None:
    part = API.split("\n## Transactional tables\n")[1].split("\n## ")[0]
    listed = re.findall(r"^- `(\w+)", part, re.MULTILINE)
    assert sorted(listed) == sorted(orcstream.acid.__all__)
    table = part.split("`AcidTable`")[1].split("\n- `")[0]
    assert set(re.findall(r"`(\w+)[(`]", table)) >= _public_members(orcstream.acid.AcidTable)


def test_every_name_of_inspections_is_documented() -> None:
    part = API.split("\n## Seeing a file\n")[1].split("\n## ")[0]
    listed = re.findall(r"^- `(\w+)", part, re.MULTILINE)
    assert sorted(listed) == sorted(orcstream.inspect.__all__)
    written = re.search(r"^- `inspect\(([^)]*)\)", part, re.MULTILINE)
    assert written
    assert written[1] == _written_parameters(orcstream.inspect.inspect)


def test_every_error_is_in_the_table() -> None:
    table = API.split("\n## Errors\n")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` ", table, re.MULTILINE))
    assert listed == set(orcstream.errors.__all__)


def _shown_members(name: str, found: Any) -> Iterator[tuple[str, str | None]]:
    """What `help` shows of a public name, and of a class's members but for plain values."""
    yield name, found.__doc__
    if inspect.isclass(found):
        for member in sorted(_public_members(found)):
            value = getattr(found, member)
            if isinstance(value, property) or inspect.isroutine(value):
                yield f"{name}.{member}", inspect.getdoc(value)


@pytest.mark.parametrize(
    "module",
    [
        orcstream,
        orcstream.acid,
        orcstream.blocking,
        orcstream.errors,
        orcstream.inspect,
        orcstream.io.keys,
    ],
)
def test_help_explains_every_name(module: ModuleType) -> None:
    shown = [one for name in module.__all__ for one in _shown_members(name, getattr(module, name))]
    assert [name for name, doc in shown if not doc] == []


def test_help_explains_the_checks() -> None:
    """Each by its name; what a check holds, its own name says."""
    assert [name for name in orcstream.testing.__all__ if not getattr(orcstream.testing, name).__doc__] == []


@pytest.mark.parametrize("name", CLASSES)
def test_every_member_is_documented(name: str) -> None:
    documented = {heading.split(".")[1] for heading in HEADINGS if heading.startswith(name + ".")}
    listed = re.search(rf"^#+ `{name}`\n(.*?)(?=^#)", API, re.MULTILINE | re.DOTALL)
    assert listed
    documented |= set(re.findall(r"^- `(\w+)`", listed[1], re.MULTILINE))
    assert documented == _public_members(getattr(orcstream, name))


@pytest.mark.parametrize("heading", sorted(name for name, given in HEADINGS.items() if given is not None))
def test_parameters_are_those_of_the_code(heading: str) -> None:
    assert HEADINGS[heading] == _written_parameters(_resolve(heading))


def _written_parameters(function: Any) -> str:
    """As headings have them."""
    own = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    written: list[str] = []
    for parameter in own:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in written:
            written.append("*")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        written.append(parameter.name + default.replace("'", '"'))
    return ", ".join(written)


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
