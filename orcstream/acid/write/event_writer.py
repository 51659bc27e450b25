"""One file of events under construction: rows with their ids, and what Hive wants to know about them.

Knows the six columns and the user metadata of such a file, and the columns that a read of a table adds to
rows that are to be written again. Must not know transactions, directories nor what was read. Contract: events
are given in ascending order of their keys, as readers expect them; who gives them sees to it.

User metadata (`OrcRecordUpdater.java`): the last key of each stripe, how many events of each kind there are,
and the version of the layout.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

from orcstream.acid.read.event_file import DELETE, INSERT, KEY_INDEX, ROW_ID, UPDATE, WRITE_ID
from orcstream.acid.read.row_ids import Ints, RowIds
from orcstream.batch import Batch, BatchSchema
from orcstream.codec.encode.grouping import retyped
from orcstream.codec.ingest.ingest import IngestedRows, ReadyRows, UserData
from orcstream.codec.vectors.column import (
    Field,
    Vector,
    VectorOptions,
    as_buffer,
    field_of,
    items_of,
    nulls_of,
    pack,
    validity_bits,
)
from orcstream.errors import SchemaMismatch
from orcstream.plan.acid.names import event_schema
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type
from orcstream.writer.writer import OrcWriter, WriteResult

STATS = "hive.acid.stats"
VERSION_KEY = "hive.acid.version"
VERSION = "2"


class EventLayout:
    """How rows of a table become events of a file: `schema` is that of the file."""

    def __init__(self, row_schema: Schema) -> None:
        self.schema = event_schema(row_schema)
        self._fields = field_of("", self.schema.root, VectorOptions()).children

    def events(self, ids: RowIds, operations: Ints, rows: IngestedRows | None) -> ReadyRows:
        """Events with the columns of their rows; without these, of rows that are null."""
        count = len(ids)
        assert ids.versions is not None
        numbers = (operations, ids.write_ids, ids.buckets, ids.row_ids, ids.versions)
        *known, row = self._fields
        if rows is None:
            vector = nulls_of(row, count)
        else:
            # Events of before Hive 3 are of all kinds in one file; deletes have no row.
            are_rows = operations != DELETE
            gone = count - int(np.count_nonzero(are_rows))
            vector = Vector(count, (pack(are_rows) if gone else None,), gone, children=rows.vectors)
            children = tuple(map(retyped, rows.fields, row.type.children))
            row = replace(row, children=children)
        vectors = (*map(_plain, numbers), vector)
        return ReadyRows([IngestedRows((*known, row), vectors, count)])


def _plain(values: Any) -> Vector:
    return Vector(len(values), (None, as_buffer(np.ascontiguousarray(values))), 0)


class EventWriter:
    """Writes events to a file."""

    def __init__(self, orc: OrcWriter, layout: EventLayout) -> None:
        self._orc = orc
        self._layout = layout
        self._counts = {INSERT: 0, UPDATE: 0, DELETE: 0}
        self._last_keys: list[tuple[int, int, int]] = []
        self._recent: deque[tuple[int, RowIds]] = deque()  # with the number of their first row
        self._row_count = 0

    @property
    def row_count(self) -> int:
        """Events written so far."""
        return self._row_count

    @property
    def held_bytes(self) -> int:
        """Memory that the writer holds."""
        return self._orc.held_bytes

    async def write(self, ids: RowIds, operations: Ints, rows: IngestedRows | None) -> None:
        """Append events; without rows, of rows that are null."""
        await self._orc.write(self._layout.events(ids, operations, rows))
        self._recent.append((self._row_count, ids))
        self._row_count += len(ids)
        for operation, count in zip(*np.unique(operations, return_counts=True), strict=True):
            self._counts[int(operation)] += int(count)
        self._index_stripes()

    def _index_stripes(self) -> None:
        """Note the last key of each stripe that was completed, and let go of those before it."""
        ends = np.cumsum(self._orc.stripe_row_counts, dtype=np.int64)
        for end in ends[len(self._last_keys) :]:
            last = int(end) - 1
            while self._recent and self._recent[0][0] + len(self._recent[0][1]) <= last:
                self._recent.popleft()
            first, ids = self._recent[0]
            self._last_keys.append(ids.key(last - first))

    async def flush(self) -> None:
        """Let readers see what was written so far; of a file that grows."""
        await self._complete()
        await self._orc.flush()

    async def commit(self) -> WriteResult:
        """Make the file appear."""
        await self._complete()
        return await self._orc.commit()

    async def _complete(self) -> None:
        await self._orc.end_stripe()
        self._index_stripes()
        keys = "".join(f"{write_id},{bucket},{row_id};" for write_id, bucket, row_id in self._last_keys)
        counts = ",".join(str(self._counts[kind]) for kind in (INSERT, UPDATE, DELETE))
        metadata = {KEY_INDEX: keys, STATS: counts}
        self._orc.add_user_metadata({**metadata, VERSION_KEY: VERSION} if self._is_of_today else metadata)

    @property
    def _is_of_today(self) -> bool:
        """Since Hive 3 there are no updates, and deletes have files of their own."""
        inserts, updates, deletes = self._counts.values()
        return not updates and not (inserts and deletes)

    async def abort(self) -> None:
        """Leave nothing of the file."""
        await self._orc.abort()


class PlainWriter:
    """Writes the rows of a table that only takes inserts, which have no ids."""

    def __init__(self, orc: OrcWriter) -> None:
        self._orc = orc

    async def write(self, ids: RowIds, operations: Ints, rows: IngestedRows | None) -> None:  # noqa: ARG002
        """Append rows, and nothing of what is known of them."""
        assert rows is not None
        await self._orc.write(ReadyRows([rows]))

    async def commit(self) -> WriteResult:
        """Make the file appear."""
        return await self._orc.commit()

    async def abort(self) -> None:
        """Leave nothing of the file."""
        await self._orc.abort()


_DTYPES = ("i8", "i4", "i8")


def rows_of(batch: Batch, schema: Schema) -> IngestedRows:
    """The first columns of a batch, which are those of the schema."""
    fields = batch.batch_schema.fields[: len(schema.names)]
    return rows_in(fields, batch.vectors[: len(fields)], batch.num_rows, schema)


def rows_in(
    fields: tuple[Field, ...], vectors: tuple[Vector, ...], count: int, schema: Schema
) -> IngestedRows:
    """Columns that are those of the schema, as its rows."""
    root = Field("", "+s", Type(Kind.STRUCT, tuple(f.type for f in fields), schema.names), children=fields)
    (rows,) = UserData(Batch(BatchSchema(root), vectors, count)).vectors(schema)
    return rows


def ids_of(batch: Batch) -> RowIds:
    """The ids of the rows, with their write ids where these were read too."""
    names = batch.batch_schema.names
    ids = ids_in(batch.vectors[names.index(ROW_ID)])
    if WRITE_ID not in names:
        return ids
    versions = items_of(batch.vectors[names.index(WRITE_ID)], "i8")
    return RowIds(ids.write_ids, ids.buckets, ids.row_ids, versions)


def ids_in(vector: Vector) -> RowIds:
    """The ids in a column `row__id`, in memory of their own."""
    parts = vector.struct_children()
    if any(validity_bits(one) is not None for one in (vector, *parts)):
        raise SchemaMismatch("a row without an id cannot be deleted")
    write_ids, buckets, row_ids = (items_of(part, dtype) for part, dtype in zip(parts, _DTYPES, strict=True))
    return RowIds(write_ids.copy(), buckets.copy(), row_ids.copy())
