"""The order in which rows are written, so that indexes prune: by columns, or along a curve through several.

Knows ranks of values and the bits of a z-order curve. Must not know where rows come from or go to.

A value's rank is its place among the quantiles of a sample, so that skewed columns are spread as evenly as
others; nulls come first. The bits of all ranks, one column's after the other's, make one number: rows whose
numbers are close are close in every column.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcstream.errors import UsageError
from orcstream.spark.jobs.tables import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Bounds = Sequence[Any]
Ranks = npt.NDArray[np.int64]

_Z: Final = "__orcstream_z"
_BITS: Final = 60
_MOST_BITS: Final = 12
_ROWS_OF_A_BATCH: Final = 64


def in_order(df: DataFrame, columns: Sequence[str], partitions: int | None) -> DataFrame:
    """Rows in the order of some columns, within tasks and from one to the next."""
    _check(df, columns)
    given = [quoted(name) for name in columns]
    spread = df.repartitionByRange(partitions, *given) if partitions else df.repartitionByRange(*given)
    return spread.sortWithinPartitions(*given)


def in_z_order(df: DataFrame, columns: Sequence[str], partitions: int | None) -> DataFrame:
    """Rows in z-order. A sample is taken first, so rows are made once more than otherwise."""
    from pyspark.sql.types import ArrayType, LongType, MapType, StructField, StructType

    _check(df, columns)
    for name in columns:
        type_ = df.schema[name].dataType
        if isinstance(type_, ArrayType | MapType | StructType):
            raise UsageError(
                f"the column {name!r} is {type_.simpleString()}, and rows are in z-order by plain values only"
            )
    bits = min(_MOST_BITS, _BITS // len(columns))
    sampled = df.select(*map(quoted, columns))
    table = sampled.mapInArrow(_sample, sampled.schema).toArrow()
    bounds = {name: quantiles(table[name], 1 << bits) for name in columns}
    schema = StructType([*df.schema.fields, StructField(_Z, LongType())])
    numbered = df.mapInArrow(partial(_numbered, bounds, bits), schema)
    return in_order(numbered, [_Z], partitions).drop(_Z)


def _check(df: DataFrame, columns: Sequence[str]) -> None:
    if len(set(columns)) < len(columns):
        raise UsageError(f"a column to order rows by is named twice: {', '.join(columns)}")
    for name in columns:
        if name not in df.columns:
            raise UsageError(
                f"there is no column {name!r} to order rows by; there are {', '.join(df.columns)}"
            )


def _sample(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        step = max(1, batch.num_rows // _ROWS_OF_A_BATCH)
        yield batch.take(pa.array(range(0, batch.num_rows, step), pa.int64()))


def _numbered(
    bounds: Mapping[str, Bounds], bits: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = z_numbers([ranks(batch[name], cuts, bits) for name, cuts in bounds.items()], bits)
        arrays = [*batch.columns, pa.array(found, pa.int64())]
        yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, _Z])


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """With numbers for everything that has an order as numbers have."""
    type_ = values.type
    if pa.types.is_decimal(type_):
        return pc.cast(values, pa.float64())
    if pa.types.is_boolean(type_):
        return pc.cast(values, pa.int8())
    if pa.types.is_date(type_):
        return pc.cast(values, pa.int32())
    if pa.types.is_temporal(type_):
        return pc.cast(values, pa.int64())
    return values


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def quantiles(values: pa.Array | pa.ChunkedArray, parts: int) -> list[Any]:
    """At most `parts` - 1 different values that cut these into parts of the same size, about."""
    plain = _plain(values)
    found = sorted(value for value in pc.drop_null(plain).to_pylist() if value == value)  # noqa: PLR0124 - NaN
    cuts = {found[at * len(found) // parts] for at in range(1, parts)} if found else set()
    return sorted(cuts - {found[0]} if found else cuts)


def ranks(values: pa.Array, cuts: Bounds, bits: int) -> Ranks:
    """The place of each value among the cuts, spread over `bits` bits; 0 for nulls."""
    plain = _plain(values)
    if _is_number(plain.type):
        numbers = pc.fill_null(plain, 0).to_numpy(zero_copy_only=False)
        places = np.searchsorted(np.asarray(cuts, numbers.dtype if cuts else None), numbers, side="right")
    else:
        coded = plain.dictionary_encode()
        of_each = np.array([bisect_right(cuts, one) for one in coded.dictionary.to_pylist()] or [0])
        places = of_each[pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)]
    spread: Ranks = (places.astype(np.int64) + 1) * ((1 << bits) - 1) // (len(cuts) + 1)
    spread[np.asarray(plain.is_null())] = 0
    return spread


def z_numbers(columns: Sequence[Ranks], bits: int) -> Ranks:
    """The bits of all columns, the highest of each before the second of any."""
    found = np.zeros(len(columns[0]), np.int64)
    for bit in reversed(range(bits)):
        for column in columns:
            found = (found << 1) | ((column >> bit) & 1)
    return found
