"""What several commands take as arguments: sizes, durations, and names with values.

Knows how they are spelled. Must not know what they mean.
"""

from __future__ import annotations

import argparse
import re

__all__ = ["DURATION_S", "byte_size", "duration_s", "pair"]

DURATION_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def byte_size(text: str) -> int:
    """Bytes; ``64m``, ``64MB`` and ``64MiB`` are 64 << 20."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmgt]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 64MB or 1.5GB (units of 1024)")
    return int(float(found[1]) * _UNITS[found[2]])


def pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is no KEY=VALUE")
    return key, value


def duration_s(text: str) -> int:
    """Seconds; ``90s``, ``15m``, ``2h``, ``7d``."""
    found = re.fullmatch(r"([0-9]{1,18})([smhd])", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 15m, 2h or 7d")
    return int(found[1]) * DURATION_S[found[2]]
