"""From what the user asks of a read to its plan: columns, rows, stripes, and how batches are shaped.

Knows what the options of a read mean and what the tail can already tell. Must not fetch: all here is
done before the first request, so that what is wrong with a question is said at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from orcstream.batch import BatchSchema
from orcstream.byterange import RangeBuffer
from orcstream.codec.metadata.wire import AT_ONCE_COLUMNS
from orcstream.codec.vectors.column import field_of
from orcstream.codec.vectors.times import UNITS, beyond_unit
from orcstream.errors import UsageError, located
from orcstream.file.unlocking import UnlockedFile
from orcstream.file.zones import FileTimes
from orcstream.plan.projection import Projection, Source, project
from orcstream.plan.selection import Rows, clip_rows
from orcstream.plan.tail import Tail, trust_in
from orcstream.reader.engine.budget import (
    LEAST_LIMIT,
    ChunkRoom,
    Shares,
    beside_columns,
    chunk_limit_of,
)
from orcstream.reader.engine.fetching import PipelineOptions
from orcstream.reader.engine.pipeline import Filter, OutputColumn, Shaper
from orcstream.reader.engine.session import PrunedRows, Remembered, Session
from orcstream.reader.engine.stripes import StripeStarter, walk_types
from orcstream.reader.options import Columns, ReadOptions
from orcstream.reader.planned import ReadingPlan, StripeChoice
from orcstream.schema.types import Kind, Type, nodes_of

if TYPE_CHECKING:
    from orcstream.query.predicate import Predicate
    from orcstream.reader.engine.late import LatePlan
    from orcstream.reader.engine.pruning import Pruner

ROW_NUMBER = "row_number"
_LEAST_WINDOW_ROWS = 1 << 13
_OF_MANY_ITEMS = (Kind.LIST, Kind.MAP)
_MOST_AT_HAND = 64  # stripes
# Chunks are decompressed whole, whatever is wanted of them.
_MOST_BLOCK_BYTES = 8 << 20
_MS_NS = 10**6


@dataclass(frozen=True, slots=True)
class _Columns:
    """What is decoded and where it goes: the output's columns, then what only the predicate looks at."""

    decoded: Type
    output: Sequence[OutputColumn]
    seen: Sequence[OutputColumn]
    output_count: int


