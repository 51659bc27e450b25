"""What encoders refuse of vectors: children and places beyond those that are there."""

from __future__ import annotations

import numpy as np
import pytest

from orcstream.codec.encode._column import EncodeTask, Round
from orcstream.codec.encode._source import SourceTree
from orcstream.codec.encode.encoders import encoder_of
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.streams.compression import Compression
from orcstream.codec.vectors.column import Vector, VectorOptions, as_buffer, field_of
from orcstream.schema.schema import Schema


def encode(type_text: str, vector: Vector) -> None:
    """Give all rows to an encoder."""
    type_ = Schema.parse(type_text).root
    encoder = encoder_of(type_, EncodeOptions(compression=Compression.NONE))
    tree = SourceTree(field_of("x", type_, VectorOptions()), vector)
    done = Round([EncodeTask(encoder, tree, np.array([(0, vector.length, True, True)], np.int64))])
    done.run(None)
    done.check()


def ints(count: int, *, offset: int = 0, validity: bytes | None = None) -> Vector:
    return Vector(count, (validity, as_buffer(np.arange(offset + count, dtype=np.int32))), offset=offset)


def union(tags: list[int], places: list[int], *children: Vector) -> Vector:
    buffers = as_buffer(np.array(tags, np.int8)), as_buffer(np.array(places, np.int32))
    return Vector(len(tags), buffers, 0, children=children)


@pytest.mark.parametrize("offset", [0, 2])
def test_children_of_structs_have_a_row_for_each(offset: int) -> None:
    def struct(count: int) -> Vector:
        return Vector(4, (None,), 0, offset, children=(ints(4 + offset), ints(count + offset)))

    encode("struct<a:int,b:int>", struct(4))
    with pytest.raises(ValueError, match="shorter than its parent"):
        encode("struct<a:int,b:int>", struct(3))


@pytest.mark.parametrize(("keys", "items"), [(3, 2), (2, 3), (2, 2)])
def test_maps_have_as_many_keys_as_values(keys: int, items: int) -> None:
    def map_(entries: int, keys: int, items: int, ends: list[int]) -> Vector:
        parts = Vector(entries, (None,), 0, children=(ints(keys), ints(items)))
        return Vector(2, (None, as_buffer(np.array(ends, np.int32))), 0, children=(parts,))

    encode("map<int,int>", map_(3, 3, 3, [0, 1, 3]))
    with pytest.raises(ValueError, match="shorter than its parent"):
        encode("map<int,int>", map_(3, keys, items, [0, 1, 3]))
    with pytest.raises(ValueError, match="beyond the items"):
        encode("map<int,int>", map_(2, keys, items, [0, 1, 4]))


@pytest.mark.parametrize("place", [-1, 3, 5, 1 << 30])
def test_places_of_unions_in_unions_are_looked_at_before_nulls_are(place: int) -> None:
    inner = union([0, 0], [0, place], ints(3, validity=b"\x05"), ints(0))
    with pytest.raises(ValueError, match="beyond the items"):
        encode("uniontype<uniontype<int,int>,int>", union([0, 0], [0, 1], inner, ints(0)))
