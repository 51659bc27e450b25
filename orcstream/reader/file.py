"""An open file: its facts, its streams of batches, its plan.

Puts what the user asks for into the words of the layers below; `reader.options` says what the options mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import index
from typing import TYPE_CHECKING, NoReturn, Unpack

import numpy as np

from orcstream._keywords import takes
from orcstream.batch import ReadResult
from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import StatisticsList, StripeFooter, StripeInformation
from orcstream.codec.metadata.wire import AT_ONCE_BYTES, AT_ONCE_COLUMNS, Room, metadata_limit
from orcstream.codec.streams.compression import Compression
from orcstream.errors import ColumnNotFound, UsageError, located
from orcstream.file.unlocking import EncryptedColumn, KeyRing, UnlockedFile
from orcstream.file.zones import FileTimes
from orcstream.io.loop.tasks import Closable
from orcstream.io.loop.uncancelled import called, run_in_thread
from orcstream.plan.selection import Rows, rows_of_numbers
from orcstream.plan.tail import Tail, check_footer_length, footer_of, is_large
from orcstream.reader.engine.budget import DEFAULT_MEMORY_LIMIT
from orcstream.reader.engine.pipeline import take_rows
from orcstream.reader.engine.session import Session
from orcstream.reader.engine.stripes import index_requests, parse_index
from orcstream.reader.options import (
    ANY_TIME,
    LARGE_BATCHES,
    ExplainKeywords,
    ReadKeywords,
    ReadOptions,
    StripesKeywords,
    TakeKeywords,
    Where,
)
from orcstream.reader.planned import ReadingPlan
from orcstream.reader.planning import ReadPlanner
from orcstream.reader.stream import BatchStream, More
from orcstream.schema.column_statistics import ColumnStatistics
from orcstream.schema.schema import Schema
from orcstream.schema.types import dotted_names

if TYPE_CHECKING:
    from orcstream.reader.explain import Explanation
    from orcstream.reader.following import Following
    from orcstream.reader.verifying import Verification


class FileStatistics(Mapping[str, ColumnStatistics]):
    """Statistics over the whole file, by dotted column name; parsed when asked for."""

    def __init__(self, schema: Schema, statistics: StatisticsList, url: str) -> None:
        self._schema = schema
        self._statistics = statistics
        self._url = url
        # The column ids by name, once names were listed: finding each of thousands by its dots takes long.
        self._places: Mapping[str, int] | None = None

    def __repr__(self) -> str:
        return f"<FileStatistics of {self._url}: {len(self)} columns; of one, ['name'] has them>"

    def __getitem__(self, column: str | tuple[str, ...]) -> ColumnStatistics:
        with located(url=self._url):
            place = None
            if self._places is not None and isinstance(column, str):
                place = self._places.get(column)
            found = self._statistics.get(self._schema[column].column_id if place is None else place)
            if found is None:
                raise ColumnNotFound(f"the file has no statistics of column {column!r}")
            return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def _listed(self) -> Mapping[str, int]:
        if self._places is not None:
            return self._places
        names = dotted_names(self._schema.root)
        counts = Counter(names[1:])
        places: dict[str, int] = {}
        first = 1
        for column in range(1, min(len(names), len(self._statistics))):
            # Names that occur twice cannot be looked up, nor what is below; it is there by column id.
            if counts[names[column]] > 1:
                first = max(first, self._schema.types[column].last_column_id + 1)
            elif column >= first:
                places[names[column]] = column
        self._places = places
        return places


class OrcFile(Closable):
    """An open ORC file. For use from one event loop; several streams at a time are fine."""

    def __init__(
        self,
        session: Session,
        unlocked: UnlockedFile,
        cached: RangeBuffer,
        times: FileTimes,
        ring: KeyRing,
        following: Following | None = None,
    ) -> None:
        self._session = session
        self._unlocked = unlocked
        self._cached = cached
        self._times = times
        self._ring = ring
        self._following = following
        self._planner = ReadPlanner(session, unlocked, cached, times)

    # --- facts -------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """What was opened, credentials stripped."""
        return self._session.source.url

    @property
    def tail(self) -> Tail:
        """Postscript and footer, as checked values; `tail.to_bytes()` opens the file again without a read."""
        return self._unlocked.stored_tail

    @property
    def _tail(self) -> Tail:
        """With the statistics of the form that is read."""
        return self._unlocked.tail

    @property
    def schema(self) -> Schema:
        """The types of all columns, as the file has them: the root is a struct in most files."""
        return self._tail.footer.schema

    @property
    def row_count(self) -> int:
        """How many rows there are; of a followed file, those that were seen last."""
        return self._tail.footer.row_count

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        """Where each stripe lies, in bytes of the file, and which rows it holds."""
        return self._tail.footer.stripes

    @property
    def compression(self) -> Compression:
        """The codec of the whole file; `Compression.NONE` where there is none."""
        return self._tail.postscript.compression

    @property
    def user_metadata(self) -> Mapping[str, bytes]:
        """What the user of the writer stored with the file, by name."""
        return self._tail.footer.user_metadata

    @property
    def statistics(self) -> FileStatistics:
        """Column statistics over the whole file, by dotted name.

        Those of an encrypted column are of its values where its key was had, and else of what its mask left.
        """
        return FileStatistics(self.schema, self._tail.footer.statistics, self.url)

    @property
    def encrypted_columns(self) -> tuple[EncryptedColumn, ...]:
        """The columns that are encrypted, and whether their keys were had; none in most files."""
        return self._unlocked.encrypted_columns

    # --- files that grow ---------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether all rows are there: false while a followed file is being written."""
        return self._following is None or self._following.is_complete

    async def refresh(self) -> int:
        """Look at a followed file again, and answer how many rows it has now.

        Raises `SourceChanged` where another file has taken its place, and what `open` raises. Of a file that
        is complete or was not opened with ``follow=True``, it answers what was known.
        """
        if self._following is not None:
            self._check_open()
            await self._following.look()
            await self._see()
        return self.row_count

    async def _see(self) -> None:
        """Take over what was seen of a followed file."""
        assert self._following is not None
        while (seen := self._following.seen)[0] is not self.tail:
            tail, cached = seen
            with located(url=self.url):
                unlocked = await UnlockedFile.unlocked(tail, self._ring)
            # Else another task has looked again meanwhile, and perhaps taken over what it saw.
            if self._following.seen is seen:
                self._unlocked, self._cached = unlocked, cached
                self._planner = ReadPlanner(self._session, unlocked, cached, self._times)

    async def _beyond(self, row: int, rows: range | None) -> bool:
        """Wait for rows from `row` on; false where a stream of `rows` has none to expect."""
        if self._following is None or (rows is not None and rows.stop <= row):
            return False
        found = await self._following.beyond(row)
        await self._see()
        return found

    # --- reading -----------------------------------------------------------------------------------

    @takes(ReadKeywords, ReadOptions)
    def batches(self, **options: Unpack[ReadKeywords]) -> BatchStream:
        """A stream of batches, smaller than `batch_rows` where rows are large or a stripe ends.

        Of a file that is followed, the stream waits for rows that are yet to be written, and ends with the
        file or with `rows`. A step that is cancelled loses none.

        Raises `ColumnNotFound`, `SchemaMismatch` and other `UsageError` at once, or for a file of more than
        2,000 columns, whose reads are planned on a thread, when the stream is entered or its first step is
        taken; while reading `FormatError`, `Unsupported`, `SourceError`.
        """
        return self._batches(ReadOptions(**options))

    @takes(ReadKeywords, ReadOptions, defaults=LARGE_BATCHES)
    async def read(self, **options: Unpack[ReadKeywords]) -> ReadResult:
        """All rows at once; `ReadResult.to_arrow` makes a table of them. Takes the same as `batches`.

        The result itself is outside `memory_limit`. Raises what `batches` and its steps raise.
        """
        return await _all_of(self._stream(ReadOptions(**options)))

    @takes(TakeKeywords, ReadOptions)
    async def take(self, rows: Sequence[int], **options: Unpack[TakeKeywords]) -> ReadResult:
        """The rows of the numbers in `rows`, in the order given, in one plan; one may come more than once.

        Only the row groups that hold them are read, where the file has row indexes. Raises `UsageError` for
        numbers that are no rows of the file, and for booleans.
        """
        asked = ReadOptions(**options)
        numbers = self._row_numbers(rows)
        distinct = sorted(set(numbers))
        found = await _all_of(self._stream(asked, rows_of_numbers(distinct)))
        place = {number: at for at, number in enumerate(distinct)}
        taken = partial(take_rows, found, [place[number] for number in numbers])
        # It takes about 30 microseconds for each column.
        return await called(taken, is_large=self._planner.plans_long)

    @takes(ExplainKeywords, ReadOptions, defaults=ANY_TIME)
    async def explain(self, **options: Unpack[ExplainKeywords]) -> Explanation:
        """What such a read asks the store for; reads the stripe footers, and indexes, to know it.

        Raises what `batches` raises.
        """
        from orcstream.reader.explain import explain_plan

        plan = await self._plan(ReadOptions(**options))
        columns_read = str(plan.schema.schema)
        return await explain_plan(
            plan, self._tail, self._cached, columns_read, self._fetch, self._session.suffix_count
        )

    def _batches(self, options: ReadOptions) -> BatchStream:
        more: More | None = None
        if self._following is not None:
            more = partial(self._beyond, rows=options.rows)
        return self._stream(options, more=more)

    def _stream(
        self, options: ReadOptions, rows: Rows | None = None, more: More | None = None
    ) -> BatchStream:
        self._check_open()
        return BatchStream(
            self,
            lambda first: (self._planner.plan(options, rows, first), self.row_count),
            self._session.tasks,
            self.url,
            more,
            plans_long=self._planner.plans_long,
        )

    async def _plan(self, options: ReadOptions) -> ReadingPlan:
        return await called(lambda: self._planner.plan(options), is_large=self._planner.plans_long)

    def _check_open(self) -> None:
        if self._session.is_closed:
            raise UsageError("the file is closed", url=self.url)

    def _row_numbers(self, rows: Sequence[int]) -> list[int]:
        if not isinstance(rows, Iterable):
            raise UsageError(f"take() takes several numbers of rows, such as [{rows!r}]", url=self.url)
        numbers: list[int] = []
        for row in rows:
            if isinstance(row, bool | np.bool_):
                raise UsageError(
                    "take() takes numbers of rows, not a mask; numpy.flatnonzero(mask) makes numbers of one",
                    url=self.url,
                )
            number = index(row) if hasattr(row, "__index__") else -1
            if not 0 <= number < self.row_count:
                raise UsageError(f"no row {row!r}: the file has {self.row_count}", url=self.url)
            numbers.append(number)
        return numbers

    # --- parts of the file, for tools --------------------------------------------------------------

    async def stripe_footer(self, stripe: int) -> StripeFooter:
        """The directory of one `stripe`, by its index from 0: its streams and encodings.

        Raises `UsageError` for one that is not there, `CorruptStripe`, `SourceError`.
        """
        information = self._stripe(stripe)
        wanted = information.footer_range
        buffer = self._cached
        with located(url=self.url):
            check_footer_length(information)
        if wanted.start < buffer.range.start:
            (buffer,) = await self._fetch([wanted])
        data = buffer.view(wanted)
        with located(url=self.url):
            parse = partial(footer_of, self._tail, information, data)
            return await called(parse, is_large=is_large(self._tail, data))

    async def row_index(self, stripe: int) -> Mapping[int, RowIndex]:
        """The row indexes of one `stripe` by column id: positions and statistics of its row groups.

        Empty for a file without them; `orcstream.codec.metadata.structure.positions_of` names positions.
        Raises `UsageError` for a stripe that is not there, `CorruptStripe`, `SourceError`.
        """
        information = self._stripe(stripe)
        footer = await self.stripe_footer(stripe)
        file = self._unlocked
        with located(url=self.url):
            variants = file.variants_of(file.form.variant_of)
            await file.unlock_stripes([information], variants)
        room = Room(metadata_limit(self._tail.file_length), "row indexes of a stripe")
        choose = partial(index_requests, file, information, footer, variants, room)
        with located(url=self.url):
            is_wide = len(footer.streams) > AT_ONCE_COLUMNS
            wanted, requests = await called(choose, is_large=is_wide)
        buffers = await self._fetch([request.range for request in requests])

        def parse() -> Mapping[int, RowIndex]:
            return {
                wanted[member].column: parse_index(
                    file, information, wanted[member], buffer.view(wanted[member].range), room
                )
                for request, buffer in zip(requests, buffers, strict=True)
                for member in request.members
            }

        with located(url=self.url):
            return await called(parse, is_large=room.taken > AT_ONCE_BYTES)

    async def stripe_statistics(self) -> tuple[StatisticsList, ...]:
        """Column statistics of each stripe, as far as the file has them."""
        file = self._unlocked
        with located(url=self.url):
            held = file.held_statistics
            if held is None:
                (buffer,) = await self._fetch([file.statistics_range])
                held = bytes(buffer.view(buffer.range))
            # There may be millions.
            return await run_in_thread(lambda: file.stripe_statistics(memoryview(held)))

    @takes(StripesKeywords, ReadOptions)
    async def matching_stripes(self, where: Where, **options: Unpack[StripesKeywords]) -> tuple[int, ...]:
        """The numbers of the stripes that may have matches, by the statistics of file and stripes.

        `where` and the options are those of the read to come. Takes one request where the stripes' statistics
        did not come with the tail. Raises what `batches` raises for them, and `SourceError`.
        """
        return await self._matching(ReadOptions(columns=[], where=where, **options))

    async def _matching(self, options: ReadOptions) -> tuple[int, ...]:
        self._check_open()
        plan = await self._plan(options)
        wanted = plan.stripes.statistics_range
        statistics = None
        if wanted is not None:
            (buffer,) = await self._fetch([wanted])
            statistics = buffer.view(wanted)
        works = await run_in_thread(lambda: plan.stripes.works(statistics))  # there may be millions
        return tuple(work.information.index for work in works)

    async def verify(
        self,
        *,
        stripes: range | None = None,
        on_rows: Callable[[int], None] | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
    ) -> Verification:
        """Decode every stripe and compare what the file's statistics claim with its values.

        With `stripes`, only those are looked at, and what the footer claims of the whole file is not.
        `on_rows` is told how many rows were looked at, now and then. `memory_limit`, in bytes, is for
        decoding, as that of `batches`. What is wrong with the file is in the answer; raises `SourceError`
        where the store fails. Bloom filters are not looked at.
        """
        # With it come the writer's statistics, which reading does without.
        from orcstream.reader.verifying import verify_file

        return await verify_file(
            self,
            self._times,
            statistics=self._tail.footer.statistics,
            stripes=stripes,
            on_rows=on_rows,
            memory_limit=memory_limit,
        )

    # --- life time ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Stop all streams of this file and give back its connections; may be called again."""
        await self._session.aclose()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and not session.is_closed:
            session.request_stop()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an open file cannot be pickled: pickle file.url and file.tail.to_bytes(), and open it again"
        )

    def __repr__(self) -> str:
        return f"<OrcFile {self.url}: {self.row_count} rows, {len(self.stripes)} stripes>"

    # --- helpers -----------------------------------------------------------------------------------

    def _stripe(self, stripe: int) -> StripeInformation:
        if not 0 <= stripe < len(self.stripes):
            raise UsageError(f"no stripe {stripe}: the file has {len(self.stripes)}", url=self.url)
        return self.stripes[stripe]

    async def _fetch(self, ranges: list[ByteRange]) -> list[RangeBuffer]:
        self._check_open()
        buffers = await self._session.fetch(ranges, "metadata")
        await self._session.source.verify()
        return buffers


async def _all_of(stream: BatchStream) -> ReadResult:
    async with stream:
        batches = [batch async for batch in stream]
        return ReadResult(stream.batch_schema, batches)


# With options that are checked already, for tables of several files.


def batches_of(file: OrcFile, options: ReadOptions) -> BatchStream:
    """`OrcFile.batches`."""
    return file._batches(options)  # noqa: SLF001  # of this module


async def stripes_of(file: OrcFile, options: ReadOptions) -> tuple[int, ...]:
    """`OrcFile.matching_stripes`."""
    return await file._matching(options)  # noqa: SLF001  # of this module


def plans_long(file: OrcFile) -> bool:
    """Whether there are so many columns that what is done for each of them is for a thread."""
    return file._planner.plans_long  # noqa: SLF001  # of this module
