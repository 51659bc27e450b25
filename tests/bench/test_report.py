"""Figures are judged the right way round, shown in both tables, and taken in turns."""

from __future__ import annotations

import os
import time

import pytest

from bench import report
from bench.report import Figure, calm, interleave, markdown, table


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


def test_things_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_stolen_s", lambda: 0.0)
    order: list[str] = []
    times = interleave(2, a=lambda: order.append("a"), b=lambda: order.append("b"))
    assert order == ["a", "b"] * 3
    assert set(times) == {"a", "b"}
    assert all(timing.wall_s >= 0 for timing in times.values())


async def test_what_a_hypervisor_disturbed_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until little is stolen, three times at most; the calmest counts."""
    cores = os.cpu_count() or 1
    stolen = [0.0]
    shares = iter([0.5, 0.0, 0.2, 0.5, 0.1, 0.5, 0.02, 0.0])
    monkeypatch.setattr(report, "_stolen_s", lambda: stolen[0])
    monkeypatch.setattr(report, "_REST_S", 0.0)
    runs: list[float] = []

    def action() -> None:
        share = next(shares)
        time.sleep(0.02)
        runs.append(share)
        stolen[0] += share * 0.02 * cores

    async def awaited() -> None:
        action()

    times = interleave(1, a=action)
    assert runs == [0.5, 0.0, 0.2, 0.5, 0.1]
    assert 0.05 < times["a"].stolen < 0.11
    assert "% stolen" in str(times["a"])
    assert (await calm(awaited)).stolen < 0.03
    assert runs[5:] == [0.5, 0.02]
