"""How long a table of many files is open: its tasks, and the connections that it keeps.

Knows life times. Must not know what a table is. One that nobody closed gives its connections back when it is
dropped, from whatever thread.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.uncancelled import until_over
from orcstream.reader.engine.supervisor import Supervisor, keep_alive


class TableLife:
    """The tasks of an open table and of its views, and the connections that they keep."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.tasks = Supervisor()
        self._clients = keep_clients()
        self.is_ended = False

    async def end(self) -> None:
        """Stop all tasks and give the connections back, even if this is cancelled; may be called again."""
        if not self.is_ended:
            self.is_ended = True
            await until_over(self._end())

    async def _end(self) -> None:
        try:
            await self.tasks.end()
        finally:
            await self._clients.aclose()

    def __del__(self) -> None:
        if not self.is_ended:
            with suppress(RuntimeError):  # the loop is closed, and its connections with it
                self._loop.call_soon_threadsafe(_give_back, self._clients)


def _give_back(clients: Lease[Client]) -> None:
    keep_alive(asyncio.ensure_future(clients.aclose()))
