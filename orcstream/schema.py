"""The type tree of a file: column ids, how it is printed, and selection of columns by name.

Knows ORC's types, their pre-order numbering and their text form, which `schema_text` parses. Must not know
protobuf, Arrow or any byte of a file: a tree that comes from a file is checked in `codec.metadata`. Contract:
every `Type` is a well-formed tree of at most `MAX_DEPTH` levels, so code above may recurse over it. A
*projected* tree is the same class with fewer struct children, in the order asked; its column ids stay the
file's. Specification: "Type Information".
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NewType, NoReturn, cast

from orcstream._printable import listed
from orcstream.errors import ColumnNotFound, SchemaMismatch, Unsupported, UsageError

__all__ = [
    "DEFAULT_CRS",
    "EDGE_ALGORITHMS",
    "FLOATS",
    "INTEGERS",
    "KIND_WORDS",
    "MAX_DEPTH",
    "TEXTS",
    "TIMES",
    "FileColumn",
    "Kind",
    "Schema",
    "Type",
    "decimal_shape",
    "find_column",
    "numbered",
    "steps_of",
]

# Recursive code (here, in decoders, in every consumer of Arrow schemas) needs a bound; Python's own
# recursion limit is 1000 frames. The deepest real schemas seen have some 20 levels.
MAX_DEPTH = 200

FileColumn = NewType("FileColumn", int)


class Kind(enum.IntEnum):
    """Type.Kind of the specification."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18
    GEOMETRY = 19
    GEOGRAPHY = 20


INTEGERS = frozenset((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG))
FLOATS = frozenset((Kind.FLOAT, Kind.DOUBLE))
TEXTS = frozenset((Kind.STRING, Kind.CHAR, Kind.VARCHAR))
TIMES = frozenset((Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT))
KIND_WORDS = {
    Kind.BOOLEAN: "boolean",
    Kind.BYTE: "tinyint",
    Kind.SHORT: "smallint",
    Kind.INT: "int",
    Kind.LONG: "bigint",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.TIMESTAMP: "timestamp",
    Kind.LIST: "array",
    Kind.MAP: "map",
    Kind.STRUCT: "struct",
    Kind.UNION: "uniontype",
    Kind.DECIMAL: "decimal",
    Kind.DATE: "date",
    Kind.VARCHAR: "varchar",
    Kind.CHAR: "char",
    Kind.TIMESTAMP_INSTANT: "timestamp with local time zone",
    Kind.GEOMETRY: "geometry",
    Kind.GEOGRAPHY: "geography",
}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
# What a file means that does not say: longitude and latitude on WGS 84, edges on the sphere.
DEFAULT_CRS = "OGC:CRS84"
EDGE_ALGORITHMS = ("SPHERICAL", "VINCENTY", "THOMAS", "ANDOYER", "KARNEY")
# What ORC C++ gives decimals of Hive 0.11 (`forcedScaleOnHive11Decimal`).
_UNDECLARED_SCALE = 6

