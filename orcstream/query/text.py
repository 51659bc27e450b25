"""Predicates as text: ``amount > 100 and city in ('Oslo', 'Rome')``, for command lines and configuration.

Knows a small part of SQL's WHERE, and applies Python's operators to the columns that its caller makes. Must
not know types: what a column takes is said when the expression is bound (`query.binding`). Contract: any text
in; out comes an expression, or a UsageError that points at the place.

    predicate   = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = { "not" } ( "(" predicate ")" | question )
    question    = column [ comparison literal | "is" ["not"] "null" | ["not"] asked ]
    asked       = "in" "(" [ literal { "," literal } ] ")" | "between" literal "and" literal
                | "starts" "with" literal
    comparison  = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    literal     = number | text | "true" | "false" | "date" text | "timestamp" text | "x" text

Words are the same in capitals. Names are dotted; `backquotes` stand around names that hold other characters,
single or double quotes around texts. Within any of them the quote itself is written twice. A name of several
parts, one of which holds a dot, becomes a tuple.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from orcstream.errors import UsageError

T = TypeVar("T")
Path: TypeAlias = str | tuple[str, ...]
# What the caller makes of a name, and what operators and methods make of that. `expr` has both, and imports
# this module.
Column: TypeAlias = Any
Expr: TypeAlias = Any

_PART = r"`(?:[^`]|``)*`"
_TOKEN = re.compile(
    rf"(?P<space>\s+)"
    rf"|(?P<name>(?:[^\W\d]\w*|{_PART})(?:\.(?:\w+|{_PART}))*)"
    r"|(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w))"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),])"
)
_NAME_PART = re.compile(rf"{_PART}|\w+")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_VALUES = "a number, a 'text', true, false, date '2020-01-31' or timestamp '2020-01-31 12:00:00'"
_QUESTIONS = "a comparison such as = or <, in (...), between, starts with, is null or is not null"
_SQL_ONLY = {
    "like": "there is no like; write starts with 'A' for like 'A%'",
    "ilike": "there is no ilike; write starts with 'A' for like 'A%'",
    "startswith": "write starts with",
    "starts_with": "write starts with",
}
_SHAPES = {
    "x": "bytes are written x'00ff'",
    "date": "days are written date '2020-01-31'",
    "timestamp": "times are written timestamp '2020-01-31 12:00:00.5', with Z or +02:00 for instants",
}
# Recursion ends here rather than with Python's own limit.
_MAX_DEPTH = 50
# No column holds as many; Python itself refuses to read 5,000.
_MAX_DIGITS = 400
_SHOWN = 60

_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r" ?(?P<zone>Z|UTC|[+-][0-9]{2}:[0-9]{2})?)?"
)


def parse_where(text: str, column: Callable[[Path], Column]) -> Expr:
    """The expression that a text is, of what `column` makes of names; see the module for how it is written.

    Raises UsageError, whose message shows the place.
    """
    if not isinstance(text, str):
        raise UsageError(f"a predicate as text is a str, not {type(text).__name__}")
    return _Parser(text, column).parsed()


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind` is a group of `_TOKEN`, or "end"; `word` is what may be a key word: in small letters."""

    kind: str
    text: str
    place: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind in ("name", "sign") else ""


