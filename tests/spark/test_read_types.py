"""Everything that Spark writes is read equal to what Spark reads, in every type, zone and compression."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

import orcstream
from tests.spark.native import jvm_zone, same_rows, times, types

_MONTHS = "cast(extract(year from months) * 12 + extract(month from months) as int)"
CODECS = ("none", "snappy", "zlib", "lz4", "lzo", "zstd")
ZONES = ("Europe/Berlin", "America/New_York", "UTC", "Asia/Kathmandu")


def ours(spark: SparkSession, path: Path | str, **options: str) -> DataFrame:
    return spark.read.format("orcstream").options(**options).load(str(path))


def test_all_types_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    types(spark, 400).write.orc(f"{tmp_path}/t")
    # Python sources cannot hand over intervals of months; they are numbers.
    native = spark.read.orc(f"{tmp_path}/t").withColumn("months", functions.expr(_MONTHS))
    same_rows(ours(spark, tmp_path / "t"), native)


def test_all_compressions(spark: SparkSession, tmp_path: Path) -> None:
    for codec in CODECS:
        rows = spark.range(0, 5000, 1, 1).selectExpr("id", "repeat(cast(id as string), 3) as text")
        rows.write.option("compression", codec).orc(f"{tmp_path}/codec={codec}")
    found = ours(spark, tmp_path).selectExpr("codec", "id", "text = repeat(cast(id as string), 3) as same")
    counted = found.groupBy("codec").agg(
        functions.expr("sum(id)").alias("ids"), functions.expr("count_if(same)").alias("same")
    )
    assert sorted(map(tuple, counted.collect())) == [
        (codec, sum(range(5000)), 5000) for codec in sorted(CODECS)
    ]


def test_times_are_those_that_were_written_whatever_the_zone(spark: SparkSession, tmp_path: Path) -> None:
    table = times(spark, 300)
    for zone in ZONES:
        with jvm_zone(spark, zone):
            table.write.orc(f"{tmp_path}/zone={zone.replace('/', '%2F')}")
    found = ours(spark, tmp_path)
    assert {row.zone for row in found.select("zone").distinct().collect()} == set(ZONES)
    for zone in ZONES:
        same_rows(found.where(f"zone = '{zone}'").drop("zone"), table)


async def test_times_of_others_are_what_their_clock_showed(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "t.orc")
    clock = datetime.datetime(2024, 7, 1, 12, 0, 0, 250)  # noqa: DTZ001 - a wall clock
    point = clock.replace(tzinfo=datetime.UTC)
    schema = "struct<clock:timestamp,point:timestamp with local time zone>"
    async with orcstream.create(url, schema, timezone="America/New_York") as out:
        await out.write([(clock, point)])
    micros = "unix_micros(clock) as clock", "unix_micros(point) as point"
    at_noon = int(point.timestamp() * 10**6)
    hour = 3600 * 10**6
    assert tuple(ours(spark, url).selectExpr(*micros).first() or ()) == (at_noon + 4 * hour, at_noon)
    there = ours(spark, url, timezone="Asia/Tokyo").selectExpr(*micros).first()
    assert tuple(there or ()) == (at_noon - 9 * hour, at_noon)
    kept = spark.read.format("orcstream").schema("clock timestamp_ntz").load(url)
    assert [row.clock for row in kept.collect()] == [clock]


async def test_texts_of_fixed_length_and_unions(spark: SparkSession, tmp_path: Path) -> None:
    texts, unions = str(tmp_path / "texts.orc"), str(tmp_path / "unions.orc")
    async with orcstream.create(texts, "struct<a:char(5),b:varchar(3)>") as out:
        await out.write([("ab", "xyz"), (None, None)])
    async with orcstream.create(unions, "struct<a:char(5),u:uniontype<int,string>>") as out:
        await out.write([("ab", None)])
    same_rows(ours(spark, texts), spark.read.orc(texts), by="b")
    assert ours(spark, texts).dtypes == spark.read.orc(texts).dtypes
    # Spark itself cannot even say what is in such a file.
    assert [row.a.rstrip() for row in ours(spark, unions, columns="a").collect()] == ["ab"]
    with pytest.raises(Exception, match=r"\bu\b.*\boption"):
        ours(spark, unions).collect()
