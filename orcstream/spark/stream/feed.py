"""Which files are the next batch of a stream, so that each is in exactly one.

Knows what was seen and in which order files come. Must not know how a batch is read. What Spark keeps is an
offset of a few bytes, which names a batch; what a batch is of is written down (`spark.stream.log`) before
Spark hears of it, so that a batch that is planned again, by whichever driver, is of the same files.

Files are told from others by their names alone, and never by when they were changed, unless maxFileAge says
so: no clock has to be right, and a file that appears late is not lost.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles

from orcstream._printable import logger_of
from orcstream.errors import SourceChanged, UsageError
from orcstream.spark.read.files import FoundFile, FoundFiles, find_files
from orcstream.spark.read.merged_files import Merges, Place
from orcstream.spark.stream.log import FileOfBatch, StreamBatch, StreamLog, StreamState
from orcstream.spark.stream.options import StreamOptions
from orcstream.spark.stream.seen_files import SeenFiles, name_key, version_key

_logger = logger_of("orcstream.spark")
# So often files are listed that a listing may have missed, because they were merged while it was made.
_LISTINGS: Final = 3
# Of files whose contents nobody compares.
_ANY_VERSION: Final = bytes(8)


@dataclass(frozen=True, slots=True)
class Offset:
    """Up to which batch a stream has come; before its first batch it has no id."""

    stream: str = ""
    batch: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"stream": self.stream, "batch": self.batch}

    @classmethod
    def of_json(cls, given: object) -> Offset:
        """Raises `UsageError` for what is no offset of this data source."""
        named = given if isinstance(given, Mapping) else {}
        stream, batch = named.get("stream"), named.get("batch")
        is_named = isinstance(stream, str) and re.fullmatch("[0-9a-f]{32}|", stream)
        if is_named and isinstance(batch, int) and (stream == "") == (batch == 0):
            return cls(str(stream), batch)
        raise UsageError(f"the checkpoint is of another source, or damaged: {given!r} is no offset")


@dataclass(frozen=True, slots=True)
class BatchWork:
    """A batch, and where its rows are now."""

    partition_names: tuple[str, ...]
    places: Sequence[Place]


class StreamFeed:
    """The files of one stream, for the driver. Its methods run on one loop, one at a time."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._merges = Merges(options.read.choice.roots, options.read.access.storage_options)
        self._stream = ""
        self._log: StreamLog | None = None
        self._state = StreamState()
        self._next: StreamBatch | None = None
        self._work: BatchWork | None = None  # that of the next batch, while it is as it was found
        self._only: SeenFiles | None = None  # what the stream is to end with
        self.files_waiting = 0
        self.bytes_waiting = 0

    # --- what Spark asks

    async def fix_end(self) -> None:
        """What is there now is all that will be answered."""
        found = await self._find()
        self._only = SeenFiles()
        for place in self._merges.places(found.files):
            self._only.add(name_key(place.name), _version(place), None)

    async def advance(self, start: Offset, limit: ReadLimit) -> Offset:
        """The offset after the next batch, which is durable then; `start` where there is nothing to read."""
        await self._go_to(start)
        log = self._log
        assert log is not None
        await log.save(self._state)
        batch = await log.batch(start.batch + 1)
        if batch is None:
            batch = await self._choose(limit)
            if batch is None:
                return start
            begun = await log.begin(batch)
            if begun is not batch:
                self._work = None
            batch = begun
        self._next = batch
        return Offset(self._stream, batch.number)

    async def work(self, start: Offset, end: Offset) -> list[BatchWork]:
        """The batches after `start` up to `end`, as often as it is asked."""
        found = []
        for number in range(start.batch + 1, end.batch + 1):
            is_next = self._next is not None and (end.stream, number) == (self._stream, self._next.number)
            if is_next and self._work is not None:
                found.append(self._work)
                continue
            log = await self._log_of(end.stream)
            batch = await log.batch(number)
            if batch is None:
                await log.state_at(number)  # says what is missing
                raise UsageError(
                    f"batch {number} of this stream is remembered no more; use a newer checkpoint"
                )
            found.append(await self._found_again(batch))
        return found

    # --- what was seen

    async def _log_of(self, stream: str) -> StreamLog:
        options = self._options
        if self._log is not None and stream == self._stream:
            return self._log
        url = f"{options.log}/{stream}"
        return await StreamLog.open(url, options.read.access.storage_options, options.snapshot_every)

    async def _go_to(self, start: Offset) -> None:
        """Make the state that after `start`."""
        same = self._log is not None and (start.stream == self._stream or not start.stream)
        if same and start.batch == self._state.batch:
            return
        if same and self._next is not None and start.batch == self._next.number:
            self._state.add(self._next)
        elif start.stream:
            self._log = await self._log_of(start.stream)
            self._state = await self._log.state_at(start.batch)
            self._stream = start.stream
        else:
            self._stream = uuid.uuid4().hex
            self._log = await self._log_of(self._stream)
            self._state = StreamState()
        self._next = self._work = None

    # --- choosing

    async def _find(self) -> FoundFiles:
        read = self._options.read
        found = await find_files(read.choice, read.access.storage_options)
        for file in found.files:
            if file.length is None:
                raise UsageError(
                    "a stream is of folders that can be listed, and this one cannot",
                    url=file.url,
                )
        await self._merges.refresh(file.url for file in found.files)
        return found

    async def _choose(self, limit: ReadLimit) -> StreamBatch | None:
        """The next batch, of what is there and was not seen; None where nothing is."""
        found = await self._find()
        state, options = self._state, self._options
        starts = state.batch == 0
        if starts and options.existing == "ignore":
            return await self._begin_behind(found)
        waiting = [place for place in self._merges.places(found.files) if self._is_new(place)]
        waiting.sort(key=_latest_first if options.latest_first else _oldest_first)
        admitted = _admitted(waiting, limit)
        self.files_waiting = len(waiting) - len(admitted)
        self.bytes_waiting = sum(place.length for place in waiting) - sum(one.length for one in admitted)
        if not admitted:
            return None
        self._work = BatchWork(found.partition_names, admitted)
        files = tuple(_of_batch(place) for place in admitted)
        return StreamBatch(
            state.batch + 1,
            found.partition_names,
            files,
            merged=tuple(self._used_up(found.files, {file.name for file in files})),
            forgets_before=self._forgets_before(files),
            whole=_last_merges(waiting) if starts else {},
        )

    async def _begin_behind(self, found: FoundFiles) -> StreamBatch:
        """A first batch of nothing, after which all files that are there are seen."""
        state = StreamState(1)
        places = list(self._merges.places(found.files))
        for place in places:
            state.seen.add(name_key(place.name), _version(place), place.file.modified_s)
            state.note_time(place.file.modified_s)
        for name, _ in self._merges.merged(found.files):
            state.seen.add(name_key(name), _ANY_VERSION, None)
        state.whole = _last_merges(places)
        assert self._log is not None
        await self._log.snapshot(state)
        self._state = replace(state, batch=0)
        self._work = BatchWork((), ())
        return StreamBatch(1, whole=state.whole)

    def _is_new(self, place: Place) -> bool:
        options, state = self._options, self._state
        name, file = name_key(place.name), place.file
        if place.rows is not None and options.max_age_s is not None:
            raise UsageError(
                "option maxFileAge is not for folders whose files are merged: how old those were is lost",
                url=file.url,
            )
        before, modified = state.forgets_before, file.modified_s
        is_old = before is not None and modified is not None and modified < before
        if is_old or not self._is_before_end(place, name):
            return False
        seen = state.seen.version_of(name)
        if seen is None:
            self._check_merge(place)
            return True
        if _ANY_VERSION in (seen, _version(place)) or seen == _version(place) or options.replaced == "ignore":
            return False
        if options.replaced == "fail":
            raise SourceChanged(
                "the file was replaced after the stream had read it; to read replaced files again, or never, "
                "give option replaced_files",
                url=file.url,
            )
        return True

    def _is_before_end(self, place: Place, name: bytes) -> bool:
        if self._only is None:
            return True
        known = self._only.version_of(name)
        return known is not None and (_ANY_VERSION in (known, _version(place)) or known == _version(place))

    def _check_merge(self, place: Place) -> None:
        """Refuse rows that may have been read before they were merged."""
        id_, state = place.merge, self._state
        if id_ is not None and state.batch > 0 and id_.batch > state.whole.get(id_.query, -1):
            raise UsageError(
                "this file was merged from others, and there is no record any more of which: the stream has "
                "been behind for too long, or does not read the folder that was given to the writer or the "
                "job that merged them; start it with a new checkpoint",
                url=place.file.url,
            )

    def _used_up(self, files: Sequence[FoundFile], chosen: set[str]) -> Iterator[str]:
        """Merged files of which all rows are in this batch or one before."""
        seen = self._state.seen
        for name, parts in self._merges.merged(files):
            if seen.version_of(name_key(name)) is None and all(
                part.name in chosen or seen.version_of(name_key(part.name)) is not None for part in parts
            ):
                yield name

    def _forgets_before(self, files: Iterable[FileOfBatch]) -> float | None:
        age, before = self._options.max_age_s, self._state.forgets_before
        times = [file.modified_s for file in files if file.modified_s is not None]
        times += [] if self._state.latest_s is None else [self._state.latest_s]
        if age is None or not times:
            return before
        return max(times) - age if before is None else max(before, max(times) - age)

    # --- a batch that is planned again

    async def _found_again(self, batch: StreamBatch) -> BatchWork:
        """Where the rows of a batch are now: files may have been merged, replaced or removed meanwhile."""
        if not batch.files:
            return BatchWork(batch.partition_names, ())
        wanted = {file.name for file in batch.files}
        for _ in range(_LISTINGS):
            found = await self._find()
            by_name = {one.name: one for one in self._merges.places(found.files) if one.name in wanted}
            if len(by_name) == len(wanted):
                break
        places = (self._again(file, by_name.get(file.name), batch) for file in batch.files)
        return BatchWork(batch.partition_names, [one for one in places if one is not None])

    def _again(self, file: FileOfBatch, place: Place | None, batch: StreamBatch) -> Place | None:
        if place is None:
            if not self._options.read.faults.missing:
                raise FileNotFoundError(
                    f"{file.name} is gone, and batch {batch.number} of the stream, which it belongs to, was "
                    "not read yet; with option ignoreMissingFiles such files are left out"
                )
            _logger.warning("%s is gone before it was read, and left out", file.name)
            return None
        version = bytes.fromhex(file.version)
        if _ANY_VERSION not in (version, _version(place)) and version != _version(place):
            if self._options.replaced == "fail":
                raise SourceChanged(
                    f"the file was replaced before batch {batch.number} of the stream was read; to read what "
                    "is there now, give option replaced_files",
                    url=place.file.url,
                )
            if self._options.replaced == "read":
                return None  # it is a new file, of a later batch
        return replace(place, file=replace(place.file, texts=file.texts))