_Row = tuple[Any, ...]  # one type without its children: count of children, then the other fields


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Type:
    """One node of the type tree. `field_names` is as long as `children` for structs, else empty.

    `column_id` is the position in the file's pre-order list, `last_column_id` the largest id in the
    subtree as the *file* has it. `precision` and `scale` are None in files of Hive 0.11 and 0.12, which
    did not record them. Every geometry and geography has a `crs`, every geography an `algorithm`.
    """

    kind: Kind
    children: tuple[Type, ...] = ()
    field_names: tuple[str, ...] = ()
    max_length: int | None = None
    precision: int | None = None
    scale: int | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    crs: str | None = None
    algorithm: str | None = None
    column_id: FileColumn = FileColumn(0)
    last_column_id: FileColumn = FileColumn(0)

    @property
    def column_ids(self) -> Sequence[FileColumn]:
        """Those of the subtree as the file has it, in order; looks up and counts without making a list."""
        return cast("Sequence[FileColumn]", range(self.column_id, self.last_column_id + 1))

    def walk(self) -> Iterator[tuple[tuple[str, ...], Type]]:
        """Every node of the tree with its path from here, parents first."""
        stack: list[tuple[tuple[str, ...], Type]] = [((), self)]
        while stack:
            path, node = stack.pop()
            yield path, node
            steps = steps_of(node)
            for step, child in zip(reversed(steps), reversed(node.children), strict=True):
                stack.append(((*path, step), child))

    def _rows(self) -> tuple[_Row, ...]:
        """The tree as a flat tuple: comparing, hashing and pickling must not recurse."""
        return tuple(
            (
                len(node.children),
                node.kind,
                node.field_names,
                node.max_length,
                node.precision,
                node.scale,
                node.attributes,
                node.crs,
                node.algorithm,
                node.column_id,
                node.last_column_id,
            )
            for _, node in self.walk()
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Type):
            return NotImplemented
        return self is other or self._rows() == other._rows()

    def __hash__(self) -> int:
        return hash(self._rows())

    def __reduce__(self) -> tuple[object, ...]:
        return (_type_from_rows, (self._rows(),))

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return f"<Type {self.column_id}: {self}>"


def _type_from_rows(rows: tuple[_Row, ...]) -> Type:
    done: list[Type] = []  # children of what comes before, in reverse order
    for count, kind, names, *rest in reversed(rows):
        children = tuple(done.pop() for _ in range(count))
        done.append(Type(kind, children, names, *rest))
    return done[0]


def decimal_shape(type_: Type) -> tuple[int, int]:
    """Precision and scale of a decimal; Hive 0.11 wrote none and kept a scale with every value."""
    if not type_.precision:
        return 38, type_.scale or _UNDECLARED_SCALE
    return type_.precision, type_.scale or 0


def steps_of(node: Type) -> tuple[str, ...]:
    """How paths name the children of a node (the words of ORC Java)."""
    match node.kind:
        case Kind.STRUCT:
            return node.field_names
        case Kind.LIST:
            return ("_elem",)
        case Kind.MAP:
            return ("_key", "_value")
        case Kind.UNION:
            return tuple(f"_union_{tag}" for tag in range(len(node.children)))
        case _:
            return ()


