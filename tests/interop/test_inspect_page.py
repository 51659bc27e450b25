"""Pages of inspections in a real browser: narrow and wide, light and dark, with keys alone, asking nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from pyarrow import orc

from orcstream import col
from orcstream.inspect import Inspection, inspect_blocking
from tests.generators.trips import trips
from tests.servers.browser import chromium

# Of different kinds: no rows, nested types, many stripes, an old writer, encryption.
CORPUS = (
    "apache-orc/TestOrcFile.emptyFile.orc",
    "apache-orc/TestOrcFile.test1.orc",
    "apache-orc/TestOrcFile.testMemoryManagementV11.orc",
    "apache-orc/orc-file-11-format.orc",
    "apache-orc/encrypted/sample1.orc",
)
WIDTHS = (360, 1400)
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@dataclass
class Opened:
    """A page, and what went on while it was open."""

    page: Page
    requests: list[str]
    complaints: list[str]


def _open(browser: Browser, path: Path, width: int, scheme: Scheme = "light") -> Opened:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened = Opened(context.new_page(), [], [])
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.on("console", lambda message: opened.complaints.append(message.text))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.goto(path.as_uri())
    return opened


@pytest.fixture(scope="module")
def trips_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "trips.orc"
    orc.write_table(trips(), str(path), stripe_size=1 << 16)
    return path


@pytest.fixture(scope="module")
def trips_page(trips_file: Path) -> Path:
    found = inspect_blocking(str(trips_file), columns=["city"], where=col("id") == 4711, run=True)
    return _saved(found, trips_file.with_suffix(".html"))


@pytest.fixture(scope="module")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With all sections, but of one stripe: looking for obstacles takes long."""
    path = tmp_path_factory.mktemp("small") / "small.orc"
    orc.write_table(trips().select(["id", "city"]), str(path))
    found = inspect_blocking(str(path), columns=["city"], where=col("id") == 4711, run=True)
    assert len(found.file.stripes) == 1
    return _saved(found, path.with_suffix(".html"))


def _saved(found: Inspection, path: Path) -> Path:
    path.write_text(found.to_html(), encoding="utf-8")
    return path


def _check(opened: Opened, path: Path) -> None:
    """It asked for nothing, complained of nothing, and fits the window."""
    assert opened.requests == [path.as_uri()]
    assert opened.complaints == []
    width = opened.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert width <= 0
    # No section is empty, and each has a height.
    assert opened.page.evaluate(
        "[...document.querySelectorAll('main > section')].every(s => s.offsetHeight > 60)"
    )


@pytest.mark.parametrize("name", CORPUS)
def test_files_of_all_kinds(browser: Browser, corpus_folder: Path, tmp_path: Path, name: str) -> None:
    found = inspect_blocking(str(corpus_folder / name), run=True)
    path = _saved(found, tmp_path / "page.html")
    for width in WIDTHS:
        opened = _open(browser, path, width)
        _check(opened, path)
        text = opened.page.inner_text("body")
        assert Path(name).name in text
        assert f"{found.file.row_count:,}" in text
        assert "Where the bytes are" in text
        opened.page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1400, "light")])
def test_everybody_can_use_it(browser: Browser, small_page: Path, width: int, scheme: Scheme) -> None:
    opened = _open(browser, small_page, width, scheme)
    opened.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    _check(opened, small_page)
    found = Axe().run(opened.page)
    assert found.violations_count == 0, found.generate_report()
    opened.page.context.close()


def test_keys_alone_lead_everywhere(browser: Browser, trips_page: Path) -> None:
    opened = _open(browser, trips_page, 1400)
    page = opened.page

    def focused(script: str) -> str:
        return str(page.evaluate(f"(() => {{ const one = document.activeElement; return {script}; }})()"))

    page.keyboard.press("Tab")
    assert focused("one.textContent") == "Skip to the layout"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert focused("one.id") == "layout"

    page.keyboard.press("Tab")
    title = "one.querySelector('title').textContent"
    readout = "one.closest('.drawing').querySelector('.readout').textContent"
    first = focused(title)
    assert first.startswith("Header: 3 B")
    assert focused(readout) == first
    page.keyboard.press("ArrowRight")
    assert focused(title).startswith("Stripe 0: ")
    assert focused(readout) == focused(title)
    page.keyboard.press("End")
    last = focused(title)
    page.keyboard.press("ArrowRight")
    assert focused(title) == last
    page.keyboard.press("Home")
    assert focused(title) == first
    outline = "getComputedStyle(one.querySelector('rect')).strokeWidth"
    assert focused(outline) == "3px"

    # A bar is one stop: the next one is behind it. A stripe's part leads to the stripe, opened.
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash === '#stripe-0'")
    assert page.locator("#stripe-0").is_visible()
    page.keyboard.press("Tab")
    assert "Row index of " in focused(title)
    page.keyboard.press("Tab")
    assert focused("one.closest('svg') === null") == "True"
    assert opened.complaints == []
    page.context.close()


def test_it_is_useful_without_its_script(browser: Browser, trips_page: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(f"{trips_page.as_uri()}#stripe-0")
    assert page.locator("#stripe-0").is_visible()  # what a link leads to is opened by the browser
    assert page.locator("table").first.is_visible()
    context.close()
