"""Option `where` of a read: a predicate that holds for every query on the DataFrame.

Knows the types of Spark that ORC files hold in several forms. Must not know files.

`DataSourceReader.pushFilters`, by which Spark pushes down the filters of a query, is not used: Spark keeps
one reader for a DataFrame, with the filters of whichever query came last, so later queries on the same
DataFrame would lose rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from pyspark.sql import types as spark

from orcstream import Expr
from orcstream.errors import ColumnNotFound, UsageError
from orcstream.query.expr import Condition, Matching
from orcstream.schema.schema import find_column
from orcstream.schema.types import Kind, Type
from orcstream.spark.read.partitions import zone_named
from orcstream.spark.read.shaping import orc_schema
from orcstream.table.columns import mapped, narrowed

_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Literal: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Where:
    """A predicate on the columns of a read. Values only: it goes to every executor.

    `root` is the struct that the predicate asks about: a `timestamp` of Spark is an instant there, and a
    `timestamp_ntz` a TIMESTAMP.
    """

    expr: Expr
    root: Type
    case_sensitive: bool

    @classmethod
    def of(cls, text: str, schema: spark.StructType, timezone: str, *, case_sensitive: bool) -> Where:
        """Parse and bind a text. Times without a zone are times of `timezone`.

        Raises `UsageError` and `SchemaMismatch` for what cannot be asked of these columns.
        """
        from orcstream.query.binding import bind

        root = _asked_type(orc_schema(_with_texts(schema)).root, schema)
        with _option_named():
            found = cls(Expr.parse(text), root, case_sensitive)
            found = replace(found, expr=found._with_zone(timezone))
            bind(found.expr, root, found.matching)
        return found

    def narrowed(self, values: Mapping[str, Any]) -> Expr | bool:
        """What is left to ask of rows whose folders name these values; true or false where they decide."""
        if not values:
            return self.expr
        from orcstream.table.columns import PartitionColumns, PartitionRow

        types = dict(zip(self.root.field_names, self.root.children, strict=True))
        columns = PartitionColumns(tuple(values), tuple(types[name] for name in values))
        row = PartitionRow(columns, {name: _nanoseconds(value) for name, value in values.items()})
        return narrowed(self.expr, self.root, values, row.holds, self.matching)

    @property
    def matching(self) -> Matching:
        """Times as Spark has them."""
        return Matching("us", self.case_sensitive)

    def _with_zone(self, timezone: str) -> Expr:
        def placed(value: Literal) -> Literal:
            if isinstance(value, np.datetime64):
                raise UsageError(f"times of Spark have microseconds at most; {value} has nanoseconds")
            time = _midnight(value)
            is_time = isinstance(time, datetime.datetime)
            return time.replace(tzinfo=zone_named(timezone)) if is_time and time.tzinfo is None else time

        return _changed(self.expr, self.root, {Kind.TIMESTAMP_INSTANT: placed}, self.case_sensitive)


def fitted(expr: Expr, root: Type, *, case_sensitive: bool) -> Expr:
    """The same question for a file that is read as `root`, where times may have another form."""
    forms = {Kind.TIMESTAMP: _wall_clock, Kind.LONG: _microseconds}
    return _changed(expr, root, forms, case_sensitive)


def _with_texts(schema: spark.StructType) -> spark.StructType:
    """With texts for times of day, which only folders hold and ORC has no type for."""
    texts = spark.StringType()
    return spark.StructType(
        [
            spark.StructField(one.name, texts if isinstance(one.dataType, spark.TimeType) else one.dataType)
            for one in schema.fields
        ]
    )


def _asked_type(type_: Type, target: spark.DataType) -> Type:
    if isinstance(target, spark.TimestampType):
        return Type(Kind.TIMESTAMP_INSTANT)
    if isinstance(target, spark.TimestampNTZType):
        return Type(Kind.TIMESTAMP)
    if not isinstance(target, spark.StructType):
        return type_  # a predicate does not look into lists and maps
    pairs = zip(type_.children, target.fields, strict=True)
    return replace(type_, children=tuple(_asked_type(child, one.dataType) for child, one in pairs))


def _changed(
    expr: Expr, root: Type, forms: Mapping[Kind, Callable[[Literal], Literal]], case_sensitive: bool
) -> Expr:
    """The expression with the literals of conditions on some kinds of columns in another form."""

    def change(condition: Condition) -> Expr:
        node = root
        for index in find_column(root, condition.path, case_sensitive=case_sensitive):
            node = node.children[index]
        if node.kind not in forms:
            return condition
        return replace(condition, values=tuple(map(forms[node.kind], condition.values)))

    return mapped(expr, change)


def _midnight(value: Literal) -> Literal:
    """A day as the time at which it begins."""
    is_day = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return datetime.datetime.combine(value, datetime.time()) if is_day else value


def _wall_clock(value: Literal) -> Literal:
    """Points in time are UTC in files that are read so."""
    is_instant = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return value.astimezone(datetime.UTC).replace(tzinfo=None) if is_instant else value


def _microseconds(value: Literal) -> Literal:
    """A wall clock as the number that Spark writes for it."""
    time = _midnight(value)
    if not isinstance(time, datetime.datetime):
        return value
    return (time.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND


def _nanoseconds(value: Any) -> Any:
    """The value of a folder as `PartitionRow` takes it."""
    if isinstance(value, datetime.time):
        return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()
    if not isinstance(value, datetime.datetime):
        return value
    known = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return (known - _EPOCH) // _MICROSECOND * 1000


@contextmanager
def _option_named() -> Iterator[None]:
    """Errors that leave the block name the option."""
    try:
        yield
    except ColumnNotFound as error:
        error.message = f"option where: {error.message}; add the column to option columns or to the schema"
        raise
    except UsageError as error:
        error.message = f"option where: {error.message}"
        raise
