"""Reading a stream of Spark: a growing folder, each file in exactly one batch, over restarts.

Knows what Spark calls, and where: one process of the driver asks for offsets and tasks, and keeps its reader
for the whole run; executors get another. Must not know which files are the next (`spark.stream.feed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from orcstream.spark.access import run
from orcstream.spark.read.merged_files import Place, joined
from orcstream.spark.read.pieces import Piece, ReadPartition, ReadPlan, TaskReader
from orcstream.spark.read.planning import packed, plan_pieces, target_bytes
from orcstream.spark.read.reading import read_plan
from orcstream.spark.stream.feed import BatchWork, Offset, StreamFeed
from orcstream.spark.stream.options import StreamOptions


def stream_reader_of(schema: spark.StructType, options: Mapping[str, str]) -> DataSourceStreamReader:
    """The reader for `spark.readStream`. Raises what its tasks would raise because of the options."""
    found = StreamOptions.of(options)
    return _StreamReader(found, read_plan(found.read, schema))


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See `DataSourceStreamReader`."""

    def __init__(self, options: StreamOptions, plan: ReadPlan) -> None:
        self._options = options
        self._plan = plan
        self._feed = StreamFeed(options)
        self._last = Offset()

    def __reduce__(self) -> tuple[object, ...]:
        # Executors need nothing of what was seen.
        return TaskReader, (self._plan,)

    # --- offsets

    def initialOffset(self) -> dict[str, Any]:
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._options.limit

    def prepareForTriggerAvailableNow(self) -> None:
        run(self._feed.fix_end)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._last = run(lambda: self._feed.advance(Offset.of_json(start), limit))
        return self._last.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        """With what was found by the last look and is left for later batches."""
        waiting = {"files_waiting": self._feed.files_waiting, "bytes_waiting": self._feed.bytes_waiting}
        return {**self._last.to_json(), **waiting}

    # --- tasks

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ReadPartition]:
        batches = run(lambda: self._feed.work(Offset.of_json(start), Offset.of_json(end)))
        return [task for batch in batches for task in self._tasks(batch)]

    def _tasks(self, batch: BatchWork) -> list[ReadPartition]:
        places = joined(batch.places)
        cost = self._options.read.pieces.open_cost_bytes
        target = target_bytes(sum(one.length for one in places), len(places), self._options.read.pieces)
        pieces = run(lambda: self._pieces(places, target))
        return [ReadPartition(several, batch.partition_names) for several in packed(pieces, target, cost)]

    async def _pieces(self, places: Sequence[Place], target: int) -> list[Piece]:
        read = self._options.read
        pieces = await plan_pieces(
            [one.file for one in places if one.rows is None],
            target,
            await read.access.open_options(),
            on_error=read.faults.on_error,
        )
        return pieces + [_piece(one) for one in places if one.rows is not None]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return TaskReader(self._plan).read(partition)


def _piece(place: Place) -> Piece:
    file = place.file
    return Piece(file.url, file.length, file.version, place.length, place.rows, file.texts)
