"""Batches of a table, file by file: what the consumer holds.

Knows how rows of small files are put together. Must not know files, nor how they are read (`table.lanes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import anyio.lowlevel

from orcstream.batch import Batch, BatchSchema
from orcstream.codec.vectors.column import vector_bytes
from orcstream.codec.vectors.gather import compact
from orcstream.errors import OrcError
from orcstream.io.loop.tasks import Closable, OneTask
from orcstream.io.request.scheduler import TaskStarter
from orcstream.reader.engine.read_statistics import ReadStatistics
from orcstream.schema.schema import Schema
from orcstream.table.lanes import Lanes, LanesPlan

# Of the memory ahead, what rows of small files that wait to become a batch may take.
_CRUMBS = 8


class TableStream(Closable):
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
        self._owner = owner  # the table stays open while one of its streams is in use
        self._schema = schema
        self._batch_rows = batch_rows
        self._left = limit  # rows that are still wanted, where there is an end to them
        self._most_crumb_bytes = plan.ahead_bytes // _CRUMBS
        self._reading = Lanes(plan)
        self._tasks = tasks
        self._url = url
        self._started = self._ended = False
        self._one_task = OneTask("two tasks use one stream; give each its own", url)
        self._failure: Exception | None = None
        self._crumbs: list[Batch] = []
        self._crumb_rows = self._crumb_bytes = 0

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that are read."""
        return self.batch_schema.schema

    @property
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that are read."""
        return self._schema

    @property
    def stats(self) -> ReadStatistics:
        """What was done to read the files that are through; opening them is not counted, nor are deletes."""
        return self._reading.statistics

    def __arrow_c_schema__(self) -> object:
        return self.batch_schema.__arrow_c_schema__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        with self._one_task:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise StopAsyncIteration
            try:
                await anyio.lowlevel.checkpoint()  # before anything is taken that a cancellation could lose
                batch = None if self._left == 0 else await self._next()
            except Exception as error:
                self._failure = error
                if isinstance(error, OrcError):
                    error.locate(url=self._url)
                self._reading.stop()
                raise
        if batch is None:
            self._ended = True
            if self._left is not None:
                self._reading.stop()
            await self._reading.wait_stopped()
            raise StopAsyncIteration
        return batch if self._left is None else self._within(batch)

    def _within(self, batch: Batch) -> Batch:
        """The rows that are still wanted."""
        assert self._left is not None
        wanted = min(batch.num_rows, self._left)
        self._left -= wanted
        return batch if wanted == batch.num_rows else batch.slice(0, wanted)

    async def _next(self) -> Batch | None:
        """Rows, together where they are few: many files have only some."""
        if not self._started:
            self._started = True
            self._reading.start(self._tasks)
        wanted = self._batch_rows if self._left is None else min(self._batch_rows, self._left)
        while True:
            try:
                batch = await self._reading.next()
            except Exception:
                if self._crumbs:
                    return self._swept()  # the failure is raised again by the next step
                raise
            if batch is None:
                return self._swept()
            if not self._crumbs and 2 * batch.num_rows >= wanted:
                return batch
            found = self._swept() if self._crumb_rows + batch.num_rows > wanted else None
            self._crumbs.append(batch)
            self._crumb_rows += batch.num_rows
            self._crumb_bytes += _bytes_of(batch)
            if found is not None:
                return found
            if self._crumb_rows >= wanted or self._crumb_bytes > self._most_crumb_bytes:
                return self._swept()

    def _swept(self) -> Batch | None:
        crumbs, self._crumbs = self._crumbs, []
        self._crumb_rows = self._crumb_bytes = 0
        return _joined(self._schema, crumbs) if crumbs else None

    async def aclose(self) -> None:
        """Stop fetching and decoding, and wait until nothing of it is left."""
        self._ended = True
        self._reading.stop()
        await self._reading.wait_stopped()

    def __del__(self) -> None:
        reading = getattr(self, "_reading", None)
        if reading is not None and not self._ended:
            reading.stop_from_any_thread()

    def __repr__(self) -> str:
        return f"<TableStream of {self._url}: {len(self.schema)} columns>"


def _bytes_of(batch: Batch) -> int:
    return sum(map(vector_bytes, batch.vectors))


def _joined(schema: BatchSchema, batches: Sequence[Batch]) -> Batch:
    """Some batches as one."""
    if len(batches) == 1:
        return batches[0]
    vectors = tuple(
        compact([(batch.vectors[at], None) for batch in batches], field_)
        for at, field_ in enumerate(schema.fields)
    )
    return Batch(schema, vectors, sum(batch.num_rows for batch in batches))
