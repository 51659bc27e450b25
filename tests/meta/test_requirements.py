"""The locked versions in requirements/ are those that pyproject.toml asks for, and its declared minimums."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.meta.tree import ROOT

with (ROOT / "pyproject.toml").open("rb") as file:
    DECLARED = tomllib.load(file)
DEPENDENCIES = DECLARED["project"]["dependencies"]
EXTRAS = DECLARED["project"]["optional-dependencies"]
GROUPS = DECLARED["dependency-groups"]
LOCKS = {"build": ["build"], "docs": ["docs"], "test": ["build", "test-core", "test", "lint"]}
# Ray, which is tested in the same environment, needs a newer one than the extra `otel`.
SOLVED_HIGHER = {"opentelemetry-api"}


def locked(name: str) -> dict[str, set[str]]:
    """The versions of each package in a lock; more than one where Pythons differ."""
    found: dict[str, set[str]] = {}
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    for package, version in re.findall(r"^([\w.-]+)(?:\[[\w,-]*\])?==([\w.]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(package), set()).add(version)
    return found


def requirements(texts: list[object]) -> list[Requirement]:
    return [Requirement(text) for text in texts if isinstance(text, str)]


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_the_lock_holds_what_is_declared(name: str) -> None:
    versions = locked(name)
    declared = requirements([one for group in LOCKS[name] for one in GROUPS[group]])
    if name == "test":
        declared += requirements(DEPENDENCIES)
    assert declared
    for one in declared:
        found = versions.get(canonicalize_name(one.name), set())
        assert found and all(map(one.specifier.contains, found)), f"{one}: {found}; run: make lock"


def test_each_declared_minimum_is_tested() -> None:
    versions = locked("oldest")
    for one in requirements([*DEPENDENCIES, *(text for extra in EXTRAS.values() for text in extra)]):
        (least,) = [part.version for part in one.specifier if part.operator == ">="]
        (found,) = versions[canonicalize_name(one.name)]
        same = re.sub(r"(\.0)+$", "", found) == re.sub(r"(\.0)+$", "", least)
        assert same or one.name in SOLVED_HIGHER, f"{one}: {found} is tested; declare it, or run: make lock"


@pytest.mark.parametrize("name", [*sorted(LOCKS), "oldest"])
def test_every_locked_package_has_hashes(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    entries = re.split(r"\n(?=\w)", text.partition("\n")[2])
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)
