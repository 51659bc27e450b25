"""The table of wheels in docs/install.md: made of answers, put in its place, and there."""

from __future__ import annotations

import datetime
import re

from scripts import wheel_table
from scripts.wheel_table import MARKS, PAGE, PLATFORMS, PYTHONS, Answer


def test_answers_become_a_table() -> None:
    answers = {(python, platform): Answer({"a": "1.9"}, ()) for python in PYTHONS for platform in PLATFORMS}
    answers["3.14t", "Windows"] = Answer({"a": "1.10"}, ("b", "c"))
    text = wheel_table.table(answers, datetime.date(2026, 11, 2))
    assert text.startswith('As of 2 November 2026: "all"')
    assert "| 3.11 | all | all | all | all | all | all | all |\n" in text
    assert "| 3.14t | all | all | all | all | all | all | b, c |\n" in text
    assert text.endswith(": a 1.10.\n")
    page = f"before\n{MARKS[0]}old\n{MARKS[1]}after\n"
    assert wheel_table.put_into(page, "new\n") == f"before\n{MARKS[0]}\nnew\n\n{MARKS[1]}after\n"


def test_packages_with_compiled_parts_are_asked_for() -> None:
    names = {re.match(r"[\w-]+", one)[0] for one in wheel_table.compiled_packages("anyio")}  # type: ignore[index]
    assert names == set()
    assert any(one.startswith("wrapt") for one in wheel_table.compiled_packages("aiobotocore"))


def test_the_page_has_one() -> None:
    inside = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert [line.split(" ")[1] for line in inside.splitlines() if line.startswith("| 3")] == list(PYTHONS)
