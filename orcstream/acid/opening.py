"""Opening a table: who says what is committed, the listing, and the columns.

Knows where a table's schema may stand. The defaults of opening files live in `reader.opening`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import anyio.lowlevel

from orcstream._keywords import takes
from orcstream.acid.read.event_file import EventFile, opening_of
from orcstream.acid.snapshot import TableListing, TableSnapshot, list_table
from orcstream.acid.table import AcidTable
from orcstream.acid.transactions.contract import Snapshot, TableDefinition, Transactions, partition_schema
from orcstream.acid.transactions.log import LOG_FILE, TransactionLog, create_log
from orcstream.acid.view import Protect
from orcstream.errors import SourceError, UsageError, located
from orcstream.io import small_files
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.folders import check_listable
from orcstream.io.loop.tasks import Pending
from orcstream.io.loop.uncancelled import clean_up
from orcstream.io.urls import shown_of
from orcstream.plan.acid.names import parse_directory
from orcstream.plan.acid.snapshot import AcidFile, WriteIds
from orcstream.plan.projection import RowColumns
from orcstream.reader.opening import OpenKeywords, OpenOptions
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind
from orcstream.table.columns import PartitionColumns

if TYPE_CHECKING:
    from orcstream.acid.transactions.metastore import Metastore

# How often a table is listed that is cleaned just then.
_LOOKS = 5


@takes(OpenKeywords, OpenOptions)
def open_table(
    url: str | os.PathLike[str],
    *,
    write_ids: WriteIds | int | str | None = None,
    transactions: WriteIds | int | str | None = None,
    metastore: str | None = None,
    table: str | None = None,
    read_lock: bool = True,
    schema: object = None,
    partition_schema: object = None,
    **options: Unpack[OpenKeywords],
) -> OpeningTable:
    """Open a Hive transactional table: full ACID tables of both versions, and those that only take inserts.

    Either ``async with orcstream.acid.open_table(url) as table``, or ``table = await ...open_table(url)``
    and, at the end, ``await table.aclose()``. `url` is the table's directory, or a partition's; with a
    `metastore` it is the table's location there.

    `write_ids` says which transactions are seen: a `WriteIds`, the highest one, or Hive's text
    (``db.table:7:5:5,6:3``). Without it, all are taken for committed whose directories are there.
    `transactions` says the same of the transactions that compactions ran in.

    `metastore` is that of a table that Hive shares (``thrift://host:9083``, several with commas between
    them), and `table` the table's name in it, ``database.table``: it says what is committed, what the columns
    are, and gives ids and locks to those who write. It needs ``orcstream[hive]``. With `read_lock`, each
    read holds a transaction and a shared lock there from its first batch to its end, so that Hive removes no
    file that it needs; statements that overwrite or drop the table wait for it.

    `schema` selects, reorders and converts the columns of the rows, by name. Without it they are those of
    the metastore, of the table's log, or of the newest file. Columns of Hive's tables match those of their
    files by position, whatever their names. `partition_schema` are those that folders name, with their types,
    which are else inferred.

    Raises `FileNotFoundError`, `PermissionError`, `SourceError`; `UsageError` for options that cannot be, for
    a `url` that is not where the metastore has the table, for a part of a table with its own log without
    `write_ids`, and for a table without any file, whose columns nobody says; `Unsupported` (reason
    ``history_is_gone``) for a snapshot that a compaction has swallowed.
    """
    return OpeningTable(
        os.fspath(url),
        OpenOptions(**options),
        write_ids if isinstance(write_ids, int) else None if write_ids is None else WriteIds.of(write_ids),
        transactions,
        _schema(schema),
        _schema(partition_schema),
        _metastore(metastore, table),
        read_lock=read_lock,
    )


def _schema(given: object) -> Schema | None:
    if given is None:
        return None
    from orcstream.codec.arrow.schema import schema_of

    return schema_of(given)


def _metastore(url: str | None, table: str | None) -> Metastore | None:
    if (url is None) != (table is None):
        raise UsageError("metastore= and table= are given together: thrift://host:9083 and database.table")
    if url is None or table is None:
        return None
    from orcstream.acid.transactions.metastore import Metastore

    return Metastore(url, table)


async def create_table(
    url: str | os.PathLike[str],
    schema: object,
    *,
    partitions: Mapping[str, str] | None = None,
    bucket_columns: Sequence[str] = (),
    bucket_count: int = 0,
    insert_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
) -> None:
    """Make a folder a transactional table, with a log of its own of what is committed.

    `schema` is that of a row, without the partition columns: text, a `Schema`, or anything with
    `__arrow_c_schema__`. `partitions` are the partition columns and their types, in their order. Rows go
    to `bucket_count` buckets by the values of `bucket_columns`, or all to one. Rows of a table that is
    `insert_only` are never changed; its files are plain. `url`, `storage_options` and `sink_options` are
    those of `orcstream.create`.

    Such a table is for programs that use this package. Hive does not know what is committed in it: a table
    that it shares is made by Hive, and opened with its metastore. Raises `FileExistsError` where there is one
    already, `UsageError` for what no table can be, and the errors of the store.
    """
    from orcstream.acid.write.placing import Placing
    from orcstream.codec.arrow.schema import schema_of

    definition = TableDefinition(
        schema_of(schema), tuple((partitions or {}).items()), tuple(bucket_columns), bucket_count, insert_only
    )
    Placing(definition)  # raises for partition columns that no folder can name
    await create_log(os.fspath(url), definition, storage_options=storage_options, sink_options=sink_options)


class OpeningTable(Pending[AcidTable]):
    """A table about to be opened: await it, or enter it."""

    made_by = "acid.open_table"

    def __init__(
        self,
        url: str,
        options: OpenOptions,
        write_ids: WriteIds | int | None,
        transactions: WriteIds | int | str | None,
        schema: Schema | None,
        partition_schema: Schema | None,
        metastore: Metastore | None,
        *,
        read_lock: bool,
    ) -> None:
        super().__init__()
        self._url = url
        self._options = options
        self._write_ids = write_ids
        self._transactions = transactions
        self._schema = schema
        self._partition_schema = partition_schema
        self._metastore = metastore
        self._read_lock = read_lock

    async def _make(self) -> AcidTable:
        try:
            return await self._open()
        except BaseException:
            if self._metastore is not None:
                await self._metastore.aclose()
            raise

    async def _open(self) -> AcidTable:
        shown = shown_of(self._url)
        keeper, definition = await self._kept()
        if keeper is not None:
            seen, listing = await self._consistent(keeper)
        else:
            seen = await self._seen(None)
            listing = await list_table(self._url, shown, self._options.storage_options)
            if self._write_ids is None:
                await self._check_no_log_above()
        snapshot = listing.snapshot(seen)
        with located(url=shown):
            partitions = self._partition_schema
            if partitions is None and definition is not None:
                partitions = partition_schema(definition)
            columns = PartitionColumns.of(listing.partitions, partitions)
            row_columns = await self._row_columns(snapshot, definition)
            table = AcidTable(snapshot, row_columns, columns, self._options, keeper, protect=self._protect())
        # Thousands of columns were numbered in this turn of the loop, and a first read does so again.
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException as error:
            await clean_up(error, table.aclose)
            raise
        return table

    async def _kept(self) -> tuple[Transactions, TableDefinition] | tuple[None, None]:
        """Who keeps the table's transactions, and what the table is; None where nobody does."""
        if self._metastore is None:
            check_listable(self._url)
            log = TransactionLog(self._url, storage_options=self._options.storage_options)
            try:
                return log, await log.definition()
            except FileNotFoundError:
                return None, None
        from orcstream.acid.transactions.metastore import check_location

        found = await self._metastore.table()
        check_location(self._url, found.location, found.name)
        return self._metastore, found.definition

    async def _check_no_log_above(self) -> None:
        """Raise for a part of a table with its own log, where not all that is there was committed."""
        above = _folder_above(self._url)
        if above is None:
            return
        try:
            await small_files.get(f"{above}/{LOG_FILE}", storage_options=self._options.storage_options)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        raise UsageError(
            f"this is a part of the table {shown_of(above)}, whose log says what is committed: open "
            "the table, and choose rows with where=; or say what is committed with write_ids=",
            url=shown_of(self._url),
        )

    async def _consistent(self, keeper: Transactions) -> tuple[Snapshot, TableListing]:
        """What is committed, and a listing of all of it: one that nobody removed files during.

        Of a folder that loses files, a listing may lack both those and what was put in their place.
        """
        shown = shown_of(self._url)
        async with keeper.opening():
            for _ in range(_LOOKS):
                seen = await self._seen(keeper)
                listing = await list_table(self._url, shown, self._options.storage_options)
                # Without `directories`, it is not the log that was asked.
                if seen.directories is None or (await self._seen(keeper)).removals == seen.removals:
                    return seen, listing
        raise SourceError(
            f"directories were removed each of {_LOOKS} times while it was listed; open it again", url=shown
        )

    def _protect(self) -> Protect | None:
        if self._metastore is None or not self._read_lock:
            return None
        from orcstream.acid.transactions.metastore_transactions import read_transaction

        return partial(read_transaction, self._metastore)

    async def _row_columns(self, snapshot: TableSnapshot, definition: TableDefinition | None) -> RowColumns:
        """The columns as the table defines them, or else as the newest file has them, which Hive wrote."""
        if definition is not None:
            written, by_position = definition.schema, definition.by_position
        else:
            written, by_position = await self._newest_schema(snapshot), True
        schema = self._schema or written
        for one in (schema, written):
            if one.root.kind is not Kind.STRUCT:
                raise UsageError(f"a table's rows are structs, not {one.root}")
        return RowColumns(written, schema, by_position)

    async def _seen(self, keeper: Transactions | None) -> Snapshot:
        """What is committed: as the user says, or who keeps it, or else everything that is there."""
        given = self._write_ids
        if keeper is not None and (given is None or isinstance(given, int)):
            return await keeper.snapshot(given)
        return Snapshot(WriteIds.of(given), WriteIds.of(self._transactions))

    async def _newest_schema(self, snapshot: TableSnapshot) -> Schema:
        """Of the newest file of rows: columns are added, and hardly ever taken away."""
        files = [file for partition in snapshot.partitions for file in partition.inserts]
        files = files or [file for partition in snapshot.partitions for file in partition.deletes]
        if not files and self._schema is not None:
            return self._schema
        if not files:
            raise UsageError("the table has no files that say its columns; name them with schema=")
        newest = max(files, key=_age)
        async with opening_of(snapshot.url_of(newest), newest, self._options) as orc:
            return EventFile(newest, orc).row_schema


def _age(file: AcidFile) -> tuple[int, int, str]:
    directory = file.directory
    if directory is None:
        return (0, 0, file.path)
    return (directory.last_write_id, directory.statement, file.path)


def _folder_above(url: str) -> str | None:
    """The folder that a partition or a directory of events lies in as part of a table; None for others."""
    place = url.rstrip("/")
    while True:
        above, slash, name = place.rpartition("/")
        if "=" not in name and parse_directory(name) is None:
            return None if place == url.rstrip("/") else place
        if not slash:
            return "."
        place = above
