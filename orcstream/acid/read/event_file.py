"""One file of a transactional table: where its ids stand, its events, and the rows that these become.

Knows the six columns of a file of events, and files without them (from before the table was transactional,
loaded by hand, or of a table that only takes inserts), whose rows get their ids from where they stand.
Knows the columns of the read, the partition's values, and which events count. Must not know which rows are
deleted, nor other files, nor tasks: `rows` is synchronous and runs wherever it is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orcstream.acid.read.row_ids import DeletedKeys, Ints, Longs, RowIds
from orcstream.batch import Batch, BatchSchema
from orcstream.codec.vectors._selection import Selection, select_mask
from orcstream.codec.vectors.column import (
    Field,
    Mask,
    Vector,
    VectorOptions,
    as_buffer,
    field_of,
    items_of,
    pack,
    validity_bits,
)
from orcstream.codec.vectors.gather import compact
from orcstream.errors import ColumnNotFound, FormatError, Unsupported
from orcstream.plan.acid.names import bucket_property, event_columns
from orcstream.plan.acid.snapshot import AcidFile
from orcstream.reader.opening import Opening
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type
from orcstream.table.columns import PartitionRow

if TYPE_CHECKING:
    from orcstream.plan.acid.names import AcidDirectory
    from orcstream.plan.acid.snapshot import WriteIds
    from orcstream.reader.file import OrcFile
    from orcstream.reader.opening import OpenOptions


INSERT, UPDATE, DELETE = range(3)
KEY_INDEX = "hive.acid.key.index"
_KEY = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,10}),(-?[0-9]{1,19});", re.ASCII)
# Between two looks at a file that grows, for who follows it.
_POLL_S = 1.0

# Of the ids, in the order in which they are read.
_DTYPES = ("i8", "i4", "i8", "i8", "i4")


@dataclass(frozen=True, slots=True)
class Events:
    """The rows of a batch and their ids, where these were wanted.

    `vectors` are of the columns of the table that were read, in their order. `operations` is None where all
    are inserts.
    """

    vectors: tuple[Vector, ...]
    row_count: int
    ids: RowIds | None = None
    operations: Ints | None = None


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Write ids and row ids that keys lie within, all four included."""

    first_write_id: int
    last_write_id: int
    first_row_id: int
    last_row_id: int

    def within(self, last_keys: Sequence[tuple[int, int, int]], stripes: Sequence[int]) -> KeyBounds:
        """Of some stripes, where the last key of each is known."""
        if not last_keys or not stripes:
            return self
        first, last = min(stripes), max(stripes)
        begin = last_keys[first - 1] if first else None
        write_id, _, row_id = last_keys[last]
        lowest = self.first_write_id if begin is None else max(self.first_write_id, begin[0])
        highest = min(self.last_write_id, write_id)
        rows = (self.first_row_id, self.last_row_id)
        # Row ids ascend within one write id and bucket only.
        if begin is not None and begin[:2] == last_keys[last][:2]:
            rows = (begin[2], row_id)
        return KeyBounds(lowest, highest, *rows)

    def joined(self, other: KeyBounds) -> KeyBounds:
        """Of both."""
        return KeyBounds(
            min(self.first_write_id, other.first_write_id),
            max(self.last_write_id, other.last_write_id),
            min(self.first_row_id, other.first_row_id),
            max(self.last_row_id, other.last_row_id),
        )


def opening_of(url: str, file: AcidFile, options: OpenOptions) -> Opening:
    """What opens a file of a table: as far as its writer has flushed it, where that goes on."""
    return Opening(url, options, None, _POLL_S if file.is_growing else None)


