"""Filters that Spark pushes down, as predicates of a file, and as what the values of folders answer.

Knows where Spark's comparisons differ from ours: a NaN is above all numbers and equal to itself. What of a
filter is in doubt is left to Spark, and serves to skip what it cannot match. Must not know files.

Contract: a row that a filter of Spark's is true of is never left out, and what `is_exact` says is that the
others are.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import datasource as pushed
from pyspark.sql import types as spark

from orcstream import Expr, col
from orcstream.errors import ColumnNotFound
from orcstream.schema import Kind, Type, find_column

__all__ = ["column_of", "folder_matches", "is_exact", "predicate"]

_ORDERS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    pushed.GreaterThan: operator.gt,
    pushed.GreaterThanOrEqual: operator.ge,
    pushed.LessThan: operator.lt,
    pushed.LessThanOrEqual: operator.le,
}
_NUMBERS = (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.DECIMAL)
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)
_TEXTS = (Kind.STRING, Kind.VARCHAR)
_EXACT = (spark.BooleanType, spark.IntegralType, spark.DecimalType, spark.DateType)


def column_of(filter_: pushed.Filter) -> tuple[str, ...]:
    """The column that a filter asks about, by the names that lead to it."""
    return tuple(_inner(filter_).attribute)


def _inner(filter_: pushed.Filter) -> Any:
    while isinstance(filter_, pushed.Not):
        filter_ = filter_.child
    return filter_


def predicate(filters: Iterable[pushed.Filter], root: Type) -> Expr | None:
    """What rows of `root` have to match, of all filters that can be asked; None where no filter can."""
    found: Expr | None = None
    for filter_ in filters:
        one = _expression(filter_, root)
        if one is not None:
            found = one if found is None else found & one
    return found


def is_exact(filter_: pushed.Filter, schema: spark.StructType) -> bool:
    """Whether rows that the filter is not true of are left out, so that Spark need not ask again."""
    inner = _inner(filter_)
    type_ = _spark_type(schema, column_of(filter_))
    if type_ is None:
        return False
    if isinstance(inner, pushed.IsNull | pushed.IsNotNull):
        return True
    return isinstance(type_, _EXACT) and _expression(filter_, _sample(column_of(filter_), type_)) is not None


def _spark_type(schema: spark.StructType, path: Sequence[str]) -> spark.DataType | None:
    type_: spark.DataType = schema
    for name in path:
        if not isinstance(type_, spark.StructType) or name not in type_.names:
            return None
        type_ = type_[name].dataType
    return type_


def _sample(path: Sequence[str], type_: spark.DataType) -> Type:
    """A struct with the column alone, in the type that files are read as."""
    from orcstream.spark.types import orc_schema

    (found,) = orc_schema(spark.StructType([spark.StructField("x", type_)])).root.children
    for name in reversed(path):
        found = Type(Kind.STRUCT, (found,), (name,))
    return found


# --- expressions -----------------------------------------------------------------------------------


def _expression(filter_: pushed.Filter, root: Type) -> Expr | None:
    negated = False
    while isinstance(filter_, pushed.Not):
        negated, filter_ = not negated, filter_.child
    path = column_of(filter_)
    type_ = _found(root, path)
    if type_ is None:
        return None
    positive = _positive(filter_, path, type_)
    return ~positive if negated and positive is not None else positive


def _found(root: Type, path: tuple[str, ...]) -> Type | None:
    type_ = root
    try:
        for index in find_column(root, path):
            if type_.kind is not Kind.STRUCT:
                return None
            type_ = type_.children[index]
    except ColumnNotFound:
        return None
    return type_


def _positive(filter_: Any, path: tuple[str, ...], type_: Type) -> Expr | None:
    column = col(path)
    if isinstance(filter_, pushed.IsNull):
        return column.is_null()
    if isinstance(filter_, pushed.IsNotNull):
        return column.is_not_null()
    if isinstance(filter_, pushed.In):
        values = [_literal(value, type_) for value in filter_.value]
        return None if None in values else column.isin(values)
    if isinstance(filter_, pushed.EqualNullSafe) and filter_.value is None:
        return column.is_null()
    literal = _literal(getattr(filter_, "value", None), type_)
    if literal is None:
        return None
    if isinstance(filter_, pushed.EqualTo):
        return _expr(column == literal)
    if isinstance(filter_, pushed.EqualNullSafe):
        return _expr(column == literal) & column.is_not_null()
    if isinstance(filter_, pushed.StringStartsWith):
        return column.starts_with(literal) if type_.kind in _TEXTS else None
    if type(filter_) in _ORDERS and type_.kind is not Kind.BOOLEAN:
        return _ordered(filter_, column, literal, type_)
    return None


def _ordered(filter_: Any, column: Any, literal: Any, type_: Type) -> Expr:
    if type_.kind in _FLOATS and isinstance(filter_, pushed.GreaterThan):
        return ~_expr(column <= literal)  # of a NaN, too
    if type_.kind in _FLOATS and isinstance(filter_, pushed.GreaterThanOrEqual):
        return ~_expr(column < literal)
    return _expr(_ORDERS[type(filter_)](column, literal))


def _expr(value: Any) -> Expr:
    assert isinstance(value, Expr)
    return value


def _literal(value: Any, type_: Type) -> Any:
    """A literal as a column of the type is compared with it; None where it is not."""
    kind = type_.kind
    if kind is Kind.BOOLEAN:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if kind in _NUMBERS:
        return value if isinstance(value, int | Decimal) else None
    if kind in _FLOATS:
        return value if isinstance(value, int | float) and not math.isnan(value) else None
    if kind in _TEXTS:
        return value if isinstance(value, str) else None
    if kind is Kind.BINARY:
        return bytes(value) if isinstance(value, bytes | bytearray) else None
    if isinstance(value, datetime.datetime):
        return _time(value, kind)
    return value if kind is Kind.DATE and isinstance(value, datetime.date) else None


def _time(value: datetime.datetime, kind: Kind) -> datetime.datetime | None:
    """Points in time are UTC in files that are read so; wall clocks have no zone on either side."""
    if kind is Kind.TIMESTAMP:
        return value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
    return value if kind is Kind.TIMESTAMP_INSTANT and value.tzinfo else None


# --- values of folders -----------------------------------------------------------------------------


def folder_matches(filter_: pushed.Filter, value: Any) -> bool:
    """Whether a filter is true of the value that a folder names."""
    return _answer(filter_, value) is True


def _answer(filter_: Any, value: Any) -> bool | None:
    """In three values, as SQL's."""
    if isinstance(filter_, pushed.Not):
        answer = _answer(filter_.child, value)
        return None if answer is None else not answer
    if isinstance(filter_, pushed.IsNull):
        return value is None
    if isinstance(filter_, pushed.IsNotNull):
        return value is not None
    if isinstance(filter_, pushed.EqualNullSafe):
        return bool(_rank(value) == _rank(filter_.value))
    if value is None:
        return None
    if isinstance(filter_, pushed.In):
        if _rank(value) in [_rank(one) for one in filter_.value]:
            return True
        return None if None in filter_.value else False
    return None if filter_.value is None else _compared(filter_, value)


def _compared(filter_: Any, value: Any) -> bool | None:
    literal = filter_.value
    if isinstance(filter_, pushed.EqualTo):
        return bool(_rank(value) == _rank(literal))
    if type(filter_) in _ORDERS:
        return bool(_ORDERS[type(filter_)](_rank(value), _rank(literal)))
    texts: Mapping[type, Callable[[str, str], bool]] = {
        pushed.StringStartsWith: str.startswith,
        pushed.StringEndsWith: str.endswith,
        pushed.StringContains: str.__contains__,
    }
    return texts[type(filter_)](value, literal)


def _rank(value: Any) -> Any:
    """What Spark orders values by: texts by their bytes, and a NaN above all numbers."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return (1, 0) if value != value else (0, value)  # noqa: PLR0124 - only a NaN differs from itself
    return value
