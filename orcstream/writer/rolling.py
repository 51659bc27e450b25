"""The files of an ingest: which are open, when one is full or old, and how they end.

Knows partitions, writers and ages. Must not know where rows come from, nor that they wait in a queue
(`writer.ingester`).

A file gets rows until it is full, too old, or has to make room. Then its commit begins, and several commits
go on side by side. Files of a partition are committed in the order of rows. A flush commits files that do not
grow.
"""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from orcstream.codec.encode.grouping import joined, keeps_little
from orcstream.codec.ingest.ingest import IngestedRows, ReadyRows
from orcstream.errors import SinkError, Unsupported
from orcstream.io.contract.byte_sink import Prepared
from orcstream.io.contract.byte_source import retry_commit
from orcstream.io.folders import list_files, make_folder_of
from orcstream.io.loop.tasks import Signal
from orcstream.io.loop.uncancelled import until_over
from orcstream.schema.schema import Schema
from orcstream.writer.ingested import IngestedFile, IngestOptions
from orcstream.writer.partitions import Partition
from orcstream.writer.template import UrlTemplate
from orcstream.writer.workers import Workers
from orcstream.writer.writer import OrcWriter

# Rows of a partition wait until there are so many bytes of them.
HELD_BYTES = 1 << 20
# Rows that are encoded before the size of the file is looked at again, at most; it is looked at four times.
_PIECE_BYTES = 4 << 20
_COMMITS_AT_ONCE = 8
# Bytes on their way become fewer without anybody being told.
_LOOK_S = 0.02
# After a file has failed, the others have so long to be committed.
_RESCUE_S = 60.0


@dataclass(slots=True, eq=False)
class _OpenFile:
    """A file under construction. Rows came first at `since`, and those not flushed at `unflushed_since`.

    No row of it was written before row `first_row` of the ingest. `before` is the partition's file before it,
    if that was not committed when this one was complete.
    """

    partition: Partition
    since: float
    first_row: int
    writer: OrcWriter | None = None
    pieces: list[IngestedRows] = field(default_factory=list)
    row_count: int = 0
    waiting_bytes: int = 0
    unflushed_since: float | None = None
    before: _OpenFile | None = None
    is_lost: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def held_bytes(self) -> int:
        return self.waiting_bytes + (self.writer.held_bytes if self.writer is not None else 0)


