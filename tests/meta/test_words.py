"""The project speaks of itself only: no paths of one machine, no hosts that package managers know anyway."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.tree import ROOT, project_files

# Written in two halves where the rule would find itself.
FORBIDDEN = {
    "an absolute path of somebody's machine": r"(?<![\w.])/(work|root|home)/" + r"\w",
    "a folder beside the repository": r"\.\./" + "shared",
    "a package registry": "|".join(
        (
            r"py" + r"pi\.org",
            r"python" + r"hosted\.org",
            r"proxy\.golang" + r"\.org",
            r"npm" + r"js\.(org|com)",
            r"repo1?\.maven" + r"(\.apache)?\.org",
            r"crates" + r"\.io",
        )
    ),
}
# The one file that knows where the corpus lies beside the repository.
KNOWS_THE_CORPUS = ".ci/run"
EXAMPLES = {
    "an absolute path of somebody's machine": "see " + "/home" + "/me/x",
    "a folder beside the repository": "../" + "shared/x",
    "a package registry": "https://py" + "pi.org/simple",
}


@pytest.mark.parametrize("rule", sorted(FORBIDDEN))
def test_rules_notice(rule: str) -> None:
    assert re.search(FORBIDDEN[rule], EXAMPLES[rule])


def test_the_git_file_of_a_worktree_is_not_read(tmp_path: Path) -> None:
    for name in (".git", ".gitignore"):
        (tmp_path / name).write_text("gitdir: elsewhere\n")
    assert project_files(tmp_path) == (tmp_path / ".gitignore",)


@pytest.mark.parametrize("rule", sorted(FORBIDDEN))
def test_nothing_is_named_that_is_not_ours(rule: str) -> None:
    found = []
    for path in project_files():
        name = str(path.relative_to(ROOT))
        if name == KNOWS_THE_CORPUS and rule == "a folder beside the repository":
            continue
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # data
        found += [
            f"{name}:{number}" for number, line in enumerate(lines, 1) if re.search(FORBIDDEN[rule], line)
        ]
    assert not found
