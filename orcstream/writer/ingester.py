"""Rows that arrive over time, as files that are rolled by size, rows and age.

Knows queues and the clock of the loop. Must not know which files there are (`writer.rolling`), nor how one is
written.

`write` only checks rows and puts them into a queue, as a whole or not at all; so a caller that is cancelled
or fails leaves nothing half done. One task, the ingester's own, takes them from there, sorts them by
partition, and gives them to their files; it also wakes when a file or a row becomes too old. While the queue
is full, because encoding or the store is behind, `write` waits. A file that fails ends the ingest: its rows
are lost and the next call raises, but all rows of other files that `write` took are committed first.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, TypeAlias

import anyio
import anyio.lowlevel

from orcstream.codec.encode.row_gathering import RowGatherer
from orcstream.codec.encode.writable import check_writable, discreetly
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.errors import UsageError
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.tasks import Closable, Signal, first_failure
from orcstream.io.loop.uncancelled import clean_up, run_in_thread, until_done, until_over
from orcstream.schema.schema import Schema
from orcstream.writer.ingested import IngestedFile, IngestOptions
from orcstream.writer.partitions import Partition, Partitioner
from orcstream.writer.rolling import HELD_BYTES, RolledFiles
from orcstream.writer.workers import Workers

_State = Literal["open", "ending", "committed", "aborted"]
_Pieces: TypeAlias = list[tuple[Partition, IngestedRows]]
# Single rows wait until there are so many.
_GATHERED_ROWS = 4096
# As long may the first of them wait, and be the age of the others.
_GATHERED_S = 1.0
# Single rows are taken without a pause; every so many of them other tasks get their turn.
_ROWS_WITHOUT_PAUSE = 64


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the data of one `write`."""

    row_count: int
    size_bytes: int
    pieces: _Pieces
    is_last: bool = False


@dataclass(slots=True)
class _Item:
    """What the queue holds: rows, sorted already or single ones, or the wish for a flush.

    `first_row` is the number of the first row, in the order of `write`.
    """

    since: float
    first_row: int
    size_bytes: int = 0
    pieces: _Pieces | None = None
    rows: Any = None
    flushed: anyio.Event | None = None


