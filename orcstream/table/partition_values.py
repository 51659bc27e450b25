"""The values that the folders of a partition name, as `country=DE/day=2024-05-01`.

Knows how Hive writes them: nulls have a name of their own, and characters that paths cannot hold are escaped.
Must not know stores, nor rows. Where nobody says the types, columns whose every value is a whole number or a
day are that, and all others texts.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np

from orcstream._buffer import zeroed
from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of, nulls_of
from orcstream.codec.vectors.gather import copied
from orcstream.codec.vectors.times import beyond_unit
from orcstream.errors import SchemaMismatch
from orcstream.plan.acid.names import parse_folder
from orcstream.query.expr import Condition, Matching
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import INTEGERS, TEXTS, Kind, Type

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
