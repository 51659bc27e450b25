"""The tests' own comparison and conversions: column by column they are what they would be by values."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.reference import compare
from tests.reference.columnwise import Conversion
from tests.reference.types import T, Union, parse

TABLES = strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True))


def again(value: Any) -> Any:
    """The same in new objects, so that nothing is found the same by being one and the same."""
    if isinstance(value, Union):
        return Union(value.tag, again(value.value))
    if isinstance(value, tuple | list):
        return type(value)(map(again, value))
    if isinstance(value, float):
        return float(repr(value))
    return Decimal(str(value)) if isinstance(value, Decimal) else value


def changed(type_: T, value: Any) -> Any:
    """Another value, as near as there is one."""
    if value is None:
        return Union(0, None) if type_.kind == "uniontype" else ()
    match type_.kind:
        case "struct" if type_.children:
            return (changed(type_.children[0], value[0]), *value[1:])
        case "array" | "map":
            return value[1:] if value else [None]
        case "uniontype":
            return Union(value.tag, changed(type_.children[value.tag], value.value))
        case "float" | "double":
            return -value if not math.isnan(value) else 0.0
        case "decimal":
            sign, digits, exponent = value.as_tuple()
            return Decimal((1 - sign, digits, exponent))
        case "boolean":
            return int(value)
        case "string" | "char" | "varchar":
            return value + "\0"
        case "binary":
            return value + b"\0"
    return float(value) if type_.kind != "struct" else None


@hypothesis.given(table=TABLES)
def test_the_same_rows_are_the_same(table: strategies.Table) -> None:
    compare.assert_same_rows(table.type_, again(table.rows), table.rows)


@hypothesis.given(table=TABLES, at=st.integers(0, 2**32))
def test_one_other_value_is_found(table: strategies.Table, at: int) -> None:
    hypothesis.assume(table.rows and table.type_.children)
    row, column = at % len(table.rows), at % len(table.type_.children)
    rows = again(table.rows)
    other = changed(table.type_.children[column], rows[row][column])
    rows[row] = (*rows[row][:column], other, *rows[row][column + 1 :])
    with pytest.raises(AssertionError, match=rf"\brow {row}\b"):
        compare.assert_same_rows(table.type_, rows, table.rows)
    with pytest.raises(AssertionError, match=rf"\b{len(rows) - 1} rows\b.*\b{len(rows)}\b"):
        compare.assert_same_rows(table.type_, table.rows[:-1], table.rows)


@pytest.mark.parametrize(
    ("text", "actual", "expected"),
    [
        ("double", 1, 1),
        ("double", 0.0, -0.0),
        ("decimal(5,2)", Decimal("1.0"), Decimal("1.00")),
        ("int", True, 1),
        ("bigint", 1.0, 1),
        ("struct<a:int>", [1], [1]),
        ("struct<a:int>", None, (None,)),
        ("array<int>", (1,), (1,)),
        ("array<int>", [1, None], [1]),
        ("map<int,int>", [(1, 2)], [(1, 3)]),
        ("uniontype<int,int>", Union(0, 1), Union(1, 1)),
        ("uniontype<int,int>", (0, 1), (0, 1)),
        ("string", "", b""),
        ("string", "", None),
    ],
)
def test_what_is_nearly_the_same_is_not(text: str, actual: Any, expected: Any) -> None:
    type_ = parse(f"struct<c:{text}>")
    with pytest.raises(AssertionError):
        compare.assert_same_rows(type_, [(actual,)], [(expected,)])


def test_every_nan_is_every_other() -> None:
    negative = math.copysign(math.nan, -1.0)
    compare.assert_same_rows(parse("struct<c:double>"), [(negative,)], [(math.nan,)])


class Marked(Conversion):
    """Tells each value that has no children, and of which kind it is."""

    def leaf(self, type_: T, /) -> Callable[[Any], object] | None:
        return lambda value: (type_.kind, repr(value))


def marked(type_: T, value: Any) -> Any:
    if value is None:
        return None
    match type_.kind:
        case "struct":
            return tuple(map(marked, type_.children, value))
        case "array":
            return [marked(type_.children[0], item) for item in value]
        case "map":
            return [tuple(map(marked, type_.children, pair)) for pair in value]
        case "uniontype":
            return Union(value.tag, marked(type_.children[value.tag], value.value))
    return type_.kind, repr(value)


@hypothesis.given(table=TABLES)
def test_every_value_is_converted_once_where_it_is(table: strategies.Table) -> None:
    assert Marked().convert(table.type_, table.rows) == [marked(table.type_, row) for row in table.rows]
    compare.assert_same_rows(table.type_, Conversion().convert(table.type_, table.rows), table.rows)


def test_what_arrow_cannot_hold() -> None:
    type_ = parse("struct<u:uniontype<uniontype<int,string>,int>,t:timestamp>")
    rows = [(None, 1_999), None, (Union(1, 5), -1), (Union(0, None), None)]
    null = Union(0, Union(0, None))
    shaped = [(null, 1_000), None, (Union(1, 5), -1_000), (null, None)]
    assert compare.arrow_shaped(type_, rows, "us") == shaped
