"""A transactional table, opened as of a snapshot: its partitions, its columns, its rows.

Puts what the user asks for into the words of the layers below. Must not know how events become rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from orcstream.acid.bucket import Bucket
from orcstream.acid.event_file import EventFile, event_type
from orcstream.acid.merging import IS_DELETED, ROW_ID, Output
from orcstream.acid.partition_values import PartitionColumns, PartitionRow
from orcstream.acid.predicates import narrowed, prefixed
from orcstream.acid.snapshot import TableSnapshot
from orcstream.acid.stream import FileRead, TableRead, TableStream
from orcstream.batch import ReadResult
from orcstream.errors import UsageError
from orcstream.expr import Expr, as_expr
from orcstream.expr_binding import bind
from orcstream.io.clients import keep_clients
from orcstream.plan.acid import AcidFile, Partition
from orcstream.plan.write_ids import WriteIds
from orcstream.reader.budget import DEFAULT_MEMORY_LIMIT
from orcstream.reader.file import OrcFile
from orcstream.reader.opening import Opening, OpenOptions
from orcstream.reader.planning import DEFAULT_BATCH_ROWS, Columns, ReadOptions, Where
from orcstream.reader.stream import BatchStream
from orcstream.reader.supervisor import Supervisor
from orcstream.schema import Kind, Schema, Type, find_column, steps_of

__all__ = ["AcidTable"]

_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadOptions:
    """What the user may ask of a read; see `AcidTable.batches`."""

    columns: Columns | None
    where: Where
    row_ids: bool
    include_deleted: bool
    read: ReadOptions


class AcidTable:
    """A Hive transactional table as of a snapshot.

    For use from one event loop; several streams at a time are fine.
    """

    def __init__(
        self,
        url: str,
        snapshot: TableSnapshot,
        schema: Schema,
        partition_columns: PartitionColumns,
        opening: OpenOptions,
    ) -> None:
        """`schema` is that of the rows, without the columns that folders name."""
        self._url = url
        self._snapshot = snapshot
        self._row_schema = schema
        self._partition_columns = partition_columns
        self._opening = opening
        self._tasks = Supervisor()
        self._clients = keep_clients()
        self._is_closed = False
        self._root = _with_partitions(schema.root, partition_columns)

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

    def batches(
        self,
        *,
        columns: Columns | None = None,
        where: Where = None,
        row_ids: bool = False,
        include_deleted: bool = False,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        decode_threads: int | None = None,
        timestamp_unit: str = "ns",
        dictionaries: bool = False,
        invalid_utf8: str = "error",
        case_sensitive: bool = True,
    ) -> TableStream:
        """A stream of the table's rows: those inserted and not deleted, as far as the snapshot sees both.

        `columns` and `where` may name columns of partitions, too: partitions without a match are not read.
        With `row_ids`, a last column ``row__id`` has each row's id, a struct of writeid, bucketid and rowid;
        with `include_deleted`, deleted rows come as well, and ``row__is__deleted`` says which they are. The
        other parameters are those of `OrcFile.batches`.

        Rows come partition by partition, file by file; in no order of their values. Raises `ColumnNotFound`,
        `SchemaMismatch` and other `UsageError` at once; while reading `FormatError`, `Unsupported`,
        `SourceError`.
        """
        options = ReadOptions(
            batch_rows=batch_rows,
            memory_limit=memory_limit,
            decode_threads=decode_threads,
            timestamp_unit=timestamp_unit,
            dictionaries=dictionaries,
            invalid_utf8=invalid_utf8,
            case_sensitive=case_sensitive,
        )
        asked = TableReadOptions(
            columns=columns, where=where, row_ids=row_ids, include_deleted=include_deleted, read=options
        )
        return self._stream(asked)

    async def read(
        self,
        *,
        columns: Columns | None = None,
        where: Where = None,
        row_ids: bool = False,
        include_deleted: bool = False,
        batch_rows: int = 1 << 17,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        decode_threads: int | None = None,
        timestamp_unit: str = "ns",
        dictionaries: bool = False,
        invalid_utf8: str = "error",
        case_sensitive: bool = True,
    ) -> ReadResult:
        """All rows at once: ``pyarrow.table(await table.read())``. Takes the same as `batches`.

        The result itself is outside `memory_limit`.
        """
        stream = self.batches(
            columns=columns,
            where=where,
            row_ids=row_ids,
            include_deleted=include_deleted,
            batch_rows=batch_rows,
            memory_limit=memory_limit,
            decode_threads=decode_threads,
            timestamp_unit=timestamp_unit,
            dictionaries=dictionaries,
            invalid_utf8=invalid_utf8,
            case_sensitive=case_sensitive,
        )
        async with stream:
            return ReadResult(stream.batch_schema, [batch async for batch in stream])

    def _stream(self, asked: TableReadOptions) -> TableStream:
        if self._is_closed:
            raise UsageError("the table is closed", url=self._url)
        planner = _Planner(self._root, self._row_schema, self._partition_columns, self._snapshot, asked)
        return TableStream(self, planner.plan(self._open_file), self._tasks, self._url)

    async def _open_file(self, file: AcidFile) -> OrcFile:
        url = self._snapshot.url_of(file)
        return await Opening(url, self._opening, None, _POLL_S if file.is_growing else None)

    # --- life time

    async def aclose(self) -> None:
        """Stop all streams of this table and give back its connections; may be called again."""
        if not self._is_closed:
            self._is_closed = True
            await self._tasks.end()
            await self._clients.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<AcidTable {self._url}: {len(self.schema)} columns, {len(self.partitions)} partitions>"


def _with_partitions(row: Type, columns: PartitionColumns) -> Type:
    """The struct of a table's columns, numbered anew."""
    taken = set(row.field_names).intersection(columns.names)
    if taken:
        raise UsageError(f"the column {min(taken)!r} is in the files, and in the names of folders")
    children = (*row.children, *columns.types)
    root = Type(Kind.STRUCT, children, (*row.field_names, *columns.names))
    return Schema.parse(str(Schema(root))).root


