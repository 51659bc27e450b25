"""Work that is shared out over the tasks of Spark, and how far it is.

Knows Spark's jobs. Must not know what the work is. A unit of work may be done more than once, by a task that
Spark tries again or beside another; its answer is taken once.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

U = TypeVar("U")
R = TypeVar("R")

# What is being done, how many units of it are done, and how many there are.
Progress = Callable[[str, int, int], object]
# A task costs 70 ms beside its work; more of them than cores leave none idle at the end.
_TASKS_PER_CORE = 16
_EVERY_S = 0.2
# Spark Connect does not say how many cores there are.
_TASKS_OVER_CONNECT = 256
# What `setJobGroup` sets.
_OF_GROUPS = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class Distribute(Protocol):
    """Answers what `work` makes of each unit, in the order of the units."""

    def __call__(self, label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]: ...


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect, which has neither a context nor a JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


class SparkTasks:
    """A session of Spark as `Distribute`; units and `work` are pickled.

    Over Spark Connect, `progress` is called when the work begins and when it ends.
    """

    def __init__(self, spark: SparkSession, progress: Progress | None = None) -> None:
        self._spark = spark
        self._progress = progress

    def __call__(self, label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        """Raises what Spark raises where a task has failed for good; its text holds the error's."""
        if not units:
            return []
        if is_connect(self._spark):
            with self._told(label, len(units), lambda: 0):
                return self._over_connect(units, work)
        context: Any = self._spark.sparkContext
        done = context.accumulator(0)

        def run(unit: U) -> R:
            answer = work(unit)
            done.add(1)
            return answer

        tasks = min(len(units), _TASKS_PER_CORE * context.defaultParallelism)
        group = uuid.uuid4().hex
        with self._told(label, len(units), lambda: min(int(done.value), len(units))):
            # The caller's own, if it has any.
            before = {name: context.getLocalProperty(name) for name in _OF_GROUPS}
            context.setJobGroup(group, f"orcstream: {label}", interruptOnCancel=False)
            try:
                found: list[R] = context.parallelize(units, tasks).map(run).collect()
            except KeyboardInterrupt:
                context.cancelJobGroup(group)
                raise
            finally:
                for name, value in before.items():
                    context.setLocalProperty(name, value)
        return found

    def _over_connect(self, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        """The same by a DataFrame of pickled units, since there are no RDDs."""
        import pyarrow as pa

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number, unit in zip(*batch.to_pydict().values(), strict=True):
                    answer = pickle.dumps(work(pickle.loads(unit)))  # noqa: S301 - of this job's driver
                    yield pa.RecordBatch.from_pydict({"number": [number], "answer": [answer]})

        spark, group = self._spark, f"orcstream-{uuid.uuid4().hex}"
        sent = pa.table({"number": range(len(units)), "unit": [pickle.dumps(one) for one in units]})
        tasks = min(len(units), _TASKS_OVER_CONNECT)
        frame = spark.createDataFrame(sent).repartition(tasks)
        spark.addTag(group)
        try:
            found = frame.mapInArrow(run, "number bigint, answer binary").collect()
        except KeyboardInterrupt:
            spark.interruptTag(group)
            raise
        finally:
            spark.removeTag(group)
        return [pickle.loads(answer) for _, answer in sorted(map(tuple, found))]  # noqa: S301 - of tasks

    @contextmanager
    def _told(self, label: str, total: int, done: Callable[[], int]) -> Iterator[None]:
        """Tell how far it is, from another thread, as long as the block lasts; and at its end."""
        tell = self._progress
        if tell is None:
            yield
            return
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(_EVERY_S):
                tell(label, done(), total)

        thread = threading.Thread(target=follow, name="orcstream progress", daemon=True)
        tell(label, 0, total)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        tell(label, total, total)
