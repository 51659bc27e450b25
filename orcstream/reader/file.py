"""An open file: its facts, its streams of batches, its plan.

Puts what the user asks for into the words of the layers below. All defaults of reading live here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from orcstream.batch import BatchSchema, ReadResult
from orcstream.byterange import ByteRange, RangeBuffer, gather
from orcstream.codec.column import VectorOptions, field_of
from orcstream.codec.compression import Compression
from orcstream.codec.layout import stream_ranges
from orcstream.codec.metadata import (
    RowIndex,
    StatisticsList,
    parse_row_index,
)
from orcstream.codec.structure import (
    StreamKind,
    StripeFooter,
    StripeInformation,
)
from orcstream.codec.temporal import UNITS
from orcstream.column_statistics import ColumnStatistics
from orcstream.errors import ColumnNotFound, Unsupported, UsageError, located
from orcstream.plan.read import control_count, plan_control, plan_requests, plan_windows
from orcstream.plan.tail import Tail, parse_stripe_statistics
from orcstream.reader.budget import DEFAULT_MEMORY_LIMIT, MemoryBudget
from orcstream.reader.explain import Explanation, Wave
from orcstream.reader.session import Session
from orcstream.reader.stream import BatchStream, Reading, ReadingPlan
from orcstream.reader.stripes import FileTimes, StripeStarter, decompress_message, parse_footer, walk_types
from orcstream.schema import Kind, Schema, Type

__all__ = ["FileStatistics", "OrcFile"]

DEFAULT_BATCH_ROWS = 1 << 16
# read() keeps everything anyway: larger batches spare work for each.
_READ_BATCH_ROWS = 1 << 17

Columns = Sequence[str | tuple[str, ...]]


class FileStatistics(Mapping[str, ColumnStatistics]):
    """Statistics over the whole file, by dotted column name; parsed when asked for."""

    def __init__(self, schema: Schema, statistics: StatisticsList, url: str) -> None:
        self._schema = schema
        self._statistics = statistics
        self._url = url

    def __getitem__(self, column: str | tuple[str, ...]) -> ColumnStatistics:
        with located(url=self._url):
            found = self._statistics.get(self._schema[column].column_id)
            if found is None:
                raise ColumnNotFound(f"the file has no statistics of column {column!r}")
            return found

    def __iter__(self) -> Iterator[str]:
        names = Counter(".".join(path) for path, _ in self._schema.walk() if path)
        for path, type_ in self._schema.walk():
            name = ".".join(path)
            # Names that occur twice cannot be looked up; the statistics are there by column id.
            if path and names[name] == 1 and type_.column_id < len(self._statistics):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


class OrcFile:
    """An open ORC file. For use from one event loop; several streams at a time are fine."""

    def __init__(self, session: Session, tail: Tail, cached: RangeBuffer, times: FileTimes) -> None:
        self._session = session
        self._tail = tail
        self._cached = cached
        self._times = times

    # --- facts -------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """What was opened, credentials stripped."""
        return self._session.source.url

    @property
    def tail(self) -> Tail:
        """Postscript and footer, as checked values; `tail.to_bytes()` opens the file again without a read."""
        return self._tail

    @property
    def schema(self) -> Schema:
        return self._tail.footer.schema

    @property
    def row_count(self) -> int:
        return self._tail.footer.row_count

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        return self._tail.footer.stripes

    @property
    def compression(self) -> Compression:
        return self._tail.postscript.compression

    @property
    def user_metadata(self) -> Mapping[str, bytes]:
        return self._tail.footer.user_metadata

    @property
    def statistics(self) -> FileStatistics:
        """Column statistics over the whole file, by dotted name."""
        return FileStatistics(self.schema, self._tail.footer.statistics, self.url)

    # --- reading -----------------------------------------------------------------------------------

    def batches(
        self,
        *,
        columns: Columns | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        decode_threads: int | None = None,
        timestamp_unit: str = "ns",
        dictionaries: bool = False,
        invalid_utf8: str = "error",
        case_sensitive: bool = True,
    ) -> BatchStream:
        """A stream of batches of at most `batch_rows` rows; of fewer where rows are large or a stripe ends.

        `columns` are dotted names, or tuples where names hold dots; output is in the order asked. What the
        read holds at a time stays under `memory_limit` bytes. `decode_threads` is 2 by default, 1 on a
        single core. `timestamp_unit` is "s", "ms", "us" or "ns". With `dictionaries`, text comes as Arrow
        dictionaries. `invalid_utf8="binary"` gives all text as bytes, unchecked.

        Raises `ColumnNotFound` and other `UsageError`; while reading `FormatError`, `Unsupported`,
        `SourceError`.
        """
        if self._session.is_closed:
            raise UsageError("the file is closed", url=self.url)
        vectors = VectorOptions(
            timestamp_unit=_one_of("timestamp_unit", timestamp_unit, tuple(UNITS)),
            dictionaries=bool(dictionaries),
            invalid_utf8=_one_of("invalid_utf8", invalid_utf8, ("error", "binary")),
        )
        root = self._select(columns, case_sensitive)
        self._check_timestamps(root, timestamp_unit)
        threads = min(2, _core_count()) if decode_threads is None else decode_threads
        plan = ReadingPlan(
            source=self._session.source,
            retry=self._session.retry,
            schema=BatchSchema(field_of("", root, vectors)),
            stripes=self.stripes,
            compression=self.compression,
            cached=self._cached,
            start_stripe=StripeStarter(self._tail, root, vectors, self._times).start,
            batch_rows=_at_least_1("batch_rows", batch_rows),
            memory_limit=memory_limit,
            decode_threads=_at_least_1("decode_threads", threads),
        )
        return BatchStream(self, Reading(plan), self._session.tasks, self.url)

    async def read(
        self,
        *,
        columns: Columns | None = None,
        batch_rows: int = _READ_BATCH_ROWS,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        decode_threads: int | None = None,
        timestamp_unit: str = "ns",
        dictionaries: bool = False,
        invalid_utf8: str = "error",
        case_sensitive: bool = True,
    ) -> ReadResult:
        """All rows at once: ``pyarrow.table(await file.read())``. Takes the same as `batches`.

        The result itself is outside `memory_limit`.
        """
        stream = self.batches(
            columns=columns,
            batch_rows=batch_rows,
            memory_limit=memory_limit,
            decode_threads=decode_threads,
            timestamp_unit=timestamp_unit,
            dictionaries=dictionaries,
            invalid_utf8=invalid_utf8,
            case_sensitive=case_sensitive,
        )
        async with stream:
            batches = [batch async for batch in stream]
            return ReadResult(stream.batch_schema, batches)

    async def explain(
        self,
        *,
        columns: Columns | None = None,
        memory_limit: int = DEFAULT_MEMORY_LIMIT,
        case_sensitive: bool = True,
    ) -> Explanation:
        """What reading these columns asks the store for; reads the stripe footers to know it."""
        root = self._select(columns, case_sensitive)
        cost = self._session.source.cost
        budget = MemoryBudget(memory_limit, lambda: None)
        starter = StripeStarter(self._tail, root, VectorOptions(), self._times)
        control = []
        first = 0
        while first < len(self.stripes):
            group = self.stripes[first : first + control_count(first, cost)]
            first += len(group)
            control += plan_control(group, cost, budget.window_bytes)
        control = [request for request in control if request.range.start < self._cached.range.start]
        held = [*await self._fetch([request.range for request in control]), self._cached]
        data_requests = data_wanted = data_read = windows = 0
        for number, stripe in enumerate(self.stripes):
            with located(url=self.url):
                run = starter.start(number, stripe, self._footer_bytes(stripe, held))
            ranges = [feed.pieces[0] for feed in run.feeds]
            data_wanted += sum(range_.length for range_ in ranges)
            planned = plan_windows(ranges, budget.window_bytes)
            windows += len(planned)
            for window in planned:
                missing = [piece.range for piece in window if not _is_held(piece.range, held)]
                requests = plan_requests(missing, cost)
                data_requests += len(requests)
                data_read += sum(request.range.length for request in requests)
        # A file that was opened with a known tail has read none.
        tail_read = self._cached.range.length if self._session.suffix_count else 0
        footers = sum(stripe.footer_length for stripe in self.stripes)
        return Explanation(
            url=self.url,
            columns=str(root),
            row_count=self.row_count,
            stripe_count=len(self.stripes),
            window_count=windows,
            waves=(
                Wave("tail", self._session.suffix_count, self._tail.postscript.tail_bytes, tail_read),
                Wave("control", len(control), footers, sum(request.range.length for request in control)),
                Wave("data", data_requests, data_wanted, data_read),
            ),
        )

    # --- parts of the file, for tools --------------------------------------------------------------

    async def stripe_footer(self, stripe: int) -> StripeFooter:
        """The directory of one stripe: its streams and encodings."""
        information = self._stripe(stripe)
        held = [self._cached]
        if not _is_held(information.footer_range, held):
            held = await self._fetch([information.footer_range])
        with located(url=self.url):
            return parse_footer(self._tail, information, self._footer_bytes(information, held))

    async def row_index(self, stripe: int) -> Mapping[int, RowIndex]:
        """The row indexes of one stripe by column id: positions and statistics of its row groups.

        Empty for a file without them; positions are named by `orcstream.codec.layout.positions_of`.
        """
        information = self._stripe(stripe)
        footer = await self.stripe_footer(stripe)
        wanted = [
            (stream, range_)
            for stream, range_ in stream_ranges(information, footer)
            if stream.kind is StreamKind.ROW_INDEX and stream.variant is None and range_.length
        ]
        buffers = await self._fetch([range_ for _, range_ in wanted])
        indexes: dict[int, RowIndex] = {}
        for (stream, range_), buffer in zip(wanted, buffers, strict=True):
            with located(
                url=self.url,
                stripe=stripe,
                column=stream.column,
                stream_kind=stream.kind.name,
                file_offset=range_.start,
            ):
                data = decompress_message(self._tail, buffer.view(range_))
                indexes[stream.column] = parse_row_index(data, self._most_entries(information))
        return indexes

    def _most_entries(self, stripe: StripeInformation) -> int:
        """Twice the row groups of a stripe: of encrypted columns, old ORC Java wrote both forms (ORC-991)."""
        stride = self._tail.footer.row_index_stride
        return 2 * max(1, -(-stripe.row_count // stride)) if stride else 2

    async def stripe_statistics(self) -> tuple[StatisticsList, ...]:
        """Column statistics of each stripe, as far as the file has them."""
        metadata = self._tail.metadata
        with located(url=self.url):
            if metadata is None:
                (buffer,) = await self._fetch([self._tail.metadata_range])
                metadata = bytes(buffer.view(buffer.range))
            return parse_stripe_statistics(self._tail, metadata)

    # --- life time ---------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Stop all streams of this file and give back its connections; may be called again."""
        await self._session.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and not session.is_closed:
            session.request_stop()

    def __repr__(self) -> str:
        return f"<OrcFile {self.url}: {self.row_count} rows, {len(self.stripes)} stripes>"

    # --- helpers -----------------------------------------------------------------------------------

    def _select(self, columns: Columns | None, case_sensitive: bool) -> Type:
        with located(url=self.url):
            return self.schema.select(columns, case_sensitive)

    def _check_timestamps(self, root: Type, unit: str) -> None:
        """Refuse before any data is read what the statistics show not to fit the unit."""
        for type_ in walk_types(root):
            if type_.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
                continue
            with located(url=self.url, column=type_.column_id):
                statistics = self._tail.footer.statistics.get(type_.column_id)
            if statistics is None or statistics.kind != "timestamp":
                continue
            for bound in (statistics.minimum, statistics.maximum):
                if isinstance(bound, int) and not _fits_int64(bound * UNITS[unit] // UNITS["ns"]):
                    raise Unsupported(
                        f"timestamps that do not fit 64 bits of {unit}, by the file's statistics; "
                        'read with a coarser timestamp_unit=, such as "us"',
                        reason="timestamp_out_of_range",
                        url=self.url,
                        column=type_.column_id,
                    )

    def _stripe(self, stripe: int) -> StripeInformation:
        if not 0 <= stripe < len(self.stripes):
            raise UsageError(f"no stripe {stripe}: the file has {len(self.stripes)}", url=self.url)
        return self.stripes[stripe]

    async def _fetch(self, ranges: list[ByteRange]) -> list[RangeBuffer]:
        if self._session.is_closed:
            raise UsageError("the file is closed", url=self.url)
        buffers = await self._session.fetch(ranges)
        await self._session.source.verify()
        return buffers

    @staticmethod
    def _footer_bytes(stripe: StripeInformation, held: list[RangeBuffer]) -> memoryview:
        return memoryview(b"".join(gather(stripe.footer_range, sorted(held, key=lambda part: part.range))))


def _core_count() -> int:
    """Cores this process may use, which a container or taskset may have cut down."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fits_int64(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63


def _is_held(wanted: ByteRange, held: Sequence[RangeBuffer]) -> bool:
    return any(part.range.start <= wanted.start and wanted.stop <= part.range.stop for part in held)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _at_least_1(name: str, value: int) -> int:
    if type(value) is not int or value < 1:
        raise UsageError(f"{name} must be at least 1, not {value!r}")
    return value