class ReadPlanner:
    """Plans the reads of one open file."""

    def __init__(self, session: Session, file: UnlockedFile, cached: RangeBuffer, times: FileTimes) -> None:
        self._session = session
        self._file = file
        self._tail = file.tail
        self._cached = cached
        self._times = times
        # Of thousands of columns they take more memory than they spare time.
        self.remembered = Remembered(0 if self.plans_long else session.remembered_bytes)

    @property
    def plans_long(self) -> bool:
        """Whether other tasks of the loop would notice `plan`, which is then for a thread."""
        return self._tail.footer.schema.column_count > AT_ONCE_COLUMNS

    def plan(self, options: ReadOptions, rows: Rows | None = None, first_row: int = 0) -> ReadingPlan:
        """The plan of a read of `rows` (None: of those that the options name) from a row on."""
        with located(url=self._session.source.url):
            return self._plan(options, self._rows(options, rows, first_row))

    def _plan(self, options: ReadOptions, rows: Rows | None) -> ReadingPlan:
        projection = self._project(options, options.columns)
        predicate = self._predicate(options)
        asked = None
        if predicate is not None:
            from orcstream.reader.engine.pruning import names_in

            asked = self._project(options, names_in(predicate))
        columns = self._columns(options, projection, asked)
        _check_timestamps(self._tail, columns.decoded, options.vectors.unit)
        schema = self._schema(options, projection)
        pruned = PrunedRows()
        pruner = row_filter = None
        if predicate is not None and asked is not None:
            from orcstream.codec.vectors.filter import RowFilter
            from orcstream.reader.engine.pruning import Pruner

            pruner = Pruner(self._tail, predicate, asked.sources, self._times)
            row_filter = Filter(RowFilter(predicate, asked.root), columns.seen)
        shares = Shares(options.memory_limit)
        brief = self._is_at_hand()
        # Two pipelines share the memory.
        late = not brief and shares.limit >= 2 * LEAST_LIMIT and self._is_late(predicate, asked, columns)
        if self.plans_long and self._tail.footer.stripes:  # what fewer columns keep is not counted
            left, late = beside_columns(shares.limit, nodes_of(columns.decoded), late=late)
            shares = Shares(left)
        limit = shares.limit
        chunk_room = ChunkRoom(options.chunk_limit or chunk_limit_of(limit))
        shaper = Shaper(
            columns.output,
            schema,
            filter=row_filter,
            chooses_rows=rows is not None and len(rows) > 1,
            row_numbers=options.row_numbers,
            batch_rows=options.batch_rows,
            batch_bytes=shares.decoded_window_bytes,
        )
        output = _first_children(columns.decoded, columns.output_count)
        watch = self._session.watch("read")

        def pipeline(root: Type, pruner: Pruner | None, *leads_to: Type) -> PipelineOptions:
            looks_first = bool(leads_to)
            return PipelineOptions(
                compression=self._tail.postscript.compression,
                cached=self._cached,
                start=StripeStarter(
                    self._file,
                    root,
                    options.vectors,
                    self._times,
                    pruner,
                    pruned,
                    leads_to,
                    limit,
                    self.remembered,
                ),
                column_count=max(1, len(root.children)),
                # Nobody sees the batches of the predicate's columns.
                batch_rows=max(options.batch_rows, _LEAST_WINDOW_ROWS) if looks_first else options.batch_rows,
                memory_limit=limit // 2 if late else limit,
                chunk_room=chunk_room,
                remembered=self.remembered,
                hands_on=looks_first,
                wave="predicate" if looks_first else "rest" if late else "data",
                observer=watch,
            )

        late_plan = None
        if late and asked is not None and row_filter is not None:
            late_plan = self._late(
                pipeline(asked.file_root, pruner, output), asked, projection, row_filter, options
            )
        return ReadingPlan(
            session=self._session,
            watch=watch,
            schema=schema,
            stripes=StripeChoice(self._file, self._session.source.url, rows, pruner, pruned),
            pipeline=pipeline(output, None) if late else pipeline(columns.decoded, pruner),
            shaper=shaper,
            pruned=pruned,
            decode_threads=options.threads,
            brief=brief,
            is_flat=all(node.kind not in _OF_MANY_ITEMS for node in nodes_of(columns.decoded)),
            value_count=self._tail.footer.row_count * max(1, len(columns.decoded.children)),
            late=late_plan,
        )

    # --- columns -----------------------------------------------------------------------------------

    def _project(self, options: ReadOptions, columns: Columns | None) -> Projection:
        return project(
            self._tail.footer.schema,
            columns=columns,
            read_schema=options.read_schema,
            case_sensitive=options.case_sensitive,
        )

    def _predicate(self, options: ReadOptions) -> Predicate | None:
        if options.expr is None:
            return None
        from orcstream.query.binding import bind

        return bind(options.expr, (options.read_schema or self._tail.footer.schema).root, options.matching)

    def _columns(self, options: ReadOptions, projection: Projection, asked: Projection | None) -> _Columns:
        """What to decode for the output and the predicate; a column that both want is decoded once."""
        if projection.root.kind is not Kind.STRUCT:
            (source,) = projection.sources
            return _Columns(projection.file_root, [self._output(options, source, 0)], (), 1)
        decoded: list[Type] = []
        names: list[str] = []

        def place(source: Source) -> int:
            if source.file_type is not None:
                decoded.append(source.file_type)
                names.append(source.name)
            return len(decoded) - 1

        output = [self._output(options, source, place(source)) for source in projection.sources]
        output_count = len(decoded)
        seen: list[OutputColumn] = []
        for source in asked.sources if asked is not None else ():
            both = _position(projection, source)
            seen.append(self._output(options, source, place(source)) if both is None else output[both])
        root = replace(projection.file_root, children=tuple(decoded), field_names=tuple(names))
        return _Columns(root, output, seen, output_count)

    def _output(self, options: ReadOptions, source: Source, place: int) -> OutputColumn:
        vectors = options.vectors
        if source.file_type is None:
            return OutputColumn(stored=field_of(source.name, source.type, vectors))
        if not source.converted:
            return OutputColumn(place)
        from orcstream.codec.convert.conversion import transform_of
        from orcstream.codec.convert.rules import ConvertOptions
        from orcstream.file.zones import find_zone

        zone = self._times.zone(None)
        transform = transform_of(source.file_type, source.type, ConvertOptions(vectors, zone, find_zone))
        return OutputColumn(place, transform, field_of(source.name, source.file_type, vectors))

    def _schema(self, options: ReadOptions, projection: Projection) -> BatchSchema:
        root = projection.root
        masked = self._masked(projection)
        if not options.row_numbers:
            return BatchSchema(field_of("", root, options.vectors), masked)
        if root.kind is not Kind.STRUCT:
            raise UsageError("row_numbers need a file whose root is a struct")
        return BatchSchema(field_of("", _with_row_numbers(root), options.vectors), masked)

    def _masked(self, projection: Projection) -> tuple[str, ...]:
        """What of the output is read as its mask left it: the outermost columns, by their dotted names."""
        found: list[str] = []
        if not self._file.form.encrypted:
            return ()
        for source in projection.sources:
            done: tuple[str, ...] | None = None
            for path, type_ in source.file_type.walk() if source.file_type is not None else ():
                if done is not None and path[: len(done)] == done:
                    continue  # below one that is named
                done = None
                if self._file.form.is_masked(type_.column_id):
                    done = path
                    found.append(".".join((source.name, *path)))
        return tuple(found)

    # --- rows and stripes --------------------------------------------------------------------------

    def _rows(self, options: ReadOptions, rows: Rows | None, first_row: int) -> Rows | None:
        row_count = self._tail.footer.row_count
        if rows is None and options.rows is not None:
            start, stop = options.rows.start, min(options.rows.stop, row_count)
            rows = [(start, stop)] if start < stop else []
        if not first_row:
            return rows
        rest = [(first_row, row_count)]
        return rest if rows is None else clip_rows(rows, rest)

    def _is_at_hand(self) -> bool:
        """Whether all bytes of a file came with its tail, and it is one that a short way is for."""
        stripes, cached = self._tail.footer.stripes, self._cached.range
        block_bytes = self._tail.postscript.compression_block_size * self._tail.footer.schema.column_count
        if self.plans_long or block_bytes > _MOST_BLOCK_BYTES or len(stripes) > _MOST_AT_HAND:
            return False
        if self._file.held_statistics is None:
            return False
        return all(cached.start <= one.offset and one.range.stop <= cached.stop for one in stripes)

    # --- late materialisation ----------------------------------------------------------------------

    def _is_late(
        self,
        predicate: Predicate | None,
        asked: Projection | None,
        columns: _Columns,
    ) -> bool:
        """Whether the predicate's columns are read first."""
        if predicate is None or asked is None or not asked.file_root.children:
            return False
        from orcstream.plan.prune.prune import late_pays

        shared = {column.source for column in columns.seen}
        output = [
            type_
            for at, type_ in enumerate(columns.decoded.children[: columns.output_count])
            if at not in shared
        ]
        # Once: a file of a few kilobytes can have 100,000 stripes, of each of thousands of columns.
        stored = sum(stripe.data_length for stripe in self._tail.footer.stripes)
        rest = sum(self._size_of(type_, stored) for type_ in output)
        return late_pays(predicate, rest, self._session.source.cost)

    def _size_of(self, type_: Type, stored: int) -> int:
        """About how many of the `stored` bytes of the file a column takes.

        Most writers record no sizes of compressed columns.
        """
        known = 0
        for node in walk_types(type_):
            statistics = self._tail.footer.statistics.get(node.column_id)
            if statistics is None or statistics.bytes_on_disk is None:
                # As if all columns were of one size.
                return int(stored * (len(type_.column_ids) / self._tail.footer.schema.column_count))
            known += statistics.bytes_on_disk
        return known

    def _late(
        self,
        pipeline: PipelineOptions,
        asked: Projection,
        projection: Projection,
        row_filter: Filter,
        options: ReadOptions,
    ) -> LatePlan:
        from orcstream.reader.engine.late import LatePlan

        stored = [source for source in asked.sources if source.file_type is not None]
        places = {source.name: place for place, source in enumerate(stored)}
        seen = [self._output(options, source, places.get(source.name, -1)) for source in asked.sources]
        present = [source for source in projection.sources if source.file_type is not None]
        kept = {
            at: places[source.name]
            for at, source in enumerate(present)
            if (both := _position(asked, source)) is not None and asked.sources[both].file_type is not None
        }
        return LatePlan(
            pipeline=pipeline,
            filter=Filter(row_filter.rows, seen),
            root=_first_children(projection.file_root, len(present)),
            kept=kept,
        )


