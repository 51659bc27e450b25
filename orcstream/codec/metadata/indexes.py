"""Statistics, row indexes and bloom filters: protobuf bytes to frozen, checked values.

Knows their wire form. Must not know the tail nor stripe footers (`codec.metadata`, whose contract holds here,
too), nor what statistics prove. Statistics are split off as bytes and parsed one by one on demand.
Specification: "Column Statistics", "Row Group Index", "Bloom Filter Index".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata._wire import count_parts, count_row_index, read_row_index
from orcstream.codec.metadata.wire import BLOOM_INDEX, MOST_POSITIONS, Room, foreign, split_field
from orcstream.errors import CorruptStripe, CorruptTail, FormatError
from orcstream.schema.column_statistics import BoundingBox, ColumnStatistics, StatisticsKind

if TYPE_CHECKING:
    from orcstream.codec.metadata.bloom import BloomIndex

# Decimal statistics are text; nothing longer than two decimals of 38 digits can be one.
_DECIMAL_TEXT = re.compile(r"[+-]?[0-9]{1,80}(\.[0-9]{0,80})?", re.ASCII)


# What is made of an entry of a row index beside its positions, of a bloom filter, and of a word of one.
_ENTRY_BYTES = 56
_FILTER_BYTES = 500
_WORD_BYTES = 50


@dataclass(frozen=True, slots=True, eq=False)
class RowIndex:
    """The ROW_INDEX of one column: one entry for each row group.

    Entry `i` has the positions ``positions[starts[i]:starts[i + 1]]``; `codec.metadata.structure` names them.
    """

    positions: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    serialized_statistics: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, start: int, stop: int | None) -> RowIndex:
        """The entries `start` up to `stop`, or up to the last."""
        statistics = self.serialized_statistics[start:stop]
        return RowIndex(self.positions, self.starts[start : start + len(statistics) + 1], statistics)

    def entry(self, index: int) -> npt.NDArray[np.uint64]:
        """The positions of one row group."""
        return self.positions[self.starts[index] : self.starts[index + 1]]

    def statistics(self, index: int) -> ColumnStatistics | None:
        """The statistics of one row group; None where the entry has none."""
        return parse_entry_statistics(self.serialized_statistics[index])


def parse_file_statistics(data: bytes, column_count: int) -> tuple[bytes, ...]:
    """The statistics of the columns of a variant, over the whole file, from its decrypted message."""
    found = tuple(bytes(part) for part in split_field(memoryview(data), 1, column_count, "file statistics"))
    for part in found:
        parse_statistics(part)
    if len(found) != column_count:
        raise CorruptTail(f"file statistics of {len(found)} columns for {column_count}")
    return found


def parse_column_statistics(data: bytes, stripe_count: int) -> tuple[bytes, ...]:
    """The statistics of one column in each stripe, from a decrypted message of a variant."""
    parts = split_field(memoryview(data), 1, stripe_count, "stripe statistics")
    return tuple(bytes(part) for part in parts)


def parse_statistics(data: bytes, error_class: type[FormatError] = CorruptTail) -> ColumnStatistics:
    """One column's statistics; a bound that is no text or no number is left out, for it proves nothing."""
    with foreign(error_class, "column statistics"):
        message = pb.ColumnStatistics.FromString(data)
        geospatial = message.geospatial_statistics
        box = None
        if geospatial.HasField("bbox"):
            box = BoundingBox(**_got(geospatial.bbox, *BoundingBox.__slots__))
        return ColumnStatistics(
            value_count=_get(message, "number_of_values"),
            bounding_box=box,
            geospatial_types=tuple(geospatial.geospatial_types),
            **_got(message, "has_null", "bytes_on_disk"),
            **_got(message.collection_statistics, *CHILD_COUNTS),
            **_bounds(message),
        )


def parse_entry_statistics(data: bytes) -> ColumnStatistics | None:
    """The statistics of one entry of a row index; None where it has none."""
    return parse_statistics(data, CorruptStripe) if data else None


def _bounds(message: pb.ColumnStatistics) -> dict[str, Any]:
    """The arguments of `ColumnStatistics` that depend on the kind. A writer fills one kind at most."""
    for kind, (name, fields) in STATISTICS_PARTS.items():
        if message.HasField(name):
            part = getattr(message, name)
            return {"kind": kind, **(_BOUNDS[kind](part) if kind in _BOUNDS else _got(part, *fields))}
    return {}


