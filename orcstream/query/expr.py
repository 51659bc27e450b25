"""The user's predicates: `col("a.b") > 5`, put together with `&`, `|` and `~`.

Knows how a question is written, as expressions or as lists of filters, and the order of SQL's logic: a
comparison with a null is neither true nor false, and only rows whose predicate is true are answered. Must not
know types, literals' exact forms (`query.binding` has those) or any column's bytes. All values here are
frozen and can be pickled; they are equal when they ask the same, and their text is the code that makes
them again. A column is the exception: `==` on it makes an expression, so it is compared by `path`.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np

from orcstream._printable import shortened
from orcstream.errors import UsageError

Path: TypeAlias = str | tuple[str, ...]

_LITERALS = (bool, int, float, Decimal, str, bytes, datetime.date, np.generic)
_INSTEAD = (
    'write & for "and", | for "or", ~ for "not", each side in parentheses; '
    'and col("a").between(1, 5) for 1 <= col("a") <= 5'
)


# Functions that walk an expression recurse, and Python stops at a thousand frames. A chain of & or | is
# one level.
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Matching:
    """How rows match: times cut to a unit; names as spelled, or in upper and lower case alike."""

    unit: str = "ns"
    case_sensitive: bool = True


class _BadOperand(UsageError, TypeError):
    """An operand that no expression takes: wrong as a call, and wrong as Python's operators see it."""


