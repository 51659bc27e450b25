"""Sizes of the bloom filters that a writer makes, and which columns can have one.

Knows how ORC Java sizes filters. Must not know how values are hashed (`codec.encode._fixed`, `_texts`), nor
which columns the user wants filters of. A filter is that of ORC Java's stream BLOOM_FILTER_UTF8 with
`bloom_encoding` 1 for the same values, bit for bit, so `column_statistics.Trust` may believe it.

Of timestamps the milliseconds of the vector's clock are hashed (ORC-135: the wall clock as if it were UTC
for TIMESTAMP), of floating point the bits as a double, with one NaN for all; of decimals their shortest
text; of CHAR the text padded with blanks. The words of a filter in the original stream BLOOM_FILTER are the
same but for timestamps, whose clock readers can't know: a writer leaves that stream out. Specification:
"Bloom Filter Index"; ORC-101, ORC-135.
"""

from __future__ import annotations

import math

from orcstream.codec.metadata.bloom import MAX_HASHES
from orcstream.codec.vectors.column import DTYPES
from orcstream.schema.types import TEXTS, Kind, Type

BLOOM_ENCODING = 1
"""The `bloom_encoding` of a column that has such filters."""

_KINDS = frozenset((*DTYPES, *TEXTS, Kind.BINARY, Kind.DECIMAL))
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
