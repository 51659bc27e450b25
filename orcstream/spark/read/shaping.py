"""What of a file becomes which column of Spark: types, the schema to read it by, and its batches as Spark's.

Knows how Spark keeps values that ORC has no type for, and which points in time TIMESTAMP columns mean: times
without a zone and intervals are numbers, char and varchar are strings, all with the name of the type in an
attribute beside them, as `OrcUtils.scala` and `OrcFileFormat.scala` of Spark 4 have it. Must not know where
files are. Nothing is copied: the memory of a batch is handed on under the types that Spark
expects.

A TIMESTAMP of Spark is a point in time, one of ORC is what the writer's clock showed. Files are opened so
that they say when it did (`instants`). Where the user names a zone, and Spark has not written the file, the
clock is taken to have been there instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from orcstream import Batch
from orcstream.errors import SchemaMismatch, Unsupported
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type, decimal_shape

CATALYST_TYPE: Final = "spark.sql.catalyst.type"

_PLAIN: Final[dict[Kind, type[spark.DataType]]] = {
    Kind.BOOLEAN: spark.BooleanType,
    Kind.BYTE: spark.ByteType,
    Kind.SHORT: spark.ShortType,
    Kind.INT: spark.IntegerType,
    Kind.LONG: spark.LongType,
    Kind.FLOAT: spark.FloatType,
    Kind.DOUBLE: spark.DoubleType,
    Kind.STRING: spark.StringType,
    Kind.VARCHAR: spark.StringType,
    Kind.CHAR: spark.StringType,
    Kind.BINARY: spark.BinaryType,
    Kind.GEOMETRY: spark.BinaryType,
    Kind.GEOGRAPHY: spark.BinaryType,
    Kind.DATE: spark.DateType,
    Kind.TIMESTAMP: spark.TimestampType,
    Kind.TIMESTAMP_INSTANT: spark.TimestampType,
}
_ORC_OF: Final[dict[type[spark.DataType], Kind]] = {
    spark.BooleanType: Kind.BOOLEAN,
    spark.ByteType: Kind.BYTE,
    spark.ShortType: Kind.SHORT,
    spark.IntegerType: Kind.INT,
    spark.LongType: Kind.LONG,
    spark.FloatType: Kind.FLOAT,
    spark.DoubleType: Kind.DOUBLE,
    spark.StringType: Kind.STRING,
    spark.VarcharType: Kind.STRING,
    spark.CharType: Kind.STRING,
    spark.BinaryType: Kind.BINARY,
    spark.DateType: Kind.DATE,
    spark.TimestampType: Kind.TIMESTAMP,
    spark.TimestampNTZType: Kind.LONG,
    spark.DayTimeIntervalType: Kind.LONG,
    spark.YearMonthIntervalType: Kind.INT,
}
_DAY_TIME: Final = ("day", "hour", "minute", "second")
_YEAR_MONTH: Final = ("year", "month")
# The metadata of columns in which Spark keeps the length of texts.
_DECLARED: Final = "__CHAR_VARCHAR_TYPE_STRING"
_TEXT = re.compile(r"(char|varchar)\((\d+)\)")
_INTERVAL = re.compile(r"interval (\w+)(?: to (\w+))?")
# How Hive named columns before it kept their names.
_UNNAMED: Final = re.compile(r"_col[0-9]+", re.ASCII)


# --- types -----------------------------------------------------------------------------------------


def spark_type(type_: Type, path: tuple[str, ...] = ()) -> spark.DataType:
    """One column's type; `path` is its name, for errors."""
    kind = type_.kind
    if kind is Kind.STRUCT:
        named = zip(type_.field_names, type_.children, strict=True)
        return spark.StructType(
            [spark.StructField(name, spark_type(child, (*path, name))) for name, child in named]
        )
    if kind is Kind.LIST:
        return spark.ArrayType(spark_type(type_.children[0], (*path, "element")))
    if kind is Kind.MAP:
        key, value = type_.children
        return spark.MapType(spark_type(key, (*path, "key")), spark_type(value, (*path, "value")))
    if kind is Kind.DECIMAL:
        return spark.DecimalType(*decimal_shape(type_))
    if kind is Kind.UNION:
        name = ".".join(path) or "the root"
        raise Unsupported(
            f"Spark has no unions; choose the columns without {name}, by option('columns', ...)",
            reason="union_in_spark",
        )
    return _annotated(type_) or _PLAIN[kind]()


