"""A report is a table of its own: it takes the place of an earlier one, and never of what it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orcstream.errors import UsageError
from orcstream.spark import jobs
from orcstream.spark.jobs.tables import check_report


@pytest.mark.parametrize(
    ("paths", "report"),
    [
        (["s3://b/t"], "s3://b/t"),
        (["s3://b/t/"], "s3a://b/t"),
        (["s3://b/t"], "s3://b"),
        (["s3://b/x", "s3://b/t/day=1/*.orc"], "s3://b/t/"),
        (["s3://b/t/a.orc"], "s3://b/t"),
        (["s3://b/t"], "s3://b/t/report"),
        (["/t"], "file:///t"),
        (["file:///t/u"], "/t/x/.."),
    ],
)
def test_reports_that_would_replace_the_table(paths: list[str], report: str) -> None:
    session: Any = None  # nothing is asked of it
    for job in (jobs.verify, jobs.profile):
        with pytest.raises(UsageError, match=r"\breport\b"):
            job(session, paths, report=report)


@pytest.mark.parametrize(
    ("paths", "report"),
    [
        (["s3://b/t"], "s3://b/table"),
        (["s3://b/table"], "s3://b/t"),
        (["s3://b/t"], "s3://b/t/_report"),
        (["s3://b/t/*.orc"], "s3://b/t/report"),
        (["/t"], None),
    ],
)
def test_reports_elsewhere(paths: list[str], report: str | None) -> None:
    check_report(report, paths)


def test_a_relative_folder_is_one() -> None:
    with pytest.raises(UsageError):
        check_report(".", [str(Path.cwd() / "t")])
