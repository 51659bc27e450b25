"""Random predicates over random tables, evaluated plainly: what `where=` is judged against.

A predicate here is a small tree over neutral values, with three truth values (True, False, None). `evaluate`
walks it row by row; `build` makes the package's expression of the same meaning, given its `col`.
Literals are taken from the column's own values, from near them, and from far away.
"""

from __future__ import annotations

import datetime
import math
import operator
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from tests.generators.strategies import INTEGERS
from tests.reference.types import T
from tests.reference.values import EXACT

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARED = tuple(_COMPARE)
_TEXTS = ("string", "varchar")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Ask:
    """A question about one column; `literals` is one value, or any number for "in", or two for "between".

    `spelled` is how the user writes the literals, where that is not how `literal_of` does.
    """

    path: tuple[str, ...]
    type_: T
    question: str
    literals: tuple[Any, ...] = ()
    spelled: tuple[Any, ...] | None = None

    @property
    def written(self) -> list[Any]:
        if self.spelled is not None:
            return list(self.spelled)
        return [literal_of(self.type_, value) for value in self.literals]

    def __repr__(self) -> str:
        return f"({'.'.join(self.path)} {self.question} {_short(self.spelled or self.literals)})"


@dataclass(frozen=True)
class Both:
    left: Node
    right: Node

    def __repr__(self) -> str:
        return f"({self.left} & {self.right})"


@dataclass(frozen=True)
class Either:
    left: Node
    right: Node

    def __repr__(self) -> str:
        return f"({self.left} | {self.right})"


@dataclass(frozen=True)
class Not:
    part: Node

    def __repr__(self) -> str:
        return f"~{self.part}"


Node: TypeAlias = Ask | Both | Either | Not


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 120 else f"{text[:100]}..."


# --- meaning -----------------------------------------------------------------------------------------


def evaluate(node: Node, type_: T, row: Any) -> bool | None:
    """Whether the row matches; None is neither true nor false."""
    if isinstance(node, Not):
        found = evaluate(node.part, type_, row)
        return None if found is None else not found
    if isinstance(node, Ask):
        return _answer(node, _value(node.path, type_, row))
    decides = isinstance(node, Either)  # one True decides an "or", one False an "and"
    left, right = (evaluate(part, type_, row) for part in (node.left, node.right))
    if decides in (left, right):
        return decides
    return None if None in (left, right) else not decides


def matching(node: Node, type_: T, rows: Sequence[Any]) -> list[int]:
    """The numbers of the rows that match."""
    return [number for number, row in enumerate(rows) if evaluate(node, type_, row) is True]


def _value(path: tuple[str, ...], type_: T, row: Any) -> Any:
    for name in path:
        if row is None:
            return None
        at = type_.names.index(name)
        type_, row = type_.children[at], row[at]
    return row


def _answer(ask: Ask, value: Any) -> bool | None:
    if ask.question == "is null":
        return value is None
    if value is None:
        return None
    if ask.question == "in":
        return any(value == literal for literal in ask.literals)
    if ask.question == "between":
        low, high = ask.literals
        return bool(_ordered(low) <= _ordered(value) <= _ordered(high))
    (literal,) = ask.literals
    if ask.question == "starts with":
        return bool(value.startswith(literal))
    return bool(_COMPARE[ask.question](_ordered(value), _ordered(literal)))


def _ordered(value: Any) -> Any:
    """Texts are ordered by their bytes, which is the order of their code points."""
    return value.encode() if isinstance(value, str) else value


# --- in the package's words --------------------------------------------------------------------------


def build(node: Node, col: Callable[[Any], Any]) -> Any:
    """The same predicate made of `col(...)`."""
    if isinstance(node, Both):
        return build(node.left, col) & build(node.right, col)
    if isinstance(node, Either):
        return build(node.left, col) | build(node.right, col)
    if isinstance(node, Not):
        return ~build(node.part, col)
    dotted = any("." in name for name in node.path)
    column = col(node.path if dotted else ".".join(node.path))
    literals = node.written
    if node.question == "is null":
        return column.is_null()
    if node.question == "in":
        return column.isin(literals)
    if node.question == "between":
        return column.between(*literals)
    if node.question == "starts with":
        return column.starts_with(*literals)
    return _COMPARE[node.question](column, *literals)


def literal_of(type_: T, value: Any) -> Any:
    """A neutral value as a user writes it: dates and times as Python's where those hold it, else numpy's."""
    if type_.kind == "date":
        inside = -719_162 <= value <= 2_932_896
        return datetime.date.fromordinal(value + 719_163) if inside else np.datetime64(value, "D")
    if not type_.kind.startswith("timestamp"):
        return value
    micros, below = divmod(value, 1000)
    if below or not -62_135_596_800 * 10**6 <= micros < 253_402_300_800 * 10**6:
        return np.datetime64(value, "ns")
    time = _EPOCH + datetime.timedelta(microseconds=micros)
    return time if type_.kind != "timestamp" else time.replace(tzinfo=None)


def columns_of(node: Node) -> set[tuple[str, ...]]:
    if isinstance(node, Ask):
        return {node.path}
    if isinstance(node, Not):
        return columns_of(node.part)
    return columns_of(node.left) | columns_of(node.right)


# --- making them -------------------------------------------------------------------------------------


