"""Predicates over vectors, as plain Python and pyarrow decide them.

The oracle walks the user's expression over the values as Python objects: Python compares ints, floats and
decimals exactly, dates and times as they are, and None is followed through the tables of three-valued logic.
"""

# ruff: noqa: DTZ001  # times without a zone are what is tested

from __future__ import annotations

import datetime
import math
import operator
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.codec.vectors.column import Vector
from orcstream.codec.vectors.filter import RowFilter
from orcstream.query.binding import bind
from orcstream.query.expr import All, Any_, Condition, Expr, Matching, Not, col
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import memory, orc_text, patient, vector_from

UTC = datetime.UTC
NUMBERS = (
    st.integers(-300, 300)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([0.5, -0.0, 1e300, math.inf, -math.inf, 2.0**53, 2**53 + 1, 10**400])
)
SMALL = st.integers(-3, 3)
TEXT = st.text("ab\0é😀", max_size=3)
TIMES = st.datetimes(datetime.datetime(1969, 12, 31), datetime.datetime(1970, 1, 2)) | st.datetimes(
    datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)
)
DECIMALS = st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)) | st.decimals(
    -(10**20), 10**20, places=2
)
SINGLES = st.floats(width=32)


def cut(unit: str) -> Callable[[datetime.datetime], datetime.datetime]:
    step = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]

    def down(time: datetime.datetime) -> datetime.datetime:
        return time - datetime.timedelta(microseconds=time.microsecond % step)

    return down


def in_zone(time: datetime.datetime) -> datetime.datetime:
    return time.replace(tzinfo=UTC)


def columns(unit: str) -> dict[pa.DataType, tuple[Any, Any]]:
    """The values that a column holds, and the literals it is compared with."""
    times, plain = TIMES.map(cut(unit)), TIMES | st.dates()
    zone = datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))
    return {
        pa.bool_(): (st.booleans(), st.booleans() | st.booleans().map(np.bool_)),
        pa.int8(): (SMALL | st.integers(-128, 127), SMALL | NUMBERS | DECIMALS),
        pa.int16(): (SMALL | st.integers(-(2**15), 2**15 - 1), SMALL | NUMBERS),
        pa.int32(): (SMALL | st.integers(-(2**31), 2**31 - 1), SMALL | NUMBERS),
        pa.int64(): (SMALL | st.integers(-(2**63), 2**63 - 1), SMALL | NUMBERS | SMALL.map(np.int16)),
        pa.float32(): (SMALL.map(float) | SINGLES, SMALL | NUMBERS | SINGLES),
        pa.float64(): (SMALL.map(float) | st.floats() | st.just(2.0**53), SMALL | NUMBERS),
        pa.string(): (TEXT, TEXT),
        pa.dictionary(pa.int32(), pa.string()): (TEXT, TEXT),
        pa.binary(): (st.binary(max_size=3), st.binary(max_size=3)),
        pa.date32(): (st.dates(), st.dates()),
        pa.timestamp(unit): (times, plain),
        pa.timestamp(unit, "UTC"): (
            times.map(in_zone),
            TIMES.map(in_zone) | TIMES.map(lambda time: time.replace(tzinfo=zone)),
        ),
        pa.decimal128(30, 2): (DECIMALS, DECIMALS | NUMBERS | SMALL),
    }


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.StructArray, str, dict[str, pa.DataType]]:
    """A struct array, sliced, the unit of its timestamps, and its columns that can be compared, by name."""
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    size = draw(st.integers(0, 20))
    leaves: dict[str, pa.DataType] = {}

    def struct_of(depth: int, above: str) -> pa.StructArray:
        fields = {}
        for index in range(draw(st.integers(1, 3))):
            name = f"c{index}"
            if depth and draw(st.booleans()):
                fields[name] = struct_of(depth - 1, f"{above}{name}.")
                continue
            type_ = leaves[above + name] = draw(st.sampled_from(list(columns(unit))))
            values = draw(st.lists(st.none() | columns(unit)[type_][0], min_size=size, max_size=size))
            fields[name] = pa.array(values, type_)
        nulls = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())
        mask = nulls if above and draw(st.booleans()) else None
        return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=mask)

    array = struct_of(2, "")
    start = draw(st.integers(0, size))
    return array.slice(start, draw(st.integers(0, size - start))), unit, leaves


