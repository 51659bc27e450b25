"""Streams through Spark itself: its offsets, its triggers, its restarts.

What is read when is tried without Spark, in `test_stream_feed`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.conftest import ZONE

# JVMs start, one of them in a program of its own.
pytestmark = pytest.mark.timeout(300)

# Keeps the first batch as a file of JSON, and dies.
CHILD = """
import json, os, sys
from pyspark.sql import SparkSession
from orcstream.spark import OrcStreamDataSource

source, checkpoint, sink = sys.argv[1:]

def keep(frame, batch):
    with open(os.path.join(sink, str(batch)), "x") as file:
        json.dump(sorted(row.id for row in frame.collect()), file)
    os._exit(9)

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
session.dataSource.register(OrcStreamDataSource)
stream = session.readStream.format("orcstream").schema("id bigint").option("maxFilesPerTrigger", "2")
query = (
    stream.load(source)
    .writeStream.foreachBatch(keep)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
"""


def add(folder: Path, file: str, ids: list[int], **columns: list[Any]) -> Path:
    path = folder / file
    hidden = folder / f".{file}.new"
    pyarrow.orc.write_table(pa.table({"id": ids, **columns}), str(hidden), compression="uncompressed")
    hidden.rename(path)
    return path


class Stream:
    """A query into memory that can be started again; batches as lists of rows."""

    def __init__(self, spark: SparkSession, folder: Path, checkpoint: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Any]] = {}
        self.between: Callable[[], object] = lambda: None

    def start(self, schema: str | None = "id bigint", **options: str) -> StreamingQuery:
        reading = self.spark.readStream.format("orcstream").options(**options)
        if schema is not None:
            reading = reading.schema(schema)

        def keep(frame: DataFrame, batch: int) -> None:
            self.between()
            rows = frame.collect()
            self.batches[batch] = sorted(row[0] if len(row) == 1 else tuple(row) for row in rows)

        writing = reading.load(str(self.folder)).writeStream.foreachBatch(keep)
        return writing.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def run(self, schema: str | None = "id bigint", **options: str) -> StreamingQuery:
        query = self.start(schema, **options)
        query.awaitTermination()
        return query

    @property
    def offsets(self) -> list[str]:
        """The lines that Spark has logged, of our source."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return [path.read_text().splitlines()[-1] for path in files]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    (tmp_path / "in").mkdir()
    return Stream(spark, tmp_path / "in", tmp_path / "checkpoint")


def test_available_now_over_restarts(stream: Stream) -> None:
    """Caps hold, what comes meanwhile is for the next run, progress says what waits."""
    for number in range(5):
        add(stream.folder, f"f{number}.orc", [number])
    stream.between = lambda: add(stream.folder, f"late{len(stream.batches)}.orc", [100 + len(stream.batches)])
    query = stream.run(maxFilesPerTrigger="2")
    assert list(stream.batches.values()) == [[0, 1], [2, 3], [4]]
    progress = [json.loads(one.json)["sources"][0] for one in query.recentProgress if one.numInputRows]
    assert [one["latestOffset"]["files_waiting"] for one in progress if one["latestOffset"]] == [3, 1, 0]
    stream.between = lambda: None
    stream.run(maxFilesPerTrigger="10")
    assert sorted(row for rows in stream.batches.values() for row in rows) == [0, 1, 2, 3, 4, 100, 101, 102]
    assert [json.loads(one)["batch"] for one in stream.offsets] == [1, 2, 3, 4]
    assert max(map(len, stream.offsets)) < 70


def test_a_stream_that_goes_on(stream: Stream) -> None:
    """Files arrive while the query runs; the schema is that of the first."""
    add(stream.folder, "a.orc", [1], name=["x"])
    reading = stream.spark.readStream.format("orcstream").load(str(stream.folder))
    assert reading.schema.simpleString() == "struct<id:bigint,name:string>"
    query = (
        reading.writeStream.format("memory")
        .queryName("going_on")
        .option("checkpointLocation", str(stream.checkpoint))
        .start()
    )
    try:
        for number in range(2, 4):
            query.processAllAvailable()
            add(stream.folder, f"{number}.orc", [number])
        query.processAllAvailable()
        rows = stream.spark.table("going_on").collect()
        assert sorted(tuple(row) for row in rows) == [(1, "x"), (2, None), (3, None)]
    finally:
        query.stop()


def test_errors_name_the_file(stream: Stream) -> None:
    path = add(stream.folder, "a.orc", [1])
    path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    with pytest.raises(StreamingQueryException, match=r"in/a\.orc"):
        stream.run()


def test_options_that_cannot_be_are_told(stream: Stream) -> None:
    add(stream.folder, "a.orc", [1])
    with pytest.raises(StreamingQueryException, match=r"\bcleanSource\b"):
        stream.run(cleanSource="archive")


def test_from_a_stream_that_is_written_and_merged(stream: Stream, tmp_path: Path) -> None:
    """Both ends at work: what one query writes, another reads, while files are merged."""
    target = tmp_path / "out"

    def copy() -> None:
        reading = stream.spark.readStream.format("orcstream").schema("id bigint").load(str(stream.folder))
        writing = reading.writeStream.format("orcstream").option(
            "checkpointLocation", str(tmp_path / "first")
        )
        query = writing.option("compact_every", "2").trigger(availableNow=True).start(str(target))
        query.awaitTermination()

    second = Stream(stream.spark, target, stream.checkpoint)
    for number in range(3):
        add(stream.folder, f"f{number}.orc", [number])
        copy()
        second.run()
    assert [path.name[:12] for path in target.glob("part-c*")] == ["part-compact"]
    assert list(second.batches.values()) == [[0], [1], [2]]


def test_a_driver_that_dies(stream: Stream, tmp_path: Path) -> None:
    """In a program of its own, between a batch's end and Spark's note of it; another goes on."""
    sink = tmp_path / "sink"
    sink.mkdir()
    for number in range(5):
        add(stream.folder, f"f{number}.orc", [number])
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "TZ": ZONE}
    command = [sys.executable, "-c", CHILD, str(stream.folder), str(stream.checkpoint), str(sink)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 9, done.stderr
    assert json.loads((sink / "0").read_text()) == [0, 1]
    add(stream.folder, "late.orc", [5])
    stream.run(maxFilesPerTrigger="2")
    assert list(stream.batches.values()) == [[0, 1], [2, 3], [4, 5]]
