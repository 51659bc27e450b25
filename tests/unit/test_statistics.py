"""Statistics of vectors, value by value, and merging them."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from orcstream.codec.encode._statistics import decimal_bounds, float_bounds, integer_bounds, text_bounds
from orcstream.codec.encode.statistics import statistics_of, statistics_of_nothing
from orcstream.codec.vectors._filter import Texts
from orcstream.codec.vectors.column import Vector, VectorOptions, field_of
from orcstream.schema.column_statistics import ALL_NULL, BoundingBox, ColumnStatistics, merge
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn
from tests.generators.arrow_vectors import field_from, vector_from


def of(array: pa.Array, type_text: str | None = None) -> list[ColumnStatistics]:
    """Those of the array's column and of all below it, by column id."""
    field = field_from("x", array.type)
    if type_text is not None:
        field = field_of("x", Schema.parse(type_text).root, VectorOptions())
    found = statistics_of(field, vector_from(array))
    assert list(found) == list(range(len(found)))
    return list(found.values())


def one(values: list[Any], type_: pa.DataType, type_text: str | None = None) -> ColumnStatistics:
    (found,) = of(pa.array(values, type_), type_text)
    return found


def sign(bound: object) -> float:
    assert isinstance(bound, float)
    return math.copysign(1, bound)


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_integers(type_: pa.DataType) -> None:
    assert one([5, None, -3, 7], type_) == ColumnStatistics(3, True, None, "integer", -3, 7, 9)
    assert one([5, 5], type_) == ColumnStatistics(2, False, None, "integer", 5, 5, 10)
    assert one([None], type_) == ColumnStatistics(0, True, None, "integer", sum=0)
    assert one([], type_) == ColumnStatistics(0, False, None, "integer", sum=0)


def test_integer_sums_that_do_not_fit() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    assert one([top, 1], pa.int64()) == ColumnStatistics(2, False, None, "integer", 1, top, None)
    assert one([None, bottom, -1], pa.int64()).sum is None
    # Only the whole sum has to fit.
    assert one([top, top, bottom, bottom], pa.int64()).sum == -2
    assert one([2**31 - 1] * 3, pa.int32()).sum == 3 * (2**31 - 1)


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_floating_point(type_: pa.DataType) -> None:
    assert one([1.5, None, -2.0], type_) == ColumnStatistics(2, True, None, "double", -2.0, 1.5, -0.5)
    assert one([None], type_) == ColumnStatistics(0, True, None, "double", sum=0.0)
    infinite = one([math.inf, 1.0], type_)
    assert (infinite.minimum, infinite.maximum, infinite.sum) == (1.0, math.inf, math.inf)


@pytest.mark.parametrize("values", [[math.nan, 1.0, 2.0], [1.0, math.nan, 2.0], [2.0, 1.0, math.nan]])
def test_nan_shows_in_the_sum_only(values: list[float]) -> None:
    found = one(values, pa.float64())
    assert (found.value_count, found.minimum, found.maximum) == (3, 1.0, 2.0)
    assert math.isnan(float(found.sum or 0))


def test_nothing_but_nan() -> None:
    found = one([math.nan, None], pa.float64())
    assert all(math.isnan(float(x)) for x in (found.minimum, found.maximum, found.sum) if x is not None)
    assert None not in (found.minimum, found.maximum, found.sum)


@pytest.mark.parametrize("values", [[0.0], [-0.0], [0.0, -0.0]])
def test_zeros_as_bounds_include_both(values: list[float]) -> None:
    found = one(values, pa.float64())
    assert sign(found.minimum) == -1
    assert sign(found.maximum) == 1


