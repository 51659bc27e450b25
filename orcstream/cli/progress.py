"""One line about work that takes long, on a terminal's standard error, written over and over.

Knows terminals and the clock. Must not know the work. Nothing is printed where standard error is no terminal,
or while the work is young.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Self

from orcstream.io.loop.uncancelled import end_task

_AFTER_S = 1.0
_EVERY_S = 0.2


class Progress:
    """Shows what `text` answers as long as the block lasts, and takes the line away at its end.

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
        await asyncio.sleep(_AFTER_S)
        try:
            while True:
                sys.stderr.write(f"\r\x1b[K{self.text()}")
                sys.stderr.flush()
                await asyncio.sleep(_EVERY_S)
        finally:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