class EventFile:
    """An open file of a table. Where rows get their ids by their place, the first one's is `first_row_id`."""

    def __init__(self, file: AcidFile, orc: OrcFile) -> None:
        self.file = file
        self.orc = orc
        self.columns = event_columns(orc.schema)
        self.first_row_id = 0

    @property
    def row_schema(self) -> Schema:
        """The table's columns as this file has them."""
        if self.columns is None:
            return self.orc.schema
        return numbered(self.orc.schema.root.children[-1], attributes=False)

    @property
    def prefix(self) -> tuple[str, ...]:
        """Where in the file the table's columns lie."""
        return () if self.columns is None else (self.columns.row,)

    @property
    def has_only_inserts(self) -> bool:
        """Whether the statistics prove it; what Hive 3 and newer write always has them."""
        return self.columns is None or self._range_of(self.columns.operation) == (INSERT, INSERT)

    def needs_ids(self, write_ids: WriteIds) -> bool:
        """Whether ids say which of its events are rows that a reader sees."""
        directory = self.file.directory
        if directory is None or directory.is_base:
            return not self.has_only_inserts
        is_seen = write_ids.visible(directory.first_write_id, directory.last_write_id) == "all"
        return not (is_seen and self.has_only_inserts)

    def bounds(self, stripes: Sequence[int]) -> KeyBounds | None:
        """What the keys of some stripes' rows lie within; None where the statistics do not say it."""
        if self.columns is None:
            rows = range(self.first_row_id, self.first_row_id + self.orc.row_count)
            return KeyBounds(self._write_id, self._write_id, rows.start, rows.stop)
        write_ids = self._range_of(self.columns.original_write_id)
        row_ids = self._range_of(self.columns.row_id)
        if write_ids is None or row_ids is None:
            return None
        return KeyBounds(*write_ids, *row_ids).within(self._last_keys(write_ids[1]), stripes)

    def _last_keys(self, last: int) -> Sequence[tuple[int, int, int]]:
        """Of each stripe the last key, as the writer noted them; none where it did not, or not well.

        `last` is the greatest write id by the statistics.
        """
        text = self.orc.user_metadata.get(KEY_INDEX, b"").decode("ascii", "replace")
        keys = [tuple(map(int, found.groups())) for found in _KEY.finditer(text)]
        found = [(write_id, bucket, row_id) for write_id, bucket, row_id in keys]
        is_whole = len(found) == len(self.orc.stripes) and sorted(found) == found
        if not found or not is_whole or found[-1][0] != last:
            return ()
        return found

    @property
    def _write_id(self) -> int:
        """Of all rows, where they get their ids by their place."""
        directory = self.file.directory
        return 0 if directory is None else directory.last_write_id

    def _range_of(self, column: str) -> tuple[int, int] | None:
        try:
            found = self.orc.statistics[column]
        except ColumnNotFound:
            return None
        least, most = found.minimum, found.maximum
        return (least, most) if type(least) is int and type(most) is int else None

    @property
    def id_columns(self) -> list[str]:
        """The columns to be read before the table's for the ids of rows; none where they have row numbers."""
        names = self.columns
        if names is None:
            return []
        found = [names.original_write_id, names.bucket, names.row_id, names.current_write_id]
        return found if self.has_only_inserts else [*found, names.operation]

    def events(self, batch: Batch, *, with_ids: bool) -> Events:
        """A batch of `id_columns`, or row numbers at its end, if `with_ids`, and of the table's columns."""
        count = batch.num_rows
        if self.columns is None:
            vectors = batch.vectors
            if not with_ids:
                return Events(vectors, count)
            return Events(vectors[:-1], count, self._placed(items_of(vectors[-1], "i8")))
        id_count = len(self.id_columns) if with_ids else 0
        held = batch.vectors[id_count:]
        vectors = held[0].struct_children() if held else ()
        if not with_ids:
            return Events(vectors, count)
        write_ids, buckets, row_ids, versions, *operations = map(
            self._numbers, batch.vectors[:id_count], _DTYPES
        )
        ids = RowIds(write_ids, buckets, row_ids, versions, self._statements(count))
        if operations and count and not 0 <= operations[0].min() <= operations[0].max() <= DELETE:
            raise FormatError("an event of no known operation", url=self.orc.url)
        return Events(vectors, count, ids, operations[0] if operations else None)

    def _numbers(self, vector: Vector, dtype: str) -> NDArray[Any]:
        if validity_bits(vector) is not None:
            raise FormatError("an event without ids", url=self.orc.url)
        return items_of(vector, dtype)

    def _placed(self, row_numbers: Longs) -> RowIds:
        """The ids of rows that get them by their place."""
        count = len(row_numbers)
        directory = self.file.directory
        bucket = bucket_property(self.file.bucket or 0, -1 if directory is None else directory.statement)
        write_ids = np.full(count, self._write_id, np.int64)
        buckets = np.full(count, bucket, np.int32)
        return RowIds(write_ids, buckets, row_numbers + self.first_row_id, write_ids, self._statements(count))

    def _statements(self, count: int) -> Ints:
        directory = self.file.directory
        return np.full(count, -1 if directory is None else directory.statement, np.int32)


def visible_events(file: EventFile, write_ids: WriteIds, ids: RowIds) -> Mask | None:
    """Which events of a file a reader sees; None for all of them."""
    directory = file.file.directory
    if directory is None or directory.is_base:
        return None
    if write_ids.visible(directory.first_write_id, directory.last_write_id) == "all":
        return None
    if file.columns is None:
        _check_closed(directory, write_ids)
        return None
    versions = ids.versions
    assert versions is not None
    seen: Mask = versions <= write_ids.high_watermark
    hidden = write_ids.hidden
    return seen & ~np.isin(versions, hidden) if hidden else seen


def _check_closed(directory: AcidDirectory, write_ids: WriteIds) -> None:
    """Rows do not say here whose they are. Those of aborted writes were left out when they were compacted."""
    if write_ids.has_open(directory.first_write_id, directory.last_write_id):
        raise Unsupported(
            f"{directory.name} does not tell the rows of its write ids apart; read the table as of write id "
            f"{directory.last_write_id} or later",
            reason="history_is_gone",
        )


# Hive's names of the virtual columns, but for those of changes, for which it has none.
ROW_ID = "row__id"
IS_DELETED = "row__is__deleted"
OPERATION = "operation"
WRITE_ID = "write_id"

