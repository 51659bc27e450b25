"""The jobs on Spark itself: rows of files become ORC files, which are compacted, verified and profiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.orc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import orcstream
from orcstream.errors import UsageError
from orcstream.io import folders
from orcstream.spark import jobs

# Spark takes long to begin where others are at work.
pytestmark = pytest.mark.timeout(300)


def data_files(folder: Path) -> list[Path]:
    found = (path.relative_to(folder) for path in folder.rglob("*.orc") if path.is_file())
    return [folder / path for path in sorted(found) if not folders.is_hidden(path.as_posix())]


def ids(folder: Path) -> list[int]:
    return sorted(
        one for file in data_files(folder) for one in pyarrow.orc.read_table(file)["id"].to_pylist()
    )


def lines(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"id": one, "text": f"text {one}", "day": f"d{one % 2}"}) for one in numbers]
    (folder / name).write_text("\n".join(rows))


def test_ingested_compacted_verified_profiled(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    told: list[tuple[str, int, int]] = []
    for number in range(2):
        lines(source, f"{number}.json", range(number * 100, number * 100 + 100))
        found = jobs.ingest(
            spark,
            str(source),
            str(target),
            format="json",
            schema="id bigint, text string, day string",
            partition_by=["day"],
            options={"blooms": "text", "timezone": "UTC"},
            progress=lambda *given: told.append(given),
        )
        # What was taken before is not taken again.
        assert (found.row_count, found.batch_count) == (100, 1)
    assert ids(target) == list(range(200))
    assert told[-1] == ("ingesting rows", 100, 0)

    compacted = jobs.compact(spark, str(target), progress=lambda *given: told.append(given))
    assert (compacted.made_count, compacted.left) == (2, ())
    assert ids(target) == list(range(200))
    assert len(data_files(target)) == 2
    assert told[-1] == ("merging files", 2, 2)

    verified = jobs.verify(spark, str(target), report=str(tmp_path / "report"))
    assert (verified.is_sound, verified.row_count, verified.file_count) == (True, 200, 2)
    report = spark.read.format("orcstream").load(str(tmp_path / "report"))
    assert report.columns == ["url", "stripe", "row_group", "column", "kind", "recorded", "found", "known"]
    assert report.count() == 0

    profiled = jobs.profile(spark, str(target), report=str(tmp_path / "profile"))
    assert profiled["id"].maximum == "199"
    assert profiled["id"].distinct == pytest.approx(200, rel=0.1)
    table = spark.read.format("orcstream").load(str(tmp_path / "profile"))
    (row,) = table.where("name = 'text'").collect()
    assert (row.value_count, row.null_count, row.type) == (200, 0, "string")
    assert "BLOOM_FILTER_UTF8" in row.stream_bytes


def test_z_order_reads_less(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 40_000, 1, 2).select(
        "id",
        (f.hash("id") % 10_000).alias("a"),
        f.concat(f.lit("k"), f.hash("id", f.lit(1)) % 10_000).alias("b"),
    )
    options = {"row_index_stride": "500", "compression": "none", "timezone": "UTC"}
    for name, order in (("plain", {}), ("sorted", {"sort_by": ["a"]}), ("z", {"z_order_by": ["a", "b"]})):
        target = str(tmp_path / name)
        given: dict[str, Any] = {**order, "options": options, "job": name, "partitions": 2 if order else None}
        assert jobs.ingest(spark, df, target, **given).row_count == 40_000
        # Under the same name it is done.
        assert jobs.ingest(spark, df, target, **given).row_count == 0
        assert ids(tmp_path / name) == list(range(40_000))
    on_a, on_b = orcstream.col("a") == 4711, orcstream.col("b") == "k4711"
    plain, by_a, z = (
        {where: _pruned(tmp_path / name, where) for where in (on_a, on_b)}
        for name in ("plain", "sorted", "z")
    )
    assert plain[on_a] == plain[on_b] == 0
    assert by_a[on_a] > 38_000
    assert by_a[on_b] == 0
    assert z[on_a] > 28_000
    assert z[on_b] > 28_000
    assert _bytes_read(tmp_path / "z", on_b) < 0.7 * _bytes_read(tmp_path / "plain", on_b)


def _pruned(folder: Path, where: orcstream.Expr) -> int:
    total = 0
    for path in data_files(folder):
        with orcstream.blocking.open(path) as file:
            plan = file.explain(where=where)
            total += plan.rows_pruned_by_file + plan.rows_pruned_by_stripe + plan.rows_pruned_by_row_group
    return total


def _bytes_read(folder: Path, where: orcstream.Expr) -> int:
    total = 0
    for path in data_files(folder):
        with orcstream.blocking.open(path) as file, file.batches(where=where) as stream:
            for _ in stream:
                pass
            total += stream.stats.bytes_wanted
    return total


def test_what_cannot_be_ingested(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(3).toDF("id")
    with pytest.raises(orcstream.UsageError, match=r"\bsort_by\b.*\bz_order_by\b"):
        jobs.ingest(spark, df, str(tmp_path), sort_by=["id"], z_order_by=["id"])
    with pytest.raises(orcstream.UsageError, match=r"'x'.*\bid\b"):
        jobs.ingest(spark, df, str(tmp_path), sort_by=["x"])
    with pytest.raises(orcstream.UsageError, match=r"\bformat: csv\b"):
        jobs.ingest(spark, "folder", str(tmp_path))
    with pytest.raises(orcstream.UsageError, match=r"\bcheckpoint\b"):
        jobs.ingest(spark, "rows.csv", "s3://bucket/table", schema="id int")
    with pytest.raises(orcstream.UsageError, match=r"\bbloom\b"):
        jobs.ingest(spark, df, str(tmp_path), options={"bloom": "id"})


@pytest.mark.parametrize("value", ["x", 1.5, None, True, 0, -1])
@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("compact", "target_bytes"),
        ("compact", "below_bytes"),
        ("compact", "memory_limit"),
        ("compact_table", "memory_limit"),
        ("ingest", "batch_bytes"),
        ("ingest", "partitions"),
        ("verify", "piece_bytes"),
    ],
)
def test_numbers_that_jobs_take_are_integers(tmp_path: Path, job: str, name: str, value: Any) -> None:
    if value is None and name in ("below_bytes", "partitions"):
        return  # the default
    given: list[Any] = [None, str(tmp_path), str(tmp_path)] if job == "ingest" else [None, str(tmp_path)]
    with pytest.raises(UsageError, match=name):
        getattr(jobs, job)(*given, **{name: value})
