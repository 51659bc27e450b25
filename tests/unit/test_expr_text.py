"""Predicates as text: what they mean, how they fail, and that no text does anything else."""

# ruff: noqa: DTZ001  # times without a zone are what is tested

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orcstream.errors import UsageError
from orcstream.query.expr import All, Any_, Condition, Expr, Not, as_expr, col

EAST = datetime.timezone(datetime.timedelta(hours=5, minutes=30))

MEANT: list[tuple[str, Expr]] = [
    ("n = 5", col("n") == 5),
    ("n==-5", col("n") == -5),
    ("n != 5", col("n") != 5),
    ("n <> 5", col("n") != 5),
    ("n<5", col("n") < 5),
    ("n <= +5", col("n") <= 5),
    ("n > 1.50", col("n") > Decimal("1.50")),
    ("n >= .5e-3", col("n") >= Decimal("0.0005")),
    ("t = 'it''s'", col("t") == "it's"),
    ('t = "say ""it\'s"""', col("t") == 'say "it\'s"'),
    ("t = ''", col("t") == ""),
    (r"t = 'a\n'", col("t") == r"a\n"),
    ("raw = x'00fF'", col("raw") == b"\x00\xff"),
    ("flag", as_expr(col("flag"))),
    ("flag = TRUE", col("flag") == True),  # noqa: E712
    ("flag = false", col("flag") == False),  # noqa: E712
    ("t in ('a', 'b')", col("t").isin(["a", "b"])),
    ("n in ()", col("n").isin([])),
    ("n not in (1)", ~col("n").isin([1])),
    ("n between 1 and 2 and flag", (col("n") >= 1) & (col("n") <= 2) & col("flag")),
    ("n not between 1 and 2", ~col("n").between(1, 2)),
    ("t starts with 'A'", col("t").starts_with("A")),
    ("t not starts with 'A'", ~col("t").starts_with("A")),
    ("t is null", col("t").is_null()),
    ("t IS NOT NULL", col("t").is_not_null()),
    ("not t is null", ~col("t").is_null()),
    ("not not flag", as_expr(col("flag"))),
    ("not n = 1 and flag", ~(col("n") == 1) & col("flag")),
    ("not (n = 1 and flag)", ~((col("n") == 1) & col("flag"))),
    ("a = 1 or b = 2 and c = 3", (col("a") == 1) | ((col("b") == 2) & (col("c") == 3))),
    ("(a = 1 or b = 2) and c = 3", ((col("a") == 1) | (col("b") == 2)) & (col("c") == 3)),
    ("a=1 and b=2 and c=3", (col("a") == 1) & (col("b") == 2) & (col("c") == 3)),
    ("s.x = 1", col("s.x") == 1),
    ("`s`.`x y` = 1", col("s.x y") == 1),
    ("s.`a.b` = 1", col(("s", "a.b")) == 1),
    ("`a``b` = 1", col("a`b") == 1),
    ("zwölf = 12", col("zwölf") == 12),
    ("day = date '2020-02-29'", col("day") == datetime.date(2020, 2, 29)),
    ("ts = timestamp '2020-01-31'", col("ts") == datetime.datetime(2020, 1, 31)),
    ("ts = timestamp '2020-01-31T12:30'", col("ts") == datetime.datetime(2020, 1, 31, 12, 30)),
    (
        "ts = timestamp '2020-01-31 12:30:01.25'",
        col("ts") == datetime.datetime(2020, 1, 31, 12, 30, 1, 250_000),
    ),
    (
        "ts = timestamp '1969-12-31 23:59:59.999999999'",
        col("ts") == np.datetime64(-1, "ns"),
    ),
    (
        "at > timestamp '2020-01-31 12:30:00Z'",
        col("at") > datetime.datetime(2020, 1, 31, 12, 30, tzinfo=datetime.UTC),
    ),
    (
        "at > timestamp '2020-01-31 12:30+05:30'",
        col("at") > datetime.datetime(2020, 1, 31, 12, 30, tzinfo=EAST),
    ),
    # Words of the grammar are names where a column stands.
    ("date = date '2020-01-01'", col("date") == datetime.date(2020, 1, 1)),
    ("in in (1)", col("in").isin([1])),
    ("x = x'aa'", col("x") == b"\xaa"),
    ("`not` = 1", col("not") == 1),
    ("`and`", as_expr(col("and"))),
]


@pytest.mark.parametrize(("text", "expr"), MEANT, ids=[text for text, _ in MEANT])
def test_what_a_text_means(text: str, expr: Expr) -> None:
    found = as_expr(Expr.parse(text))
    assert found == expr
    assert repr(found) == repr(expr)


