"""Writing a table of Spark: tasks upload, the driver commits what they prepared.

Knows what Spark calls, where, and what it promises of it. Must not know how files are written (`written`).

Spark makes the writer on the driver, and pickles it to the tasks and to the process that commits. Its commit
coordinator lets one attempt of each task report; the files of the others, of tasks that were killed and of
jobs that failed are in no message, so they are found by the job's id in their names.

What is atomic: each file. The files of a job appear one after the other, and what they replace goes
afterwards; so readers may see a part of the new rows, or old and new ones, but never neither.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from orcstream.errors import UsageError
from orcstream.plan.acid.names import parse_folder
from orcstream.spark.access import run
from orcstream.spark.options import Options
from orcstream.spark.write import written
from orcstream.spark.write.options import WritePlan, write_plan
from orcstream.spark.write.written import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa

Replaces = Literal["nothing", "all", "partitions", "as the session"]
# Tasks know the settings of the session that a query runs in; the process that commits does not.
_SESSION_MODE: Final = "spark.sql.sources.partitionOverwriteMode"


@dataclass(slots=True)
class TaskFiles(WriterCommitMessage):
    """What a task answers: the files that it has prepared, and how its session overwrites partitions."""

    files: list[WrittenFile]
    overwrite_mode: str = "static"


def writer_of(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> DataSourceArrowWriter:
    """The writer for `df.write`; raises what its tasks would raise because of the options."""
    given = Options(options)
    plan = write_plan(schema, given)
    mode = given.text("overwrite_partitions")
    given.finish()
    if mode not in (None, "static", "dynamic"):
        raise UsageError(f"option overwrite_partitions is static or dynamic, not {mode!r}")
    if mode == "dynamic" and not plan.partition_by:
        raise UsageError("overwrite_partitions=dynamic needs partition_by: the columns of the partitions")
    run(partial(written.check_plan, plan))
    return OrcWriter(plan, uuid.uuid4().hex, _replaces(plan, mode) if overwrite else "nothing")


def _replaces(plan: WritePlan, mode: str | None) -> Replaces:
    if mode is None:
        return "as the session" if plan.partition_by else "all"
    return "all" if mode == "static" else "partitions"


class OrcWriter(DataSourceArrowWriter):
    """One job: `write` runs in tasks, `commit` or `abort` on the driver."""

    def __init__(self, plan: WritePlan, job: str, replaces: Replaces) -> None:
        self._plan = plan
        self._job = job
        self._replaces = replaces

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        files = written.write_files(self._plan, iterator, stem_of(self._job), threads=task_threads())
        return TaskFiles(files, (_task().getLocalProperty(_SESSION_MODE) or "static").lower())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        found = [one for one in messages if isinstance(one, TaskFiles)]
        replaces = self._replaces
        if replaces == "as the session":
            replaces = "partitions" if any(one.overwrite_mode == "dynamic" for one in found) else "all"
        run(partial(self._commit, [file for one in found for file in one.files], replaces))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - not to be relied on
        run(partial(written.sweep, self._plan, self._job))

    async def _commit(self, files: list[WrittenFile], replaces: Replaces) -> None:
        plan = self._plan
        if not files and not plan.partition_by:
            files = await written.write_empty(plan, f"part-00000-{self._job}")
        await written.refuse_transactional(plan, (posixpath.dirname(one.path) for one in files))
        earlier = await written.visible_files(plan) if replaces != "nothing" else []
        replaced = replaced_paths([one.path for one in earlier], files, replaces)
        try:
            await written.commit_files(plan, files)
        except BaseException:
            # The rows that the table had are all there still; some new ones beside them would be neither.
            await written.remove_paths(plan, [file.path for file in files])
            raise
        await written.remove_paths(plan, replaced)
        await written.sweep(plan, self._job)
        await written.put(plan, "_SUCCESS", b"", overwrite=True)


def stem_of(job: str) -> str:
    """How names of a task's files begin: no other attempt of this task, nor of this job, has it."""
    task = _task()
    return f"part-{task.partitionId():05}-{job}-{task.taskAttemptId()}"


def task_threads() -> int:
    """Threads that encode: as many as Spark has given the task cores."""
    return max(1, _task().cpus())


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task


def replaced_paths(earlier: Sequence[str], files: Sequence[WrittenFile], replaces: Replaces) -> list[str]:
    """Which of the files that were there go when `files` are."""
    if replaces == "nothing":
        return []
    if replaces == "all":
        return list(earlier)
    partitions = {_values(file.path) for file in files}
    depths = {len(values) for values in partitions}
    return [path for path in earlier if any(_values(path)[:depth] in partitions for depth in depths)]


def _values(path: str) -> tuple[tuple[str, str | None], ...]:
    """A file's folders, not escaped: others may escape values in another way, and values may hold slashes."""
    return tuple(parse_folder(folder, errors="replace") for folder in path.split("/")[:-1])
