"""A predicate selects the same rows, however they are pruned and whether its columns are read first or not.

Each expression is asked with its negation and its parts, so that a question that statistics and values
understand differently cannot hide behind another one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pyarrow import orc

from orcstream import UnionValue, blocking, col
from orcstream.plan.prune import prune
from orcstream.query.expr import All, Any_, Expr, Not
from orcstream.reader.engine.pruning import Pruner
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import orc_text, patient
from tests.property.test_filter import conditions, tables

LEVELS = ("none", "file", "stripe", "row group", "all")


@contextmanager
def pruned_by(level: str, *, late: bool) -> Iterator[None]:
    """Reads that use the statistics of one level alone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prune, "late_pays", lambda *_: late)
        if level not in ("file", "all"):
            patched.setattr(Pruner, "file_matches", True)
        if level not in ("stripe", "all"):
            patched.setattr(Pruner, "stripes", lambda pruner, _: [True] * len(pruner._tail.footer.stripes))
        if level not in ("row group", "all"):
            patched.setattr(Pruner, "groups", _every_group)
        yield


def _every_group(_: Pruner, groups: Any, *__: Any) -> tuple[list[bool], list[bool]]:
    kept = [True] * max(1, groups.count)
    return kept, kept


def questions(expr: Expr) -> list[Expr]:
    """The expression, its parts, and the negations of all of them."""
    parts: list[Expr] = []
    if isinstance(expr, All | Any_):
        parts = list(expr.parts)
    elif isinstance(expr, Not):
        parts = [expr.part]
    found = [expr, ~expr]
    return found + [question for part in parts for question in questions(part)]


def rows_of(file: Any, question: Expr, unit: str, level: str, *, late: bool) -> list[int]:
    with pruned_by(level, late=late):
        found = file.read(where=question, timestamp_unit=unit, row_numbers=True)
    return [row["row_number"] for row in found.to_pylist()]


def check(data: bytes, expr: Expr, unit: str = "us") -> None:
    with blocking.open(data) as file:
        for question in questions(expr):
            expected = rows_of(file, question, unit, "none", late=False)
            for level in LEVELS:
                for late in (False, True):
                    found = rows_of(file, question, unit, level, late=late)
                    assert found == expected, f"{question}: pruned by {level}, late: {late}"


# --- files -----------------------------------------------------------------------------------------


def written(array: pa.StructArray, unions: list[UnionValue | None], stride: int, stripe_rows: int) -> bytes:
    schema = f"{orc_text(array.type)[:-1]},u:uniontype<int,string,uniontype<int,string>>>"
    rows = [{**row, "u": union} for row, union in zip(array.to_pylist(), unions, strict=True)]
    target = io.BytesIO()
    with blocking.create(
        target, Schema.parse(schema), row_index_stride=stride, lossy_timestamps=True, blooms=[]
    ) as out:
        for start in range(0, len(rows), stripe_rows):
            out.write(rows[start : start + stripe_rows])
            out.end_stripe()
    return target.getvalue()


INNER = st.builds(UnionValue, st.just(0), st.none() | st.integers(-3, 3)) | st.builds(
    UnionValue, st.just(1), st.none() | st.text("ab", max_size=2)
)
UNIONS = st.one_of(st.none(), INNER, st.builds(UnionValue, st.just(2), st.none() | INNER))


@st.composite
def cases(draw: st.DrawFn) -> tuple[bytes, str, Expr]:
    array, unit, leaves = draw(tables())
    assume(len(array))
    unions = draw(st.lists(draw(st.sampled_from([UNIONS, INNER])), min_size=len(array), max_size=len(array)))
    of_union = st.sampled_from([col("u").is_null(), col("u").is_not_null()])
    expressions = st.recursive(
        conditions(unit, leaves) | of_union,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=4,
    )
    stride, stripe_rows = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    return written(array, unions, stride, stripe_rows), unit, draw(expressions)


@patient
@given(cases())
def test_all_ways_select_the_same_rows(case: tuple[bytes, str, Expr]) -> None:
    data, unit, expr = case
    check(data, expr, unit)


def union_of(values: list[int | str | None]) -> pa.UnionArray:
    """Numbers and nulls are of child 0: no row of the union itself is null."""
    is_text = np.array([isinstance(value, str) for value in values], np.int8)
    offsets = np.where(is_text, np.cumsum(is_text), np.cumsum(1 - is_text)) - 1
    children = [[value for value in values if isinstance(value, str) == of_text] for of_text in (False, True)]
    return pa.UnionArray.from_dense(
        pa.array(is_text),
        pa.array(offsets, pa.int32()),
        [pa.array(children[0], pa.int32()), pa.array(children[1], pa.string())],
    )


@patient
@given(st.lists(st.none() | st.sampled_from([1, "a"]), min_size=1, max_size=300), st.booleans())
@example([None] * 100 + ["a"] * 200, False)
@example([None] * 100 + ["a"] * 200, True)
def test_a_union_is_null_where_it_is_delivered_as_none(values: list[int | str | None], own: bool) -> None:
    """A null of child 0 is, by the statistics of ORC C++, a value of the union."""
    table = pa.table({"id": np.arange(len(values)), "u": union_of(values)})
    target = io.BytesIO()
    if own:
        blocking.write(target, table, row_index_stride=100)
    else:
        orc.write_table(table, target, row_index_stride=100)
    data = target.getvalue()
    with blocking.open(data) as file:
        delivered = [row["u"] for row in file.read().to_pylist()]
        assert delivered.count(None) == values.count(None)
        assert file.read(where=col("u").is_null()).num_rows == values.count(None)
        assert file.read(where=col("u").is_not_null()).num_rows == len(values) - values.count(None)
    check(data, col("u").is_null() | (col("id") == 1))