class _Planner:
    """Turns what a user asks of a table into reads of its files."""

    def __init__(
        self,
        root: Type,
        row_schema: Schema,
        partition_columns: PartitionColumns,
        snapshot: TableSnapshot,
        asked: TableReadOptions,
    ) -> None:
        self._root = root
        self._row_schema = row_schema
        self._partition_columns = partition_columns
        self._snapshot = snapshot
        self._asked = asked
        self._options = asked.read
        self._where = None if asked.where is None else as_expr(asked.where)
        projected = Schema(root).select(asked.columns, self._options.case_sensitive)
        extra = [ROW_ID] if asked.row_ids else []
        extra += [IS_DELETED] if asked.include_deleted else []
        taken = set(projected.field_names).intersection(extra)
        if taken:
            raise UsageError(f"the table has a column {min(taken)!r} of its own; choose columns= without it")
        names = frozenset(partition_columns.names)
        self._output = Output(projected, names, tuple(extra), self._options.vectors)
        self._columns = self._row_columns()
        if self._where is not None:
            # What cannot be asked is said before anything is read.
            bind(
                self._where,
                root,
                case_sensitive=self._options.case_sensitive,
                timestamp_unit=self._options.timestamp_unit,
            )

    def plan(self, open_file: Any) -> TableRead:
        return TableRead(
            files=[read for partition in self._snapshot.partitions for read in self._reads(partition)],
            output=self._output,
            write_ids=self._snapshot.write_ids,
            open_file=open_file,
            batches=self._batches,
            memory_limit=self._options.memory_limit,
            batch_rows=self._options.batch_rows,
        )

    def _row_columns(self) -> list[tuple[str, ...]]:
        """The paths of the columns that files are asked for."""
        if self._asked.columns is None:
            return [(name,) for name in self._row_schema.names]
        paths = []
        for column in self._asked.columns:
            path = self._path(column)
            if path[0] not in self._partition_columns.names:
                paths.append(path)
        return paths

    def _path(self, column: str | tuple[str, ...]) -> tuple[str, ...]:
        names: list[str] = []
        node = self._root
        for index in find_column(node, column, case_sensitive=self._options.case_sensitive):
            names.append(steps_of(node)[index])
            node = node.children[index]
        return tuple(names)

    # --- files

    def _reads(self, partition: Partition) -> list[FileRead]:
        row = PartitionRow(self._partition_columns, self._partition_columns.values(partition.path))
        where = self._narrowed(row)
        if where is False:
            return []
        versioned = self._snapshot.versioned(partition)
        reads = []
        for number in sorted({_bucket(file) for file in partition.inserts}):
            inserts = [file for file in partition.inserts if _bucket(file) == number]
            deletes = [file for file in partition.deletes if number < 0 or _bucket(file) in (number, -1)]
            bucket = Bucket(
                inserts, deletes, versioned, self._snapshot.write_ids, needs_ids=self._output.needs_ids
            )
            asked = None if where is True else where
            reads += [FileRead(file, bucket, row, asked) for file in inserts]
        return reads

    def _narrowed(self, row: PartitionRow) -> Expr | bool:
        if self._where is None:
            return True
        case_sensitive = self._options.case_sensitive
        return narrowed(
            self._where,
            self._root,
            row.values,
            partial(row.holds, case_sensitive=case_sensitive),
            case_sensitive=case_sensitive,
        )

    def _batches(self, file: EventFile, read: FileRead, with_ids: bool, memory_limit: int) -> BatchStream:
        prefix = file.prefix
        ids: Sequence[tuple[str, ...]] = [(name,) for name in file.id_columns] if with_ids else []
        where = None
        if read.where is not None:
            where = prefixed(
                read.where, self._row_schema.root, prefix, case_sensitive=self._options.case_sensitive
            )
        options = self._options
        return file.orc.batches(
            columns=[*ids, *((*prefix, *path) for path in self._columns)],
            where=where,
            schema=self._schema_for(file),
            rows=range(file.orc.row_count) if file.file.is_growing else None,
            row_numbers=with_ids and file.columns is None,
            batch_rows=options.batch_rows,
            memory_limit=memory_limit,
            decode_threads=options.decode_threads,
            timestamp_unit=options.timestamp_unit,
            dictionaries=options.dictionaries,
            invalid_utf8=options.invalid_utf8,
        )

    def _schema_for(self, file: EventFile) -> str | None:
        """What a file is read as, where it is not what it is."""
        if str(file.row_schema) == str(self._row_schema):
            return None
        if file.columns is None:
            return str(self._row_schema)
        return event_type(self._row_schema, file.columns)


def _bucket(file: AcidFile) -> int:
    return -1 if file.bucket is None else file.bucket
