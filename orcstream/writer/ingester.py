"""Rows that arrive over time, as files that are rolled by size, rows and age.

Knows queues, open files and the clock of the loop. Must not know how a file is written (`writer.writer`).

`write` only checks rows and puts them into a queue, as a whole or not at all; so a caller that is cancelled
or fails leaves nothing half done. One task, the ingester's own, takes them from there, sorts them by
partition, encodes them, and begins commits, several of which go on side by side; it also wakes when a file or
a row becomes too old. While the queue is full, because encoding or the store is behind, `write` waits. A
file that fails ends the ingest: its rows are lost and the next call raises, but all rows of other files that
`write` took are committed first, within `RESCUE_S`. Files of a partition are committed in the order of rows.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import anyio
import anyio.lowlevel

from orcstream.codec.encode.discretion import discreetly
from orcstream.codec.encode.grouping import joined, keeps_little
from orcstream.codec.encode.row_gathering import RowGatherer
from orcstream.codec.encode.writable import check_writable
from orcstream.codec.ingest.ingest import IngestedRows, ReadyRows, UserData
from orcstream.errors import SinkError, UsageError
from orcstream.io.contract.byte_sink import Prepared
from orcstream.io.contract.retry import retry_commit
from orcstream.io.folders import make_folder_of
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.tasks import Closable, Signal, first_failure
from orcstream.io.loop.uncancelled import clean_up, run_in_thread, until_done, until_over
from orcstream.schema.schema import Schema
from orcstream.writer.ingested import IngestedFile, IngestOptions, Item, OpenFile, Part, Pieces
from orcstream.writer.numbers import FileNumbers
from orcstream.writer.partitions import Partition, Partitioner
from orcstream.writer.workers import Workers
from orcstream.writer.writer import OrcWriter

_State = Literal["open", "ending", "committed", "aborted"]
# Rows of a partition wait until there are so many bytes of them, and single rows until there are so many.
HELD_BYTES = 1 << 20
GATHERED_ROWS = 4096
# As long may the first of them wait, and be the age of the others.
GATHERED_S = 1.0
# Rows that are encoded before the size of the file is looked at again, at most; it is looked at four times.
PIECE_BYTES = 4 << 20
COMMITS_AT_ONCE = 8
# Single rows are taken without a pause; every so many of them other tasks get their turn.
ROWS_WITHOUT_PAUSE = 64
# Bytes on their way become fewer without anybody being told.
LOOK_S = 0.02
# After a file has failed, the others have so long to be committed.
RESCUE_S = 60.0


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
        self._queue: deque[Item] = deque()
        self._queued_bytes = 0
        self._changed = Signal()  # of anything that somebody may wait for
        self._first = anyio.Lock()
        self._open: OrderedDict[Partition, OpenFile] = OrderedDict()
        self._committing: dict[OpenFile, None] = {}  # in the order in which they were complete
        self._files: list[IngestedFile] = []
        self._numbers = FileNumbers(options.template, options.storage_options, overwrite=options.overwrite)
        self._queued_rows = 0
        self._taking: Item | None = None
        self._lost_row: float = math.inf  # the first that was lost
        self._calling_back = anyio.Lock()
        # Of a file: the rest is committed before it becomes what ended the ingest, the failure.
        self._file_failure: Exception | None = None
        self._failure: BaseException | None = None
        self._left_behind: SinkError | None = None
        self._scope = anyio.CancelScope()
        if schema is not None:
            self._set_schema(schema)
        self._task = asyncio.create_task(self._run(), name="orcstream ingest")

    def __repr__(self) -> str:
        return f"<Ingester: {self._row_count} rows, {len(self._files)} files committed, {self._state}>"

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
        return tuple(self._files)

    @property
    def held_bytes(self) -> int:
        """Memory held by rows that wait, by open files and by bytes on their way."""
        gathered = 0 if self._gatherer is None else self._gatherer.size_bytes
        return gathered + self._queued_bytes + self._open_bytes() + self._committing_bytes()

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
        if len(gatherer.rows) >= GATHERED_ROWS or gatherer.size_bytes >= HELD_BYTES:
            self._queue_gathered()
            await self._wait_for_room()
        elif len(gatherer.rows) % ROWS_WITHOUT_PAUSE == ROWS_WITHOUT_PAUSE - 1:
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
                Item(self._loop.time(), self._queued_rows, part.size_bytes, part.pieces), part.row_count
            )
            self._row_count += part.row_count
            count += part.row_count
            if part.is_last:  # no waiting once all is taken
                break
        return count

    def _parts(self, data: object, partitioner: Partitioner) -> Iterator[Part]:
        """The data, checked and split; runs on threads. The queue has room for several parts."""
        waiting: Part | None = None
        source = data if isinstance(data, UserData) else self._user_data(data)
        batches = source.vectors(partitioner.schema)
        for rows in discreetly(batches, partitioner.schema, self._encode_options.hidden):
            check_writable(rows, self._encode_options, lossy_timestamps=self._lossy_timestamps)
            each = max(1, rows.size_bytes // max(1, rows.row_count))
            most_rows = max(1, self._options.memory_limit // 8 // each)
            for start in range(0, rows.row_count, most_rows):
                some = _slice(rows, start, min(rows.row_count, start + most_rows))
                part = Part(some.row_count, some.size_bytes, partitioner.split(some))
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
        self._workers = Workers(creating.options.threads, creating.options.new_compressor)
        self._gatherer = RowGatherer(schema, self._encode_options, template.longest_texts())
        self._partitioner = partitioner

    def _queue_gathered(self) -> None:
        """Single rows go before what comes after them."""
        if self._gathered_since is None or self._gatherer is None:
            return
        since, self._gathered_since = self._gathered_since, None
        rows, size_bytes = self._gatherer.take()
        self._put(Item(since, self._queued_rows, size_bytes, rows=rows), len(rows))

    def _put(self, item: Item, row_count: int = 0) -> None:
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
        self._put(Item(self._loop.time(), self._queued_rows, flushed=flushed))
        while not flushed.is_set():
            await self._change()
        if self._file_failure is not None:
            raise self._file_failure

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
        if self._file_failure is None:
            self._scope.cancel()
        await until_done(self._task)
        left, self._left_behind = self._left_behind, None
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
        failure = self._failure or self._file_failure
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
            with self._scope:
                async with anyio.create_task_group() as self._commits:
                    await self._work()
            self._failure = self._file_failure
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
        await self._abort_open()
        await clients.aclose()

    async def _work(self) -> None:
        while self._queue or not (self._state == "ending" or self._file_failure):
            seen = self._changed.count
            self._queue_old_rows()
            if self._queue:
                await self._take(self._queue.popleft())
                await self._flush_due()
            elif not await self._flush_due():
                due = self._next_due()
                with anyio.move_on_after(None if due is None else max(0.0, due - self._loop.time())):
                    await self._changed.wait(seen)
        for file in list(self._open.values()):
            await self._roll(file)

    async def _take(self, item: Item) -> None:
        self._taking = item
        if item.flushed is not None:
            await self._flush_all()
            item.flushed.set()
        else:
            pieces = item.pieces
            if pieces is None:
                pieces = await run_in_thread(lambda: self._pieces_of(item.rows))
            for partition, rows in pieces:
                await self._add(partition, rows, item)
        self._taking = None
        self._queued_bytes -= item.size_bytes
        self._changed.notify()

    def _pieces_of(self, rows: Any) -> Pieces:
        partitioner = self._partitioner
        assert partitioner is not None
        found = UserData(rows).vectors(partitioner.schema)
        return [piece for some in found for piece in partitioner.split(some)]

    async def _add(self, partition: Partition, rows: IngestedRows, item: Item) -> None:
        """Give rows to their file, and to the next one where it is full."""
        at = 0
        row_bytes = max(1, rows.size_bytes // max(1, rows.row_count))
        most_rows = max(1, min(PIECE_BYTES, self._options.max_bytes // 4) // row_bytes)
        while at < rows.row_count:
            file = await self._file_of(partition, item)
            room = rows.row_count - at
            if self._options.max_rows is not None:
                room = self._options.max_rows - file.row_count
            stop = min(rows.row_count, at + min(room, most_rows))
            piece = _slice(rows, at, stop)
            at = stop
            file.pieces.append(piece)
            file.row_count += piece.row_count
            file.waiting_bytes += piece.size_bytes
            if file.unflushed_since is None:
                file.unflushed_since = item.since
            if file.waiting_bytes >= min(HELD_BYTES, self._options.max_bytes // 4) or not keeps_little(piece):
                await self._encode(file)
            if not file.is_lost and self._is_full(file):
                await self._roll(file)
        await self._bound_memory()

    async def _file_of(self, partition: Partition, item: Item) -> OpenFile:
        """The partition's open file; makes room for a new one."""
        file = self._open.get(partition)
        if file is None:
            while len(self._open) >= self._options.max_open_files:
                await self._roll(next(iter(self._open.values())))
            file = self._open[partition] = OpenFile(partition, item.since, item.first_row)
        self._open.move_to_end(partition)
        return file

    def _is_full(self, file: OpenFile) -> bool:
        if file.row_count == self._options.max_rows:
            return True
        return file.writer is not None and file.writer.size_bytes >= self._options.max_bytes

    async def _encode(self, file: OpenFile) -> None:
        """Hand the rows that wait to the file's writer."""
        pieces, file.pieces, file.waiting_bytes = file.pieces, [], 0
        try:
            if file.writer is None:
                file.writer = await self._new_writer(file.partition)
            await file.writer.write(ReadyRows(list(joined(pieces))))
        except Exception as error:  # noqa: BLE001 - raised to whoever calls next
            await self._lose(file, error)

    async def _new_writer(self, partition: Partition) -> OrcWriter:
        assert self._partitioner is not None
        url = await self._numbers.next_url(dict(partition.texts))
        await make_folder_of(url)
        creating = self._options.new_file(url, self._partitioner.file_schema)
        return await creating.create(self._workers)

    # --- files that end

    async def _roll(self, file: OpenFile) -> None:
        """Begin the commit of a file; waits while too many are under way."""
        if file.pieces:
            await self._encode(file)
        while len(self._committing) >= COMMITS_AT_ONCE:
            await self._changed.wait()
        if file.is_lost:
            return
        del self._open[file.partition]
        file.before = next((f for f in reversed(self._committing) if f.partition == file.partition), None)
        self._committing[file] = None
        self._commits.start_soon(self._commit, file)

    async def _commit(self, file: OpenFile) -> None:
        try:
            length, prepared = await self._committed(file)
        except Exception as error:  # noqa: BLE001 - raised to whoever calls next
            await self._lose(file, error)
            return
        finally:
            self._committing.pop(file, None)
            file.ended.set()
            self._changed.notify()
        writer = file.writer
        assert writer is not None
        async with self._calling_back:  # in the order of the commits
            found = IngestedFile(
                writer.url,
                dict(file.partition.values),
                writer.row_count,
                writer.stripe_count,
                length,
                prepared,
                self._low_water(),
            )
            self._files.append(found)
            self._changed.notify()
            if self._options.on_file is not None:
                answer = self._options.on_file(found)
                if inspect.isawaitable(answer):
                    await answer

    async def _committed(self, file: OpenFile) -> tuple[int, Prepared | None]:
        """Commit or prepare a file; its length, and what was prepared."""
        assert file.writer is not None
        async with file.writer as writer:
            prepared = None if self._options.growing else await writer.prepare()
            if file.before is not None:  # readers must not see later rows of a partition first
                await file.before.ended.wait()
                file.before = None
            if self._options.prepare_only and prepared is not None:
                return prepared.length, prepared
            # What happened must be known.
            return (await until_over(retry_commit(writer.commit))).length, None

    async def _lose(self, file: OpenFile, error: Exception) -> None:
        """Give up a file that failed, and end the ingest once all other rows are committed."""
        if self._options.prepare_only:
            raise error
        file.is_lost = True
        if self._open.get(file.partition) is file:
            del self._open[file.partition]
        self._lost_row = min(self._lost_row, file.first_row)
        if self._file_failure is None:
            self._file_failure = error
            self._scope.deadline = anyio.current_time() + RESCUE_S
        if file.writer is not None:
            await self._abort(file.writer)
        self._changed.notify()

    def _low_water(self) -> int:
        """Rows, from the first one on, that are all in committed files."""
        waiting = [item.first_row for item in self._queue if item.flushed is None]
        if self._taking is not None:
            waiting.append(self._taking.first_row)
        waiting += [file.first_row for file in (*self._open.values(), *self._committing)]
        return int(min(*waiting, self._lost_row, self._queued_rows))

    async def _flush_all(self) -> None:
        for file in list(self._open.values()):
            await self._flush(file)
        while self._committing:
            await self._changed.wait()

    async def _flush(self, file: OpenFile) -> None:
        if not self._options.growing:
            await self._roll(file)
            return
        if file.pieces:
            await self._encode(file)
        if file.unflushed_since is not None and file.writer is not None and not file.is_lost:
            file.unflushed_since = None
            try:
                await file.writer.flush()
            except Exception as error:  # noqa: BLE001 - raised to whoever calls next
                await self._lose(file, error)

    async def _abort_open(self) -> None:
        for file in [*self._open.values(), *self._committing]:
            if file.writer is None:
                continue
            await self._abort(file.writer)
        self._open.clear()
        self._committing.clear()
        self._queue.clear()

    async def _abort(self, writer: OrcWriter) -> None:
        try:
            await writer.abort()
        except SinkError as error:
            self._left_behind = self._left_behind or error
        except Exception as error:  # noqa: BLE001 - the others have to end, too
            self._failure = self._failure or error

    # --- time

    def _gathered_due(self) -> float:
        """When single rows have to be queued."""
        since, options = self._gathered_since, self._options
        if since is None:
            return math.inf
        return since + min(GATHERED_S, options.max_age_s or math.inf, options.flush_deadline_s or math.inf)

    def _queue_old_rows(self) -> None:
        if self._gathered_due() <= self._loop.time():
            self._queue_gathered()

    def _next_due(self) -> float | None:
        found = [due for file in self._open.values() for due in self._dues(file) if due is not None]
        due = min(found, default=math.inf)
        due = min(due, self._gathered_due())
        return None if due == math.inf else due

    def _dues(self, file: OpenFile) -> tuple[float | None, float | None]:
        """When a file has to be committed, and when its rows have to be flushed."""
        age_s, deadline_s = self._options.max_age_s, self._options.flush_deadline_s
        rolled = None if age_s is None else file.since + age_s
        if deadline_s is None or file.unflushed_since is None:
            return rolled, None
        return rolled, file.unflushed_since + deadline_s

    async def _flush_due(self) -> bool:
        """End or flush what is old enough; whether there was anything."""
        now = self._loop.time()
        found = False
        for file in list(self._open.values()):
            rolled, flushed = self._dues(file)
            if rolled is not None and rolled <= now:
                await self._roll(file)
            elif flushed is not None and flushed <= now:
                await self._flush(file)
            else:
                continue
            found = True
        return found

    # --- memory: a quarter for rows that wait, a half for open files, the rest for those being committed

    async def _bound_memory(self) -> None:
        while self._open and self._open_bytes() > self._options.memory_limit // 2:
            await self._roll(next(iter(self._open.values())))
        while self._committing and self._open_bytes() + self._committing_bytes() > (
            self._options.memory_limit // 4 * 3
        ):
            with anyio.move_on_after(LOOK_S):
                await self._changed.wait()

    def _open_bytes(self) -> int:
        return sum(file.held_bytes for file in self._open.values())

    def _committing_bytes(self) -> int:
        return sum(file.held_bytes for file in self._committing)


def _slice(rows: IngestedRows, start: int, stop: int) -> IngestedRows:
    if start == 0 and stop == rows.row_count:
        return rows
    return IngestedRows(rows.fields, tuple(v.slice(start, stop) for v in rows.vectors), stop - start)
