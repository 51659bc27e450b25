"""How the files of a table are read: opened with what has to be known before their rows, and shaped.

Knows buckets and events. Must not know which file is read when (`table.lanes`), how rows are told from
events (`merging`), nor what users asked for.

Half of the memory is for the file whose turn it is, a quarter for those ahead of it, a quarter for keys of
deleted rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from orcstream.acid.read.bucket import Bucket
from orcstream.acid.read.event_file import EventFile
from orcstream.acid.read.merging import Output
from orcstream.acid.read.row_ids import KeyBudget
from orcstream.batch import Batch
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.plan.acid.snapshot import AcidFile
from orcstream.plan.acid.write_ids import WriteIds
from orcstream.query.expr import Expr
from orcstream.reader.engine.budget import chunk_limit_of
from orcstream.reader.engine.observing import ReadStatistics
from orcstream.reader.file import OrcFile
from orcstream.reader.stream import BatchStream
from orcstream.table.lanes import Deliver, LaneMemory, LanesPlan
from orcstream.table.partition_values import PartitionRow

OpenFile: TypeAlias = Callable[[AcidFile], Awaitable[OrcFile]]

# Files under way at once.
_AT_ONCE = 8


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
    batches: Callable[[EventFile, FileRead, bool, LaneMemory], Awaitable[BatchStream]]
    check: Callable[[EventFile], None]
    memory_limit: int
    batch_rows: int


def lanes_of(read: TableRead) -> LanesPlan:
    budget = KeyBudget(read.memory_limit // 4)
    buckets = {id(one.bucket): one.bucket for one in read.files}

    async def end() -> None:
        for bucket in buckets.values():
            await bucket.aclose()

    return LanesPlan(
        units=[_FileUnit(read, one, budget) for one in read.files],
        turn_bytes=read.memory_limit // 2,
        ahead_bytes=read.memory_limit // 4,
        chunk_bytes=chunk_limit_of(read.memory_limit),
        at_once=_AT_ONCE,
        end=end,
    )


class _FileUnit:
    """A file of events. It is opened when it may be read: keys of deleted rows would take memory ahead."""

    def __init__(self, plan: TableRead, read: FileRead, budget: KeyBudget) -> None:
        self._plan = plan
        self._file = read
        self._budget = budget
        self._opened: EventFile | None = None

    @property
    def length(self) -> int:
        return self._file.file.length

    async def begin(self) -> None:
        """Nothing."""

    async def read(self, memory: LaneMemory, deliver: Deliver) -> ReadStatistics:
        plan, read = self._plan, self._file
        if self._opened is None:
            await read.bucket.prepare(plan.open_file, self._budget)
            self._opened = await read.bucket.file(read.file, plan.open_file)
            plan.check(self._opened)
        file = self._opened
        memory.check_chunks(file.orc.tail.postscript.compression_block_size)
        hidden = read.bucket.hidden
        with_ids = plan.output.needs_ids or hidden is not None or file.needs_ids(plan.write_ids)
        async with await plan.batches(file, read, with_ids, memory) as stream:
            async for batch in stream:
                events = file.events(batch, with_ids=with_ids)

                def shaped(events: Any = events) -> Batch | None:
                    return plan.output.rows(file, events, read.partition, plan.write_ids, hidden)

                rows = await run_in_thread(shaped)
                if rows is not None:
                    await deliver(rows)
            return stream.stats

    async def end(self) -> None:
        await self._file.bucket.close_file(self._opened)
