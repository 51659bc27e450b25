"""Texts from outside (names of files and columns, answers of servers), made fit for a terminal and a log.

What no letter, digit, sign or space is comes as its escape: orders for a terminal, line ends, and marks that
turn the line around.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

_MOST_LISTED = 10


def printable(line: str) -> str:
    """Return one line without anything that is not printable. Applied twice, it changes no more."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)


def printable_lines(text: str) -> str:
    """Return the same lines, each printable."""
    return "\n".join(map(printable, text.split("\n")))


def listed(names: Sequence[str]) -> str:
    """Return the first names, quoted, and how many more there are: a file may have millions."""
    more = len(names) - _MOST_LISTED
    shown = ", ".join(map(repr, names[:_MOST_LISTED]))
    return f"{shown} and {more:,} more" if more > 0 else shown


def shortened(text: str, most: int = 60) -> str:
    """Return at most so many characters of a text, with dots for the rest."""
    return text if len(text) <= most else text[: most - 3] + "..."


def logger_of(name: str) -> logging.Logger:
    """Return the logger of that name. Texts in its records are printable, whoever writes them where."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_printable)  # adding it a second time changes nothing
    return logger


def _make_printable(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_argument, record.args))
    return True


def _argument(value: Any) -> object:
    return value if isinstance(value, int | float) else printable(str(value))
