"""Starting a stripe: from the bytes of its footer to its column runs.

Knows which options of the user and which facts of the tail decide how streams are understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from orcstream.byterange import ByteRange, Request, coalesce
from orcstream.codec.crypto.forms import PlacedStream, StripeForm
from orcstream.codec.decode.stripe import ColumnStreams, StreamCursor, StripeOptions, build_columns
from orcstream.codec.metadata.indexes import RowIndex, parse_bloom_index, parse_row_index
from orcstream.codec.metadata.structure import (
    StreamKind,
    StripeFooter,
    StripeInformation,
    is_decimal64,
    positions_of,
)
from orcstream.codec.metadata.wire import Room
from orcstream.codec.streams.compression import Compression
from orcstream.codec.vectors.column import VectorOptions
from orcstream.codec.vectors.times import UTC_CLOCK
from orcstream.errors import located
from orcstream.file.unlocking import UnlockedFile
from orcstream.file.zones import FileTimes
from orcstream.plan.selection import (
    ColumnIndex,
    RowGroups,
    Rows,
    Span,
    StreamSlice,
    clip_rows,
    count_rows,
    plan_spans,
    slop_bytes,
)
from orcstream.plan.tail import decompress_message, footer_of, is_large
from orcstream.reader.engine.budget import DEFAULT_MEMORY_LIMIT
from orcstream.reader.engine.runs import ChosenRows, RowChoice, Segment, StripeRun
from orcstream.reader.engine.session import PrunedRows, Remembered
from orcstream.schema.types import TIMES, FileColumn, Kind, Type

if TYPE_CHECKING:
    from orcstream.codec.metadata.bloom import BloomIndex
    from orcstream.reader.engine.pruning import Pruner


# Indexes of a stripe may take so much whatever the limit is, and more than that on a thread.
_LEAST_INDEX_ROOM = 16 << 20
_AT_ONCE_INDEX_BYTES = 8 << 10
# Asking a predicate of one takes about 3 microseconds.
_AT_ONCE_GROUPS = 4096

# Kinds of values that the two calendars give different numbers to.
_DATED = (Kind.DATE, *TIMES)

# Makes the segments of a column for some spans.
Segments = Callable[[Sequence[Span]], Sequence[Segment]]


@dataclass(frozen=True, slots=True)
class StripeWork:
    """A stripe that is to be read: `rows` of it, counted from its first; None for all.

    `number` is its place among the stripes of the read; `indexed` whether its row indexes may save anything.
    """

    number: int
    information: StripeInformation
    rows: Rows | None = None
    indexed: bool = False


@dataclass(slots=True, eq=False)
class StripeContext:
    """A stripe whose footer is known, and its row indexes where they were asked for; makes column runs."""

    file: UnlockedFile
    work: StripeWork
    footer: StripeFooter
    form: StripeForm
    options: StripeOptions
    room: Room
    indexes: dict[FileColumn, RowIndex] = field(default_factory=dict, init=False)
    blooms: dict[FileColumn, BloomIndex] = field(default_factory=dict, init=False)
    groups: RowGroups = field(init=False)

    def __post_init__(self) -> None:
        self.groups = RowGroups(self.work.information.row_count, self.file.tail.footer.row_index_stride)

    def add_index(self, stream: PlacedStream, data: memoryview) -> None:
        """Parse one index stream."""
        stripe = self.work.information
        if stream.kind is StreamKind.ROW_INDEX:
            self.indexes[stream.column] = parse_index(self.file, stripe, stream, data, self.room)
            return
        with located(stripe=stripe.index, column=stream.column, stream_kind=stream.kind.name):
            self.blooms[stream.column] = parse_bloom_index(
                decompress_message(self.file.tail, _decrypted(stream, data), self.room.left),
                max(1, self.groups.count),
                utf8=stream.kind is StreamKind.BLOOM_FILTER_UTF8,
                encoding=self.form.encodings[stream.column].bloom_encoding,
                room=self.room,
            )

    def forget_indexes(self) -> None:
        """Let go of them: what is read of the stripe from now on begins with its first row."""
        self.indexes.clear()
        self.blooms.clear()
        self.room.taken = 0

    @property
    def has_nullable_root(self) -> bool:
        return any(
            stream.column == 0 and stream.kind is StreamKind.PRESENT and stream.range.length
            for stream in self.form.streams
        )

    def leads_to(self, root: Type) -> bool:
        """Whether the indexes lead to rows in the middle of all columns of `root`."""
        columns = (type_ for type_ in walk_types(root) if type_ is not root or self.has_nullable_root)
        return all(self._index_of(type_) is not None for type_ in columns)

    def run(
        self,
        root: Type,
        rows: Rows | None,
        *,
        decided: RowChoice | None = None,
        decoded: Mapping[int, Segments] | None = None,
    ) -> StripeRun:
        """A run of `rows` of the columns in `root`; of all rows where that is None.

        `decided` are the rows that match a predicate, where that is known; `decoded` makes the segments of
        columns, by their place in `root`, that need not be decoded again.
        """
        information = self.work.information
        is_struct = root.kind is Kind.STRUCT
        whole_root = is_struct and self.has_nullable_root
        types = [root] if whole_root or not is_struct else list(root.children)
        # What was decoded stands below the root: where that is decoded itself, all of it is.
        ready = {} if whole_root or decoded is None else decoded
        with located(stripe=information.index):
            columns = build_columns(
                [type_ for place, type_ in enumerate(types) if place not in ready],
                self.form,
                self.options,
            )
            spans, indexes = self._spans(columns, rows)
            choice = decided
            if decided is None and rows is not None and len(rows) != len(spans):
                choice = ChosenRows(rows)
            segments = {place: make(spans) for place, make in ready.items()}
            wanted = sum(span.row_count for span in spans)
            if any(sum(s.vector.length for s in found) != wanted for found in segments.values()):
                # Without an index, more rows have to be passed than were decoded before.
                return self.run(root, rows, decided=decided)
            stripe = StripeRun(
                self.work.number,
                information,
                spans,
                whole_root=whole_root,
                choice=choice,
                is_filtered=decided is not None,
            )
            slop = slop_bytes(compressed=self.options.compressed, block_size=self.options.block_size)
            waiting = iter(columns)
            for place in range(len(types)):
                if place in ready:
                    stripe.add_decoded(segments[place])
                    continue
                column = next(waiting)
                slices = [self._slices(cursor, spans, indexes) for cursor in column.streams]
                stripe.add_column(column, slices, slop)
        return stripe

    def _spans(
        self, columns: Sequence[ColumnStreams], rows: Rows | None
    ) -> tuple[Sequence[Span], Mapping[int, ColumnIndex] | None]:
        """What is decoded, and the indexes that lead there; without those, all rows from the first on."""
        row_count = self.work.information.row_count
        if rows is None:
            return ([Span(0, 0, row_count)] if row_count else []), None
        spans = plan_spans(rows, self.groups)
        if len(spans) == 1 and spans[0].start == 0 and spans[0].stop == row_count:
            return spans, None
        needed = {cursor.type.column_id: cursor.type for column in columns for cursor in column.streams}
        indexes: dict[int, ColumnIndex] = {}
        for column, type_ in needed.items():
            index = self._index_of(type_)
            if index is None:
                return ([Span(0, rows[0][0], rows[-1][1])] if rows else []), None
            indexes[column] = index
        return spans, indexes

    def _index_of(self, type_: Type) -> ColumnIndex | None:
        """The positions of a column; None where the file has none that lead anywhere."""
        index = self.indexes.get(type_.column_id)
        if index is None:
            return None
        positions = positions_of(
            type_.kind,
            self.form.encodings[type_.column_id].kind,
            has_present=self.form.has_present(type_.column_id),
            compressed=self.options.compressed,
            decimal64=is_decimal64(type_, decimal64=self.options.decimal64),
        )
        column = ColumnIndex(
            index,
            positions,
            groups=self.groups,
            compressed=self.options.compressed,
            block_size=self.options.block_size,
        )
        return column if column.is_usable else None

    @staticmethod
    def _slices(
        cursor: StreamCursor, spans: Sequence[Span], indexes: Mapping[int, ColumnIndex] | None
    ) -> list[StreamSlice]:
        if indexes is None or cursor.is_dictionary:
            return [StreamSlice(cursor.range)]
        with located(column=cursor.type.column_id, stream_kind=cursor.kind.name):
            index = indexes[cursor.type.column_id]
            return [index.slice(cursor.kind, cursor.range, span) for span in spans]


class StripeStarter:
    """Makes the runs of stripes, for one read of the columns in `root`.

    `pruner` knows the read's predicate; `leads_to` are columns besides those of `root` that will be read of
    the same rows, so that their indexes are wanted too.
    """

    def __init__(
        self,
        file: UnlockedFile,
        root: Type,
        vectors: VectorOptions,
        times: FileTimes,
        pruner: Pruner | None = None,
        pruned: PrunedRows | None = None,
        leads_to: Sequence[Type] = (),
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        remembered: Remembered | None = None,
    ) -> None:
        self._file = file
        self._remembered = remembered or Remembered(0)
        self._memory_limit = memory_limit
        self._counting = Lock()
        # For who reads more of the same stripes, while these are there.
        self._contexts: WeakKeyDictionary[StripeRun, StripeContext] = WeakKeyDictionary()
        self._tail = tail = file.tail
        self._root = root
        self._vectors = vectors
        self._times = times
        self._pruner = pruner
        self._pruned = pruned or PrunedRows()
        types = [type_ for tree in (root, *leads_to) for type_ in walk_types(tree)]
        self._columns = {type_.column_id for type_ in types}
        if pruner is not None:
            self._columns |= pruner.columns
        self._variants = file.variants_of(self._columns)
        self._leads_on = bool(leads_to)
        kinds = {type_.kind for type_ in types}
        self._has_zoned = Kind.TIMESTAMP in kinds
        self._hybrid = not kinds.isdisjoint(_DATED) and times.hybrid(tail)
        self._parsed: dict[int, tuple[StripeFooter, StripeForm]] = {}
        self.index_share = len(self._columns) / tail.footer.schema.column_count

    async def unlock(self, works: Sequence[StripeWork]) -> None:
        """Ask for the keys of stripes; what is not had is told by the stripe that needs it."""
        await self._file.unlock_stripes((work.information for work in works), self._variants)

    def is_large(self, work: StripeWork, footer: memoryview, index_bytes: int = 0) -> bool:
        """Whether a stripe takes longer to start than other tasks of the loop should wait.

        An index of a kilobyte can have 500,000 row groups, of each of which a predicate is asked.
        """
        stride = self._tail.footer.row_index_stride
        if work.indexed and stride and work.information.row_count > _AT_ONCE_GROUPS * stride:
            return True
        return index_bytes > _AT_ONCE_INDEX_BYTES or is_large(self._tail, footer)

    def index_ranges(self, work: StripeWork, footer: memoryview) -> list[ByteRange]:
        """The index streams that lead to rows of the columns that are read, or tell which rows to read."""
        if not work.indexed:
            return []
        parsed = self._parsed[work.number] = self._parse(work, footer)
        found = [stream.range for stream in self._index_streams(*parsed)]
        with located(stripe=work.information.index):
            index_room(self._memory_limit).take(sum(range_.length for range_ in found))
        return found

    def _parse(self, work: StripeWork, data: memoryview) -> tuple[StripeFooter, StripeForm]:
        stripe = work.information
        remembered, range_ = self._remembered, stripe.footer_range
        footer = remembered.footer(range_)
        if footer is None:
            footer = remembered.put_footer(range_, footer_of(self._tail, stripe, data))
        keys = self._file.local_keys(stripe, self._variants)
        return footer, self._file.form.of_stripe(stripe, footer, keys)

    def _index_streams(self, footer: StripeFooter, form: StripeForm) -> list[PlacedStream]:
        return [
            stream
            for stream in form.streams
            if stream.range.length and self._wants_index(stream, footer, form)
        ]

    def _wants_index(self, stream: PlacedStream, footer: StripeFooter, form: StripeForm) -> bool:
        if stream.kind is StreamKind.ROW_INDEX:
            return stream.column in self._columns
        return self._pruner is not None and self._pruner.wants_bloom(stream, footer, form)

    def context_of(self, stripe: StripeRun) -> StripeContext:
        """What a stripe was started from, where the read `leads_to` more of it."""
        return self._contexts[stripe]

    def _context(
        self, work: StripeWork, footer: memoryview, indexes: Mapping[ByteRange, memoryview]
    ) -> StripeContext:
        """What is known of a stripe after the control wave."""
        if work.number in self._parsed:
            parsed, form = self._parsed.pop(work.number)
        else:
            parsed, form = self._parse(work, footer)
        postscript = self._tail.postscript
        options = StripeOptions(
            vectors=self._vectors,
            compressed=postscript.compression is not Compression.NONE,
            block_size=postscript.compression_block_size,
            # Zones that no column needs are not looked up: their names may be unknown.
            clock=self._times.clock(parsed.writer_timezone) if self._has_zoned else UTC_CLOCK,
            hybrid=self._hybrid,
            decimal64=postscript.version == (1, 9999),
        )
        context = StripeContext(self._file, work, parsed, form, options, index_room(self._memory_limit))
        if indexes:
            for stream in self._index_streams(parsed, form):
                context.add_index(stream, indexes[stream.range])
        return context

    def rows(self, context: StripeContext) -> Rows | None:
        """The rows of a stripe that are to be read, after its indexes were asked; None for all."""
        rows = context.work.rows
        if self._pruner is None or not (context.indexes or context.blooms):
            return rows
        groups = context.groups
        entries = [len(index) for index in context.indexes.values()]
        filters = [len(bloom) for bloom in context.blooms.values()]
        if groups.count > max(entries + filters):
            return rows  # nothing is known of so many, and only the number of rows says that there are any
        with self._counting:  # large stripes are started on a thread
            return self._pruned_rows(self._pruner, context, rows)

    def _pruned_rows(self, pruner: Pruner, context: StripeContext, rows: Rows | None) -> Rows | None:
        groups = context.groups
        by_statistics, kept = pruner.groups(groups, context.footer, context.indexes, context.blooms)
        if all(kept):
            return rows
        wanted = [(0, groups.row_count)] if rows is None else rows
        likely = clip_rows(wanted, groups.rows_of(by_statistics))
        found = clip_rows(wanted, groups.rows_of(kept))
        self._pruned.by_row_group += count_rows(wanted) - count_rows(likely)
        self._pruned.by_bloom += count_rows(likely) - count_rows(found)
        return found

    def start(
        self, work: StripeWork, footer: memoryview, indexes: Mapping[ByteRange, memoryview]
    ) -> StripeRun | None:
        """The stripe's run; None where no row of it can match."""
        with located(stripe=work.information.index):
            context = self._context(work, footer, indexes)
            rows = self.rows(context)
        if rows is not None and not rows:
            return None
        stripe = context.run(self._root, rows)
        if self._leads_on:
            self._keep(stripe, context)
        return stripe

    def _keep(self, stripe: StripeRun, context: StripeContext) -> None:
        """Its indexes, too, of as many stripes at a time as there is room for."""
        context.blooms.clear()
        self._contexts[stripe] = context
        taken = sum(one.room.taken for one in self._contexts.values())
        if taken > index_room(self._memory_limit).left:
            context.forget_indexes()


