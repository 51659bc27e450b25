"""A scan through Spark: against a data source that yields prebuilt batches, and against Spark's own reader.

The first says what the interface for Python data sources costs by itself, which no reader can save. Then many
small files, ten times as many, and what planning them takes of memory. Knows PySpark; one session, local[2].
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import orcstream
from bench import lineitem
from bench.report import Figure, interleave
from orcstream.spark import OrcStreamDataSource

ROOT = Path(__file__).resolve().parent.parent
# How many times as long as the null source a scan may take, and ten times the files as ten times one.
OVER_NULL = 1.2
OVER_TEN_TIMES = 1.2
KIB_OF_A_FILE = 2
COLUMNS = ",".join(lineitem.THREE_COLUMNS)
_AGGREGATE = ("sum(l_partkey)", "sum(l_extendedprice)", "sum(length(l_shipmode))")


class _Batches(DataSourceReader):
    """Yields the batches of an Arrow file, which is in the page cache, in two tasks."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as source:
            file = pa.ipc.open_file(source)
            for number in range(partition.value, file.num_record_batches, 2):
                yield file.get_batch(number)


class NullDataSource(DataSource):
    """What Spark's interface costs by itself."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - of the interface
        return _Batches(self.options["path"])


def measure(*, quick: bool) -> list[Figure]:
    spark = session()
    try:
        return [*_scan(spark, quick=quick), *_many(spark, quick=quick)]
    finally:
        spark.stop()


def session(settings: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """A session with both data sources."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)  # of the workers, which import this module
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for source in (OrcStreamDataSource, NullDataSource):
        spark.dataSource.register(source)
    return spark


# --- a scan ----------------------------------------------------------------------------------------


def _scan(spark: SparkSession, *, quick: bool) -> list[Figure]:
    path = lineitem.path_of("zstd", 1_000_000 if quick else lineitem.ROWS)
    ours = spark.read.format("orcstream").option("columns", COLUMNS).load(str(path))
    with null_frame(spark, path, ours.schema) as null:
        native = spark.read.orc(str(path)).select(*lineitem.THREE_COLUMNS)
        frames = {"ours": ours, "null": null, "native": native}
        answers = {name: aggregated(frame) for name, frame in frames.items()}
        assert len(set(answers.values())) == 1, answers
        times = interleave(
            3 if quick else 9,
            **{name: lambda frame=frame: aggregated(frame) for name, frame in frames.items()},
        )
    ours_s, null_s, native_s = (times[name].wall_s for name in ("ours", "null", "native"))
    beside = f"{ours_s:.2f} s; null source {null_s:.2f} s; Spark's own {native_s:.2f} s"
    return [
        Figure(
            "spark",
            "three columns to an aggregate, local[2]: as long as a source of prebuilt batches",
            ours_s / null_s,
            floor=OVER_NULL,
            at_most=True,
            beside=beside,
        ),
        Figure("spark", "the same: as long as Spark's own ORC reader", ours_s / native_s),
    ]


@contextlib.contextmanager
def null_frame(spark: SparkSession, path: Path, schema: StructType) -> Iterator[DataFrame]:
    """The three columns of a file as prebuilt batches."""
    with tempfile.TemporaryDirectory() as folder:
        prebuilt = Path(folder) / "prebuilt.arrow"
        _prebuild(path, schema, prebuilt)
        yield spark.read.format("prebuilt").schema(schema).load(str(prebuilt))


def _prebuild(path: Path, schema: StructType, target: Path) -> None:
    shape = to_arrow_schema(schema, timezone="UTC")
    with orcstream.blocking.open(path) as file, pa.OSFile(str(target), "wb") as sink:
        stream = file.batches(columns=lineitem.THREE_COLUMNS, timestamp_unit="us")
        with stream, pa.ipc.new_file(sink, shape) as out:
            for batch in stream:
                out.write_batch(pa.record_batch(batch).cast(shape))


def aggregated(frame: DataFrame) -> tuple[Any, ...]:
    return tuple(round(value) for value in frame.selectExpr(*_AGGREGATE).first() or ())


# --- many files ------------------------------------------------------------------------------------


def _many(spark: SparkSession, *, quick: bool) -> list[Figure]:
    few = 50 if quick else 300
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for count in (few, 10 * few):
            paths[count] = f"{folder}/{count}"
            _write_files(Path(paths[count]), count)
        seconds = {}
        for count, path in paths.items():
            frame = spark.read.format("orcstream").load(path)
            assert frame.count() == count * 100
            began = time.perf_counter()
            frame.count()
            seconds[count] = time.perf_counter() - began
        peaks = {count: _planning_peak_bytes(path) for count, path in paths.items()}
    once = _fixed_s(spark)
    ratio = (seconds[10 * few] - once) / (seconds[few] - once) / 10
    return [
        Figure(
            "spark",
            f"{10 * few} files: as long as ten times {few}",
            ratio,
            floor=OVER_TEN_TIMES,
            at_most=True,
            beside=f"{seconds[few]:.2f} s and {seconds[10 * few]:.2f} s, of which a query's {once:.2f} s",
        ),
        Figure(
            "spark",
            "memory that each file more takes while a read is planned",
            (peaks[10 * few] - peaks[few]) / (9 * few) / 1024,
            unit="KiB",
            floor=KIB_OF_A_FILE,
            at_most=True,
        ),
    ]


def _write_files(folder: Path, count: int) -> None:
    folder.mkdir()
    first = folder / "0.orc"
    with orcstream.blocking.create(str(first), "struct<id:bigint,text:string>") as out:
        out.write([(row, str(row)) for row in range(100)])
    data = first.read_bytes()
    for number in range(1, count):
        (folder / f"{number}.orc").write_bytes(data)


def _fixed_s(spark: SparkSession) -> float:
    """What the smallest query takes."""
    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder) / "t", 1)
        frame = spark.read.format("orcstream").load(f"{folder}/t")
        frame.count()
        began = time.perf_counter()
        frame.count()
        return time.perf_counter() - began


_PLAN = """
import sys
from orcstream.spark.read.reading import reader_of, schema_of
options = {"path": sys.argv[1]}
reader_of(schema_of(options), options).partitions()
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def _planning_peak_bytes(path: str) -> int:
    run = subprocess.run(
        [sys.executable, "-c", _PLAN, path], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    return int(run.stdout.split()[-1]) * 1024
