"""Bloom filters of the values in vectors: what a writer records of a row group.

Knows how ORC Java sizes filters and what it hashes of each type. Must not know protobuf
(`codec.metadata.write`) nor which columns the user wants filters of. Contract: bit for bit the filter of ORC
Java's stream BLOOM_FILTER_UTF8 with `bloom_encoding` 1 for the same values, so `column_statistics.Trust`
may believe it.

Of timestamps the milliseconds of the vector's clock are hashed (ORC-135: the wall clock as if it were UTC
for TIMESTAMP), of floating point the bits as a double, with one NaN for all; of decimals their shortest
text; of CHAR the text padded with blanks. The words of a filter in the original stream BLOOM_FILTER are the
same but for timestamps, whose clock readers can't know: a writer leaves that stream out. Specification:
"Bloom Filter Index"; ORC-101, ORC-135.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.convert._format import format_decimals
from orcstream.codec.metadata._bloom import add_hashes, hash_longs, hash_texts
from orcstream.codec.metadata.bloom import MAX_HASHES, BloomFilter
from orcstream.codec.vectors._filter import Texts
from orcstream.codec.vectors.cells import Cells, stored_texts
from orcstream.codec.vectors.column import DTYPES, Array, Vector, items_of, words_of
from orcstream.schema.types import FLOATS, TEXTS, TIMES, Kind, Type, decimal_shape

BLOOM_ENCODING = 1
"""The `bloom_encoding` of a column that has such filters."""

_TEXTS = frozenset((*TEXTS, Kind.BINARY))
_KINDS = frozenset((*DTYPES, *_TEXTS, Kind.DECIMAL))
_WORD_BITS = 64
_MAX_BITS = (1 << 31) - _WORD_BITS


def can_have_bloom(type_: Type) -> bool:
    """Whether filters of this type are of use; those that ORC Java makes of lengths answer nothing."""
    return type_.kind in _KINDS


def bloom_size(entries: int, share: float) -> tuple[int, int]:
    """(bits, hashes a value) of a filter for so many different values and such a share of false positives.

    `share` is between 0 and 1, both excluded; anything else, and a filter of 2^31 bits, is a ValueError.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"a share of {share} false positives, not between 0 and 1")
    entries = max(entries, 1)
    bits = int(-entries * math.log(share) / (math.log(2) * math.log(2)))
    # At least one more bit, so a whole number of words gets another one.
    bits += _WORD_BITS - bits % _WORD_BITS
    if bits > _MAX_BITS:
        raise ValueError(f"a bloom filter of {bits} bits for {entries} values")
    hashes = max(1, math.floor(bits / entries * math.log(2) + 0.5))
    if hashes > MAX_HASHES:
        raise ValueError(f"a bloom filter of {hashes} hashes for a share of {share}")
    return bits, hashes


class BloomBuilder:
    """The filter of one row group under construction; `build` answers it and begins the next one."""

    __slots__ = ("_bits", "_hash_count")

    def __init__(self, entries: int, share: float = 0.05) -> None:
        """For so many values, which ORC Java takes to be the row index stride."""
        bits, self._hash_count = bloom_size(entries, share)
        self._bits: NDArray[np.uint8] = np.zeros(bits // 8, np.uint8)

    def add(self, cells: Cells) -> None:
        """Adds the values of one column's rows, which is one that `can_have_bloom`; nulls are not added."""
        hashes = _hashes(cells)
        add_hashes(self._bits, self._hash_count, hashes if cells.mask is None else hashes[cells.mask])

    def build(self) -> BloomFilter:
        """The filter of what was added since the last one."""
        found = BloomFilter(self._bits.tobytes(), self._hash_count)
        self._bits[:] = 0
        return found


def _hashes(cells: Cells) -> NDArray[np.uint64]:
    """One for each row; what those of nulls are does not matter."""
    type_, vector = cells.field.type, cells.vector
    if type_.kind in FLOATS:
        doubles = items_of(vector, DTYPES[type_.kind]).astype("f8")
        doubles[np.isnan(doubles)] = np.nan
        return _of_longs(doubles.view("i8"))
    if type_.kind in TIMES:
        return _of_longs(_milliseconds(items_of(vector, "i8"), cells.field.format[2]))
    if type_.kind in DTYPES:
        return _of_longs(items_of(vector, DTYPES[type_.kind]).astype("i8", copy=False))
    if type_.kind is Kind.DECIMAL:
        return _of_decimals(cells)
    if type_.kind in _TEXTS:
        return _of_texts(type_, vector)
    raise ValueError(f"a column of type {type_} has no bloom filters")


def _milliseconds(times: Array, unit: str) -> Array:
    if unit == "s":
        return times * 1000
    return times if unit == "m" else times // {"u": 1000, "n": 1_000_000}[unit]


def _of_longs(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    out = np.empty(len(values), np.uint64)
    hash_longs(values, out)
    return out


def _of_decimals(cells: Cells) -> NDArray[np.uint64]:
    vector = cells.vector
    words = words_of(vector)
    mask = np.ones(vector.length, np.uint8) if cells.mask is None else cells.mask.view(np.uint8)
    _, scale = decimal_shape(cells.field.type)
    return _hashed(Texts(*format_decimals(words, mask, scale), 0, vector.length))


def _of_texts(type_: Type, vector: Vector) -> NDArray[np.uint64]:
    entries = vector.dictionary
    if entries is None or entries.length > vector.length or not entries.length:
        return _hashed(stored_texts(type_, vector))
    # Each entry is hashed once; a null's index may be anything.
    return _hashed(stored_texts(type_, entries)).take(items_of(vector, "i4"), mode="clip")


def _hashed(texts: Texts) -> NDArray[np.uint64]:
    out = np.empty(texts.count, np.uint64)
    hash_texts(texts, out)
    return out