class Expr:
    """A predicate: what `where=` takes. Combined with `&`, `|` and `~`, in three-valued logic."""

    __slots__ = ()

    # numpy's scalars would compare with each element of us, as if we were an array.
    __array_ufunc__ = None

    @staticmethod
    def parse(text: str) -> Expr:
        """The predicate that `text` is, such as ``amount > 100 and city in ('Oslo', 'Rome')`` is.

        A small part of SQL's WHERE: see `orcstream.query.text`. Raises UsageError that shows the place.
        """
        from orcstream.query.text import parse_where

        parsed: Expr = parse_where(text, col)
        return parsed

    def __and__(self, other: object) -> Expr:
        return _joined(All, self, other)

    def __rand__(self, other: object) -> Expr:
        return _joined(All, other, self)

    def __or__(self, other: object) -> Expr:
        return _joined(Any_, self, other)

    def __ror__(self, other: object) -> Expr:
        return _joined(Any_, other, self)

    def __invert__(self) -> Expr:
        return Not(_condition(self))

    def __bool__(self) -> NoReturn:
        raise _BadOperand(f"an expression is neither true nor false before rows are read: {_INSTEAD}")

    def _key(self) -> tuple[object, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Expr):
            return NotImplemented
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ColumnRef(Expr):
    """A column by its name; comparing it makes a predicate. A boolean column is a predicate itself."""

    path: Path

    def __post_init__(self) -> None:
        known = self.path if isinstance(self.path, tuple) else (self.path,)
        if not known or not all(isinstance(name, str) for name in known):
            raise _BadOperand(f"a column is a name, or a tuple of names from the top down, not {self.path!r}")

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # answers an expression, as meant
        return self._compared("==", other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: object) -> Expr:
        return self._compared("<", other)

    def __le__(self, other: object) -> Expr:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Expr:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Expr:
        return self._compared(">=", other)

    def isin(self, values: Iterable[object]) -> Expr:
        """Whether the value is one of `values`; null where it is null. Of no values: never."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise _BadOperand(f"isin() takes several values: {self!r}.isin([{values!r}])")
        return Condition(self.path, "isin", tuple(_literal(self, value) for value in values))

    def between(self, low: object, high: object) -> Expr:
        """Whether the value is `low`, `high` or between them."""
        return (self >= low) & (self <= high)

    def is_null(self) -> Expr:
        """Whether there is no value; never null itself."""
        return Condition(self.path, "is_null")

    def is_not_null(self) -> Expr:
        """Whether there is a value; never null itself."""
        return Condition(self.path, "is_not_null")

    def starts_with(self, prefix: str | bytes) -> Expr:
        """Whether a text begins with `prefix`."""
        return Condition(self.path, "starts_with", (_literal(self, prefix),))

    def _compared(self, op: str, other: object) -> Expr:
        return Condition(self.path, op, (_literal(self, other),))

    def _key(self) -> tuple[object, ...]:
        return (self.path,)

    def __hash__(self) -> int:
        return hash((ColumnRef, self.path))

    def __repr__(self) -> str:
        return f"col({self.path!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Condition(Expr):
    """A question about one column.

    `op` is a comparison operator or the name of a method of `ColumnRef`, or "is_true" of a column that
    stands alone. `values` are the user's own: one, but for "isin" (any number) and questions without.
    """

    path: Path
    op: str
    values: tuple[Any, ...] = ()

    def _key(self) -> tuple[object, ...]:
        # 1 and True are equal to Python, but not the same question; 1 and 1.0 are.
        return (self.path, self.op, self.values, tuple(map(_compared_as, self.values)))

    def __repr__(self) -> str:
        column = repr(ColumnRef(self.path))
        if self.op == "is_true":
            return column
        if self.op == "isin":
            return f"{column}.isin([{', '.join(map(_code, self.values))}])"
        if self.op.isidentifier():
            return f"{column}.{self.op}({', '.join(map(_code, self.values))})"
        return f"{column} {self.op} {_code(self.values[0])}"


def _compared_as(value: Any) -> type:
    """The type of a literal; one for all numbers of Python, which are compared exactly."""
    return numbers.Number if type(value) in (int, float, Decimal) else type(value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Joined(Expr):
    """Several parts, joined by `sign`."""

    sign: ClassVar[str]
    parts: tuple[Expr, ...]
    depth: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _checked_depth(self.depth, self.parts))

    def _key(self) -> tuple[object, ...]:
        return self.parts

    def __repr__(self) -> str:
        return f" {self.sign} ".join(map(_parenthesised, self.parts))


class All(_Joined):
    """True where all parts are."""

    __slots__ = ()
    sign = "&"


class Any_(_Joined):  # noqa: N801  # `typing.Any` is taken
    """True where one part is."""

    __slots__ = ()
    sign = "|"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Not(Expr):
    """True where the part is false; null where it is null."""

    part: Expr
    depth: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _checked_depth(self.depth, (self.part,)))

    def __invert__(self) -> Expr:
        return self.part

    def _key(self) -> tuple[object, ...]:
        return (self.part,)

    def __repr__(self) -> str:
        return f"~{_parenthesised(self.part)}"


def col(path: Path) -> ColumnRef:
    """The column of this name, to be compared: `path` is dotted, or a tuple where names hold dots.

    Raises `UsageError` for what is no name; that the file has no such column is found when it is read.
    """
    return ColumnRef(path)


def as_expr(value: object) -> Expr:
    """What the user gave for `where=`: an expression, or filters as `from_filters` takes them."""
    if isinstance(value, Expr):
        return _condition(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return from_filters(value)
    hint = "; orcstream.Expr.parse() makes one of a text" if isinstance(value, str) else ""
    raise UsageError(
        f'where= is an expression such as col("a") > 5, or filters such as [("a", ">", 5)], '
        f"not {shown(value)}{hint}"
    )


# --- filters ---------------------------------------------------------------------------------------

_FILTER_OPS = {
    "=": ColumnRef.__eq__,
    "==": ColumnRef.__eq__,
    "!=": ColumnRef.__ne__,
    "<": ColumnRef.__lt__,
    "<=": ColumnRef.__le__,
    ">": ColumnRef.__gt__,
    ">=": ColumnRef.__ge__,
    "in": ColumnRef.isin,
    "not in": lambda column, values: ~ColumnRef.isin(column, values),
    "starts with": ColumnRef.starts_with,
}
_FILTER_QUESTIONS = {"is null": ColumnRef.is_null, "is not null": ColumnRef.is_not_null}


def from_filters(filters: Sequence[Any]) -> Expr:
    """The predicate of filters as pyarrow and pandas take them.

    `[("a", ">", 5), ("b", "in", [1, 2])]` asks for all of them, `[[...], [...]]` for one of the lists.
    Operators are ``= == != < <= > >=``, ``in``, ``not in``, ``starts with``, ``is null`` and ``is not null``;
    the last two take no value (or None). Nulls are SQL's: ``not in`` is not true of them.
    """
    given: object = filters
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or not given:
        raise UsageError(f"filters are a list of tuples, or of lists of them, and not empty: {shown(given)}")
    if isinstance(given, tuple) and isinstance(given[0], str):
        raise UsageError(f"filters are a list of tuples: write [{given!r:.80}]")
    if all(isinstance(part, list) for part in given):
        return _joined(Any_, *(_all_of(part) for part in given))
    return _all_of(given)


def _all_of(filters: Sequence[Any]) -> Expr:
    if not filters:
        raise UsageError("a list of filters is empty; leave it out")
    return _joined(All, *map(_from_filter, filters))


def _from_filter(item: object) -> Expr:
    if not isinstance(item, tuple) or len(item) not in (2, 3):
        raise UsageError(f"a filter is a tuple (column, operator, value), not {shown(item)}")
    name, op, *values = item
    column, word = col(name), " ".join(op.lower().split()) if isinstance(op, str) else op
    if word in _FILTER_QUESTIONS and values in ([], [None]):
        return _FILTER_QUESTIONS[word](column)
    if word not in _FILTER_OPS or not values:
        known = ", ".join((*_FILTER_OPS, *_FILTER_QUESTIONS))
        raise UsageError(f"the filter {shown(item)} has no operator with a value; operators are {known}")
    return _FILTER_OPS[word](column, values[0])


# --- helpers ---------------------------------------------------------------------------------------


def _joined(kind: type[All | Any_], *parts: object) -> Expr:
    """Parts of the same kind are taken apart, so that a long chain is one wide level and not a deep tree."""
    flat: list[Expr] = []
    depth = 1  # of the whole; a long chain would take quadratic time if each join looked at all parts
    for part in map(_condition, parts):
        same = part.parts if isinstance(part, kind) else None
        flat.extend([part] if same is None else same)
        depth = max(depth, _depth_of(part) + (same is None))
    return kind(tuple(flat), depth) if len(flat) > 1 else flat[0]


def _depth_of(expr: Expr) -> int:
    """The levels of `&`, `|` and `~` in an expression."""
    return expr.depth if isinstance(expr, _Joined | Not) else 0


def _checked_depth(known: int, parts: Sequence[Expr]) -> int:
    """The depth of an expression made of `parts`, unless it is known; at most `_MAX_DEPTH`."""
    depth = known or 1 + max(map(_depth_of, parts), default=0)
    if depth > _MAX_DEPTH:
        raise UsageError(f"the expression nests deeper than {_MAX_DEPTH} levels")
    return depth


def _condition(value: object) -> Expr:
    if isinstance(value, ColumnRef):
        return Condition(value.path, "is_true")
    if isinstance(value, Expr):
        return value
    raise _BadOperand(
        f"&, | and ~ join expressions, not {shown(value)}; "
        'comparisons need parentheses beside them: (col("a") > 5) & (col("b") < 3)'
    )


def _literal(column: ColumnRef, value: object) -> object:
    if value is None or _is_not_a_time(value):
        raise _BadOperand(f"nothing is equal to a null, or less or greater; write {column!r}.is_null()")
    if isinstance(value, ColumnRef):
        raise _BadOperand(f"{column!r} and {value!r}: columns are compared with values, not with columns")
    if isinstance(value, bytearray):
        return bytes(value)
    if not isinstance(value, _LITERALS):
        raise _BadOperand(
            f"{column!r} is compared with one number, text, date or time, not {shown(value)}; "
            "isin() takes several"
        )
    return value


def _is_not_a_time(value: object) -> bool:
    """NaT: numpy's, and pandas' (which is a datetime)."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, datetime.date) and bool(value != value)  # noqa: PLR0124  # only NaT differs


def _parenthesised(part: Expr) -> str:
    bare = isinstance(part, Condition) and part.op.isidentifier()
    return repr(part) if bare or isinstance(part, Not) else f"({part!r})"


def _code(value: object) -> str:
    """The code that makes a literal.

    Python shows NaN and the infinities as names that it does not have, and numpy before 2.0 its scalars as if
    they were Python's.
    """
    text = repr(value)
    made = "float" if type(value) is float else f"np.{type(value).__name__}"
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return f"{made}({str(float(value))!r})"
    if not isinstance(value, np.generic):
        return text
    if text.startswith(("np.", "numpy.")):
        return f"np.{text.partition('.')[2]}"
    return f"{made}({text})"


def shown(value: object) -> str:
    return f"{type(value).__name__} {shortened(repr(value))}"
