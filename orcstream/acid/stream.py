"""Batches of a table: its files read in order, some of them ahead of their turn.

Knows files, buckets and how many may be under way. Must not know how rows are told from events (`merging`),
nor what users asked for. As of a file, the tasks belong to a supervisor and never to the consumer's, the
running part does not know the stream, and dropping that one stops it.

A small file is read whole ahead of its turn, next to others; a large one begins when its turn has come. Half
of the memory is for the file whose turn it is, a quarter for those ahead of it, a quarter for keys of deleted
rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio

from orcstream.acid.bucket import Bucket
from orcstream.acid.event_file import EventFile
from orcstream.acid.merging import Output, joined
from orcstream.acid.partition_values import PartitionRow
from orcstream.acid.row_ids import KeyBudget
from orcstream.batch import Batch, BatchSchema
from orcstream.codec.column import vector_bytes
from orcstream.errors import OrcError, UsageError
from orcstream.expr import Expr
from orcstream.io.scheduler import TaskStarter
from orcstream.io.threads import run_in_thread
from orcstream.plan.acid import AcidFile
from orcstream.plan.write_ids import WriteIds
from orcstream.reader.budget import LEAST_LIMIT
from orcstream.reader.file import OrcFile
from orcstream.reader.stream import BatchStream, ReadStatistics
from orcstream.schema import Schema

__all__ = ["FileRead", "OpenFile", "TableRead", "TableStream"]

OpenFile: TypeAlias = Callable[[AcidFile], Awaitable[OrcFile]]

# Files under way at once, and batches that one of them may be ahead of the consumer.
_AHEAD = 8
_WAITING = 2


@dataclass(frozen=True, slots=True)
class FileRead:
    """One file to be read: its bucket, its partition's values, and what is asked of its rows beside those."""

    file: AcidFile
    bucket: Bucket
    partition: PartitionRow
    where: Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """A read of a table. `batches` answers those of a file, with or without ids, in so much memory."""

    files: Sequence[FileRead]
    output: Output
    write_ids: WriteIds
    open_file: OpenFile
    batches: Callable[[EventFile, FileRead, bool, int], BatchStream]
    check: Callable[[EventFile], None]
    memory_limit: int
    batch_rows: int

    @property
    def ahead_limit(self) -> int:
        """Memory of one file that is read ahead."""
        return max(self.memory_limit // 4 // _AHEAD, LEAST_LIMIT)

    def is_small(self, read: FileRead) -> bool:
        """Whether it may be read ahead of its turn: compressed bytes become several times as many."""
        return read.file.length <= self.ahead_limit // 4


class _Lane:
    """One file under way. The consumer is told by `changed`."""

    def __init__(self, read: FileRead) -> None:
        self.read = read
        self.batches: deque[Batch] = deque()
        self.error: Exception | None = None
        self.is_done = False
        self.is_whole = False  # all of its rows were read
        self.changed = anyio.Event()

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def end(self) -> None:
        self.is_done = True
        self.tell()


class _Reading:
    """The running part of a stream; it does not know the stream."""

    def __init__(self, plan: TableRead) -> None:
        self.plan = plan
        self._loop = asyncio.get_running_loop()
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._has_begun = False
        self._lanes: deque[_Lane] = deque()
        self._waiting = deque(plan.files)
        self._room = anyio.Event()
        self._budget = KeyBudget(plan.memory_limit // 4)
        self.statistics = ReadStatistics(**{one.name: 0 for one in fields(ReadStatistics)})

    # --- tasks

    async def run(self) -> None:
        """Read until stopped; for the table's supervisor."""
        self._has_begun = True
        buckets = {id(read.bucket): read.bucket for read in self.plan.files}
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    while self._waiting:
                        while self._waiting and self._fits(self._waiting[0]):
                            lane = _Lane(self._waiting.popleft())
                            self._lanes.append(lane)
                            limit = self._limit_of(lane)
                            tasks.start_soon(self._read, lane, limit, name="orcstream table file")
                            self._tell()
                        if self._waiting:
                            await self._room.wait()
        finally:
            with anyio.CancelScope(shield=True):
                for bucket in buckets.values():
                    await bucket.aclose()
            self._finished.set()
            for lane in self._lanes:  # a task that was stopped before its first step says nothing
                lane.end()
            self._tell()

    def _fits(self, read: FileRead) -> bool:
        if not self._lanes:
            return True
        return len(self._lanes) < _AHEAD and self.plan.is_small(read)

    def _limit_of(self, lane: _Lane) -> int:
        if self.plan.is_small(lane.read):
            return self.plan.ahead_limit
        return max(self.plan.memory_limit // 2, LEAST_LIMIT)

    def _tell(self) -> None:
        self._room.set()
        self._room = anyio.Event()

    async def _read(self, lane: _Lane, limit: int) -> None:
        read, plan = lane.read, self.plan
        file: EventFile | None = None
        try:
            await read.bucket.prepare(plan.open_file, self._budget)
            file = await read.bucket.file(read.file, plan.open_file)
            plan.check(file)
            await self._deliver(lane, file, limit)
        except Exception as error:  # noqa: BLE001 - raised to the consumer when its turn has come
            lane.error = error
        else:
            lane.is_whole = True
        finally:
            await read.bucket.close_file(file)
            lane.end()

    async def _deliver(self, lane: _Lane, file: EventFile, limit: int) -> None:
        plan, read = self.plan, lane.read
        hidden = read.bucket.hidden
        with_ids = plan.output.needs_ids or hidden is not None or file.needs_ids(plan.write_ids)
        async with plan.batches(file, read, with_ids, limit) as stream:
            async for batch in stream:
                events = file.events(batch, with_ids=with_ids)

                def shaped(events: Any = events) -> Batch | None:
                    return plan.output.rows(file, events, read.partition, plan.write_ids, hidden)

                rows = await run_in_thread(shaped)
                if rows is None:
                    continue
                while len(lane.batches) >= _WAITING:
                    await lane.changed.wait()
                lane.batches.append(rows)
                lane.tell()
            found = stream.stats
        self.statistics += found

    # --- the consumer's side

    def start(self, tasks: TaskStarter) -> None:
        try:
            tasks.start_soon(self.run, name="orcstream table read")
        except RuntimeError:
            raise UsageError("the table is closed") from None

    async def next(self) -> Batch | None:
        """The next rows of a file, or None at the end. A step that is cancelled loses none."""
        while True:
            if not self._lanes:
                if not self._waiting:
                    return None
                if self._finished.is_set() or self._scope.cancel_called:
                    raise _was_closed()
                await self._room.wait()
                continue
            lane = self._lanes[0]
            if lane.batches:
                batch = lane.batches.popleft()
                lane.tell()
                return batch
            if lane.error is not None:
                raise lane.error
            if lane.is_done:
                if not lane.is_whole:
                    raise _was_closed()
                self._lanes.popleft()
                self._tell()
                continue
            await lane.changed.wait()

    def stop(self) -> None:
        self._scope.cancel()
        self._tell()

    def stop_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and its tasks with it
            self._loop.call_soon_threadsafe(self.stop)

    async def wait_stopped(self) -> None:
        if self._has_begun:
            with anyio.CancelScope(shield=True):
                await self._finished.wait()


def _was_closed() -> UsageError:
    return UsageError("the table or the stream was closed while it was read")


class TableStream:
    """Batches of a table, file by file; best inside ``async with ... as stream``.

    Rows of one file come in its order. Errors are raised at the step that needs the rows concerned, and at
    every later one. A stream is for one task at a time.
    """

    def __init__(self, owner: object, plan: TableRead, tasks: TaskStarter, url: str) -> None:
        self._owner = owner  # the table stays open while one of its streams is in use
        self._plan = plan
        self._reading = _Reading(plan)
        self._tasks = tasks
        self._url = url
        self._started = self._busy = self._ended = False
        self._failure: Exception | None = None
        self._crumbs: list[Batch] = []

    @property
    def schema(self) -> Schema:
        """The ORC types of the columns that are read."""
        return self.batch_schema.schema

    @property
    def batch_schema(self) -> BatchSchema:
        """The Arrow fields of the columns that are read."""
        return self._plan.output.schema

    @property
    def stats(self) -> ReadStatistics:
        """What was done to read the files that are through; opening them and deletes are not counted."""
        return self._reading.statistics

    def __arrow_c_schema__(self) -> object:
        return self.batch_schema.__arrow_c_schema__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._busy:
            raise UsageError("two tasks read from one stream; give each its own", url=self._url)
        if self._failure is not None:
            raise self._failure
        if self._ended:
            raise StopAsyncIteration
        self._busy = True
        try:
            batch = await self._next()
        except Exception as error:
            self._failure = error
            if isinstance(error, OrcError):
                error.locate(url=self._url)
            self._reading.stop()
            raise
        finally:
            self._busy = False
        if batch is None:
            self._ended = True
            await self._reading.wait_stopped()
            raise StopAsyncIteration
        return batch

    async def _next(self) -> Batch | None:
        """Rows, together where they are few: many files have only some."""
        if not self._started:
            self._started = True
            self._reading.start(self._tasks)
        wanted = self._plan.batch_rows
        while True:
            try:
                batch = await self._reading.next()
            except Exception:
                if self._crumbs:
                    return self._swept()  # the failure is raised again by the next step
                raise
            if batch is None:
                return self._swept()
            held = sum(crumb.num_rows for crumb in self._crumbs)
            if not held and 2 * batch.num_rows >= wanted:
                return batch
            if held and held + batch.num_rows > wanted:
                found = self._swept()
                self._crumbs.append(batch)
                return found
            self._crumbs.append(batch)
            if sum(map(_bytes_of, self._crumbs)) > self._plan.ahead_limit:
                return self._swept()

    def _swept(self) -> Batch | None:
        crumbs, self._crumbs = self._crumbs, []
        return joined(self.batch_schema, crumbs) if crumbs else None

    async def aclose(self) -> None:
        """Stop fetching and decoding, and wait until nothing of it is left."""
        self._ended = True
        self._reading.stop()
        await self._reading.wait_stopped()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        reading = getattr(self, "_reading", None)
        if reading is not None and not self._ended:
            reading.stop_from_any_thread()

    def __repr__(self) -> str:
        return f"<TableStream of {self._url}: {len(self.schema)} columns>"


def _bytes_of(batch: Batch) -> int:
    return sum(map(vector_bytes, batch.vectors))
