"""Three-valued logic over sets: what a predicate may be for some rows, from what its leaves may be.

Knows AND, OR and NOT of nulls. Must not know statistics. Contract: parts are taken as independent of each
other, so the answer may hold too much, never too little.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from functools import reduce

from orcstream.query.predicate import AllOf, Leaf, Negation, Predicate


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
