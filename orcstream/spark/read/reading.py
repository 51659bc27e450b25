"""Batch reading: the schema of some files, the tasks that read them, and what each task answers.

Knows the options of a read. Files are found by `files`, shared out by `planning`, and their batches made
Spark's by `shaping`. The reader is pickled to every executor: it holds values only, and each process opens
files for itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader

from orcstream import OrcFile, open_many
from orcstream.errors import ColumnNotFound, SchemaMismatch, UsageError, located
from orcstream.io.urls import name_of
from orcstream.spark.access import Access, run
from orcstream.spark.options import Options
from orcstream.spark.read.files import FileChoice, FoundFile, FoundFiles
from orcstream.spark.read.pieces import Faults, PieceReader, ReadPlan, refuse_events
from orcstream.spark.read.planning import (
    Look,
    Piece,
    PieceOptions,
    ReadPartition,
    packed,
    plan_pieces,
    target_bytes,
)
from orcstream.spark.read.shaping import columns_of
from orcstream.spark.read.where import Where

_ROWS: Final = re.compile(r"([0-9]*):([0-9]*)", re.ASCII)
_MOST_ROWS: Final = 1 << 63
_MEMORY_LIMIT: Final = 256 << 20
_BATCH_ROWS: Final = 1 << 16
# So often files are listed again that were merged before they were opened.
_LISTINGS: Final = 5


@dataclass(frozen=True)
class LoadOptions:
    """The options of `spark.read...load`."""

    choice: FileChoice
    access: Access
    pieces: PieceOptions
    faults: Faults
    columns: tuple[str, ...] | None
    case_sensitive: bool
    merge_schema: bool
    where: str | None
    timezone: str | None
    rows: range | None
    memory_limit: int
    batch_rows: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> LoadOptions:
        options = Options(given)
        found = cls.taken(options)
        options.finish()
        return found

    @classmethod
    def taken(cls, options: Options) -> LoadOptions:
        """Of options among which there may be others."""
        case_sensitive = options.truth("case_sensitive")
        timezone = options.text("timezone")
        columns = options.names("columns")
        return cls(
            choice=FileChoice.of(options, case_sensitive=case_sensitive, timezone=timezone or "UTC"),
            access=Access.of(options),
            pieces=PieceOptions.of(options),
            faults=Faults(options.truth("ignoreCorruptFiles"), options.truth("ignoreMissingFiles")),
            columns=None if columns is None else tuple(columns),
            case_sensitive=case_sensitive,
            merge_schema=options.truth("mergeSchema"),
            where=_where(options),
            timezone=timezone,
            rows=_rows(options.text("rows")),
            memory_limit=options.size("memory_limit", _MEMORY_LIMIT),
            batch_rows=options.count("batch_rows", _BATCH_ROWS),
        )

    def find(self) -> FoundFiles:
        """The files that count, as they are now."""
        from orcstream.spark.read.merged_files import find_counted

        return run(lambda: find_counted(self.choice, self.access.storage_options))

    def bound(self, schema: spark.StructType) -> Where | None:
        """Option `where`, for the columns of a read; None where it is not given."""
        if self.where is None:
            return None
        return Where.of(self.where, schema, self.timezone or "UTC", case_sensitive=self.case_sensitive)


def _where(options: Options) -> str | None:
    if options.truth("pushdown"):
        raise UsageError(
            "option pushdown is not supported: Spark keeps the filters of one query for all later queries on "
            "the same DataFrame, which would lose rows; use .option('where', \"id < 10 and day = date "
            "'2024-01-31'\") to filter where the table is loaded"
        )
    return options.text("where")


def _rows(text: str | None) -> range | None:
    if text is None:
        return None
    match = _ROWS.fullmatch(text)
    if match is None:
        raise UsageError(f"option rows is A:B, the rows of a file from A up to B, without B; not {text!r}")
    return range(int(match[1] or 0), int(match[2] or _MOST_ROWS))


# --- schema ----------------------------------------------------------------------------------------


def schema_of(options: Mapping[str, str]) -> spark.StructType:
    """The columns of the files, as Spark shows them, and behind them those that folders name.

    Of the first file, or with `mergeSchema` of all.
    """
    read = LoadOptions.of(options)
    found = read.find()
    if not found.files:
        raise UsageError("there are no files there to take a schema from; give one by .schema(...)")
    for _ in range(_LISTINGS):
        try:
            stored = run(partial(_file_schema, read, found))
            break
        except FileNotFoundError:  # merged since it was listed
            found = read.find()
    else:
        stored = run(partial(_file_schema, read, found))
    schema = _chosen(_with_folders(stored, found.partition_fields(), read), read)
    read.bound(schema)  # so that load() refuses a predicate that cannot be asked
    return schema


async def _file_schema(read: LoadOptions, found: FoundFiles) -> spark.StructType:
    urls = [file.url for file in (found.files if read.merge_schema else found.files[:1])]
    if not read.merge_schema and read.faults.any:
        urls = [file.url for file in found.files]
    in_folders = {_folded(name, read) for name in found.partition_names}
    schema: spark.StructType | None = None
    opening = open_many(urls, ordered=True, on_error=read.faults.on_error, **await read.access.open_options())
    async with opening as files:
        async for file in files:
            async with file:
                refuse_events(file)
                with located(url=file.url):
                    own = _own_columns(file, read, in_folders)
                schema = own if schema is None else _merged(schema, own, file, read)
                if not read.merge_schema:
                    return schema
    if schema is None:
        raise UsageError("none of the files could be read; give a schema by .schema(...)")
    return schema


def _own_columns(file: OrcFile, read: LoadOptions, in_folders: set[str]) -> spark.StructType:
    """Those of one file that are read. What the file lacks of the columns asked for may be in another's."""
    columns = read.columns
    if columns is not None:
        columns = tuple(name for name in columns if _folded(name, read) not in in_folders)
    if columns is None or not read.merge_schema:
        return columns_of(file.schema, columns, case_sensitive=read.case_sensitive)
    found = []
    for name in columns:
        try:
            found += columns_of(file.schema, [name], case_sensitive=read.case_sensitive).fields
        except ColumnNotFound:
            continue
    return spark.StructType(found)


