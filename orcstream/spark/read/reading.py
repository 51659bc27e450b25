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
from orcstream.spark.read.pieces import (
    Faults,
    Piece,
    PieceReader,
    ReadPartition,
    ReadPlan,
    TaskReader,
    refuse_events,
)
from orcstream.spark.read.planning import Look, PieceOptions, packed, plan_pieces, target_bytes
from orcstream.spark.read.shaping import columns_of
from orcstream.spark.read.where import Where

_ROWS: Final = re.compile(r"([0-9]*):([0-9]*)", re.ASCII)
_MOST_ROWS: Final = 1 << 63
_MEMORY_LIMIT: Final = 256 << 20
_BATCH_ROWS: Final = 1 << 16
# So often files are listed again that were merged before they were opened.
_LISTINGS: Final = 5
_WIDTHS: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_DIGITS: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 3,
    spark.ShortType: 5,
    spark.IntegerType: 10,
    spark.LongType: 20,
}
_MOST_DIGITS: Final = 38


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
    try:
        return _Merging(read.case_sensitive).structs(schema, own, ())
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


# --- schemas of several files ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Merging:
    """One schema of several: where two differ in a type, the one that holds both is taken."""

    case_sensitive: bool

    def structs(
        self, one: spark.StructType, other: spark.StructType, path: tuple[str, ...]
    ) -> spark.StructType:
        more = {self._folded(field.name): field for field in other.fields}
        fields = []
        for field in one.fields:
            match = more.pop(self._folded(field.name), None)
            type_ = field.dataType
            if match is not None:
                type_ = self.types(type_, match.dataType, (*path, field.name))
            fields.append(spark.StructField(field.name, type_))
        return spark.StructType([*fields, *more.values()])

    def types(self, one: spark.DataType, other: spark.DataType, path: tuple[str, ...]) -> spark.DataType:
        if one == other:
            return one
        if isinstance(one, spark.StructType) and isinstance(other, spark.StructType):
            return self.structs(one, other, path)
        if isinstance(one, spark.ArrayType) and isinstance(other, spark.ArrayType):
            return spark.ArrayType(self.types(one.elementType, other.elementType, (*path, "element")))
        if isinstance(one, spark.MapType) and isinstance(other, spark.MapType):
            key = self.types(one.keyType, other.keyType, (*path, "key"))
            return spark.MapType(key, self.types(one.valueType, other.valueType, (*path, "value")))
        found = _wider(one, other) or _wider(other, one)
        if found is None:
            raise SchemaMismatch(
                f"the column {'.'.join(path)!r} is {one.simpleString()} in one file and "
                f"{other.simpleString()} in another; give the schema to read both by .schema(...)"
            )
        return found

    def _folded(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()


def _wider(one: spark.DataType, other: spark.DataType) -> spark.DataType | None:
    """What takes the values of both, where `other` is the wider or there is a third."""
    if type(one) in _WIDTHS and type(other) in _WIDTHS:
        return max(one, other, key=lambda type_: _WIDTHS.index(type(type_)))
    if isinstance(one, spark.FloatType) and isinstance(other, spark.DoubleType):
        return other
    if isinstance(one, spark.ByteType | spark.ShortType | spark.IntegerType) and isinstance(
        other, spark.DoubleType
    ):
        return other
    if isinstance(other, spark.DecimalType):
        return _wider_decimal(one, other)
    return None


def _wider_decimal(one: spark.DataType, other: spark.DecimalType) -> spark.DecimalType | None:
    if isinstance(one, spark.DecimalType):
        whole, scale = one.precision - one.scale, one.scale
    elif type(one) in _DIGITS:
        whole, scale = _DIGITS[type(one)], 0
    else:
        return None
    scale = max(scale, other.scale)
    precision = max(whole, other.precision - other.scale) + scale
    return spark.DecimalType(precision, scale) if precision <= _MOST_DIGITS else None


# --- reading ---------------------------------------------------------------------------------------


def reader_of(schema: spark.StructType, options: Mapping[str, str]) -> DataSourceReader:
    """The reader of columns of Spark. Raises what its tasks would raise because of the options."""
    read = LoadOptions.of(options)
    return _Reader(read, read_plan(read, schema))


class _Reader(DataSourceReader):
    """See `DataSourceReader`."""

    def __init__(self, options: LoadOptions, plan: ReadPlan) -> None:
        self._options = options
        self._plan = plan
        self._found: FoundFiles | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # Executors are told by their partitions which files there are.
        return TaskReader, (self._plan,)

    def _files(self) -> FoundFiles:
        if self._found is None:
            self._found = self._options.find()
        return self._found

    def partitions(self) -> list[ReadPartition]:
        found = self._files()
        options = self._options
        if options.rows is not None and len(found.files) != 1:
            raise UsageError(f"option rows is for one file, and there are {len(found.files)}")
        reader = PieceReader(self._plan, found.partition_names)
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
        return TaskReader(self._plan).read(partition)


def read_plan(options: LoadOptions, schema: spark.StructType) -> ReadPlan:
    """What executors are told. Raises what binding the predicate raises."""
    return ReadPlan(
        schema=schema,
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
