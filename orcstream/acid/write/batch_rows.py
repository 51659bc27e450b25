"""Batches of a table, to be written again: their rows without what is known of them, and their ids.

Knows the columns that a read of a table adds. Must not know files.
"""

from __future__ import annotations

from orcstream.acid.read.merging import ROW_ID, WRITE_ID
from orcstream.acid.read.row_ids import RowIds
from orcstream.batch import Batch, BatchSchema
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.codec.vectors.arrays import items_of, validity_bits
from orcstream.codec.vectors.column import Field, Vector
from orcstream.errors import SchemaMismatch
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type

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
