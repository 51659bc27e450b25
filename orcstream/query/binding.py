"""The user's predicates bound to a schema: columns found, literals in the form that values are compared in.

Knows which literals each kind of column takes and what they mean exactly. Must not know how values or
statistics are laid out. Contract: what cannot be asked is an error here, before anything is read; what can
is answered by arithmetic, never by rounding the column. So integers and decimals are compared with any
number as numbers (`x < 1.5` is `x <= 1`), and a value that a column cannot hold is never found in it.

- Decimal columns take a float as it is printed: 0.1 is a tenth, not the binary fraction beside it.
- Float and double columns are compared as doubles. An int keeps its exact value, a Decimal becomes the
  nearest double. A NaN, on either side, is unequal to everything, and not less or greater.
- A date stands for its midnight where timestamps are compared; DATE columns take times at midnight only.
- Timestamps are compared as they are delivered: cut to their unit, literals are not.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from orcstream._printable import shortened
from orcstream.errors import SchemaMismatch, UsageError
from orcstream.query.expr import All, Any_, ColumnRef, Condition, Expr, Matching, Not, shown
from orcstream.query.predicate import AllOf, AnyOf, Leaf, Literal, Negation, Op, Predicate
from orcstream.schema.schema import find_column
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, Kind, Type, decimal_shape

_UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_NS = 86_400 * 10**9
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
# Beyond 10 to this power nothing can be stored; a Decimal's exponent may be too large to write it out.
_FAR = 400

_ORDERS = {"<": Op.LESS, "<=": Op.LESS_EQUAL, ">": Op.GREATER, ">=": Op.GREATER_EQUAL}

# An exact number, or a float that is none: NaN and the infinities.
_Number = Fraction | float


def bind(expr: Expr, root: Type, matching: Matching) -> Predicate:
    """The predicate that `expr` is for rows of `root`, the struct that is read.

    Raises ColumnNotFound for unknown columns, UsageError for columns inside lists, maps and unions, and
    SchemaMismatch for literals that the column's type cannot be compared with.
    """
    if root.kind is not Kind.STRUCT:
        raise UsageError(f"where= needs columns, and the file's root is a {root}, not a struct")
    return _Binding(root, matching.case_sensitive, _UNIT_NS[matching.unit]).bound(expr)


@dataclass(frozen=True, slots=True)
class _Binding:
    root: Type
    case_sensitive: bool
    unit_ns: int

    def bound(self, expr: Expr) -> Predicate:
        match expr:
            case All():
                return AllOf(tuple(self.bound(part) for part in expr.parts))
            case Any_():
                return AnyOf(tuple(self.bound(part) for part in expr.parts))
            case Not():
                return _negated(self.bound(expr.part))
            case ColumnRef():
                return self._asked(Condition(expr.path, "is_true"))
            case Condition():
                return self._asked(expr)
            case _:
                raise UsageError(f"no expression: {expr!r}")

    def _asked(self, condition: Condition) -> Predicate:
        path, type_ = self._found(condition)
        unit_ns = self.unit_ns if type_.kind in TIMES else 1
        return _Question(condition, path, type_, unit_ns).predicate()

    def _found(self, condition: Condition) -> tuple[tuple[str, ...], Type]:
        node = self.root
        names: list[str] = []
        for index in find_column(self.root, condition.path, case_sensitive=self.case_sensitive):
            if node.kind is not Kind.STRUCT:
                raise UsageError(
                    f"{condition!r}: {'.'.join(names)!r} is of type {node}, and a predicate asks about one "
                    "value of each row; of a list, map or union it can only ask is_null()"
                )
            names.append(node.field_names[index])
            node = node.children[index]
        return tuple(names), node


def _negated(predicate: Predicate) -> Predicate:
    return predicate.part if isinstance(predicate, Negation) else Negation(predicate)


@dataclass(frozen=True, slots=True)
class _Question:
    """One condition whose column was found."""

    condition: Condition
    path: tuple[str, ...]
    type: Type
    unit_ns: int

    def predicate(self) -> Predicate:
        op, values = self.condition.op, self.condition.values
        match op:
            case "is_null":
                return self._leaf(Op.IS_NULL)
            case "is_not_null":
                return Negation(self._leaf(Op.IS_NULL))
            case "is_true":
                if self.type.kind is not Kind.BOOLEAN:
                    self._refuse("only a boolean column is a predicate by itself; compare it with something")
                return self._leaf(Op.IN, True)
            case "starts_with":
                return self._leaf(Op.STARTS_WITH, self._prefix(values[0]))
            case "==" | "isin":
                return self._one_of(values)
            case "!=":
                return Negation(self._one_of(values))
            case _:
                return self._ordered(_ORDERS[op], values[0])

    def _one_of(self, values: tuple[Any, ...]) -> Leaf:
        # Literals that are no values of the type are left out: no row is equal to them.
        found = {literal for value in values for literal in self._comparison()(Op.IN, value).equal}
        return self._leaf(Op.IN, *sorted(found))

    def _ordered(self, op: Op, value: object) -> Predicate:
        found = self._comparison()(op, value)
        if found.order is not None:
            return self._leaf(found.order[0], found.order[1])
        nothing = self._leaf(Op.IN)
        return Negation(nothing) if found.always else nothing

    def _leaf(self, op: Op, *literals: Literal) -> Leaf:
        return Leaf(self.path, self.type, op, literals, self.unit_ns)

    def _comparison(self) -> Callable[[Op, object], _Compared]:
        kind = self.type.kind
        if kind in INTEGERS:
            return lambda op, value: _with_integers(op, self._number(value))
        if kind in FLOATS:
            return lambda op, value: _with_doubles(op, self._number(value), value)
        if kind is Kind.DECIMAL:
            scale = 10 ** decimal_shape(self.type)[1]
            return lambda op, value: _with_integers(op, self._decimal(value) * scale)
        literals: dict[Kind, Callable[[object], Literal]] = {
            Kind.BOOLEAN: self._boolean,
            Kind.DATE: self._day,
            Kind.TIMESTAMP: self._wall_clock,
            Kind.TIMESTAMP_INSTANT: self._instant,
            Kind.BINARY: self._binary,
            **dict.fromkeys(TEXTS, self._text),
        }
        exact = literals.get(kind)
        if exact is None:
            self._refuse("such a column can only be asked is_null()")
        return lambda op, value: _Compared.exactly(op, exact(value))

    # --- literals of each kind ---------------------------------------------------------------------

    def _boolean(self, value: object) -> bool:
        if not isinstance(value, bool | np.bool_):
            self._refuse_literal(value, "True or False")
        return bool(value)

    def _number(self, value: object) -> _Number:
        number = _number_of(value, float)
        return self._refuse_literal(value, "a number") if number is None else number

    def _decimal(self, value: object) -> _Number:
        number = _number_of(value, _printed)
        return self._refuse_literal(value, "a number (int, Decimal or float)") if number is None else number

    def _text(self, value: object) -> bytes:
        if isinstance(value, str):
            try:
                return value.encode()
            except UnicodeEncodeError:
                self._refuse_literal(value, "text that can be UTF-8")
        if not isinstance(value, bytes):
            self._refuse_literal(value, "a str (or bytes of UTF-8)")
        return bytes(value)

    def _binary(self, value: object) -> bytes:
        if not isinstance(value, bytes):
            self._refuse_literal(value, "bytes, such as b'...'")
        return bytes(value)

    def _prefix(self, value: object) -> bytes:
        if self.type.kind is Kind.BINARY:
            return self._binary(value)
        if self.type.kind not in TEXTS:
            self._refuse("starts_with() asks about texts and binaries")
        return self._text(value)

    def _day(self, value: object) -> int:
        accepted = "a datetime.date, or a time at midnight without a zone"
        if isinstance(value, str):
            hint = f"write datetime.date.fromisoformat({value!r}); in text: date {value!r}"
            self._refuse_literal(value, accepted, hint)
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            self._refuse_literal(value, accepted)
        nanoseconds = _nanoseconds(value)
        if nanoseconds is None or nanoseconds % _DAY_NS:
            self._refuse_literal(value, accepted)
        return nanoseconds // _DAY_NS

    def _wall_clock(self, value: object) -> int:
        accepted = "a datetime.datetime without a zone, numpy.datetime64 or datetime.date"
        hint = ""
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            hint = "a TIMESTAMP is what a clock showed, wherever; write value.replace(tzinfo=None)"
        elif isinstance(value, str):
            hint = f"write datetime.datetime.fromisoformat({value!r}); in text: timestamp {value!r}"
        nanoseconds = None if hint else _nanoseconds(value)
        if nanoseconds is None:
            self._refuse_literal(value, accepted, hint)
        return nanoseconds

    def _instant(self, value: object) -> int:
        accepted = "a datetime.datetime with a zone, or numpy.datetime64 (which is UTC)"
        if isinstance(value, datetime.date):
            if isinstance(value, datetime.datetime) and value.tzinfo is not None:
                found = _nanoseconds(value)
                assert found is not None
                return found
            hint = "write datetime.datetime(..., tzinfo=datetime.UTC), or another zone; in text: Z at its end"
            self._refuse_literal(value, accepted, hint)
        nanoseconds = _nanoseconds(value)
        if nanoseconds is None:
            hint = "in text: timestamp '...Z'" if isinstance(value, str) else ""
            self._refuse_literal(value, accepted, hint)
        return nanoseconds

    def _refuse_literal(self, value: object, accepted: str, hint: str = "") -> NoReturn:
        tail = f"; {hint}" if hint else ""
        self._refuse(f"it is compared with {accepted}, not with {shown(value)}{tail}")

    def _refuse(self, problem: str) -> NoReturn:
        kind = shortened(str(self.type))
        raise SchemaMismatch(
            f"column {'.'.join(self.path)!r} is of type {kind}: {problem}", column=self.type.column_id
        )


# --- comparisons of what a column holds with what a literal is -------------------------------------


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a comparison with one literal comes to.

    `equal` are the column's values that are equal to it (for IN). Of an order, `order` is the comparison
    with a value of the column's kind; without one, the answer is `always` for every value.
    """

    equal: tuple[Literal, ...] = ()
    order: tuple[Op, Literal] | None = None
    always: bool = False

    @staticmethod
    def exactly(op: Op, literal: Literal) -> _Compared:
        return _Compared((literal,)) if op is Op.IN else _Compared(order=(op, literal))


