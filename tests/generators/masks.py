"""Neutral values through our masks and back, and what of the results can be compared."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from orcstream.codec.crypto.masks import mask_of, parse_mask
from orcstream.codec.ingest.ingest import UserData
from orcstream.codec.vectors.column import Field, Vector
from orcstream.codec.vectors.times import UTC, ZoneRules
from orcstream.encryption import Mask
from orcstream.schema.schema import Schema
from tests.generators import arrow
from tests.reference.types import T, Union
from tests.support import kernels

BITS = {"tinyint": 8, "smallint": 16, "int": 32}


def column_of(
    type_: T, rows: Sequence[Any], relaid: arrow.Relaid = lambda _, array: array
) -> tuple[Field, Vector]:
    """The values as the one column of what a user hands in."""
    around = T("struct", (type_,), ("value",))
    table = arrow.table_of(around, [(row,) for row in rows], relaid).combine_chunks()
    (rows_of_it,) = UserData(table).vectors(Schema.parse(str(around)))
    return rows_of_it.fields[0], rows_of_it.vectors[0]


def masked(type_: T, mask: str | Mask, rows: Sequence[Any], zone: ZoneRules = UTC) -> list[Any]:
    """What our mask makes of values."""
    if not rows:
        return []
    field, vector = column_of(type_, rows)
    found = mask_of(field.type, parse_mask(mask), zone).apply(field, vector)
    return kernels.rows_of(type_, found)


def comparable(type_: T, value: Any) -> Any:
    """Values with what their types do not distinguish taken away.

    Integers of more bits than their type keep the lower ones; floats have 32 bits; blanks (and the NUL that
    ORC Java pads with) at the end of a char do not count; a union whose child 0 is null is null.
    """
    if value is None:
        return None
    match type_.kind:
        case "struct":
            return tuple(comparable(t, v) for t, v in zip(type_.children, value, strict=True))
        case "array":
            return [comparable(type_.children[0], item) for item in value]
        case "map":
            key, item = type_.children
            return [(comparable(key, k), comparable(item, v)) for k, v in value]
        case "uniontype":
            held = comparable(type_.children[value.tag], value.value)
            return None if value.tag == 0 and held is None else Union(value.tag, held)
        case "char":
            return value.rstrip(" \0")
        case "float" | "double":
            return _bits(value, "<f" if type_.kind == "float" else "<d")
        case kind if kind in BITS:
            half = 1 << (BITS[kind] - 1)
            return (value + half) % (2 * half) - half
    return value


def _bits(value: float, form: str) -> bytes:
    if value != value:  # noqa: PLR0124 - NaN, of which there are many
        return b"NaN"
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, float("inf") if value > 0 else float("-inf"))


def buffers_of(vector: Vector) -> Iterator[bytes]:
    """All memory of a vector, its children and its dictionary."""
    for buffer in vector.buffers:
        if buffer is not None:
            yield bytes(memoryview(buffer).cast("B"))
    for child in (*vector.children, *((vector.dictionary,) if vector.dictionary else ())):
        yield from buffers_of(child)