def index_room(limit: int) -> Room:
    """For the indexes of a stripe, where a read may take so many bytes."""
    return Room(max(_LEAST_INDEX_ROOM, limit // 4), "indexes of a stripe", "raise memory_limit=")


def index_requests(
    file: UnlockedFile,
    stripe: StripeInformation,
    footer: StripeFooter,
    variants: Sequence[int],
    room: Room,
) -> tuple[list[PlacedStream], list[Request]]:
    """The streams with the row indexes of a stripe, and what to ask for; takes some of `room`.

    They lie side by side: of thousands of columns they are one request.
    """
    form = file.form.of_stripe(stripe, footer, file.local_keys(stripe, variants))
    wanted = [one for one in form.streams if one.kind is StreamKind.ROW_INDEX and one.range.length]
    with located(stripe=stripe.index):
        room.take(sum(stream.range.length for stream in wanted))
    requests = coalesce([stream.range for stream in wanted], gap_bytes=0, max_bytes=max(1, room.taken))
    return wanted, requests


def parse_index(
    file: UnlockedFile, stripe: StripeInformation, stream: PlacedStream, data: memoryview, room: Room
) -> RowIndex:
    """The row index of one column, in the form that is read, from its stream; takes some of `room`."""
    tail = file.tail
    count = RowGroups(stripe.row_count, tail.footer.row_index_stride).count
    with located(
        stripe=stripe.index,
        column=stream.column,
        stream_kind=StreamKind.ROW_INDEX.name,
        file_offset=stream.range.start,
    ):
        index = parse_row_index(
            decompress_message(tail, _decrypted(stream, data), room.left),
            file.form.most_entries(stream.column, count),
            room,
        )
    return file.form.row_index(stream.information, index, count)


def _decrypted(stream: PlacedStream, data: memoryview) -> memoryview:
    return data if stream.cipher is None else memoryview(stream.cipher.apply(data))


def walk_types(type_: Type) -> Iterator[Type]:
    """A type and all below it."""
    waiting = [type_]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        yield node
