"""From what the user asks of a table to the reads of its files; and how each file is read.

Knows the snapshot, the table's columns, buckets and events. Must not know which file is read when
(`table.lanes`), nor how rows are told from events (`event_file`).

Half of the memory is for the file whose turn it is, a quarter for those ahead of it, a quarter for keys of
deleted rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from orcstream.acid.read.bucket import Bucket
from orcstream.acid.read.event_file import IS_DELETED, OPERATION, ROW_ID, WRITE_ID, EventFile, Output
from orcstream.acid.read.row_ids import KeyBudget
from orcstream.acid.snapshot import TableSnapshot
from orcstream.batch import Batch
from orcstream.errors import Unsupported, UsageError
from orcstream.io.loop.system import core_count
from orcstream.io.loop.uncancelled import called, run_in_thread
from orcstream.plan.acid.names import event_schema
from orcstream.plan.acid.snapshot import AcidFile, Partition, WriteIds
from orcstream.plan.projection import PlacedColumns, RowColumns
from orcstream.query.expr import Expr
from orcstream.reader.engine.budget import chunk_limit_of, kept_bytes
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.file import OrcFile, batches_of, plans_long, stripes_of
from orcstream.reader.options import ReadOptions
from orcstream.reader.stream import BatchStream
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Type
from orcstream.table.columns import AskedColumns, PartitionColumns, PartitionRow, Place, relocated
from orcstream.table.lanes import Deliver, LaneMemory, LanesPlan

_FEW_CORES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadOptions:
    """What the user may ask of a read; see `AcidTable.batches`."""

    read: ReadOptions
    row_ids: bool = False
    include_deleted: bool = False
    event_write_ids: bool = False  # besides ids, for what is written again
    between: tuple[int, int] | None = None  # the write ids of changes
    check: Callable[[EventFile], None] = lambda _: None  # raises for a file that cannot be read for this

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the columns about rows."""
        if self.between is not None:
            return (OPERATION, WRITE_ID, ROW_ID)
        asked = {
            ROW_ID: self.row_ids,
            IS_DELETED: self.include_deleted,
            WRITE_ID: self.event_write_ids,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)


