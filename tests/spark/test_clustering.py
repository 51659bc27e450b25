"""The z-order of rows: ranks among quantiles, and their bits."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from orcstream.errors import UsageError
from orcstream.spark.jobs.clustering import in_z_order, quantiles, ranks, z_numbers

DAY = datetime.date(2024, 1, 1)
TIME = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
KINDS: dict[str, Any] = {
    "int": list(range(-50, 50)),
    "double": [one / 7 for one in range(-50, 50)],
    "text": [f"{one:03}" for one in range(100)],
    "binary": [f"{one:03}".encode() for one in range(100)],
    "bool": [False] * 50 + [True] * 50,
    "date": [DAY + datetime.timedelta(one) for one in range(100)],
    "time": [TIME + datetime.timedelta(hours=one) for one in range(100)],
    "decimal": [decimal.Decimal(one) / 4 for one in range(-50, 50)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_in_the_order_of_values(kind: str) -> None:
    values = pa.array([None, *KINDS[kind]])
    found = ranks(values, quantiles(values, 16), 4)
    assert found[0] == 0
    assert list(found[1:]) == sorted(found[1:])
    assert found.max() <= 15
    assert len(set(found)) == (3 if kind == "bool" else 16) or kind == "bool"


def test_values_that_are_rare_do_not_take_the_room() -> None:
    values = pa.array([*range(1000), 10**12])
    found = ranks(values, quantiles(values, 256), 8)
    assert len(set(found)) > 200
    # A few values are spread over all bits.
    few = pa.array(["a", "b", "c", "d"] * 10)
    assert max(ranks(few, quantiles(few, 256), 8)) > 128


def test_a_column_is_named_once(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"\bid, id\b"):
        in_z_order(spark.range(2), ["id", "id"], 1)


def test_no_values() -> None:
    for type_ in (pa.int64(), pa.string()):
        none = pa.array([None, None], type_)
        assert quantiles(none, 8) == []
        assert list(ranks(none, [], 3)) == [0, 0]
    assert len(ranks(pa.array([1.5, float("nan")]), quantiles(pa.array([float("nan")]), 8), 3)) == 2


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255)), min_size=1))
def test_bits(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    for row, found in zip(rows, z_numbers(columns, 8), strict=True):
        text = "".join(f"{one:08b}"[bit] for bit in range(8) for one in row)
        assert found == int(text, 2)


def test_neighbours_are_close_in_all_columns() -> None:
    chance = random.Random(1)
    a, b = (pa.array([chance.randrange(10_000) for _ in range(8000)]) for _ in range(2))
    numbers = z_numbers([ranks(one, quantiles(one, 1024), 10) for one in (a, b)], 10)
    order = np.argsort(numbers, kind="stable")
    for column in (a.to_numpy(), b.to_numpy()):
        spans = [np.ptp(group) for group in np.split(column[order], 80)]
        # Of 80 groups, each spans about a fifth of either column; in any other order they span all of one.
        assert np.mean(spans) < 10_000 / 4


def test_columns_without_an_order_are_refused_at_once() -> None:
    class Table:
        schema = StructType([StructField("a", LongType()), StructField("l", ArrayType(LongType()))])
        columns = schema.names

    for name, text in (("l", "'l'.*array<bigint>"), ("x", r"'x'.*\ba, l\b")):
        with pytest.raises(UsageError, match=text):
            in_z_order(Table(), ["a", name], None)  # type: ignore[arg-type]
