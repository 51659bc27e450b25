"""Predicates after binding: typed, with literals in the form that values are compared in.

Knows three-valued logic and what each kind of column is compared by. Must not know columns' bytes,
statistics or the user's expressions: `expr` binds those to a schema and makes these; `codec.vectors.filter`
evaluates them on vectors, `plan.prune` on statistics. All values here are frozen and can be pickled.

Literals are canonical, by the kind of the column that is read:

=================== ==================================================================
kind                literal
=================== ==================================================================
boolean             bool
integers            int, within the range of the type or not
float, double       float (float columns are compared as doubles)
decimal             int: the unscaled value at the column's scale
date                int, days since 1970-01-01
timestamps          int, nanoseconds since 1970-01-01 00:00:00 (wall clock; UTC for instants)
string, char, ...   bytes of UTF-8, compared byte by byte, as delivered (char is not padded or trimmed)
binary              bytes
=================== ==================================================================
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from orcstream.schema.types import Type

Literal: TypeAlias = bool | int | float | bytes


class Op(enum.Enum):
    """What a leaf asks of a value that is not null; of a null all but IS_NULL are neither true nor false."""

    IN = "in"  # equal to one of the literals; of no literals: false
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    STARTS_WITH = "starts with"
    IS_NULL = "is null"  # never null itself


@dataclass(frozen=True, slots=True)
class Leaf:
    """A question about one column of the read schema.

    `path` are names from the root through structs; a null struct on the way makes the value null. `type`
    is the type that is read. `literals` has one entry but for IN (any number, sorted, distinct) and IS_NULL
    (none). `unit_ns` is the resolution of delivered timestamps: a literal that is between two of them is
    compared with what was cut off toward minus infinity.
    """

    path: tuple[str, ...]
    type: Type
    op: Op
    literals: tuple[Literal, ...] = ()
    unit_ns: int = 1


@dataclass(frozen=True, slots=True)
class _Joined:
    parts: tuple[Predicate, ...]


class AllOf(_Joined):
    """True where all parts are; false where one is false. Of no parts: true."""

    __slots__ = ()


class AnyOf(_Joined):
    """True where one part is; false where all are false. Of no parts: false."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Negation:
    """True where the part is false; null where it is null."""

    part: Predicate


Predicate: TypeAlias = Leaf | AllOf | AnyOf | Negation


def leaves_of(predicate: Predicate) -> Iterator[Leaf]:
    """All questions, left to right."""
    if isinstance(predicate, Leaf):
        yield predicate
    elif isinstance(predicate, Negation):
        yield from leaves_of(predicate.part)
    else:
        for part in predicate.parts:
            yield from leaves_of(part)