def _annotated(type_: Type) -> spark.DataType | None:
    """What Spark wrote as a number, by the attribute beside it; others' attributes mean nothing."""
    text = dict(type_.attributes).get(CATALYST_TYPE, "")
    if type_.kind is Kind.LONG and text == "timestamp_ntz":
        return spark.TimestampNTZType()
    match = _INTERVAL.fullmatch(text)
    if match is None or type_.kind not in (Kind.INT, Kind.LONG):
        return None
    units = _DAY_TIME if type_.kind is Kind.LONG else _YEAR_MONTH
    first, last = match[1], match[2] or match[1]
    if first not in units or last not in units:
        return None
    made = spark.DayTimeIntervalType if type_.kind is Kind.LONG else spark.YearMonthIntervalType
    return made(units.index(first), units.index(last))


def orc_schema(schema: spark.StructType) -> Schema:
    """The columns of a file as Spark would write them; `Unsupported` for types it does not write to ORC."""
    return numbered(_orc_type(schema, ()))


def _orc_type(type_: spark.DataType, path: tuple[str, ...]) -> Type:
    if isinstance(type_, spark.StructType):
        children = tuple(_orc_type(_declared(field), (*path, field.name)) for field in type_.fields)
        return Type(Kind.STRUCT, children, tuple(type_.names))
    if isinstance(type_, spark.ArrayType):
        return Type(Kind.LIST, (_orc_type(type_.elementType, (*path, "element")),))
    if isinstance(type_, spark.MapType):
        key, value = type_.keyType, type_.valueType
        return Type(Kind.MAP, (_orc_type(key, (*path, "key")), _orc_type(value, (*path, "value"))))
    if isinstance(type_, spark.DecimalType):
        return Type(Kind.DECIMAL, precision=type_.precision, scale=type_.scale)
    kind = _ORC_OF.get(type(type_))
    if kind is None:
        raise Unsupported(
            f"{'.'.join(path)} is {type_.simpleString()}, which ORC files of Spark do not have",
            reason="type_in_spark",
        )
    return Type(kind, attributes=_attributes(type_))


def _declared(field: spark.StructField) -> spark.DataType:
    """The type of a column; of char and varchar, Spark hands on strings, and what they are beside them."""
    match = _TEXT.fullmatch(str((field.metadata or {}).get(_DECLARED, "")))
    if match is None:
        return field.dataType
    made = spark.CharType if match[1] == "char" else spark.VarcharType
    return made(int(match[2]))


def _attributes(type_: spark.DataType) -> tuple[tuple[str, str], ...]:
    annotated = (
        spark.TimestampType,
        spark.TimestampNTZType,
        spark.DayTimeIntervalType,
        spark.YearMonthIntervalType,
        spark.StringType,
        spark.CharType,
        spark.VarcharType,
    )
    if not isinstance(type_, annotated):
        return ()
    # As Spark's own writer does, which keeps no collation: its reader takes none for a column of ORC.
    text = "string" if type(type_) is spark.StringType else type_.simpleString()
    return ((CATALYST_TYPE, text),)


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """What batches of Spark have to look like, to the letter."""
    for one in schema.fields:
        _check_type(one.dataType, (one.name,))
    return to_arrow_schema(schema, timezone="UTC")


def _check_type(type_: spark.DataType, path: tuple[str, ...]) -> None:
    if isinstance(type_, spark.YearMonthIntervalType):
        raise Unsupported(
            f"{'.'.join(path)}: Spark takes no {type_.simpleString()} from a data source in Python; "
            "read it as int, which are months",
            reason="type_in_spark",
        )
    for name, child in _below(type_):
        _check_type(child, (*path, name))


