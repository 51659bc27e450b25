"""What a snapshot shows of a transactional table: its partitions, its columns, its rows.

Puts what the user asks for into the words of the layers below. Must not know how events become rows, nor how
a table is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

from orcstream._keywords import takes
from orcstream.acid.read.event_file import opening_of
from orcstream.acid.read.planning import TablePlanner, TableReadOptions, lanes_of
from orcstream.acid.snapshot import TableSnapshot, check_still_there, list_table
from orcstream.acid.transactions.contract import Snapshot, TableDefinition, Transactions
from orcstream.batch import ReadResult
from orcstream.errors import Unsupported, UsageError
from orcstream.io.loop.tasks import Closable
from orcstream.io.loop.uncancelled import until_over
from orcstream.plan.acid.snapshot import AcidFile, Partition, WriteIds
from orcstream.plan.projection import RowColumns
from orcstream.reader.file import OrcFile
from orcstream.reader.opening import OpenOptions
from orcstream.reader.options import LARGE_BATCHES, ReadOptions, StreamKeywords, TableKeywords
from orcstream.schema.schema import Schema
from orcstream.schema.types import Type
from orcstream.table.columns import PartitionColumns, with_partitions
from orcstream.table.lanes import TableLife, TableStream

if TYPE_CHECKING:
    from orcstream.acid.read.describing import DirectoryDescription

Protect: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


class TableView(Closable):
    """What a snapshot shows of a table: its partitions, its columns, its rows."""

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

    async def aclose(self) -> None:
        """Stop all streams of this table and give back its connections; may be called again."""
        if not self._is_view:
            try:
                await self._life.end()
            finally:
                if self._transactions is not None:
                    await until_over(self._transactions.aclose())

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
        """All rows at once; `ReadResult.to_arrow` makes a table of them. Takes the same as `batches`.

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
        from orcstream.acid.read.describing import describe

        if not count:
            return await describe(self._snapshot, self._open_file, count=False)
        async with self._guard():
            return await describe(self._snapshot, self._open_file, count=True)

    # --- other views

    async def seen(self, snapshot: Snapshot) -> Self:
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

    def split(self) -> list[Self]:
        """Each of its partitions by itself."""
        return [self.only(one) for one in self.partitions]

    def only(self, partition: Partition) -> Self:
        """A `partition`, or some of the files of one, by itself."""
        return self._view(replace(self._snapshot, partitions=(partition,)), self._protect)

    def of(self, snapshot: TableSnapshot) -> Self:
        """The table as of another `snapshot` of its directory, or of a part of it.

        For those who have a transaction open: reads of it begin none of their own.
        """
        return self._view(snapshot, None)

    def _as_written(self, definition: TableDefinition) -> Self:
        """The table with the columns that its writers use now, for those who have a transaction open."""
        return self._view(self._snapshot, None, definition.row_columns)

    def _view(
        self, snapshot: TableSnapshot, protect: Protect | None, row_columns: RowColumns | None = None
    ) -> Self:
        return type(self)(
            snapshot,
            row_columns or self._row_columns,
            self._partition_columns,
            self._opening,
            self._transactions,
            life=self._life,
            protect=protect,
        )

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


def _with_partitions(row: Type, columns: PartitionColumns) -> Type:
    taken = set(row.field_names).intersection(columns.names)
    if taken:
        raise UsageError(f"the column {min(taken)!r} is in the files, and in the names of folders")
    return with_partitions(row, columns)