def _with_integers(op: Op, number: _Number) -> _Compared:
    if isinstance(number, float):
        return _Compared(always=_beyond(op, number))
    if number.denominator == 1:
        return _Compared.exactly(op, number.numerator)
    if op is Op.IN:
        return _Compared()
    if op in (Op.LESS, Op.LESS_EQUAL):
        return _Compared(order=(Op.LESS_EQUAL, math.floor(number)))
    return _Compared(order=(Op.GREATER_EQUAL, math.ceil(number)))


def _beyond(op: Op, number: float) -> bool:
    """Whether every finite number is on the side of NaN or an infinity that `op` asks for."""
    if op in (Op.LESS, Op.LESS_EQUAL):
        return number == math.inf
    return number == -math.inf and op is not Op.IN


def _with_doubles(op: Op, number: _Number, value: object) -> _Compared:
    double = number if isinstance(number, float) else _nearest(number)
    if math.isnan(double):
        return _Compared()
    double += 0.0  # -0.0 is 0.0
    if isinstance(number, float) or isinstance(value, Decimal) or _is_exactly(double, number):
        return _Compared.exactly(op, double)
    # An int between two doubles: `double` is the nearer of them.
    below = double == -math.inf or (math.isfinite(double) and Fraction(double) < number)
    if op is Op.IN:
        return _Compared()
    if op in (Op.LESS, Op.LESS_EQUAL):
        return _Compared(order=(Op.LESS_EQUAL if below else Op.LESS, double))
    return _Compared(order=(Op.GREATER if below else Op.GREATER_EQUAL, double))


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _is_exactly(double: float, number: Fraction) -> bool:
    return math.isfinite(double) and Fraction(double) == number


