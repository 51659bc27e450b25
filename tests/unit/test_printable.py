"""Texts from outside in errors and logs: nothing in them gives a terminal orders."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orcstream
from orcstream._printable import listed, logger_of, printable, printable_lines
from orcstream.errors import OrcError, UsageError
from orcstream.io.contract.byte_source import not_permitted
from orcstream.schema.schema import Schema

ORDERS = "\x1b]0;owned\x07\x1b[31m\u202e\x9b31m\r"
ORDER = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_what_is_shown_is_printable(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert shown == text or not text.isprintable()
    assert printable_lines(text).count("\n") == text.count("\n")


@given(st.text() | st.just(ORDERS))
def test_errors_give_no_orders(text: str) -> None:
    for error in (OrcError(text, url=f"/{text}"), UsageError(text), not_permitted("/a", text)):
        assert not ORDER.search(str(error))


def test_logs_give_no_orders(caplog: pytest.LogCaptureFixture) -> None:
    logger = logger_of("orcstream.io")
    assert logger_of("orcstream.io") is logger
    with caplog.at_level(logging.INFO, "orcstream.io"):
        logger.warning("%s: attempt %d, %.1f s: %s", ORDERS, 3, 1.5, ValueError(ORDERS))
    assert not ORDER.search(caplog.text.removesuffix("\n"))
    assert ": attempt 3, 1.5 s: " in caplog.text
    assert "\\x1b[31m" in caplog.text


def test_every_logger_is_made_printable() -> None:
    made = [
        path.name
        for path in Path(orcstream.__file__).parent.rglob("*.py")
        if "getLogger" in path.read_text(encoding="utf-8")
    ]
    assert made == ["_printable.py"]


def test_lists_of_names_end() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([f"n{number}" for number in range(1_000_000)]).endswith("'n9' and 999,990 more")


def test_an_ambiguous_name_lists_a_few() -> None:
    fields = ",".join(["a:int", "A:int"] * 2000)
    schema = Schema.parse(f"struct<{fields}>")
    with pytest.raises(UsageError, match=r"\b2000\b") as caught:
        schema.select(["a"])
    assert len(str(caught.value)) < 300
