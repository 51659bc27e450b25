"""Events in the order of their keys, however they came: sorted in memory, or by runs on disk that are merged.

Knows how events are compared, brought together and put aside. Must not know which events are wanted, nor what
is made of them. Keys ascend; of one key the newest event comes first. Of one key and write id only what was
done last is kept: nobody ever sees what a transaction did before.

Runs are files of events in the machine's folder for such. Their names are gone as soon as they are open, so
that nothing is left of a program that is killed. What is encrypted in the table is encrypted there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from orcstream.acid.read.event_file import INSERT, EventFile
from orcstream.acid.read.row_ids import Ints, RowIds, temporary_errors
from orcstream.acid.write.event_writer import EventLayout, rows_in
from orcstream.codec.encode.grouping import joined
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.codec.vectors._selection import select_positions
from orcstream.codec.vectors.column import vector_bytes
from orcstream.codec.vectors.gather import compact
from orcstream.io.loop.uncancelled import run_in_thread, until_over
from orcstream.plan.acid.snapshot import AcidFile
from orcstream.reader.engine.budget import LEAST_LIMIT
from orcstream.reader.opening import open as open_file
from orcstream.reader.stream import BatchStream
from orcstream.schema.schema import Schema
from orcstream.writer.budget import LEAST_MEMORY_LIMIT
from orcstream.writer.creating import create
from orcstream.writer.options import FileOptions

# So many runs are merged at once; then what was merged counts as one, of the next size.
_FAN_IN = 16
# Rows that are looked at together of one run.
_WINDOW_ROWS = 1 << 13
# Offsets of texts have 32 bits.
_MOST_HELD_BYTES = 1 << 29

# Write id, bucket, row id, and the version with its sign turned: as tuples compare.
_Place = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class EventRows:
    """Some events: ids with versions, what was done, and the columns of the rows."""

    ids: RowIds
    operations: Ints
    rows: IngestedRows

    def __len__(self) -> int:
        return self.rows.row_count

    @property
    def nbytes(self) -> int:
        """Bytes that they hold."""
        return self.ids.nbytes + self.operations.nbytes + sum(map(vector_bytes, self.rows.vectors))

    def slice(self, start: int, stop: int) -> EventRows:
        """Those in a row, in the same memory."""
        ids = self.ids.take(slice(start, stop))
        return EventRows(ids, self.operations[start:stop], self.rows.slice(start, stop))

    def take(self, places: NDArray[np.int64]) -> EventRows:
        """Those at some places, in their order."""
        selection = select_positions(places, len(places), len(self))
        vectors = tuple(
            compact([(vector, selection)], field)
            for field, vector in zip(self.rows.fields, self.rows.vectors, strict=True)
        )
        rows = IngestedRows(self.rows.fields, vectors, len(places))
        return EventRows(self.ids.take(places), self.operations[places], rows)

    def place(self, row: int) -> _Place:
        """Where one belongs."""
        assert self.ids.versions is not None
        return (*self.ids.key(row), -int(self.ids.versions[row]))

    def count_up_to(self, place: _Place) -> int:
        """How many of events in order do not belong behind a place."""
        least, most = 0, len(self)
        while least < most:
            middle = (least + most) // 2
            if self.place(middle) <= place:
                least = middle + 1
            else:
                most = middle
        return least

    @staticmethod
    def joined(parts: Sequence[EventRows]) -> EventRows:
        """All of several."""
        if len(parts) == 1:
            return parts[0]
        (rows,) = joined([part.rows for part in parts])
        operations = np.concatenate([part.operations for part in parts])
        return EventRows(RowIds.joined([part.ids for part in parts]), operations, rows)


def _order(events: EventRows) -> NDArray[np.int64]:
    """The places of events in order; what was done last comes last until here, of one key and version."""
    ids = events.ids
    assert ids.versions is not None
    order = np.lexsort((-ids.versions, ids.row_ids, ids.buckets, ids.write_ids))
    keys = [array[order] for array in (ids.versions, ids.row_ids, ids.buckets, ids.write_ids)]
    is_changed = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        is_changed &= key[1:] == key[:-1]
    is_changed &= events.operations[order[1:]] != INSERT
    found: NDArray[np.int64] = order[np.flatnonzero(~np.append(is_changed, [False])[: len(order)])]
    return found


def _sorted(parts: Sequence[EventRows]) -> EventRows:
    events = EventRows.joined(parts)
    return events.take(_order(events))


class _Source(ABC):
    """Events in order, a part at a time."""

    def __init__(self) -> None:
        self.part: EventRows | None = None

    @abstractmethod
    async def next(self) -> EventRows | None:
        """The next part, None at the end."""

    async def fill(self) -> None:
        """Have a part, unless it is the end."""
        if self.part is None:
            self.part = await self.next()

    async def up_to(self, place: _Place) -> list[EventRows]:
        """All that does not belong behind a place."""
        found: list[EventRows] = []
        while (part := self.part) is not None:
            count = part.count_up_to(place)
            if count:
                found.append(part.slice(0, count))
            if count < len(part):
                self.part = part.slice(count, len(part))
                break
            self.part = await self.next()
        return found


class _Held(_Source):
    """Events that are in memory, sorted; a part is copied when its turn comes."""

    def __init__(self, events: EventRows, order: NDArray[np.int64]) -> None:
        super().__init__()
        self._events = events
        self._order = order

    async def next(self) -> EventRows | None:
        some, self._order = self._order[:_WINDOW_ROWS], self._order[_WINDOW_ROWS:]
        return await run_in_thread(partial(self._events.take, some)) if len(some) else None


class _Run(_Source):
    """Events on disk."""

    def __init__(self, file: EventFile, folder: TemporaryDirectory[str], schema: Schema) -> None:
        super().__init__()
        self._file = file
        self._folder = folder
        self._schema = schema
        self._stream: BatchStream | None = None

    def begin(self, memory_limit: int) -> None:
        """Read it from its beginning."""
        names = self._file.columns
        assert names is not None
        self._stream = self._file.orc.batches(
            columns=[(name,) for name in (*self._file.id_columns, names.row)],
            batch_rows=_WINDOW_ROWS,
            memory_limit=memory_limit,
        )

    async def next(self) -> EventRows | None:
        assert self._stream is not None
        batch = await anext(self._stream, None)
        if batch is None:
            return None
        fields = batch.batch_schema.fields[-1].children

        def part() -> EventRows:
            events = self._file.events(batch, with_ids=True)
            operations = events.operations
            if operations is None:
                operations = np.full(events.row_count, INSERT, np.int32)
            assert events.ids is not None
            rows = rows_in(fields, events.vectors, events.row_count, self._schema)
            return EventRows(events.ids, operations, rows)

        return await run_in_thread(part)

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
        await self._file.orc.aclose()
        await run_in_thread(self._folder.cleanup)


class EventSorter:
    """Sorts events that are added, of rows of one schema; `sorted` has them all then. Has to be closed.

    `memory_limit` bytes are for all it does. `options` say how files of the table are encrypted.
    """

    def __init__(self, schema: Schema, options: FileOptions, *, memory_limit: int) -> None:
        self._schema = schema
        self._layout = EventLayout(schema)
        self._options = options
        self._memory_limit = memory_limit
        self._held: list[EventRows] = []
        self._held_bytes = 0
        self._levels: list[list[_Run]] = []  # of runs of about one size, the oldest first
        self.spilled_runs = 0

    async def add(self, events: EventRows) -> None:
        """More events; of one key and version, they are later than those that were added before."""
        if not len(events):
            return
        self._held.append(events)
        self._held_bytes += events.nbytes
        # What is held is joined, which takes it once more, and copied in order, part by part.
        if self._held_bytes > min(self._memory_limit // 8, _MOST_HELD_BYTES):
            await self._keep(await self._written([await self._take_held()]))

    async def sorted(self) -> AsyncGenerator[EventRows, None]:
        """All events, in order; to be asked once."""
        # Of one key and version, what is older has to come first.
        sources: list[_Source] = [run for level in reversed(self._levels) for run in level]
        if self._held:
            sources.append(await self._take_held())
        async for part in self._merged(sources):
            yield part

    async def aclose(self) -> None:
        """Give back memory and files."""
        levels, self._levels, self._held = self._levels, [], []
        await _close([run for level in levels for run in level])

    # --- runs

    async def _take_held(self) -> _Held:
        held, self._held, self._held_bytes = self._held, [], 0

        def in_order() -> _Held:
            events = EventRows.joined(held)
            held.clear()
            return _Held(events, _order(events))

        return await run_in_thread(in_order)

    async def _keep(self, run: _Run) -> None:
        """Few runs are open at once: those of one size are merged when there are too many."""
        level = 0
        self._put(run, level)
        while len(runs := self._levels[level]) == _FAN_IN:
            larger = await self._written(runs)
            self._levels[level] = []
            level += 1
            self._put(larger, level)
            await _close(runs)

    def _put(self, run: _Run, level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(run)

    async def _written(self, sources: Sequence[_Source]) -> _Run:
        """What the sources have, in a file of its own."""
        # Its names are gone as soon as they are open, where a system removes what is open: Windows does not.
        with temporary_errors():
            folder = TemporaryDirectory(prefix="orcstream-", ignore_cleanup_errors=True)
        path = str(Path(folder.name) / "run")
        try:
            limit = max(self._memory_limit // 4, LEAST_MEMORY_LIMIT)
            with temporary_errors():
                async with create(
                    path, self._layout.schema, **self._run_options(), memory_limit=limit
                ) as orc:
                    async for part in self._merged(sources):
                        await orc.write(self._layout.events(part.ids, part.operations, part.rows))
            opened = await open_file(path, keys=self._options.get("keys"))
        finally:
            await until_over(run_in_thread(folder.cleanup))
        self.spilled_runs += 1
        return _Run(EventFile(AcidFile(path, 0, None, None), opened), folder, self._schema)

    def _run_options(self) -> FileOptions:
        options: FileOptions = {"compression": "lz4", "row_index_stride": 0}
        for name in ("encrypt", "keys", "masks", "encode_threads", "lossy_timestamps"):
            if name in self._options:
                options[name] = self._options[name]
        return options

    async def _merged(self, sources: Sequence[_Source]) -> AsyncGenerator[EventRows, None]:
        """Windows of events, in order: up to where no source has anything smaller left."""
        runs = [source for source in sources if isinstance(source, _Run)]
        for run in runs:
            run.begin(max(self._memory_limit // 4 // len(runs), LEAST_LIMIT))
        while True:
            for source in sources:
                await source.fill()
            ends = [part.place(-1) for part in (source.part for source in sources) if part is not None]
            if not ends:
                return
            end = min(ends)
            window = [part for source in sources for part in await source.up_to(end)]
            yield await run_in_thread(partial(_sorted, window))


async def _close(runs: Sequence[_Run]) -> None:
    async def close_all() -> None:
        for run in runs:
            await run.aclose()

    await until_over(close_all())
