"""Arrow data as Spark hands it to Python, with the types that files of Spark have for it.

Knows which Arrow types stand for numbers there: times without a zone and intervals. Must not know files.
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["as_stored"]


def as_stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With microseconds as the numbers that they are; nothing is copied but the frames of nested columns."""
    fields = [field.with_type(_stored(field.type)) for field in batch.schema]
    wanted = pa.schema(fields)
    return batch if wanted.equals(batch.schema) else batch.cast(wanted)


def _stored(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_stored(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_stored(type_.value_type)))
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(key.with_type(_stored(key.type)), item.with_type(_stored(item.type)))
    return type_
