"""What a predicate may be for a group of rows: each leaf by the group's statistics and bloom filter.

Outcomes are sets of truth values, with three-valued logic over them. Parts are taken as independent of each
other, so a set may hold too much, never too little. Knows how statistics may differ from the values that
are delivered: calendars, zones, units, padding, cut texts, NaN. Must not know where statistics come from
nor which groups there are (`plan.prune.prune`). Contract: an answer holds everything that occurs, and
perhaps more; statistics that contradict themselves prove nothing. Specification: "Column Statistics",
"Bloom Filter Index".
"""

from __future__ import annotations

import enum
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from decimal import MAX_PREC, Context, Decimal
from functools import reduce
from typing import Any

from orcstream.codec.metadata.bloom import FIRST_SURE_DAY, BloomFilter, BloomIndex, Hashes, hashes_of
from orcstream.query.predicate import AllOf, Leaf, Negation, Op, Predicate
from orcstream.schema.column_statistics import ALL_NULL, ColumnStatistics, StatisticsKind, Trust
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, Kind, decimal_shape


class Outcome(enum.Flag):
    """Which truth values a predicate may have for the rows of a group."""

    NONE = 0  # there is no row
    TRUE = enum.auto()
    FALSE = enum.auto()
    NULL = enum.auto()
    ANY = TRUE | FALSE | NULL


_NONE, _TRUE, _FALSE, _NULL, _ANY = Outcome.NONE, Outcome.TRUE, Outcome.FALSE, Outcome.NULL, Outcome.ANY


def combined(predicate: Predicate, ask: Callable[[Leaf], Outcome]) -> Outcome:
    """The set of what a predicate may be, as if its parts were independent of each other."""
    if isinstance(predicate, Leaf):
        return ask(predicate)
    if isinstance(predicate, Negation):
        return _NOT[combined(predicate.part, ask)]
    # FALSE decides AND, TRUE decides OR: the rest need not be asked.
    decided, table = (_FALSE, _AND) if isinstance(predicate, AllOf) else (_TRUE, _OR)
    outcome = _NOT[decided]
    for part in predicate.parts:
        outcome = table[outcome, combined(part, ask)]
        if outcome is decided or outcome is _NONE:
            break
    return outcome


def _table(decided: Outcome) -> dict[tuple[Outcome, Outcome], Outcome]:
    """AND (decided by FALSE) or OR (by TRUE) of every two sets."""

    def one(left: Outcome, right: Outcome) -> Outcome:
        if decided in (left, right):
            return decided
        return _NULL if _NULL in (left, right) else left

    return {
        (left, right): reduce(operator.or_, (one(a, b) for a in left for b in right), _NONE)
        for left in _SETS
        for right in _SETS
    }


_SETS = [Outcome(bits) for bits in range(_ANY.value + 1)]
_AND, _OR = _table(_FALSE), _table(_TRUE)
_FLIPPED = {_TRUE: _FALSE, _FALSE: _TRUE, _NULL: _NULL}
_NOT = {outcome: reduce(operator.or_, (_FLIPPED[one] for one in outcome), _NONE) for outcome in _SETS}


_STATISTICS: dict[Kind, StatisticsKind] = {
    Kind.BOOLEAN: "boolean",
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys(FLOATS, "double"),
    **dict.fromkeys(TEXTS, "string"),
    Kind.BINARY: "binary",
    Kind.DECIMAL: "decimal",
    Kind.DATE: "date",
    **dict.fromkeys(TIMES, "timestamp"),
}
_MS_NS = 10**6
_SECOND_NS = 10**9
# 1900-01-02: Java's zones begin with the day before, and calendars do not matter since long.
_FIRST_SURE_TIME = -2_208_902_400 * _SECOND_NS
_REPLACEMENT = "\ufffd"
_EXACT = Context(prec=MAX_PREC)
_INTEGERS = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1)
    for kind, bits in ((Kind.BYTE, 8), (Kind.SHORT, 16), (Kind.INT, 32), (Kind.LONG, 64))
}


_NONE, _TRUE, _FALSE, _NULL = Outcome.NONE, Outcome.TRUE, Outcome.FALSE, Outcome.NULL
_EITHER = _TRUE | _FALSE

_Bounds = tuple[Any, Any]  # both of the leaf's literal type, or None: not known
_UNKNOWN: _Bounds = (None, None)


