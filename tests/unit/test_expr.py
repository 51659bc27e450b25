"""Predicates as users write them, and what they are bound to."""

# ruff: noqa: DTZ001  # times without a zone are what is tested

from __future__ import annotations

import datetime
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orcstream.errors import ColumnNotFound, SchemaMismatch, UsageError
from orcstream.query.binding import bind
from orcstream.query.expr import ColumnRef, Expr, Matching, as_expr, col, from_filters
from orcstream.query.predicate import AllOf, AnyOf, Leaf, Negation, Op, Predicate
from orcstream.schema.schema import Schema
from orcstream.schema.types import Type

UTC = datetime.UTC
ROOT = Schema.parse(
    "struct<flag:boolean,b:tinyint,n:int,big:bigint,f:float,d:double,m:decimal(10,2),old:decimal,t:string,"
    "c:char(5),raw:binary,day:date,ts:timestamp,at:timestamp with local time zone,"
    "s:struct<x:int,deep:struct<y:string>>,`a.b`:int,l:array<struct<z:int>>,kv:map<string,int>,"
    "u:uniontype<int,string>,geo:geometry,Case:int,dup:int,DUP:int>"
).root


def bound(expr: Expr, *, root: Type = ROOT, case_sensitive: bool = True, unit: str = "ns") -> Predicate:
    return bind(expr, root, Matching(unit, case_sensitive))


def leaf(expr: Expr, **options: Any) -> tuple[str, Op, tuple[Any, ...]]:
    found = bound(expr, **options)
    assert isinstance(found, Leaf)
    return ".".join(found.path), found.op, found.literals


# --- how expressions are written ---------------------------------------------------------------------

WRITTEN: list[tuple[Expr, str]] = [
    (col("a") == 5, "col('a') == 5"),
    (col("a") != "x", "col('a') != 'x'"),
    (5 < col("a"), "col('a') > 5"),  # noqa: SIM300
    (5 >= col("a"), "col('a') <= 5"),  # noqa: SIM300
    (col(("a", "b.c")) >= 1.5, "col(('a', 'b.c')) >= 1.5"),
    (col("a").isin([1, 2]), "col('a').isin([1, 2])"),
    (col("a").isin(np.array([1, 2]).tolist()), "col('a').isin([1, 2])"),
    (col("a").between(1, 2), "(col('a') >= 1) & (col('a') <= 2)"),
    (col("a").is_null(), "col('a').is_null()"),
    (~col("a").is_not_null(), "~col('a').is_not_null()"),
    (col("a").starts_with("x"), "col('a').starts_with('x')"),
    (col("a") & ~col("b"), "col('a') & ~col('b')"),
    ((col("a") > 1) | col("b") | (col("c") < b"x"), "(col('a') > 1) | col('b') | (col('c') < b'x')"),
    ((col("a") > 1) & (col("b") | col("c")), "(col('a') > 1) & (col('b') | col('c'))"),
    (~(col("a") == 1), "~(col('a') == 1)"),
    (~~(col("a") == 1), "col('a') == 1"),
    (col("a") < Decimal("1.50"), "col('a') < Decimal('1.50')"),
    (col("a") < datetime.date(2020, 1, 2), "col('a') < datetime.date(2020, 1, 2)"),
    (col("a") < math.inf, "col('a') < float('inf')"),
    (col("a").isin([1.5, -math.inf]), "col('a').isin([1.5, float('-inf')])"),
    (col("a").isin([math.nan]), "col('a').isin([float('nan')])"),
]


