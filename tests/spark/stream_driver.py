"""The driver of Spark, and that of a stream's writer, without Spark: what dies, and is started again.

`Query` does what Spark's driver does with a source: offsets are logged before a batch is run, commits after,
and a batch that was logged and not committed is run again first. Before and after each step that changes
anything it may die. Its sink keeps a batch under its number, as a sink has to that is to be exact.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import orcstream
from orcstream.blocking.loop import the_loop
from orcstream.io import sink, small_files
from orcstream.log import records
from orcstream.spark.options import Options
from orcstream.spark.stream.reading import stream_reader_of
from orcstream.spark.stream.writing import BatchFiles, StreamPlan, commit_batch
from orcstream.spark.write import written
from orcstream.spark.write.options import write_plan

__all__ = [
    "DEATH",
    "LOG",
    "SCHEMA",
    "Killed",
    "Killer",
    "Query",
    "Writer",
    "add",
    "folder",
    "ids_of",
    "killer",
    "stream_of",
]

SCHEMA = StructType([StructField("id", LongType())])
LOG = "_orcstream_stream"


class Killed(BaseException):
    """The driver is no more."""


class Killer:
    """Kills before or after one of the steps that change something; all pass once it has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for home, name in (
            (small_files, "put"),
            (sink, "commit"),
            (written, "remove_paths"),
            (records, "remove_files"),
            (orcstream, "merge"),
        ):
            monkeypatch.setattr(home, name, self._wrapped(getattr(home, name)))

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Killed

    def _wrapped(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def stepped(*arguments: Any, **options: Any) -> Any:
            self.step()
            found = await call(*arguments, **options)
            self.step()
            return found

        return stepped


# The death of a task among others comes in a group.
DEATH = (Killed, BaseExceptionGroup)


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    return Killer(monkeypatch)


class Query:
    """A query of Spark with its checkpoint and its sink."""

    def __init__(self, url: object, schema: StructType = SCHEMA, **options: str) -> None:
        self.schema = schema
        self.options = {"path": str(url), **options}
        self.offsets: list[str] = []
        self.committed = 0
        self.sink: list[list[Any]] = []
        self.between: Callable[[], object] = lambda: None  # what others do while a batch runs
        self.step: Callable[[], object] = lambda: None

    @property
    def ids(self) -> list[int]:
        return [row for batch in self.sink for row in batch]

    def run(self, *, batches: int | None = None, available_now: bool = False) -> None:
        """One life of the driver, until there is nothing to read, or for so many batches."""
        reader: Any = stream_reader_of(self.schema, self.options)
        if available_now:
            reader.prepareForTriggerAvailableNow()
        if self.committed < len(self.offsets):
            self._run_batch(reader)
        while batches is None or batches > 0:
            start = self._offset(len(self.offsets) - 1, reader)
            limit = reader.getDefaultReadLimit()
            end = reader.latestOffset(start, limit)
            if end == start:
                return
            self.step()
            self.offsets.append(json.dumps(end))
            self.step()
            self._run_batch(reader)
            batches = None if batches is None else batches - 1

    def run_on(self) -> None:
        """Restarted until it ends."""
        for _ in range(100):
            try:
                self.run()
            except DEATH:
                continue
            else:
                return
        raise AssertionError("the query does not come to an end")

    def _offset(self, at: int, reader: Any) -> dict[str, Any]:
        return dict(json.loads(self.offsets[at])) if at >= 0 else reader.initialOffset()

    def _run_batch(self, reader: Any) -> None:
        at = len(self.offsets) - 1
        tasks = reader.partitions(self._offset(at - 1, reader), self._offset(at, reader))
        self.between()
        rows = sorted(row for task in tasks for batch in reader.read(task) for row in rows_of(batch))
        self.step()
        if len(self.sink) == at:
            self.sink.append(rows)
        else:
            assert self.sink[at] == rows, "a batch that is repeated is the same"
        self.step()
        self.committed = at + 1


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    columns = [column.to_pylist() for column in batch.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def add(folder: Path, name: str, ids: list[int], modified_s: float | None = None) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.parent / f".{path.name}.new"
    pyarrow.orc.write_table(pa.table({"id": ids}), str(hidden), compression="uncompressed")
    if modified_s is not None:
        os.utime(hidden, (modified_s, modified_s))
    hidden.rename(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "t"
    made.mkdir()
    return made


def stream_of(query: Query) -> str:
    return str(json.loads(query.offsets[-1])["stream"])


class Writer:
    """The driver of a query that writes a stream, with compaction."""

    def __init__(self, folder: Path, every: int = 2) -> None:
        given = Options({"path": str(folder), "compression": "none"})
        plan = write_plan(SCHEMA, given)
        self.plan = StreamPlan(plan, every, plan.max_bytes, overwrite=False)
        self.batch = 0
        self.runs = 0

    def write(self) -> None:
        """A batch of two files, ten rows each; the same batch again after it was killed."""
        self.runs += 1
        files: list[written.WrittenFile] = []
        for task in range(2):
            first = self.batch * 100 + task * 10
            rows = pa.record_batch({"id": list(range(first, first + 10))})
            stem = f"part-{task:05}-q1-{self.batch}-{self.runs:012}"
            files += written.write_files(self.plan.files, [rows], stem, threads=1)
        message = BatchFiles("q1", str(self.runs), 0, files)
        the_loop().run(partial(commit_batch, self.plan, self.batch, [message]))
        self.batch += 1


def ids_of(batches: int) -> list[int]:
    return [
        batch * 100 + task * 10 + row for batch in range(batches) for task in range(2) for row in range(10)
    ]
