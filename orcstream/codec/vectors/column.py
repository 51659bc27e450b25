"""Column vectors: Arrow-shaped buffers of one column, the field that says how to read them, and their values.

Knows the Arrow columnar layout (buffers, offset, children, dictionary) and how ORC types map to it. Must
not know streams, stripes, encodings or I/O. A `Vector` holds memory and nothing else; a `Field` describes
it and is built once per read, so that vectors stay cheap. The layout is the one of the Arrow C data
interface, buffer for buffer, so that export is a matter of taking addresses. Arrays of the items in a buffer
share its memory; a buffer that is too short is a ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer as Memory
from orcstream._buffer import zeroed
from orcstream.schema.types import TEXTS, TIMES, Kind, Type, decimal_shape

if TYPE_CHECKING:
    from typing_extensions import Buffer


# Arrow's 32-bit offsets end here, and so does every vector.
MAX_VECTOR_BYTES = 2**31 - 1

EMPTY = Memory(0)

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Vector:
    """`length` values, beginning at value `offset` of the buffers.

    `buffers[0]` is the validity bitmap (least significant bit first; None when nothing is null); the
    others follow the Arrow layout of the field's format. `null_count` is -1 when it was not counted.
    Lists and maps keep their children whole (the offsets buffer says which part is theirs); a struct's
    children are read from this vector's `offset` on, as in the Arrow C data interface; a dense union's
    children are whole. Buffers of length 0 may be any empty buffer.
    """

    length: int
    buffers: tuple[Buffer | None, ...]
    null_count: int = -1
    offset: int = 0
    children: tuple[Vector, ...] = ()
    dictionary: Vector | None = None

    def slice(self, start: int, stop: int) -> Vector:
        """Values `start` up to `stop` of this vector, sharing its memory."""
        if start == 0 and stop == self.length:
            return self
        nulls = 0 if self.null_count == 0 else -1
        return Vector(stop - start, self.buffers, nulls, self.offset + start, self.children, self.dictionary)

    def struct_children(self) -> tuple[Vector, ...]:
        """The children of a struct, for the rows of this vector alone."""
        start, stop = self.offset, self.offset + self.length
        return tuple(child.slice(start, stop) for child in self.children)


def vector_bytes(vector: Vector) -> int:
    """Bytes of a vector's buffers and children; a dictionary belongs to its stripe and is not counted."""
    own = sum(memoryview(buffer).nbytes for buffer in vector.buffers if buffer is not None)
    return own + sum(vector_bytes(child) for child in vector.children)


@dataclass(frozen=True, slots=True)
class Field:
    """Name and Arrow shape of a column. `format` is the Arrow C data interface's format string."""

    name: str
    format: str
    type: Type
    metadata: tuple[tuple[str, str], ...] = ()
    nullable: bool = True
    children: tuple[Field, ...] = ()
    dictionary: Field | None = None


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """What the user may choose about vectors: `unit` of times is "s", "ms", "us" or "ns"."""

    unit: str = "ns"
    dictionaries: bool = False
    invalid_utf8: str = "error"


_FORMATS = {
    Kind.BOOLEAN: "b",
    Kind.BYTE: "c",
    Kind.SHORT: "s",
    Kind.INT: "i",
    Kind.LONG: "l",
    Kind.FLOAT: "f",
    Kind.DOUBLE: "g",
    Kind.BINARY: "z",
    Kind.GEOMETRY: "z",
    Kind.GEOGRAPHY: "z",
    Kind.DATE: "tdD",
    Kind.LIST: "+l",
    Kind.MAP: "+m",
    Kind.STRUCT: "+s",
}
_NOT_PLAIN = frozenset({Kind.GEOMETRY, Kind.GEOGRAPHY, Kind.LIST, Kind.MAP, Kind.STRUCT})
_ITEM_BYTES = {"b": 1, "c": 1, "s": 2, "i": 4, "f": 4, "tdD": 4}
_OFFSET = struct.Struct("=i")
# So many rows, evenly spread, tell how long the texts of a dictionary are.
_SAMPLED_ROWS = 4096


def item_bytes(format_: str) -> int:
    """What a value takes in a format of fixed width; a boolean a byte, though it has a bit."""
    return 16 if format_.startswith("d:") else _ITEM_BYTES.get(format_, 8)


