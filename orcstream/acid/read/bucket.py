"""The files of one bucket of one partition, and which of their rows are hidden.

Knows which files have to be open before the first row of the bucket can be told, and how the keys of deleted
rows are loaded. Must not know the order in which files are read, nor what users asked for. For one task at a
time.

A delete has the bucket of the row that it deletes, in the name of its file as well, so buckets are read on
their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial, reduce

import anyio
import numpy as np

from orcstream.acid.read.event_file import INSERT, EventFile, Events, KeyBounds, visible_events
from orcstream.acid.read.row_ids import DeletedKeys, KeyBudget, KeyCollector, RowIds
from orcstream.codec.vectors.column import Mask
from orcstream.errors import FormatError
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import run_in_thread, until_over
from orcstream.plan.acid.names import AcidDirectory, DirectoryKind, EventColumns
from orcstream.plan.acid.snapshot import AcidFile, WriteIds
from orcstream.query.expr import Expr, col
from orcstream.reader.file import OrcFile

OpenFile = Callable[[AcidFile], Awaitable[OrcFile]]
StripesOf = Callable[[EventFile], Awaitable[Sequence[int]]]

# Below this, deletes are read whole: looking for the part that matters costs more.
_NARROWED_BYTES = 1 << 20
# More files than this are not opened for that.
_NARROWED_FILES = 64
_ALWAYS = (1 << 63) - 1
# Of a stream of keys, which are small.
_KEYS_LIMIT = 32 << 20


class Bucket:
    """The files with rows, in Hive's order, and those with deletes, in any.

    `versioned` are directories that are known to be of Hive 3 or later. Once it is prepared, `hidden` are the
    keys of deleted rows, None where there are none. Every file with rows has to be given back with
    `close_file`; the last one closes the rest.
    """

    def __init__(
        self,
        inserts: Sequence[AcidFile],
        deletes: Sequence[AcidFile],
        versioned: frozenset[AcidDirectory],
        write_ids: WriteIds,
        *,
        needs_ids: bool,
        merges: bool = True,
        stripes_of: StripesOf | None = None,
    ) -> None:
        """`merges` is false where all events are wanted, hidden or not.

        `stripes_of` answers which stripes of a file have rows that are wanted; all of them without it.
        """
        self._stripes_of = stripes_of
        self.inserts = inserts
        self._deletes = deletes
        self._versioned = versioned
        self._write_ids = write_ids
        self._merges = merges
        self._needs_ids = needs_ids or bool(deletes) or any(map(self._is_of_any_version, inserts))
        self._left = len(inserts)
        self._files: dict[str, EventFile] = {}
        self._lock = anyio.Lock()
        self._is_prepared = False
        self.hidden: DeletedKeys | None = None

    async def prepare(self, open_file: OpenFile, budget: KeyBudget) -> None:
        """Open what has to be known before any row, and load the keys of deleted rows."""
        async with self._lock:
            if self._is_prepared:
                return
            await self._open_first(open_file)
            self._place()
            updated = [file for file in self._files.values() if _may_replace(file)]
            if self._merges and (self._deletes or updated):
                self.hidden = await self._load(open_file, updated, budget)
            self._is_prepared = True

    async def file(self, file: AcidFile, open_file: OpenFile) -> EventFile:
        """One of the inserts, opened."""
        found = self._files.pop(file.path, None)
        return found or EventFile(file, await open_file(file))

    async def close_file(self, file: EventFile | None) -> None:
        """Of an insert that was read, or could not be opened."""
        await until_over(self._close_file(file))

    async def _close_file(self, file: EventFile | None) -> None:
        if file is not None:
            await file.orc.aclose()
        self._left -= 1
        if self._left == 0:
            await self.aclose()

    async def aclose(self) -> None:
        """Give back all that is held."""
        files, self._files = self._files, {}
        for file in files.values():
            await file.orc.aclose()
        if self.hidden is not None:
            self.hidden.close()

    # --- what is opened first

    async def _open_first(self, open_file: OpenFile) -> None:
        delete_bytes = sum(file.length for file in self._deletes)
        narrows = delete_bytes > _NARROWED_BYTES and len(self.inserts) <= _NARROWED_FILES
        # Some are open already where another file's task has tried it and failed.
        left = (file for file in self.inserts if file.path not in self._files)
        wanted = [file for file in left if narrows or self._is_uncertain(file)]

        async def opened(file: AcidFile) -> None:
            self._files[file.path] = EventFile(file, await open_file(file))

        await side_by_side(wanted, opened)

    def _is_uncertain(self, file: AcidFile) -> bool:
        """Whether what it says of its rows matters to others of the bucket."""
        if not file.is_of_events:
            return self._needs_ids  # its rows may get their ids by their place, after those of others
        return self._is_of_any_version(file)

    def _is_of_any_version(self, file: AcidFile) -> bool:
        """Whether its events may replace others, as before Hive 3, and that matters."""
        directory = file.directory
        return (
            self._merges
            and file.is_of_events
            and directory is not None
            and directory.kind is DirectoryKind.DELTA
            and directory not in self._versioned
        )

    def _place(self) -> None:
        """Row ids run on through the files of one directory that have none."""
        reached: dict[AcidDirectory | None, int] = {}
        for acid_file in self.inserts:
            file = self._files.get(acid_file.path)
            if file is not None and file.columns is None:
                file.first_row_id = reached.get(acid_file.directory, 0)
                reached[acid_file.directory] = file.first_row_id + file.orc.row_count

    # --- keys

    async def _load(
        self, open_file: OpenFile, updated: Sequence[EventFile], budget: KeyBudget
    ) -> DeletedKeys:
        bounds = await self._narrow()
        collector = _Collecting(KeyCollector(budget), bounds, self._write_ids, bool(updated))

        async def deletes(file: AcidFile) -> None:
            orc = await open_file(file)
            try:
                await collector.take(EventFile(file, orc))
            finally:
                await until_over(orc.aclose())

        try:
            await side_by_side(self._deletes, deletes)
            await side_by_side(updated, collector.take)
            return await collector.finish()
        except BaseException:
            collector.discard()
            raise

    async def _narrow(self) -> KeyBounds | None:
        """What the keys of the bucket's rows that are wanted lie within; None where that is not known."""
        if len(self._files) < len(self.inserts):
            return None
        found: list[KeyBounds | None] = []

        async def look(file: EventFile) -> None:
            everything = range(len(file.orc.stripes))
            wanted = everything if self._stripes_of is None else await self._stripes_of(file)
            if wanted:
                found.append(file.bounds(wanted))

        await side_by_side(self._files.values(), look)
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        return reduce(KeyBounds.joined, known)


