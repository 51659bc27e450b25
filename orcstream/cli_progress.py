"""One line about work that takes long, on a terminal's standard error, written over and over.

Knows terminals and the clock. Must not know the work. Nothing is printed where standard error is no terminal,
or while the work is young.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

__all__ = ["Progress", "bytes_text"]

_AFTER_S = 1.0
_EVERY_S = 0.2


class Progress:
    """Call it as often as you like, with what makes the text; `close` takes the line away."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._next_s = self._begin_s + _AFTER_S if sys.stderr.isatty() else math.inf
        self._is_shown = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begin_s

    def __call__(self, text: Callable[[], str]) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            self._is_shown = True
            sys.stderr.write(f"\r\x1b[K{text()}")
            sys.stderr.flush()

    def close(self) -> None:
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def bytes_text(count: float) -> str:
    """A number of bytes for people, in units of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