def test_texts() -> None:
    # By bytes: UTF-16 would put the surrogates of the second below the first.
    assert one(["\uffff", None, "\U0001f600", ""], pa.string()) == ColumnStatistics(
        3, True, None, "string", "", "\U0001f600", 7
    )
    assert one([None], pa.string()) == ColumnStatistics(0, True, None, "string")
    assert one(["a", "a\0"], pa.string()).maximum == "a\0"


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("a" * 1025, "a" * 1024, "a" * 1023 + "b"),
        ("a" * 1023 + "é", "a" * 1023, "a" * 1022 + "b"),
        ("a" * 1023 + "~~", "a" * 1023 + "~", "a" * 1023 + "\x7f"),
        ("é" * 600, "é" * 512, "é" * 511 + "ê"),
        ("a" * 1021 + "\ud7ffx", "a" * 1021 + "\ud7ff", "a" * 1021 + "\ue000"),
        ("a" * 1020 + "\U0010ffffx", "a" * 1020 + "\U0010ffff", "a" * 1019 + "b"),
        ("\U0010ffff" * 300, "\U0010ffff" * 256, None),
    ],
)
def test_long_texts_are_cut(text: str, lower: str, upper: str | None) -> None:
    found = one([text], pa.string())
    assert found == ColumnStatistics(
        1, False, None, "string", None, None, len(text.encode()), lower_bound=lower, upper_bound=upper
    )
    assert found.lower_bound is not None and found.lower_bound <= text
    assert found.upper_bound is None or found.upper_bound > text


def test_short_and_long_texts() -> None:
    found = one(["b", "c" * 2000], pa.string())
    assert (found.minimum, found.lower_bound) == ("b", None)
    assert (found.maximum, found.upper_bound) == (None, "c" * 1023 + "d")
    assert one(["d" * 1024], pa.string()).maximum == "d" * 1024


def test_texts_that_are_no_utf8_have_no_bounds() -> None:
    for value in (b"\xff", b"\xff" * 2000, b"\x80" * 2000):
        assert one([value], pa.binary(), "string") == ColumnStatistics(
            1, False, None, "string", sum=len(value)
        )


def test_char_is_padded() -> None:
    found = one(["b", "äx   ", None], pa.string(), "char(3)")
    assert found == ColumnStatistics(2, True, None, "string", "b  ", "äx ", 7)


def test_dictionaries() -> None:
    indexes = pa.array([2, None, 1, 2], pa.int32())
    array = pa.DictionaryArray.from_arrays(indexes, pa.array(["a", "b", "cc", "d"]))
    expected = ColumnStatistics(3, True, None, "string", "b", "cc", 5)
    assert of(array) == [expected]
    sliced = pa.DictionaryArray.from_arrays(indexes, pa.array(["", "a", "b", "cc", "d"])[1:])
    assert of(sliced) == [expected]


def test_other_kinds() -> None:
    assert one([True, None, False, True], pa.bool_()) == ColumnStatistics(3, True, None, "boolean", sum=2)
    assert one([b"abc", None, b"\xff"], pa.binary()) == ColumnStatistics(2, True, None, "binary", sum=4)
    assert one([], pa.binary()) == ColumnStatistics(0, False, None, "binary", sum=0)
    assert one([], pa.bool_()) == ColumnStatistics(0, False, None, "boolean", sum=0)
    day = datetime.date(1969, 12, 31)
    assert one([day, None], pa.date32()) == ColumnStatistics(1, True, None, "date", -1, -1)
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)):
        assert one([-1, 5], pa.timestamp(unit)) == ColumnStatistics(
            2, False, None, "timestamp", -scale, 5 * scale
        )


def test_decimals() -> None:
    values = [Decimal("1.50"), None, Decimal("-0.25")]
    assert one(values, pa.decimal128(10, 2)) == ColumnStatistics(
        2, True, None, "decimal", Decimal("-0.25"), Decimal("1.5"), Decimal("1.25")
    )
    most, least = Decimal("9" * 38), Decimal("-" + "9" * 38)  # a minus sign would round
    assert one([most, least, most], pa.decimal128(38, 0)).sum == most
    found = one([most, Decimal(1)], pa.decimal128(38, 0))
    assert (found.minimum, found.maximum, found.sum) == (1, most, None)
    assert one([least] * 1000 + [most] * 999, pa.decimal128(38, 0)).sum == least
    assert one([None], pa.decimal128(38, 0)) == ColumnStatistics(0, True, None, "decimal", sum=Decimal(0))


def test_only_rows_of_parents_with_a_value_count() -> None:
    child = pa.array([1, 2, None, 4], pa.int32())
    struct = pa.StructArray.from_arrays([child], ["a"], mask=pa.array([False, True, False, True]))
    assert of(struct) == [
        ColumnStatistics(2, True),
        ColumnStatistics(1, True, None, "integer", 1, 1, 1),
    ]
    assert of(struct[1:2])[1] == ColumnStatistics(0, False, None, "integer", sum=0)


