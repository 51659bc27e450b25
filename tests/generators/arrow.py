"""Neutral values as Arrow arrays, for writers. The other way is `compare.array_values`.

An Arrow union has no nulls: a null union becomes a null of its first child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from tests.reference.types import T, Union

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "geometry": pa.binary(),
    "geography": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    "timestamp with local time zone": pa.timestamp("ns", "UTC"),
}


Relaid = Callable[[T, pa.Array], pa.Array]


def _as_is(_: T, array: pa.Array) -> pa.Array:
    return array


def array_of(type_: T, values: Sequence[Any], relaid: Relaid = _as_is) -> pa.Array:
    """`relaid` is given each array of values that have no children, and may answer another layout of it."""
    kind = type_.kind
    mask = pa.array([value is None for value in values], pa.bool_())
    if kind == "struct":
        columns = [
            array_of(child, [None if value is None else value[i] for value in values], relaid)
            for i, child in enumerate(type_.children)
        ]
        if not columns:
            return pa.StructArray.from_buffers(pa.struct([]), len(values), [_bitmap(values)])
        return pa.StructArray.from_arrays(columns, names=list(type_.names), mask=mask)
    if kind in ("array", "map"):
        sizes = [0 if value is None else len(value) for value in values]
        offsets = pa.array([0, *accumulate(sizes)], pa.int32())
        items = [item for value in values for item in value or ()]
        if kind == "array":
            return pa.ListArray.from_arrays(offsets, array_of(type_.children[0], items, relaid), mask=mask)
        keys, things = (
            array_of(t, [item[i] for item in items], relaid) for i, t in enumerate(type_.children)
        )
        entries = pa.StructArray.from_arrays(
            [keys, things],
            fields=[pa.field("key", keys.type, nullable=False), pa.field("value", things.type)],
        )
        buffers = [_bitmap(values), offsets.buffers()[1]]
        return pa.Array.from_buffers(
            pa.map_(keys.type, things.type), len(values), buffers, children=[entries]
        )
    if kind == "uniontype":
        return _union_of(type_, values, relaid)
    if kind == "decimal":
        return relaid(type_, pa.array(values, pa.decimal128(type_.precision, type_.scale)))
    return relaid(type_, pa.array(values, _TYPES[kind]))


def _bitmap(values: Sequence[Any]) -> pa.Buffer:
    return pa.array([value is not None for value in values], pa.bool_()).buffers()[1]


def _union_of(type_: T, values: Sequence[Any], relaid: Relaid) -> pa.Array:
    parts: list[list[Any]] = [[] for _ in type_.children]
    tags, offsets = [], []
    for value in values:
        tag, held = value if isinstance(value, Union) else (0, None)
        tags.append(tag)
        offsets.append(len(parts[tag]))
        parts[tag].append(held)
    children = [array_of(t, part, relaid) for t, part in zip(type_.children, parts, strict=True)]
    return pa.UnionArray.from_dense(pa.array(tags, pa.int8()), pa.array(offsets, pa.int32()), children)


def table_of(type_: T, rows: Sequence[Any], relaid: Relaid = _as_is) -> pa.Table:
    columns = [array_of(child, [row[i] for row in rows], relaid) for i, child in enumerate(type_.children)]
    return pa.table(columns, names=list(type_.names))
