"""Values of partition columns as parts of paths."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from orcstream.plan.acid.names import NULL_TEXT, escape
from orcstream.writer.template import text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NULL_TEXT),
        ("", NULL_TEXT),
        (True, "true"),
        (False, "false"),
        (-5, "-5"),
        (Decimal("-1.50"), "-1.50"),
        (Decimal("1E+2"), "100"),
        (datetime.date(33, 4, 5), "0033-04-05"),
        ("a/b", "a/b"),
    ],
    ids=str,
)
def test_values_as_hive_writes_them(value: object, text: str) -> None:
    assert text_of(value) == text


def test_no_value_is_another_folder() -> None:
    assert [escape(text) for text in (".", "..", "a/b", "100%")] == ["%2E", "%2E%2E", "a%2Fb", "100%25"]