# The text, a part of the message, and what the mark stands under.
WRONG: list[tuple[str, str, str]] = [
    ("", "empty", ""),
    ("  ", "empty", ""),
    ("n >", "a number", ""),
    ("n > (1)", "a number", "(1)"),
    ("t = Oslo and n", "write 'Oslo'", "Oslo and n"),
    ("n > and t", "a number", "and t"),
    ("5 < n", "stands before", "5 < n"),
    ("'n' = 5", "backquotes", "'n' = 5"),
    ("n = null", "is null", "null"),
    ("n is 5", "null or not null", "5"),
    ("n is not 5", "should be null,", "5"),
    ("n not > 5", "a comparison", "> 5"),
    ("n 5", "a comparison", "5"),
    ("t like 'A%'", "starts with", "like 'A%'"),
    ("t startswith 'A'", "starts with", "startswith 'A'"),
    ("t starts 'A'", "should be with", "'A'"),
    ("n between 1", "upper bound", ""),
    ("n in 1", "parentheses", "1"),
    ("n in (1 2)", "comma", "2)"),
    ("n in (1,)", "a number", ")"),
    ("(n = 1", "no partner", "(n = 1"),
    ("(n = 1 t", "closing parenthesis", "t"),
    ("n = 1)", "no partner", ")"),
    ("n = 1 t = 2", "and, or, or the end", "t = 2"),
    ("n = 1 and", "a column", ""),
    ("not", "a column", ""),
    ("or n = 1", "a column", "or n = 1"),
    ("t = 'A", "no partner", "'A"),
    ("`n = 1", "no partner", "`n = 1"),
    ("n = 1 && flag", "and, or, not", "&& flag"),
    ("a-b = 1", "odd names", "-b = 1"),
    ("2a = 1", "odd names", "2a = 1"),
    ("n; drop", "no meaning", "; drop"),
    ("``.n = 1", "empty", "``.n = 1"),
    ("n = 1e99999999999999999999", "too large", "1e99999999999999999999"),
    ("n = " + "9" * 5000, "too many digits", "9" * 60),
    ("raw = x'0'", "x'00ff'", "'0'"),
    ("day = date '31.01.2020'", "date '2020-01-31'", "'31.01.2020'"),
    ("day = date '2020-01-31 00:00'", "date '2020-01-31'", "'2020-01-31 00:00'"),
    ("day = date '2019-02-29'", "no such time", "'2019-02-29'"),
    ("ts = timestamp 'now'", "timestamp '2020", "'now'"),
    ("ts = timestamp '2020-01-01 24:00:00'", "no such time", "'2020-01-01 24:00:00'"),
    ("ts = timestamp '2020-01-01 00:00+25:00'", "no such time", "'2020-01-01 00:00+25:00'"),
    ("ts = timestamp '2020-01-01 00:00:00.0000001Z'", "at most six", "'2020-01-01 00:00:00.0000001Z'"),
    ("ts = timestamp '0001-01-01 00:00:00.0000001'", "between 1678", "'0001-01-01 00:00:00.0000001'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "rest"), WRONG, ids=[text[:40] for text, _, _ in WRONG])
def test_errors_point_at_the_place(text: str, problem: str, rest: str) -> None:
    with pytest.raises(UsageError) as refused:
        Expr.parse(text)
    message, line, mark = str(refused.value).split("\n")
    assert problem in message + ","
    assert line[mark.index("^") :].rstrip() == rest
    if len(text) < 60:
        place = len(text) - len(rest) + 1
        assert message.endswith(f", at character {place}:")


def test_far_places_are_shown_too() -> None:
    with pytest.raises(UsageError) as refused:
        Expr.parse("\t" + "n = 1\nand " * 1000 + "n = ?" + " and n = 2" * 1000)
    _, line, mark = str(refused.value).split("\n")
    assert len(line) < 130
    assert line[mark.index("^")] == "?"


def test_only_texts_are_texts() -> None:
    with pytest.raises(UsageError, match="int"):
        Expr.parse(5)  # type: ignore[arg-type]


def test_depth_is_bounded_and_width_is_not() -> None:
    deep = "(" * 50 + "a" + ")" * 50
    assert as_expr(Expr.parse(deep)) == as_expr(col("a"))
    with pytest.raises(UsageError, match=r"\b50\b"):
        Expr.parse("(" + deep + ")")
    wide = Expr.parse(" or ".join(["a = 1"] * 3000))
    assert isinstance(wide, Any_)
    assert len(wide.parts) == 3000
    assert as_expr(Expr.parse("not " * 3001 + "a")) == ~as_expr(col("a"))


# --- any text, and any expression ---------------------------------------------------------------------

WORDS = [
    "and", "or", "not", "is", "null", "in", "between", "starts", "with", "true", "date", "timestamp", "x",
    "(", ")", ",", "=", "<>", "<=", "`", "'", '"', ".", "-1", "2.5e3", "'2020-01-01'", "`a b`", "n", "s.t",
    "like", "1e9999", "\n", "\0", "é", "'00'", "٣",
]  # fmt: skip


@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
@example("(" * 100_000)
@example("'" * 99_999)
@example("a = " + "-" * 9_999)
def test_any_text_is_an_expression_or_the_callers_error(text: str) -> None:
    refusal = ""
    try:
        found = Expr.parse(text)
    except UsageError as error:
        refusal = str(error)
    if refusal:
        assert refusal.count("\n") == 2
        assert all(line.isprintable() for line in refusal.split("\n"))
    else:
        assert as_expr(Expr.parse(f"({text})")) == as_expr(found)


def doubled(text: str, quote: str) -> str:
    return quote + text.replace(quote, 2 * quote) + quote


def name_text(path: str | tuple[str, ...]) -> str:
    parts = path if isinstance(path, tuple) else path.split(".")
    return ".".join(doubled(part, "`") for part in parts)


def literal_text(value: Any) -> str:
    match value:
        case bool():
            return str(value)
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return doubled(value, "'")
        case np.datetime64():
            return f"timestamp '{value}'"
        case datetime.datetime():
            return f"timestamp '{value.isoformat(' ')}'"
        case datetime.date():
            return f"date '{value}'"
    return str(value)


def expr_text(expr: Expr) -> str:
    """The text of an expression, as a person may write it."""
    match expr:
        case All(parts):
            return " and ".join(f"({expr_text(part)})" for part in parts)
        case Any_(parts):
            return " or ".join(f"({expr_text(part)})" for part in parts)
        case Not(part):
            return f"not ({expr_text(part)})"
        case Condition(path, "is_true"):
            return name_text(path)
        case Condition(path, "is_null"):
            return f"{name_text(path)} is null"
        case Condition(path, "is_not_null"):
            return f"{name_text(path)} is not null"
        case Condition(path, "isin", values):
            return f"{name_text(path)} in ({', '.join(map(literal_text, values))})"
        case Condition(path, "starts_with", (value,)):
            return f"{name_text(path)} starts with {literal_text(value)}"
        case Condition(path, op, (value,)):
            return f"{name_text(path)} {op} {literal_text(value)}"
    raise AssertionError(expr)


PARTS = st.text(st.characters(exclude_characters="."), min_size=1, max_size=5)
# As text has it: dots lead into structs, and a tuple is needed where a name holds one.
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(".".join) | st.tuples(
    PARTS, st.text(min_size=1, max_size=3).map(lambda text: text + ".")
)
ZONES = st.none() | st.integers(-1439, 1439).map(
    lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))
)
VALUES: st.SearchStrategy[Any] = (
    st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False).filter(lambda n: not str(n).lstrip("-").isdigit())
    | st.text(max_size=5)
    | st.binary(max_size=5)
    | st.dates()
    | st.datetimes(timezones=ZONES).map(lambda time: time.replace(fold=0))
    | st.integers(-(2**62), 2**62).filter(lambda n: n % 1000).map(lambda n: np.datetime64(n, "ns"))
)
COMPARE: list[Callable[[Any, Any], Expr]] = [
    lambda column, value: column == value,
    lambda column, value: column != value,
    lambda column, value: column < value,
    lambda column, value: column >= value,
    lambda column, value: column.starts_with(value),
]
QUESTIONS: st.SearchStrategy[Expr] = (
    st.builds(lambda path, compare, value: compare(col(path), value), PATHS, st.sampled_from(COMPARE), VALUES)
    | st.builds(lambda path, values: col(path).isin(values), PATHS, st.lists(VALUES, max_size=3))
    | st.builds(lambda path: col(path).is_null(), PATHS)
    | st.builds(lambda path: col(path).is_not_null(), PATHS)
    | st.builds(lambda path: as_expr(col(path)), PATHS)
)
EXPRESSIONS: st.SearchStrategy[Expr] = st.recursive(
    QUESTIONS,
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | inner.map(lambda part: ~part)
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_what_is_written_is_what_is_read(expr: Expr) -> None:
    found = as_expr(Expr.parse(expr_text(expr)))
    assert found == expr
    assert repr(found) == repr(expr)
