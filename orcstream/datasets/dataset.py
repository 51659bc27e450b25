"""Many files as one table: its columns, its rows, and how it is shared out.

Puts what the user asks for into the words of the layers below. Must not know how files were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from orcstream._keywords import takes
from orcstream.batch import BatchSchema, ReadResult
from orcstream.codec.vectors.column import field_of
from orcstream.datasets.listing import DEFAULT_SPLIT_BYTES, FoundFile, Split
from orcstream.datasets.reading import FileUnit, OpenFiles, Reading, schema_for
from orcstream.errors import SourceChanged, UsageError, located
from orcstream.io.loop.tasks import Closable
from orcstream.io.urls import shown_of
from orcstream.plan.slices import slices
from orcstream.query.expr import Expr
from orcstream.reader.engine.budget import chunk_limit_of, kept_bytes
from orcstream.reader.file import OrcFile, stripes_of
from orcstream.reader.options import (
    LARGE_BATCHES,
    CountKeywords,
    MatchKeywords,
    ReadOptions,
    TableKeywords,
    Where,
)
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type
from orcstream.table.columns import AskedColumns, PartitionColumns, PartitionRow, with_partitions
from orcstream.table.lanes import LanesPlan, TableLife, TableStream

# Files that are open at once where only the first rows are wanted.
_WITH_LIMIT = 2


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file of a data set, at `url`.

    `path` is what follows the folder or pattern that it was found by, `length` counts bytes and is None where
    only opening it says so, `modified_s` counts seconds from 1970. `partition` are the values that its
    folders name.
    """

    url: str
    path: str
    length: int | None
    modified_s: float | None
    partition: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is read, or some rows of one, which has to be the file of that split."""

    found: FoundFile
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A part that may have rows that are wanted, and what is left to be asked of them."""

    part: Part
    row: PartitionRow
    where: Expr | None