@pytest.mark.parametrize(("expr", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_the_text_is_the_code(expr: Expr, text: str) -> None:
    assert repr(expr) == text
    again = eval(text, {"col": col, "Decimal": Decimal, "datetime": datetime})
    copy = pickle.loads(pickle.dumps(expr))
    if "nan" not in text:  # which is unequal to itself
        assert again == copy == expr
        assert hash(again) == hash(expr)
    assert repr(copy) == text


def test_expressions_that_ask_otherwise_differ() -> None:
    expressions = [expr for expr, _ in WRITTEN[:-6]]
    expressions += [col("n") == 1, col("n") == 1.5, col("n") == True]  # noqa: E712
    assert len(set(expressions)) == len({repr(expr) for expr in expressions})


def test_equal_numbers_ask_the_same() -> None:
    same = [col("n") == 1, col("n") == 1.0, col("n") == Decimal(1)]
    assert len(set(same)) == 1
    assert col("n").isin([1, 2.0]) == col("n").isin([1.0, 2])
    assert (col("n") == 1) != (col("n") == True)  # noqa: E712
    assert (col("n") == 0.1) != (col("n") == Decimal("0.1"))
    assert (col("n") == 1) != (col("n") == "1")


def test_columns_are_told_apart_by_path() -> None:
    assert hash(col("a")) == hash(col("a"))
    assert pickle.loads(pickle.dumps(col(("a", "b")))).path == ("a", "b")
    with pytest.raises(AttributeError):
        col("a").path = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del col("a").path


def test_foreign_scalars_may_stand_first() -> None:
    time = pd.Timestamp("2020-01-01")
    assert repr(np.int64(5) < col("a")) == "col('a') > np.int64(5)"
    assert repr(np.float32(5) == col("a")) == "col('a') == np.float32(5.0)"
    assert repr(time <= col("a")) == f"col('a') >= {time!r}"
    assert repr(Decimal(1) != col("a")) == "col('a') != Decimal('1')"


def test_a_long_chain_is_one_level() -> None:
    expr: Expr = col("n") == 0
    for number in range(1, 3000):
        expr = expr | (col("n") == number)
    found = bound(pickle.loads(pickle.dumps(expr)))
    assert isinstance(found, AnyOf)
    assert len(found.parts) == 3000


def alternating(levels: int) -> Expr:
    expr: Expr = col("n") == 0
    for number in range(levels):
        expr = expr | (col("n") == number) if number % 2 else expr & (col("n") == number)
    return expr


@pytest.mark.parametrize("levels", [101, 3000])
def test_too_deep_an_expression_is_refused_when_it_is_made(levels: int) -> None:
    """Afterwards its text, its hash and a comparison would end with a RecursionError."""
    with pytest.raises(UsageError, match=r"\b100\b"):
        alternating(levels)


def test_the_deepest_expression_can_be_used() -> None:
    expr = alternating(100)
    copy = pickle.loads(pickle.dumps(expr))
    assert copy == expr
    assert hash(copy) == hash(expr)
    assert repr(copy) == repr(expr)
    assert bound(copy) == bound(expr)
    assert bound(copy | (col("n") == 7)) != bound(expr)  # the same level
    with pytest.raises(UsageError, match=r"\b100\b"):
        _ = ~copy
    with pytest.raises(UsageError, match=r"\b100\b"):
        _ = copy & col("flag")


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: col("a") > 1 and col("b") > 1, "&.*~"),
    (lambda: not col("a"), "&.*~"),
    (lambda: 1 < col("a") < 5, "between"),
    (lambda: (col("a") > 1) or False, "&.*~"),
    (lambda: col("a") == None, r"col\('a'\).is_null\(\)"),  # noqa: E711
    (lambda: col("a") != None, "is_null"),  # noqa: E711
    (lambda: col("a") < pd.NaT, "is_null"),
    (lambda: col("a") == np.datetime64("NaT", "s"), "is_null"),
    (lambda: col("a").isin([1, None]), "is_null"),
    (lambda: col("a") == col("b"), r"col\('a'\) and col\('b'\)"),
    (lambda: col("a") == (col("b") > 1), r"\bCondition\b"),
    (lambda: col("a") == [1, 2], "isin"),
    (lambda: col("a") == np.array([1, 2]), "isin"),
    (lambda: col("a").isin("abc"), r"\.isin\(\["),
    (lambda: col("a").isin(5), r"\.isin\(\["),  # type: ignore[arg-type]
    (lambda: (col("a") > 5) & False, r"\bbool (False|True)\b"),
    (lambda: True | (col("a") > 5), r"\bbool (False|True)\b"),
    (lambda: col(()), r"\bcolumn\b.*\bname\b"),
    (lambda: col(5), r"\bcolumn\b.*\bname\b"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("wrong", "hint"), WRONG, ids=range(len(WRONG)))
def test_mistakes_are_explained(wrong: Callable[[], object], hint: str) -> None:
    for kind in (TypeError, UsageError):
        with pytest.raises(kind, match=hint):
            wrong()


# --- filters ---------------------------------------------------------------------------------------


def test_filters_are_expressions() -> None:
    a, b = col("a"), col("b")
    assert from_filters([("a", "=", 5)]) == (a == 5)
    assert from_filters([("a", ">", 5), ("b", "in", {1})]) == (a > 5) & b.isin([1])
    assert from_filters([[("a", "<", 5), ("b", "!=", 1)], [("b", "not in", (1, 2))]]) == (
        ((a < 5) & (b != 1)) | ~b.isin([1, 2])
    )
    assert from_filters([("a", "is null")]) == a.is_null()
    assert from_filters([("a", "IS  NOT null", None)]) == a.is_not_null()
    assert from_filters(
        [("a", "starts with", "x"), (("b", "c"), "<=", 1), ("b", ">=", 2), ("b", "==", 3)]
    ) == (a.starts_with("x") & (col(("b", "c")) <= 1) & (b >= 2) & (b == 3))


@pytest.mark.parametrize(
    "filters",
    [[], [[]], "a > 5", [("a", "~", 5)], [("a",)], [("a", ">")], ["a"], [("a", ">", 5), [("a", ">", 5)]], 5],
)
def test_malformed_filters_are_refused(filters: Any) -> None:
    with pytest.raises(UsageError):
        from_filters(filters)


def test_what_where_takes() -> None:
    assert as_expr([("a", ">", 5)]) == (col("a") > 5)
    assert as_expr(col("a") > 5) == (col("a") > 5)
    assert not isinstance(as_expr(col("a")), ColumnRef)
    for wrong in ("a > 5", None, 5, {"a": 5}, True):
        with pytest.raises(UsageError, match="where="):
            as_expr(wrong)


# --- columns -----------------------------------------------------------------------------------------


def test_columns_are_found_by_name() -> None:
    assert leaf(col("s.x") > 1)[0] == "s.x"
    found = bound(col("s.deep.y") == "x")
    assert isinstance(found, Leaf)
    assert found.path == ("s", "deep", "y")
    dotted = bound(col("a.b") > 1)
    assert isinstance(dotted, Leaf)
    assert dotted.path == ("a.b",)
    assert bound(col(("s", "x")) > 1) == bound(col("s.x") > 1)
    lower = bound(col("case") > 1, case_sensitive=False)
    assert isinstance(lower, Leaf)
    assert lower.path == ("Case",)


def test_unknown_columns_are_named() -> None:
    with pytest.raises(ColumnNotFound, match="'Case'"):
        bound(col("case") > 1)
    with pytest.raises(ColumnNotFound, match=r"'s'.*'x', 'deep'"):
        bound(col("s.z") > 1)
    with pytest.raises(UsageError, match=r"'Dup'.*'dup', 'DUP'"):
        bound(col("Dup") > 1, case_sensitive=False)


@pytest.mark.parametrize("name", ["l._elem", "l._elem.z", "kv._key", "kv._value", "u._union_0"])
def test_columns_inside_of_lists_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is_null"):
        bound(col(name) == 1)
    with pytest.raises(UsageError, match="is_null"):
        bound(col(name).is_null())


@pytest.mark.parametrize("name", ["l", "kv", "u", "s", "geo"])
def test_whole_columns_are_null_or_not(name: str) -> None:
    assert leaf(col(name).is_null())[1:] == (Op.IS_NULL, ())
    assert isinstance(bound(col(name).is_not_null()), Negation)
    for expr in (col(name) == 1, col(name) > b"x", col(name).isin([1]), col(name).starts_with("x")):
        with pytest.raises(SchemaMismatch):
            bound(expr)


def test_a_root_that_is_no_struct_has_no_columns() -> None:
    with pytest.raises(UsageError, match=r"\bint\b.*\bstruct\b"):
        bound(col("value") > 1, root=Schema.parse("int").root)


# --- literals ----------------------------------------------------------------------------------------

NAN = float("nan")
NEVER, ALWAYS = (Op.IN, ()), None
LITERALS: list[tuple[Expr, tuple[Op, tuple[Any, ...]] | None]] = [
    (col("n") == 5, (Op.IN, (5,))),
    (col("n") == 5.0, (Op.IN, (5,))),
    (col("n") == Decimal("5.00"), (Op.IN, (5,))),
    (col("n") == np.uint8(5), (Op.IN, (5,))),
    (col("n") == 1.5, NEVER),
    (col("n").isin([3, 1.5, 1, 3.0, NAN, float("inf")]), (Op.IN, (1, 3))),
    (col("n").isin([]), NEVER),
    (col("n") < 1.5, (Op.LESS_EQUAL, (1,))),
    (col("n") <= -1.5, (Op.LESS_EQUAL, (-2,))),
    (col("n") > 1.5, (Op.GREATER_EQUAL, (2,))),
    (col("n") >= Decimal("-1.5"), (Op.GREATER_EQUAL, (-1,))),
    (col("n") < 2**70, (Op.LESS, (2**70,))),
    (col("n") < float("inf"), ALWAYS),
    (col("n") > float("-inf"), ALWAYS),
    (col("n") > float("inf"), NEVER),
    (col("n") <= NAN, NEVER),
    (col("n") > Decimal("1e999999"), NEVER),
    (col("n") > Decimal("1e-999999"), (Op.GREATER_EQUAL, (1,))),
    (col("n") > Decimal("NaN"), NEVER),
    (col("m") == 1, (Op.IN, (100,))),
    (col("m") == 0.1, (Op.IN, (10,))),
    (col("m") == np.float32(0.1), (Op.IN, (10,))),
    (col("m") == Decimal("0.105"), NEVER),
    (col("m") < Decimal("0.105"), (Op.LESS_EQUAL, (10,))),
    (col("m") > 1e300, (Op.GREATER, (10**302,))),
    (col("old") == 1, (Op.IN, (10**6,))),
    (col("d") == 1, (Op.IN, (1.0,))),
    (col("d") == -0.0, (Op.IN, (0.0,))),
    (col("d").isin([2, 1.0, NAN, 1]), (Op.IN, (1.0, 2.0))),
    (col("d") == 2**53 + 1, NEVER),
    (col("d") < 2**53 + 1, (Op.LESS_EQUAL, (2.0**53,))),
    (col("d") <= 2**53 + 3, (Op.LESS, (2.0**53 + 4,))),
    (col("d") > 2**53 + 1, (Op.GREATER, (2.0**53,))),
    (col("d") >= 2**53 + 3, (Op.GREATER_EQUAL, (2.0**53 + 4,))),
    (col("d") > 10**400, (Op.GREATER_EQUAL, (float("inf"),))),
    (col("d") == Decimal("0.1"), (Op.IN, (0.1,))),
    (col("d") < NAN, NEVER),
    (col("f") == 0.1, (Op.IN, (0.1,))),
    (col("f") == np.float32(0.1), (Op.IN, (float(np.float32(0.1)),))),
    (col("t") == "é", (Op.IN, ("é".encode(),))),
    (col("t").isin(["b", "a", b"b"]), (Op.IN, (b"a", b"b"))),
    (col("c") == "ab", (Op.IN, (b"ab",))),
    (col("t").starts_with("é"), (Op.STARTS_WITH, ("é".encode(),))),
    (col("raw").starts_with(b"\xff"), (Op.STARTS_WITH, (b"\xff",))),
    (col("raw") >= bytearray(b"x"), (Op.GREATER_EQUAL, (b"x",))),
    (col("flag") == False, (Op.IN, (False,))),  # noqa: E712
    (col("flag") == np.True_, (Op.IN, (True,))),
    (as_expr(col("flag")), (Op.IN, (True,))),
    (col("day") == datetime.date(1970, 1, 3), (Op.IN, (2,))),
    (col("day") > datetime.datetime(1969, 12, 31), (Op.GREATER, (-1,))),
    (col("day") > np.datetime64("1970-02"), (Op.GREATER, (31,))),
    (col("ts") == datetime.datetime(1970, 1, 1, 0, 0, 1, 5), (Op.IN, (1_000_005_000,))),
    (col("ts") == datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), (Op.IN, (-1000,))),
    (col("ts") < datetime.date(1970, 1, 2), (Op.LESS, (86_400 * 10**9,))),
    (col("ts") < pd.Timestamp(7), (Op.LESS, (7,))),
    (col("ts") < np.datetime64(7, "ns"), (Op.LESS, (7,))),
    (col("ts") < np.datetime64(7, "h"), (Op.LESS, (7 * 3600 * 10**9,))),
    (col("ts") < np.datetime64(7000, "ps"), (Op.LESS, (7,))),
    (col("ts") < np.datetime64(10**12, "s"), (Op.LESS, (10**21,))),
    (col("at") == datetime.datetime(1970, 1, 1, tzinfo=UTC), (Op.IN, (0,))),
    (col("at") == pd.Timestamp(7, tz="UTC"), (Op.IN, (7,))),
    (
        col("at") == datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
        (Op.IN, (5 * 3600 * 10**9,)),
    ),
    (col("at") > np.datetime64(7, "s"), (Op.GREATER, (7 * 10**9,))),
]


