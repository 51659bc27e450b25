"""From what the user asks of a read to its plan: columns, rows, stripes, and how batches are shaped.

Knows the options of a read, their defaults and what the tail can already tell. Must not fetch: all here is done
before the first request, so that what is wrong with a question is said at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from orcstream.batch import BatchSchema
from orcstream.byterange import RangeBuffer
from orcstream.codec.column import Field, VectorOptions, field_of
from orcstream.codec.temporal import UNITS
from orcstream.errors import Unsupported, UsageError, located
from orcstream.plan.selection import RowGroups, Rows, clip_rows, wanted_in
from orcstream.plan.tail import Tail
from orcstream.reader.budget import DEFAULT_MEMORY_LIMIT, MemoryBudget
from orcstream.reader.fetching import StripeWork
from orcstream.reader.session import Session
from orcstream.reader.shaping import OutputColumn, Shaper
from orcstream.reader.stream import ReadingPlan
from orcstream.reader.stripes import FileTimes, StripeStarter, walk_types
from orcstream.schema import FileColumn, Kind, Type

__all__ = ["DEFAULT_BATCH_ROWS", "Columns", "ReadOptions", "ReadPlanner"]

DEFAULT_BATCH_ROWS = 1 << 16
ROW_NUMBER = "row_number"

Columns = Sequence[str | tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the user may ask of a read, with its defaults; see `OrcFile.batches`."""

    columns: Columns | None = None
    rows: range | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    decode_threads: int | None = None
    row_numbers: bool = False
    timestamp_unit: str = "ns"
    dictionaries: bool = False
    invalid_utf8: str = "error"
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        _one_of("timestamp_unit", self.timestamp_unit, tuple(UNITS))
        _one_of("invalid_utf8", self.invalid_utf8, ("error", "binary"))
        _at_least_1("batch_rows", self.batch_rows)
        if self.decode_threads is not None:
            _at_least_1("decode_threads", self.decode_threads)
        rows: object = self.rows
        if rows is not None and not (isinstance(rows, range) and rows.step == 1):
            raise UsageError(f"rows must be a range of step 1, not {rows!r}")
        if self.rows is not None and self.rows.start < 0:
            raise UsageError(f"rows count from the file's first, which is 0, not {self.rows!r}")

    @property
    def vectors(self) -> VectorOptions:
        return VectorOptions(
            timestamp_unit=self.timestamp_unit,
            dictionaries=bool(self.dictionaries),
            invalid_utf8=self.invalid_utf8,
        )

    @property
    def threads(self) -> int:
        return min(2, _core_count()) if self.decode_threads is None else self.decode_threads


class ReadPlanner:
    """Plans the reads of one open file."""

    def __init__(self, session: Session, tail: Tail, cached: RangeBuffer, times: FileTimes) -> None:
        self._session = session
        self._tail = tail
        self._cached = cached
        self._times = times

    @property
    def _url(self) -> str:
        return self._session.source.url

    def plan(self, options: ReadOptions, rows: Rows | None = None, first_row: int = 0) -> ReadingPlan:
        """The plan of a read of `rows` (of those that the options name, where that is None) from a row on."""
        root = self.select(options)
        _check_timestamps(self._tail, root, options.timestamp_unit, self._url)
        vectors = options.vectors
        schema, columns = self._output(root, options)
        if rows is None:
            rows = self._rows(options)
        if first_row:
            rest = [(first_row, self._tail.footer.row_count)]
            rows = clip_rows(rest if rows is None else rows, rest)
        budget = MemoryBudget(options.memory_limit, lambda: None)
        shaper = Shaper(
            columns,
            schema.fields,
            chooses_rows=rows is not None and len(rows) > 1,
            row_numbers=options.row_numbers,
            batch_rows=options.batch_rows,
            batch_bytes=budget.decoded_window_bytes,
        )
        return ReadingPlan(
            source=self._session.source,
            retry=self._session.retry,
            schema=schema,
            works=self.works(rows),
            compression=self._tail.postscript.compression,
            cached=self._cached,
            start=StripeStarter(self._tail, root, vectors, self._times),
            column_count=max(1, len(root.children)),
            shaper=shaper,
            batch_rows=options.batch_rows,
            memory_limit=options.memory_limit,
            decode_threads=options.threads,
        )

    def select(self, options: ReadOptions) -> Type:
        with located(url=self._url):
            return self._tail.footer.schema.select(options.columns, options.case_sensitive)

    def works(self, rows: Rows | None) -> list[StripeWork]:
        """The stripes that have some of `rows`."""
        works: list[StripeWork] = []
        for stripe in self._tail.footer.stripes:
            groups = RowGroups(stripe.row_count, self._tail.footer.row_index_stride)
            wanted = None if rows is None else wanted_in(rows, stripe.first_row, stripe.row_count)
            if wanted == []:
                continue
            if wanted == [(0, stripe.row_count)]:
                wanted = None
            indexed = wanted is not None and groups.count > 1 and stripe.index_length > 0
            works.append(StripeWork(len(works), stripe, wanted, indexed))
        return works

    def _rows(self, options: ReadOptions) -> Rows | None:
        if options.rows is None:
            return None
        start, stop = options.rows.start, min(options.rows.stop, self._tail.footer.row_count)
        return [(start, stop)] if start < stop else []

    def _output(self, root: Type, options: ReadOptions) -> tuple[BatchSchema, list[OutputColumn]]:
        field = field_of("", root, options.vectors)
        count = len(root.children) if root.kind is Kind.STRUCT else 1
        columns = [OutputColumn(index) for index in range(count)]
        if not options.row_numbers:
            return BatchSchema(field), columns
        if root.kind is not Kind.STRUCT:
            raise UsageError("row_numbers need a file whose root is a struct", url=self._url)
        return BatchSchema(_with_row_numbers(root, options.vectors, self._url)), columns


def _with_row_numbers(root: Type, vectors: VectorOptions, url: str) -> Field:
    if ROW_NUMBER in root.field_names:
        raise UsageError(
            f"row_numbers would add a second column named {ROW_NUMBER}; name the columns= without it", url=url
        )
    number = Type(Kind.LONG, column_id=FileColumn(0), last_column_id=FileColumn(0))
    wider = Type(
        Kind.STRUCT,
        (*root.children, number),
        (*root.field_names, ROW_NUMBER),
        attributes=root.attributes,
        column_id=root.column_id,
        last_column_id=root.last_column_id,
    )
    return field_of("", wider, vectors)


def _check_timestamps(tail: Tail, root: Type, unit: str, url: str) -> None:
    """Refuse before any data is read what the statistics show not to fit the unit."""
    for type_ in walk_types(root):
        if type_.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            continue
        with located(url=url, column=type_.column_id):
            statistics = tail.footer.statistics.get(type_.column_id)
        if statistics is None or statistics.kind != "timestamp":
            continue
        for bound in (statistics.minimum, statistics.maximum):
            if isinstance(bound, int) and not _fits_int64(bound * UNITS[unit] // UNITS["ns"]):
                raise Unsupported(
                    f"timestamps that do not fit 64 bits of {unit}, by the file's statistics; "
                    'read with a coarser timestamp_unit=, such as "us"',
                    reason="timestamp_out_of_range",
                    url=url,
                    column=type_.column_id,
                )


def _core_count() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _fits_int64(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _at_least_1(name: str, value: int) -> int:
    if type(value) is not int or value < 1:
        raise UsageError(f"{name} must be an integer of at least 1, not {value!r}")
    return value
