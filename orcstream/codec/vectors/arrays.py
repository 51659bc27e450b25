"""What stands in the buffers of vectors, as arrays of numpy, and such arrays as buffers.

Knows the Arrow layout of one buffer: items, bits, words of decimals, offsets. Must not know what is made of
them, nor how vectors nest. Contract: arrays of items share the memory of their buffer; a buffer that is too
short is a ValueError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.vectors.column import Vector
from orcstream.schema.types import Kind

if TYPE_CHECKING:
    from typing_extensions import Buffer as Readable

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]

DTYPES = {
    Kind.BYTE: "i1",
    Kind.SHORT: "i2",
    Kind.INT: "i4",
    Kind.LONG: "i8",
    Kind.FLOAT: "f4",
    Kind.DOUBLE: "f8",
    Kind.DATE: "i4",
    Kind.TIMESTAMP: "i8",
    Kind.TIMESTAMP_INSTANT: "i8",
}


def window(buffer: Readable | None, dtype: str, start: int, length: int) -> Array:
    """Items `start` up to `start + length` of a buffer."""
    if not length:
        return np.empty(0, dtype)
    assert buffer is not None
    return np.frombuffer(buffer, dtype, length, start * np.dtype(dtype).itemsize)  # type: ignore[call-overload,no-any-return,unused-ignore]


def unpack(buffer: Readable | None, start: int, length: int) -> Mask:
    """Bits `start` up to `start + length` of a bitmap, one byte each, in memory of their own."""
    first = start // 8
    held = window(buffer, "u1", first, (start + length + 7) // 8 - first if length else 0)
    return np.unpackbits(held, bitorder="little")[start % 8 :][:length].view(np.bool_)


def pack(mask: Array) -> Readable:
    """A bitmap with a bit for each row."""
    return as_buffer(np.packbits(mask, bitorder="little"))


def as_buffer(array: Array) -> Readable:
    # mypy knows numpy's arrays as buffers from Python 3.12 on only.
    return cast("Readable", array)


# --- of a vector's rows ----------------------------------------------------------------------------


def items_of(vector: Vector, dtype: str) -> Array:
    """The values of a fixed width."""
    return window(vector.buffers[1], dtype, vector.offset, vector.length)


def words_of(vector: Vector) -> Array:
    """Decimals, two words each, the low one first."""
    return window(vector.buffers[1], "i8", 2 * vector.offset, 2 * vector.length)


def bits_of(vector: Vector) -> Mask:
    """Booleans."""
    return unpack(vector.buffers[1], vector.offset, vector.length)


def offsets_of(vector: Vector) -> NDArray[np.int32]:
    """Where texts, or items of lists, begin, and where the last ends."""
    if not vector.length:
        return np.zeros(1, np.int32)
    return window(vector.buffers[1], "i4", vector.offset, vector.length + 1)


def validity_bits(vector: Vector) -> Mask | None:
    """True where there is a value; None where all rows have one. Not of unions."""
    valid = vector.buffers[0]
    if valid is None or vector.null_count == 0:
        return None
    return unpack(valid, vector.offset, vector.length)


def nulls_where(valid: Mask | None) -> tuple[Readable | None, int]:
    """The bitmap of rows that are null where `valid` is False, None where none is; and how many are."""
    nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
    return (pack(valid), nulls) if valid is not None and nulls else (None, 0)
