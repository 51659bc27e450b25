"""Neutral values as Arrow arrays, for pyarrow's writer. The other way is `compare.array_values`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from tests.support.reference.types import T

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    "timestamp with local time zone": pa.timestamp("ns", "UTC"),
}


def array_of(type_: T, values: Sequence[Any]) -> pa.Array:
    kind = type_.kind
    mask = pa.array([value is None for value in values], pa.bool_())
    if kind == "struct":
        columns = [
            array_of(child, [None if value is None else value[i] for value in values])
            for i, child in enumerate(type_.children)
        ]
        return pa.StructArray.from_arrays(columns, names=list(type_.names), mask=mask)
    if kind in ("array", "map"):
        sizes = [0 if value is None else len(value) for value in values]
        offsets = pa.array([0, *accumulate(sizes)], pa.int32())
        items = [item for value in values for item in value or ()]
        if kind == "array":
            return pa.ListArray.from_arrays(offsets, array_of(type_.children[0], items), mask=mask)
        keys, things = (array_of(t, [item[i] for item in items]) for i, t in enumerate(type_.children))
        plain = pa.MapArray.from_arrays(offsets, keys, things)
        bitmap = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        buffers = [bitmap, plain.buffers()[1]]
        entries = pa.StructArray.from_arrays([keys, things], fields=list(plain.type.field(0).type))
        return pa.Array.from_buffers(plain.type, len(values), buffers, children=[entries])
    if kind == "decimal":
        return pa.array(values, pa.decimal128(type_.precision, type_.scale))
    return pa.array(values, _TYPES[kind])


def table_of(type_: T, rows: Sequence[Any]) -> pa.Table:
    columns = [array_of(child, [row[i] for row in rows]) for i, child in enumerate(type_.children)]
    return pa.table(columns, names=list(type_.names))
