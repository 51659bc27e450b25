"""Ingestion: rows of files, of a stream or of a table become ORC files, each row once, over restarts.

Knows Spark's readers and its streams. Must not know how files are committed: that is the commit log of the
target, the same that streams have. Files of a folder are read as a stream, whose checkpoint says which of
them were taken, so a job that is started again takes the others.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from orcstream._credentials import strip_credentials
from orcstream._keywords import check_integer
from orcstream.errors import Unsupported, UsageError
from orcstream.io.urls import protocol_of
from orcstream.spark.access import run
from orcstream.spark.jobs.distributing import Progress, is_connect
from orcstream.spark.options import Options
from orcstream.spark.read.merge_records import JOBS_FOLDER

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from orcstream.spark.write.options import WritePlan

FORMATS: Final = ("csv", "json", "parquet", "orc", "text")
# Other names that files of these have.
_ALSO: Final = {"jsonl": "json", "ndjson": "json", "tsv": "csv"}
# What makes a path a pattern, for Hadoop.
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")
_POLL_S: Final = 1
_LABEL: Final = "ingesting rows"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What this run has written below `url`: files that were taken earlier are not counted.

    `batch_count` batches with `row_count` rows became `file_count` files, of `length` bytes together.
    """

    url: str
    batch_count: int
    row_count: int
    file_count: int
    length: int


def ingest(
    spark: SparkSession,
    source: str | DataFrame,
    target: str,
    *,
    format: str | None = None,
    schema: str | None = None,
    source_options: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    sort_by: Sequence[str] = (),
    z_order_by: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    partitions: int | None = None,
    batch_bytes: int = 16 << 30,
    checkpoint: str | None = None,
    job: str | None = None,
    progress: Progress | None = None,
) -> IngestResult:
    """Write rows to ORC files in a folder.

    `source` is a folder, a file or a pattern, whose `format` is csv, json (an object in a line), parquet, orc
    or text, read by Spark with `source_options` and `schema` (which is inferred where it is not given); or a
    DataFrame, of a stream or not. `options` are those of the data source's writer: `encrypt`, `keys`,
    `blooms`, `max_bytes_per_file`, `storage_options` and so on.

    `sort_by` writes rows in the order of these columns; `z_order_by` so that row groups are narrow in all of
    them, for predicates on any. `partition_by` are columns that become folders. `partitions` is in how many
    tasks ordered rows are written, else Spark decides.

    Each row is written once, wherever the job is killed, if it is started again with the same `checkpoint`,
    which says what was taken. For files it is a folder in the target unless given; the next run takes what
    has come to `source` since. `batch_bytes` of files are committed at a time. A DataFrame of a stream needs
    a checkpoint, and what is there is written; one of a table is written once under the name of a `job`.

    Raises `UsageError` for what cannot be, `Unsupported` for files and streams over Spark Connect, and what
    Spark raises.
    """
    check_integer("batch_bytes", batch_bytes, 1)
    if partitions is not None:
        check_integer("partitions", partitions, 1)
    if sort_by and z_order_by:
        raise UsageError("rows are in one order: give sort_by or z_order_by")
    order = partial(_ordered, tuple(sort_by), tuple(z_order_by), partitions)
    given = {"path": target, **(options or {})}
    if partition_by:
        given["partition_by"] = json.dumps(list(partition_by))
    sink = _Sink(given, order, progress)
    if is_connect(spark) and (isinstance(source, str) or source.isStreaming):
        raise Unsupported(
            "ingest reads files as a stream, whose batches come back to this program; Spark Connect cannot "
            "do that: pass spark.read....load(...) as the source, or use a session without Spark Connect",
            reason="spark_connect",
        )
    if isinstance(source, str):
        place = checkpoint or _checkpoint(source, target)
        frame = _files(
            spark, source, format, schema, {"maxBytesPerTrigger": str(batch_bytes), **(source_options or {})}
        )
        _stream(frame, place, sink)
    elif source.isStreaming:
        if checkpoint is None:
            raise UsageError("a stream needs a checkpoint: a folder that says what was taken")
        _stream(source, checkpoint, sink)
    else:
        sink.write(source, f"ingest-{_short(job or uuid.uuid4().hex)}", 0)
    return sink.result()


# --- sources ---------------------------------------------------------------------------------------