def _merged(
    schema: spark.StructType, own: spark.StructType, file: OrcFile, read: LoadOptions
) -> spark.StructType:
    from orcstream.spark.read.merging import merged

    try:
        return merged(schema, own, case_sensitive=read.case_sensitive)
    except SchemaMismatch as error:
        raise error.locate(url=file.url) from None


def _with_folders(
    stored: spark.StructType, in_folders: Sequence[spark.StructField], read: LoadOptions
) -> spark.StructType:
    """Columns that both name are the folders', where they stand in the files."""
    by_name = {_folded(field.name, read): field for field in in_folders}
    fields = [by_name.pop(_folded(field.name, read), field) for field in stored.fields]
    return spark.StructType([*fields, *by_name.values()])


def _chosen(schema: spark.StructType, read: LoadOptions) -> spark.StructType:
    """The columns in the order asked for."""
    if read.columns is None:
        return schema
    places = {_folded(field.name, read): field for field in schema.fields}
    tops = {
        name if (name := _folded(asked, read)) in places else name.partition(".")[0]: asked
        for asked in read.columns
    }
    for name, asked in tops.items():
        if name not in places:
            raise ColumnNotFound(f"no file has a column {asked!r}")
    return spark.StructType([places[name] for name in tops])


def _folded(name: str, read: LoadOptions) -> str:
    return name if read.case_sensitive else name.lower()


# --- reading ---------------------------------------------------------------------------------------


def reader_of(schema: spark.StructType, options: Mapping[str, str]) -> DataSourceReader:
    """The reader of columns of Spark. Raises what its tasks would raise because of the options."""
    read = LoadOptions.of(options)
    read.bound(schema)
    return _Reader(schema, read)


class _Reader(DataSourceReader):
    """See `DataSourceReader`."""

    def __init__(self, schema: spark.StructType, options: LoadOptions) -> None:
        self._schema = schema
        self._options = options
        self._found: FoundFiles | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors are told by their partitions which files there are.
        return {**self.__dict__, "_found": None}

    def _files(self) -> FoundFiles:
        if self._found is None:
            self._found = self._options.find()
        return self._found

    def _piece_reader(self, partition_names: tuple[str, ...]) -> PieceReader:
        return PieceReader(read_plan(self._options, self._schema, partition_names))

    def partitions(self) -> list[ReadPartition]:
        found = self._files()
        options = self._options
        if options.rows is not None and len(found.files) != 1:
            raise UsageError(f"option rows is for one file, and there are {len(found.files)}")
        reader = self._piece_reader(found.partition_names)
        files = [file for file in found.files if reader.folder_matches(file)]
        asks_rows = any(reader.asks_rows(file) for file in files)
        total = sum(file.length or 0 for file in files)
        target = target_bytes(total, len(files), options.pieces)
        pieces = run(lambda: self._pieces(files, target, reader.look if asks_rows else None))
        tasks = packed(pieces, target, options.pieces.open_cost_bytes)
        beside = _by_folder(found.merged)
        return [
            ReadPartition(several, found.partition_names, _merged_beside(several, beside))
            for several in tasks
        ]

    async def _pieces(self, files: Sequence[FoundFile], target: int, look: Look | None) -> list[Piece]:
        options = self._options
        return await plan_pieces(
            files,
            target,
            await options.access.open_options(),
            look=look,
            rows=options.rows,
            on_error=options.faults.on_error,
        )

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ReadPartition):  # where there are none, Spark makes one
            return iter(())
        return self._piece_reader(partition.partition_names).batches(partition.pieces, partition.merged)


def read_plan(options: LoadOptions, schema: spark.StructType, partition_names: tuple[str, ...]) -> ReadPlan:
    """What executors are told."""
    return ReadPlan(
        schema=schema,
        partition_names=partition_names,
        access=options.access,
        faults=options.faults,
        where=options.bound(schema),
        case_sensitive=options.case_sensitive,
        timezone=options.timezone,
        memory_limit=options.memory_limit,
        batch_rows=options.batch_rows,
        roots=options.choice.roots,
    )


def _by_folder(names: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(posixpath.dirname(name), set()).add(name)
    return found


def _merged_beside(pieces: Sequence[Piece], merged: Mapping[str, set[str]]) -> frozenset[str]:
    """The merged files in the folders of some pieces, by their names."""
    if not merged:
        return frozenset()
    folders = {posixpath.dirname(name_of(piece.url)) for piece in pieces}
    return frozenset(name for folder in folders for name in merged.get(folder, ()))
