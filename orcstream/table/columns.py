"""What is asked of the columns of a table: those of its rows, and those that its folders name.

Knows how both stand side by side, and brings predicates to one partition, and to where a file has the
columns. Must not know files, nor how a predicate is evaluated.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import numpy as np

from orcstream._buffer import zeroed
from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of, nulls_of
from orcstream.codec.vectors.gather import copied
from orcstream.codec.vectors.times import beyond_unit
from orcstream.errors import SchemaMismatch
from orcstream.plan.acid.names import parse_folder
from orcstream.query.expr import All, Any_, ColumnRef, Condition, Expr, Matching, Not
from orcstream.reader.options import Columns, ReadOptions
from orcstream.schema.schema import Schema, find_column, numbered
from orcstream.schema.types import INTEGERS, TEXTS, Kind, Type, steps_of

_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INT = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)
# Python's own times end with microseconds.
_FRACTION = re.compile(r"(.*:[0-9]{2})\.([0-9]{1,9})(\D.*)?", re.ASCII)
_NS_PER: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_BOOLEANS = {"true": True, "false": False}


def partition_texts(path: str) -> dict[str, str | None]:
    """The columns that a path names, from the table down, and their texts; None is a null."""
    found: dict[str, str | None] = {}
    for folder in path.split("/") if path else ():
        name, text = parse_folder(folder)
        found[name] = text
    return found


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """The columns that folders name, and their types."""

    names: tuple[str, ...]
    types: tuple[Type, ...]

    @classmethod
    def of(cls, paths: Iterable[str], schema: Schema | None = None) -> PartitionColumns:
        """Those of some partitions, or as a schema says.

        Raises `SchemaMismatch` where partitions name different columns.
        """
        named = [(path, partition_texts(path)) for path in paths]
        if schema is not None:
            columns = cls(schema.names, schema.root.children)
        elif named:
            names = tuple(named[0][1])
            columns = cls(names, tuple(_inferred([texts.get(n) for _, texts in named]) for n in names))
        else:
            return cls((), ())
        for path, texts in named:
            if tuple(texts) != columns.names:
                named_here, expected = (", ".join(some) or "none" for some in (texts, columns.names))
                raise SchemaMismatch(
                    f"the folder {path or '.'!r} names the columns {named_here}; others name {expected}"
                )
        return columns

    @property
    def schema(self) -> Schema:
        """They as a schema, from which `of` makes them again."""
        return numbered(_struct(self), attributes=False)

    def values(self, path: str) -> dict[str, Any]:
        """The values of one partition."""
        texts = partition_texts(path)
        return {
            name: None if (text := texts[name]) is None else _value(text, type_, name)
            for name, type_ in zip(self.names, self.types, strict=True)
        }


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition's values, ready to be compared with and to be repeated for any number of rows."""

    columns: PartitionColumns
    values: Mapping[str, Any]

    def holds(self, condition: Condition, matching: Matching) -> bool:
        """Whether a condition on these columns is true. Times are cut to the unit, as they are delivered."""
        from orcstream.codec.vectors.filter import RowFilter
        from orcstream.query.binding import bind

        root = _struct(self.columns)
        unit = self._fitting(matching.unit)
        predicate = bind(condition, root, replace(matching, unit=unit))
        vectors = [self.vector(field, 1) for field in field_of("", root, VectorOptions(unit)).children]
        return bool(memoryview(RowFilter(predicate, root).evaluate(vectors, 1))[0])

    def _fitting(self, unit: str) -> str:
        """The unit, or the next coarser one in which all times are 64 bits."""
        times = [
            self.values[name]
            for name, type_ in zip(self.columns.names, self.columns.types, strict=True)
            if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT) and self.values[name] is not None
        ]
        units = list(_NS_PER)
        coarser = units[units.index(unit) :]
        return next(one for one in coarser if all(time // _NS_PER[one] in _LONG for time in times))

    def vector(self, field: Field, count: int) -> Vector:
        """The value of one column for `count` rows.

        Raises `Unsupported` for a time that does not fit 64 bits of the field's unit.
        """
        value = self.values[field.name]
        if value is None:
            return nulls_of(field, count)
        if field.dictionary is not None:
            entry = _single(value, field.dictionary)
            return Vector(count, (None, zeroed(4 * count)), 0, dictionary=entry)
        places: Any = np.zeros(count, np.int64)
        return copied(_single(value, field), select_positions(places, count, 1), field)


def _single(value: Any, field: Field) -> Vector:
    if field.format.startswith("ts"):
        unit = {"s": "s", "m": "ms", "u": "us", "n": "ns"}[field.format[2]]
        count = value // _NS_PER[unit]
        if count not in _LONG:
            raise beyond_unit(f"a folder names a time for {field.name} that does", unit)
        number: Any = np.array([count], np.int64)
        return Vector(1, (None, number), 0)
    from orcstream.codec.ingest.python_values import vector_of

    return vector_of([value], field, (field.name,))[1]


def _struct(columns: PartitionColumns) -> Type:
    return Type(Kind.STRUCT, columns.types, columns.names)


def _inferred(texts: Sequence[str | None]) -> Type:
    there = [text for text in texts if text is not None]
    if there and all(_WHOLE.fullmatch(text) and text == str(int(text)) for text in there):
        return Type(Kind.INT if all(int(text) in _INT for text in there) else Kind.LONG)
    if there and all(_DAY.fullmatch(text) and _day(text) for text in there):
        return Type(Kind.DATE)
    return Type(Kind.STRING)


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _value(text: str, type_: Type, name: str) -> Any:
    try:
        return _parsed(text, type_)
    except (ValueError, InvalidOperation, KeyError):
        raise SchemaMismatch(f"the folder {name}={text} names no value of type {type_}") from None


def _parsed(text: str, type_: Type) -> Any:
    kind = type_.kind
    if kind in INTEGERS:
        return int(text)
    if kind in TEXTS:
        return text.ljust(type_.max_length or 0) if kind is Kind.CHAR else text
    match kind:
        case Kind.DATE:
            return datetime.date.fromisoformat(text)
        case Kind.DECIMAL:
            return Decimal(text)
        case Kind.BOOLEAN:
            return _BOOLEANS[text.lower()]
        case Kind.FLOAT | Kind.DOUBLE:
            return float(text)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
            return _nanoseconds(text, with_zone=kind is Kind.TIMESTAMP_INSTANT)
    raise ValueError(kind)


def _nanoseconds(text: str, *, with_zone: bool) -> int:
    """Since 1970, of any size. An instant without a zone is of UTC; a wall clock has none."""
    fraction = 0
    if found := _FRACTION.fullmatch(text):
        text = found[1] + (found[3] or "")
        fraction = int(found[2].ljust(9, "0"))
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)
    elif not with_zone:
        raise ValueError(text)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (time - epoch) // datetime.timedelta(microseconds=1) * 1000 + fraction


def with_partitions(row: Type, columns: PartitionColumns) -> Type:
    """The struct of a table's columns, numbered anew."""
    if columns.names:
        names = (*row.field_names, *columns.names)
        row = Type(Kind.STRUCT, (*row.children, *columns.types), names)
    return numbered(row, attributes=False).root


class AskedColumns:
    """The columns of one read. `root` is the table's struct, `row` that of its rows.

    `projected` are those that were asked for, `of_rows` the paths of those among them that files are asked
    for. Raises `ColumnNotFound` and other `UsageError` for what cannot be asked.
    """

    def __init__(
        self,
        root: Type,
        row: Type,
        partitions: PartitionColumns,
        options: ReadOptions,
    ) -> None:
        self._root = root
        self._options = options
        self._partitions = frozenset(partitions.names)
        self.projected = root
        if options.columns is not None:
            self.projected = Schema(root).select(options.columns, options.case_sensitive)
        self.of_rows = self._of_rows(row, options.columns)
        if options.expr is not None:
            from orcstream.query.binding import bind

            bind(options.expr, root, options.matching)

    def narrowed(self, row: PartitionRow) -> Expr | bool:
        """What is left to be asked of the rows of a partition; true or false where its values decide."""
        options = self._options
        if options.expr is None:
            return True
        return narrowed(options.expr, self._root, row.values, row.holds, options.matching)

    def _of_rows(self, row: Type, columns: Columns | None) -> list[tuple[str, ...]]:
        if columns is None:
            return [(name,) for name in row.field_names]
        paths = [self._path(column) for column in columns]
        return [path for path in paths if path[0] not in self._partitions]

    def _path(self, column: str | tuple[str, ...]) -> tuple[str, ...]:
        names: list[str] = []
        node = self._root
        for index in find_column(node, column, case_sensitive=self._options.case_sensitive):
            names.append(steps_of(node)[index])
            node = node.children[index]
        return tuple(names)


# Whether a condition on the partition's columns holds; a null counts as false.
Holds: TypeAlias = Callable[[Condition, Matching], bool]
# From the path of a column in the table to that in a file.
Place: TypeAlias = Callable[[tuple[str, ...]], tuple[str, ...]]


def relocated(expr: Expr, root: Type, place: Place, matching: Matching) -> Expr:
    """The same question where the table's columns lie elsewhere. `root` is the table's.

    Raises `ColumnNotFound` for a column that the table has not.
    """

    def moved(condition: Condition) -> Expr:
        path = place(_names(root, condition, matching))
        return Condition(path, condition.op, condition.values)

    return mapped(expr, moved)


def narrowed(
    expr: Expr, root: Type, partition: Mapping[str, object], holds: Holds, matching: Matching
) -> Expr | bool:
    """What is left to be asked of the rows of one partition; true or false where its columns decide.

    `root` has the table's columns and the partition's; those named in `partition` are the same in all rows.
    """

    def asked(expr: Expr, *, negated: bool) -> Expr | bool:
        # Negations go down to the conditions: there a null is as good as false.
        match expr:
            case Not():
                return asked(expr.part, negated=not negated)
            case All() | Any_():
                is_all = isinstance(expr, All) is not negated
                return _joined([asked(part, negated=negated) for part in expr.parts], is_all=is_all)
            case ColumnRef():
                return asked(Condition(expr.path, "is_true"), negated=negated)
            case Condition():
                if _names(root, expr, matching)[0] not in partition:
                    return Not(expr) if negated else expr
                return holds(expr, matching) if not negated else _is_false(expr, holds, matching)
        raise AssertionError(expr)

    return asked(expr, negated=False)


def _joined(parts: list[Expr | bool], *, is_all: bool) -> Expr | bool:
    if any(part is not is_all and isinstance(part, bool) for part in parts):
        return not is_all
    left = tuple(part for part in parts if not isinstance(part, bool))
    if not left:
        return is_all
    if len(left) == 1:
        return left[0]
    return All(left) if is_all else Any_(left)


def _is_false(condition: Condition, holds: Holds, matching: Matching) -> bool:
    """Whether it is false, which a null is not."""
    if condition.op in ("is_null", "is_not_null"):
        return not holds(condition, matching)
    return not holds(condition, matching) and not holds(Condition(condition.path, "is_null"), matching)


def mapped(expr: Expr, change: Callable[[Condition], Expr]) -> Expr:
    """The same combination of changed conditions."""
    match expr:
        case All():
            return All(tuple(mapped(part, change) for part in expr.parts))
        case Any_():
            return Any_(tuple(mapped(part, change) for part in expr.parts))
        case Not():
            return Not(mapped(expr.part, change))
        case ColumnRef():
            return change(Condition(expr.path, "is_true"))
        case Condition():
            return change(expr)
    raise AssertionError(expr)


def _names(root: Type, condition: Condition, matching: Matching) -> tuple[str, ...]:
    """The path of names that a condition asks about, from the root down."""
    names: list[str] = []
    node = root
    for index in find_column(root, condition.path, case_sensitive=matching.case_sensitive):
        names.append(steps_of(node)[index])
        node = node.children[index]
    return tuple(names)