class Question:
    """A leaf, with all of it that does not depend on the group worked out once."""

    def __init__(self, leaf: Leaf, trust: Trust) -> None:
        self.leaf = leaf
        self.kind = _STATISTICS.get(leaf.type.kind)
        self._trust = trust
        self._bounds_hold = self.kind in trust.bounds
        # A NaN has no place among sorted literals, and writers differ in what it is equal to.
        self._ordered = not any(isinstance(x, float) and math.isnan(x) for x in leaf.literals)
        zoned = leaf.type.kind is Kind.TIMESTAMP and trust.zone_margin_ns > 0
        hashes: Hashes | None = None
        self.can_hash = (
            leaf.op is Op.IN
            and self._ordered
            and not zoned
            # Delivered to the second, a timestamp stands for a thousand that were hashed.
            and (self.kind != "timestamp" or _MS_NS % leaf.unit_ns == 0)
            and (leaf.type.kind is not Kind.CHAR or trust.char_blooms)
            and (leaf.type.kind is not Kind.BYTE or trust.byte_blooms)
            and (hashes := hashes_of(leaf.type, leaf.literals)) is not None
        )
        self._ascii = all(isinstance(x, bytes) and x.isascii() for x in leaf.literals)
        # Those of the literals that were asked for last: mostly the same ones for the next group.
        self._hashed: tuple[tuple[int, int], Hashes | None] = ((0, len(leaf.literals)), hashes)

    def believes(self, bloom: BloomIndex) -> bool:
        """Whether the filters of a column may be asked this."""
        if self.kind == "string" and not bloom.utf8 and not self._ascii:
            # Java hashed text in the charset of its machine (ORC-101); only ASCII is the same in all of them.
            return False
        return (
            self.can_hash
            and self.kind is not None
            and self._trust.believes_bloom(self.kind, bloom.encoding, utf8=bloom.utf8)
        )

    def answer(
        self, statistics: ColumnStatistics | None, bloom: BloomFilter | None, row_count: int
    ) -> Outcome:
        """What the leaf may be for `row_count` rows."""
        if row_count == 0:
            return _NONE
        values_occur, nulls_occur = True, True
        bounds = _UNKNOWN
        if statistics is not None and (self._trust.counts or statistics is ALL_NULL):
            values_occur, nulls_occur, plausible = _counted(statistics, row_count)
            if plausible and values_occur and self._bounds_hold and statistics.kind == self.kind:
                bounds = self._bounds(statistics)
        if self.leaf.op is Op.IS_NULL:
            # A union is delivered as null where child 0 is, too, which its own statistics count as a value.
            nulls_occur |= values_occur and self.leaf.type.kind is Kind.UNION
            return (_TRUE if nulls_occur else _NONE) | (_FALSE if values_occur else _NONE)
        outcome = _NONE
        if values_occur:
            outcome = self._compared(bounds)
            if _TRUE in outcome and self.can_hash and self._ruled_out(bounds, bloom):
                # Where statistics say that all values match, one of the two is wrong.
                outcome = _FALSE if _FALSE in outcome else _EITHER
        return outcome | _NULL if nulls_occur else outcome

    def _ruled_out(self, bounds: _Bounds, bloom: BloomFilter | None) -> bool:
        if bloom is None:
            return False
        within = self._within(bounds)
        hashed = self._hashed  # looked at once: threads may share a question
        if within != hashed[0]:
            hashed = self._hashed = within, hashes_of(self.leaf.type, self.leaf.literals[slice(*within)])
        hashes = hashed[1]
        return hashes is not None and not bloom.may_contain(hashes)

    def _within(self, bounds: _Bounds) -> tuple[int, int]:
        """The literals of an IN that lie within the bounds, as a slice."""
        literals: Sequence[Any] = self.leaf.literals
        lower, upper = bounds
        first = 0 if lower is None else bisect_left(literals, lower)
        return first, len(literals) if upper is None else bisect_right(literals, upper)

    def _compared(self, bounds: _Bounds) -> Outcome:
        """What the comparison may be for values within the bounds."""
        op, literals = self.leaf.op, self.leaf.literals
        if op is Op.IN and not literals:
            return _FALSE
        if not self._ordered:
            return _EITHER
        lower, upper = bounds
        if op is Op.IN:
            first, stop = self._within(bounds)
            if first >= stop:
                return _FALSE
            return _TRUE if lower is not None and lower == upper else _EITHER
        literal: Any = literals[0]
        if op is Op.STARTS_WITH:
            return _prefixed(literal, lower, upper)
        # Whether all values are on the one side of the literal, or all on the other.
        if op in (Op.LESS, Op.GREATER_EQUAL):
            below = upper is not None and upper < literal
            above = lower is not None and lower >= literal
        else:
            below = upper is not None and upper <= literal
            above = lower is not None and lower > literal
        when_below, when_above = (_TRUE, _FALSE) if op in (Op.LESS, Op.LESS_EQUAL) else (_FALSE, _TRUE)
        if below:
            return when_below
        return when_above if above else _EITHER

    # --- bounds of delivered values

    def _bounds(self, statistics: ColumnStatistics) -> _Bounds:
        """The least and the largest value that can be delivered, in the form of literals; None: not known."""
        lower, upper = getattr(self, f"_{self.kind}_bounds")(statistics)
        if lower is not None and upper is not None and lower > upper:
            return _UNKNOWN
        return lower, upper

    def _integer_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        """Those of a number beyond the type are of unsigned values: ORC C++ where its `char` has no sign."""
        lower: Any = statistics.minimum
        upper: Any = statistics.maximum
        least, most = _INTEGERS[self.leaf.type.kind]
        if any(x is not None and not least <= x <= most for x in (lower, upper)):
            return _UNKNOWN
        return lower, upper

    def _double_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        """Those of doubles hold only where no NaN occurred: it makes a sum NaN, and bounds what it likes."""
        total = statistics.sum
        if total is None and not self._trust.finite_doubles:
            return _UNKNOWN
        lower: Any = statistics.minimum
        upper: Any = statistics.maximum
        if total is not None and not math.isfinite(total):
            return _UNKNOWN
        if any(x is not None and math.isnan(x) for x in (lower, upper)):
            return _UNKNOWN
        return lower, upper

    def _boolean_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        """The sum counts what is true."""
        count, true = statistics.value_count, statistics.sum
        if count is None or not isinstance(true, int) or not 0 <= true <= count:
            return _UNKNOWN
        return true == count, true > 0

    def _decimal_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        _, scale = decimal_shape(self.leaf.type)
        lower = _unscaled(statistics.minimum, scale, math.floor)
        return lower, _unscaled(statistics.maximum, scale, math.ceil)

    def _date_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        lower: Any = statistics.minimum
        upper: Any = statistics.maximum
        # Moving a day between calendars keeps it on its side of the change.
        if lower is not None and lower < FIRST_SURE_DAY:
            lower = None
        return lower, None if upper is None else max(upper, FIRST_SURE_DAY)

    def _timestamp_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        """Statistics are of the wall clock, as if it were that of UTC (ORC-135).

        Their milliseconds are believed, the nanoseconds below are not (ORC-611; writers disagree about them).
        Around and before 1970 times are cut toward zero, or come back a second late (ORC-306, ORC-763).
        """
        lower: Any = statistics.minimum
        upper: Any = statistics.maximum
        margin = self._trust.zone_margin_ns if self.leaf.type.kind is Kind.TIMESTAMP else 0
        unit = self.leaf.unit_ns
        if lower is not None:
            lower = lower // _MS_NS * _MS_NS - margin
            lower -= _SECOND_NS if lower <= 0 else 0
            lower = lower // unit * unit if lower >= _FIRST_SURE_TIME else None
        if upper is not None:
            upper = upper // _MS_NS * _MS_NS + (_MS_NS - 1)
            upper = (
                max(upper + (_SECOND_NS if upper - margin <= _SECOND_NS else 0), _FIRST_SURE_TIME) + margin
            )
            upper = upper // unit * unit
        return lower, upper

    def _string_bounds(self, statistics: ColumnStatistics) -> _Bounds:
        """Texts beyond 1024 bytes have `lower_bound` and `upper_bound` only (ORC-203)."""
        lower, upper = statistics.minimum, statistics.maximum
        if lower is None:
            lower = statistics.lower_bound
        if upper is None:
            upper = statistics.upper_bound
            # ORC Java counts the last character up; what is no character then (U+D800) becomes "?".
            if upper is not None and upper.endswith("?"):
                upper = None
        if upper == "" and statistics.sum != 0:
            upper = None  # what Trino writes where it finds no short upper bound
        return self._text(lower, is_upper=False), self._text(upper, is_upper=True)

    def _text(self, bound: object, *, is_upper: bool) -> bytes | None:
        # A replacement character stands for bytes that were no UTF-8, and those may be anywhere.
        if not isinstance(bound, str) or _REPLACEMENT in bound:
            return None
        # To ORC C++ texts end at their first NUL: it orders them by what comes before, and then by length.
        before, nul, _ = bound.partition("\0")
        if nul:
            bound = before + ("\x01" if is_upper else "")
        if self.leaf.type.kind is Kind.CHAR:
            # Values or bounds may be padded with blanks, each by itself. That changes no order but with
            # characters below a blank.
            if bound and min(bound) < " ":
                return None
            bound = bound.rstrip(" ")
            if is_upper:
                if self.leaf.type.max_length is None:
                    return None
                bound = bound.ljust(self.leaf.type.max_length, " ")
        return bound.encode()


