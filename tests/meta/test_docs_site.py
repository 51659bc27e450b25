"""The site has every page, and no link of the documentation leads nowhere.

`make docs` builds the site, with warnings as errors; what can break it from one change to the next is
looked at here without the generator.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.tree import ROOT, project_files

CONFIGURATION = (ROOT / "mkdocs.yml").read_text()
NAVIGATION = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", CONFIGURATION, re.MULTILINE)
PAGES = [path for path in project_files() if path.suffix == ".md"]
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)", re.DOTALL)
EXTERNAL = ("http://", "https://", "mailto:")


def _is_of_the_site(path: Path) -> bool:
    folders = (ROOT / "docs", ROOT / "examples")
    return path.parent in (ROOT, ROOT / "bench") or any(path.is_relative_to(one) for one in folders)


def test_every_page_has_its_place() -> None:
    pages = [str(path.relative_to(ROOT)) for path in PAGES if _is_of_the_site(path)]
    assert sorted(NAVIGATION) == sorted(pages)


def test_the_front_page_leads_to_every_page_of_the_documentation() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text()))
    pages = {path.relative_to(ROOT) for path in PAGES if path.parent == ROOT / "docs"}
    assert {str(path) for path in pages} <= linked


def _anchors(text: str) -> set[str]:
    """What links may name of a page: headings, as git hosts have them, and names of the reference."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    names = re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | set(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if target.startswith(EXTERNAL):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in _anchors(path.read_text())):
            lost.append(target)
    assert lost == []


def test_the_site_asks_nobody_else() -> None:
    """Fonts of the theme would come from elsewhere; scripts and styles of others are not asked for."""
    assert "font: false" in CONFIGURATION
    assert not re.search(r"https?://", CONFIGURATION)
    assert not re.search(r"extra_(css|javascript)|mermaid|mathjax|katex|twemoji|repo_url", CONFIGURATION)