@pytest.mark.parametrize(("expr", "expected"), LITERALS, ids=[repr(expr)[:80] for expr, _ in LITERALS])
def test_literals_become_canonical(expr: Expr, expected: tuple[Op, tuple[Any, ...]] | None) -> None:
    if expected is ALWAYS:
        found = bound(expr)
        assert isinstance(found, Negation)
        assert isinstance(found.part, Leaf)
        assert found.part.literals == ()
        return
    op, literals = leaf(expr)[1:]
    assert (op, literals) == expected
    assert expected is not None
    # Not 1 for 1.0 or True, nor -0.0 for 0.0.
    assert repr(literals) == repr(expected[1])


MISMATCHES: list[tuple[Expr, str]] = [
    (col("n") == "5", r"\bnumber\b.*\bstr '5'"),
    (col("n") == True, r"\bnumber\b.*\bbool True\b"),  # noqa: E712
    (col("n"), r"\bboolean\b"),
    (col("n") & col("flag"), r"\bboolean\b"),
    (col("n").starts_with("5"), r"starts_with\(\)"),
    (col("m") == "1.5", "Decimal"),
    (col("flag") == 1, r"\bFalse\b.*\bint 1\b"),
    (col("t") == 5, r"\bstr\b.*\bint 5\b"),
    (col("t") == "\ud800", "UTF-8"),
    (col("raw") == "x", "bytes"),
    (col("day") == "2020-01-01", "date.fromisoformat"),
    (col("day") == datetime.datetime(2020, 1, 1, 1), "midnight"),
    (col("day") == datetime.datetime(2020, 1, 1, tzinfo=UTC), "midnight"),
    (col("ts") == "2020-01-01", "datetime.fromisoformat"),
    (col("ts") == 5, "datetime.datetime"),
    (col("ts") == np.datetime64(7, "ps"), "datetime.datetime"),
    (col("ts") == datetime.datetime(2020, 1, 1, tzinfo=UTC), "tzinfo=None"),
    (col("at") == datetime.datetime(2020, 1, 1), "tzinfo=datetime.UTC"),
    (col("at") == datetime.date(2020, 1, 1), "tzinfo=datetime.UTC"),
    (col("at") == 5, r"datetime\.datetime\b.*\bint 5\b"),
]


@pytest.mark.parametrize(("expr", "hint"), MISMATCHES, ids=[repr(expr) for expr, _ in MISMATCHES])
def test_literals_of_other_types_are_refused(expr: Expr, hint: str) -> None:
    with pytest.raises(SchemaMismatch, match=hint) as refused:
        bound(expr)
    assert refused.value.column is not None


def test_structure_is_kept() -> None:
    found = bound((col("n") != 5) & ~(col("flag") | (col("n") < 1)))
    assert isinstance(found, AllOf)
    unequal, neither = found.parts
    assert isinstance(unequal, Negation)
    assert isinstance(neither, Negation)
    assert isinstance(neither.part, AnyOf)
    assert bound(~(col("n") != 5)) == bound(col("n") == 5)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(("unit", "unit_ns"), [("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1)])
def test_units_of_timestamps(unit: str, unit_ns: int) -> None:
    for name in ("ts", "at"):
        found = bound(col(name) > np.datetime64(7, "ns"), unit=unit)
        assert isinstance(found, Leaf)
        assert (found.unit_ns, found.literals) == (unit_ns, (7,))
    other = bound(col("n") > 1, unit=unit)
    assert isinstance(other, Leaf)
    assert other.unit_ns == 1
