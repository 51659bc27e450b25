"""Compaction of a table: directories of events brought together as few large ones, for readers to come.

Knows which files are read and written for each bucket. Must not know Hive's rules (`plan.acid_compaction`),
nor who says what is committed. What is made counts when its transaction is committed; what it stands in for
stays where it is until `clean` removes it, since readers of earlier snapshots need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import numpy as np

from orcstream.acid.batch_rows import ids_of, rows_of
from orcstream.acid.delta_files import bucket_file_name, plain_file_name
from orcstream.acid.event_file import DELETE, INSERT, EventFile
from orcstream.acid.event_writer import VERSION, EventLayout, EventWriter, PlainWriter
from orcstream.acid.merging import OPERATION
from orcstream.acid.planning import TableReadOptions
from orcstream.acid.row_ids import DeletedKeys, KeyBudget, KeyCollector, RowIds
from orcstream.acid.stream import TableStream
from orcstream.acid.transactions import TableDefinition, Transactions, Work, kept_alive
from orcstream.batch import Batch
from orcstream.codec._row_keys import are_ascending
from orcstream.codec.arrays import items_of
from orcstream.errors import KeyUnavailable, Unsupported, UsageError
from orcstream.io import small_files
from orcstream.io.folder import below
from orcstream.io.folders import make_folder_of, remove_files, remove_folders
from orcstream.io.threads import run_in_thread
from orcstream.plan.acid import VERSION_FILE, AcidFile, Partition
from orcstream.plan.acid_compaction import CompactionKind, CompactionPlan, plan_compaction, settled_ids
from orcstream.reader.planning import ReadOptions
from orcstream.writer.creating import FileOptions, create

if TYPE_CHECKING:
    from orcstream.acid.table import AcidTable

_ALL = (0, (1 << 63) - 1)
_LEAST_MEMORY = 16 << 20
_NO_IDS = RowIds(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

__all__ = ["CompactedPartition", "Compaction", "compact"]

OnRows: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class CompactedPartition:
    """What became of a partition: `directories` were made, which stand in for those that they replace.

    These are paths below the table. `row_count` rows and `delete_count` deletes were written.
    """

    path: str
    kind: CompactionKind
    directories: tuple[str, ...]
    replaces: tuple[str, ...]
    row_count: int
    delete_count: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction that was committed, in a transaction that is in the names of what it made.

    It is 0 where there was nothing to do.
    """

    url: str
    transaction_id: int
    partitions: tuple[CompactedPartition, ...]


async def compact(
    table: AcidTable,
    transactions: Transactions,
    kind: CompactionKind,
    wanted: Callable[[Partition], bool],
    options: FileOptions,
    *,
    memory_limit: int,
    on_rows: OnRows | None,
) -> Compaction:
    """Compact the partitions that are wanted, in one transaction. See `AcidTable.compact`."""
    definition = await transactions.definition()
    transaction = await transactions.begin("compaction")
    compactor = _Compactor(definition, table.place, options, memory_limit, on_rows)
    try:
        async with kept_alive(transaction):
            seen = transaction.snapshot
            view = await table.seen(replace(seen, write_ids=settled_ids(seen.write_ids)))
            done = []
            for one in filter(wanted, view.partitions):
                plan = plan_compaction(one, kind, transaction.transaction_id)
                if plan is not None:
                    await transaction.lock("insert", [one.path])
                    done.append(await compactor.partition(view, one, plan))
            if not done:
                await transaction.abort()
                return Compaction(table.url, 0, ())
            directories = tuple(path for one in done for path in one.directories)
            replaces = tuple(path for one in done for path in one.replaces)
            await transaction.commit(Work(directories, replaces=replaces))
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            try:
                if await transaction.abort() != "committed":
                    await compactor.discard()
            except Exception as failure:  # noqa: BLE001 - the first error is the one that matters
                error.add_note(f"the compaction could not be given up: {failure}")
        raise
    return Compaction(table.url, transaction.transaction_id, tuple(done))


