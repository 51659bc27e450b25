"""A stream of batches, and its life time.

A stream may be opened in one task and left in another, and no `yield` stands inside a task group. Leaving
`async with`, the end of the rows, closing the file and dropping the stream all stop what reads for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

import anyio

from orcstream.batch import Batch, BatchSchema
from orcstream.errors import UsageError
from orcstream.io.loop.tasks import OneTask, R, Stream, TaskStarter
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.planned import PlannedRead, ReadingPlan
from orcstream.schema.schema import Schema


class Batches(Stream[Batch, R]):
    """Batches of one schema, for one task at a time."""

    def __init__(self, owner: object, running: R | None, tasks: TaskStarter, url: str) -> None:
        super().__init__(running, url, OneTask("two tasks use one stream; give each its own", url))
        self._owner = owner  # the file or table stays open while one of its streams is in use
        self._tasks = tasks

    @property
    @abstractmethod
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that are read."""

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that are read."""
        return self.batch_schema.schema

    def __arrow_c_schema__(self) -> object:
        return self.batch_schema.__arrow_c_schema__()


More: TypeAlias = Callable[[int], Awaitable[bool]]


class BatchStream(Batches[PlannedRead]):
    """Batches in row order: ``async for batch in stream``, best inside ``async with ... as stream``.

    Errors are raised at the step that needs the rows concerned, and at every later one. A stream is for one
    task at a time.
    """

    def __init__(
        self,
        owner: object,
        make_plan: Callable[[int], tuple[ReadingPlan, int]],
        tasks: TaskStarter,
        url: str,
        more: More | None,
        *,
        plans_long: bool,
    ) -> None:
        """`make_plan` plans a read from a row on, and answers how many rows the file has for it.

        Where it `plans_long`, the first step has it done on a thread; else it is done here. `more` waits for
        rows from a row on, and answers whether there are any; None where there never are.
        """
        super().__init__(owner, None, tasks, url)
        self._make_plan = make_plan
        self._plans_long = plans_long
        self._more = more
        self._is_drained = False
        self._row_count = 0
        if not plans_long:
            self._begin(make_plan(0))
        self._past: list[ReadStatistics] = []
        self._closed = False
        self._looking: anyio.CancelScope | None = None  # for more rows

    def _begin(self, planned: tuple[ReadingPlan, int]) -> PlannedRead:
        plan, self._row_count = planned
        if plan.brief:
            from orcstream.reader.brief import BriefRead

            self._running = BriefRead(plan)
        else:
            from orcstream.reader.reading import Reading

            self._running = Reading(plan)
        return self._running

    @property
    def _reading(self) -> PlannedRead:
        """What runs; planned at once where somebody asks before the first step."""
        return self._running or self._begin(self._make_plan(0))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "ended" if self._ended else "open"
        columns = f"{len(self.schema)} columns, " if self._running is not None else ""
        return f"<BatchStream of {self._url}: {columns}{state}>"

    @property
    def batch_schema(self) -> BatchSchema:
        return self._reading.plan.schema

    @property
    def masked_columns(self) -> tuple[str, ...]:
        """Dotted names of the encrypted columns whose key was not had: they hold what their masks left."""
        return self.batch_schema.masked

    @property
    def stats(self) -> ReadStatistics:
        """What was done so far, before and after any `seek`."""
        now = self._reading.statistics()
        for past in self._past:
            now = now + past
        return now

    async def _planned(self, row: int) -> PlannedRead:
        if not self._plans_long:
            return self._begin(self._make_plan(row))
        planned = await run_in_thread(lambda: self._make_plan(row))
        if self._closed:  # meanwhile, by another task
            raise self._was_closed()
        return self._begin(planned)

    async def _next(self) -> Batch | None:
        while True:
            if not self._is_drained:
                reading = self._running or await self._planned(0)
                reading.start(self._tasks)
                batch = await reading.next()
                if batch is not None or self._more is None:
                    return batch
                self._is_drained = True
            if self._more is None or not await self._look(self._more):
                return None
            await self._restart(self._row_count)

    async def _look(self, more: More) -> bool:
        """Wait for more rows, until the stream is closed."""
        try:
            with anyio.CancelScope() as self._looking:
                return await more(self._row_count)
        finally:
            self._looking = None
        raise self._was_closed()

    async def _restart(self, row: int) -> None:
        await self._stop()
        if self._closed:  # meanwhile, by another task
            raise self._was_closed()
        before = self._running
        await self._planned(row)
        if before is not None:
            self._past.append(before.statistics())
        self._is_drained = False

    async def seek(self, row: int) -> None:
        """Go on with row `row` of the file, backwards too; with the first one after it that the read wants.

        Costs two hops, less where what is needed came with the tail. Raises `UsageError` for a row that the
        file has not, but for the one after the last, where the stream ends.
        """
        with self._guard:
            if self._closed:
                raise UsageError("the stream is closed", url=self._url)
            if self._running is None:
                await self._planned(0)
            if type(row) is not int or not 0 <= row <= self._row_count:
                raise UsageError(f"no row {row!r}: the file has {self._row_count}", url=self._url)
            await self._restart(row)
            self._ended, self._failure = False, None

    async def aclose(self) -> None:
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
        await super().aclose()

    def _was_closed(self) -> UsageError:
        return UsageError("the stream was closed while it was read", url=self._url)

    async def __aenter__(self) -> Self:
        if self._plans_long and self._running is None and not self._closed:
            await self._planned(0)  # or whoever asks for the schema before the first step would hold the loop
        return self
