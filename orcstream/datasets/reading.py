"""How a file of a data set is opened and read: its own columns, and those that its folders name.

Knows one file and what is asked of it, and which file stays open. Must not know which file is read when
(`table.lanes`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from orcstream.batch import Batch, BatchSchema
from orcstream.codec.vectors.column import Vector
from orcstream.datasets.listing import FoundFile
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.urls import cost_of
from orcstream.query.expr import Expr
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.file import OrcFile, batches_of
from orcstream.reader.opening import FileStream, Opening, OpenOptions, open_each
from orcstream.reader.options import ReadOptions
from orcstream.reader.stream import BatchStream
from orcstream.schema.schema import Schema
from orcstream.table.columns import PartitionRow
from orcstream.table.lanes import Deliver, LaneMemory

# Files that are open at once, at least and at most; between them, as many as requests are good for the store.
_LEAST_OPEN = 4
_MOST_OPEN = 32
# Fewer of thousands of columns: the metadata of an open file takes about 1 KB for each of them.
_METADATA_BYTES = 32 << 20
_COLUMN_METADATA_BYTES = 1 << 10


class OpenFiles:
    """Opens files; `kept` is one that is open and stays so, with its URL, until `aclose`."""

    def __init__(self, options: OpenOptions, kept: tuple[str, OrcFile] | None) -> None:
        self._options = options
        self._kept = kept

    async def open(self, file: FoundFile) -> OrcFile:
        """An open file, to be given back to `close`."""
        if self._kept is not None and self._kept[0] == file.url:
            return self._kept[1]
        return await Opening(file.url, self._options, None)

    async def close(self, file: OrcFile) -> None:
        if self._kept is None or file is not self._kept[1]:
            await file.aclose()

    def each(self, files: Sequence[FoundFile]) -> FileStream:
        """All of them, in their order, opened side by side; whoever takes one closes it."""
        known = {} if self._kept is None else {self._kept[0]: self._kept[1].tail}
        return open_each([file.url for file in files], self._options, known)

    def at_once(self, file: FoundFile, column_count: int) -> int:
        """How many of so many columns may be open at a time, in the store of this one."""
        most = max(_LEAST_OPEN, min(cost_of(file.url, self._options.io).request_cap, _MOST_OPEN))
        return min(most, max(1, _METADATA_BYTES // (column_count * _COLUMN_METADATA_BYTES)))

    async def aclose(self) -> None:
        if self._kept is not None:
            await self._kept[1].aclose()

    def forget(self) -> None:
        """Nobody will close them: the one that is open is stopped when nobody reads from it any more."""
        self._kept = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is asked of every file. `columns` are those of rows, `schema` has all that were asked for.

    Files are read as of the `file_schema`.
    """

    schema: BatchSchema
    columns: list[tuple[str, ...]]
    partition_names: frozenset[str]
    file_schema: Schema
    options: ReadOptions

    def stream(
        self, file: OrcFile, where: Expr | None, rows: range | None, memory: LaneMemory
    ) -> BatchStream:
        schema = schema_for(file, self.file_schema)
        options = replace(
            self.options,
            columns=self.columns,
            where=where,
            rows=rows,
            schema=schema,
            memory_limit=memory.limit,
            chunk_limit=memory.chunk_limit,
        )
        return batches_of(file, options)

    def schema_of(self, masked: tuple[str, ...]) -> BatchSchema:
        """That of the batches of a file, where these columns are as their masks left them."""
        return self.schema if masked == self.schema.masked else BatchSchema(self.schema.root, masked)

    def shaped(self, batch: Batch, schema: BatchSchema, partition: PartitionRow) -> Batch:
        """The rows of a file, with what its folders name."""
        return Batch(schema, tuple(self._vectors(batch, partition)), batch.num_rows)

    def _vectors(self, batch: Batch, partition: PartitionRow) -> Iterator[Vector]:
        of_rows = iter(batch.vectors)
        for column in self.schema.fields:
            if column.name in self.partition_names:
                yield partition.vector(column, batch.num_rows)
            else:
                yield next(of_rows)


def schema_for(file: OrcFile, schema: Schema) -> Schema | None:
    """What a file is read as, where it is not what it is."""
    same = file.schema == schema or str(file.schema) == str(schema)
    return None if same else schema


@dataclass(slots=True, eq=False)
class FileUnit:
    """A file of one read. `opened` answers the file, which is the unit's to give back with `closed`."""

    reading: Reading
    known_length: int | None
    partition: PartitionRow
    where: Expr | None
    rows: range | None
    opened: Callable[[], Awaitable[OrcFile]]
    closed: Callable[[OrcFile], Awaitable[None]]
    _file: OrcFile | None = field(default=None, init=False)

    @property
    def length(self) -> int | None:
        return self.known_length if self._file is None else self._file.tail.file_length

    async def begin(self) -> None:
        self._file = await self.opened()

    async def read(self, memory: LaneMemory, deliver: Deliver) -> ReadStatistics:
        assert self._file is not None
        reading, partition = self.reading, self.partition
        memory.check_chunks(self._file.tail.postscript.compression_block_size)
        async with reading.stream(self._file, self.where, self.rows, memory) as stream:
            schema: BatchSchema | None = None
            async for batch in stream:
                # Asked before, it would be planned on the loop.
                schema = schema or reading.schema_of(stream.masked_columns)

                def shaped(batch: Batch = batch, schema: BatchSchema = schema) -> Batch:
                    return reading.shaped(batch, schema, partition)

                await deliver(await run_in_thread(shaped) if reading.partition_names else shaped())
            return stream.stats

    async def end(self) -> None:
        file, self._file = self._file, None  # the plan has all units: their metadata would add up
        if file is not None:
            await self.closed(file)