@st.composite
def conditions(draw: st.DrawFn, unit: str, leaves: dict[str, pa.DataType]) -> Expr:
    name = draw(st.sampled_from(sorted(leaves)))
    type_ = leaves[name]
    column = col(name)
    # Bare integers of tests must not meet DATE or booleans; each type has its own literals.
    literals = columns(unit)[type_][1]
    kind = draw(st.sampled_from(["order", "order", "isin", "null", "between", "special"]))
    found: Expr
    if kind == "order":
        compare = draw(st.sampled_from([operator.eq, operator.ne, operator.lt, operator.le]))
        found = compare(column, draw(literals))
        return found if draw(st.booleans()) else column > draw(literals)
    if kind == "isin":
        return column.isin(draw(st.lists(literals, max_size=12)))
    if kind == "null":
        return column.is_null() if draw(st.booleans()) else column.is_not_null()
    if kind == "between":
        return column.between(draw(literals), draw(literals))
    if pa.types.is_boolean(type_):
        return column
    if type_ in (pa.string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())):
        return column.starts_with(draw(literals))
    found = column >= draw(literals)
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.StructArray, str, Expr]:
    array, unit, leaves = draw(tables())
    expressions = st.recursive(
        conditions(unit, leaves),
        lambda inner: st.one_of(
            st.builds(operator.and_, inner, inner),
            st.builds(operator.or_, inner, inner),
            st.builds(operator.invert, inner),
        ),
        max_leaves=6,
    )
    return array, unit, draw(expressions)


# --- the oracle ------------------------------------------------------------------------------------


def truth(expr: Expr, row: dict[str, Any], types: dict[str, Any]) -> bool | None:
    match expr:
        case All():
            parts = [truth(part, row, types) for part in expr.parts]
            return False if False in parts else None if None in parts else True
        case Any_():
            parts = [truth(part, row, types) for part in expr.parts]
            return True if True in parts else None if None in parts else False
        case Not():
            inner = truth(expr.part, row, types)
            return None if inner is None else not inner
        case Condition():
            return answer(expr, row)
    column: Any = expr
    return answer(Condition(column.path, "is_true"), row)


def answer(condition: Condition, row: dict[str, Any]) -> bool | None:
    value: Any = row
    for name in str(condition.path).split("."):
        value = None if value is None else value[name]
    if condition.op in ("is_null", "is_not_null"):
        return (value is None) == (condition.op == "is_null")
    if value is None:
        return None
    if condition.op == "is_true":
        return bool(value)
    if condition.op == "isin":
        return any(compared("==", value, literal) for literal in condition.values)
    if condition.op == "starts_with":
        return bool(value.startswith(condition.values[0]))
    return compared(condition.op, value, condition.values[0])


COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(op: str, value: Any, literal: Any) -> bool:
    if isinstance(literal, np.generic):
        literal = literal.item()
    if isinstance(value, datetime.datetime) and not isinstance(literal, datetime.datetime):
        literal = datetime.datetime(literal.year, literal.month, literal.day)
    if isinstance(value, Decimal) and isinstance(literal, float):
        if math.isnan(literal):
            return op == "!="
        literal = Decimal(repr(literal))
    if isinstance(value, str):
        value, literal = value.encode(), literal.encode()
    return bool(COMPARE[op](value, literal))


def evaluated(array: pa.StructArray, unit: str, expr: Expr) -> list[bool]:
    root = Schema.parse(orc_text(array.type)).root
    predicate = bind(expr, root, Matching(unit))
    whole = vector_from(array)
    vectors = [child.slice(whole.offset, whole.offset + whole.length) for child in whole.children]
    mask = RowFilter(predicate, root).evaluate(vectors, len(array))
    assert set(bytes(mask)) <= {0, 1}
    return [bool(byte) for byte in bytes(mask)]


@patient
@given(cases())
def test_rows_are_those_that_python_finds(case: tuple[pa.StructArray, str, Expr]) -> None:
    array, unit, expr = case
    expected = [truth(expr, row, {}) is True for row in array.to_pylist()]
    assert evaluated(array, unit, expr) == expected, expr


@patient
@given(cases())
def test_a_row_is_true_false_or_null(case: tuple[pa.StructArray, str, Expr]) -> None:
    array, unit, expr = case
    sure, opposite = evaluated(array, unit, expr), evaluated(array, unit, ~expr)
    found = [True if yes else False if no else None for yes, no in zip(sure, opposite, strict=True)]
    assert found == [truth(expr, row, {}) for row in array.to_pylist()]


# --- pyarrow ---------------------------------------------------------------------------------------

ARROW_TYPES = (pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.date32())


@patient
@given(st.data())
def test_rows_are_those_that_pyarrow_finds(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(ARROW_TYPES))
    values = columns("us")[type_][0].filter(lambda value: value == value)  # noqa: PLR0124  # not NaN
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=40)), type_)
    literal, other = data.draw(values), data.draw(values)
    field, column = pc.field("c"), col("c")
    pairs: list[tuple[Any, Expr]] = [
        (field == pa.scalar(literal, type_), column == literal),
        (field != pa.scalar(literal, type_), column != literal),
        (field < pa.scalar(literal, type_), column < literal),
        (field >= pa.scalar(literal, type_), column >= literal),
        (field.is_null(), column.is_null()),
        (field.isin(pa.array([literal, other], type_)), column.isin([literal, other])),
        (
            (field < pa.scalar(literal, type_)) | (field == pa.scalar(other, type_)),
            (column < literal) | (column == other),
        ),
        (
            ~((field > pa.scalar(literal, type_)) & field.is_valid()),
            ~((column > literal) & ~column.is_null()),
        ),
    ]
    table = pa.table({"c": array, "row": pa.array(range(len(array)), pa.int64())})
    for theirs, ours in pairs:
        rows = table.filter(theirs)["row"].to_pylist()
        mask = evaluated(pa.StructArray.from_arrays([array], ["c"]), "us", ours)
        assert [row for row, found in enumerate(mask) if found] == rows, ours