class RolledFiles:
    """Gives rows to the file of their partition, and commits files that end.

    `changed` is notified of each change. `first_waiting` returns the number of the first row that was not
    given to a file. After a file has failed, `failure` says why, and the other files have `_RESCUE_S` to be
    committed.
    """

    def __init__(self, options: IngestOptions, changed: Signal, first_waiting: Callable[[], int]) -> None:
        self._options = options
        self._changed = changed
        self._first_waiting = first_waiting
        self._open: OrderedDict[Partition, _OpenFile] = OrderedDict()
        self._committing: dict[_OpenFile, None] = {}  # in the order in which they were complete
        self._numbers = _FileNumbers(options.template, options.storage_options, overwrite=options.overwrite)
        self._schema: Schema | None = None
        self._workers: Workers | None = None
        self._lost_row: float = math.inf  # the first that was lost
        self._calling_back = anyio.Lock()
        self._scope = anyio.CancelScope()
        self.committed: list[IngestedFile] = []
        self.failure: Exception | None = None
        self.left_behind: SinkError | None = None

    @property
    def held_bytes(self) -> int:
        """Memory held by open files and by bytes on their way."""
        return self._open_bytes() + sum(file.held_bytes for file in self._committing)

    def begin(self, schema: Schema, workers: Workers) -> None:
        """Say what the files hold and who encodes it, before the first rows are added."""
        self._schema = schema
        self._workers = workers

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Carry out `work`, which adds rows; end all files after it, and wait for their commits."""
        with self._scope:
            async with anyio.create_task_group() as self._commits:
                await work()
                for file in list(self._open.values()):
                    await self._roll(file)

    def stop(self) -> None:
        """End `run` without the open files; after a failure, all other rows are committed first."""
        if self.failure is None:
            self._scope.cancel()

    # --- rows

    async def add(self, partition: Partition, rows: IngestedRows, since: float, first_row: int) -> None:
        """Give rows to their file, and to the next one where it is full."""
        at = 0
        row_bytes = max(1, rows.size_bytes // max(1, rows.row_count))
        most_rows = max(1, min(_PIECE_BYTES, self._options.max_bytes // 4) // row_bytes)
        while at < rows.row_count:
            file = await self._file_of(partition, since, first_row)
            room = rows.row_count - at
            if self._options.max_rows is not None:
                room = self._options.max_rows - file.row_count
            stop = min(rows.row_count, at + min(room, most_rows))
            piece = rows.slice(at, stop)
            at = stop
            file.pieces.append(piece)
            file.row_count += piece.row_count
            file.waiting_bytes += piece.size_bytes
            if file.unflushed_since is None:
                file.unflushed_since = since
            if file.waiting_bytes >= min(HELD_BYTES, self._options.max_bytes // 4) or not keeps_little(piece):
                await self._encode(file)
            if not file.is_lost and self._is_full(file):
                await self._roll(file)
        await self._bound_memory()

    async def _file_of(self, partition: Partition, since: float, first_row: int) -> _OpenFile:
        """The partition's open file; makes room for a new one."""
        file = self._open.get(partition)
        if file is None:
            while len(self._open) >= self._options.max_open_files:
                await self._roll(next(iter(self._open.values())))
            file = self._open[partition] = _OpenFile(partition, since, first_row)
        self._open.move_to_end(partition)
        return file

    def _is_full(self, file: _OpenFile) -> bool:
        if file.row_count == self._options.max_rows:
            return True
        return file.writer is not None and file.writer.size_bytes >= self._options.max_bytes

    async def _encode(self, file: _OpenFile) -> None:
        """Hand the rows that wait to the file's writer."""
        pieces, file.pieces, file.waiting_bytes = file.pieces, [], 0
        try:
            if file.writer is None:
                file.writer = await self._new_writer(file.partition)
            await file.writer.write(ReadyRows(list(joined(pieces))))
        except Exception as error:  # noqa: BLE001 - raised to whoever calls next
            await self._lose(file, error)

    async def _new_writer(self, partition: Partition) -> OrcWriter:
        assert self._schema is not None
        url = await self._numbers.next_url(dict(partition.texts))
        await make_folder_of(url)
        return await self._options.new_file(url, self._schema).create(self._workers)

    # --- files that end

    async def _roll(self, file: _OpenFile) -> None:
        """Begin the commit of a file; waits while too many are under way."""
        if file.pieces:
            await self._encode(file)
        while len(self._committing) >= _COMMITS_AT_ONCE:
            await self._changed.wait()
        if file.is_lost:
            return
        del self._open[file.partition]
        file.before = next((f for f in reversed(self._committing) if f.partition == file.partition), None)
        self._committing[file] = None
        self._commits.start_soon(self._commit, file)

    async def _commit(self, file: _OpenFile) -> None:
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
            self.committed.append(found)
            self._changed.notify()
            if self._options.on_file is not None:
                answer = self._options.on_file(found)
                if inspect.isawaitable(answer):
                    await answer

    async def _committed(self, file: _OpenFile) -> tuple[int, Prepared | None]:
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

    async def _lose(self, file: _OpenFile, error: Exception) -> None:
        """Give up a file that failed, and end the ingest once all other rows are committed."""
        if self._options.prepare_only:
            raise error
        file.is_lost = True
        if self._open.get(file.partition) is file:
            del self._open[file.partition]
        self._lost_row = min(self._lost_row, file.first_row)
        if self.failure is None:
            self.failure = error
            self._scope.deadline = anyio.current_time() + _RESCUE_S
        if file.writer is not None:
            await self._abort(file.writer)
        self._changed.notify()

    def _low_water(self) -> int:
        """Rows, from the first one on, that are all in committed files."""
        firsts = [file.first_row for file in (*self._open.values(), *self._committing)]
        return int(min(self._first_waiting(), self._lost_row, *firsts))

    async def abort(self) -> None:
        """Abort all files that are not committed."""
        for file in [*self._open.values(), *self._committing]:
            if file.writer is not None:
                await self._abort(file.writer)
        self._open.clear()
        self._committing.clear()

    async def _abort(self, writer: OrcWriter) -> None:
        try:
            await writer.abort()
        except SinkError as error:
            self.left_behind = self.left_behind or error
        except Exception as error:  # noqa: BLE001 - the others have to end, too
            self.failure = self.failure or error

    # --- time

    async def flush(self) -> None:
        """Commit all rows that were added, and wait for it; growing files are flushed and stay open."""
        for file in list(self._open.values()):
            await self._flush(file)
        while self._committing:
            await self._changed.wait()

    async def _flush(self, file: _OpenFile) -> None:
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

    def next_due(self) -> float:
        """When the next file has to be committed or flushed."""
        return min((min(self._dues(file)) for file in self._open.values()), default=math.inf)

    def _dues(self, file: _OpenFile) -> tuple[float, float]:
        """When a file has to be committed, and when its rows have to be flushed."""
        age_s, deadline_s = self._options.max_age_s, self._options.flush_deadline_s
        rolled = math.inf if age_s is None else file.since + age_s
        if deadline_s is None or file.unflushed_since is None:
            return rolled, math.inf
        return rolled, file.unflushed_since + deadline_s

    async def flush_due(self, now: float) -> bool:
        """End or flush what is old enough; whether there was anything."""
        found = False
        for file in list(self._open.values()):
            rolled, flushed = self._dues(file)
            if rolled <= now:
                await self._roll(file)
            elif flushed <= now:
                await self._flush(file)
            else:
                continue
            found = True
        return found

    # --- memory: a quarter for rows that wait, a half for open files, the rest for those being committed

    async def _bound_memory(self) -> None:
        while self._open and self._open_bytes() > self._options.memory_limit // 2:
            await self._roll(next(iter(self._open.values())))
        while self._committing and self.held_bytes > self._options.memory_limit // 4 * 3:
            with anyio.move_on_after(_LOOK_S):
                await self._changed.wait()

    def _open_bytes(self) -> int:
        return sum(file.held_bytes for file in self._open.values())