def _position(projection: Projection, source: Source) -> int | None:
    """Where a projection has the very same column."""
    for at, other in enumerate(projection.sources):
        if other.name == source.name and other.type == source.type and other.file_type == source.file_type:
            return at
    return None


def _first_children(root: Type, count: int) -> Type:
    if root.kind is not Kind.STRUCT:
        return root
    return replace(root, children=root.children[:count], field_names=root.field_names[:count])


def _with_row_numbers(root: Type) -> Type:
    if ROW_NUMBER in root.field_names:
        message = f"row_numbers would add a second column named {ROW_NUMBER}; name the columns= without it"
        raise UsageError(message)
    children = (*root.children, Type(Kind.LONG))
    return replace(root, children=children, field_names=(*root.field_names, ROW_NUMBER))


def _check_timestamps(tail: Tail, root: Type, unit: str) -> None:
    """Refuse before any data is read what the statistics show not to fit the unit.

    Of a bound the millisecond is believed, which is beyond 64 bits where both of its ends are.
    """
    types = [type_ for type_ in walk_types(root) if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)]
    if not types or "timestamp" not in trust_in(tail).bounds:
        return
    for type_ in types:
        with located(column=type_.column_id):
            statistics = tail.footer.statistics.get(type_.column_id)
        if statistics is None or statistics.kind != "timestamp":
            continue
        for bound in (statistics.minimum, statistics.maximum):
            if not isinstance(bound, int):
                continue
            first = bound // _MS_NS * _MS_NS
            ends = ((time * UNITS[unit] // UNITS["ns"]) for time in (first, first + _MS_NS - 1))
            if not any(map(_fits_int64, ends)):
                raise beyond_unit("timestamps, by the file's statistics, do", unit, type_.column_id)


def _fits_int64(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63