# --- what random cases do not reach -----------------------------------------------------------------


def rows_of(array: pa.Array, expr: Expr) -> list[int]:
    mask = evaluated(pa.StructArray.from_arrays([array], ["c"]), "ns", expr)
    return [row for row, found in enumerate(mask) if found]


def test_a_null_union_is_null() -> None:
    tags, places = pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32())
    children = [pa.array([None, 5], pa.int32()), pa.array(["x", None])]
    union = pa.UnionArray.from_dense(tags, places, children, ["_union_0", "_union_1"])
    assert rows_of(union, col("c").is_null()) == [0]
    assert rows_of(union, col("c").is_not_null()) == [1, 2, 3]
    assert rows_of(union.slice(1), col("c").is_null()) == []


def test_lists_and_maps_are_null_or_not() -> None:
    lists = pa.array([[1], None, [], [None]], pa.list_(pa.int32()))
    maps = pa.array([None, [("a", 1)], []], pa.map_(pa.string(), pa.int32()))
    assert rows_of(lists, col("c").is_null()) == [1]
    assert rows_of(maps, col("c").is_not_null()) == [1, 2]


@pytest.mark.parametrize("size", [1, 2, 5, 100, 3000])
def test_many_literals(size: int) -> None:
    texts = [f"text {i}" for i in range(0, 2 * size, 2)]
    array = pa.array([f"text {i}" for i in range(2 * size)] + ["", "text", "text 0x"])
    assert rows_of(array, col("c").isin(texts)) == list(range(0, 2 * size, 2))
    numbers = pa.array(range(-size, size), pa.int64())
    assert rows_of(numbers, col("c").isin(range(-size, size, 3))) == list(range(0, 2 * size, 3))
    far = [number * 10**15 for number in range(-size, size)]
    assert rows_of(pa.array(far, pa.int64()), col("c").isin(far[::3])) == list(range(0, 2 * size, 3))
    decimals = pa.array([Decimal(n) for n in range(-size, size)], pa.decimal128(38, 4))
    assert rows_of(decimals, col("c").isin(range(-size, size, 3))) == list(range(0, 2 * size, 3))


@pytest.mark.parametrize("entries", [3, 1000])
def test_indexes_of_nulls_may_be_anything(entries: int) -> None:
    words = pa.array(["a", "b", *(str(i) for i in range(entries - 2))])
    valid = pa.array([True, True, False, True, False]).buffers()[1]
    wild = memory([0, 1, 2**31 - 1, 1, -5], "i4")
    vector = Vector(5, (valid, wild), 2, dictionary=vector_from(words))
    root = Schema.parse("struct<c:string>").root
    for expr, expected in ((col("c") == "b", b"\0\1\0\1\0"), (col("c") != "b", b"\1\0\0\0\0")):
        predicate = bind(expr, root, Matching())
        for start in range(5):
            part = RowFilter(predicate, root).evaluate([vector.slice(start, 5)], 5 - start)
            assert bytes(part) == expected[start:]


def test_timestamps_are_compared_as_delivered() -> None:
    # 0.4 s before the epoch is delivered as -1 s; the literal is not cut.
    array = pa.StructArray.from_arrays([pa.array([-1, 0, 1], pa.timestamp("s"))], ["c"])
    literal = np.datetime64("1969-12-31T23:59:59.600", "ms")
    assert evaluated(array, "s", col("c") < literal) == [True, False, False]
    assert evaluated(array, "s", col("c") >= literal) == [False, True, True]
    assert evaluated(array, "s", col("c") == literal) == [False, False, False]
    assert evaluated(array, "s", col("c") != literal) == [True, True, True]


def test_floats_are_compared_as_doubles() -> None:
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    array = pa.array([0.1, single, math.nan, None], pa.float32())
    assert rows_of(array, col("c") == 0.1) == []
    assert rows_of(array, col("c") == np.float32(0.1)) == [0, 1]
    assert rows_of(array, col("c") > 0.1) == [0, 1]
    assert rows_of(array, ~(col("c") > 0.1)) == [2]
    assert rows_of(array, col("c") != 5) == [0, 1, 2]


def test_vectors_must_fit_the_filter() -> None:
    root = Schema.parse("struct<c:int>").root
    predicate = bind(col("c") > 1, root, Matching())
    with pytest.raises(ValueError, match="'c'"):
        RowFilter(predicate, Schema.parse("struct<d:int>").root)
    with pytest.raises(ValueError, match=r"\b1 rows\b.*\b2\b"):
        RowFilter(predicate, root).evaluate([vector_from(pa.array([1], pa.int32()))], 2)
    with pytest.raises(ValueError, match="smaller"):
        RowFilter(predicate, root).evaluate([Vector(4, (None, bytes(12)))], 4)
