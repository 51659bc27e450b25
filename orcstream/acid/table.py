"""A transactional table, opened as of a snapshot: its partitions, its columns, its rows.

Puts what the user asks for into the words of the layers below. Must not know how events become rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

from orcstream._keywords import takes
from orcstream.acid.cleaning import Cleaned, clean
from orcstream.acid.compacting import Compaction, TableCompaction, begin_compaction, compact
from orcstream.acid.compaction_piece import PieceWriter
from orcstream.acid.delta_files import DeltaFiles
from orcstream.acid.describing import DirectoryDescription, describe
from orcstream.acid.event_file import opening_of
from orcstream.acid.overwriting import check_not_overwritten
from orcstream.acid.planning import TablePlanner, TableReadOptions
from orcstream.acid.snapshot import TableSnapshot, check_still_there, list_table
from orcstream.acid.stream import lanes_of
from orcstream.acid.streaming import WritingStream
from orcstream.acid.transactions import Snapshot, TableDefinition, Transactions, check_encryption
from orcstream.acid.writing import TableTransaction
from orcstream.batch import ReadResult
from orcstream.errors import Unsupported, UsageError, located
from orcstream.plan.acid import AcidFile, Partition
from orcstream.plan.acid_compaction import CompactionKind
from orcstream.plan.placement import RowColumns
from orcstream.plan.write_ids import WriteIds
from orcstream.reader.file import OrcFile
from orcstream.reader.opening import OpenOptions
from orcstream.reader.options import LARGE_BATCHES, ReadOptions, StreamKeywords, TableKeywords
from orcstream.reader.partition_values import PartitionColumns
from orcstream.reader.table_columns import with_partitions
from orcstream.reader.table_life import TableLife
from orcstream.reader.table_stream import TableStream
from orcstream.schema import Schema, Type
from orcstream.writer.creating import FileOptions
from orcstream.writer.options import DEFAULT_MEMORY_LIMIT as WRITE_MEMORY_LIMIT

__all__ = ["AcidTable", "Protect"]

Protect: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class AcidTable:
    """A Hive transactional table as of a snapshot.

    For use from one event loop; several streams at a time are fine.
    """

    def __init__(
        self,
        snapshot: TableSnapshot,
        row_columns: RowColumns,
        partition_columns: PartitionColumns,
        opening: OpenOptions,
        transactions: Transactions | None = None,
        *,
        life: TableLife | None = None,
        protect: Protect | None = None,
    ) -> None:
        """`row_columns` are those of the rows, without the columns that folders name.

        `protect` keeps what is read from being removed, where somebody else cleans the table.

        `transactions` say what is committed, where anybody does. A view of another table lives in its `life`,
        which is not the view's to end.
        """
        self._url = snapshot.listing.shown
        self._snapshot = snapshot
        self._row_columns = row_columns
        self._partition_columns = partition_columns
        self._opening = opening
        self._transactions = transactions
        self._life = life or TableLife()
        self._is_view = life is not None
        self._protect = protect
        self._root = _with_partitions(row_columns.schema.root, partition_columns)

    # --- facts

    @property
    def url(self) -> str:
        """The table's directory, credentials stripped."""
        return self._url

    @property
    def schema(self) -> Schema:
        """The columns of the rows, then those that folders name."""
        return Schema(self._root)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the columns that folders name."""
        return self._partition_columns.names

    @property
    def write_ids(self) -> WriteIds:
        """Which transactions the table is read as of."""
        return self._snapshot.write_ids

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """What is read of each partition; of a table without partitions, of one whose path is empty."""
        return self._snapshot.partitions

    # --- reading

    @takes(TableKeywords, ReadOptions)
    def batches(
        self, *, row_ids: bool = False, include_deleted: bool = False, **options: Unpack[TableKeywords]
    ) -> TableStream:
        """A stream of the table's rows: those inserted and not deleted, as far as the snapshot sees both.

        `columns` and `where` may name columns of partitions, too: partitions without a match are not read.
        With `row_ids`, a last column ``row__id`` has each row's id, a struct of writeid, bucketid and rowid;
        with `include_deleted`, deleted rows come as well, and ``row__is__deleted`` says which they are.

        Rows come partition by partition, file by file; in no order of their values. Raises `ColumnNotFound`,
        `SchemaMismatch` and other `UsageError` at once; while reading `FormatError`, `Unsupported`,
        `SourceError`.
        """
        read = ReadOptions(**options)
        return self.reading(TableReadOptions(read=read, row_ids=row_ids, include_deleted=include_deleted))

    @takes(TableKeywords, ReadOptions, defaults=LARGE_BATCHES)
    async def read(
        self, *, row_ids: bool = False, include_deleted: bool = False, **options: Unpack[TableKeywords]
    ) -> ReadResult:
        """All rows at once: ``pyarrow.table(await table.read())``. Takes the same as `batches`.

        The result itself is outside `memory_limit`.
        """
        async with self.batches(row_ids=row_ids, include_deleted=include_deleted, **options) as stream:
            return ReadResult(stream.batch_schema, [batch async for batch in stream])

    @takes(StreamKeywords, ReadOptions)
    def changes(
        self, from_write_id: int, to_write_id: int | None = None, **options: Unpack[StreamKeywords]
    ) -> TableStream:
        """The events of `from_write_id` to `to_write_id`, both included; by default up to the last there is.

        Besides the table's columns, each has ``operation`` (0 insert, 1 update, 2 delete), ``write_id``, and
        ``row__id``, the id of its row. Since Hive 3 an update is a delete and an insert, and a delete has no
        values but those of the partition: they are those of the insert of the same row id. Events of one
        write id stand together as far as a compaction has not brought several into one file. Rows from
        before the table was transactional are inserts of write id 0.

        Raises `Unsupported` (``history_is_gone``) where a base has taken the place of the events.
        """
        last = self.write_ids.high_watermark if to_write_id is None else to_write_id
        for one in (from_write_id, last):
            if type(one) is not int or one < 0:
                raise UsageError(f"a write id is an integer of 0 or more, not {one!r}", url=self._url)
        return self.reading(TableReadOptions(read=ReadOptions(**options), between=(from_write_id, last)))

    def reading(self, asked: TableReadOptions) -> TableStream:
        """A read that `asked` describes as a whole; `batches` and `changes` describe theirs by arguments."""
        if self._life.is_ended:
            raise UsageError("the table is closed", url=self._url)
        planner = TablePlanner(self._root, self._row_columns, self._partition_columns, self._snapshot, asked)
        plan = planner.plan(self._open_file)
        lanes = replace(lanes_of(plan), guard=self._guard)
        return TableStream(
            self, plan.output.schema, lanes, self._life.tasks, self._url, batch_rows=plan.batch_rows
        )

    @asynccontextmanager
    async def _guard(self) -> AsyncIterator[None]:
        """Held while files are read: nobody removes them meanwhile, nor has since the table was opened."""
        if self._protect is None:
            yield
            return
        async with self._protect():
            now = await list_table(self.place, self._url, self._opening.storage_options)
            check_still_there(self._snapshot, now)
            yield

    async def _open_file(self, file: AcidFile) -> OrcFile:
        try:
            return await opening_of(self._snapshot.url_of(file), file, self._opening)
        except FileNotFoundError as error:
            listing = await list_table(self.place, self._url, self._opening.storage_options)
            if not listing.stands_in_for(file):
                raise
            raise Unsupported(
                f"{file.path} was compacted and removed after this snapshot was taken; open the table again",
                reason="history_is_gone",
                url=self._url,
            ) from error

    async def describe(self, *, count: bool = True) -> tuple[DirectoryDescription, ...]:
        """Every directory there is, and what it is to this reader.

        To `count` rows and deletes, the tail of each file is read; without, nothing is.
        """
        if not count:
            return await describe(self._snapshot, self._open_file, count=False)
        async with self._guard():
            return await describe(self._snapshot, self._open_file, count=True)

    # --- other views

    async def seen(self, snapshot: Snapshot) -> AcidTable:
        """The table as of another `snapshot` of what is committed, which may have what came since.

        For those who have a transaction open, as of `of`.
        """
        listing = await list_table(self.place, self._url, self._opening.storage_options)
        if snapshot.directories is not None:
            # A directory that is being removed may be listed with some of its files; the log knows which.
            now = await self._need_transactions().snapshot()
            snapshot = replace(snapshot, removed=now.removed)
        return self.of(listing.snapshot(snapshot))

    @property
    def snapshot(self) -> TableSnapshot:
        """What this reader sees of the table's directory."""
        return self._snapshot

    @property
    def storage_options(self) -> Mapping[str, Any] | None:
        """As they were given."""
        return self._opening.storage_options

    @property
    def place(self) -> str:
        """The table's directory, as it was given."""
        return self._snapshot.listing.url

    def split(self) -> list[AcidTable]:
        """Each of its partitions by itself."""
        return [self.only(one) for one in self.partitions]

    def only(self, partition: Partition) -> AcidTable:
        """A `partition`, or some of the files of one, by itself."""
        return self._view(replace(self._snapshot, partitions=(partition,)), self._protect)

    def of(self, snapshot: TableSnapshot) -> AcidTable:
        """The table as of another `snapshot` of its directory, or of a part of it.

        For those who have a transaction open: reads of it begin none of their own.
        """
        return self._view(snapshot, None)

    def _as_written(self, definition: TableDefinition) -> AcidTable:
        """The table with the columns that its writers use now, for those who have a transaction open."""
        return self._view(self._snapshot, None, definition.row_columns)

    def _view(
        self, snapshot: TableSnapshot, protect: Protect | None, row_columns: RowColumns | None = None
    ) -> AcidTable:
        return AcidTable(
            snapshot,
            row_columns or self._row_columns,
            self._partition_columns,
            self._opening,
            self._transactions,
            life=self._life,
            protect=protect,
        )

    # --- writing

    async def transaction(
        self, *, memory_limit: int = WRITE_MEMORY_LIMIT, **options: Unpack[FileOptions]
    ) -> TableTransaction:
        """Begin a transaction: ``async with await table.transaction() as t: await t.insert(rows)``.

        It sees what is committed now, whatever this table was opened as of. `options` are those of
        `orcstream.create` for the files of rows; `memory_limit` is for all of the transaction.

        Raises `Unsupported` (``no_transactions``) for a table of which nobody says what is committed, and
        (``hive_compacts``) for `encrypt=` where Hive compacts the table by itself.
        """
        transactions = self._need_transactions()
        definition = await transactions.definition()
        with located(url=self._url):
            check_encryption(definition, is_encrypted=bool(options.get("encrypt")))
        transaction = await transactions.begin()
        write_ids = range(transaction.write_id, transaction.write_id + 1)
        files = self._files(definition, write_ids, memory_limit, options)
        see = self._as_written(definition).seen
        return TableTransaction(self._url, see, transaction, definition, files, memory_limit)

    def stream(
        self,
        *,
        transactions: int = 10,
        partition: Mapping[str, Any] | None = None,
        memory_limit: int = WRITE_MEMORY_LIMIT,
        **options: Unpack[FileOptions],
    ) -> WritingStream:
        """Begin to write rows that keep arriving: ``async with table.stream() as s: await s.write(rows)``.

        ``await s.commit()``, now and then, lets others see them, at the cost of a flush of each file. So many
        `transactions`, up to 1,000, share a directory and its files, which grow; when they are used up, more
        are begun. With one, files are whole, as those of `transaction`.

        Of a partitioned table the rows hold the partition columns, or `partition` names their values for all.
        `options` are those of `orcstream.create`; `memory_limit` is for all open files together.

        Raises `Unsupported` for a store whose files cannot grow (``no_append``), for a table that only takes
        inserts (``insert_only``), both with more than one transaction, and as `transaction` does.
        """
        keeper = self._need_transactions()
        return WritingStream(
            self._url,
            self.place,
            keeper,
            lambda definition, write_ids: self._files(definition, write_ids, memory_limit, options),
            partial(check_not_overwritten, see=self.seen, url=self._url),
            transactions,
            partition,
            self._opening.storage_options,
            is_encrypted=bool(options.get("encrypt")),
        )

    def _files(
        self, definition: TableDefinition, write_ids: range, memory_limit: int, options: FileOptions
    ) -> DeltaFiles:
        given: FileOptions = {"storage_options": self._opening.storage_options, **options}
        return DeltaFiles(self.place, definition, write_ids, given, memory_limit=memory_limit)

    async def compact(
        self,
        kind: CompactionKind = "minor",
        *,
        partitions: Sequence[str] | None = None,
        memory_limit: int = WRITE_MEMORY_LIMIT,
        on_rows: Callable[[int], None] | None = None,
        **options: Unpack[FileOptions],
    ) -> Compaction:
        """Bring directories of events together, so that there is less to read.

        `kind` is "minor" or "major". A minor compaction makes one delta of inserts and one of deletes of
        all that lie above the base; a major one makes a new base of the rows that are there. Events of
        write ids above one that is open are left alone. `partitions` are paths such as ``country=DE``;
        all by default. `on_rows` is told how many rows were written, now and then; `options` are those of
        `orcstream.create`.

        Nobody has to stop reading or writing. What was compacted stays until `clean` removes it. Events that
        do not come in the order of their ids, as updates of before Hive 3, are sorted, on disk where
        `memory_limit` has no room for them. Raises `CommitFailed` where another compaction was first,
        `Unsupported` (``columns_would_be_lost``) for columns, fields and values that the table has no room
        for, (``no_transactions``) as `transaction` does, and what reading and writing raise.
        """
        compaction = await self.begin_compaction(kind, partitions=partitions)
        files: FileOptions = {"storage_options": self._opening.storage_options, **options}
        writer = PieceWriter(files, memory_limit=memory_limit, on_rows=on_rows)
        return await compact(compaction, writer)

    async def begin_compaction(
        self, kind: CompactionKind = "minor", *, partitions: Sequence[str] | None = None
    ) -> TableCompaction:
        """Begin a compaction whose files somebody else writes, other processes by `write_piece`.

        `kind` and `partitions` are those of `compact`, which is this, the writing and the commit.
        """
        if kind not in ("minor", "major"):
            raise UsageError(f"kind is minor or major, not {kind!r}", url=self._url)
        known = {one.path for one in self.partitions}
        for one in partitions or ():
            if one not in known:
                raise UsageError(f"no partition {one!r}; there are {', '.join(sorted(known))}", url=self._url)
        keeper = self._need_transactions()
        definition = await keeper.definition()
        return await begin_compaction(
            self._as_written(definition),
            definition,
            keeper,
            kind,
            lambda one: partitions is None or one.path in partitions,
        )

    async def abort_dead(self, *, older_than_s: float) -> tuple[int, ...]:
        """Give up transactions of programs that are dead; answers their write ids.

        Those that have shown no sign of life for `older_than_s` seconds: one that is at work shows one a
        minute. Until then compactions stop below them. Hive's metastore does so by itself.
        """
        return await self._need_transactions().abort_dead(older_than_s)

    async def clean(self, *, older_than_s: float = 3600.0, remove: bool = True) -> Cleaned:
        """Remove directories that no reader can need: those that others stand in for, and those given up.

        What stands in for them must have been there for `older_than_s` seconds, by the store's clock and
        ours, and no transaction may be open that began before it: readers keep to the snapshot that they were
        opened as of, and must not take longer. Without `remove`, it is only said what would go.

        Snapshots from before cannot be read any more (``history_is_gone``).
        """
        return await clean(self, self._need_transactions(), older_than_s=older_than_s, remove=remove)

    def _need_transactions(self) -> Transactions:
        if self._life.is_ended:
            raise UsageError("the table is closed", url=self._url)
        if self._transactions is None:
            raise Unsupported(
                "nobody says what is committed here: name the metastore= that the table is Hive's in, or "
                "make a table of its own with create_table()",
                reason="no_transactions",
                url=self._url,
            )
        return self._transactions

    # --- life time

    async def aclose(self) -> None:
        """Stop all streams of this table and give back its connections; may be called again."""
        if not self._is_view:
            await self._life.end()
            if self._transactions is not None:
                await self._transactions.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<AcidTable {self._url}: {len(self.schema)} columns, {len(self.partitions)} partitions>"


def _with_partitions(row: Type, columns: PartitionColumns) -> Type:
    taken = set(row.field_names).intersection(columns.names)
    if taken:
        raise UsageError(f"the column {min(taken)!r} is in the files, and in the names of folders")
    return with_partitions(row, columns)
