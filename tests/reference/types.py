"""Type trees and their text form (specification: "Type Information"). Knows no streams and no bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

KINDS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "timestamp",
    "array", "map", "struct", "uniontype", "decimal", "date", "varchar", "char",
    "timestamp with local time zone", "geometry", "geography",
)  # fmt: skip
"""Hive's name of each kind, by its number in the file."""


class Union(NamedTuple):
    """A union's value: which child, and its value."""

    tag: int
    value: object


@dataclass(frozen=True, repr=False)
class T:
    """A type. `str()` gives the text form that every writer understands."""

    kind: str
    children: tuple[T, ...] = ()
    names: tuple[str, ...] = ()
    max_length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.kind == "struct":
            fields = zip(self.names, self.children, strict=True)
            return f"struct<{','.join(f'{_quoted(name)}:{child}' for name, child in fields)}>"
        if self.children:
            return f"{self.kind}<{','.join(map(str, self.children))}>"
        if self.kind in ("char", "varchar"):
            return f"{self.kind}({self.max_length})"
        if self.kind == "decimal" and self.precision is not None:
            return f"decimal({self.precision},{self.scale or 0})"
        return self.kind

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def flatten(self) -> list[T]:
        """The tree in pre-order: the position in this list is the column id."""
        out = [self]
        for child in self.children:
            out += child.flatten()
        return out

    def walk_kinds(self) -> set[str]:
        return {type_.kind for type_ in self.flatten()}


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name, re.ASCII) else "`" + name.replace("`", "``") + "`"


def struct(**fields: T | str) -> T:
    """A struct of named fields, each a type or its text."""
    children = tuple(parse(field) if isinstance(field, str) else field for field in fields.values())
    return T("struct", children, tuple(fields))


def parse(text: str) -> T:
    """The type of a text such as ``struct<a:int,b:array<string>>``."""
    type_, rest = _parse(text.strip())
    assert not rest, f"left over in a type: {rest!r}"
    return type_


def _parse(text: str) -> tuple[T, str]:
    word = re.match(r"timestamp with local time zone|\w+", text)
    assert word, text
    kind, rest = word[0], text[word.end() :]
    if kind == "struct":
        return _parse_struct(rest)
    if kind in ("array", "map", "uniontype"):
        children = []
        while rest[0] in "<,":
            child, rest = _parse(rest[1:])
            children.append(child)
        return T(kind, tuple(children)), rest[1:]
    numbers = re.match(r"\((\d+)(?:,(\d+))?\)", rest)
    if numbers:
        rest = rest[numbers.end() :]
        if kind == "decimal":
            return T(kind, precision=int(numbers[1]), scale=int(numbers[2] or 0)), rest
        return T(kind, max_length=int(numbers[1])), rest
    return T(kind), rest


def _parse_struct(rest: str) -> tuple[T, str]:
    names, children = [], []
    if rest.startswith("<>"):
        return T("struct"), rest[2:]
    while rest[0] in "<,":
        name = re.match(r"`((?:[^`]|``)*)`:|([^:]+):", rest[1:])
        assert name, rest
        names.append(name[1].replace("``", "`") if name[1] is not None else name[2])
        child, rest = _parse(rest[1 + name.end() :])
        children.append(child)
    return T("struct", tuple(children), tuple(names)), rest[1:]
