"""Tables that Spark writes natively, and tables compared as Arrow, so that nothing of a value is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

__all__ = ["jvm_zone", "same_rows", "sorted_rows", "times", "types"]

_YEAR = 31_556_952_123_457
# Every third is null. 2024-10-27 00:00 UTC: in Berlin an hour came twice.
_TIMES = {
    "repeated": "timestamp_micros(1729987200000000 + id * 5400001)",
    "old": f"timestamp_micros(1700000000000000 - id * {_YEAR})",
    "far": f"timestamp_micros(1700000000000000 + id * {_YEAR} * 3)",
    "day": "date_sub(date'2024-03-01', cast(id * 361 as int))",
}
_PLAIN = {
    "flag": "id % 7 < 3",
    "tiny": "cast(id % 256 - 128 as byte)",
    "small": "cast(id * 31 - 32768 as short)",
    "number": "cast(hash(id) as int)",
    "big": "xxhash64(id)",
    "real": "cast(if(id % 11 = 0, 'NaN', id / 3) as float)",
    "double_": "cast(if(id % 13 = 0, '-0.0', if(id % 17 = 0, 'Infinity', id / 7)) as double)",
    "text": "concat('ä€𝄞 ', repeat(cast(id as string), cast(id % 5 as int)))",
    "fixed": "cast(id as char(12))",
    "bounded": "cast(id as varchar(12))",
    "bytes": "unhex(sha1(cast(id as string)))",
    "money": "cast(id * 1.07 - 500 as decimal(9, 2))",
    "wide": "cast(hash(id) as decimal(38, 10)) * 1000000007",
    "clock": "cast('2024-03-31 02:30:00' as timestamp_ntz) - make_dt_interval(cast(id * 400 as int))",
    "span": "make_dt_interval(cast(id % 1000 - 500 as int), 1, 2, id / 8)",
    "months": "make_ym_interval(cast(id % 50 - 25 as int), 7)",
}


def types(spark: SparkSession, rows: int) -> DataFrame:
    """All types that Spark writes to ORC, with nulls, and most of them inside others."""
    columns = [f"if(id % 3 = 0, null, {text}) as {name}" for name, text in {**_PLAIN, **_TIMES}.items()]
    plain = spark.range(0, rows, 1, 2).selectExpr("id", *columns)
    return plain.selectExpr(
        "*",
        "if(id % 5 = 0, null, struct(number, text, struct(old, money) as inner)) as nested",
        "if(id % 4 = 0, null, array(repeated, old, null)) as times",
        "array(struct(day, fixed), null) as structs",
        "map(cast(id as string), span, 'x', null) as spans",
        "if(id % 6 = 0, map(), map(id, array(wide, null))) as lists",
    )


def times(spark: SparkSession, rows: int) -> DataFrame:
    """Points in time, as many types as have them."""
    columns = [f"{text} as {name}" for name, text in _TIMES.items()]
    return spark.range(0, rows, 1, 1).selectExpr("id", *columns)


@contextmanager
def jvm_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    """The zone that Spark writes TIMESTAMP columns in."""
    zones: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


def sorted_rows(frame: DataFrame, by: str = "id") -> pa.Table:
    return frame.toArrow().sort_by(by).combine_chunks()


def same_rows(ours: DataFrame, theirs: DataFrame, by: str = "id") -> None:
    """The same columns of the same types with the same values."""
    assert ours.dtypes == theirs.dtypes
    one, other = sorted_rows(ours, by), sorted_rows(theirs, by)
    assert one.num_rows == other.num_rows
    for name in one.column_names:
        if one[name] == other[name] or _as_text(one[name]) == _as_text(other[name]):
            continue
        pairs = zip(one[by].to_pylist(), _as_text(one[name]), _as_text(other[name]), strict=True)
        raise AssertionError((name, [pair for pair in pairs if pair[1] != pair[2]][:5]))


def _as_text(column: pa.ChunkedArray) -> list[str]:
    """NaN is equal to itself here, and 0.0 not to -0.0."""
    return [str(value) for value in column]
