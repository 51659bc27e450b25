"""`ingest` of what others wrote: each kind of source with each of its options, read back by two readers.

Rows are made by pyarrow, which writes them in each format; what was ingested is read by this data source and
by Spark's own reader of ORC.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

import orcstream
from orcstream.spark import jobs
from tests.spark.conftest import ZONE
from tests.spark.native import sorted_rows
from tests.spark.test_jobs import data_files

pytestmark = pytest.mark.timeout(300)

ROWS = 300
COLUMNS = "id bigint, amount decimal(9,2), ratio double, flag boolean, text string, at timestamp, day date"
START = datetime.datetime(2024, 10, 26, 20, tzinfo=datetime.UTC)
# What is secret, and what is looked for.
KEY = b"\7" * 16
OPTIONS = {"encrypt": "pii:text,amount", "blooms": "id,text", "row_index_stride": "50", "timezone": ZONE}
# Between the texts of some row group, and in none of them.
NO_TEXT = 'ä€𝄞, "1000" \\'


def rows(numbers: range) -> pa.Table:
    """A third of most columns is null; times are about an hour that came twice in Berlin."""

    def some(value: Callable[[int], Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if one % 3 == 0 else value(one) for one in numbers], type_)

    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "amount": some(lambda one: Decimal(one) / 4 - 20, pa.decimal128(9, 2)),
            "ratio": some(lambda one: one / 7, pa.float64()),
            "flag": some(lambda one: one % 2 == 0, pa.bool_()),
            "text": some(lambda one: f'ä€𝄞, "{one}" \\', pa.string()),
            "at": some(
                lambda one: START + datetime.timedelta(minutes=one, microseconds=one),
                pa.timestamp("us", "UTC"),
            ),
            "day": pa.array([datetime.date(2024, 10, 26 + one % 2) for one in numbers]),
        }
    )


def _csv(path: Path, table: pa.Table) -> None:
    pyarrow.csv.write_csv(table, path)


def _json(path: Path, table: pa.Table) -> None:
    lines = [
        json.dumps({k: v for k, v in row.items() if v is not None}, default=str) for row in table.to_pylist()
    ]
    path.write_text("\n".join(lines))


def _parquet(path: Path, table: pa.Table) -> None:
    pyarrow.parquet.write_table(table, path)


def _orc(path: Path, table: pa.Table) -> None:
    pyarrow.orc.write_table(table, path)


# How a source is written, and what Spark has to be told to read it.
SOURCES: dict[str, tuple[Callable[[Path, pa.Table], None], dict[str, Any]]] = {
    "csv": (_csv, {"schema": COLUMNS, "source_options": {"header": "true", "escape": '"'}}),
    "json": (_json, {"schema": COLUMNS}),
    "parquet": (_parquet, {}),
    "orc": (_orc, {}),
}


def read_back(spark: SparkSession, folder: Path, keys: Path | None = None) -> DataFrame:
    options = {} if keys is None else {"keys": str(keys)}
    return spark.read.format("orcstream").options(**options).load(str(folder))


def same(frame: DataFrame, expected: pa.Table) -> None:
    found = sorted_rows(frame.select(*expected.column_names))
    assert found.cast(expected.schema).equals(expected)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"pii": {"0": KEY.hex()}}))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("name", SOURCES)
def test_rows_of_each_format(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write, given = SOURCES[name]
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number in range(2):
        write(source / f"{number}.{name}", rows(range(number * ROWS // 2, (number + 1) * ROWS // 2)))
    found = jobs.ingest(
        spark,
        str(source),
        str(target),
        format=name,
        partition_by=["day"],
        options={"timezone": ZONE},
        **given,
    )
    assert (found.row_count, found.file_count) == (ROWS, len(data_files(target)))
    assert found.length == sum(path.stat().st_size for path in data_files(target))
    same(read_back(spark, target), rows(range(ROWS)))
    same(spark.read.orc(str(target)), rows(range(ROWS)))


@pytest.mark.parametrize(
    "order", [{"sort_by": ["ratio"]}, {"z_order_by": ["id", "at", "amount", "flag"], "partitions": 2}]
)
def test_encrypted_with_blooms_in_order_by_partitions(
    spark: SparkSession, tmp_path: Path, keys: Path, order: dict[str, Any]
) -> None:
    source, target = tmp_path / "rows.parquet", tmp_path / "out"
    _parquet(source, rows(range(ROWS)))
    options = {**OPTIONS, "keys": str(keys)}
    jobs.ingest(spark, str(source), str(target), partition_by=["day"], options=options, **order)
    same(read_back(spark, target, keys), rows(range(ROWS)))
    # Who has no key reads the rest.
    hidden = ["text", "amount"]
    native = spark.read.orc(str(target))
    same(native.drop(*hidden), rows(range(ROWS)).drop(hidden))
    assert native.where("text is not null or amount is not null").count() == 0
    provider = orcstream.io.keys.InMemoryKeyProvider()
    provider.add_key("pii", KEY)
    by_bloom = 0
    for path in data_files(target):
        with orcstream.blocking.open(path, keys=provider) as file:
            assert {one.name for one in file.encrypted_columns} == set(hidden)
            kinds = [(one.kind.name, one.column) for one in file.stripe_footer(0).streams]
            assert ("BLOOM_FILTER_UTF8", file.schema["id"].column_id) in kinds
            by_bloom += file.explain(where=orcstream.col("text") == NO_TEXT).rows_pruned_by_bloom
            if "sort_by" in order:
                values = pa.table(file.read(columns=["ratio"]))["ratio"].drop_null().to_pylist()
                assert values == sorted(values)
    # The filters of what is encrypted are, too.
    assert by_bloom > 0


def test_lines_of_one_text_file(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in 1 ä.txt", tmp_path / "out"
    lines = [f"ä {one}" for one in range(ROWS)] + [""]
    source.write_text("\n".join([*lines, ""]))
    found = jobs.ingest(spark, str(source), str(target), format="text", sort_by=["value"])
    assert found.row_count == len(lines)
    for frame in (read_back(spark, target), spark.read.orc(str(target))):
        assert sorted_rows(frame, "value")["value"].to_pylist() == sorted(lines)
    # It was taken.
    assert jobs.ingest(spark, str(source), str(target), format="text").row_count == 0


def test_texts_between_tabs(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "rows.tsv", tmp_path / "out"
    source.write_text("id\ttext\n1\ta,b\n2\tc\n")
    given: dict[str, Any] = {"source_options": {"header": "true"}, "schema": "id int, text string"}
    assert jobs.ingest(spark, str(source), str(target), **given).row_count == 2
    assert sorted_rows(read_back(spark, target))["text"].to_pylist() == ["a,b", "c"]


def test_rows_of_streams(spark: SparkSession, tmp_path: Path, keys: Path) -> None:
    """A folder that this data source reads as a stream, with a query above it."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    stream = spark.readStream.format("orcstream").schema(COLUMNS).load(str(source)).where("id % 5 > 0")
    options = {**OPTIONS, "keys": str(keys)}
    for number in range(2):
        _orc(source / f"{number}.orc", rows(range(number * ROWS // 2, (number + 1) * ROWS // 2)))
        found = jobs.ingest(
            spark,
            stream,
            str(target),
            checkpoint=str(tmp_path / "checkpoint"),
            z_order_by=["id", "text"],
            partition_by=["day"],
            options=options,
        )
        assert (found.row_count, found.batch_count) == (ROWS * 2 // 5, 1)
    expected = rows(range(ROWS)).filter(pa.array([one % 5 > 0 for one in range(ROWS)]))
    same(read_back(spark, target, keys), expected)
    with pytest.raises(orcstream.UsageError, match=r"\bcheckpoint\b"):
        jobs.ingest(spark, stream, str(target))
