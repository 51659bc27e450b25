"""Vectors and fields made from pyarrow arrays, sharing their buffers: what a decoder would answer.

Knows pyarrow and the layout of `Vector`. The names of nested fields are those that `field_of` gives (item,
key, value, `_union_0`), so that an exported vector equals the array it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from orcstream.batch import Batch, BatchSchema
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn, Kind, Type

_WORDS = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.dictionary(pa.int32(), pa.string()): "string",
}


# Nested arrays are slow to draw on a crowded machine.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def batch_of(rows: IngestedRows) -> Batch:
    """The rows as a batch, which pyarrow can read."""
    types = tuple(field.type for field in rows.fields)
    names = tuple(field.name for field in rows.fields)
    root = Type(
        Kind.STRUCT, types, names, last_column_id=types[-1].last_column_id if types else FileColumn(0)
    )
    schema = BatchSchema(Field("", "+s", root, nullable=False, children=rows.fields))
    return Batch(schema, rows.vectors, rows.row_count)


def memory(values: Sequence[int] | range, dtype: str = "i8") -> Any:
    """A buffer of these numbers: a numpy array, which mypy knows as a buffer from Python 3.12 on only."""
    return np.array(values, dtype)


def orc_text(type_: pa.DataType) -> str:
    """The text of the ORC type that has this Arrow type."""
    if type_ in _WORDS:
        return _WORDS[type_]
    if pa.types.is_timestamp(type_):
        return "timestamp with local time zone" if type_.tz else "timestamp"
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_map(type_):
        return f"map<{orc_text(type_.key_type)},{orc_text(type_.item_type)}>"
    if pa.types.is_list(type_):
        return f"array<{orc_text(type_.value_type)}>"
    children = [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_union(type_):
        return "uniontype<" + ",".join(orc_text(child.type) for child in children) + ">"
    return "struct<" + ",".join(f"`{child.name}`:{orc_text(child.type)}" for child in children) + ">"


def field_from(name: str, type_: pa.DataType) -> Field:
    """The field of an Arrow type that has at most one timestamp unit."""
    leaves = list(_leaves(type_))
    units = {leaf.unit for leaf in leaves if pa.types.is_timestamp(leaf)} or {"ns"}
    options = VectorOptions(units.pop(), any(pa.types.is_dictionary(leaf) for leaf in leaves))
    assert not units
    return field_of(name, Schema.parse(orc_text(type_)).root, options)


def _leaves(type_: pa.DataType) -> Iterator[pa.DataType]:
    if not type_.num_fields:
        yield type_
    for index in range(type_.num_fields):
        yield from _leaves(type_.field(index).type)


def vector_from(array: pa.Array, *, count_nulls: bool = True) -> Vector:
    """The array's own buffers as a vector, with its offset."""
    type_, offset, length = array.type, array.offset, len(array)
    nulls = array.null_count if count_nulls else -1
    own = tuple(b"" if buffer is None else buffer for buffer in array.buffers())
    validity = array.buffers()[0]
    if pa.types.is_dictionary(type_):
        indices = vector_from(array.indices, count_nulls=count_nulls)
        values = vector_from(array.dictionary, count_nulls=count_nulls)
        return Vector(indices.length, indices.buffers, indices.null_count, indices.offset, (), values)
    if pa.types.is_union(type_):
        children = tuple(
            vector_from(array.field(i), count_nulls=count_nulls) for i in range(type_.num_fields)
        )
        return Vector(length, own[1:3], 0, offset, children)
    if pa.types.is_struct(type_):
        children = tuple(_unsliced(array.field(i), offset, count_nulls) for i in range(type_.num_fields))
        return Vector(length, (validity,), nulls, offset, children)
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        child = vector_from(array.values, count_nulls=count_nulls)
        return Vector(length, (validity, own[1]), nulls, offset, (child,))
    return Vector(length, (validity, *own[1:]), nulls, offset)


def _unsliced(child: pa.Array, offset: int, count_nulls: bool) -> Vector:
    """Of a struct: pyarrow slices the children of a sliced one, a vector's begin `offset` values earlier."""
    vector = vector_from(child, count_nulls=count_nulls)
    nulls = vector.null_count if offset == 0 else -1
    return Vector(
        vector.length + offset,
        vector.buffers,
        nulls,
        vector.offset - offset,
        vector.children,
        vector.dictionary,
    )


