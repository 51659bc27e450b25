"""A disk that nobody waits for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.effort import ALL

__all__ = ["unhurried_disk"]


@pytest.fixture(scope="module", autouse=True)
def unhurried_disk() -> Iterator[None]:
    """Thousands of small files are not forced to the disk: no test here pulls a plug.

    That writers do force them, and when, is asked in `tests/io/test_sink_local.py`.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not ALL:
            patch.setattr(os, "fsync", lambda _: None)
        yield