def _version(place: Place) -> bytes:
    return _ANY_VERSION if place.rows is not None else version_key(place.file.length, place.file.version)


def _of_batch(place: Place) -> FileOfBatch:
    file = place.file
    return FileOfBatch(place.name, place.length, _version(place).hex(), file.texts, file.modified_s)


def _oldest_first(place: Place) -> tuple[float, str]:
    return place.file.modified_s or 0.0, place.name


def _latest_first(place: Place) -> tuple[float, str]:
    return -(place.file.modified_s or 0.0), place.name


def _last_merges(places: Iterable[Place]) -> dict[str, int]:
    """By query, the last batch after which files were merged without a record that says how."""
    found: dict[str, int] = {}
    for id_ in (place.merge for place in places):
        if id_ is not None:
            found[id_.query] = max(id_.batch, found.get(id_.query, -1))
    return found


def _admitted(waiting: list[Place], limit: ReadLimit) -> list[Place]:
    """The first of them, as far as the limit lets; one file at least, however large."""
    if isinstance(limit, ReadAllAvailable):
        return waiting
    if isinstance(limit, ReadMaxFiles):
        return waiting[: max(1, limit.max_files)]
    if not isinstance(limit, ReadMaxBytes):
        raise UsageError(f"a stream of files has no limit of the kind {type(limit).__name__}")
    total = 0
    for at, place in enumerate(waiting):
        total += place.length
        if at and total > limit.max_bytes:
            return waiting[:at]
    return waiting
