"""Which columns of a file a read needs, and as what: a file's schema against the one a reader asks for.

Knows type trees and which types turn into which. Must not know streams, vectors or I/O: what does not fit
is an error here, before any data is read. The rules are those of ORC Java's SchemaEvolution: fields of
structs find each other by name, at every level; fields that the file lacks are null, those that nobody asks
for are not read; lists, maps and unions match child by child. Files from before HIVE-4243 have no names
(`_col0`, `_col1`, ...): their top-level fields go by position, unless the reader asks for these very names.

In Hive's tables the top-level columns of a table and of its files match by position, whatever their names;
the fields of structs below them match by name. Columns that a file lacks are null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from orcstream._printable import listed
from orcstream.errors import SchemaMismatch
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, Kind, Type, decimal_shape

_UNNAMED = re.compile(r"_col[0-9]+", re.ASCII)
_NESTED = (Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.UNION)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one column of the output comes from.

    `file_type` is the part of the file's tree to decode, with the file's column ids and the names that the
    reader uses, in the reader's order; None where the file has no such column, which is null then.
    `converted` says whether the decoded vector is not yet one of `type`
    (`codec.convert.conversion.transform_of`).
    """

    name: str
    type: Type
    file_type: Type | None
    converted: bool


@dataclass(frozen=True, slots=True)
class Projection:
    """What to read.

    `root` is the type of the output, in the order asked; `sources` has one entry for each of its fields, or
    one for the root itself (its name is empty) where that is no struct. `file_root` is what to decode of the
    file: a struct's fields are those of the `sources` that the file has, in their order.
    """

    root: Type
    file_root: Type
    sources: tuple[Source, ...]

    @property
    def converted(self) -> bool:
        """Whether the output differs from what is decoded: in a type, or by a column that the file lacks."""
        return any(source.converted or source.file_type is None for source in self.sources)


def project(
    file_schema: Schema,
    *,
    columns: Sequence[str | tuple[str, ...]] | None = None,
    read_schema: Schema | None = None,
    case_sensitive: bool = True,
) -> Projection:
    """How the columns asked for come out of a file.

    `columns` chooses from `read_schema` where there is one, else from the file's own. Raises
    `ColumnNotFound` and `UsageError` as `Schema.select` does, and `SchemaMismatch` where a type cannot be
    read as the one asked for, or a name fits several fields.
    """
    if read_schema is None or read_schema.root == file_schema.root:
        root = file_schema.select(columns, case_sensitive)
        return Projection(root, root, _sources(root, root))
    root = read_schema.select(columns, case_sensitive)
    matcher = _Matcher(case_sensitive)
    if _goes_by_position(file_schema, read_schema):
        file_root = matcher.positional(file_schema.root, read_schema.root, root)
    else:
        file_root = matcher.match(file_schema.root, root, ())
    return Projection(root, file_root, _sources(root, file_root))


def _goes_by_position(file_schema: Schema, read_schema: Schema) -> bool:
    names = file_schema.names
    if not names or read_schema.root.kind is not Kind.STRUCT:
        return False
    return all(_UNNAMED.fullmatch(name) for name in names) and not set(read_schema.names) <= set(names)


def _sources(root: Type, file_root: Type) -> tuple[Source, ...]:
    if root.kind is not Kind.STRUCT:
        return (Source("", root, file_root, _differs(file_root, root)),)
    found = _aligned(file_root, root)
    return tuple(
        Source(name, type_, file_type, file_type is not None and _differs(file_type, type_))
        for name, type_, file_type in zip(root.field_names, root.children, found, strict=True)
    )


def _aligned(file_type: Type, read_type: Type) -> list[Type | None]:
    """The file's field for each of a struct's read fields: those it has stand in the same order."""
    waiting = list(zip(file_type.field_names, file_type.children, strict=True))
    waiting.reverse()
    return [
        waiting.pop()[1] if waiting and waiting[-1][0] == name else None for name in read_type.field_names
    ]


def _differs(file_type: Type, read_type: Type) -> bool:
    """Whether vectors of a matched part of the file are no vectors of the read type yet."""
    if file_type is read_type:
        return False
    if file_type.kind is not read_type.kind or file_type.field_names != read_type.field_names:
        return True
    if file_type.kind is Kind.DECIMAL:
        return decimal_shape(file_type) != decimal_shape(read_type)
    if file_type.max_length != read_type.max_length:
        return True
    return any(_differs(f, r) for f, r in zip(file_type.children, read_type.children, strict=True))


