"""One file of a compaction: the rows or the deletes of one bucket, read from many files and written to one.

Knows how a bucket is copied. Must not know what else is compacted, nor who commits it. A piece is a value
that can be pickled: it may be written by another process, and by several of them at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from orcstream._keywords import check_integer
from orcstream.acid.compact.sorting import EventRows, EventSorter
from orcstream.acid.read.event_file import DELETE, INSERT, OPERATION, EventFile
from orcstream.acid.read.planning import TableReadOptions
from orcstream.acid.read.row_ids import DeletedKeys, Ints, KeyBudget, KeyCollector, RowIds
from orcstream.acid.snapshot import TableSnapshot
from orcstream.acid.transactions.contract import TableDefinition
from orcstream.acid.view import TableView
from orcstream.acid.write.delta_files import bucket_file_name, plain_file_name
from orcstream.acid.write.event_writer import EventLayout, EventWriter, PlainWriter, ids_of, rows_of
from orcstream.batch import Batch
from orcstream.codec.hive._row_keys import are_ascending
from orcstream.codec.vectors.column import items_of
from orcstream.errors import KeyUnavailable, Unsupported, UsageError
from orcstream.io.contract.folder import below
from orcstream.io.folders import make_folder_of
from orcstream.io.loop.uncancelled import clean_up, run_in_thread, until_over
from orcstream.reader.options import ReadOptions
from orcstream.schema.schema import Schema
from orcstream.writer.creating import create
from orcstream.writer.options import FileOptions

_ALL = (0, (1 << 63) - 1)
_LEAST_MEMORY = 16 << 20
# Reads take quarters of it.
_LEAST_LIMIT = 1 << 12

Content: TypeAlias = Literal["rows", "inserts", "deletes"]
OnRows: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class CompactionPiece:
    """A file that a compaction is to make: what one bucket of a partition has of some content.

    `content` is "rows" for those that are there, "inserts" for all events of deltas, or "deletes" for
    those of delete deltas. `bucket` is its number, `definition` what the table is. `directory` is the one
    that the file is for, by its path below the table. `snapshot` has the files that are read, and nothing
    else.
    """

    directory: str
    bucket: int
    content: Content
    definition: TableDefinition
    snapshot: TableSnapshot = field(repr=False)  # URLs may hold secrets

    @property
    def path(self) -> str:
        """Of the file, below the table."""
        name = plain_file_name if self.definition.insert_only else bucket_file_name
        return f"{self.directory}/{name(self.bucket)}"


class PieceWriter:
    """Reads and writes pieces, one after the other. `on_rows` is told how many rows were written so far.

    Without `overwrite`, somebody else may have made the file of a piece first, which is left as it is: it
    holds the same.
    """

    def __init__(
        self,
        options: FileOptions,
        *,
        memory_limit: int,
        on_rows: OnRows | None = None,
        overwrite: bool = True,
    ) -> None:
        check_integer("memory_limit", memory_limit, _LEAST_LIMIT)
        self._options = options
        self._memory_limit = memory_limit
        self._on_rows = on_rows
        self._overwrite = overwrite
        self._row_count = 0

    async def write(self, table: TableView, piece: CompactionPiece) -> int:
        """Make a piece of what a table has, which is one of the piece's files alone. Answers its rows."""
        if piece.content == "deletes":
            return await self._write_deletes(table, piece)
        return await self._copy(table, piece)

    # --- rows

    async def _copy(self, table: TableView, piece: CompactionPiece) -> int:
        """Write what a bucket has: as it comes, if that is in the order of keys, else sorted."""
        before = self._row_count
        try:
            return await self._write(self._coming(table, piece), piece)
        except _OutOfOrderError:
            # Updates of before Hive 3 stand behind rows that they replace. The file is begun anew.
            self._row_count = before
        schema, limit = piece.definition.schema, self._memory_limit
        async with aclosing(EventSorter(schema, self._options, memory_limit=limit)) as sorter:
            async with table.reading(self._asked(piece, limit // 4)) as stream:
                async for batch in stream:
                    await sorter.add(await run_in_thread(partial(_events_of, batch, schema)))
            return await self._write(sorter.sorted(), piece)

    async def _coming(self, table: TableView, piece: CompactionPiece) -> AsyncGenerator[EventRows, None]:
        """The events of a bucket as long as they come in order; of rows without ids, all of them."""
        schema, has_ids = piece.definition.schema, not piece.definition.insert_only
        order = _Order()
        async with table.reading(self._asked(piece, self._memory_limit // 2)) as stream:
            async for batch in stream:
                events = await run_in_thread(partial(_events_of, batch, schema, has_ids=has_ids))
                if has_ids:
                    order.check(events.ids)
                yield events

    def _asked(self, piece: CompactionPiece, memory_limit: int) -> TableReadOptions:
        names = [(name,) for name in piece.definition.schema.names]
        check = partial(self._check, piece.definition)
        read = ReadOptions(columns=names, memory_limit=memory_limit)
        with_ids = not piece.definition.insert_only
        if piece.content == "rows" or not with_ids:
            return TableReadOptions(read=read, row_ids=with_ids, event_write_ids=with_ids, check=check)
        return TableReadOptions(read=read, between=_ALL, check=check)

    def _check(self, definition: TableDefinition, file: EventFile) -> None:
        """Refuse to drop columns, to write masked values, and to write in the clear what was encrypted."""
        _check_kept(definition, file)
        for column in file.orc.encrypted_columns:
            if not column.is_open:
                raise KeyUnavailable(f"the column {column.name} is encrypted, and its key cannot be had")
            if not self._options.get("encrypt"):
                raise UsageError(
                    f"the column {column.name} is encrypted: say how in what is made, by encrypt="
                )

    async def _write(self, events: AsyncGenerator[EventRows, None], piece: CompactionPiece) -> int:
        """Write events; no file for none."""
        writer: EventWriter | PlainWriter | None = None
        count = 0
        try:
            async with aclosing(events):
                async for some in events:
                    writer = writer or await self._create(piece)
                    await writer.write(some.ids, some.operations, some.rows)
                    count += len(some)
                    self._tell(len(some))
            if writer is not None:
                await _commit(writer)
        except BaseException as error:
            await clean_up(error, partial(_abort, writer))
            raise
        return count

    # --- deletes

    async def _write_deletes(self, table: TableView, piece: CompactionPiece) -> int:
        """All deletes of a bucket, with the write ids that they had."""
        collector = KeyCollector(KeyBudget(self._memory_limit // 2))
        try:
            read = ReadOptions(columns=[], memory_limit=self._memory_limit // 4)
            async with table.reading(TableReadOptions(read=read, between=_ALL)) as stream:
                async for batch in stream:
                    await run_in_thread(partial(collector.add, _with_statements(ids_of(batch))))
            keys = await run_in_thread(collector.finish)
        except BaseException:
            collector.discard()
            raise
        try:
            return await self._write_keys(keys, piece)
        finally:
            keys.close()

    async def _write_keys(self, keys: DeletedKeys, piece: CompactionPiece) -> int:
        if not keys.count:
            return 0
        writer = await self._create(piece)
        try:
            for part in keys.parts():
                await writer.write(part, np.full(len(part), DELETE, np.int32), None)
                self._tell(len(part))
            await _commit(writer)
        except BaseException as error:
            await clean_up(error, partial(_abort, writer))
            raise
        return keys.count

    # --- files

    async def _create(self, piece: CompactionPiece) -> EventWriter | PlainWriter:
        definition = piece.definition
        layout = None if definition.insert_only else EventLayout(definition.schema)
        url = below(piece.snapshot.listing.url, piece.path)
        await make_folder_of(url)
        schema = definition.schema if layout is None else layout.schema
        limit = max(self._memory_limit // 2, _LEAST_MEMORY)
        orc = await create(url, schema, **self._options, memory_limit=limit, overwrite=self._overwrite)
        return PlainWriter(orc) if layout is None else EventWriter(orc, layout)

    def _tell(self, count: int) -> None:
        self._row_count += count
        if self._on_rows is not None:
            self._on_rows(self._row_count)


def _check_kept(definition: TableDefinition, file: EventFile) -> None:
    """Raise for a file that has more than the table declares: the rest may be wanted again."""
    lost = definition.row_columns.lost(file.row_schema)
    if lost:
        more = f" and {len(lost) - 1} more" if lost[1:] else ""
        raise Unsupported(
            f"a compaction would lose {lost[0]}{more} of {file.file.path}, which the table does not declare; "
            "declare it again to keep it; Hive's own compaction drops it",
            reason="columns_would_be_lost",
            url=file.orc.url,
        )


class _OutOfOrderError(Exception):
    """Events do not come in the order of their keys."""


class _Order:
    """Whether keys ascend from batch to batch, as readers expect them to."""

    def __init__(self) -> None:
        self._last: tuple[int, int, int] | None = None

    def check(self, ids: RowIds) -> None:
        if not len(ids):
            return
        ascends = are_ascending(ids.write_ids, ids.buckets, ids.row_ids, len(ids))
        if not ascends or (self._last is not None and ids.key(0) <= self._last):
            raise _OutOfOrderError
        self._last = ids.key(-1)


def _events_of(batch: Batch, schema: Schema, *, has_ids: bool = True) -> EventRows:
    """Rows are inserts, whatever brought them; events stay what they are."""
    rows, names = rows_of(batch, schema), batch.batch_schema.names
    if OPERATION in names:
        operations: Ints = items_of(batch.vectors[names.index(OPERATION)], "i4")
    else:
        operations = np.full(batch.num_rows, INSERT, np.int32)
    ids = _with_statements(ids_of(batch)) if has_ids else RowIds.joined([])
    return EventRows(ids, operations, rows)


def _with_statements(ids: RowIds) -> RowIds:
    return replace(ids, statements=np.zeros(len(ids), np.int32))


async def _commit(writer: EventWriter | PlainWriter) -> None:
    try:
        await writer.commit()
    except FileExistsError:
        await _abort(writer)


async def _abort(writer: EventWriter | PlainWriter | None) -> None:
    if writer is not None:
        await until_over(writer.abort())