def test_items_of_null_lists_do_not_count() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array([1, 50, 60, 3]), mask=pa.array([False, True, False])
    )
    assert of(lists) == [
        ColumnStatistics(2, True, min_children=1, max_children=1, total_children=2),
        ColumnStatistics(2, False, None, "integer", 1, 3, 4),
    ]
    assert of(lists[1:2]) == [ColumnStatistics(0, True), ColumnStatistics(0, False, None, "integer", sum=0)]


def test_maps() -> None:
    array = pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int8()))
    assert of(array) == [
        ColumnStatistics(2, True, min_children=0, max_children=2, total_children=2),
        ColumnStatistics(2, False, None, "string", "a", "b", 2),
        ColumnStatistics(1, True, None, "integer", 1, 1, 1),
    ]


def test_unions() -> None:
    array = pa.UnionArray.from_dense(
        pa.array([0, 1, 1, 0, 1], pa.int8()),
        pa.array([1, 2, 0, 0, 1], pa.int32()),
        [pa.array([None, 7]), pa.array(["x", "y", "z"])],
    )
    expected = [
        ColumnStatistics(4, True),
        ColumnStatistics(1, False, None, "integer", 7, 7, 7),
        ColumnStatistics(3, False, None, "string", "x", "z", 3),
    ]
    assert of(array) == expected
    assert of(array.slice(1, 2))[2] == ColumnStatistics(2, False, None, "string", "x", "z", 2)


def test_kernels_check_their_buffers() -> None:
    short: Any = np.zeros(2, np.int64)
    for call in (
        lambda: integer_bounds(short, 0, 3, 8),
        lambda: integer_bounds(short, -1, 1, 8),
        lambda: integer_bounds(short, 0, 1, 3),
        lambda: integer_bounds(short, 0, 2, 8, np.ones(1, np.uint8)),
        lambda: float_bounds(short, 1, 2, 8),
        lambda: float_bounds(short, 0, 2, 2),
        lambda: decimal_bounds(short, 1, 1),
        lambda: decimal_bounds(short, 0, 1, np.ones(0, np.uint8)),
        lambda: text_bounds(Texts(np.array([0, 9], np.int32), b"abc", 0, 1), 10),
        lambda: text_bounds(Texts(np.array([0, 1], np.int32), b"abc", 0, 1), -1),
    ):
        with pytest.raises(ValueError, match=r"buffer|negative|width"):
            call()


def test_offsets_beyond_their_buffers() -> None:
    field = field_from("x", pa.list_(pa.int64()))
    child = Vector(2, (None, np.zeros(2, np.int64)), 0)  # type: ignore[arg-type, unused-ignore]
    for offsets in ([0, 3], [-1, 1], [0, 2, 1]):
        ends: Any = np.array(offsets, np.int32)
        with pytest.raises(ValueError, match=r"\boffsets\b"):
            statistics_of(field, Vector(len(offsets) - 1, (None, ends), 0, children=(child,)))


# --- merging ---------------------------------------------------------------------------------------


def test_merging_counts() -> None:
    a = ColumnStatistics(3, False, 10)
    assert merge(a, ColumnStatistics(2, True, 5)) == ColumnStatistics(5, True, 15)
    assert merge(a, ColumnStatistics(2, None, None)) == ColumnStatistics(5, None, None)
    assert merge(a, ColumnStatistics(None, True, 1)) == ColumnStatistics(None, True, 11)


def test_what_one_does_not_know() -> None:
    full = ColumnStatistics(3, False, None, "integer", 1, 3, 6)
    for part in (
        ColumnStatistics(1, False, None, "integer"),
        ColumnStatistics(1, False),
        ColumnStatistics(1, False, None, "integer", sum=0),
    ):
        for found in (merge(full, part), merge(part, full)):
            assert (found.value_count, found.minimum, found.maximum) == (4, None, None)
    for empty in (ALL_NULL, ColumnStatistics(0, True, None, "integer", sum=0)):
        expected = ColumnStatistics(3, True, None, "integer", 1, 3, 6)
        assert merge(full, empty) == merge(empty, full) == expected
    assert merge(ALL_NULL, ALL_NULL) == ALL_NULL
    kept = ColumnStatistics(0, False, None, "double", sum=0.0)
    assert merge(kept, ALL_NULL).kind == merge(ALL_NULL, kept).kind == "double"
    with pytest.raises(ValueError, match=r"\binteger\b.*\bdouble\b"):
        merge(full, kept)


