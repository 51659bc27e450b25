"""Building bloom filters: sizes and bits that ORC Java's own class has, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcstream.codec.encode.bloom_build import bloom_size, can_have_bloom
from orcstream.codec.metadata._bloom import contains_any, hash_texts
from orcstream.codec.metadata.bloom import BloomFilter, hashes_of
from orcstream.codec.vectors._filter import Texts
from orcstream.codec.vectors.cells import cells_of
from orcstream.codec.vectors.column import VectorOptions, field_of
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type
from tests.generators.arrow_vectors import vector_from
from tests.reference import java_orc
from tests.support.encoding import filter_of


def built(array: pa.Array, type_text: str, entries: int = 100, share: float = 0.05) -> BloomFilter:
    options = VectorOptions(str(getattr(array.type, "unit", "ns")))
    field = field_of("x", Schema.parse(type_text).root, options)
    return filter_of(list(cells_of(field, vector_from(array))), entries, share)


@pytest.mark.java
@settings(max_examples=60)
@given(entries=st.integers(0, 200_000), share=st.floats(1e-9, 0.999999))
@pytest.mark.usefixtures("java")
def test_sizes_are_those_of_java(entries: int, share: float) -> None:
    theirs = java_orc.bloom_filter(entries, share)
    assert bloom_size(entries, share) == (theirs.getBitSize(), theirs.getNumHashFunctions())


@pytest.mark.java
@pytest.mark.usefixtures("java")
@settings(max_examples=20)
@given(
    longs=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20),
    doubles=st.lists(st.none() | st.floats(), max_size=20),
    texts=st.lists(st.none() | st.text(max_size=20), max_size=20),
)
def test_bits_are_those_of_java(
    longs: list[int | None], doubles: list[float | None], texts: list[str | None]
) -> None:
    for values, type_, text, method in (
        (longs, pa.int64(), "bigint", "addLong"),
        (doubles, pa.float64(), "double", "addDouble"),
        (texts, pa.string(), "string", "addString"),
    ):
        theirs = java_orc.bloom_filter(100, 0.05)
        for value in values:
            if value is not None:
                getattr(theirs, method)(value)
        words = np.array(list(theirs.getBitSet()), np.int64)
        assert built(pa.array(values, type_), text).bits == words.tobytes()


def test_what_is_added_is_found() -> None:
    cases: list[tuple[pa.Array, str, Any]] = [
        (pa.array([7, None], pa.int8()), "tinyint", 7),
        (pa.array([-7], pa.int16()), "smallint", -7),
        (pa.array([2.5], pa.float32()), "float", 2.5),
        (pa.array([Decimal("12.50")], pa.decimal128(10, 2)), "decimal(10,2)", 1250),
        (pa.array(["ä"], pa.string()), "char(3)", "ä".encode()),
        (pa.array([b"\xff"], pa.binary()), "binary", b"\xff"),
        (pa.array([5], pa.date32()), "date", 5),
        (pa.array([1_500_000_000], pa.timestamp("ms")), "timestamp", 1_500_000_000_000_000),
        (pa.array([1_500_000], pa.timestamp("s")), "timestamp", 1_500_000_000_000_000),
        (pa.array([1_500_000_000_999], pa.timestamp("us")), "timestamp", 1_500_000_000_999_000),
    ]
    for array, text, literal in cases:
        type_ = Schema.parse(text).root
        hashes = hashes_of(type_, [literal])
        assert hashes is not None
        found = built(array, text)
        assert found.may_contain(hashes), text
        assert not BloomFilter(bytes(len(found.bits)), found.hash_count).may_contain(hashes)


def test_nulls_are_not_added() -> None:
    for array, text in (
        (pa.array([None, None], pa.int64()), "bigint"),
        (pa.array([None], pa.string()), "string"),
        (pa.array([], pa.string()), "char(4)"),
        (pa.array([None], pa.decimal128(5, 1)), "decimal(5,1)"),
    ):
        assert not any(built(array, text).bits), text


def test_dictionaries_are_hashed_by_entry() -> None:
    indexes = pa.array([1, None, 1, 1], pa.int32())
    array = pa.DictionaryArray.from_arrays(indexes, pa.array(["a", "b"]))
    field = field_of("x", Schema.parse("string").root, VectorOptions(dictionaries=True))
    assert filter_of(list(cells_of(field, vector_from(array))), 100) == built(pa.array(["b"]), "string")


def test_what_is_refused() -> None:
    for share in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=rf"{share}\b.*\bfalse positives\b"):
            bloom_size(10, share)
    with pytest.raises(ValueError, match=r"\b2147483648\b"):
        bloom_size(2**31, 0.01)
    with pytest.raises(ValueError, match=r"\b1e-100\b"):
        bloom_size(10, 1e-100)
    assert not can_have_bloom(Type(Kind.LIST))
    assert not can_have_bloom(Type(Kind.BOOLEAN))


def test_kernels() -> None:
    hashes = np.array([0, 2**64 - 1, 12345678901234567890], np.uint64)
    for room, count in ((0, 1), (8, 0)):
        with pytest.raises(ValueError, match=r"\bfilter\b"):
            contains_any(bytes(room), count, hashes)
    texts = Texts(np.array([0, 1, 9], np.int32), b"abc", 0, 2)
    out = np.ones(2, np.uint64)
    hash_texts(texts, out)
    assert out[1] == 0, "a text beyond its buffer"
    with pytest.raises(ValueError, match=r"\bvalues\b"):
        hash_texts(texts, out[:1])