STATISTICS_PARTS: Final[dict[StatisticsKind, tuple[str, tuple[str, ...]]]] = {
    "integer": ("int_statistics", ("minimum", "maximum", "sum")),
    "double": ("double_statistics", ("minimum", "maximum", "sum")),
    "string": ("string_statistics", ("minimum", "maximum", "sum", "lower_bound", "upper_bound")),
    "boolean": ("bucket_statistics", ()),
    "decimal": ("decimal_statistics", ()),
    "date": ("date_statistics", ("minimum", "maximum")),
    "binary": ("binary_statistics", ("sum",)),
    "timestamp": ("timestamp_statistics", ()),
}
"""The part of a message that each kind fills, and its fields that are `ColumnStatistics` attributes too."""

CHILD_COUNTS: Final = ("min_children", "max_children", "total_children")
"""The fields, and attributes, of lists and maps."""


def _get(message: pb.Message, field: str) -> Any:
    """A field's value; None where it is absent, or text that is not UTF-8 (see `_text`)."""
    if not message.HasField(field):
        return None
    value = getattr(message, field)
    return None if isinstance(value, bytes) else value


def _got(message: pb.Message, *names: str) -> dict[str, Any]:
    return {name: _get(message, name) for name in names}


def _boolean_bounds(part: pb.BucketStatistics) -> dict[str, Any]:
    return {"sum": part.count[0] if part.count else None}


def _decimal_bounds(part: pb.DecimalStatistics) -> dict[str, Any]:
    return {name: _decimal(_get(part, name)) for name in ("minimum", "maximum", "sum")}


def _decimal(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and _DECIMAL_TEXT.fullmatch(text) else None


def _timestamp_bounds(part: pb.TimestampStatistics) -> dict[str, Any]:
    # Java stores the nanoseconds below the millisecond plus 1. Without them a bound is as wide as its
    # millisecond.
    bounds = {f"local_{name}_ms": value for name, value in _got(part, "minimum", "maximum").items()}
    for name, absent in (("minimum", 0), ("maximum", 999_999)):
        milliseconds, nanos = _get(part, f"{name}_utc"), _get(part, f"{name}_nanos")
        if milliseconds is not None:
            below = nanos - 1 if nanos is not None and 0 < nanos <= 1_000_000 else absent
            bounds[name] = milliseconds * 1_000_000 + below
    return bounds


_BOUNDS: dict[StatisticsKind, Callable[[Any], dict[str, Any]]] = {
    "boolean": _boolean_bounds,
    "decimal": _decimal_bounds,
    "timestamp": _timestamp_bounds,
}


def parse_row_index(data: bytes, max_entries: int | None = None, room: Room | None = None) -> RowIndex:
    """The row index of one column from its decompressed stream, which takes some of `room`.

    `max_entries` is how many row groups the caller can account for; more are `CorruptStripe`.
    """
    with foreign(CorruptStripe, "row index"):
        entries, count, most = count_row_index(data)
        if max_entries is not None and entries > max_entries:
            raise CorruptStripe(f"a row index of {entries} entries, for at most {max_entries}")
        if most > MOST_POSITIONS:
            raise CorruptStripe(f"a row index entry of {most} positions, more than {MOST_POSITIONS}")
        if room is not None:
            room.take(len(data) + entries * _ENTRY_BYTES + count * 8)
        # Arrays of their own: views of other memory take 500 bytes more, for each of thousands of columns.
        positions, starts = np.empty(count, np.uint64), np.empty(entries + 1, np.int64)
        return RowIndex(positions, starts, read_row_index(data, positions, starts))


def parse_bloom_index(
    data: bytes, max_entries: int, *, utf8: bool = True, encoding: int = 0, room: Room | None = None
) -> BloomIndex:
    """The bloom filters of one column in one stripe from their decompressed stream.

    `utf8` tells streams of kind BLOOM_FILTER_UTF8 from BLOOM_FILTER, `encoding` is the column's
    `bloom_encoding`. More than `max_entries` filters are `CorruptStripe`; one that no writer makes is
    None, for it proves nothing.
    """
    from orcstream.codec.metadata.bloom import MAX_HASHES, BloomFilter, BloomIndex

    with foreign(CorruptStripe, "bloom filters"):
        (_, (count, parts)) = count_parts(data, BLOOM_INDEX)
        if count > max_entries:
            raise CorruptStripe(f"{count} bloom filters, for at most {max_entries}")
        if room is not None:
            room.take(2 * len(data) + count * _FILTER_BYTES + parts * _WORD_BYTES)
        filters: list[BloomFilter | None] = []
        for message in pb.BloomFilterIndex.FromString(data).bloom_filter:
            bits = message.utf8bitset if utf8 else np.array(message.bitset, "<u8").tobytes()
            hashes = message.num_hash_functions
            is_whole = bits and not len(bits) % 8 and 0 < hashes <= MAX_HASHES
            filters.append(BloomFilter(bits, hashes) if is_whole else None)
        return BloomIndex(tuple(filters), utf8, encoding)
