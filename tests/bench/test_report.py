"""Figures are judged the right way round, shown in both tables, and taken in turns."""

from __future__ import annotations

import pytest

from bench.report import Figure, interleave, markdown, table


@pytest.mark.parametrize(
    ("value", "floor", "target", "at_most", "verdict"),
    [
        (2.0, None, None, False, ""),
        (2.0, 2.1, 3.0, False, "MISSED"),
        (2.1, 2.1, 3.0, False, "floor"),
        (3.0, 2.1, 3.0, False, "target"),
        (2.1, 2.1, None, False, "target"),
        (1.9, 1.8, 1.5, True, "MISSED"),
        (1.8, 1.8, 1.5, True, "floor"),
        (1.5, 1.8, 1.5, True, "target"),
    ],
)
def test_verdicts(
    value: float, floor: float | None, target: float | None, at_most: bool, verdict: str
) -> None:
    figure = Figure("local", "what", value, "x", floor, target, at_most)
    assert figure.verdict == verdict
    assert figure.missed == (verdict == "MISSED")
    assert Figure(**figure.as_dict()) == figure


def test_tables_show_every_figure() -> None:
    figures = [
        Figure("local", "one", 2.123, floor=2.0),
        Figure("memory", "two", 117.0, "MB", 128.0, None, True),
    ]
    for text in (table(figures), markdown(figures)):
        assert "2.12 x" in text
        assert ">= 2" in text
        assert "117 MB" in text
        assert "<= 128" in text


def test_things_take_turns() -> None:
    order: list[str] = []
    times = interleave(2, a=lambda: order.append("a"), b=lambda: order.append("b"))
    assert order == ["a", "b"] * 3
    assert set(times) == {"a", "b"}
    assert all(timing.wall_s >= 0 for timing in times.values())