# --- literals as exact numbers ---------------------------------------------------------------------


def _number_of(value: object, float_as: Callable[[Any], float | Decimal]) -> _Number | None:
    """The number that a literal is, None where it is none; `float_as` says what floats mean."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return Fraction(int(value))
    if isinstance(value, float | np.floating):
        value = float_as(value) if math.isfinite(value) else float(value)
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else value
    if isinstance(value, Decimal):
        return _fraction(value)
    return None


def _printed(value: float | np.floating[Any]) -> Decimal:
    return Decimal(float.__repr__(value) if isinstance(value, float) else str(value))


def _fraction(value: Decimal) -> _Number:
    if value.is_nan():
        return math.nan
    if not value.is_finite() or (value and value.adjusted() > _FAR):
        return math.inf if value > 0 else -math.inf
    if value and value.adjusted() < -_FAR:
        # Nothing stored is between this and 0.
        return Fraction(1 if value > 0 else -1, 10**_FAR)
    return Fraction(value)


_DATETIME64_NS = {"W": 7 * _DAY_NS, "D": _DAY_NS, "h": 3600 * 10**9, "m": 60 * 10**9, **_UNIT_NS}
_DATETIME64_FINE = {"ps": 10**3, "fs": 10**6, "as": 10**9}


def _nanoseconds(value: object) -> int | None:
    """Nanoseconds since 1970 of a date or time, in UTC where it has a zone; None where it is none."""
    if isinstance(value, np.datetime64):
        return _of_datetime64(value)
    if isinstance(value, datetime.datetime):
        # pandas' timestamps are datetimes that know nanoseconds, too.
        offset = value.utcoffset() or datetime.timedelta()
        seconds = value.hour * 3600 + value.minute * 60 + value.second - 86_400 * offset.days - offset.seconds
        micros = seconds * 10**6 + value.microsecond - offset.microseconds
        days = value.toordinal() - _EPOCH_DAY
        return days * _DAY_NS + micros * 1000 + int(getattr(value, "nanosecond", 0))
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH_DAY) * _DAY_NS
    return None


def _of_datetime64(value: np.datetime64) -> int | None:
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, count = value.astype("M8[D]"), "D", 1
    ticks = int(value.astype(np.int64)) * count
    if unit in _DATETIME64_FINE:
        nanoseconds, rest = divmod(ticks, _DATETIME64_FINE[unit])
        return None if rest else nanoseconds
    return ticks * _DATETIME64_NS[unit] if unit in _DATETIME64_NS else None