def _text(node: Type) -> str:
    word = KIND_WORDS[node.kind]
    match node.kind:
        case Kind.STRUCT:
            fields = zip(node.field_names, node.children, strict=True)
            return "struct<" + ",".join(f"{_quoted(name)}:{_text(child)}" for name, child in fields) + ">"
        case Kind.LIST | Kind.MAP | Kind.UNION:
            return f"{word}<" + ",".join(_text(child) for child in node.children) + ">"
        case Kind.DECIMAL if node.precision is not None:
            return f"decimal({node.precision},{node.scale or 0})"
        case Kind.CHAR | Kind.VARCHAR if node.max_length is not None:
            return f"{word}({node.max_length})"
        case Kind.GEOMETRY:
            return f"geometry({node.crs})"
        case Kind.GEOGRAPHY:
            return f"geography({node.crs},{node.algorithm})"
        case _:
            return word


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class Schema:
    """The type tree of a file or of a table to be written. Immutable, hashable and pickle-able.

    As a collection it holds its top-level fields: iteration gives `names`, `len` counts them, and
    `schema["a.b"]` is the `Type` at a path (dotted, or a tuple where names hold dots).
    """

    __slots__ = ("root", "types")

    root: Type
    types: tuple[Type, ...]

    def __init__(self, root: Type) -> None:
        object.__setattr__(self, "root", root)
        # By column id. (A projected tree has gaps; a schema is never projected.)
        types = tuple(node for _, node in root.walk())
        if [node.column_id for node in types] != list(range(len(types))):
            raise UsageError("the column ids of a schema must count its types in pre-order, from 0")
        try:  # files and Arrow have UTF-8
            "".join(text for node in types for text in (*node.field_names, node.crs or "")).encode()
        except UnicodeEncodeError:
            raise SchemaMismatch("a name holds half of a surrogate pair") from None
        object.__setattr__(self, "types", types)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Schema cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Schema cannot be changed: {name}")

    @classmethod
    def parse(cls, text: str) -> Schema:
        """The schema that a text such as ``struct<a:int,`odd name`:array<string>>`` describes."""
        from orcstream.schema_text import parse_type

        return cls(parse_type(text))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level fields; empty where the root is no struct."""
        return self.root.field_names

    @property
    def column_count(self) -> int:
        """How many column ids there are: one for each type of the tree, the root's included."""
        return len(self.types)

    def walk(self) -> Iterator[tuple[tuple[str, ...], Type]]:
        """Every type with its path, in the order of column ids; the root's path is empty."""
        return self.root.walk()

    def select(self, columns: Sequence[str | tuple[str, ...]] | None, case_sensitive: bool = True) -> Type:
        """The root with only the `columns` asked for, in the order asked; None asks for everything.

        Without `case_sensitive`, names may be spelled otherwise. Raises `ColumnNotFound`.

        A name that holds dots and exists is found as it stands; a struct's fields are reached by
        dots, list elements by ``_elem``, a map's sides by ``_key`` and ``_value`` (a map keeps both), a
        union's children by ``_union_0`` and so on (a union is always read whole).
        """
        if columns is None:
            return self.root
        if isinstance(columns, str):
            raise UsageError(f"columns must be a sequence of names, not one text; write [{columns!r}]")
        columns = list(columns)
        if self.root.kind is not Kind.STRUCT:
            raise UsageError(
                f"the file's root is a {self.root} and not a struct, so it has no columns to choose from; "
                "leave columns out (None)"
            )
        picked: _Picked = {}
        places: _Places = {}
        for column in columns:
            _pick(picked, _find(self.root, _parts(column), case_sensitive, places))
        return _project(self.root, picked)

    def __getitem__(self, path: str | tuple[str, ...]) -> Type:
        node = self.root
        for index in _find(node, _parts(path), True):
            node = node.children[index]
        return node

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str | tuple):
            return False
        try:
            self[path]
        except UsageError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self.root == other.root if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.root)

    def __reduce__(self) -> tuple[object, ...]:
        return (Schema, (self.root,))

    def __str__(self) -> str:
        return str(self.root)

    def __repr__(self) -> str:
        return f"Schema.parse({str(self)!r})"