class _Compactor:
    """Reads and writes the buckets of partitions, one after the other."""

    def __init__(
        self,
        definition: TableDefinition,
        url: str,
        options: FileOptions,
        memory_limit: int,
        on_rows: OnRows | None,
    ) -> None:
        self._definition = definition
        self._layout = None if definition.insert_only else EventLayout(definition.schema)
        self._url = url
        self._options = options
        self._memory_limit = memory_limit
        self._on_rows = on_rows
        self._paths: list[str] = []
        self._row_count = 0

    async def partition(
        self, view: AcidTable, partition: Partition, plan: CompactionPlan
    ) -> CompactedPartition:
        """Make what is planned of one partition."""
        rows = deletes = 0
        if plan.base is not None:
            (path,) = plan.paths(plan.base)
            rows = await self._write_rows(view, partition, path, merges=True)
        else:
            above = replace(partition, base=None, inserts=_of_deltas(partition))
            for path in plan.paths(plan.inserts):
                rows = await self._write_rows(view, replace(above, deletes=()), path, merges=False)
            for path in plan.paths(plan.deletes):
                deletes = await self._write_deletes(view, partition, path)
        made = plan.paths(plan.base, plan.inserts, plan.deletes)
        return CompactedPartition(partition.path, plan.kind, made, plan.paths(*plan.replaces), rows, deletes)

    # --- rows

    async def _write_rows(self, view: AcidTable, partition: Partition, path: str, *, merges: bool) -> int:
        """All rows of a partition, or all that were ever inserted, bucket by bucket."""
        await self._begin(path)
        count = 0
        for bucket in _buckets(partition.inserts):
            part = replace(
                partition,
                inserts=tuple(file for file in partition.inserts if _bucket(file) == bucket),
                deletes=tuple(file for file in partition.deletes if _bucket(file) == bucket),
            )
            stream = view.only(part).stream(self._asked(merges=merges))
            count += await self._copy(stream, path, bucket)
        return count

    def _asked(self, *, merges: bool) -> TableReadOptions:
        names = [(name,) for name in self._definition.schema.names]
        read = ReadOptions(memory_limit=self._memory_limit // 2)
        with_ids = self._layout is not None
        if merges or not with_ids:
            return TableReadOptions(
                columns=names, read=read, row_ids=with_ids, event_write_ids=with_ids, check=self._check
            )
        return TableReadOptions(columns=names, read=read, between=_ALL, check=self._check)

    def _check(self, file: EventFile) -> None:
        """Nothing is written as its mask left it, or in the clear that was encrypted."""
        for column in file.orc.encrypted_columns:
            if not column.is_open:
                raise KeyUnavailable(f"the column {column.name} is encrypted, and its key cannot be had")
            if not self._options.get("encrypt"):
                raise UsageError(
                    f"the column {column.name} is encrypted: say how in what is made, by encrypt="
                )

    async def _copy(self, stream: TableStream, path: str, bucket: int) -> int:
        """Write what a stream of a bucket has; no file for no rows."""
        schema = self._definition.schema
        writer: EventWriter | PlainWriter | None = None
        count, order = 0, _Order(path)
        try:
            async with stream:
                async for batch in stream:
                    rows = await run_in_thread(partial(rows_of, batch, schema))
                    ids = _NO_IDS if self._layout is None else ids_of(batch)
                    if self._layout is not None:
                        _refuse_updates(batch, path)
                        order.check(ids)
                    writer = writer or await self._create(path, bucket)
                    await writer.write(ids, np.full(batch.num_rows, INSERT, np.int32), rows)
                    count += batch.num_rows
                    self._tell(batch.num_rows)
            if writer is not None:
                await writer.commit()
        except BaseException:
            await _abort(writer)
            raise
        return count

    # --- deletes

    async def _write_deletes(self, view: AcidTable, partition: Partition, path: str) -> int:
        """All deletes of a partition, with the write ids that they had."""
        await self._begin(path)
        count = 0
        for bucket in _buckets(partition.deletes):
            files = tuple(file for file in partition.deletes if _bucket(file) == bucket)
            only = view.only(replace(partition, base=None, inserts=(), deletes=files))
            collector = KeyCollector(KeyBudget(self._memory_limit // 2))
            try:
                read = ReadOptions(memory_limit=self._memory_limit // 4)
                async with only.stream(TableReadOptions(columns=[], read=read, between=_ALL)) as stream:
                    async for batch in stream:
                        await run_in_thread(partial(collector.add, _with_statements(ids_of(batch))))
                keys = await run_in_thread(collector.finish)
            except BaseException:
                collector.discard()
                raise
            try:
                count += await self._write_keys(keys, path, bucket)
            finally:
                keys.close()
        return count

    async def _write_keys(self, keys: DeletedKeys, path: str, bucket: int) -> int:
        if not keys.count:
            return 0
        writer = await self._create(path, bucket)
        try:
            for part in keys.parts():
                await writer.write(part, np.full(len(part), DELETE, np.int32), None)
                self._tell(len(part))
            await writer.commit()
        except BaseException:
            await _abort(writer)
            raise
        return keys.count

    # --- files

    async def _begin(self, path: str) -> None:
        """Make a directory, which is there even if it comes to hold no rows."""
        if self._layout is None:
            return
        await small_files.put(
            self._url_of(f"{path}/{VERSION_FILE}"),
            VERSION.encode(),
            overwrite=True,
            storage_options=self._options.get("storage_options"),
        )

    async def _create(self, path: str, bucket: int) -> EventWriter | PlainWriter:
        layout = self._layout
        name = plain_file_name(bucket) if layout is None else bucket_file_name(bucket)
        url = self._url_of(f"{path}/{name}")
        await make_folder_of(url)
        schema = self._definition.schema if layout is None else layout.schema
        limit = max(self._memory_limit // 2, _LEAST_MEMORY)
        orc = await create(url, schema, **self._options, memory_limit=limit)
        return PlainWriter(orc) if layout is None else EventWriter(orc, layout)

    def _url_of(self, path: str) -> str:
        self._paths.append(path)
        return below(self._url, path)

    def _tell(self, count: int) -> None:
        self._row_count += count
        if self._on_rows is not None:
            self._on_rows(self._row_count)

    async def discard(self) -> None:
        """Leave nothing of what was made."""
        options = self._options.get("storage_options")
        await remove_files(self._url, self._paths, storage_options=options)
        folders = dict.fromkeys(path.rpartition("/")[0] for path in self._paths)
        await remove_folders(self._url, folders, storage_options=options)


class _Order:
    """Whether keys ascend from batch to batch, as readers expect them to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last: tuple[int, int, int] | None = None

    def check(self, ids: RowIds) -> None:
        if not len(ids):
            return
        ascends = are_ascending(ids.write_ids, ids.buckets, ids.row_ids, len(ids))
        if not ascends or (self._last is not None and ids.key(0) <= self._last):
            raise Unsupported(
                f"the events that are to be in {self._path} are not in the order of their ids, as those of "
                "updates before Hive 3 are not; leave this partition to Hive",
                reason="unsorted_events",
            )
        self._last = ids.key(-1)


def _refuse_updates(batch: Batch, path: str) -> None:
    """Where rows are copied as events, updates of the kind before Hive 3 would become inserts."""
    names = batch.batch_schema.names
    if OPERATION in names and items_of(batch.vectors[names.index(OPERATION)], "i4").any():
        raise Unsupported(
            f"events that are to be in {path} are of the kind before Hive 3, which a major compaction alone "
            "can bring together",
            reason="old_events",
        )


def _with_statements(ids: RowIds) -> RowIds:
    return replace(ids, statements=np.zeros(len(ids), np.int32))


def _of_deltas(partition: Partition) -> tuple[AcidFile, ...]:
    return tuple(file for file in partition.inserts if file.directory in partition.deltas)


def _buckets(files: Iterable[AcidFile]) -> list[int]:
    return sorted({_bucket(file) for file in files})


def _bucket(file: AcidFile) -> int:
    return file.bucket or 0


async def _abort(writer: EventWriter | PlainWriter | None) -> None:
    if writer is not None:
        with anyio.CancelScope(shield=True):
            await writer.abort()
