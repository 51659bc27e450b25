"""Filters pushed down: no row that Spark's filter is true of is lost, and what is called exact is.

The judge is SQL's three-valued logic with Spark's order of numbers, written anew here.
"""

from __future__ import annotations

import datetime
import functools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession, functions
from pyspark.sql import datasource as pushed

import orcstream
from orcstream.schema import Schema
from orcstream.spark.filters import column_of, folder_matches, is_exact, predicate
from orcstream.spark.types import spark_schema

UTC = datetime.UTC
DAY = datetime.date(2024, 2, 29)
TIME = datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)
VALUES: dict[str, tuple[str, list[Any]]] = {
    "flag": ("boolean", [True, False]),
    "number": ("int", [-5, 0, 1, 2, 100]),
    "real": ("double", [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, 2.0]),
    "text": ("string", ["", "a", "ab", "ä", "𝄞", "zz"]),
    "money": ("decimal(9,2)", [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), Decimal("1.01")]),
    "day": ("date", [DAY, DAY + datetime.timedelta(1), datetime.date(1500, 1, 1)]),
    "time": ("timestamp", [TIME, TIME + datetime.timedelta(microseconds=1), TIME - datetime.timedelta(400)]),
    "bytes_": ("binary", [b"", b"\x00", b"\xff"]),
}
SCHEMA = Schema.parse(f"struct<{','.join(f'{name}:{word}' for name, (word, _) in VALUES.items())}>")
COMPARISONS = (
    pushed.EqualTo,
    pushed.EqualNullSafe,
    pushed.GreaterThan,
    pushed.GreaterThanOrEqual,
    pushed.LessThan,
    pushed.LessThanOrEqual,
)
ON_TEXTS = (pushed.StringStartsWith, pushed.StringEndsWith, pushed.StringContains)


@st.composite
def filters(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(VALUES)))
    literals = st.sampled_from(VALUES[name][1])
    column = (name,)
    kinds: list[Any] = [st.builds(kind, st.just(column), literals) for kind in COMPARISONS]
    kinds += [st.builds(pushed.In, st.just(column), st.lists(literals | st.none(), max_size=3))]
    kinds += [st.builds(kind, st.just(column)) for kind in (pushed.IsNull, pushed.IsNotNull)]
    kinds += [st.builds(pushed.EqualNullSafe, st.just(column), st.none())]
    if name == "text":
        kinds += [st.builds(kind, st.just(column), literals) for kind in ON_TEXTS]
    found = draw(st.one_of(kinds))
    return pushed.Not(found) if draw(st.booleans()) else found


rows = st.lists(
    st.tuples(*(st.sampled_from([*values, None]) for _, values in VALUES.values())), min_size=1, max_size=12
)


def rank(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def truth(one: Any, value: Any) -> bool | None:
    match one:
        case pushed.Not():
            inner = truth(one.child, value)
            return None if inner is None else not inner
        case pushed.IsNull():
            return value is None
        case pushed.IsNotNull():
            return value is not None
        case pushed.EqualNullSafe():
            return value is one.value if None in (value, one.value) else rank(value) == rank(one.value)
    if value is None:
        return None
    match one:
        case pushed.In():
            if any(rank(value) == rank(other) for other in one.value if other is not None):
                return True
            return None if None in one.value else False
        case pushed.StringStartsWith():
            return bool(value.startswith(one.value))
        case pushed.StringEndsWith():
            return bool(value.endswith(one.value))
        case pushed.StringContains():
            return bool(one.value in value)
    above = (rank(value) > rank(one.value)) - (rank(value) < rank(one.value))
    answers: dict[Any, bool] = {
        pushed.EqualTo: above == 0,
        pushed.GreaterThan: above > 0,
        pushed.GreaterThanOrEqual: above >= 0,
        pushed.LessThan: above < 0,
        pushed.LessThanOrEqual: above <= 0,
    }
    return answers[type(one)]


def column_in(one: Any) -> str:
    return column_of(one)[0]


@functools.cache
def places() -> dict[str, int]:
    return {name: place for place, name in enumerate(VALUES)}


@hypothesis.given(rows, st.lists(filters(), min_size=1, max_size=3))
def test_no_row_is_lost_and_exact_filters_are(tmp_path_factory: Any, table: Any, asked: Any) -> None:
    import io

    target = io.BytesIO()
    stored = [tuple(_naive(value) for value in row) for row in table]
    with orcstream.blocking.create(target, SCHEMA) as out:
        out.write(stored)
    where = predicate(asked, SCHEMA.root)
    found = orcstream.blocking.read(target.getvalue(), where=where, row_numbers=True).to_pylist()
    numbers = {row["row_number"] for row in found}
    for number, row in enumerate(table):
        answers = [truth(one, row[places()[column_in(one)]]) is True for one in asked]
        if all(answers):
            assert number in numbers
        exact = [is_exact(one, spark_schema(SCHEMA)) for one in asked]
        if any(is_sure and not answer for is_sure, answer in zip(exact, answers, strict=True)):
            assert number not in numbers


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


@hypothesis.given(filters(), st.data())
def test_values_of_folders_answer_as_rows_do(one: Any, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([*VALUES[column_in(one)][1], None]))
    assert folder_matches(one, value) == (truth(one, value) is True)


QUESTIONS = """
    not number <=> 3 | number in (1, 2, null) | not number in (1, 2) | real > 10 | not real = 'NaN'
    text like '%1' | flag = false | money > 10.005 | day between date'2024-01-05' and date'2024-01-08'
    time = timestamp'2024-01-03 00:00:00' | inner.x > 15 and number < 90 | part in ('0', '1') and number > 50
"""


def test_spark_answers_the_same_with_and_without(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 100, 1, 1).selectExpr(
        "if(id % 9 = 0, null, cast(id as int)) as number",
        "if(id % 9 = 1, null, if(id % 10 = 2, double('NaN'), id / 4)) as real",
        "if(id % 9 = 2, null, cast(id as string)) as text",
        "if(id % 9 = 3, null, id % 2 = 0) as flag",
        "if(id % 9 = 4, null, cast(id * 0.335 as decimal(9, 3))) as money",
        "if(id % 9 = 5, null, date_add(date'2024-01-01', cast(id as int) % 10)) as day",
        "if(id % 9 = 6, null, timestamp'2024-01-01 00:00:00' + make_dt_interval(0, cast(id as int))) as time",
        "if(id % 9 = 7, null, named_struct('x', id)) as inner",
        "if(id % 3 = 2, null, id % 3) as part",
    ).write.partitionBy("part").orc(f"{tmp_path}/t")
    questions = [one.strip() for line in QUESTIONS.strip().splitlines() for one in line.split("|")]
    native = spark.read.orc(f"{tmp_path}/t")
    counted = [functions.expr(f"count_if({one})").alias(f"q{at}") for at, one in enumerate(questions)]
    expected = dict(zip(questions, native.agg(*counted).first() or (), strict=True))
    ours = spark.read.format("orcstream").option("pushdown", "true").load(f"{tmp_path}/t")
    assert {one: ours.where(one).count() for one in questions} == expected


def test_the_session_must_allow_it(spark: SparkSession, tmp_path: Path) -> None:
    with orcstream.blocking.create(str(tmp_path / "t.orc"), "struct<id:int>") as out:
        out.write([(1,)])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
            spark.read.format("orcstream").option("pushdown", "true").load(str(tmp_path)).count()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