class Ingester(Closable):
    """Takes rows for as long as there are any; made by `orcstream.ingest`. Several tasks may write."""

    def __init__(self, options: IngestOptions, schema: Schema | None) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._state: _State = "open"
        self._partitioner: Partitioner | None = None
        self._gatherer: RowGatherer | None = None
        self._gathered_since: float | None = None
        self._row_count = 0
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0
        self._changed = Signal()  # of anything that somebody may wait for
        self._first = anyio.Lock()
        self._queued_rows = 0
        self._taking: _Item | None = None
        # A failure of a file becomes what ended the ingest once the rest is committed.
        self._files = RolledFiles(options, self._changed, self._first_waiting)
        self._failure: BaseException | None = None
        if schema is not None:
            self._set_schema(schema)
        self._task = asyncio.create_task(self._run(), name="orcstream ingest")

    def __repr__(self) -> str:
        return f"<Ingester: {self._row_count} rows, {len(self.files)} files committed, {self._state}>"

    # --- what is known

    @property
    def schema(self) -> Schema | None:
        """The schema of the data, partition columns included; None before the first, if none was given."""
        return None if self._partitioner is None else self._partitioner.schema

    @property
    def row_count(self) -> int:
        """Rows taken so far, whether their files are committed or not."""
        return self._row_count

    @property
    def files(self) -> tuple[IngestedFile, ...]:
        """The files that were committed so far, in the order of their commits."""
        return tuple(self._files.committed)

    @property
    def held_bytes(self) -> int:
        """Memory held by rows that wait, by open files and by bytes on their way."""
        gathered = 0 if self._gatherer is None else self._gatherer.size_bytes
        return gathered + self._queued_bytes + self._files.held_bytes

    # --- rows

    async def write(self, data: object) -> int:
        """Take rows, all or none; answers how many. Takes what `OrcWriter.write` takes.

        Waits while what was written before is not encoded and sent yet. Raises `SchemaMismatch` for data that
        does not fit, and what ended the ingest, if something did. Data of more than an eighth of the memory
        limit, and the batches of a stream, are taken part by part: an error or a cancellation may come
        between. Lists of a few rows are cheap, and kept together until they are enough.
        """
        self._check_open()
        gatherer = self._gatherer
        if gatherer is None:
            return await self._write_vectors(data)
        # All waiting comes before anything is taken: a write that is cancelled has taken nothing.
        if len(gatherer.rows) >= _GATHERED_ROWS or gatherer.size_bytes >= HELD_BYTES:
            self._queue_gathered()
            await self._wait_for_room()
        elif len(gatherer.rows) % _ROWS_WITHOUT_PAUSE == _ROWS_WITHOUT_PAUSE - 1:
            await anyio.lowlevel.checkpoint()
        self._check_open()
        if not gatherer.add(data):
            return await self._write_vectors(data)
        count = len(data)  # type: ignore[arg-type]  # a list
        self._row_count += count
        if self._gathered_since is None:
            self._gathered_since = self._loop.time()
            self._changed.notify()  # there is another row that grows old
        return count

    async def _write_vectors(self, data: object) -> int:
        source: UserData | None = None
        partitioner = self._partitioner
        if partitioner is None:
            source = await run_in_thread(lambda: self._user_data(data))
            if source.is_nothing:
                return 0  # rows that come later say the schema
            partitioner = await self._first_schema(source)
        parts = self._parts(source or data, partitioner)
        count = 0
        while (part := await run_in_thread(lambda: next(parts, None))) is not None:
            await self._wait_for_room()
            self._check_open()
            self._queue_gathered()
            self._put(
                _Item(self._loop.time(), self._queued_rows, part.size_bytes, part.pieces), part.row_count
            )
            self._row_count += part.row_count
            count += part.row_count
            if part.is_last:  # no waiting once all is taken
                break
        return count

    def _parts(self, data: object, partitioner: Partitioner) -> Iterator[_Part]:
        """The data, checked and split; runs on threads. The queue has room for several parts."""
        waiting: _Part | None = None
        source = data if isinstance(data, UserData) else self._user_data(data)
        batches = source.vectors(partitioner.schema)
        for rows in discreetly(batches, partitioner.schema, self._encode_options.hidden):
            check_writable(rows, self._encode_options, lossy_timestamps=self._lossy_timestamps)
            each = max(1, rows.size_bytes // max(1, rows.row_count))
            most_rows = max(1, self._options.memory_limit // 8 // each)
            for start in range(0, rows.row_count, most_rows):
                some = rows.slice(start, min(rows.row_count, start + most_rows))
                part = _Part(some.row_count, some.size_bytes, partitioner.split(some))
                if waiting is not None:
                    yield waiting
                waiting = part
        if waiting is not None:
            yield replace(waiting, is_last=True)

    def _user_data(self, data: object) -> UserData:
        return UserData(data, hides_values=self._options.hides_values)

    async def _first_schema(self, source: UserData) -> Partitioner:
        async with self._first:
            if self._partitioner is None:
                self._set_schema(await run_in_thread(source.schema))
        assert self._partitioner is not None
        return self._partitioner

    def _set_schema(self, schema: Schema) -> None:
        options = self._options
        template = options.template
        partitioner = Partitioner(schema, template, keep=options.keep_partition_columns)
        # Raises for a schema that the other options do not fit.
        creating = options.new_file("file:///", partitioner.file_schema)
        creating.options.encode_options(partitioner.file_schema)
        # By the columns of the data, which have other numbers than those of the files.
        self._encode_options = creating.options.encode_options(schema)
        self._lossy_timestamps = creating.options.lossy_timestamps
        workers = Workers(creating.options.threads, creating.options.new_compressor)
        self._files.begin(partitioner.file_schema, workers)
        self._gatherer = RowGatherer(schema, self._encode_options, template.longest_texts())
        self._partitioner = partitioner

    def _queue_gathered(self) -> None:
        """Single rows go before what comes after them."""
        if self._gathered_since is None or self._gatherer is None:
            return
        since, self._gathered_since = self._gathered_since, None
        rows, size_bytes = self._gatherer.take()
        self._put(_Item(since, self._queued_rows, size_bytes, rows=rows), len(rows))

    def _put(self, item: _Item, row_count: int = 0) -> None:
        self._queue.append(item)
        self._queued_bytes += item.size_bytes
        self._queued_rows += row_count
        self._changed.notify()

    async def _wait_for_room(self) -> None:
        while self._queued_bytes >= self._options.memory_limit // 4:
            await self._change()
        if self._failure is not None:
            raise self._failure

    # --- the end, and what is between

    async def flush(self) -> None:
        """Commit everything written so far, and wait for it; growing files are flushed and stay open."""
        self._check_open()
        self._queue_gathered()
        flushed = anyio.Event()
        self._put(_Item(self._loop.time(), self._queued_rows, flushed=flushed))
        while not flushed.is_set():
            await self._change()
        if self._files.failure is not None:
            raise self._files.failure

    async def commit(self) -> tuple[IngestedFile, ...]:
        """Commit everything and end; answers all files. May be called again if it was cancelled."""
        if self._state == "open":
            self._check_open()
            self._queue_gathered()
            self._state = "ending"
            self._changed.notify()
        if self._state == "aborted":
            raise UsageError("the ingest was aborted")
        while not self._task.done():
            await self._change()
        if self._failure is not None:
            raise self._failure
        self._state = "committed"
        return self.files

    async def abort(self) -> None:
        """End without the rows that are not committed yet; files that are committed stay.

        A commit that began is let finish; after a file has failed, all others are committed. Growing files
        end at their last flush. Not cancelled, and bounded in time; may be called again. Raises `SinkError`
        where a store would not let go.
        """
        if self._state == "committed":
            return
        self._state = "aborted"
        self._files.stop()
        await until_done(self._task)
        left, self._files.left_behind = self._files.left_behind, None
        if left is not None:
            raise left

    async def aclose(self) -> None:
        """Abort what was not committed."""
        await self.abort()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort because of an error."""
        if error is None and self._state != "aborted":
            try:
                await self.commit()
            except BaseException as failure:
                await clean_up(failure, self.abort)
                raise
        elif error is not None:
            await clean_up(error, self.abort)

    def _check_open(self) -> None:
        failure = self._failure or self._files.failure
        if failure is not None:
            raise failure
        if self._state != "open":
            raise UsageError(f"nothing can be written any more: the ingest is {self._state}")

    async def _change(self) -> None:
        """Wait for the next change; raises what ended the ingest."""
        if not self._task.done():
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure
        if self._task.done() and self._state == "aborted":
            raise UsageError("the ingest was aborted")

    # --- the ingester's own task

    async def _run(self) -> None:
        # Or the last file that is committed before the next one is opened takes their client along.
        clients = keep_clients()
        try:
            await self._files.run(self._work)
            self._failure = self._files.failure
        except asyncio.CancelledError:  # not by `abort`: the loop is ending
            self._failure = UsageError("the event loop of the ingest was ended")
            raise
        except BaseException as error:  # noqa: BLE001 - raised to whoever calls next
            self._failure = first_failure(error)
        finally:
            await until_over(self._end(clients))
            # After the last await: who waits finds the task done.
            self._loop.call_soon(self._changed.notify)

    async def _end(self, clients: Lease[Client]) -> None:
        await self._files.abort()
        self._queue.clear()
        await clients.aclose()

    async def _work(self) -> None:
        while self._queue or not (self._state == "ending" or self._files.failure):
            seen = self._changed.count
            self._queue_old_rows()
            if self._queue:
                await self._take(self._queue.popleft())
                await self._files.flush_due(self._loop.time())
            elif not await self._files.flush_due(self._loop.time()):
                due = min(self._gathered_due(), self._files.next_due())
                with anyio.move_on_after(max(0.0, due - self._loop.time())):
                    await self._changed.wait(seen)

    async def _take(self, item: _Item) -> None:
        self._taking = item
        if item.flushed is not None:
            await self._files.flush()
            item.flushed.set()
        else:
            pieces = item.pieces
            if pieces is None:
                pieces = await run_in_thread(lambda: self._pieces_of(item.rows))
            for partition, rows in pieces:
                await self._files.add(partition, rows, item.since, item.first_row)
        self._taking = None
        self._queued_bytes -= item.size_bytes
        self._changed.notify()

    def _first_waiting(self) -> int:
        """The number of the first row that is in no file yet."""
        first = self._taking or next(iter(self._queue), None)
        return self._queued_rows if first is None else first.first_row

    def _pieces_of(self, rows: Any) -> _Pieces:
        partitioner = self._partitioner
        assert partitioner is not None
        found = UserData(rows).vectors(partitioner.schema)
        return [piece for some in found for piece in partitioner.split(some)]

    # --- time

    def _gathered_due(self) -> float:
        """When single rows have to be queued."""
        since, options = self._gathered_since, self._options
        if since is None:
            return math.inf
        return since + min(_GATHERED_S, options.max_age_s or math.inf, options.flush_deadline_s or math.inf)

    def _queue_old_rows(self) -> None:
        if self._gathered_due() <= self._loop.time():
            self._queue_gathered()
