"""Statistics of random vectors against Arrow's own arithmetic; merging parts is the same as the whole."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume, given
from hypothesis import strategies as st

from orcstream.codec.encode.statistics import statistics_of
from orcstream.schema.column_statistics import ColumnStatistics, merge
from tests.generators.arrow_vectors import LEAVES, arrays, field_from, patient, sliced_arrays, vector_from


def of(array: pa.Array) -> list[ColumnStatistics]:
    return list(statistics_of(field_from("x", array.type), vector_from(array)).values())


@st.composite
def leaf_arrays(draw: st.DrawFn) -> pa.Array:
    type_ = draw(st.sampled_from(list(LEAVES)))
    array = pa.array(draw(st.lists(st.none() | LEAVES[type_], max_size=40)), type_)
    start = draw(st.integers(0, len(array)))
    return array.slice(start)


@patient
@given(leaf_arrays())
def test_leaves(array: pa.Array) -> None:
    (found,) = of(array)
    assert found.value_count == len(array) - array.null_count
    assert found.has_null == (array.null_count > 0)
    type_ = array.type
    if not found.value_count:
        assert found.minimum is None and found.maximum is None
        return
    if pa.types.is_boolean(type_):
        assert found.sum == pc.sum(array).as_py()
    elif pa.types.is_binary(type_):
        assert found.sum == pc.sum(pc.binary_length(array)).as_py()
    elif pa.types.is_floating(type_):
        bounds = pc.min_max(array).as_py()
        assert (found.minimum, found.maximum) == (bounds["min"], bounds["max"])
        assert float(found.sum or 0) == sum(array.drop_null().to_pylist()) or math.isnan(
            float(found.sum or 0)
        )
    elif pa.types.is_string(type_):
        texts = [text.encode() for text in array.drop_null().to_pylist()]
        assert (str(found.minimum).encode(), str(found.maximum).encode()) == (min(texts), max(texts))
        assert found.sum == sum(map(len, texts))
    elif pa.types.is_decimal(type_):
        numbers = [int(number.scaleb(7)) for number in array.drop_null().to_pylist()]
        assert found.minimum == Decimal(min(numbers)).scaleb(-7)
        assert found.maximum == Decimal(max(numbers)).scaleb(-7)
        assert found.sum == Decimal(sum(numbers)).scaleb(-7)
    else:
        plain = array.cast(pa.int32()) if pa.types.is_date(type_) else array
        plain = plain.cast(pa.int64())
        bounds = pc.min_max(plain).as_py()
        scale = 1000 if pa.types.is_timestamp(type_) else 1
        assert (found.minimum, found.maximum) == (bounds["min"] * scale, bounds["max"] * scale)
        if pa.types.is_integer(type_):
            total = sum(plain.drop_null().to_pylist())
            assert found.sum == (total if -(2**63) <= total < 2**63 else None)


@patient
@given(sliced_arrays())
def test_nested(array: pa.Array) -> None:
    """Every column's counts, by Python's own walk over the rows; Python has no rows of unions' children."""
    assume(not _has_union(array.type))
    counts: list[tuple[int, int]] = []
    _count(array.type, array.to_pylist(), counts)
    assert [(s.value_count, s.has_null) for s in of(array)] == [(n, nulls > 0) for n, nulls in counts]


def _count(type_: pa.DataType, rows: list[Any], counts: list[tuple[int, int]]) -> None:
    there = [row for row in rows if row is not None]
    counts.append((len(there), len(rows) - len(there)))
    if pa.types.is_struct(type_):
        for child in type_:
            _count(child.type, [row[child.name] for row in there], counts)
    elif pa.types.is_map(type_):
        pairs = [pair for row in there for pair in row]
        _count(type_.key_type, [key for key, _ in pairs], counts)
        _count(type_.item_type, [item for _, item in pairs], counts)
    elif pa.types.is_list(type_):
        _count(type_.value_type, [item for row in there for item in row], counts)


def _has_union(type_: pa.DataType) -> bool:
    return pa.types.is_union(type_) or any(_has_union(type_.field(i).type) for i in range(type_.num_fields))


@patient
@given(arrays(), st.data())
def test_parts_merge_to_the_whole(array: pa.Array, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(array)), max_size=3)))
    borders = [0, *cuts, len(array)]
    parts = [of(array.slice(a, b - a)) for a, b in pairwise(borders)]
    whole = of(array)
    forward = [reduce(merge, column) for column in zip(*parts, strict=True)]
    backward = [
        reduce(lambda later, earlier: merge(earlier, later), column[::-1])
        for column in zip(*parts, strict=True)
    ]
    for found in (forward, backward):
        for one, expected in zip(found, whole, strict=True):
            assert_equal(one, expected)


def assert_equal(one: ColumnStatistics, expected: ColumnStatistics) -> None:
    """But for sums, that are rounded where they are of floating point, and may be given up on the way."""
    names = set(ColumnStatistics.__slots__) - {"sum"}
    assert {n: getattr(one, n) for n in names} == {n: getattr(expected, n) for n in names}
    if isinstance(expected.sum, float):
        assert one.sum is not None
        largest = max(abs(float(expected.minimum or 0)), abs(float(expected.maximum or 0)), 1)
        close = math.isclose(one.sum, expected.sum, rel_tol=1e-9, abs_tol=1e-9 * largest)
        # Near the largest double a sum overflows in one order and not in the other.
        assert close or repr(one.sum) == repr(expected.sum) or largest > 1e300
    elif one.sum is not None or expected.kind not in ("integer", "decimal"):
        assert one.sum == expected.sum
