"""ORC's types as Spark's, and back, as Spark itself writes and reads them.

Knows both type trees and the attribute in which Spark keeps what ORC has no type for: times without a zone
and intervals are numbers, char and varchar are strings, all with the name of the type beside them. Must not
know files or values.

Source: `OrcUtils.scala` and `OrcFileFormat.scala` of Spark 4, and what its writer was seen to write.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import types as spark

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


def spark_schema(schema: Schema) -> spark.StructType:
    """A file's columns as Spark shows them; every column may be null.

    Raises `Unsupported` for a union, naming the column, and `SchemaMismatch` where the root is no struct.
    """
    if schema.root.kind is not Kind.STRUCT:
        raise SchemaMismatch("rows of Spark are structs; the root of this file is none")
    found = spark_type(schema.root)
    assert isinstance(found, spark.StructType)
    return found


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
