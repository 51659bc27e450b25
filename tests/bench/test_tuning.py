"""The tables of docs/tuning.md go where they belong, and nothing else of the page changes."""

from __future__ import annotations

import asyncio
import re

import pytest

from bench import tuning, tuning_tables
from bench.tuning_tables import Table
from tests.meta.tree import ROOT

PAGE = tuning.PAGE.read_text()


def test_tables_are_put_in_their_places() -> None:
    page = "a\n<!-- measured: one -->\nold\n<!-- end -->\nb\n<!-- measured: two -->\nstays\n<!-- end -->\n"
    table = Table("one", ("what", "time"), [("this", "1 s")])
    made = tuning.put_in(page, [table])
    assert made == page.replace("old", "| what | time |\n| --- | --- |\n| this | 1 s |")
    assert tuning.put_in(made, [table]) == made
    assert Table.of(table.as_dict()).markdown() == table.markdown()


def test_a_table_without_a_place_is_noticed() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        tuning.put_in(PAGE, [Table("nowhere", (), [("words",)])])


def test_every_place_of_the_page_is_measured_by_name() -> None:
    places = [found[1] for found in tuning.PLACE.finditer(PAGE)]
    assert len(places) > 10
    assert len(set(places)) == len(places)
    sources = "".join(
        (ROOT / "bench" / f"{name}.py").read_text() for name in ("tuning", "tuning_reading", "tuning_writing")
    )
    assert set(places) == set(
        re.findall(r'(?:Table|_options|_settings)\(\s*(?:\w+, rounds, )?"([\w-]+)"', sources)
    )


def test_settings_are_measured_in_turns() -> None:
    order: list[str] = []

    async def act(name: str) -> None:
        order.append(name)

    actions = {name: (lambda name=name: act(name)) for name in ("a", "b")}
    seconds = asyncio.run(tuning_tables.in_turns(2, actions))
    assert order == ["a", "b"] * 3
    assert tuning_tables.against({"a": 1.0, "b": 0.5}, "a") == {"a": "1.000 s (1.00)", "b": "0.500 s (0.50)"}
    assert seconds.keys() == actions.keys()