def rows_bytes(field: Field, vector: Vector) -> int:
    """Bytes of the values of a vector and its children, whatever else their buffers hold.

    Texts of a dictionary count as often as rows have them, about: as some of the rows let expect.
    """
    start, stop = vector.offset, vector.offset + vector.length
    if not vector.length:
        return 0
    match field.format:
        case "u" | "z" if vector.dictionary is None:
            return 4 * vector.length + _offset(vector, stop) - _offset(vector, start)
        case _ if vector.dictionary is not None:
            return 4 * vector.length + _dictionary_text_bytes(vector, vector.dictionary)
        case "+l" | "+m":
            items = vector.children[0].slice(_offset(vector, start), _offset(vector, stop))
            return 4 * vector.length + rows_bytes(field.children[0], items)
        case "+s":
            return sum(map(rows_bytes, field.children, vector.struct_children()))
        case format_ if format_.startswith("+ud:"):
            return 5 * vector.length + sum(map(rows_bytes, field.children, vector.children))
        case format_:
            return item_bytes(format_) * vector.length


def _dictionary_text_bytes(vector: Vector, entries: Vector) -> int:
    if not entries.length:
        return 0
    numbers, ends = vector.buffers[1], entries.buffers[1]
    assert numbers is not None
    assert ends is not None
    step = -(-vector.length // _SAMPLED_ROWS)
    indexes = np.frombuffer(memoryview(numbers), "i4", vector.length, 4 * vector.offset)[::step]
    offsets = np.frombuffer(memoryview(ends), "i4", entries.length + 1, 4 * entries.offset)
    indexes = np.clip(indexes, 0, entries.length - 1)  # a null's may be anything
    total = (offsets[indexes + 1] - offsets[indexes]).sum(dtype=np.int64)
    return int(total) * vector.length // len(indexes)


def _offset(vector: Vector, index: int) -> int:
    offsets = vector.buffers[1]
    assert offsets is not None
    return int(_OFFSET.unpack_from(offsets, 4 * index)[0])


def nulls_of(field: Field, count: int) -> Vector:
    """A vector of nothing but nulls. Unions have none of their own: a null union is a null in child 0."""
    if field.format.startswith("+ud:"):
        children = tuple(nulls_of(child, 0 if tag else count) for tag, child in enumerate(field.children))
        places: Any = np.arange(count, dtype=np.int32)
        return Vector(count, (zeroed(count), places), 0, children=children)
    validity = zeroed((count + 7) // 8) if count else None
    if field.dictionary is not None:
        entries = nulls_of(field.dictionary, 0)
        return Vector(count, (validity, zeroed(4 * count)), count, dictionary=entries)
    match field.format:
        case "+s":
            children = tuple(nulls_of(child, count) for child in field.children)
            return Vector(count, (validity,), count, children=children)
        case "+l" | "+m":
            children = (nulls_of(field.children[0], 0),)
            return Vector(count, (validity, zeroed(4 * (count + 1))), count, children=children)
        case "u" | "z":
            return Vector(count, (validity, zeroed(4 * (count + 1)), zeroed(0)), count)
        case format_:
            return Vector(count, (validity, zeroed(item_bytes(format_) * count)), count)


def nested(field: Field, found: Iterable[tuple[Field, Vector]]) -> tuple[Field, tuple[Vector, ...]]:
    """The field with the fields of its children, and their vectors."""
    pairs = tuple(found)
    return replace(field, children=tuple(child for child, _ in pairs)), tuple(vector for _, vector in pairs)


def field_of(name: str, type_: Type, options: VectorOptions) -> Field:
    """The field of a (projected) column; the root struct of a read gives the whole tree."""
    format_, values = _format(type_, options), None
    if type_.kind in TEXTS and options.dictionaries:
        format_, values = "i", Field(name, format_, type_)
    children = _children(type_, options)
    return Field(name, format_, type_, _metadata(type_), children=children, dictionary=values)


@lru_cache(16)
def _plain_formats(options: VectorOptions) -> Mapping[Kind, str]:
    """The formats of kinds that have no parameters, children or metadata of their own."""
    kinds = [kind for kind in (*_FORMATS, *TIMES, Kind.STRING) if kind not in _NOT_PLAIN]
    if options.dictionaries:
        kinds.remove(Kind.STRING)
    return {kind: _format(Type(kind), options) for kind in kinds}


def _format(type_: Type, options: VectorOptions) -> str:
    if type_.kind in TEXTS:
        return "z" if options.invalid_utf8 == "binary" else "u"
    if type_.kind is Kind.TIMESTAMP:
        return f"ts{options.unit[0]}:"
    if type_.kind is Kind.TIMESTAMP_INSTANT:
        return f"ts{options.unit[0]}:UTC"
    if type_.kind is Kind.DECIMAL:
        return "d:{},{}".format(*decimal_shape(type_))
    if type_.kind is Kind.UNION:
        return "+ud:" + ",".join(str(tag) for tag in range(len(type_.children)))
    return _FORMATS[type_.kind]


def _children(type_: Type, options: VectorOptions) -> tuple[Field, ...]:
    if type_.kind is Kind.STRUCT:
        plain = _plain_formats(options)
        return tuple(
            [
                Field(name, plain[child.kind], child)
                if child.kind in plain and not child.attributes  # most columns, of thousands
                else field_of(name, child, options)
                for name, child in zip(type_.field_names, type_.children, strict=True)
            ]
        )
    if type_.kind is Kind.LIST:
        return (field_of("item", type_.children[0], options),)
    if type_.kind is Kind.MAP:
        key, value = (field_of(n, t, options) for n, t in zip(("key", "value"), type_.children, strict=True))
        children = (replace(key, nullable=False), value)
        return (Field("entries", "+s", type_, nullable=False, children=children),)
    if type_.kind is Kind.UNION:
        return tuple(field_of(f"_union_{tag}", t, options) for tag, t in enumerate(type_.children))
    return ()


def _metadata(type_: Type) -> tuple[tuple[str, str], ...]:
    """What Arrow has no place for: lengths of char and varchar, geospatial parameters, type attributes."""
    own: list[tuple[str, str]] = []
    if type_.kind in (Kind.CHAR, Kind.VARCHAR, Kind.GEOMETRY, Kind.GEOGRAPHY):
        own.append(("orc.type", str(type_)))
    return (*own, *type_.attributes)


# --- buffers as arrays, and arrays as buffers ------------------------------------------------------


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


def window(buffer: Buffer | None, dtype: str, start: int, length: int) -> Array:
    """Items `start` up to `start + length` of a buffer."""
    if not length:
        return np.empty(0, dtype)
    assert buffer is not None
    return np.frombuffer(buffer, dtype, length, start * np.dtype(dtype).itemsize)  # type: ignore[call-overload,no-any-return,unused-ignore]


def unpack(buffer: Buffer | None, start: int, length: int) -> Mask:
    """Bits `start` up to `start + length` of a bitmap, one byte each, in memory of their own."""
    first = start // 8
    held = window(buffer, "u1", first, (start + length + 7) // 8 - first if length else 0)
    return np.unpackbits(held, bitorder="little")[start % 8 :][:length].view(np.bool_)


def pack(mask: Array) -> Buffer:
    """A bitmap with a bit for each row."""
    return as_buffer(np.packbits(mask, bitorder="little"))


def as_buffer(array: Array) -> Buffer:
    # mypy knows numpy's arrays as buffers from Python 3.12 on only.
    return cast("Buffer", array)


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


def nulls_where(valid: Mask | None) -> tuple[Buffer | None, int]:
    """The bitmap of rows that are null where `valid` is False, None where none is; and how many are."""
    nulls = 0 if valid is None else len(valid) - int(np.count_nonzero(valid))
    return (pack(valid), nulls) if valid is not None and nulls else (None, 0)


# --- what is null ----------------------------------------------------------------------------------


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Where both are true; None stands for true everywhere."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def validity(type_: Type, vector: Vector) -> Mask | None:
    """True where there is a value; None where all rows have one."""
    if type_.kind is not Kind.UNION:
        return validity_bits(vector)
    inner = validity(type_.children[0], vector.children[0]) if type_.children else None
    if inner is None:
        return None
    first = window(vector.buffers[0], "u1", vector.offset, vector.length) == 0
    offsets = items_of(vector, "i4")
    valid_rows = np.ones(vector.length, np.bool_)
    valid_rows[first] = inner[offsets[first]]
    return valid_rows
