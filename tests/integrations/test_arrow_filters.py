"""Filters of pyarrow, judged by pyarrow: no row is lost, and what is called exact keeps no other."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import orcstream
from orcstream import col
from orcstream.integrations._arrow_filters import as_where
from tests.integrations.samples import POOLS, as_orc, sample

FILE = orcstream.blocking.open(as_orc(sample()))
TABLE = pa.table(FILE.read(timestamp_unit="us"))
f = pc.field
LITERALS = {
    "tiny": [pa.int8(), pa.int64()],
    "number": [pa.int32(), pa.int64()],
    "single": [pa.float32(), pa.float64()],
    "price": [pa.decimal128(9, 2), pa.decimal128(12, 4)],
    "wall": [pa.timestamp("us"), pa.timestamp("ns")],
    "moment": [pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")],
    "text": [pa.string(), pa.large_string()],
}
COMPARE: list[Any] = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]


def kept(where: Any) -> set[int]:
    return set(pa.table(FILE.read(columns=["id"], where=where, timestamp_unit="us"))["id"].to_pylist())


@st.composite
def questions(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(sorted(POOLS)))
    type_, pool = POOLS[name]
    column, at = f(name), draw(st.sampled_from(["top", "top", "nested"]))
    if at == "nested" and name in ("number", "text"):
        column = f("place", name)
    null = pa.scalar(None, pa.bool_())
    values = draw(st.lists(st.sampled_from([*pool, None]), max_size=4))
    member = column.isin(pa.array(values, type_))
    kinds = st.sampled_from(["compare"] * 5 + ["in", "in or null", "null", "valid", "unknown"])
    match draw(kinds):
        case "in":
            return member
        case "in or null":
            return pc.if_else(column.is_valid(), member, null)
        case "null":
            return column.is_null(nan_is_null=draw(st.booleans()))
        case "valid":
            return column.is_valid()
        case "unknown":  # nothing that files can be asked
            return draw(st.sampled_from([f("real") >= f("single"), f("number") > f("tiny"), f("id") + 1 > 7]))
    literal = pa.scalar(draw(st.sampled_from(pool)), draw(st.sampled_from(LITERALS.get(name, [type_]))))
    return draw(st.sampled_from(COMPARE))(column, literal)


def _joined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda a, b: a & b, parts, parts),
        st.builds(lambda a, b: a | b, parts, parts),
        st.builds(lambda a: ~a, parts),
    )


@given(st.recursive(questions(), _joined, max_leaves=5))
def test_rows_are_those_of_pyarrow(filter_: pc.Expression) -> None:
    try:
        expected = set(TABLE.filter(filter_)["id"].to_pylist())
    except pa.ArrowException:  # such as a comparison that it does not have
        assume(False)
    asked = as_where(filter_, TABLE.schema)
    found = kept(asked.where)
    assert expected <= found, asked
    if asked.is_exact:
        assert expected == found, asked
    assert asked.columns is not None


WALL = datetime.datetime(2024, 2, 29)  # noqa: DTZ001
EXACT = [
    (f("id") > 5, col(("id",)) > 5),
    (f("flag"), col(("flag",))),
    (~f("flag"), ~col(("flag",))),
    (f("place", "number") == 7, col(("place", "number")) == 7),
    (f("text") == "a", col(("text",)) == b"a"),
    (f("text").isin(["a"]), col(("text",)).isin([b"a"]) & col(("text",)).is_not_null()),
    (f("many").is_null(), col(("many",)).is_null()),
    (
        (f("day") >= datetime.date(2024, 1, 1)) & (f("number") < 3) & f("raw").is_valid(),
        (col(("day",)) >= datetime.date(2024, 1, 1)) & (col(("number",)) < 3) & col(("raw",)).is_not_null(),
    ),
    (
        pc.if_else(f("tiny").is_valid(), f("tiny").isin([1, 2]), pa.scalar(None, pa.bool_())),
        col(("tiny",)).isin([1, 2]),
    ),
]


@pytest.mark.parametrize(("filter_", "where"), EXACT, ids=[str(one) for one, _ in EXACT])
def test_what_can_be_asked(filter_: pc.Expression, where: orcstream.Expr) -> None:
    asked = as_where(filter_, TABLE.schema)
    assert repr(asked.where) == repr(where)
    assert asked.is_exact


NOT_EXACT = [
    f("real").isin(pa.array([0.0])),  # -0.0 is not among them, to pyarrow
    f("real").isin(pa.array([float("nan")])),
    f("long") > 1.5,  # the column is rounded to floats
    f("long") == pa.scalar(None, pa.int64()),
    f("flag") > False,
    f("text") > f("text"),
    pc.starts_with(f("text"), "a"),
    f("id").cast(pa.float64()) == 1.0,
    f("nowhere") == 1,
    f("wall") == pa.scalar(WALL.replace(tzinfo=datetime.UTC)),
]


@pytest.mark.parametrize("filter_", NOT_EXACT, ids=str)
def test_what_cannot(filter_: pc.Expression) -> None:
    """Its neighbours are asked all the same."""
    assert as_where(filter_, TABLE.schema).where is None
    asked = as_where((f("id") > 5) & filter_ & (f("id") < 9), TABLE.schema)
    assert repr(asked.where) == "(col(('id',)) > 5) & (col(('id',)) < 9)"
    assert not asked.is_exact
    assert not as_where((f("id") > 5) | filter_, TABLE.schema).is_exact


def test_columns_of_a_filter() -> None:
    asked = as_where((f("place", "text") == "a") | (f("id") + 1 > f("tiny")), TABLE.schema)
    assert asked.columns == frozenset({"place", "id", "tiny"})


def test_filters_that_are_deep() -> None:
    found = f("id") == 0
    for number in range(1, 3000):
        found = found | (f("id") == number)
    assert not as_where(found, TABLE.schema).is_exact  # deeper than Python nests calls
    found = f("id") >= 0
    for number in range(300):
        found = found & (f("id") != number)
    asked = as_where(found, TABLE.schema)
    assert asked.is_exact
    assert len(kept(asked.where)) == TABLE.num_rows - 300


def test_names_that_are_not_unique() -> None:
    schema = pa.schema([("a", pa.int64()), ("a", pa.string())])
    assert as_where(f("a") == 1, schema).where is None


def test_what_pyarrow_does_not_pickle() -> None:
    asked = as_where(pc.field(0) == 1, TABLE.schema)
    assert (asked.where, asked.is_exact, asked.columns) == (None, False, None)


def test_what_nests_too_deep_is_left_to_the_caller() -> None:
    """No predicate has more than a hundred levels."""
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    deep = pc.field("x") == 0
    for number in range(1, 80):
        deep = ~(deep | (pc.field("x") == number))
    assert as_where(deep, schema).where is None
    asked = as_where(deep & (pc.field("y") == 1), schema)
    assert asked.where == (col(("y",)) == 1)
    assert not asked.is_exact