class _Collecting:
    """Brings the keys of several files together that are read side by side."""

    def __init__(
        self,
        collector: KeyCollector,
        bounds: KeyBounds | None,
        write_ids: WriteIds,
        has_versions: bool,
    ) -> None:
        self._collector = collector
        self._bounds = bounds
        self._write_ids = write_ids
        self._has_versions = has_versions
        self._lock = anyio.Lock()

    async def take(self, file: EventFile) -> None:
        """The keys that a file hides: of deletes, or of what it replaces."""
        names = file.columns
        if names is None:
            raise FormatError("deletes are not in the columns of events", url=file.orc.url)
        where = None if self._bounds is None else _within(self._bounds, names)
        async with file.orc.batches(
            columns=[(name,) for name in file.id_columns],
            where=where,
            memory_limit=_KEYS_LIMIT,
            rows=range(file.orc.row_count),
        ) as stream:
            async for batch in stream:
                keys = self._hidden(file, file.events(batch, with_ids=True))
                async with self._lock:
                    await run_in_thread(partial(self._collector.add, keys))

    def _hidden(self, file: EventFile, events: Events) -> RowIds:
        ids = events.ids
        assert ids is not None
        keep = visible_events(file, self._write_ids, ids)
        if _is_of_updates(file) and events.operations is not None:
            replaces: Mask = events.operations != INSERT
            keep = replaces if keep is None else keep & replaces
        keys = ids if keep is None else ids.take(keep)
        return _versioned(keys, file) if self._has_versions else _copied(keys)

    async def finish(self) -> DeletedKeys:
        return await run_in_thread(self._collector.finish)

    def discard(self) -> None:
        """Give back what was brought together."""
        self._collector.discard()


def _within(bounds: KeyBounds, names: EventColumns) -> Expr:
    """Which events have keys of a range, as far as it pays to ask."""
    write_id = col((names.original_write_id,))
    found = write_id.between(bounds.first_write_id, bounds.last_write_id)
    if bounds.first_write_id < bounds.last_write_id:
        return found
    return found & col((names.row_id,)).between(bounds.first_row_id, bounds.last_row_id)


def _is_of_updates(file: EventFile) -> bool:
    """Whether rows and what replaces them stand side by side, as before Hive 3."""
    directory = file.file.directory
    return directory is not None and directory.kind is DirectoryKind.DELTA


def _may_replace(file: EventFile) -> bool:
    return _is_of_updates(file) and not file.has_only_inserts


def _copied(keys: RowIds) -> RowIds:
    """Keys alone, in memory of their own: a batch's would keep all of its columns."""
    return RowIds(keys.write_ids.copy(), keys.buckets.copy(), keys.row_ids.copy())


def _versioned(keys: RowIds, file: EventFile) -> RowIds:
    """Keys with what decides between events of one key; a delete delta's come after all others."""
    plain = _copied(keys)
    versions, statements = keys.versions, keys.statements
    assert versions is not None
    assert statements is not None
    if not _is_of_updates(file):
        versions = np.full(len(keys), _ALWAYS, np.int64)
    return RowIds(plain.write_ids, plain.buckets, plain.row_ids, versions.copy(), statements.copy())