class OrcDataset(Closable):
    """Files that are read as one table. For use from one event loop; several streams at a time are fine."""

    def __init__(
        self,
        parts: Sequence[Part],
        file_schema: Schema,
        partition_columns: PartitionColumns,
        open_files: OpenFiles,
    ) -> None:
        """`file_schema` is what files are read as; `open_files` are the data set's to close."""
        self._url = shown_of(parts[0].found.url)
        self._parts = parts
        self._file_schema = file_schema
        self._partition_columns = partition_columns
        self._open_files = open_files
        self._row = _without(file_schema.root, partition_columns.names)
        self._root = with_partitions(self._row, partition_columns)
        self._rows: dict[str, PartitionRow] = {}
        self._life = TableLife()

    # --- facts

    @property
    def schema(self) -> Schema:
        """The columns of the files, then those that folders name."""
        return Schema(self._root)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the columns that folders name."""
        return self._partition_columns.names

    @property
    def files(self) -> tuple[DatasetFile, ...]:
        """The files, in the order in which they are read; credentials stripped."""
        return tuple(
            DatasetFile(
                shown_of(one.url),
                one.path,
                one.length,
                one.modified_s,
                self._partition(one.folders).values,
            )
            for one in (part.found for part in self._parts)
        )

    # --- reading

    @takes(TableKeywords, ReadOptions)
    def batches(self, *, limit: int | None = None, **options: Unpack[TableKeywords]) -> TableStream:
        """A stream of the rows, file by file, in the order of their paths.

        `columns` and `where` may name columns of folders, too: files of folders without a match are not
        opened, and of the others only what may match is read. Tails are read ahead, several at a time, and
        rows of files whose turn has not come, as far as `memory_limit` has room. With `limit`, the stream
        ends after so many rows, and where there is no `where`, no others are read.

        Raises `ColumnNotFound`, `SchemaMismatch` and other `UsageError` at once; while reading
        `FileNotFoundError`, `FormatError`, `Unsupported`, `SourceError`.
        """
        return self._batches(ReadOptions(**options), limit)

    @takes(TableKeywords, ReadOptions, defaults=LARGE_BATCHES)
    async def read(self, *, limit: int | None = None, **options: Unpack[TableKeywords]) -> ReadResult:
        """All rows at once; `ReadResult.to_arrow` makes a table of them. Takes the same as `batches`.

        The result itself is outside `memory_limit`.
        """
        async with self._batches(ReadOptions(**options), limit) as stream:
            return ReadResult(stream.batch_schema, [batch async for batch in stream])

    def _batches(self, options: ReadOptions, limit: int | None) -> TableStream:
        if limit is not None and (type(limit) is not int or limit < 0):
            raise UsageError(f"limit must be a number of rows, not {limit!r}")
        asked = self._asked(options)
        return self._stream(asked, options, list(self._chosen(asked)), limit)

    @takes(CountKeywords, ReadOptions)
    async def count(self, where: Where = None, **given: Unpack[CountKeywords]) -> int:
        """How many rows there are, or match. Where folders decide, only the tails of files are read.

        `where` is that of `batches`. Raises what `batches` raises.
        """
        options = ReadOptions(columns=[], where=where, **given)
        asked = self._asked(options)
        chosen = list(self._chosen(asked))
        whole = [one.part for one in chosen if one.where is None]
        found = sum(part.split.row_count for part in whole if part.split is not None)
        unknown = [part.found for part in whole if part.split is None]
        async with self._open_files.each(unknown) as files:
            async for file in files:
                async with file:
                    found += file.row_count
        looked_into = [one for one in chosen if one.where is not None]
        if looked_into:
            async with self._stream(asked, options, looked_into) as stream:
                async for batch in stream:
                    found += batch.num_rows
        return found

    @takes(MatchKeywords, ReadOptions)
    async def splits(
        self, where: Where = None, *, split_bytes: int = DEFAULT_SPLIT_BYTES, **given: Unpack[MatchKeywords]
    ) -> tuple[Split, ...]:
        """The rows shared out, for tasks that each read some: about `split_bytes` of one file in each.

        Stripes stay whole unless one is larger than that. Those that cannot match, by their statistics or
        their folders, are in no split; of the others all rows are, so that `where` has to be asked again.
        Reads the tails of all files that are left, several at a time. `where` and the options are those of
        the reads to come.
        """
        if type(split_bytes) is not int or split_bytes < 1:
            raise UsageError(f"split_bytes must be at least 1, not {split_bytes!r}")
        options = ReadOptions(columns=[], where=where, **given)
        asked = self._asked(options)
        chosen = list(self._chosen(asked))
        found: list[Split] = []
        coming = iter(chosen)
        async with self._open_files.each([one.part.found for one in chosen]) as files:
            async for file in files:
                async with file:
                    found += await self._split(file, next(coming), split_bytes, options)
        return tuple(found)

    async def _split(
        self, file: OrcFile, chosen: _Chosen, split_bytes: int, options: ReadOptions
    ) -> list[Split]:
        part, tail = chosen.part, file.tail
        _check_same(file, part.split)
        stripes: Sequence[int] = range(len(file.stripes))
        if chosen.where is not None:
            schema = schema_for(file, self._file_schema)
            stripes = await stripes_of(file, replace(options, where=chosen.where, schema=schema))
        within = range(file.row_count) if part.split is None else part.split.rows
        cut = slices([file.stripes[one] for one in stripes], split_bytes, tail.footer.row_index_stride)
        rows = [(range(max(one.start, within.start), min(one.stop, within.stop)), one.weight) for one in cut]
        return [
            Split(
                url=part.found.url,
                path=part.found.path,
                rows=some,
                weight_bytes=weight,
                folders=part.found.folders,
                file_schema=self._file_schema,
                partition_schema=self._partition_columns.schema,
                file_length=tail.file_length,
                fingerprint=tail.fingerprint,
            )
            for some, weight in rows
            if some
        ]

    # --- what is read of which file

    def _asked(self, options: ReadOptions) -> AskedColumns:
        if self._life.is_ended:
            raise UsageError("the data set is closed", url=self._url)
        with located(url=self._url):
            return AskedColumns(self._root, self._row, self._partition_columns, options)

    def _chosen(self, asked: AskedColumns) -> Iterator[_Chosen]:
        left: dict[str, Expr | bool] = {}
        for part in self._parts:
            folders = part.found.folders
            row = self._partition(folders)
            if folders not in left:
                left[folders] = asked.narrowed(row)
            where = left[folders]
            if where is not False:
                yield _Chosen(part, row, None if where is True else where)

    def _stream(
        self,
        asked: AskedColumns,
        options: ReadOptions,
        chosen: Sequence[_Chosen],
        limit: int | None = None,
    ) -> TableStream:
        reading = Reading(
            schema=BatchSchema(field_of("", asked.projected, options.vectors)),
            columns=asked.of_rows,
            partition_names=frozenset(self.partition_columns),
            file_schema=self._file_schema,
            options=options,
        )
        alone = len(chosen) == 1
        memory = options.memory_limit
        plan = LanesPlan(
            units=[self._unit(reading, one, limit) for one in chosen],
            turn_bytes=memory if alone else memory * 3 // 4,
            ahead_bytes=memory // 4,
            chunk_bytes=chunk_limit_of(memory),
            column_bytes=kept_bytes(reading.schema.schema.types, late=options.expr is not None),
            # Most of those that follow will not be wanted.
            at_once=_WITH_LIMIT
            if limit is not None
            else self._open_files.at_once(self._parts[0].found, self._file_schema.column_count),
        )
        return TableStream(
            self,
            reading.schema,
            plan,
            self._life.tasks,
            self._url,
            batch_rows=options.batch_rows,
            limit=limit,
        )

    def _unit(self, reading: Reading, chosen: _Chosen, limit: int | None) -> FileUnit:
        found, split = chosen.part.found, chosen.part.split
        length = found.length if split is None else split.weight_bytes

        files = self._open_files

        async def opened() -> OrcFile:
            file = await files.open(found)
            try:
                _check_same(file, split)
            except BaseException:
                await files.close(file)
                raise
            return file

        rows = None if split is None else split.rows
        if limit is not None and chosen.where is None:
            rows = range(limit) if rows is None else rows[:limit]
        return FileUnit(reading, length, chosen.row, chosen.where, rows, opened=opened, closed=files.close)

    def _partition(self, folders: str) -> PartitionRow:
        if folders not in self._rows:
            columns = self._partition_columns
            self._rows[folders] = PartitionRow(columns, columns.values(folders))
        return self._rows[folders]

    # --- life time

    async def aclose(self) -> None:
        """Stop all streams and give the connections back; may be called again."""
        if not self._life.is_ended:
            try:
                await self._life.end()
            finally:
                await self._open_files.aclose()

    def __del__(self) -> None:
        files = getattr(self, "_open_files", None)
        if files is not None:
            files.forget()

    def __repr__(self) -> str:
        return f"<OrcDataset of {len(self._parts)} files, the first {self._url}>"


def _without(root: Type, names: Sequence[str]) -> Type:
    """The columns of the files that no folder names: where both do, the folders' values are the table's."""
    if not names:
        return root
    kept = [
        (name, one) for name, one in zip(root.field_names, root.children, strict=True) if name not in names
    ]
    return Type(Kind.STRUCT, tuple(one for _, one in kept), tuple(name for name, _ in kept))


def _check_same(file: OrcFile, split: Split | None) -> None:
    """Whether a file is still the one that was shared out."""
    if split is None:
        return
    tail = file.tail
    if (tail.file_length, tail.fingerprint) != (split.file_length, split.fingerprint):
        raise SourceChanged("the file is another one than the one that was shared out", url=file.url)