def _below(type_: spark.DataType) -> list[tuple[str, spark.DataType]]:
    if isinstance(type_, spark.StructType):
        return [(field.name, field.dataType) for field in type_.fields]
    if isinstance(type_, spark.ArrayType):
        return [("element", type_.elementType)]
    if isinstance(type_, spark.MapType):
        return [("key", type_.keyType), ("value", type_.valueType)]
    return []


def columns_of(schema: Schema, columns: Sequence[str] | None, *, case_sensitive: bool) -> spark.StructType:
    """A file's columns, or those asked for, as Spark shows them; every column may be null.

    Raises `Unsupported` for a union, naming the column, and `SchemaMismatch` where the root is no struct.
    """
    if schema.root.kind is not Kind.STRUCT:
        raise SchemaMismatch("rows of Spark are structs; the root of this file is none")
    found = spark_type(schema.select(columns, case_sensitive))
    assert isinstance(found, spark.StructType)
    return spark.StructType(
        [spark.StructField(one.name, months_as_numbers(one.dataType)) for one in found.fields]
    )


def months_as_numbers(type_: spark.DataType) -> spark.DataType:
    """The type with numbers of months for intervals of them, which Spark takes from no Python."""
    if isinstance(type_, spark.YearMonthIntervalType):
        return spark.IntegerType()
    if isinstance(type_, spark.StructType):
        return spark.StructType(
            [
                spark.StructField(one.name, months_as_numbers(one.dataType), one.nullable)
                for one in type_.fields
            ]
        )
    if isinstance(type_, spark.ArrayType):
        return spark.ArrayType(months_as_numbers(type_.elementType), type_.containsNull)
    if isinstance(type_, spark.MapType):
        key, value = months_as_numbers(type_.keyType), months_as_numbers(type_.valueType)
        return spark.MapType(key, value, type_.valueContainsNull)
    return type_


# --- the schema that a file is read by --------------------------------------------------------------


def is_of_spark(schema: Schema) -> bool:
    """Whether TIMESTAMP columns hold points in time for certain, since Spark has written them."""
    return any(
        dict(type_.attributes).get(CATALYST_TYPE, "").startswith("timestamp") for _, type_ in schema.walk()
    )


@dataclass(frozen=True, slots=True)
class _Matching:
    """One file's types beside Spark's: names find each other as Spark's own reader lets them."""

    case_sensitive: bool
    has_zone: bool  # the user's zone counts, and the file is read by its clock
    clocks: list[Kind] = field(default_factory=list)  # what TIMESTAMP columns are to be read as

    def type_of(self, type_: Type, target: spark.DataType, stored: Type | None) -> Type:
        """`type_` is what Spark would write for `target`; `stored` is the file's, None where it has none."""
        kind = stored.kind if stored is not None else None
        if isinstance(target, spark.TimestampType):
            return self._seen(kind, Kind.TIMESTAMP_INSTANT)
        if isinstance(target, spark.TimestampNTZType) and kind is not None and kind is not Kind.LONG:
            return self._seen(kind, Kind.TIMESTAMP)
        if isinstance(target, spark.StringType | spark.CharType | spark.VarcharType):
            is_text = kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR)
            return replace(stored, attributes=()) if is_text and stored is not None else Type(Kind.STRING)
        if isinstance(target, spark.BinaryType) and kind in (Kind.GEOMETRY, Kind.GEOGRAPHY):
            assert stored is not None
            return stored
        below = _below(target)
        if not below:
            return replace(type_, attributes=())
        found = self._children(target, stored, [name for name, _ in below])
        children = tuple(
            self.type_of(child, child_target, child_stored)
            for child, (_, child_target), child_stored in zip(type_.children, below, found, strict=True)
        )
        return replace(type_, children=children, attributes=())

    def _seen(self, kind: Kind | None, wanted: Kind) -> Type:
        if kind is not Kind.TIMESTAMP:
            return Type(wanted)
        self.clocks.append(wanted)
        # Points in time come as they are (`instants`), unless the user says where the clock was.
        return Type(wanted if self.has_zone else Kind.TIMESTAMP)

    def _children(
        self, target: spark.DataType, stored: Type | None, names: Sequence[str]
    ) -> Sequence[Type | None]:
        if stored is None or len(stored.children) == 0:
            return [None] * len(names)
        if not isinstance(target, spark.StructType):
            same = len(stored.children) == len(names)
            return stored.children if same else [None] * len(names)
        own = stored.field_names
        if all(_UNNAMED.fullmatch(name) for name in own) and not set(names) <= set(own):
            return [*stored.children, *[None] * len(names)][: len(names)]  # as files of old Hive are read
        by_name = {self._folded(name): child for name, child in zip(own, stored.children, strict=True)}
        return [by_name.get(self._folded(name)) for name in names]

    def _folded(self, name: str) -> str:
        return name if self.case_sensitive else name.casefold()


