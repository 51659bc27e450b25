"""Which bucket a row belongs to: by its id, or by the values that a table is bucketed by.

Knows how Hive makes one hash of the values of a row, nested ones too (`ObjectInspectorUtils`,
`getBucketHashCode`, which is its bucketing version 2). Must not know files, nor how bytes are hashed
(`codec.hive._bucket_hash`).

What is particular about Hive's hash, and kept: the bits of a FLOAT or DOUBLE are taken for a whole number,
which is hashed as a floating point number; BOOLEAN and TINYINT are their own hashes; a null counts as 0;
BINARY is hashed with the zeros of the memory that Hadoop's `BytesWritable` takes beyond its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream.acid.read.row_ids import Ints
from orcstream.codec.hive._bucket_hash import hash_decimals, hash_items, hash_texts, hash_timestamps
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.codec.vectors.cells import items_of_lists, lengths_of, stored_texts, union_children
from orcstream.codec.vectors.column import Array, Field, Vector, bits_of, items_of, validity, window, words_of
from orcstream.errors import Unsupported
from orcstream.plan.acid.names import MOST_BUCKET
from orcstream.schema.types import FLOATS, TEXTS, TIMES, Kind, decimal_shape

Hashes: TypeAlias = NDArray[np.uint32]

_BINARIES = frozenset((Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY))
_INTEGERS = {Kind.SHORT: "i2", Kind.INT: "i4", Kind.LONG: "i8", Kind.DATE: "i4"}
_UNITS = {"s": 1, "m": 10**3, "u": 10**6, "n": 10**9}
_MOST = np.uint32(0x7FFFFFFF)
_FACTOR = np.uint32(31)


def bucket_numbers(values: Ints) -> Ints:
    """The buckets of numbers that stand in the column `bucket`, of either version."""
    found: Ints = np.where(values >> 29 == 1, values >> 16 & MOST_BUCKET, values)
    return found


def buckets_of_rows(rows: IngestedRows, columns: Sequence[int], bucket_count: int) -> Ints:
    """The bucket of each row, by the values of some of its columns, in their order.

    Raises Unsupported (`bucketed_map`) where one of them is a map or holds maps.
    """
    hashes = _joined(rows.row_count, [_hashes(rows.fields[at], rows.vectors[at]) for at in columns])
    found: Ints = ((hashes & _MOST) % np.uint32(bucket_count)).astype(np.int32)
    return found


def _joined(count: int, parts: Sequence[Hashes]) -> Hashes:
    hashes = np.zeros(count, np.uint32)
    for part in parts:
        hashes = hashes * _FACTOR + part
    return hashes


def _hashes(field: Field, vector: Vector) -> Hashes:
    """The hash of each row, of unsigned numbers as sums wrap."""
    hashes = _hashes_of_values(field, vector)
    valid = validity(field.type, vector)
    if valid is not None:
        hashes[~valid] = 0
    return hashes


def _hashes_of_values(field: Field, vector: Vector) -> Hashes:
    match field.type.kind:
        case Kind.BOOLEAN:
            return bits_of(vector).astype(np.uint32)
        case Kind.BYTE:
            return items_of(vector, "i1").astype(np.int32).view(np.uint32)
        case Kind.LIST:
            return _of_lists(field, vector)
        case Kind.STRUCT:
            return _of_structs(field, vector)
        case Kind.UNION:
            return _of_unions(field, vector)
        case kind if kind in _INTEGERS:
            return _of_items(items_of(vector, _INTEGERS[kind]))
        case kind if kind in FLOATS:
            return _of_floats(field, vector)
        case kind if kind in TIMES:
            return _of_times(field, vector)
        case Kind.DECIMAL:
            return _filled(
                vector, lambda out: hash_decimals(words_of(vector), decimal_shape(field.type)[1], out)
            )
        case kind if kind in TEXTS or kind in _BINARIES:
            texts, stripped, filled = stored_texts(field.type, vector), kind is Kind.CHAR, kind in _BINARIES
            return _filled(vector, lambda out: hash_texts(texts, out, stripped, filled))
        case kind:
            raise Unsupported(
                f"rows are not told by the values of {kind.name.lower()}s; leave their inserting to Hive",
                reason="bucketed_map",
            )


def _filled(vector: Vector, fill: Callable[[Hashes], None]) -> Hashes:
    out = np.empty(vector.length, np.uint32)
    fill(out)
    return out


def _of_items(values: Array) -> Hashes:
    width = values.dtype.itemsize
    swapped = values.astype(values.dtype.newbyteorder(">"))
    out = np.empty(len(values), np.uint32)
    hash_items(swapped.view(np.uint8), width, out)
    return out


def _of_floats(field: Field, vector: Vector) -> Hashes:
    width = 4 if field.type.kind is Kind.FLOAT else 8
    values = items_of(vector, f"f{width}").copy()
    values[np.isnan(values)] = np.nan  # all have the hash of one
    return _of_items(values.view(f"i{width}").astype(f"f{width}"))


def _of_times(field: Field, vector: Vector) -> Hashes:
    unit = _UNITS[field.format[2]]
    seconds, parts = np.divmod(items_of(vector, "i8"), unit)
    nanos = (parts * (10**9 // unit)).astype(np.int32)
    return _filled(vector, lambda out: hash_timestamps(seconds, nanos, out))


# --- nested ----------------------------------------------------------------------------------------


def _of_structs(field: Field, vector: Vector) -> Hashes:
    return _joined(vector.length, list(map(_hashes, field.children, vector.struct_children())))


def _of_lists(field: Field, vector: Vector) -> Hashes:
    """Of each list the sum of its items' hashes, each times 31 to the power of how many come after it."""
    items, _ = items_of_lists(vector)
    hashes = _hashes(field.children[0], items)
    lengths = lengths_of(vector)
    ends = np.cumsum(lengths, dtype=np.int64)
    powers = np.full(int(lengths.max(initial=0)), _FACTOR)
    powers[:1] = 1
    after = np.repeat(ends, lengths) - np.arange(1, len(hashes) + 1)
    sums = np.zeros(len(hashes) + 1, np.uint32)
    np.cumsum(hashes * np.cumprod(powers, dtype=np.uint32)[after], dtype=np.uint32, out=sums[1:])
    found: Hashes = sums[ends] - sums[ends - lengths]
    return found


def _of_unions(field: Field, vector: Vector) -> Hashes:
    tags = window(vector.buffers[0], "i1", vector.offset, vector.length)
    hashes = np.zeros(vector.length, np.uint32)
    for tag, (child, part) in enumerate(zip(field.children, union_children(field, vector), strict=True)):
        hashes[tags == tag] = _hashes(child, part)
    return hashes
