"""Figures and how they are judged and printed.

A figure is a number with, where one was promised, the floor that must hold and the target that should. Knows
nothing of what was measured.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Figure", "Timing", "interleave", "leave_out", "markdown", "table"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; without a floor it only informs. `beside` says what it was made of."""

    section: str
    what: str
    value: float
    unit: str = "x"
    floor: float | None = None
    target: float | None = None
    at_most: bool = False
    beside: str = ""

    @property
    def missed(self) -> bool:
        return self.floor is not None and not self._reaches(self.floor)

    @property
    def verdict(self) -> str:
        if self.floor is None:
            return ""
        if self.missed:
            return "MISSED"
        return "target" if self.target is None or self._reaches(self.target) else "floor"

    def _reaches(self, bound: float) -> bool:
        return self.value <= bound if self.at_most else self.value >= bound

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Timing:
    """Medians of several runs of one thing."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:.3f} s ({self.cpu_s:.3f} CPU)"


def interleave(
    rounds: int, *, before: Callable[[], object] = lambda: None, **measured: Callable[[], object]
) -> dict[str, Timing]:
    """Each thing once a round, in turns, so that a disturbance strikes all; answers medians.

    CPU seconds are this process's, all its threads. One round before the first is not counted, nor is what
    `before` does before each thing.
    """
    walls: dict[str, list[float]] = {name: [] for name in measured}
    cpus: dict[str, list[float]] = {name: [] for name in measured}
    for round_ in range(rounds + 1):
        for name, action in measured.items():
            before()
            wall, cpu = time.perf_counter(), time.process_time()
            result = action()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            del result  # whoever comes next shall find its memory free
            gc.collect()  # asyncio.run leaves its result in a cycle
            if round_:
                walls[name].append(wall)
                cpus[name].append(cpu)
    return {name: Timing(statistics.median(walls[name]), statistics.median(cpus[name])) for name in measured}


def leave_out(problem: str) -> None:
    """Say that figures are not there, and why."""
    print(f"left out: {problem}", file=sys.stderr)


def _cells(figure: Figure) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"

    sign = "<=" if figure.at_most else ">="
    bounds = [
        f"{sign} {number(bound)}" if bound is not None else "" for bound in (figure.floor, figure.target)
    ]
    return (
        figure.section,
        figure.what,
        f"{number(figure.value)} {figure.unit}",
        *bounds,
        figure.verdict,
        figure.beside,
    )


_HEAD = ("section", "what", "figure", "floor", "target", "reached", "beside")


def table(figures: list[Figure]) -> str:
    """For people at a terminal."""
    rows = [_HEAD, *map(_cells, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def markdown(figures: list[Figure]) -> str:
    """For bench/README.md."""
    rows = [_HEAD, tuple("-" * len(name) for name in _HEAD), *map(_cells, figures)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
