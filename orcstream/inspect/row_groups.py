"""The row indexes of a stripe, column by column, as values: where row groups begin, and what they hold.

Knows what an index entry is made of, and which form of an encrypted column is read. Must not know how entries
are shown. Specification: "Indexes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.layout import is_decimal64, positions_of
from orcstream.codec.metadata.structure import ColumnEncoding, StreamInformation, StreamKind, StripeFooter
from orcstream.codec.streams.compression import Compression
from orcstream.figures import known_statistics
from orcstream.reader.file import OrcFile
from orcstream.schema.types import Type

_BLOOMS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
# The version that stores short decimals as integers.
_UNSTABLE = (1, 9999)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One entry of a row index; `positions` are by stream, and there by name."""

    first_row: int
    row_count: int
    statistics: Mapping[str, Any] | None
    positions: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """What a stripe has to find rows of one column by; `bloom_filter_bytes` are by kind of filter."""

    column_id: int
    encoding: str
    index_bytes: int
    bloom_filter_bytes: Mapping[str, int]
    row_groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True)
class StripeIndex:
    """The indexes of some columns of one stripe; rows are those of the file."""

    stripe: int
    first_row: int
    row_count: int
    columns: tuple[ColumnIndex, ...]


def encodings_of(footer: StripeFooter) -> dict[int, list[ColumnEncoding]]:
    """Of each column, by its id: that in the clear, then those of its encrypted forms."""
    found = {column: [encoding] for column, encoding in enumerate(footer.encodings)}
    for variant in footer.variants:
        for at, encoding in enumerate(variant.encodings):
            found.setdefault(variant.root + at, []).append(encoding)
    return found


async def stripe_index(file: OrcFile, columns: Iterable[Type], stripe: int) -> StripeIndex:
    """The indexes of these columns of one stripe. Raises what `OrcFile.row_index` raises."""
    footer = await file.stripe_footer(stripe)
    indexes = await file.row_index(stripe)
    information = file.stripes[stripe]
    found = (_column(file, footer, type_, indexes, stripe) for type_ in columns)
    return StripeIndex(stripe, information.first_row, information.row_count, tuple(found))


def _column(
    file: OrcFile, footer: StripeFooter, type_: Type, indexes: Mapping[int, RowIndex], stripe: int
) -> ColumnIndex:
    streams, encoding = _form(file, footer, type_.column_id)
    lengths = {one.kind: one.length for one in streams if one.column == type_.column_id}
    postscript = file.tail.postscript
    places = positions_of(
        type_.kind,
        encoding.kind,
        has_present=StreamKind.PRESENT in lengths,
        compressed=postscript.compression is not Compression.NONE,
        decimal64=is_decimal64(type_, decimal64=postscript.version == _UNSTABLE),
    )
    index = indexes.get(type_.column_id)
    stride = file.tail.footer.row_index_stride
    first_row, row_count = file.stripes[stripe].first_row, file.stripes[stripe].row_count
    groups = []
    for at in range(0 if index is None else len(index)):
        assert index is not None
        numbers = index.entry(at).tolist()
        known = index.statistics(at)
        groups.append(
            RowGroup(
                first_row + at * stride,
                max(0, min(stride, row_count - at * stride)),
                None if known is None else known_statistics(known),
                {
                    place.kind.name: dict(
                        zip(place.names, numbers[place.first : place.first + len(place)], strict=False)
                    )
                    for place in places
                },
            )
        )
    return ColumnIndex(
        type_.column_id,
        encoding.kind.name,
        lengths.get(StreamKind.ROW_INDEX, 0),
        {kind.name: lengths[kind] for kind in _BLOOMS if lengths.get(kind)},
        tuple(groups),
    )


def _form(
    file: OrcFile, footer: StripeFooter, column: int
) -> tuple[tuple[StreamInformation, ...], ColumnEncoding]:
    """The streams of the form that is read of a column, and its encoding."""
    encryption = file.tail.footer.encryption
    for encrypted in file.encrypted_columns if encryption is not None else ():
        root = file.schema.types[encrypted.column_id]
        if not encrypted.is_open or column not in root.column_ids:
            continue
        assert encryption is not None
        for variant, part in zip(encryption.variants, footer.variants, strict=False):
            if variant.root == root.column_id and encryption.keys[variant.key] == encrypted.key:
                return part.streams, part.encodings[column - part.root]
    return footer.streams, footer.encodings[column]
