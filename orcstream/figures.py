"""Figures and names as people read them: sizes, counts and statistics.

Knows how values are spelled. Must not know where they are shown.
"""

from __future__ import annotations

import dataclasses
import math
from contextlib import suppress
from decimal import Decimal
from typing import Any

from orcstream.schema.column_statistics import ColumnStatistics

# As far as is known who they are; the specification lists them at "File Tail".
_WRITERS = ("ORC Java", "ORC C++", "Presto", "Scritchley Go", "Trino", "cuDF")


def bytes_text(count: float) -> str:
    """A number of bytes for people, in units of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def counted(count: int, word: str) -> str:
    """A number of things: ``1 row``, ``1,234 rows``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def writer_name(number: int) -> str:
    """Which library wrote a file, by the number in its footer."""
    return _WRITERS[number] if 0 <= number < len(_WRITERS) else f"number {number}"


def known_statistics(statistics: ColumnStatistics) -> dict[str, Any]:
    """What a writer recorded about a column, as JSON has it."""
    found = {name: value for name, value in dataclasses.asdict(statistics).items() if value not in (None, ())}
    kind = found.get("kind")
    for name, value in found.items():
        if kind in ("date", "timestamp") and name in ("minimum", "maximum"):
            found[name] = _day(value) if kind == "date" else _nanoseconds(value)
        elif isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
            found[name] = str(value)
    return found


def _day(days: int) -> str:
    import numpy as np  # not where a command only says what it takes

    return str(np.datetime64(days, "D"))


def _nanoseconds(count: int) -> str:
    import numpy as np

    with suppress(OverflowError):  # outside 1677 to 2262
        return str(np.datetime64(count, "ns"))
    with suppress(OverflowError):
        return str(np.datetime64(count // 10**3, "us"))
    return str(np.datetime64(count // 10**6, "ms"))  # as statistics have them
