"""The change log is kept: it has a part for the version that pyproject.toml names, and says something."""

from __future__ import annotations

import re
import tomllib

from tests.meta.tree import ROOT


def test_the_version_has_its_part() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    parts = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert parts[0].startswith(version), "the newest part stands first"
    assert re.search(r"^- \S", parts[0], flags=re.MULTILINE)
