"""Batches of a table: its files, read in order, some ahead of their turn; and what the consumer holds.

Knows how many files may be under way, and in how much memory each. Must not know what a file is made of,
nor what users asked for: a `Unit` answers batches. The tasks belong to a supervisor and never to the
consumer's, the running part does not know the stream, and dropping that one stops it.

Files begin in their order, as many as `at_once` says: what can be known of one before its rows are read is
known when its turn comes. Rows are read ahead where there is memory: one whose turn it is has `turn_bytes`,
and those behind it share `ahead_bytes`, small ones next to each other and of large ones the first. A limit
that was too small for what is in a file is no error of the file: it is read again when its turn has come.
Chunks in progress are shared out in the same way: all of `chunk_bytes` for the file whose turn it is, an
eighth of that for those behind it. Once they were too large for one of these, or one chunk might be, no
other is read ahead.

The stream that the consumer holds puts rows of small files together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio

from orcstream.batch import Batch, BatchSchema
from orcstream.errors import Unsupported, UsageError
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.tasks import Running, Signal, Supervisor, TaskStarter, keep_alive
from orcstream.io.loop.uncancelled import called, until_over
from orcstream.reader.engine.budget import LEAST_LIMIT, TOO_MANY_COLUMNS
from orcstream.reader.engine.pipeline import Gathering
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.stream import Batches

# Takes rows of a unit, and waits until there is room for them.
Deliver: TypeAlias = Callable[[Batch], Awaitable[None]]

# Batches that a file may be ahead of the consumer.
_WAITING = 2
# Compressed bytes become several times as many; and with less, a small file would come in many small pieces.
_EXPANSION = 8
_LEAST_AHEAD = 2 << 20
# What a file may be refused for that would be read in more memory.
_CHUNKS_TOO_LARGE = "chunks_too_large"
_OF_ALL_FILES = frozenset({_CHUNKS_TOO_LARGE, TOO_MANY_COLUMNS})
_TOO_LARGE = _OF_ALL_FILES | {"dictionary_too_large", "row_too_large"}
_AHEAD_CHUNKS = 8


@dataclass(frozen=True, slots=True)
class LaneMemory:
    """What a file may take: its `memory_limit`, and bytes for chunks that columns are in the middle of."""

    limit: int
    chunk_limit: int
    is_ahead: bool = False

    def check_chunks(self, block_size: int) -> None:
        """Refuse, ahead of its turn, a file of which one chunk may be too large: it would be held by then."""
        if self.is_ahead and block_size > self.chunk_limit:
            raise Unsupported(f"chunks may have {block_size} bytes", reason=_CHUNKS_TOO_LARGE)


class Unit(Protocol):
    """A file of a table. The same rows come from each `read`, in the same order."""

    @property
    def length(self) -> int | None:
        """Its size in bytes; None where that is not known before it has begun."""

    async def begin(self) -> None:
        """What is done ahead of its turn, whatever its size."""

    async def read(self, memory: LaneMemory, deliver: Deliver) -> ReadStatistics:
        """Deliver its rows."""

    async def end(self) -> None:
        """Give back what it holds; the last call, however the others ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesPlan:
    """What is read, and in how much memory; see the module. `end` is called when nothing runs any more.

    `column_bytes` are what the read of a file keeps for its columns; ahead of its turn, it comes from
    `ahead_bytes`.
    `guard` is held from before the first file begins until after `end`, and the last step of a reader waits
    for its end. It may fail, and end the read, at any time.
    """

    units: Sequence[Unit]
    turn_bytes: int
    ahead_bytes: int
    chunk_bytes: int
    column_bytes: int
    at_once: int
    end: Callable[[], Coroutine[Any, Any, None]] | None = None
    guard: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


