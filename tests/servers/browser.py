"""A headless Chromium, driven by playwright: Debian's, which `make servers` unpacks, or the one on PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.support.needs import CACHE, not_here

__all__ = ["chromium"]

UNPACKED = CACHE / "chromium"
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """One browser; ends with the block."""
    program, libraries = _program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            # Tests may run as root, and in containers with little shared memory.
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
        )
        try:
            yield browser
        finally:
            browser.close()


def _program() -> tuple[Path, str]:  # noqa: RET503 - not_here never returns
    """The browser, and where its libraries are that the system lacks."""
    own = UNPACKED / "usr" / "lib" / "chromium" / PROGRAMS[0]
    if own.exists():
        folders = {str(found.parent) for found in (UNPACKED / "usr" / "lib").rglob("lib*.so*")}
        return own, ":".join(sorted(folders))
    for name in PROGRAMS:
        if found := shutil.which(name):
            return Path(found), ""
    not_here("no Chromium here: make servers unpacks Debian's")