class Predicates:
    """Draws predicates for one table: from a seed, so that a failure names it."""

    def __init__(self, type_: T, rows: Sequence[Any], seed: int) -> None:
        self._type = type_
        self._rows = rows
        self._rng = random.Random(seed)
        self._leaves = list(_leaves(type_, ()))

    @property
    def possible(self) -> bool:
        return bool(self._leaves)

    def draw(self, depth: int = 3) -> Node:
        rng = self._rng
        kind = rng.random()
        if depth == 0 or kind < 0.4:
            return self._ask()
        if kind < 0.55:
            return Not(self.draw(depth - 1))
        make = Both if kind < 0.8 else Either
        return make(self.draw(depth - 1), self.draw(depth - 1))

    def _ask(self) -> Ask:
        rng = self._rng
        path, type_ = rng.choice(self._leaves)
        # Of char, neutral values have lost the padding that a file may hold and a comparison sees.
        if type_.children or type_.kind == "char" or rng.random() < 0.1:
            return Ask(path, type_, "is null")
        question = rng.choice((*COMPARED, "=", "in", "between", "starts with"))
        if question == "starts with" and type_.kind not in _TEXTS:
            question = "="
        if type_.kind == "boolean" and question not in ("in",):
            question = rng.choice(("=", "!="))
        if question == "in":
            literals = tuple(self._literal(path, type_) for _ in range(rng.choice((0, 1, 2, 5, 30))))
        elif question == "between":
            literals = tuple(sorted((self._literal(path, type_) for _ in range(2)), key=_ordered))
        else:
            literals = (self._literal(path, type_),)
        if question == "starts with":
            literals = (literals[0][: rng.randrange(4)],)
        return Ask(path, type_, question, literals)

    def _literal(self, path: tuple[str, ...], type_: T) -> Any:
        rng = self._rng
        value = None
        for _ in range(5):
            if self._rows and value is None:
                value = _value(path, self._type, rng.choice(self._rows))
        if value is None or (isinstance(value, float) and math.isnan(value)) or rng.random() < 0.15:
            return self._far(type_)
        return value if rng.random() < 0.5 else self._near(type_, value)

    def _near(self, type_: T, value: Any) -> Any:
        rng = self._rng
        kind = type_.kind
        if kind in _TEXTS:
            return rng.choice((value + "a", value[:-1], value + "\0", value[:1])).rstrip(
                " " * (kind == "char")
            )
        if kind == "binary":
            return rng.choice((value + b"\0", value[:-1], value + b"\xff"))
        if kind == "boolean":
            return not value
        if kind in ("float", "double"):
            if not math.isfinite(value):
                return rng.choice((1.7976931348623157e308, -1.7976931348623157e308))
            # Neighbours of a 32-bit column's value that no such column can hold are good questions, too.
            near = [math.nextafter(value, math.inf), math.nextafter(value, -math.inf), -value, value + 1]
            if kind == "float" and abs(value) < 3e38:
                near.append(struct.unpack("<f", struct.pack("<f", value * 1.0001))[0])
            return rng.choice(near)
        if kind == "decimal":
            return value + rng.choice((1, -1)) * Decimal(1).scaleb(-type_.scale if type_.scale else 0, EXACT)
        step = rng.choice((1, -1, 1000, -1_000_000)) if kind.startswith("timestamp") else rng.choice((1, -1))
        return _within(type_, value + step)

    def _far(self, type_: T) -> Any:
        rng = self._rng
        kind = type_.kind
        if kind in INTEGERS:
            bits = INTEGERS[kind]
            return rng.choice((-(1 << bits - 1), (1 << bits - 1) - 1, 0, rng.randrange(1 << bits - 1)))
        if kind == "boolean":
            return rng.random() < 0.5
        if kind in ("float", "double"):
            return rng.choice((math.inf, -math.inf, 0.0, -0.0, 1e300, -1e-300))
        if kind == "decimal":
            assert type_.precision is not None and type_.scale is not None
            most: int = 10**type_.precision - 1
            return Decimal(rng.choice((most, -most, 0))).scaleb(-type_.scale, EXACT)
        if kind in _TEXTS:
            return rng.choice(("", "~", "\0", "\U0010ffff", "m"))
        if kind == "binary":
            return rng.choice((b"", b"\xff" * 9, b"m"))
        if kind == "date":
            return rng.choice((-719_162, 2_932_896, 0, 15_000))
        return _within(type_, rng.choice((-(1 << 62), 1 << 62, 0, 1_400_000_000 * 10**9)))


def _within(type_: T, value: int) -> int:
    """Literals that no user can write are of no use."""
    if type_.kind in INTEGERS:
        bits = INTEGERS[type_.kind]
        return max(-(1 << bits - 1), min((1 << bits - 1) - 1, value))
    if type_.kind.startswith("timestamp"):
        return max(-(1 << 63) + 1, min((1 << 63) - 1, value))
    return value


def _leaves(type_: T, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], T]]:
    """Columns that can be asked: all values through structs; lists and maps only whether they are there.

    A union has no nulls where it is delivered, so it is left out.
    """
    for name, child in zip(type_.names, type_.children, strict=True):
        here = (*path, name)
        if child.kind != "uniontype":
            yield here, child
        if child.kind == "struct":
            yield from _leaves(child, here)


# --- where= without expressions ----------------------------------------------------------------------


def as_tuples(node: Node) -> list[tuple[str, str, Any]] | None:
    """Pyarrow's list of (column, operator, value), all of which hold; None where there is no such form."""
    if isinstance(node, Both):
        left, right = as_tuples(node.left), as_tuples(node.right)
        return None if left is None or right is None else left + right
    if not isinstance(node, Ask) or any("." in name for name in node.path):
        return None
    literals = node.written
    if node.question == "in":
        return [(".".join(node.path), "in", literals)]
    if node.question in COMPARED:
        return [(".".join(node.path), "==" if node.question == "=" else node.question, literals[0])]
    return None
