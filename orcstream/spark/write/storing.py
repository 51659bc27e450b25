"""Arrow data as Spark hands it to Python, with the types that files of Spark have for it.

Knows which Arrow types stand for numbers there: times without a zone and intervals; and how the names of
folders spell times. Must not know files.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcstream.spark.read.partitions import zone_named

_CYCLE_SECONDS = 12_622_780_800  # after 400 years the calendar repeats
_YEAR_10000 = 253_402_300_800


def as_stored(batch: pa.RecordBatch, spelled: Sequence[str] = (), timezone: str = "UTC") -> pa.RecordBatch:
    """With microseconds as the numbers that they are; nothing is copied but the frames of nested columns.

    Times in the columns `spelled` become texts; points in time as what clocks of `timezone` showed.
    """
    for name in spelled:
        texts = _texts(batch.column(name), timezone)
        batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
    fields = [field.with_type(_stored(field.type)) for field in batch.schema]
    wanted = pa.schema(fields)
    return batch if wanted.equals(batch.schema) else batch.cast(wanted)


def _texts(times: pa.Array, timezone: str) -> pa.Array:
    """As Spark names folders: `2024-01-31 12:00:00.5`, without zeros at the end of a fraction."""
    clocks = times if times.type.tz is None else _clocks(times, timezone)
    texts = clocks.cast(pa.timestamp("us")).cast(pa.string())  # with six digits after the point
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def _clocks(times: pa.Array, timezone: str) -> pa.Array:
    """What the clocks of a zone show. pyarrow's own conversion ignores summer time after 2037."""
    micros = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    seconds = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), 1_000_000)
    distinct, at = np.unique(seconds, return_inverse=True)
    shifts = np.array([_shift(second, timezone) for second in distinct.tolist()], np.int64)
    return pc.add(micros, pa.array(shifts[at] * 1_000_000)).cast(pa.timestamp("us"))


def _shift(second: int, timezone: str) -> int:
    """What to add to UTC, in seconds. Python knows the years from 1 to 9999; others follow their rules."""
    if second >= _YEAR_10000 - 86_400:
        second = _YEAR_10000 - _CYCLE_SECONDS + (second - _YEAR_10000) % _CYCLE_SECONDS
    known = max(second, -62_135_596_800 + 86_400)
    shift = datetime.datetime.fromtimestamp(known, zone_named(timezone)).utcoffset()
    assert shift is not None
    return shift // datetime.timedelta(seconds=1)


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
