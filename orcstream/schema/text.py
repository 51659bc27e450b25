"""Schemas as text: ``struct<a:int,`odd name`:array<string>>``, Hive's form, as ORC Java prints it.

Knows the grammar, and words that other systems have for the same types. Must not know how a tree is printed
(`schema.types`) or searched (`schema`). Contract: any text in; out comes a well-formed tree, a SchemaMismatch
that points at the place, or Unsupported for a tree that nests too deep.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from typing import NoReturn

from orcstream.errors import SchemaMismatch, Unsupported, UsageError
from orcstream.schema.types import (
    DEFAULT_CRS,
    EDGE_ALGORITHMS,
    KIND_WORDS,
    MAX_DEPTH,
    FileColumn,
    Kind,
    Type,
)

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
# The limits of the format's own writers: Hive's decimals, 8-bit union tags.
_MAX_PRECISION = 38
_MAX_UNION_CHILDREN = 256


def parse_type(text: str) -> Type:
    """The root of the tree that a text describes."""
    return _Parser(text).root()


class _Parser:
    """Recursive descent over one text; `_at` is where it stands."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise UsageError(f"a schema text must be str, not {type(text).__name__}")
        self._text = text
        self._at = 0
        self._next_id = 0
        self._depth = 0

    def root(self) -> Type:
        root = self._type()
        self._space()
        if self._at != len(self._text):
            self._fail("expected the end of the schema")
        return root

    def _type(self) -> Type:
        column_id = FileColumn(self._next_id)
        self._next_id += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", reason="schema_too_deep")
        kind = self._kind()
        node = Type(kind, column_id=column_id, last_column_id=column_id)
        match kind:
            case Kind.STRUCT:
                node = self._struct(node)
            case Kind.LIST | Kind.MAP | Kind.UNION:
                node = replace(node, children=self._children(kind))
            case Kind.DECIMAL:
                node = self._decimal(node)
            case Kind.CHAR | Kind.VARCHAR:
                self._expect("(")
                node = replace(node, max_length=self._number(1, 2**31 - 1, "length"))
                self._expect(")")
            case Kind.GEOMETRY | Kind.GEOGRAPHY:
                node = self._geospatial(node)
        self._depth -= 1
        return replace(node, last_column_id=FileColumn(self._next_id - 1))

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
        least, most = {Kind.LIST: (1, 1), Kind.MAP: (2, 2)}.get(kind, (1, _MAX_UNION_CHILDREN))
        if not least <= len(children) <= most:
            count = str(most) if least == most else f"{least} to {most}"
            self._fail(f"{KIND_WORDS[kind]} has {count} type{'s' if most > 1 else ''}, not {len(children)}")
        return tuple(children)

    def _struct(self, node: Type) -> Type:
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
        return replace(node, children=tuple(children), field_names=tuple(names))

    def _decimal(self, node: Type) -> Type:
        if not self._take("("):
            return node
        precision = self._number(1, _MAX_PRECISION, "precision")
        scale = self._number(0, precision, "scale") if self._take(",") else 0
        self._expect(")")
        return replace(node, precision=precision, scale=scale)

    def _geospatial(self, node: Type) -> Type:
        algorithm = EDGE_ALGORITHMS[0] if node.kind is Kind.GEOGRAPHY else None
        if not self._take("("):
            return replace(node, crs=DEFAULT_CRS, algorithm=algorithm)
        crs = self._match(r"[^,()]+").strip()
        if not crs:
            self._fail("expected a coordinate reference system")
        if node.kind is Kind.GEOGRAPHY and self._take(","):
            self._space()
            start = self._at
            algorithm = self._match(r"\w+").upper()
            if algorithm not in EDGE_ALGORITHMS:
                self._at = start
                self._fail(f"expected an algorithm ({', '.join(EDGE_ALGORITHMS)})")
        self._expect(")")
        return replace(node, crs=crs, algorithm=algorithm)

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
