"""ORC's types as a tree of values: kinds, column ids, and how a tree is printed.

Every `Type` is a well-formed tree of at most `MAX_DEPTH` levels, so code above may recurse over it. A tree
that comes from a file is checked in `codec.metadata`. A *projected* tree is the same class with fewer struct
children, in the order they were selected; its column ids stay the file's. Specification: "Type Information".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NewType, cast

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


def nodes_of(root: Type) -> list[Type]:
    """Every node of a tree, parents first."""
    nodes: list[Type] = []
    left = [root]
    while left:
        node = left.pop()
        nodes.append(node)
        left.extend(reversed(node.children))
    return nodes


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
