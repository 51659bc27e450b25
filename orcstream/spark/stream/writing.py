"""Writing a stream of Spark: each batch exactly once, over restarts.

Knows what Spark calls, where, and that it repeats a batch until its commit has returned. Must not know how
files are written (`written`) or merged (`compact.compacting`), or records kept (`commit_log`).

A batch is committed in three steps. An intent names its files, durable and invisible; then they appear; then
a record says that the batch is done. A driver that is killed before the first step leaves nothing that
counts; after it, the next one commits the files of the intent, and not what it has written itself meanwhile,
because some may be visible already. A batch that is done is skipped when Spark repeats it.

The small files of earlier batches are merged by the driver, stripe by stripe, before the next batch begins.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from orcstream._printable import logger_of
from orcstream.errors import OrcError, UsageError
from orcstream.io.folders import list_files
from orcstream.spark.access import run
from orcstream.spark.compact.compacting import Compaction, GroupWork, grouped, look_at, settle, works_of
from orcstream.spark.options import Options
from orcstream.spark.read.merge_records import JOBS_FOLDER, planned_files
from orcstream.spark.stream.commit_log import CommitLog, Intent
from orcstream.spark.write import written
from orcstream.spark.write.options import WritePlan, write_plan
from orcstream.spark.write.written import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa

# What Spark tells tasks about the stream that they are of.
_QUERY: Final = "sql.streaming.queryId"
_RUN: Final = "sql.streaming.runId"
_BATCH: Final = "streaming.sql.batchId"
_PLAIN = re.compile(r"[0-9A-Za-z-]+")
# After so many batches, what killed tasks left is looked for, even where nothing tells that there were any.
SWEEP_EVERY = 100

_logger = logger_of("orcstream.spark")


@dataclass(slots=True)
class BatchFiles(WriterCommitMessage):
    """What a task answers: of which query it is, in which of its runs, and the files that it has prepared."""

    query: str
    run: str
    attempt: int
    files: list[WrittenFile]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """`compact_every` is 0 for no compaction; `compact_below` is in bytes."""

    files: WritePlan
    compact_every: int
    compact_below: int
    overwrite: bool

    @property
    def compaction(self) -> Compaction:
        """How small files are merged."""
        return Compaction(self.files.max_bytes, self.compact_below, "copy", self.files.memory_limit)


def stream_writer_of(
    schema: StructType, options: Mapping[str, str], *, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """The writer for `df.writeStream`; `overwrite` is the output mode complete."""
    given = Options(options)
    plan = write_plan(schema, given)
    every = given.count("compact_every", 0, least=0)
    below = given.size("compact_below", max(1, plan.max_bytes // 2))
    for of_spark in ("checkpointLocation", "queryName"):
        given.text(of_spark)
    given.finish()
    if every and overwrite:
        raise UsageError(
            "in the output mode complete, each batch replaces all files: nothing can be compacted"
        )
    run(partial(written.check_plan, plan))
    return OrcStreamWriter(StreamPlan(plan, every, below, overwrite))


class OrcStreamWriter(DataSourceStreamArrowWriter):
    """`write` runs in tasks. For each batch Spark makes another writer on the driver, which commits it."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchFiles:
        task = TaskContext.get()
        assert task is not None
        query, of_run, batch = (task.getLocalProperty(name) or "" for name in (_QUERY, _RUN, _BATCH))
        if not _PLAIN.fullmatch(query) or not batch.isdecimal():
            raise UsageError("Spark does not say of which stream and batch this is")
        files = write_batch(self._plan.files, f"{query}-{batch}", iterator)
        return BatchFiles(query, of_run, task.attemptNumber(), files)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        found = [one for one in messages if isinstance(one, BatchFiles)]
        if found:
            run(partial(commit_batch, self._plan, batchId, found))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Spark repeats the batch. What is not in the messages is swept when the query is started again."""
        files = [file for one in messages if isinstance(one, BatchFiles) for file in one.files]
        queries = {one.query for one in messages if isinstance(one, BatchFiles)}
        for query in queries:
            run(partial(_discard_unless_begun, self._plan.files, query, batchId, files))


def write_batch(plan: WritePlan, batch: str, rows: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    """What a task writes of a batch of a query: files that are prepared, and the driver commits."""
    task = TaskContext.get()
    assert task is not None
    # Attempts are numbered from 0 again when the program is.
    stem = f"part-{task.partitionId():05}-{batch}-{uuid.uuid4().hex[:12]}"
    return written.write_files(plan, rows, stem, threads=max(1, task.cpus()))


async def _discard_unless_begun(plan: WritePlan, query: str, batch: int, files: list[WrittenFile]) -> None:
    log = await CommitLog.open(plan, query)
    intent = await log.intent_of(batch)
    kept = set() if intent is None else {one.path for one in intent.files}
    await written.discard_files(plan, [one for one in files if one.path not in kept])


async def commit_batch(plan: StreamPlan, batch: int, messages: list[BatchFiles]) -> None:
    """Make the batch visible, unless it is; may be called again, with other files of the same rows."""
    target, query, of_run = plan.files, messages[0].query, messages[0].run
    files = [file for one in messages for file in one.files]
    log = await CommitLog.open(target, query)
    is_new_run = await log.last_run() != of_run
    await _finish_compaction(log, plan)
    if batch <= log.last_done:
        await written.discard_files(target, files)
        return
    intent = await log.intent_of(batch)
    if intent is None and (files or plan.overwrite):
        if batch == 0:
            await written.refuse_transactional(target, (posixpath.dirname(one.path) for one in files))
        removes = [one.path for one in await written.visible_files(target)] if plan.overwrite else []
        intent = await log.begin(Intent(batch, tuple(files), tuple(removes)))
    if intent is not None:
        kept = {one.path for one in intent.files}
        await written.discard_files(target, [one for one in files if one.path not in kept])
        await written.commit_files(target, intent.files)
        await written.remove_paths(target, intent.removes)
        await log.end(batch, of_run)
    has_left = is_new_run or batch % SWEEP_EVERY == 0 or any(one.attempt for one in messages)
    if has_left and log.unfinished is None:  # which has files that are not visible yet
        await written.sweep(target, query)
    if plan.compact_every and len(log.uncompacted) >= plan.compact_every and log.unfinished is None:
        await _begin_compaction(log, plan)
    await log.shorten(compacts=plan.compact_every > 0)


# --- compaction ------------------------------------------------------------------------------------


async def _begin_compaction(log: CommitLog, plan: StreamPlan) -> None:
    """Merge the small files of all batches that no compaction has looked at."""
    batches = log.uncompacted
    with _told(batches[-1]):
        found = [intent for batch in batches if (intent := await log.intent_of(batch)) is not None]
        options = plan.compaction
        claimed = await _planned_by_jobs(plan)
        paths = [file.path for one in found for file in one.files if file.length < options.small_bytes]
        small = [path for path in paths if path not in claimed]
        stem = f"part-compact-{log.query}-{batches[-1]}"
        looked = await look_at(plan.files, small) if small else []
        groups = await log.journal(batches[-1]).begin(grouped(looked, options, stem))
        works = works_of(groups, paths, await _planned_by_jobs(plan))
        await _merge(log, plan, batches[-1], works)


async def _finish_compaction(log: CommitLog, plan: StreamPlan) -> None:
    """Go on with the compaction that was begun, if there is one, wherever it was left."""
    batch = log.unfinished
    if batch is None:
        return
    with _told(batch):
        groups = await log.journal(batch).groups()
        listed = await list_files(plan.files.url, storage_options=plan.files.storage_options)
        works = works_of(groups, {one.path for one in listed}, await _planned_by_jobs(plan))
        await _merge(log, plan, batch, works)


async def _planned_by_jobs(plan: StreamPlan) -> set[str]:
    files = plan.files
    return await planned_files(files.url, JOBS_FOLDER, storage_options=files.storage_options)


async def _merge(log: CommitLog, plan: StreamPlan, batch: int, works: Sequence[GroupWork]) -> None:
    for work in works:
        result = await settle(log.journal(batch), plan.compaction, work)
        if result.how == "left":
            _logger.warning("%d files are left as they are: %s", len(work.group.sources), result.reason)
    await log.end_compaction(batch)


@contextmanager
def _told(batch: int) -> Iterator[None]:
    """Rows are committed all the same: a failure is told, and the compaction goes on after the next batch."""
    try:
        yield
    except (OrcError, OSError) as error:
        _logger.warning("the compaction after batch %d goes on after the next one: %s", batch, error)