def _files(
    spark: SparkSession, source: str, format_: str | None, schema: str | None, options: Mapping[str, str]
) -> DataFrame:
    """A stream of the files that there are and will be."""
    named = format_ or source.rstrip("/").rpartition(".")[2].lower()
    name = _ALSO.get(named, named)
    if name not in FORMATS:
        raise UsageError(
            f"the name does not say what this is; give a format: {', '.join(FORMATS)}",
            url=source,
        )
    if named == "tsv":
        options = {"sep": "\t", **options}
    source = _streamable(spark, source)
    wanted: Any = schema
    if wanted is None:
        static = {key: value for key, value in options.items() if key != "maxBytesPerTrigger"}
        wanted = spark.read.format(name).options(**static).load(source).schema
    return spark.readStream.format(name).schema(wanted).options(**options).load(source)


def _streamable(spark: SparkSession, source: str) -> str:
    """A file as a pattern that it alone matches: Spark's streams are of folders and patterns."""
    jvm: Any = spark._jvm  # noqa: SLF001 - only Hadoop's own file systems know what Spark would find there
    path = jvm.org.apache.hadoop.fs.Path(source)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    if _PATTERN.search(source) or not path.getFileSystem(configuration).isFile(path):
        return source
    return f"{source[:-1]}[{source[-1]}]"


def _checkpoint(source: str, target: str) -> str:
    """In the target, where Spark can write there."""
    if protocol_of(target) not in ("file", "local", "hdfs", "s3a", "abfs", "abfss", "gs"):
        raise UsageError(
            "Spark itself cannot write there: give a checkpoint, a folder that it can write to",
            url=target,
        )
    return f"{target.rstrip('/')}/{JOBS_FOLDER}/ingest-{_short(source)}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stream(df: DataFrame, checkpoint: str, sink: _Sink) -> None:
    """Write all that there is, batch by batch."""
    started = threading.Event()
    names: list[str] = []

    def write(batch: DataFrame, number: int) -> None:
        started.wait()
        sink.write(batch, names[0], number)

    query = (
        df.writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    # The id of the checkpoint: another checkpoint counts its batches from 0 again.
    names.append(str(query.id))
    started.set()
    try:
        while not query.awaitTermination(_POLL_S):
            sink.tell()
    except BaseException:
        query.stop()
        raise


# --- batches ---------------------------------------------------------------------------------------


class _Sink:
    """Writes batches to the target, each once, and counts what it has written."""

    def __init__(
        self, given: Mapping[str, str], order: Callable[[DataFrame], DataFrame], progress: Progress | None
    ) -> None:
        self._given = given
        self._order = order
        self._progress = progress
        self._run = uuid.uuid4().hex
        self._batches = self._rows = self._files = self._length = 0

    def tell(self) -> None:
        if self._progress is not None:
            self._progress(_LABEL, self._rows, 0)

    def result(self) -> IngestResult:
        shown = strip_credentials(self._given["path"])
        return IngestResult(shown, self._batches, self._rows, self._files, self._length)

    def write(self, df: DataFrame, query: str, batch: int) -> None:
        """Write a batch unless it is there; may be called again with the same rows."""
        from orcstream.spark.stream.writing import BatchFiles, StreamPlan, commit_batch
        from orcstream.spark.write.options import write_plan

        given = Options(self._given)
        plan = write_plan(df.schema, given)
        given.finish()
        if run(partial(_is_done, plan, query, batch)):
            return
        work = partial(_write_task, plan, f"{query}-{batch}")
        found = self._order(df).mapInArrow(work, "files binary").collect()
        files = [file for row in found for file in pickle.loads(row[0])]  # noqa: S301 - of our own tasks
        message = BatchFiles(query, self._run, 0, files)
        run(partial(commit_batch, StreamPlan(plan, 0, 1, overwrite=False), batch, [message]))
        self._batches += 1
        self._rows += sum(file.row_count for file in files)
        self._files += len(files)
        self._length += sum(file.length for file in files)
        self.tell()


async def _is_done(plan: WritePlan, query: str, batch: int) -> bool:
    from orcstream.spark.stream.commit_log import CommitLog

    return batch <= (await CommitLog.open(plan, query)).last_done


def _write_task(plan: WritePlan, batch: str, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from orcstream.spark.stream.writing import write_batch

    files = write_batch(plan, batch, rows)
    yield pa.record_batch({"files": pa.array([pickle.dumps(files)], pa.binary())})


def _ordered(
    sort_by: Sequence[str], z_order_by: Sequence[str], partitions: int | None, df: DataFrame
) -> DataFrame:
    from orcstream.spark.jobs.clustering import in_order, in_z_order

    if sort_by:
        return in_order(df, sort_by, partitions)
    if z_order_by:
        return in_z_order(df, z_order_by, partitions)
    return df
