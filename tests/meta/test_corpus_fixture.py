"""Only the fixture `corpus_folder` decides whether there is a corpus, so no test can forget to ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.meta.tree import ROOT, imports_of, module_name, source_files

PLACE = "tests.reference.corpus_place"
# The fixture, and a program that runs without fixtures.
MAY_IMPORT = {"tests.conftest", "tests.fuzz.fuzz_read"}
# In two halves, or this module would find itself.
BY_HAND = re.compile("ORCSTREAM" + r"_CORPUS\b|\bmark\.corpus\b")
MAY_NAME = {*MAY_IMPORT, PLACE}
UNSET = {"ORCSTREAM" + "_CORPUS", "ORCSTREAM_REQUIRE_SERVERS"}


def test_only_the_fixture_knows_where_the_corpus_is() -> None:
    modules = frozenset(map(module_name, source_files("tests")))
    importers = {
        module_name(path)
        for path in source_files("tests")
        if any(one.module == PLACE for one in imports_of(path.read_text(), path.suffix, modules))
    }
    assert importers == MAY_IMPORT


def test_no_test_names_the_variable_or_sets_the_marker() -> None:
    found = {module_name(path) for path in source_files("tests") if BY_HAND.search(path.read_text())}
    assert found == MAY_NAME


def test_without_the_variable_all_of_them_are_skipped() -> None:
    """The marker selects exactly the users of the fixture, and none of them runs."""
    users = [path for path in source_files("tests") if "corpus_folder" in path.read_text()]
    files = [str(path.relative_to(ROOT)) for path in users if path.name.startswith("test_")]
    environment = {name: text for name, text in os.environ.items() if name not in UNSET}
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "corpus", "-p", "no:cacheprovider", *files],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = child.stdout.splitlines()[-1]
    assert child.returncode == 0, child.stdout
    assert re.fullmatch(r"\d{3,4} skipped, \d+ deselected in .*", last), child.stdout