def batch_from(columns: dict[str, pa.Array]) -> Batch:
    """A batch of these arrays."""
    return batches_from([columns])[1][0]


def batches_from(parts: Sequence[dict[str, pa.Array]]) -> tuple[BatchSchema, list[Batch]]:
    """Batches with one schema."""
    fields = tuple(field_from(name, array.type) for name, array in parts[0].items())
    text = "struct<" + ",".join(f"`{field.name}`:{field.type}" for field in fields) + ">"
    root = Field("", "+s", Schema.parse(text).root, children=fields)
    schema = BatchSchema(root)
    return schema, [
        Batch(
            schema,
            tuple(map(vector_from, columns.values())),
            len(next(iter(columns.values()))) if columns else 0,
        )
        for columns in parts
    ]


# --- random arrays --------------------------------------------------------------------------------

_INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def _leaf_values() -> dict[pa.DataType, st.SearchStrategy[Any]]:
    leaves: dict[pa.DataType, st.SearchStrategy[Any]] = {
        type_: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for type_, bits in _INTEGERS.items()
    }
    leaves[pa.bool_()] = st.booleans()
    leaves[pa.float32()] = st.floats(width=32, allow_nan=False)
    leaves[pa.float64()] = st.floats(allow_nan=False)
    leaves[pa.string()] = st.text("a\0ß€😀", max_size=5)
    leaves[pa.binary()] = st.binary(max_size=5)
    leaves[pa.date32()] = st.dates()
    leaves[pa.timestamp("us")] = st.datetimes()
    leaves[pa.decimal128(38, 7)] = st.decimals(-(10**30), 10**30, places=7)
    return leaves


LEAVES = _leaf_values()


@st.composite
def arrays(draw: st.DrawFn, depth: int = 3, length: int | None = None, nullable: bool = True) -> pa.Array:
    """Arrays of every type a vector can have, nested up to `depth` levels, with nulls, unsliced."""
    size = draw(st.integers(0, 12)) if length is None else length
    kinds = ["leaf"] + (["struct", "list", "map", "union"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        type_ = draw(st.sampled_from(list(LEAVES)))
        values = st.none() | LEAVES[type_] if nullable else LEAVES[type_]
        return pa.array(draw(st.lists(values, min_size=size, max_size=size)), type_)
    if kind == "union":
        tags = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
        children = [draw(arrays(depth=depth - 1, length=tags.count(tag))) for tag in range(3)]
        offsets = [tags[:row].count(tag) for row, tag in enumerate(tags)]
        names = [f"_union_{tag}" for tag in range(3)]
        return pa.UnionArray.from_dense(
            pa.array(tags, pa.int8()), pa.array(offsets, pa.int32()), children, names
        )
    nulls = [nullable and draw(st.booleans()) for _ in range(size)]
    mask = pa.array(nulls, pa.bool_())
    if kind == "struct":
        children = [draw(arrays(depth=depth - 1, length=size)) for _ in range(draw(st.integers(1, 3)))]
        return pa.StructArray.from_arrays(children, [f"f{i}" for i in range(len(children))], mask=mask)
    ends = [0]
    for is_null in nulls:
        ends.append(ends[-1] + (0 if is_null else draw(st.integers(0, 3))))
    offsets_ = pa.array(ends, pa.int32())
    values_ = draw(arrays(depth=depth - 1, length=ends[-1]))
    if kind == "list":
        return pa.ListArray.from_arrays(offsets_, values_, mask=mask)
    keys = draw(arrays(depth=0, length=ends[-1], nullable=False))
    return pa.MapArray.from_arrays(offsets_, keys, values_, mask=mask)


@st.composite
def sliced_arrays(draw: st.DrawFn) -> pa.Array:
    """As `arrays`, sliced."""
    array = draw(arrays())
    start = draw(st.integers(0, len(array)))
    return array.slice(start, draw(st.integers(0, len(array) - start)))