class TablePlanner:
    """Turns what a user asks of a table into reads of its files."""

    def __init__(
        self,
        root: Type,
        row_columns: RowColumns,
        partition_columns: PartitionColumns,
        snapshot: TableSnapshot,
        asked: TableReadOptions,
    ) -> None:
        self._row_columns = row_columns
        self._row_root = row_columns.schema.root
        self._placed: dict[Schema, PlacedColumns] = {}  # by the files' schemas
        self._partition_columns = partition_columns
        self._snapshot = snapshot
        self._asked = asked
        self._options = asked.read
        self._columns = AskedColumns(root, self._row_root, partition_columns, asked.read)
        projected = self._columns.projected
        taken = set(projected.field_names).intersection(asked.extra)
        if taken:
            raise UsageError(f"the table has a column {min(taken)!r} of its own; choose columns= without it")
        names = frozenset(partition_columns.names)
        self._output = Output(projected, names, asked.extra, self._options.vectors, asked.between)

    def plan(self, open_file: OpenFile) -> TableRead:
        return TableRead(
            files=[read for partition in self._snapshot.partitions for read in self._reads(partition)],
            output=self._output,
            write_ids=self._snapshot.write_ids,
            open_file=open_file,
            batches=self._batches,
            check=self._asked.check,
            memory_limit=self._options.memory_limit,
            batch_rows=self._options.batch_rows,
        )

    # --- files

    def _reads(self, partition: Partition) -> list[FileRead]:
        row = PartitionRow(self._partition_columns, self._partition_columns.values(partition.path))
        where = self._columns.narrowed(row)
        if where is False:
            return []
        if self._asked.between is not None:
            return self._events(partition, row, self._asked.between)
        versioned = self._snapshot.versioned(partition)
        reads = []
        for number in sorted({_bucket(file) for file in partition.inserts}):
            inserts = [file for file in partition.inserts if _bucket(file) == number]
            deletes = [file for file in partition.deletes if number < 0 or _bucket(file) in (number, -1)]
            asked = None if where is True else where
            bucket = Bucket(
                inserts,
                deletes,
                versioned,
                self._snapshot.write_ids,
                needs_ids=self._output.needs_ids,
                stripes_of=None if asked is None else partial(self._stripes, asked),
            )
            reads += [FileRead(file, bucket, row, asked) for file in inserts]
        return reads

    def _events(self, partition: Partition, row: PartitionRow, between: tuple[int, int]) -> list[FileRead]:
        """All files with events of some write ids."""
        first, last = between
        if partition.base is not None and partition.base.last_write_id >= first:
            raise Unsupported(
                f"{partition.base.name} has taken the place of the events of write ids from {first} on; "
                f"those after write id {partition.base.last_write_id} are there",
                reason="history_is_gone",
            )
        files = [
            file
            for file in (*partition.inserts, *partition.deletes)
            if _first_write_id(file) <= last and _last_write_id(file) >= first
        ]
        buckets = {
            number: Bucket(
                [file for file in files if _bucket(file) == number],
                (),
                frozenset(),
                self._snapshot.write_ids,
                needs_ids=True,
                merges=False,
            )
            for number in {_bucket(file) for file in files}
        }
        files.sort(key=lambda file: (_first_write_id(file), _last_write_id(file), file.path))
        return [FileRead(file, buckets[_bucket(file)], row, None) for file in files]

    async def _batches(
        self, file: EventFile, read: FileRead, with_ids: bool, memory: LaneMemory
    ) -> BatchStream:
        make = partial(self._options_of, file, read, with_ids, memory)
        return batches_of(file.orc, await called(make, is_large=plans_long(file.orc)))

    def _options_of(self, file: EventFile, read: FileRead, with_ids: bool, memory: LaneMemory) -> ReadOptions:
        placed, path = self._placement(file)
        ids: Sequence[tuple[str, ...]] = [(name,) for name in file.id_columns] if with_ids else []
        where = None
        if read.where is not None:
            where = self._relocated(read.where, path)
        return replace(
            self._options,
            columns=[*ids, *map(path, self._columns.of_rows)],
            where=where,
            schema=_schema_for(file, placed),
            rows=range(file.orc.row_count) if file.file.is_growing else None,
            row_numbers=with_ids and file.columns is None,
            memory_limit=memory.limit,
            chunk_limit=memory.chunk_limit,
            decode_threads=self._decode_threads(merges=read.bucket.hidden is not None),
            case_sensitive=True,  # names are the file's own here
        )

    def _decode_threads(self, *, merges: bool) -> int | None:
        """One less where rows are merged, which takes a core by itself: measured, 3.3 s instead of 4.3 s."""
        given = self._options.decode_threads
        return max(1, core_count() - 1) if given is None and merges and core_count() <= _FEW_CORES else given

    async def _stripes(self, where: Expr, file: EventFile) -> Sequence[int]:
        """The stripes that may have rows that match."""

        def make() -> ReadOptions:
            placed, path = self._placement(file)
            moved, schema = self._relocated(where, path), _schema_for(file, placed)
            return replace(self._options, columns=[], where=moved, schema=schema, case_sensitive=True)

        return await stripes_of(file.orc, await called(make, is_large=plans_long(file.orc)))

    def _relocated(self, where: Expr, path: Place) -> Expr:
        return relocated(where, self._row_root, path, self._options.matching)

    def _placement(self, file: EventFile) -> tuple[PlacedColumns, Place]:
        """Where the table's columns are in a file, and how their paths change."""
        schema, prefix = file.row_schema, file.prefix
        placed = self._placed.get(schema)
        if placed is None:
            placed = self._placed[schema] = self._row_columns.placed(schema)
        found = placed
        return found, lambda path: (*prefix, *found.path(path))


def _schema_for(file: EventFile, placed: PlacedColumns) -> Schema | None:
    """What a file is read as, where it is not what it is."""
    own, wanted = (numbered(one.root, attributes=False) for one in (file.row_schema, placed.schema))
    if own == wanted:
        return None
    return wanted if file.columns is None else event_schema(wanted, file.columns)


def _first_write_id(file: AcidFile) -> int:
    return 0 if file.directory is None else max(file.directory.first_write_id, 0)


def _last_write_id(file: AcidFile) -> int:
    return 0 if file.directory is None else file.directory.last_write_id


def _bucket(file: AcidFile) -> int:
    return -1 if file.bucket is None else file.bucket


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
        column_bytes=kept_bytes(
            read.output.schema.schema.types, late=any(one.where is not None for one in read.files)
        ),
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
        file, self._opened = self._opened, None  # the plan has all units: their metadata would add up
        await self._file.bucket.close_file(file)
