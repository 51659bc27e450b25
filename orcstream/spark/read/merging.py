"""One schema of several: that of a table whose files differ, as `mergeSchema` has it in Spark.

Knows types only. Columns come in the order in which files have them first. Where two files differ in a type,
the one that holds both is taken, as far as files can be read as it; Spark's own sources refuse even these.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from orcstream.errors import SchemaMismatch

_WIDTHS: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_DIGITS: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 3,
    spark.ShortType: 5,
    spark.IntegerType: 10,
    spark.LongType: 20,
}
_MOST_DIGITS: Final = 38


def merged(one: spark.StructType, other: spark.StructType, *, case_sensitive: bool) -> spark.StructType:
    """The columns of both. Raises `SchemaMismatch` that names a column whose types have none in common."""
    return _Merging(case_sensitive).structs(one, other, ())


class _Merging:
    def __init__(self, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive

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
        return name if self._case_sensitive else name.lower()


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