def _fits(file_type: Type, read_type: Type) -> bool:
    """Whether values of one scalar type can be read as another."""
    if file_type.kind is read_type.kind:
        return (file_type.crs, file_type.algorithm) == (read_type.crs, read_type.algorithm)
    from orcstream.codec.convert.conversion import can_convert

    return can_convert(file_type, read_type)


class _Matcher:
    """Finds the part of a file's tree that a read tree needs; paths are the reader's, for messages."""

    def __init__(self, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive

    def match(self, file_type: Type, read_type: Type, path: tuple[str, ...]) -> Type:
        if file_type.kind is not read_type.kind or file_type.kind not in _NESTED:
            if file_type.kind in _NESTED or read_type.kind in _NESTED or not _fits(file_type, read_type):
                raise _mismatch(file_type, read_type, path)
            return file_type
        if file_type.kind is Kind.STRUCT:
            return self._struct(file_type, read_type, self._places(file_type, read_type, path), path)
        if len(file_type.children) != len(read_type.children):
            raise _mismatch(file_type, read_type, path)
        steps = [below[0] for below, _ in read_type.walk() if len(below) == 1]
        children = tuple(
            self.match(child, read_child, (*path, step))
            for child, read_child, step in zip(file_type.children, read_type.children, steps, strict=True)
        )
        return replace(file_type, children=children)

    def positional(self, file_root: Type, read_root: Type, chosen: Type) -> Type:
        """The root of a file without names; `chosen` holds the fields asked for of `read_root`."""
        pairs = zip(read_root.children, range(len(file_root.children)), strict=False)
        by_id = {child.column_id: place for child, place in pairs}
        places = [by_id.get(child.column_id) for child in chosen.children]
        return self._struct(file_root, chosen, places, ())

    def _struct(
        self, file_type: Type, read_type: Type, places: list[int | None], path: tuple[str, ...]
    ) -> Type:
        names: list[str] = []
        children: list[Type] = []
        for name, read_child, place in zip(read_type.field_names, read_type.children, places, strict=True):
            if place is not None:
                names.append(name)
                children.append(self.match(file_type.children[place], read_child, (*path, name)))
        return replace(file_type, field_names=tuple(names), children=tuple(children))

    def _places(self, file_type: Type, read_type: Type, path: tuple[str, ...]) -> list[int | None]:
        """Where each of a struct's read fields stands in the file, None where it does not."""
        if file_type.field_names == read_type.field_names:  # names that occur twice need no choice here
            return list(range(len(file_type.children)))
        places = [self._place(file_type, name, (*path, name)) for name in read_type.field_names]
        taken: dict[int, str] = {}
        for name, place in zip(read_type.field_names, places, strict=True):
            if place is None:
                continue
            if place in taken:
                raise SchemaMismatch(
                    f"the columns {_shown((*path, taken[place]))} and {_shown((*path, name))} of the schema "
                    f"asked for are both the file's {_shown((*path, file_type.field_names[place]))}"
                )
            taken[place] = name
        return places

    def _place(self, file_type: Type, name: str, path: tuple[str, ...]) -> int | None:
        names = file_type.field_names
        found = [place for place, own in enumerate(names) if own == name]
        if not found and not self._case_sensitive:
            folded = name.casefold()
            found = [place for place, own in enumerate(names) if own.casefold() == folded]
        if len(found) > 1:
            fields = listed([names[place] for place in found])
            raise SchemaMismatch(f"the column {_shown(path)} is ambiguous: the file has {fields}")
        return found[0] if found else None


def _mismatch(file_type: Type, read_type: Type, path: tuple[str, ...]) -> SchemaMismatch:
    what = f"the column {_shown(path)}" if path else "the root"
    return SchemaMismatch(
        f"{what} is {file_type} in the file and cannot be read as {read_type}", column=file_type.column_id
    )


def _shown(path: tuple[str, ...]) -> str:
    return repr(".".join(path))


# --- a table's columns in a file --------------------------------------------------------------------


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