class _Lane:
    """One file under way. The consumer is told by `changed`, the file by `admitted` that it may be read."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.batches: deque[Batch] = deque()
        self.memory: LaneMemory | None = None  # none yet
        self.admitted = anyio.Event()
        self.has_turn = anyio.Event()
        self.error: Exception | None = None
        self.is_done = False
        self.is_whole = False  # all of its rows were read
        self.changed = Signal()

    def admit(self, memory: LaneMemory) -> None:
        self.memory = memory
        self.admitted.set()

    def end(self) -> None:
        self.is_done = True
        self.changed.notify()


class Lanes(Running):
    """The running part of a stream."""

    name, owner = "orcstream table read", "table"

    def __init__(self, plan: LanesPlan) -> None:
        super().__init__()
        self._plan = plan
        self._lanes: deque[_Lane] = deque()
        self._waiting = deque(plan.units)
        self._changed = Signal()
        self._of_turn = LaneMemory(max(plan.turn_bytes, LEAST_LIMIT), plan.chunk_bytes)
        # Of files of some hundred columns it is little beside the least that is read ahead.
        self._kept_bytes = max(0, plan.column_bytes - _LEAST_AHEAD)
        self._reads_ahead = self._kept_bytes <= plan.ahead_bytes // 2
        self.statistics = ReadStatistics(**{one.name: 0 for one in fields(ReadStatistics)})

    # --- tasks

    async def _work(self) -> None:
        async with self._plan.guard():
            await self._read_all()

    def _end(self) -> None:
        for lane in self._lanes:  # a task that was stopped before its first step says nothing
            lane.end()
        self._changed.notify()

    async def _read_all(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                while self._waiting or self._lanes:
                    while self._waiting and len(self._lanes) < self._plan.at_once:
                        lane = _Lane(self._waiting.popleft())
                        self._lanes.append(lane)
                        tasks.start_soon(self._read_lane, lane, name="orcstream table file")
                    self._admit()
                    self._changed.notify()
                    await self._changed.wait()
        finally:
            if self._plan.end is not None:
                await until_over(self._plan.end())

    def _admit(self) -> None:
        """Say which files may be read now, in their order."""
        plan = self._plan
        if not self._lanes:
            return
        first, *behind = self._lanes
        first.has_turn.set()
        if first.memory is None:
            first.admit(self._of_turn)
        if not self._reads_ahead:
            return
        kept = self._kept_bytes
        left = plan.ahead_bytes - sum(lane.memory.limit + kept for lane in behind if lane.memory is not None)
        for lane in behind:
            if lane.memory is not None:
                continue
            length = lane.unit.length
            if length is None:
                return
            roomy = max(length * _EXPANSION, _LEAST_AHEAD)
            wanted = max(min(roomy, plan.ahead_bytes - kept), LEAST_LIMIT)
            if wanted + kept > left:
                return
            left -= wanted + kept
            chunks = plan.chunk_bytes // _AHEAD_CHUNKS * wanted // max(plan.ahead_bytes, wanted)
            lane.admit(LaneMemory(wanted, chunks, is_ahead=True))

    async def _read_lane(self, lane: _Lane) -> None:
        try:
            await lane.unit.begin()
            self._changed.notify()
            await lane.admitted.wait()
            found = await self._read(lane)
            self.statistics += found  # apart: others add theirs meanwhile
        except Exception as error:  # noqa: BLE001 - raised to the consumer when its turn has come
            lane.error = error
        else:
            lane.is_whole = True
        finally:
            await until_over(lane.unit.end())
            lane.end()

    async def _read(self, lane: _Lane) -> ReadStatistics:
        delivered = 0

        async def deliver(batch: Batch) -> None:
            nonlocal delivered
            while len(lane.batches) >= _WAITING:
                await lane.changed.wait()
            lane.batches.append(batch)
            delivered += batch.num_rows
            lane.changed.notify()

        assert lane.memory is not None
        try:
            return await lane.unit.read(lane.memory, deliver)
        except Unsupported as error:
            if error.reason not in _TOO_LARGE or lane.memory is self._of_turn:
                raise
            if error.reason in _OF_ALL_FILES:
                self._reads_ahead = False
        await lane.has_turn.wait()
        return await lane.unit.read(self._of_turn, _without_first(delivered, deliver))

    # --- the consumer's side

    async def next(self) -> Batch | None:
        """The next rows of a file, or None at the end. A step that is cancelled loses none."""
        while True:
            if not self._lanes:
                if not self._waiting:
                    return None
                if self._finished.is_set() or self._scope.cancel_called:
                    raise await self._reason()
                await self._changed.wait()
                continue
            lane = self._lanes[0]
            if lane.batches:
                batch = lane.batches.popleft()
                lane.changed.notify()
                return batch
            if lane.error is not None:
                raise lane.error
            if lane.is_done:
                if not lane.is_whole:
                    raise await self._reason()
                self._lanes.popleft()
                self._changed.notify()
                continue
            await lane.changed.wait()

    async def _reason(self) -> Exception:
        """Why it was stopped: the guard says so at its end."""
        if self._has_begun:
            await self._finished.wait()
        return self._error or UsageError("the table or the stream was closed while it was read")

    def stop(self) -> None:
        super().stop()
        self._changed.notify()


def _without_first(count: int, deliver: Deliver) -> Deliver:
    """Delivers what follows the first rows, which were delivered before."""
    left = count

    async def rest(batch: Batch) -> None:
        nonlocal left
        skipped = min(left, batch.num_rows)
        left -= skipped
        if skipped < batch.num_rows:
            await deliver(batch.slice(skipped) if skipped else batch)

    return rest


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
