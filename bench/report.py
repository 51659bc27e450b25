"""Figures and how they are judged and printed.

A figure is a number with, where one was promised, the floor that must hold and the target that should. Knows
nothing of what was measured.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = [
    "Figure",
    "Stopwatch",
    "Timing",
    "calm",
    "interleave",
    "leave_out",
    "markdown",
    "median_of",
    "table",
]

# A time is calm when a hypervisor kept less of the cores; /proc/stat counts in hundredths of a second.
_CALM = 0.03
_ATTEMPTS = 3
_REST_S = 1.0  # before the next attempt: neighbours' work passes, and budgets of cores fill again
_SHOWN_STOLEN = 0.01
# Where it stands in the first line of /proc/stat: cpu user nice system idle iowait irq softirq steal.
_STEAL = 8


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
    """One run of one thing, or medians of several; `stolen` is what a hypervisor kept of the cores' time."""

    wall_s: float
    cpu_s: float
    stolen: float = 0.0

    def __str__(self) -> str:
        kept = f", {self.stolen:.0%} stolen" if self.stolen >= _SHOWN_STOLEN else ""
        return f"{self.wall_s:.3f} s ({self.cpu_s:.3f} CPU{kept})"


def interleave(
    rounds: int, *, before: Callable[[], object] = lambda: None, **measured: Callable[[], object]
) -> dict[str, Timing]:
    """Each thing once a round, in turns, so that a disturbance strikes all; answers medians.

    CPU seconds are this process's, all its threads. One round before the first is not counted, nor is what
    `before` does before each thing. Where a hypervisor gave the cores to other machines, a thing is measured
    again: who hands work from thread to thread waits for a core that is away many times over, others once.
    """
    times: dict[str, list[Timing]] = {name: [] for name in measured}
    for round_ in range(rounds + 1):
        for name, action in measured.items():
            time_ = _calm_time(before, action)
            if round_:
                times[name].append(time_)
    return {name: median_of(found) for name, found in times.items()}


def median_of(times: Iterable[Timing]) -> Timing:
    """Each figure's median by itself."""
    wall, cpu, stolen = zip(*((time_.wall_s, time_.cpu_s, time_.stolen) for time_ in times), strict=True)
    return Timing(statistics.median(wall), statistics.median(cpu), statistics.median(stolen))


async def calm(action: Callable[[], Awaitable[object]]) -> Timing:
    """How long it takes, measured again where that was disturbed, as `interleave` does."""
    found: list[Timing] = []
    while not _is_enough(found):
        if found:
            await asyncio.sleep(_REST_S)
        watch = Stopwatch()
        await action()
        found.append(watch.stop())
    return _calmest(found)


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._begun = time.perf_counter(), time.process_time(), _stolen_s()

    def stop(self) -> Timing:
        now = time.perf_counter(), time.process_time(), _stolen_s()
        wall, cpu, stolen = (after - before for before, after in zip(self._begun, now, strict=True))
        return Timing(wall, cpu, stolen / (wall * (os.cpu_count() or 1)))


def _calm_time(before: Callable[[], object], action: Callable[[], object]) -> Timing:
    found: list[Timing] = []
    while not _is_enough(found):
        if found:
            time.sleep(_REST_S)
        before()
        watch = Stopwatch()
        result = action()
        found.append(watch.stop())
        del result  # whoever comes next shall find its memory free
        gc.collect()  # asyncio.run leaves its result in a cycle
    return _calmest(found)


def _is_enough(found: list[Timing]) -> bool:
    return len(found) == _ATTEMPTS or any(time_.stolen <= _CALM for time_ in found)


def _calmest(found: list[Timing]) -> Timing:
    return min(found, key=lambda time_: time_.stolen)


def _stolen_s() -> float:
    """What all cores did not get since the machine began; 0 where nobody counts it."""
    try:
        with open("/proc/stat") as file:  # noqa: PTH123 - in the middle of a measurement
            fields = file.readline().split()
        return int(fields[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


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
