"""Opening a table: who says what is committed, the listing, and the columns.

Knows where a table's schema may stand. The defaults of opening live here; those of reading in `acid.table`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from orcstream.acid.event_file import EventFile
from orcstream.acid.partition_values import PartitionColumns
from orcstream.acid.snapshot import TableSnapshot, list_table
from orcstream.acid.table import AcidTable
from orcstream.codec.arrow_schema import schema_of
from orcstream.errors import UsageError, located
from orcstream.io.keys import KeyProvider
from orcstream.io.options import IoOptions
from orcstream.io.source import strip_credentials
from orcstream.pending import Pending
from orcstream.plan.acid import AcidFile
from orcstream.plan.write_ids import WriteIds
from orcstream.reader.opening import Opening, OpenOptions
from orcstream.schema import Kind, Schema

__all__ = ["open_table"]


def open_table(
    url: str | os.PathLike[str],
    *,
    write_ids: WriteIds | int | str | None = None,
    transactions: WriteIds | int | str | None = None,
    schema: object = None,
    partition_schema: object = None,
    storage_options: Mapping[str, Any] | None = None,
    io_options: IoOptions | Mapping[str, Any] | None = None,
    keys: KeyProvider | None = None,
    require_keys: Iterable[str] | bool = False,
    timezone: str | None = None,
    default_timezone: str = "UTC",
    calendar: str = "auto",
    instants: bool = False,
) -> OpeningTable:
    """Open a Hive transactional table: full ACID tables of both versions, and those that only take inserts.

    Either ``async with orcstream.acid.open_table(url) as table``, or ``table = await ...open_table(url)``
    and, at the end, ``await table.aclose()``. `url` is the table's directory, or a partition's.

    `write_ids` says which transactions are seen: a `WriteIds`, the highest one, or Hive's text
    (``db.table:7:5:5,6:3``). Without it, all are taken for committed whose directories are there.
    `transactions` says the same of the transactions that compactions ran in.

    `schema` are the columns of the rows, where those of the newest file are not it; `partition_schema` those
    that folders name, with their types, which are else inferred. The other parameters are those of
    `orcstream.open`.

    Raises `FileNotFoundError`, `PermissionError`, `SourceError`; `UsageError` for options that cannot be and
    for a table without any file, whose columns nobody says; `Unsupported` (reason ``history_is_gone``) for a
    snapshot that a compaction has swallowed.
    """
    options = OpenOptions.of(
        storage_options,
        io_options,
        timezone,
        default_timezone,
        calendar,
        instants=instants,
        keys=keys,
        require_keys=require_keys,
    )
    return OpeningTable(
        os.fspath(url),
        options,
        WriteIds.of(write_ids),
        WriteIds.of(transactions),
        None if schema is None else schema_of(schema),
        None if partition_schema is None else schema_of(partition_schema),
    )


class OpeningTable(Pending[AcidTable]):
    """A table about to be opened: await it, or enter it."""

    made_by = "acid.open_table"

    def __init__(
        self,
        url: str,
        options: OpenOptions,
        write_ids: WriteIds,
        transactions: WriteIds,
        schema: Schema | None,
        partition_schema: Schema | None,
    ) -> None:
        super().__init__()
        self._url = url
        self._options = options
        self._write_ids = write_ids
        self._transactions = transactions
        self._schema = schema
        self._partition_schema = partition_schema

    async def _make(self) -> AcidTable:
        shown = strip_credentials(self._url)
        listing = await list_table(self._url, shown, self._options.storage_options)
        snapshot = listing.snapshot(self._write_ids, self._transactions)
        with located(url=shown):
            columns = PartitionColumns.of(listing.partitions, self._partition_schema)
            schema = self._schema or await self._newest_schema(snapshot)
            if schema.root.kind is not Kind.STRUCT:
                raise UsageError(f"a table's rows are structs, not {schema.root}")
            return AcidTable(shown, snapshot, schema, columns, self._options)

    async def _newest_schema(self, snapshot: TableSnapshot) -> Schema:
        """Of the newest file of rows: columns are added, and hardly ever taken away."""
        files = [file for partition in snapshot.partitions for file in partition.inserts]
        files = files or [file for partition in snapshot.partitions for file in partition.deletes]
        if not files:
            raise UsageError("the table has no files that say its columns; name them with schema=")
        newest = max(files, key=_age)
        async with Opening(snapshot.url_of(newest), self._options, None) as orc:
            return EventFile(newest, orc).row_schema


def _age(file: AcidFile) -> tuple[int, int, str]:
    directory = file.directory
    if directory is None:
        return (0, 0, file.path)
    return (directory.last_write_id, directory.statement, file.path)
