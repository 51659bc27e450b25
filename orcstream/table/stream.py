"""Batches of a table, file by file: what the consumer holds; and how long a table is open.

Knows how rows of small files are put together. Must not know files, nor how they are read (`table.lanes`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from orcstream.batch import Batch, BatchSchema
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.tasks import Supervisor, TaskStarter, keep_alive
from orcstream.io.loop.uncancelled import called, until_over
from orcstream.reader.engine.observing import ReadStatistics
from orcstream.reader.engine.shaping import Gathering
from orcstream.reader.stream import Batches
from orcstream.table.lanes import Lanes, LanesPlan

# Of the memory ahead, what rows of small files that wait to become a batch may take.
_CRUMBS = 8


class TableStream(Batches[Lanes]):
    """Batches of a table, file by file; best inside ``async with ... as stream``.

    Rows of one file come in its order. Errors are raised at the step that needs the rows concerned, and at
    every later one. A stream is for one task at a time.
    """

    def __init__(
        self,
        owner: object,
        schema: BatchSchema,
        plan: LanesPlan,
        tasks: TaskStarter,
        url: str,
        *,
        batch_rows: int,
        limit: int | None = None,
    ) -> None:
        self._lanes = Lanes(plan)
        super().__init__(owner, self._lanes, tasks, url)
        self._schema = schema
        self._batch_rows = batch_rows
        self._left = limit  # rows that are still wanted, where there is an end to them
        self._rest = Gathering(schema, plan.ahead_bytes // _CRUMBS)
        self._taken: Batch | None = None  # from a lane, and not put to the rest yet
        self._found: Batch | None = None

    @property
    def batch_schema(self) -> BatchSchema:
        return self._schema

    @property
    def stats(self) -> ReadStatistics:
        """What was done to read the files that are through; opening them is not counted, nor are deletes."""
        return self._lanes.statistics

    async def _finish(self) -> None:
        if self._left is not None:
            self._lanes.stop()
        await self._lanes.wait_stopped()  # else it ends by itself, with all that is held meanwhile

    async def _next(self) -> Batch | None:
        batch = None if self._left == 0 else await self._gathered()
        return batch if batch is None or self._left is None else self._within(batch)

    def _within(self, batch: Batch) -> Batch:
        """The rows that are still wanted."""
        assert self._left is not None
        wanted = min(batch.num_rows, self._left)
        self._left -= wanted
        return batch if wanted == batch.num_rows else batch.slice(0, wanted)

    async def _gathered(self) -> Batch | None:
        """Rows, together where they are few: many files have only some."""
        self._lanes.start(self._tasks)
        wanted = self._batch_rows if self._left is None else min(self._batch_rows, self._left)
        while self._found is None:
            if self._taken is None:
                try:
                    self._taken = await self._lanes.next()
                except Exception:
                    if not self._rest.has_rows:
                        raise  # else it is raised again by the next step
            if self._taken is None and not self._rest.has_rows:
                return None
            await called(partial(self._gather, wanted), is_large=self._rest.is_wide)
        found, self._found = self._found, None
        return found

    def _gather(self, wanted: int) -> None:
        """Put what was taken to the rest. What comes of it stays, if the step is cancelled meanwhile."""
        batch, self._taken = self._taken, None
        self._found = self._rest.finish() if batch is None else self._rest.add(batch, wanted)

    def __repr__(self) -> str:
        return f"<TableStream of {self._url}: {len(self.schema)} columns>"


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
