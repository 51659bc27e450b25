"""What commands print: one JSON document for programs, or lines for people; and how far they are.

Knows standard output, terminals and the clock. Must not know what is printed. Contract: texts of a file
cannot turn lines around or give a terminal orders; JSON is ASCII, in one line, and always the whole document;
progress is shown where standard error is a terminal, once the work takes long.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from orcstream._printable import printable
from orcstream.io.loop.uncancelled import end_task

# Of a value in a table, so many characters.
_LONGEST = 40
_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 0.2


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


class Progress:
    """Writes what `text` answers to standard error, over and over, as long as the block lasts.

    Nothing is to be printed to the terminal meanwhile; who does that says that it is not `shown`.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self.text: Callable[[], str] = str
        self._shown = shown
        self._begin_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begin_s

    async def __aenter__(self) -> Self:
        if self._shown and sys.stderr.isatty():
            self._task = asyncio.create_task(self._show(), name="orcstream progress")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await end_task(self._task)

    async def _show(self) -> None:
        await asyncio.sleep(_PROGRESS_AFTER_S)
        try:
            while True:
                sys.stderr.write(f"\r\x1b[K{self.text()}")
                sys.stderr.flush()
                await asyncio.sleep(_PROGRESS_EVERY_S)
        finally:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