def test_merging_texts() -> None:
    def texts(**bounds: str) -> ColumnStatistics:
        return replace(ColumnStatistics(1, False, None, "string", sum=1), **bounds)  # type: ignore[arg-type]

    whole = texts(minimum="b", maximum="y")
    for other, expected in (
        (texts(lower_bound="a", upper_bound="z"), {"lower_bound": "a", "upper_bound": "z"}),
        (texts(lower_bound="c", upper_bound="x"), {"minimum": "b", "maximum": "y"}),
        (texts(lower_bound="b", upper_bound="y"), {"minimum": "b", "maximum": "y"}),
        (texts(minimum="a", upper_bound="z"), {"minimum": "a", "upper_bound": "z"}),
        (texts(maximum="z"), {"maximum": "z"}),
    ):
        wanted = replace(texts(**expected), value_count=2, sum=2)
        assert merge(whole, other) == merge(other, whole) == wanted


def test_merging_numbers() -> None:
    top = ColumnStatistics(1, False, None, "integer", 2**63 - 1, 2**63 - 1, 2**63 - 1)
    assert merge(top, top).sum is None
    most, least = Decimal("9" * 38), Decimal("-" + "9" * 38)
    decimal = ColumnStatistics(1, False, None, "decimal", most, most, most)
    assert merge(decimal, decimal).sum is None
    assert merge(decimal, ColumnStatistics(1, False, None, "decimal", least, least, least)).sum == 0
    nan = ColumnStatistics(1, False, None, "double", math.nan, math.nan, math.nan)
    number = ColumnStatistics(1, False, None, "double", 0.0, -0.0, 0.0)
    for found in (merge(nan, number), merge(number, nan)):
        assert (found.minimum, found.maximum) == (0, 0)
        assert sign(found.minimum) == -1
        assert sign(found.maximum) == 1
        assert math.isnan(float(found.sum or 0))


def test_merging_children_and_boxes() -> None:
    a = ColumnStatistics(1, False, min_children=0, max_children=0)
    b = ColumnStatistics(1, False, min_children=2, max_children=5, total_children=7)
    assert merge(a, b) == ColumnStatistics(2, False, min_children=0, max_children=5, total_children=7)
    assert merge(b, ColumnStatistics(1, False)) == ColumnStatistics(2, False)
    here = ColumnStatistics(1, False, bounding_box=BoundingBox(1, 2, 3, 4), geospatial_types=(3, 1))
    there = ColumnStatistics(1, False, bounding_box=BoundingBox(0, 1, 5, 6, 7, 8), geospatial_types=(2,))
    assert merge(here, there) == ColumnStatistics(
        2, False, bounding_box=BoundingBox(0, 2, 3, 6, 7, 8), geospatial_types=(1, 2, 3)
    )
    assert merge(here, ColumnStatistics(1, False)) == ColumnStatistics(2, False)


def test_ids_are_those_of_the_type() -> None:
    schema = Schema.parse("struct<a:int,b:struct<c:int>>")
    field = field_of("b", schema["b"], VectorOptions())
    array = pa.array([{"c": 1}], pa.struct([("c", pa.int32())]))
    assert list(statistics_of(field, vector_from(array))) == [FileColumn(2), FileColumn(3)]


@pytest.mark.parametrize(
    "text",
    [
        *("boolean", "tinyint", "bigint", "double", "string", "char(3)", "binary", "decimal(5,2)", "date"),
        *("timestamp", "timestamp with local time zone", "array<int>", "map<int,int>", "struct<a:int>"),
        *("uniontype<int>", "geometry", "geography"),
    ],
)
def test_of_nothing(text: str) -> None:
    found = statistics_of_nothing(Schema.parse(text).root)
    assert (found.value_count, found.has_null, found.minimum, found.maximum) == (0, False, None, None)
    assert not found.sum
