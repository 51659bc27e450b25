"""What tests need and a machine may lack: servers, jars, the corpus.

A test that asks for what is missing is skipped, and the run's last lines name it with the reason
(`tests/conftest.py`). With ORCSTREAM_REQUIRE_SERVERS=1 it fails: nothing may be missing there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest

__all__ = ["CACHE", "not_here", "not_run_lines"]

VARIABLE = "ORCSTREAM_REQUIRE_SERVERS"
# How .ci/run tells these tests from those that do not apply.
MISSING = "missing: "
CACHE = Path(__file__).resolve().parents[2] / ".cache"
"""Where `make servers` puts what it fetches and builds."""


def not_here(problem: str) -> NoReturn:
    """End the test that asks for what this machine lacks; `problem` says what, and how it is to be had."""
    if os.environ.get(VARIABLE) == "1":
        pytest.fail(f"{problem} ({VARIABLE}=1: nothing may be missing)", pytrace=False)
    pytest.skip(f"{MISSING}{problem}")


def not_run_lines(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """What to print of tests that did not run, given as (test, reason): each reason with the tests' names.

    Cases of one test are counted, not named.
    """
    by_reason: dict[str, Counter[str]] = {}
    for test, reason in skipped:
        by_reason.setdefault(reason, Counter())[test.partition("[")[0]] += 1
    lines = []
    for reason, tests in sorted(by_reason.items()):
        lines.append(f"not run: {sum(tests.values())}, because {reason}")
        lines += [f"    {test}" + (f" ({count} cases)" if count > 1 else "") for test, count in tests.items()]
    return lines
