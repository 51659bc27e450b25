"""A transaction of a table: rows inserted, deleted and updated, all of them or none.

Knows the order of things: what a statement reads, which files it writes, and that nothing counts before the
commit. Must not know how events are laid out, nor who keeps transactions. For one task at a time.

A statement sees what earlier ones of its transaction did. An update is a delete and an insert, as in Hive
since version 3; rows that are updated stay in their bucket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np

from orcstream.acid.read.event_file import ROW_ID
from orcstream.acid.read.row_ids import DeletedKeys, KeyBudget, KeyCollector, RowIds
from orcstream.acid.transactions.contract import (
    Operation,
    Snapshot,
    TableDefinition,
    Transaction,
    Work,
    full_schema,
    kept_alive,
)
from orcstream.acid.view import TableView
from orcstream.acid.write.bucketing import bucket_numbers
from orcstream.acid.write.delta_files import DeltaFiles
from orcstream.acid.write.event_writer import ids_in, ids_of, rows_of
from orcstream.acid.write.placing import Placing, by_bucket, partition_path
from orcstream.batch import Batch
from orcstream.codec.encode.grouping import joined, only, retyped
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.errors import CommitFailed, SchemaMismatch, Unsupported, UsageError, located
from orcstream.io.loop.tasks import OneTask
from orcstream.io.loop.uncancelled import clean_up, run_in_thread, until_over
from orcstream.plan.acid.snapshot import WriteIds
from orcstream.reader.options import Where
from orcstream.schema.schema import Schema, numbered

_ROW_ID = Schema.parse(f"struct<{ROW_ID}:struct<writeid:bigint,bucketid:int,rowid:bigint>>")

Assigned = Mapping[str, Any] | Callable[[Batch], object]


class TableTransaction:
    """Rows of one table, changed in one transaction; made by `AcidTable.transaction`.

    At the end of its block it commits; an error that leaves the block aborts it. `CommitFailed` where
    somebody else changed the same partitions meanwhile: begin again with what the table is then.
    """

    def __init__(
        self,
        url: str,
        see: Callable[[Snapshot], Awaitable[TableView]],
        transaction: Transaction,
        definition: TableDefinition,
        files: DeltaFiles,
        memory_limit: int,
    ) -> None:
        self._url = url
        self._see = see
        self._transaction = transaction
        self._definition = definition
        self._files = files
        self._memory_limit = memory_limit
        self._partition_names = tuple(name for name, _ in definition.partitions)
        self._placing = Placing(definition, files.hidden)
        self._locked: set[tuple[str, str]] = set()
        self._changed: dict[str, None] = {}
        self._alive = AsyncExitStack()
        self._is_ended = self._is_failed = self._is_checked = False
        self._one_task = OneTask("two tasks use one transaction", url)

    @property
    def write_id(self) -> int:
        """The id that its rows have."""
        return self._transaction.write_id

    # --- statements

    async def insert(self, data: object, *, partition: Mapping[str, Any] | None = None) -> int:
        """Insert rows; answers how many. `data` is what `OrcWriter.write` takes.

        Of a partitioned table the rows hold the partition columns, or `partition` names their values for all
        rows. Raises `SchemaMismatch` for data that does not fit.
        """
        async with self._statement():
            return await self._put(data, partition, replaces=False)

    async def overwrite(self, data: object, *, partition: Mapping[str, Any] | None = None) -> int:
        """Put rows in the place of all that there are; answers how many. `data` as of `insert`.

        Of a partitioned table, the partition that is named is replaced, or all that rows go to; the others
        stay as they are. A transaction that overwrites does nothing else there. Rows that somebody inserts
        meanwhile are replaced as well if his transaction began before; `CommitFailed` is his if he commits
        after this one. Against those who change rows the first to commit wins.

        Raises `SchemaMismatch` for data that does not fit, `UsageError` where the transaction has changed
        the same partition before, `Unsupported` (``too_many_files``) where rows go to more buckets and
        partitions than `memory_limit` has room for.
        """
        async with self._statement():
            await self._files.end_statement()
            count = await self._put(data, partition, replaces=True)
            await self._files.end_statement()
            return count

    async def _put(self, data: object, partition: Mapping[str, Any] | None, *, replaces: bool) -> int:
        count = 0
        async for one in self._placing.placed(data, partition):
            await self._announce(one.partition, replaces=replaces)
            await self._files.insert(one.partition, one.bucket, one.rows, replaces=replaces)
            count += one.rows.row_count
        if replaces and (partition is not None or not self._partition_names):
            whole = self._placing.path_of(partition or {})
            await self._announce(whole, replaces=True)
            await self._files.empty(whole)
        return count

    async def _announce(self, path: str, *, replaces: bool) -> None:
        await self._lock("overwrite" if replaces else "insert", path)
        if replaces:
            self._changed[path] = None

    async def delete(self, where: Where = None) -> int:
        """Delete the rows that match `where`, or all; answers how many."""
        async with self._changing() as table:
            count = 0
            for partition in table.split():
                async with self._collecting() as keys:
                    async with partition.batches(columns=[], where=where, row_ids=True) as stream:
                        async for batch in stream:
                            await keys.add(ids_of(batch))
                    count += await self._delete(partition.partitions[0].path, keys)
            return count

    async def update(self, values: Assigned, where: Where = None) -> int:
        """Update the rows that match `where`, or all; answers how many.

        `values` are new values by column, or a function that is given batches of rows and answers the data of
        as many rows, with the columns that change. Partition columns, and those that buckets are told by, do
        not change.
        """
        async with self._changing() as table:
            count = 0
            for partition in table.split():
                path = partition.partitions[0].path
                async with self._collecting() as keys:
                    names = self._definition.schema.names
                    stream = partition.batches(columns=[(name,) for name in names], where=where, row_ids=True)
                    async with stream:
                        async for batch in stream:
                            ids = ids_of(batch)
                            await self._lock("change", path)
                            rows = await run_in_thread(partial(self._updated, batch, values))
                            numbers = bucket_numbers(ids.buckets)
                            for bucket, some in by_bucket(self._definition, rows, numbers):
                                await self._files.insert(path, bucket, some)
                            await keys.add(ids)
                    count += await self._delete(path, keys)
            return count

    async def delete_rows(self, data: object, *, partition: Mapping[str, Any] | None = None) -> int:
        """Delete rows by their ids; answers how many ids there were.

        `data` has the column ``row__id``, as `batches(row_ids=True)` gives it, and of a partitioned table its
        partition columns, unless `partition` names their values. A row must not be deleted twice.
        """
        async with self._changing():
            names = () if partition is not None else self._partition_names
            ids = TableDefinition(_ROW_ID, () if partition is not None else self._definition.partitions)
            schema = full_schema(ids)
            partitioner = self._placing.partitioner(schema, names)
            fixed = None if partition is None else self._placing.path_of(partition)
            count = 0
            async with AsyncExitStack() as stack:
                found: dict[str, _Keys] = {}
                batches = UserData(data).vectors(schema)
                while (rows := await run_in_thread(lambda: next(batches, None))) is not None:
                    for where, part in partitioner.split(rows):
                        path = partition_path(where.texts) if fixed is None else fixed
                        if path not in found:
                            found[path] = await stack.enter_async_context(self._collecting())
                        await found[path].add(ids_in(part.vectors[0]))
                for path, keys in found.items():
                    count += await self._delete(path, keys)
            return count

    # --- the end

    async def commit(self) -> None:
        """Make all of it count. May be called again after `CommitUnknown`.

        Raises `CommitFailed` where somebody else was first, or the transaction was given up, and `UsageError`
        where a statement failed half-way; then, as after any other error, only `abort` is left.
        """
        self._check_usable()
        await self._files.end_statement()
        work = Work(self._files.written, tuple(self._changed))
        if not self._is_checked:
            await check_not_overwritten(self._transaction, work, see=self._see, url=self._url)
            self._is_checked = True
        await self._transaction.commit(work)
        self._is_ended = True

    async def abort(self) -> None:
        """Leave nothing of it, unless it was committed. Not cancelled."""
        if self._is_ended:
            return
        await until_over(self._give_up())

    async def _give_up(self) -> None:
        try:
            outcome = await self._transaction.abort()
        finally:
            await self._files.abort_open()
        self._is_ended = True
        # Who gave up looks after what is left, so that nothing is removed that counts.
        if outcome != "committed":
            await self._files.discard()

    async def __aenter__(self) -> Self:
        await self._alive.enter_async_context(kept_alive(self._transaction))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._alive:
            if error is None and not self._is_ended:
                try:
                    await self.commit()
                except BaseException as failure:
                    await self._abort_because(failure)
                    raise
            elif error is not None:
                await self._abort_because(error)

    async def _abort_because(self, error: BaseException) -> None:
        await clean_up(error, self.abort, f"the transaction {self.write_id} could not be given up")

    # --- helpers

    @asynccontextmanager
    async def _statement(self) -> AsyncIterator[None]:
        self._check_usable()
        before = self._files.write_count
        with self._one_task, located(url=self._url):
            try:
                yield
            except BaseException:
                # Half of a statement must not count: new rows without the deletes of the old ones, say.
                self._is_failed |= self._files.write_count > before
                raise

    def _check_usable(self) -> None:
        if self._is_ended:
            raise UsageError("the transaction has ended", url=self._url)
        if self._is_failed:
            raise UsageError("a statement of the transaction failed half-way: abort it", url=self._url)

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[TableView]:
        """A statement that changes rows: it sees the table as it is by then."""
        if self._definition.insert_only:
            raise Unsupported(
                "rows of a table that only takes inserts cannot be changed", reason="insert_only"
            )
        async with self._statement():
            await self._files.end_statement()
            yield await self._see(replace(self._transaction.snapshot, write_ids=self._own_ids()))
            await self._files.end_statement()

    def _own_ids(self) -> WriteIds:
        """What the transaction sees, and what it wrote itself."""
        seen = self._transaction.snapshot.write_ids
        own = self.write_id
        if own <= seen.high_watermark:
            return replace(seen, open=tuple(one for one in seen.open if one != own))
        return WriteIds(own, (*seen.open, *range(seen.high_watermark + 1, own)), seen.aborted)

    async def _lock(self, operation: Operation, path: str) -> None:
        if (operation, path) not in self._locked:
            await self._transaction.lock(operation, [path])
            self._locked.add((operation, path))

    def _updated(self, batch: Batch, values: Assigned) -> IngestedRows:
        """The rows of a batch with their new values."""
        schema = self._definition.schema
        rows = rows_of(batch, schema)
        new = self._assigned(batch, values)
        self._placing.check(new)
        new_fields, new_vectors = list(rows.fields), list(rows.vectors)
        for field, vector in zip(new.fields, new.vectors, strict=True):
            at = schema.names.index(field.name)
            new_fields[at] = retyped(field, schema.root.children[at])
            new_vectors[at] = vector
        return IngestedRows(tuple(new_fields), tuple(new_vectors), rows.row_count)

    def _assigned(self, batch: Batch, values: Assigned) -> IngestedRows:
        """The new values of the columns that change, for all rows of a batch."""
        data = values(batch) if callable(values) else [dict(values)]
        given = self._placing.user_data(data)
        names = tuple(values) if not callable(values) else given.schema().names
        fixed = {*self._partition_names, *self._definition.bucket_columns}.intersection(names)
        if fixed:
            raise UsageError(f"the column {min(fixed)!r} says where a row lies: delete the row and insert it")
        schema = self._definition.schema
        changed = numbered(schema.select([(name,) for name in names]), attributes=False)
        pieces = list(joined(list(self._placing.vectors(given, changed))))
        if len(pieces) != 1:
            raise SchemaMismatch("new values are one batch for each that is updated")
        (rows,) = pieces
        if not callable(values):
            zeros = np.zeros(batch.num_rows, np.int64)
            return only(rows, range(len(names)), changed, zeros)
        if rows.row_count != batch.num_rows:
            raise SchemaMismatch(f"new values for {rows.row_count} rows, where {batch.num_rows} are updated")
        return rows

    @asynccontextmanager
    async def _collecting(self) -> AsyncIterator[_Keys]:
        keys = _Keys(KeyBudget(self._memory_limit // 2))
        try:
            yield keys
        finally:
            keys.close()

    async def _delete(self, path: str, keys: _Keys) -> int:
        """Write the deletes of a partition."""
        count = 0
        for bucket, found in await keys.finish():
            await self._lock("change", path)
            self._changed[path] = None
            await self._files.delete(path, bucket, found.parts())
            count += found.count
        return count


class _Keys:
    """Keys of rows that are deleted, by bucket."""

    def __init__(self, budget: KeyBudget) -> None:
        self._budget = budget
        self._collectors: dict[int, KeyCollector] = {}
        self._found: list[DeletedKeys] = []

    async def add(self, ids: RowIds) -> None:
        buckets = bucket_numbers(ids.buckets)
        for bucket in np.unique(buckets):
            collector = self._collectors.setdefault(int(bucket), KeyCollector(self._budget))
            await run_in_thread(partial(collector.add, ids.take(buckets == bucket)))

    async def finish(self) -> list[tuple[int, DeletedKeys]]:
        """All of them, ascending in each bucket."""
        found = []
        for bucket, collector in sorted(self._collectors.items()):
            keys = await run_in_thread(collector.finish)
            self._found.append(keys)
            found.append((bucket, keys))
        return found

    def close(self) -> None:
        for collector in self._collectors.values():
            collector.discard()
        for keys in self._found:
            keys.close()


async def check_not_overwritten(
    transaction: Transaction, work: Work, *, see: Callable[[Snapshot], Awaitable[TableView]], url: str
) -> None:
    """Rows that a base of a later write id hides are not committed: they would be lost without a word.

    To be asked once, before the first try to commit: what is so with the locks that are held then stays so,
    and where the first try gave them back it need not. `CommitFailed` where there is such a base.
    """
    seen = await transaction.seen_since() if work.directories else None
    view = () if seen is None else (await see(seen)).partitions
    for one in view:
        is_hidden = (
            one.base is not None and one.base.is_overwrite and one.base.last_write_id > transaction.write_id
        )
        if is_hidden and one.path in work.partitions:
            where = f"of {one.path}" if one.path else "of the table"
            raise CommitFailed(f"rows {where} were overwritten meanwhile: begin again", url=url)
