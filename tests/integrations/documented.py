"""Whether docs/api.md lists what a module of `orcstream.integrations` has, and with which parameters."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

from tests.meta.tree import ROOT

_MARKS = {inspect.Parameter.VAR_KEYWORD: "**"}


def assert_documented(module: ModuleType) -> None:
    """Each public name, with what calls it; and that `help` explains it."""
    part = (ROOT / "docs" / "api.md").read_text().split("\n## Other libraries\n")[1].split("\n## ")[0]
    name = re.escape(module.__name__)
    listed = dict(re.findall(rf"^- `{name}\.(\w+)(?:\(([^)]*)\))?`", part, re.MULTILINE))
    assert sorted(listed) == sorted(module.__all__)
    for public, parameters in listed.items():
        found = getattr(module, public)
        assert found.__doc__
        if inspect.isfunction(found) or parameters:
            assert parameters == _written(found)


def _written(function: Any) -> str:
    written: list[str] = []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in written:
            written.append("*")
        default = "" if one.default is one.empty else f"={one.default!r}"
        written.append(_MARKS.get(one.kind, "") + one.name + default.replace("'", '"'))
    return ", ".join(written)
