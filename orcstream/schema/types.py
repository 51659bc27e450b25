"""ORC's types as a tree of values: kinds, column ids, and a tree as text: ``struct<a:int,b:array<string>>``.

Every `Type` is a well-formed tree of at most `MAX_DEPTH` levels, so code above may recurse over it. A tree
that comes from a file is checked in `codec.metadata`. A *projected* tree is the same class with fewer struct
children, in the order they were selected; its column ids stay the file's. Any text can be parsed: out comes a
tree, a SchemaMismatch that points at the place, or Unsupported for a tree that nests too deep. Specification:
"Type Information".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, NewType, NoReturn, cast

from orcstream.errors import SchemaMismatch, Unsupported, UsageError

# Recursive code (here, in decoders, in every consumer of Arrow schemas) needs a bound; Python's own
# recursion limit is 1000 frames. The deepest real schemas seen have some 20 levels.
MAX_DEPTH = 200
# The limits of the format's own writers: Hive's decimals, 8-bit union tags.
MAX_PRECISION = 38
_MAX_UNION_CHILDREN = 256

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
    **{kind: kind.name.lower() for kind in Kind},
    Kind.BYTE: "tinyint",
    Kind.SHORT: "smallint",
    Kind.LONG: "bigint",
    Kind.LIST: "array",
    Kind.UNION: "uniontype",
    Kind.TIMESTAMP_INSTANT: "timestamp with local time zone",
}
INT64 = range(-(1 << 63), 1 << 63)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
CHILD_COUNTS = {Kind.LIST: (1, 1), Kind.MAP: (2, 2), Kind.UNION: (1, _MAX_UNION_CHILDREN)}
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
        return tuple([(len(node.children), *_FACTS(node)) for node in nodes_of(self)])

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


_FACTS = attrgetter(*[one.name for one in fields(Type) if one.name != "children"])


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


def dotted_names(root: Type) -> list[str]:
    """The dotted name of every node of a tree, parents first; that of the root is empty."""
    names: list[str] = []
    left = [("", "", root)]
    while left:
        name, above, node = left.pop()
        names.append(name)
        if node.children:
            steps = zip(reversed(steps_of(node)), reversed(node.children), strict=True)
            left.extend((own := above + step, own + ".", child) for step, child in steps)
    return names


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


# --- as text, in Hive's form, as ORC Java prints it ------------------------------------------------


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


_KINDS = {word: kind for kind, word in KIND_WORDS.items()}
# Words of other systems, only to say what ORC calls it.
_FOREIGN_WORDS = {
    "bool": "boolean",
    "byte": "tinyint",
    "int8": "tinyint",
    "short": "smallint",
    "int16": "smallint",
    "integer": "int",
    "int32": "int",
    "long": "bigint",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "str": "string",
    "utf8": "string",
    "bytes": "binary",
    "list": "array",
    "union": "uniontype",
    "numeric": "decimal",
    "timestamp_instant": "timestamp with local time zone",
    "timestamptz": "timestamp with local time zone",
}


def parse_type(text: str) -> Type:
    """The root of the tree that a text describes, its columns without numbers."""
    return _Parser(text).root()


class _Parser:
    """Recursive descent over one text; `_at` is where it stands."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise UsageError(f"a schema text must be str, not {type(text).__name__}")
        self._text = text
        self._at = 0
        self._depth = 0

    def root(self) -> Type:
        root = self._type()
        self._space()
        if self._at != len(self._text):
            self._fail("expected the end of the schema")
        return root

    def _type(self) -> Type:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", reason="schema_too_deep")
        kind = self._kind()
        match kind:
            case Kind.STRUCT:
                node = self._struct()
            case Kind.LIST | Kind.MAP | Kind.UNION:
                node = Type(kind, self._children(kind))
            case Kind.DECIMAL:
                node = self._decimal()
            case Kind.CHAR | Kind.VARCHAR:
                self._expect("(")
                node = Type(kind, max_length=self._number(1, 2**31 - 1, "length"))
                self._expect(")")
            case Kind.GEOMETRY | Kind.GEOGRAPHY:
                node = self._geospatial(kind)
            case _:
                node = Type(kind)
        self._depth -= 1
        return node

    def _kind(self) -> Kind:
        self._space()
        start = self._at
        word = self._match(r"[^\W\d]\w*").lower()
        if word == "timestamp":
            zone = self._match(r"\s+with\s+(local\s+)?time\s+zone\b").lower()
            word += " " + " ".join(zone.split()) if zone else ""
        if word not in _KINDS:
            self._at = start
            self._unknown(word)
        return _KINDS[word]

    def _unknown(self, word: str) -> NoReturn:
        if not word:
            self._fail("expected a type")
        hint = _FOREIGN_WORDS.get(word) or next(iter(get_close_matches(word, _KINDS, 1)), None)
        if word == "timestamp with time zone":
            hint = KIND_WORDS[Kind.TIMESTAMP_INSTANT]
        self._fail(f"unknown type {word!r}" + (f", did you mean {hint!r}?" if hint else ""))

    def _children(self, kind: Kind) -> tuple[Type, ...]:
        self._expect("<")
        children = [self._type()]
        while self._take(","):
            children.append(self._type())
        self._expect(">")
        least, most = CHILD_COUNTS[kind]
        if not least <= len(children) <= most:
            count = str(most) if least == most else f"{least} to {most}"
            self._fail(f"{KIND_WORDS[kind]} has {count} type{'s' if most > 1 else ''}, not {len(children)}")
        return tuple(children)

    def _struct(self) -> Type:
        names: list[str] = []
        children: list[Type] = []
        self._expect("<")
        if not self._take(">"):
            while True:
                names.append(self._name())
                self._expect(":")
                children.append(self._type())
                if not self._take(","):
                    break
            self._expect(">")
        return Type(Kind.STRUCT, tuple(children), tuple(names))

    def _decimal(self) -> Type:
        if not self._take("("):
            return Type(Kind.DECIMAL)
        precision = self._number(1, MAX_PRECISION, "precision")
        scale = self._number(0, precision, "scale") if self._take(",") else 0
        self._expect(")")
        return Type(Kind.DECIMAL, precision=precision, scale=scale)

    def _geospatial(self, kind: Kind) -> Type:
        algorithm = EDGE_ALGORITHMS[0] if kind is Kind.GEOGRAPHY else None
        if not self._take("("):
            return Type(kind, crs=DEFAULT_CRS, algorithm=algorithm)
        crs = self._match(r"[^,()]+").strip()
        if not crs:
            self._fail("expected a coordinate reference system")
        if kind is Kind.GEOGRAPHY and self._take(","):
            self._space()
            start = self._at
            algorithm = self._match(r"\w+").upper()
            if algorithm not in EDGE_ALGORITHMS:
                self._at = start
                self._fail(f"expected an algorithm ({', '.join(EDGE_ALGORITHMS)})")
        self._expect(")")
        return Type(kind, crs=crs, algorithm=algorithm)

    def _name(self) -> str:
        self._space()
        if self._take("`"):
            quoted = self._match(r"(?:[^`]|``)*")
            if not self._match("`"):
                self._fail("a name in back quotes has no end")
            return quoted.replace("``", "`")
        # More than ORC Java takes unquoted (letters, digits, underscores): other printers quote less.
        name = self._match(r"[^`:,<>()\s]+")
        if not name:
            self._fail("expected a field name")
        return name

    def _number(self, least: int, most: int, what: str) -> int:
        self._space()
        start = self._at
        digits = self._match(r"[0-9]{1,10}")
        if not digits or not least <= int(digits) <= most:
            self._at = start
            self._fail(f"expected a {what} from {least} to {most}")
        return int(digits)

    def _match(self, pattern: str) -> str:
        found = re.compile(pattern, re.IGNORECASE).match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found.group()

    def _space(self) -> None:
        self._match(r"\s+")

    def _take(self, mark: str) -> bool:
        self._space()
        return bool(self._match(re.escape(mark)))

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            self._fail(f"expected {mark!r}")

    def _fail(self, problem: str) -> NoReturn:
        seen = self._text[self._at : self._at + 20]
        where = f"before {seen!r}" if seen else "at the end"
        raise SchemaMismatch(f"bad schema text at position {self._at}, {where}: {problem}")