class _Parser:
    def __init__(self, text: str, column: Callable[[Path], Column]) -> None:
        self._text = text
        self._make_column = column
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0

    def parsed(self) -> Expr:
        if self._next.kind == "end":
            self._fail("the predicate is empty")
        expr = self._predicate()
        if self._next.kind != "end":
            self._fail(
                "there is no partner for this parenthesis"
                if self._next.text == ")"
                else "here should be and, or, or the end"
            )
        return expr

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        place = 0
        while place < len(self._text):
            found = _TOKEN.match(self._text, place)
            if found is None:
                self._fail(_unknown(self._text[place]), _Token("other", self._text[place], place))
            kind = found.lastgroup
            assert kind is not None
            if kind != "space":
                tokens.append(_Token(kind, found[0], place))
            place = found.end()
        return [*tokens, _Token("end", "", len(self._text))]

    # --- grammar -----------------------------------------------------------------------------------

    def _predicate(self) -> Expr:
        expr = self._conjunction()
        while self._took("or"):
            expr |= self._conjunction()
        return expr

    def _conjunction(self) -> Expr:
        expr = self._negation()
        while self._took("and"):
            expr &= self._negation()
        return expr

    def _negation(self) -> Expr:
        negated = False
        while self._took("not"):
            negated = not negated
        expr = self._nested() if self._next.text == "(" else self._question()
        return ~expr if negated else expr

    def _nested(self) -> Expr:
        opened = self._next
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"parentheses nest deeper than {_MAX_DEPTH} levels")
        self._take()
        expr = self._predicate()
        if not self._took(")"):
            if self._next.kind == "end":
                self._fail("there is no partner for this parenthesis", opened)
            self._fail("here should be and, or, or a closing parenthesis")
        self._depth -= 1
        return expr

    def _question(self) -> Expr:
        column = self._column()
        compare = _COMPARISONS.get(self._next.text)
        if compare is not None:
            self._take()
            return compare(column, self._literal())
        if self._took("is"):
            return self._null(column)
        if self._took("not"):
            return ~self._asked(column, required=True)
        return self._asked(column, required=False)

    def _null(self, column: Column) -> Expr:
        negated = self._took("not")
        if not self._took("null"):
            self._fail("here should be null" if negated else "here should be null or not null")
        return column.is_not_null() if negated else column.is_null()

    def _asked(self, column: Column, *, required: bool) -> Expr:
        if self._took("in"):
            return column.isin(self._list())
        if self._took("between"):
            low = self._literal()
            if not self._took("and"):
                self._fail("here should be and, with the upper bound of between")
            return column.between(low, self._literal())
        if self._took("starts"):
            if not self._took("with"):
                self._fail("here should be with")
            return column.starts_with(self._literal())
        if required or not self._ends_question():
            self._fail(_SQL_ONLY.get(self._next.word, f"here should be {_QUESTIONS}"))
        return column  # a boolean one is a predicate itself

    def _ends_question(self) -> bool:
        return self._next.kind == "end" or self._next.word in ("and", "or", ")")

    def _list(self) -> list[Any]:
        if not self._took("("):
            self._fail("here should be a list in parentheses")
        if self._took(")"):
            return []
        values = [self._literal()]
        while self._took(","):
            values.append(self._literal())
        if not self._took(")"):
            self._fail("here should be a comma or a closing parenthesis")
        return values

    # --- names and literals ------------------------------------------------------------------------

    def _column(self) -> Column:
        token = self._next
        if token.kind != "name" or token.word in ("and", "or"):
            hint = "; it stands before what it is compared with" if token.kind == "number" else ""
            if token.kind == "text":
                hint = "; odd names stand in `backquotes`, and values after what is asked"
            self._fail(f"here should be a column{hint}")
        path = _path(token.text)
        if path is None:
            self._fail("a part of this name is empty")
        self._take()
        return self._make_column(path)

    def _literal(self) -> Any:
        token = self._take()
        if token.kind == "text":
            return _unquoted(token.text)
        if token.kind == "number":
            return self._number(token)
        if token.word in ("true", "false"):
            return token.word == "true"
        if token.word in ("date", "timestamp", "x") and self._next.kind == "text":
            return self._typed(token.word, self._take())
        if token.word == "null":
            self._fail("nothing is equal to null, or less or greater; write is null", token)
        if token.kind == "name" and token.word not in ("and", "or", "not"):
            quoted = "'" + token.text.replace("'", "''") + "'"
            self._fail(f"columns are compared with values only; if this is a text, write {quoted}", token)
        return self._fail(f"here should be {_VALUES}", token)

    def _number(self, token: _Token) -> int | Decimal:
        if len(token.text) > _MAX_DIGITS:
            self._fail("this number has too many digits", token)
        if token.text.lstrip("+-").isdigit():
            return int(token.text)
        try:
            return Decimal(token.text)
        except InvalidOperation:
            return self._fail("this number is too large or too small", token)

    def _typed(self, word: str, token: _Token) -> Any:
        text = _unquoted(token.text)
        try:
            if word == "x":
                return bytes.fromhex(text)
            return _date(text) if word == "date" else _time(text)
        except _TimeError as error:
            return self._fail(str(error), token)
        except ValueError:
            return self._fail(_SHAPES[word], token)

    # --- tokens ------------------------------------------------------------------------------------

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._at += 1
        return token

    def _took(self, word: str) -> bool:
        """Whether the next token is this word or sign, which is taken then."""
        if self._next.word != word:
            return False
        self._at += 1
        return True

    def _fail(self, problem: str, token: _Token | None = None) -> NoReturn:
        place = self._next.place if token is None else token.place
        first = max(0, place - _SHOWN)
        shown = self._text[first : place + _SHOWN]
        # Characters that would move the mark from its place.
        line = "".join(character if character.isprintable() else " " for character in shown)
        raise UsageError(f"{problem}, at character {place + 1}:\n  {line}\n  {' ' * (place - first)}^")


def _unknown(character: str) -> str:
    if character in "'\"`":
        return "this quote has no partner"
    if character in "&|~!":
        return "write and, or, not"
    if character in "+-" or character.isdigit():
        return "this is no number; odd names stand in `backquotes`"
    return f"{character!r} has no meaning here; odd names stand in `backquotes`, texts in 'quotes'"


def _path(text: str) -> Path | None:
    parts = [_unquoted(part) if part[0] == "`" else part for part in _NAME_PART.findall(text)]
    if not all(parts):
        return None
    return tuple(parts) if any("." in part for part in parts) else ".".join(parts)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(2 * quote, quote)


class _TimeError(ValueError):
    """Written as times are, but there is no such time."""


def _date(text: str) -> datetime.date:
    if _TIME.fullmatch(text) is None or len(text) != len("2020-01-31"):
        raise ValueError(text)
    return _existing(lambda: datetime.date.fromisoformat(text))


def _existing(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise _TimeError(f"there is no such time: {error}") from None


def _time(text: str) -> datetime.datetime | np.datetime64:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    fraction = (found["fraction"] or "").ljust(9, "0")
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    time = _existing(
        lambda: datetime.datetime.combine(
            datetime.date.fromisoformat(found["date"]),
            datetime.time(hour, minute, second, int(fraction[:6]), _zone(found["zone"])),
        )
    )
    return time if fraction.endswith("000") else _fine(time, int(fraction[6:]))


def _zone(text: str | None) -> datetime.tzinfo | None:
    if text is None:
        return None
    if text in ("Z", "UTC"):
        return datetime.UTC
    minutes = 60 * int(text[1:3]) + int(text[4:])
    return datetime.timezone(datetime.timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _fine(time: datetime.datetime, nanoseconds: int) -> np.datetime64:
    """A time that only numpy holds, which knows no zones."""
    if time.tzinfo is not None:
        raise _TimeError("a time with a zone has at most six digits of a second")
    count = int(np.datetime64(time, "us").astype(np.int64)) * 1000 + nanoseconds
    if not -(1 << 63) < count < 1 << 63:
        raise _TimeError("a time with more than six digits of a second is between 1678 and 2262")
    return np.datetime64(count, "ns")