def numbered(root: Type, *, attributes: bool = True) -> Schema:
    """The schema of types with any column ids; without `attributes`, that of their text alone.

    Raises `Unsupported` for a tree that nests too deep.
    """
    ids = itertools.count()

    def count(node: Type, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", reason="schema_too_deep")
        own = FileColumn(next(ids))
        children = tuple(count(child, depth + 1) for child in node.children)
        return replace(
            node,
            children=children,
            attributes=node.attributes if attributes else (),
            column_id=own,
            last_column_id=children[-1].last_column_id if children else own,
        )

    return Schema(count(root, 1))


# --- selection -------------------------------------------------------------------------------------

# Which children of a node are asked for, in order: None means the child whole.
_Picked = dict[int, "_Picked | None"]
# Where the children of some nodes are by their names, for who looks for thousands of them.
_Places = dict[int, dict[str, list[int]]]


def find_column(root: Type, column: str | tuple[str, ...], *, case_sensitive: bool = True) -> tuple[int, ...]:
    """The child indices that lead from `root` to a column, named as `Schema.select` takes names."""
    return tuple(_find(root, _parts(column), case_sensitive))


def _parts(column: object) -> str | tuple[str, ...]:
    if isinstance(column, str):
        return column
    if isinstance(column, tuple) and column and all(isinstance(part, str) for part in column):
        return column
    raise UsageError(f"a column is a name, or a tuple of names from the top down, not {column!r}")


def _find(
    root: Type, path: str | tuple[str, ...], case_sensitive: bool, places: _Places | None = None
) -> list[int]:
    """The child indices that lead from the root to the path's type."""
    if isinstance(path, str):
        found = _find_dotted(root, path, case_sensitive, places)
        if found is None:
            _not_found(root, path, case_sensitive)
        return found
    indices: list[int] = []
    node = root
    for depth, step in enumerate(path):
        index = _child(node, step, case_sensitive, places)
        if index is None:
            raise ColumnNotFound(
                f"no column {path!r}: {_about(node, path[:depth])}{_suggestion(step, steps_of(node))}"
            )
        indices.append(index)
        node = node.children[index]
    return indices


def _find_dotted(node: Type, text: str, case_sensitive: bool, places: _Places | None) -> list[int] | None:
    """A dot may part two names or belong to one: the longest name that exists is tried first."""
    end = len(text)
    while end >= 0:
        index = _child(node, text[:end], case_sensitive, places)
        if index is not None:
            if end == len(text):
                return [index]
            rest = _find_dotted(node.children[index], text[end + 1 :], case_sensitive, places)
            if rest is not None:
                return [index, *rest]
        end = text.rfind(".", 0, end)
    return None


def _child(node: Type, name: str, case_sensitive: bool, places: _Places | None = None) -> int | None:
    steps = steps_of(node)
    if places is None:
        matches = [index for index, step in enumerate(steps) if step == name]
    else:
        if id(node) not in places:
            known = places[id(node)] = {}
            for index, step in enumerate(steps):
                known.setdefault(step, []).append(index)
        matches = places[id(node)].get(name, [])
    if not matches and not case_sensitive:
        folded = name.casefold()
        matches = [index for index, step in enumerate(steps) if step.casefold() == folded]
    if len(matches) > 1:
        raise UsageError(
            f"the name {name!r} is ambiguous: {len(matches)} fields match "
            f"({listed([steps[index] for index in matches])})"
        )
    return matches[0] if matches else None


def _not_found(root: Type, text: str, case_sensitive: bool) -> NoReturn:
    """Says which part of a dotted path is unknown: walks as far down as names match."""
    node, start = root, 0
    while True:
        for end in (*_dots_backwards(text, start), start):
            index = _child(node, text[start:end], case_sensitive) if end > start else None
            if index is not None and end < len(text):
                node, start = node.children[index], end + 1
                break
        else:
            above = (text[: start - 1],) if start else ()
            raise ColumnNotFound(
                f"no column {text!r}: {_about(node, above)}{_suggestion(text[start:], steps_of(node))}"
            )


def _dots_backwards(text: str, start: int) -> list[int]:
    return [at for at in range(len(text) - 1, start, -1) if text[at] == "."]


def _about(node: Type, above: tuple[str, ...]) -> str:
    owner = f"{'.'.join(above)!r}" if above else "the file"
    steps = steps_of(node)
    if not steps:
        return (
            f"{owner} is a {node} and has no fields" if node.kind is not Kind.STRUCT else f"{owner} is empty"
        )
    shown = ", ".join(repr(step) for step in steps[:8]) + (", ..." if len(steps) > 8 else "")
    return f"{owner} has {shown}"


def _suggestion(name: str, steps: Sequence[str]) -> str:
    close = get_close_matches(name, steps[:1000], 3)
    folded = [step for step in steps if step.casefold() == name.casefold() and step not in close]
    options = " or ".join(repr(option) for option in (*folded, *close)[:3])
    return f"; did you mean {options}?" if options else ""


def _pick(picked: _Picked, indices: Sequence[int]) -> None:
    """Adds a path to what is picked; the whole of something swallows its parts."""
    for index in indices[:-1]:
        if index in picked and picked[index] is None:
            return
        picked = cast("_Picked", picked.setdefault(index, {}))
    picked[indices[-1]] = None


def _project(node: Type, picked: _Picked | None) -> Type:
    if picked is None or node.kind is Kind.UNION:
        return node
    if node.kind is Kind.STRUCT:
        children = tuple(_project(node.children[index], below) for index, below in picked.items())
        return replace(node, children=children, field_names=tuple(node.field_names[i] for i in picked))
    return replace(
        node,
        children=tuple(_project(child, picked.get(index)) for index, child in enumerate(node.children)),
    )
