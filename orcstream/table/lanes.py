"""The files of a table, read in order, some of them ahead of their turn.

Knows how many files may be under way, and in how much memory each. Must not know what a file is made of, nor
what users asked for: a `Unit` answers batches. The tasks belong to a supervisor and never to the consumer's,
the running part does not know the stream, and dropping that one stops it.

Files begin in their order, as many as `at_once` says: what can be known of one before its rows are read is
known when its turn comes. Rows are read ahead where there is memory: one whose turn it is has `turn_bytes`,
and those behind it share `ahead_bytes`, small ones next to each other and of large ones the first. A limit
that was too small for what is in a file is no error of the file: it is read again when its turn has come.
Chunks in progress are shared out in the same way: all of `chunk_bytes` for the file whose turn it is, an
eighth of that for those behind it. Once they were too large for one of these, or one chunk might be, no other
is read ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeAlias

import anyio

from orcstream.batch import Batch
from orcstream.errors import Unsupported, UsageError
from orcstream.io.loop.tasks import Running, Signal
from orcstream.io.loop.uncancelled import until_over
from orcstream.reader.engine.budget import LEAST_LIMIT
from orcstream.reader.engine.observing import ReadStatistics

# Takes rows of a unit, and waits until there is room for them.
Deliver: TypeAlias = Callable[[Batch], Awaitable[None]]

# Batches that a file may be ahead of the consumer.
_WAITING = 2
# Compressed bytes become several times as many; and with less, a small file would come in many small pieces.
_EXPANSION = 8
_LEAST_AHEAD = 2 << 20
# What a file may be refused for that would be read in more memory.
_CHUNKS_TOO_LARGE = "chunks_too_large"
_TOO_LARGE = frozenset({"dictionary_too_large", "row_too_large", _CHUNKS_TOO_LARGE})
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

    `guard` is held from before the first file begins until after `end`, and the last step of a reader waits
    for its end. It may fail, and end the read, at any time.
    """

    units: Sequence[Unit]
    turn_bytes: int
    ahead_bytes: int
    chunk_bytes: int
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
        self._reads_ahead = True
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
        left = plan.ahead_bytes - sum(lane.memory.limit for lane in behind if lane.memory is not None)
        for lane in behind:
            if lane.memory is not None:
                continue
            length = lane.unit.length
            if length is None:
                return
            roomy = max(length * _EXPANSION, _LEAST_AHEAD)
            wanted = max(min(roomy, plan.ahead_bytes), LEAST_LIMIT)
            if wanted > left:
                return
            left -= wanted
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
            if error.reason == _CHUNKS_TOO_LARGE:
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