class _FileNumbers:
    """The numbers of the files, which go on where an earlier ingest of the same template ended.

    Lists each folder once, before its first file, unless names are unique or may be replaced.
    """

    def __init__(
        self, template: UrlTemplate, storage_options: Mapping[str, Any] | None, *, overwrite: bool
    ) -> None:
        self._template = template
        self._storage_options = storage_options
        self._lists = template.has_number and not template.is_unique and not overwrite
        self._listed: set[str] = set()
        self._next = 0

    async def next_url(self, texts: Mapping[str, str]) -> str:
        """The URL of the next file of a partition, given the escaped texts of its columns."""
        folder = self._template.url(texts, self._next).rpartition("/")[0]
        if self._lists and folder not in self._listed:
            taken = await self._taken(folder, texts)
            self._next = max(self._next, taken + 1)
            self._listed.add(folder)
        number, self._next = self._next, self._next + 1
        return self._template.url(texts, number)

    async def _taken(self, folder: str, texts: Mapping[str, str]) -> int:
        """The largest number in the folder; -1 without any."""
        try:
            files = await list_files(folder or ".", storage_options=self._storage_options)
        except (FileNotFoundError, PermissionError, Unsupported):  # the commit checks what cannot be listed
            return -1
        names = (file.path for file in files if "/" not in file.path)
        return max(self._template.numbers_in(texts, names), default=-1)
