"""Tables of settings and what they cost, and how settings are measured in turns.

Knows nothing of what is measured.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Table", "against", "in_turns", "rounds_of"]

Action = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Table:
    """What stands in one place of the page; without a head, a sentence."""

    name: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Table:
        return cls(entry["name"], tuple(entry["head"]), [tuple(row) for row in entry["rows"]])

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "head": self.head, "rows": self.rows}

    def markdown(self) -> str:
        if not self.head:
            return "\n".join(" ".join(row) for row in self.rows)
        lines = [self.head, tuple("-" * 3 for _ in self.head), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rounds_of(*, quick: bool) -> int:
    return 1 if quick else 5


async def in_turns(rounds: int, actions: Mapping[str, Action]) -> dict[str, float]:
    """Median seconds of each, once a round; one round before the first is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for round_ in range(rounds + 1):
        for name, action in actions.items():
            begun = time.perf_counter()
            result = await action()
            took = time.perf_counter() - begun
            del result  # whoever comes next shall find its memory free
            gc.collect()
            if round_:
                seconds[name].append(took)
    return {name: statistics.median(found) for name, found in seconds.items()}


def against(seconds: Mapping[str, float], default: str) -> dict[str, str]:
    """Each time with its ratio to that of the default."""
    return {name: f"{took:.3f} s ({took / seconds[default]:.2f})" for name, took in seconds.items()}