_ROW_ID_TYPE = Type(
    Kind.STRUCT, (Type(Kind.LONG), Type(Kind.INT), Type(Kind.LONG)), ("writeid", "bucketid", "rowid")
)


@dataclass(frozen=True, slots=True)
class Output:
    """The columns of a read: those of rows and partition as they were asked for, then what is known of rows.

    `projected` is the struct of the first two kinds. `extra` are the names of those of the last: `row__id`,
    `row__is__deleted`, or `operation` and `write_id` of changes. Those are all events of the write ids
    `between`.
    """

    projected: Type
    partition_names: frozenset[str]
    extra: tuple[str, ...]
    options: VectorOptions
    between: tuple[int, int] | None = None
    schema: BatchSchema = field(init=False)

    def __post_init__(self) -> None:
        kinds = {
            ROW_ID: _ROW_ID_TYPE,
            IS_DELETED: Type(Kind.BOOLEAN),
            OPERATION: Type(Kind.INT),
            WRITE_ID: Type(Kind.LONG),
        }
        children = (*self.projected.children, *(kinds[name] for name in self.extra))
        root = Type(Kind.STRUCT, children, (*self.projected.field_names, *self.extra))
        object.__setattr__(self, "schema", BatchSchema(field_of("", root, self.options)))

    @property
    def needs_ids(self) -> bool:
        """Whether rows have to come with their ids, whatever is deleted."""
        return bool(self.extra)

    def rows(
        self,
        file: EventFile,
        events: Events,
        partition: PartitionRow,
        write_ids: WriteIds,
        hidden: DeletedKeys | None,
    ) -> Batch | None:
        """The rows of a batch of events that the reader is to see; None where there are none."""
        keep, deleted = self._kept(file, events, write_ids, hidden)
        selection = None if keep is None or keep.all() else select_mask(as_buffer(keep), events.row_count)
        count = events.row_count if selection is None else selection.count
        if not count:
            return None
        vectors = self._columns(events, selection, partition, count)
        known = self._known(events, keep, deleted)
        fields = self.schema.fields[len(vectors) :]
        vectors += [known[field.name] for field in fields]
        return Batch(self.schema, tuple(vectors), count)

    def _kept(
        self, file: EventFile, events: Events, write_ids: WriteIds, hidden: DeletedKeys | None
    ) -> tuple[Mask | None, Mask | None]:
        """Which rows are kept (None: all), and which of all of them are deleted."""
        ids, keep = events.ids, None
        if ids is None:
            return None, None
        keep = visible_events(file, write_ids, ids)
        if self.between is not None:
            return _of_range(ids, self.between, keep), None
        if events.operations is not None:
            are_rows: Mask = events.operations != DELETE
            keep = are_rows if keep is None else keep & are_rows
        deleted = None if hidden is None else hidden.hides(ids)
        if deleted is not None and IS_DELETED not in self.extra:
            keep = ~deleted if keep is None else keep & ~deleted
        return keep, deleted

    def _columns(
        self, events: Events, selection: Selection | None, partition: PartitionRow, count: int
    ) -> list[Vector]:
        vectors: list[Vector] = []
        of_rows = iter(events.vectors)
        for field_ in self.schema.fields[: len(self.projected.children)]:
            if field_.name in self.partition_names:
                vectors.append(partition.vector(field_, count))
            else:
                vectors.append(_chosen(next(of_rows), selection, field_))
        return vectors

    def _known(self, events: Events, keep: Mask | None, deleted: Mask | None) -> Mapping[str, Vector]:
        """What is known of the rows that are kept."""
        ids = events.ids
        if not self.extra or ids is None:
            return {}
        if keep is not None:
            ids = ids.take(keep)
            deleted = None if deleted is None else deleted[keep]
        operations = events.operations
        if operations is None:
            operations = np.zeros(events.row_count, np.int32)
        if keep is not None:
            operations = operations[keep]
        count = len(ids)
        gone = np.zeros(count, np.bool_) if deleted is None else deleted
        assert ids.versions is not None
        parts = (_plain(ids.write_ids), _plain(ids.buckets), _plain(ids.row_ids))
        return {
            ROW_ID: Vector(count, (None,), 0, children=parts),
            IS_DELETED: Vector(count, (None, pack(gone)), 0),
            OPERATION: _plain(operations),
            WRITE_ID: _plain(ids.versions),
        }


def _of_range(ids: RowIds, between: tuple[int, int], seen: Mask | None) -> Mask:
    """The events of some write ids, of those that are seen."""
    assert ids.versions is not None
    keep: Mask = (ids.versions >= between[0]) & (ids.versions <= between[1])
    return keep if seen is None else keep & seen


def _plain(values: Any) -> Vector:
    return Vector(len(values), (None, as_buffer(np.ascontiguousarray(values))), 0)


def _chosen(vector: Vector, selection: Selection | None, field_: Field) -> Vector:
    return vector if selection is None else compact([(vector, selection)], field_)
