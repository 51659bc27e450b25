"""The files of a transaction, or of a batch of them, in a table's directory: deltas by statement, and bases.

Knows names, buckets and row ids. Must not know who says that a transaction is committed, nor which rows are
meant; none counts before its transaction's commit, which is somebody else's.

Of one transaction every file appears whole. Those of a batch grow: they are there from the start, hold the
rows of several transactions, one after the other, and can be read as far as they were flushed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from orcstream.acid.read.event_file import DELETE, INSERT
from orcstream.acid.read.row_ids import RowIds
from orcstream.acid.transactions.contract import TableDefinition
from orcstream.acid.write.event_writer import VERSION, EventLayout, EventWriter, PlainWriter
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.errors import OrcError, Unsupported, UsageError
from orcstream.io import small_files
from orcstream.io.contract.append_file import FLUSH_LENGTH, NO_LENGTH
from orcstream.io.contract.folder import below
from orcstream.io.folders import make_folder_of, remove_files, remove_folders
from orcstream.io.loop.uncancelled import clean_up, until_over
from orcstream.plan.acid.names import (
    MOST_STATEMENT,
    NO_STATEMENT,
    DirectoryKind,
    bucket_property,
    delta_name,
)
from orcstream.plan.acid.snapshot import VERSION_FILE
from orcstream.writer.creating import create, hidden_names
from orcstream.writer.options import FileOptions

# Files that are open at once; beyond, a new statement begins.
_MOST_OPEN = 32
_LEAST_MEMORY = 16 << 20


def bucket_file_name(bucket: int) -> str:
    """As Hive names the files of a bucket."""
    return f"bucket_{bucket:05d}"


def plain_file_name(bucket: int) -> str:
    """As Hive names files of rows without ids."""
    return f"{bucket:06d}_0"


@dataclass(slots=True)
class _Open:
    """A file of rows that are inserted."""

    writer: EventWriter | PlainWriter
    write_id: int = 0
    next_row_id: int = 0
    is_flushed: bool = True


class DeltaFiles:
    """Writes the files of some write ids, of the first one until `go_on` names another.

    Those of more than one grow.
    """

    def __init__(
        self,
        url: str,
        definition: TableDefinition,
        write_ids: range,
        options: FileOptions,
        *,
        memory_limit: int,
    ) -> None:
        self._url = url
        self._layout = None if definition.insert_only else EventLayout(definition.schema)
        self._schema = definition.schema
        self._write_ids = write_ids
        self._write_id = write_ids[0]
        self._grows = len(write_ids) > 1
        self._options = options
        self.hidden = hidden_names(options)
        self._memory_limit = memory_limit
        self._statement = 0
        self._is_used = False  # whether the statement has directories
        self._open: dict[tuple[str, int], _Open] = {}
        self._paths: list[str] = []  # of files, whole or not
        self._directories: dict[str, None] = {}
        self._written: dict[str, None] = {}
        # Whether the rows of a partition replace what was there, and as of which statement.
        self._replacing: dict[str, tuple[bool, int]] = {}
        self.write_count = 0  # how often anything was begun to be written

    @property
    def written(self) -> tuple[str, ...]:
        """The directories that the write id has written to, in their order, by their paths."""
        return tuple(self._written)

    @property
    def is_full(self) -> bool:
        """Whether there is little room for more statements."""
        return self._statement > MOST_STATEMENT // 2

    def go_on(self, write_id: int) -> None:
        """What is written from now on is of another write id, which is greater."""
        self._write_id = write_id
        self._written = {}

    # --- rows

    async def insert(
        self, partition: str, bucket: int, rows: IngestedRows, *, replaces: bool = False
    ) -> None:
        """Append rows to a bucket of a partition; they get the next row ids of the statement.

        Rows of a statement that `replaces` what is in the partition make a base.
        """
        found = await self._file_of(partition, bucket, replaces=replaces)
        count = rows.row_count
        first = found.next_row_id
        found.next_row_id += count
        write_ids = np.full(count, self._write_id, np.int64)
        ids = RowIds(
            write_ids,
            np.full(count, bucket_property(bucket, self._statement), np.int32),
            np.arange(first, first + count, dtype=np.int64),
            write_ids,
        )
        await found.writer.write(ids, np.full(count, INSERT, np.int32), rows)

    async def empty(self, partition: str) -> None:
        """Replace what is in a partition, perhaps with nothing: a base has a file even then."""
        if not any(path == partition for path, _ in self._open):
            await self._file_of(partition, 0, replaces=True)

    async def _file_of(self, partition: str, bucket: int, *, replaces: bool) -> _Open:
        self._check_alone(partition, replaces=replaces)
        self.write_count += 1
        key = (partition, bucket)
        if key not in self._open and len(self._open) >= _MOST_OPEN:
            if not replaces:
                await self.end_statement()
            elif len(self._open) * _LEAST_MEMORY >= self._memory_limit:
                # Hive compacts only one file of each bucket of a base, so that each is written in one go.
                raise Unsupported(
                    f"rows for more than {len(self._open)} files are overwritten at once: name partition=, "
                    "and one after the other, or raise memory_limit",
                    reason="too_many_files",
                )
        directory = self._directory(DirectoryKind.BASE if replaces else DirectoryKind.DELTA, partition)
        if key not in self._open:
            self._open[key] = _Open(await self._create(directory, bucket, grows=self._grows))
        self._written[directory] = None
        found = self._open[key]
        found.is_flushed = False
        if found.write_id != self._write_id:
            found.write_id, found.next_row_id = self._write_id, 0
        return found

    def _check_alone(self, partition: str, *, replaces: bool) -> None:
        """Readers take a base for all there is of its write id."""
        before = self._replacing.setdefault(partition, (replaces, self._statement))
        if before[0] != replaces or (replaces and before[1] != self._statement):
            where = partition or "the table"
            raise UsageError(f"a transaction that overwrites {where} does nothing else there; begin another")

    async def delete(self, partition: str, bucket: int, keys: Iterable[RowIds]) -> None:
        """Write the deletes of a bucket: `keys` yields parts of their keys, ascending over all parts."""
        self._check_alone(partition, replaces=False)
        self.write_count += 1
        directory = self._directory(DirectoryKind.DELETE_DELTA, partition)
        writer = await self._create(directory, bucket)
        self._written[directory] = None
        try:
            for part in keys:
                count = len(part)
                versions = np.full(count, self._write_id, np.int64)
                ids = RowIds(part.write_ids, part.buckets, part.row_ids, versions)
                await writer.write(ids, np.full(count, DELETE, np.int32), None)
            await writer.commit()
        except BaseException as error:
            await clean_up(error, writer.abort)
            raise

    # --- files

    def _directory(self, kind: DirectoryKind, partition: str) -> str:
        if self._statement > MOST_STATEMENT:
            raise Unsupported(
                f"more than {MOST_STATEMENT + 1} statements in one transaction; commit it now and then",
                reason="too_many_statements",
            )
        statement = NO_STATEMENT if kind is DirectoryKind.BASE else self._statement
        name = delta_name(kind, self._write_ids[0], self._write_ids[-1], statement)
        return f"{partition}/{name}" if partition else name

    async def _create(self, directory: str, bucket: int, *, grows: bool = False) -> EventWriter | PlainWriter:
        self._is_used = True
        layout, is_new = self._layout, directory not in self._directories
        self._directories[directory] = None  # it is there from now on, whatever fails
        if layout is not None and is_new:
            await self._put(f"{directory}/{VERSION_FILE}", VERSION.encode())
        path = f"{directory}/{bucket_file_name(bucket) if layout else plain_file_name(bucket)}"
        if grows:
            # Before the file itself: whoever lists them must not take it for whole.
            await self._put(path + FLUSH_LENGTH, NO_LENGTH)
        url = self._url_of(path)
        await make_folder_of(url)
        schema = self._schema if layout is None else layout.schema
        orc = await create(url, schema, **self._options, memory_limit=self._memory_of_one(), growing=grows)
        return PlainWriter(orc) if layout is None else EventWriter(orc, layout)

    async def _put(self, path: str, data: bytes) -> None:
        options = self._options.get("storage_options")
        await small_files.put(self._url_of(path), data, overwrite=True, storage_options=options)

    def _url_of(self, path: str) -> str:
        """Of a file that is going to be there."""
        self._paths.append(path)
        return below(self._url, path)

    def _memory_of_one(self) -> int:
        return max(_LEAST_MEMORY, self._memory_limit // (len(self._open) + 1))

    async def flush(self) -> None:
        """What was written is durable, for those who see its write id; files that do not grow are whole."""
        if not self._grows:
            await self.end_statement()
        for one in self._open.values():
            if not one.is_flushed and isinstance(one.writer, EventWriter):
                await one.writer.flush()
                one.is_flushed = True

    async def end_statement(self) -> None:
        """Complete the files of the statement; what follows belongs to the next one."""
        try:
            for one in self._open.values():
                await one.writer.commit()
        except BaseException as error:
            await clean_up(error, self.abort_open)
            raise
        self._open = {}
        if self._is_used:
            self._statement += 1
            self._is_used = False

    async def abort_open(self) -> None:
        """Give up the files that are not whole; those that grow end where they were flushed.

        Shielded from cancellation. Raises the first failure, when all were tried.
        """
        await until_over(self._abort_open())

    async def _abort_open(self) -> None:
        errors: list[Exception] = []
        while self._open:
            _, one = self._open.popitem()
            try:
                # Who gave the transaction up may have removed its files, too.
                with suppress(FileNotFoundError):
                    await one.writer.abort()
            except (OrcError, OSError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def discard(self) -> None:
        """Leave nothing of what was written; shielded from cancellation."""
        await until_over(self._discard())

    async def _discard(self) -> None:
        await self._abort_open()
        options = self._options.get("storage_options")
        await remove_files(self._url, self._paths, storage_options=options)
        await remove_folders(self._url, self._directories, storage_options=options)