def _counted(statistics: ColumnStatistics, row_count: int) -> tuple[bool, bool, bool]:
    """Whether values occur, whether nulls do, and whether the rest of the statistics can be of these rows.

    A parent's nulls are not counted as this column's, so only as many values as rows prove that
    there are no nulls (and has_null is not believed alone, see `trust_of`). No values but no nulls either
    mean that nothing was recorded (HIVE-20604), or nulls of a parent.
    """
    count = statistics.value_count
    if count is None:
        return True, True, True
    if count == 0:
        all_null = statistics.has_null is True
        return not all_null, True, all_null
    if count > row_count:
        return True, True, False
    return True, count < row_count or statistics.has_null is True, True


def _unscaled(bound: object, scale: int, rounded: Callable[[Decimal], int]) -> int | None:
    """A decimal as an integer at the column's scale."""
    return rounded(bound.scaleb(scale, _EXACT)) if isinstance(bound, Decimal) else None


def _prefixed(prefix: bytes, lower: bytes | None, upper: bytes | None) -> Outcome:
    """Whether texts within the bounds may start with a prefix: those that do lie side by side."""
    size = len(prefix)
    before = upper is not None and upper < prefix
    behind = lower is not None and lower[:size] > prefix
    if before or behind:
        return _FALSE
    if lower is not None and upper is not None and lower.startswith(prefix) and upper.startswith(prefix):
        return _TRUE
    return _EITHER
