"""What commands print: one JSON document for programs, or lines for people.

Knows standard output. Must not know what is printed. Contract: texts of a file cannot turn lines around or
give a terminal orders; JSON is ASCII, in one line, and always the whole document.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from orcstream._printable import printable

# Of a value in a table, so many characters.
_LONGEST = 40


def add_json(command: argparse._ActionsContainer) -> None:
    """The option of all commands that say what they found or did."""
    command.add_argument("--json", action="store_true", help="what is printed, as one JSON document")


def report(options: argparse.Namespace, document: Any, lines: Iterable[str]) -> None:
    """Print what was found: the document with --json, else the lines; those are not asked for in vain."""
    if options.json:
        write([json.dumps(document, default=_plain)])
    else:
        write(map(printable, lines))


def write(lines: Iterable[str]) -> None:
    """Lines to standard output: always UTF-8, and at once."""
    sys.stdout.buffer.write("".join(line + "\n" for line in lines).encode())
    sys.stdout.buffer.flush()


def aligned(rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """A table whose first row are the heads: `texts` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at < texts else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def short(value: object) -> str:
    """A value for a table, cut where it is long; nothing for None."""
    text = "" if value is None else f"{value:,}" if type(value) is int else printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _plain(value: Any) -> Any:
    """Mappings of any kind; everything else is a mistake of ours."""
    return dict(value)