@dataclass(frozen=True, slots=True)
class FileForm:
    """How one file is to be read: by which schema, and whether opened for points in time."""

    schema: Schema
    instants: bool


def form_of(target: spark.StructType, stored: Schema, *, case_sensitive: bool, has_zone: bool) -> FileForm:
    """How a file is to be read for columns of Spark; `has_zone` is whether the user has named a zone.

    Raises `Unsupported` where one TIMESTAMP is wanted as a wall clock and another as a point in time.
    """
    matching = _Matching(case_sensitive, has_zone and not is_of_spark(stored))
    schema = numbered(matching.type_of(orc_schema(target).root, target, stored.root))
    if matching.has_zone:
        return FileForm(schema, instants=False)
    if len(set(matching.clocks)) > 1:
        raise Unsupported(
            "one read gives TIMESTAMP columns of a file as timestamp or as timestamp_ntz, not some as "
            "either; read them apart",
            reason="timestamps_of_both_kinds",
        )
    return FileForm(schema, instants=Kind.TIMESTAMP not in matching.clocks)


# --- batches ---------------------------------------------------------------------------------------


class _Renamed:
    """A batch's memory under the names and types of another schema, whose layout is the same."""

    def __init__(self, batch: Batch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


class Shape:
    """Makes Spark's batches of a file's: columns in Spark's order, with the values that folders name."""

    def __init__(self, schema: spark.StructType, constants: Mapping[str, Any]) -> None:
        self._schema = arrow_schema(schema)
        self._constants = [
            (at, pa.scalar(constants[field.name], field.type))
            for at, field in enumerate(self._schema)
            if field.name in constants
        ]
        for at, value in self._constants:
            if not (value.is_valid or self._schema.field(at).nullable):
                raise _null_in((self._schema.field(at).name,))
        self._read = pa.schema([field for field in self._schema if field.name not in constants])
        self._strict = [field for field in self._read if _has_strict(field)]

    def batch(self, batch: Batch) -> pa.RecordBatch:
        """A batch with the read columns alone; shares their memory."""
        read = pa.record_batch(_Renamed(batch, self._read))
        for one in self._strict:
            _refuse_nulls(read.column(one.name), one, (one.name,))
        if not self._constants:
            return read
        columns = list(read.columns)
        for at, value in self._constants:
            columns.insert(at, pa.repeat(value, batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _has_strict(field: pa.Field) -> bool:
    """Whether there must be no null in a column, or in a part of it; keys of maps never hold any."""
    return not field.nullable or any(_has_strict(part) for part in _parts(field.type))


def _parts(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_list(type_):
        return [type_.value_field]
    return [type_.item_field] if pa.types.is_map(type_) else []


def _refuse_nulls(values: pa.Array, field: pa.Field, path: tuple[str, ...]) -> None:
    """Spark does not look for nulls where there must be none, and would take what lies there for a value."""
    if not field.nullable and values.null_count:
        raise _null_in(path)
    parts = _parts(field.type)
    if not any(map(_has_strict, parts)):
        return
    # Of a row that is null, the parts hold nothing.
    there = values.drop_null() if values.null_count else values
    for at, part in enumerate(parts):
        if pa.types.is_struct(field.type):
            below = there.flatten()[at]
        else:
            below = there.flatten() if pa.types.is_list(field.type) else there.items
        _refuse_nulls(below, part, (*path, part.name))


def _null_in(path: tuple[str, ...]) -> SchemaMismatch:
    return SchemaMismatch(f"the column {'.'.join(path)!r} is not to hold nulls and does; make it nullable")
