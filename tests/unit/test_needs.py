"""What a run says of tests that did not run."""

from __future__ import annotations

import pytest

from tests.support.needs import VARIABLE, not_here, not_run_lines


def test_what_is_missing_is_skipped_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^missing: no such server"):
        not_here("no such server")
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match=r"no such server.*\bORCSTREAM_REQUIRE_SERVERS=1\b"):
        not_here("no such server")


def test_each_reason_names_its_tests() -> None:
    skipped = [
        ("tests/a.py::test_one[x]", "there is no nginx"),
        ("tests/a.py::test_one[y]", "there is no nginx"),
        ("tests/b.py::test_two", "there is no HDFS"),
        ("tests/a.py::test_three", "there is no nginx"),
    ]
    assert not_run_lines(skipped) == [
        "not run: 1, because there is no HDFS",
        "    tests/b.py::test_two",
        "not run: 3, because there is no nginx",
        "    tests/a.py::test_one (2 cases)",
        "    tests/a.py::test_three",
    ]
    assert not_run_lines([]) == []
