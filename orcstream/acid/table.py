"""A transactional table, opened as of a snapshot: read as its view shows it, written, compacted and cleaned.

What only writing needs is imported when it is used: most tables are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from orcstream._keywords import check_integer
from orcstream.acid.transactions.contract import TableDefinition, check_encryption, partition_schema
from orcstream.acid.view import TableView
from orcstream.errors import UsageError, located
from orcstream.reader.opening import OpenOptions
from orcstream.table.columns import PartitionColumns
from orcstream.writer.budget import DEFAULT_MEMORY_LIMIT

if TYPE_CHECKING:
    from orcstream.acid.compact.cleaning import Cleaned
    from orcstream.acid.compact.compacting import Compaction, TableCompaction
    from orcstream.acid.compact.piece import CompactionPiece
    from orcstream.acid.write.delta_files import DeltaFiles
    from orcstream.acid.write.streaming import WritingStream
    from orcstream.acid.write.writing import TableTransaction
    from orcstream.plan.acid.compaction import CompactionKind
    from orcstream.writer.options import FileOptions


class AcidTable(TableView):
    """A Hive transactional table as of a snapshot.

    For use from one event loop; several streams at a time are fine.
    """

    # --- writing

    async def transaction(
        self, *, memory_limit: int = DEFAULT_MEMORY_LIMIT, **options: Unpack[FileOptions]
    ) -> TableTransaction:
        """Begin a transaction: ``async with await table.transaction() as t: await t.insert(rows)``.

        It sees what is committed now, whatever this table was opened as of. `options` are those of
        `orcstream.create` for the files of rows; `memory_limit` is for all of the transaction.

        Raises `Unsupported` (``no_transactions``) for a table of which nobody says what is committed, and
        (``hive_compacts``) for `encrypt=` where Hive compacts the table by itself.
        """
        from orcstream.acid.write.writing import TableTransaction

        check_integer("memory_limit", memory_limit, 1)
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
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
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
        from orcstream.acid.write.streaming import WritingStream
        from orcstream.acid.write.writing import check_not_overwritten
        from orcstream.writer.creating import hidden_names

        check_integer("memory_limit", memory_limit, 1)
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
            hidden=hidden_names(options),
        )

    def _files(
        self, definition: TableDefinition, write_ids: range, memory_limit: int, options: FileOptions
    ) -> DeltaFiles:
        from orcstream.acid.write.delta_files import DeltaFiles

        given: FileOptions = {"storage_options": self._opening.storage_options, **options}
        return DeltaFiles(self.place, definition, write_ids, given, memory_limit=memory_limit)

    async def compact(
        self,
        kind: CompactionKind = "minor",
        *,
        partitions: Sequence[str] | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
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
        from orcstream.acid.compact.compacting import compact
        from orcstream.acid.compact.piece import PieceWriter

        files: FileOptions = {"storage_options": self._opening.storage_options, **options}
        writer = PieceWriter(files, memory_limit=memory_limit, on_rows=on_rows)
        compaction = await self.begin_compaction(kind, partitions=partitions)
        return await compact(compaction, writer)

    async def begin_compaction(
        self, kind: CompactionKind = "minor", *, partitions: Sequence[str] | None = None
    ) -> TableCompaction:
        """Begin a compaction whose files somebody else writes, other processes by `write_piece`.

        `kind` and `partitions` are those of `compact`, which is this, the writing and the commit.
        """
        from orcstream.acid.compact.compacting import begin_compaction

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
        from orcstream.acid.compact.cleaning import clean

        return await clean(self, self._need_transactions(), older_than_s=older_than_s, remove=remove)

    def __repr__(self) -> str:
        return f"<AcidTable {self._url}: {len(self.schema)} columns, {len(self.partitions)} partitions>"


async def write_piece(
    piece: CompactionPiece, *, memory_limit: int = DEFAULT_MEMORY_LIMIT, **options: Unpack[FileOptions]
) -> int:
    """Write a `piece`, one file of a compaction that another process has begun; answers how many rows it has.

    `memory_limit` is in bytes. `options` are those of `orcstream.create`; what is read takes its
    `storage_options` and `keys` from them. The file appears whole. It may be written again, and by several
    processes at once: the first file stays, and the others are the same. Raises what reading and writing
    raise; then nothing is left of it.
    """
    from orcstream.acid.compact.piece import PieceWriter

    opening = OpenOptions(storage_options=options.get("storage_options"), keys=options.get("keys"))
    columns = PartitionColumns.of(piece.snapshot.listing.partitions, partition_schema(piece.definition))
    writer = PieceWriter(options, memory_limit=memory_limit, overwrite=False)
    async with AcidTable(piece.snapshot, piece.definition.row_columns, columns, opening) as table:
        return await writer.write(table, piece)
