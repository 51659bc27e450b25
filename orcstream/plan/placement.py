"""Find the columns of a table in one of its files.

Hive's rule (`SchemaEvolution` of ORC Java): the top-level columns of a table and of its files match by
position, whatever their names; the fields of structs below them match by name. Columns that a file lacks are
null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, Kind, Type, decimal_shape

_UNNAMED = re.compile(r"_col[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlacedColumns:
    """The columns of a table in one file.

    `schema` is the file's own, with the table's types and with the columns that the file lacks. `names` maps
    the table's column names to those of `schema`.
    """

    schema: Schema
    names: dict[str, str]

    def path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The path in the file of a path in the table."""
        return (self.names[path[0]], *path[1:])


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of a table's rows.

    `written` is the table's schema, which its writers use, `schema` what its rows are read as. `by_position`
    says how files match `written`: by position, as in Hive, or by name.
    """

    written: Schema
    schema: Schema
    by_position: bool
    _places: tuple[int | None, ...] = field(init=False, repr=False)  # in `written`, of each of `schema`

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", tuple(self._seen()))

    def _seen(self) -> Sequence[int | None]:
        """By name, unless neither schema has all names of the other: then one of them has new names."""
        wanted, there = self.schema.names, self.written.names
        are_known = set(wanted) <= set(there) or set(there) <= set(wanted)
        return _by_name(wanted, there) if are_known or not self.by_position else _by_position(wanted, there)

    def placed(self, file: Schema) -> PlacedColumns:
        """Find the columns of `schema` in a file."""
        if file.root.kind is not Kind.STRUCT:  # which the reader refuses
            return PlacedColumns(self.schema, {name: name for name in self.schema.names})
        places = self._places_in(file)
        children, names = list(file.root.children), list(file.names)
        taken = set(names)
        found: dict[str, str] = {}
        for name, child, known in zip(
            self.schema.names, self.schema.root.children, self._places, strict=True
        ):
            place = None if known is None else places[known]
            if place is not None:
                children[place] = child
                found[name] = names[place]
                continue
            free = name
            while free in taken:  # by another column, at another position
                free += "_"
            taken.add(free)
            children.append(child)
            names.append(free)
            found[name] = free
        return PlacedColumns(_schema_of(children, names), found)

    def lost(self, file: Schema) -> list[str]:
        """Describe the columns, fields and values of a file that `written` has no room for."""
        places = self._places_in(file)
        if file.root.kind is not Kind.STRUCT:
            return []
        columns = {place: at for at, place in enumerate(places) if place is not None}
        lost: list[str] = []
        for place, (name, child) in enumerate(zip(file.names, file.root.children, strict=True)):
            at = columns.get(place)
            if at is None:
                lost.append(f"the column {name!r}")
            else:
                column = self.written.root.children[at]
                lost += _lost_in(child, column, self.written.names[at])
        return lost

    def _places_in(self, file: Schema) -> Sequence[int | None]:
        """Where the columns of `written` are in a file. Before HIVE-4243, files had no names."""
        has_names = not all(map(_UNNAMED.fullmatch, file.names))
        if self.by_position or not has_names:
            return _by_position(self.written.names, file.names)
        return _by_name(self.written.names, file.names)


def _by_position(wanted: Sequence[str], there: Sequence[str]) -> list[int | None]:
    return [at if at < len(there) else None for at in range(len(wanted))]


def _by_name(wanted: Sequence[str], there: Sequence[str]) -> list[int | None]:
    places = {name: at for at, name in enumerate(there)}
    return [places.get(name) for name in wanted]


def _lost_in(source: Type, target: Type, path: str) -> Iterator[str]:
    if source.kind is not target.kind or not source.children:
        if not keeps_values(source, target):
            yield f"values of {path!r}, which is {source} in the file and {target} in the table"
    elif source.kind is Kind.STRUCT:
        fields = dict(zip(target.field_names, target.children, strict=True))
        for name, child in zip(source.field_names, source.children, strict=True):
            if name in fields:
                yield from _lost_in(child, fields[name], f"{path}.{name}")
            else:
                yield f"the field {path + '.' + name!r}"
    else:  # lists, maps and unions
        for child, read in zip(source.children, target.children, strict=False):
            yield from _lost_in(child, read, path)


def _schema_of(children: Sequence[Type], names: Sequence[str]) -> Schema:
    return numbered(Type(Kind.STRUCT, tuple(children), tuple(names)), attributes=False)


_WHOLE = frozenset((Kind.BOOLEAN, *INTEGERS))
# Decimal digits of the largest value, and bits besides the sign.
_DIGITS = {Kind.BOOLEAN: 1, Kind.BYTE: 3, Kind.SHORT: 5, Kind.INT: 10, Kind.LONG: 19}
_BITS = {Kind.BOOLEAN: 1, Kind.BYTE: 7, Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
_EXACT_BITS = {Kind.FLOAT: 24, Kind.DOUBLE: 53}


def keeps_values(source: Type, target: Type) -> bool:
    """Whether every value of `source` is still there when it is read as `target`."""
    if source.kind in TEXTS and target.kind in TEXTS:
        # A char drops trailing blanks.
        keeps_blanks = source.kind is Kind.CHAR or target.kind is not Kind.CHAR
        return keeps_blanks and _has_room(target, source.max_length)
    if target.kind is Kind.DECIMAL:
        return _fits_decimal(source, target)
    if source.kind is target.kind:
        return True
    if source.kind in _WHOLE:
        if target.kind in INTEGERS:
            return _BITS[source.kind] <= _BITS[target.kind]
        if target.kind in FLOATS:
            return _BITS[source.kind] <= _EXACT_BITS[target.kind]
        # A minus sign, or the word FALSE.
        return target.kind in TEXTS and _has_room(target, max(5, _DIGITS[source.kind] + 1))
    if target.kind is Kind.STRING:
        return source.kind in (*FLOATS, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP)
    return (source.kind, target.kind) in _OTHERS


_OTHERS = frozenset(
    (
        (Kind.FLOAT, Kind.DOUBLE),
        (Kind.STRING, Kind.BINARY),
        (Kind.VARCHAR, Kind.BINARY),
        (Kind.DATE, Kind.TIMESTAMP),
    )
)


def _has_room(target: Type, length: int | None) -> bool:
    """Whether texts of up to so many characters fit; None is for texts of any length."""
    if target.kind is Kind.STRING or target.max_length is None:
        return True
    return length is not None and length <= target.max_length


def _fits_decimal(source: Type, target: Type) -> bool:
    precision, scale = decimal_shape(target)
    if source.kind in _WHOLE:
        return _DIGITS[source.kind] <= precision - scale
    if source.kind is not Kind.DECIMAL:
        return False
    digits, fraction = decimal_shape(source)
    return fraction <= scale and digits - fraction <= precision - scale
