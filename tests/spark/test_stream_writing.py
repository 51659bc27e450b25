"""Streams that Spark writes through the data source, stopped and started again: every row is there once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.orc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from orcstream.spark import OrcStreamDataSource


def stream(
    spark: SparkSession, tmp_path: Path, source: str = "orcstream", mode: str = "append", **options: Any
) -> None:
    """Write what is new in the folder `in`, a file a batch."""
    new = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    if mode == "complete":
        new = new.groupBy().count().withColumnRenamed("count", "id")
    query = (
        new.writeStream.format(source)
        .outputMode(mode)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .options(timezone="UTC", **options)
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()


def add(tmp_path: Path, number: int) -> None:
    (tmp_path / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"id": one}) for one in range(number * 10, number * 10 + 10)]
    (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))


def files(tmp_path: Path) -> list[Path]:
    return sorted(one for one in (tmp_path / "out").rglob("*.orc") if not one.name.startswith("."))


def ids(tmp_path: Path) -> list[int]:
    found = [one for file in files(tmp_path) for one in pyarrow.orc.read_table(file)["id"].to_pylist()]
    return sorted(found)


class Dying(OrcStreamDataSource):
    """Its driver dies once: where option `dies` says, before the call or after."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from orcstream.spark.stream.writing import OrcStreamWriter, stream_writer_of

        at, marker = self.options["dies"], Path(self.options["marker"])
        given = {name: value for name, value in self.options.items() if name not in ("dies", "marker")}
        writer = stream_writer_of(schema, given, overwrite=overwrite)
        assert isinstance(writer, OrcStreamWriter)

        class DyingWriter(DataSourceStreamArrowWriter):
            def write(self, iterator: Any) -> WriterCommitMessage:
                return writer.write(iterator)

            def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
                if batchId == 1 and not marker.exists():
                    marker.touch()
                    die_at(at)
                writer.commit(messages, batchId)

            def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
                writer.abort(messages, batchId)

        return DyingWriter()


def die_at(name: str) -> None:
    """The process of the commit ends with this call, before it."""
    from orcstream.spark.stream.commit_log import CommitLog
    from orcstream.spark.write import written

    home: Any = CommitLog if name in ("begin", "end") else written

    def die(*_: Any, **__: Any) -> Any:
        os._exit(9)

    setattr(home, name, die)


@pytest.mark.parametrize("dies", ["begin", "commit_files", "end"])
def test_a_driver_that_dies_commits_each_batch_once(spark: SparkSession, tmp_path: Path, dies: str) -> None:
    spark.dataSource.register(Dying)
    for number in range(3):
        add(tmp_path, number)
    options = {"dies": dies, "marker": str(tmp_path / "marker")}
    with pytest.raises(PySparkException):
        stream(spark, tmp_path, "dying", **options)
    assert (tmp_path / "marker").exists()
    assert len(ids(tmp_path)) == len(set(ids(tmp_path))) == (20 if dies == "end" else 10)
    stream(spark, tmp_path, "dying", **options)
    assert ids(tmp_path) == list(range(30))
    assert spark.read.orc(str(tmp_path / "out")).count() == 30
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_small_batches_are_merged_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(5):
        add(tmp_path, number)
        if number in (1, 4):
            stream(spark, tmp_path, compact_every="2", compact_below="1m", max_bytes_per_file="8m")
    assert ids(tmp_path) == list(range(50))
    assert len([one for one in files(tmp_path) if "compact" in one.name]) == 2
    assert len(files(tmp_path)) == 3


def test_complete_output_replaces_itself(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        add(tmp_path, number)
        stream(spark, tmp_path, mode="complete")
        assert ids(tmp_path) == [10 * number + 10]


def test_options_that_cannot_be(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0)
    with pytest.raises(PySparkException, match=r"\bcompact_evry\b"):
        stream(spark, tmp_path, compact_evry="2")
