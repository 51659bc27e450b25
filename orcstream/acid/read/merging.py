"""From events to the rows of a table: what a batch of a file becomes for one reader.

Knows the columns of the read, the partition's values, and which events count. Must not know how files are
opened, nor tasks: `rows` is synchronous and runs wherever it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from orcstream.acid.read.event_file import DELETE, EventFile, Events, visible_events
from orcstream.acid.read.row_ids import DeletedKeys, RowIds
from orcstream.batch import Batch, BatchSchema
from orcstream.codec.vectors._selection import Selection, select_mask
from orcstream.codec.vectors.column import Field, Mask, Vector, VectorOptions, as_buffer, field_of, pack
from orcstream.codec.vectors.gather import compact
from orcstream.schema.types import Kind, Type
from orcstream.table.partition_values import PartitionRow

if TYPE_CHECKING:
    from orcstream.plan.acid.write_ids import WriteIds

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
