"""The row indexes of a stripe, column by column, as JSON has them: where row groups begin, what they hold.

Knows what an index entry is made of, and which form of an encrypted column is read. Must not know how entries
are shown. Specification: "Indexes".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import (
    ColumnEncoding,
    StreamInformation,
    StreamKind,
    StreamPositions,
    StripeFooter,
    StripeInformation,
    is_decimal64,
    positions_of,
)
from orcstream.codec.streams.compression import Compression
from orcstream.figures import known_statistics
from orcstream.reader.file import OrcFile
from orcstream.schema.types import Type

_BLOOMS = (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
# The version that stores short decimals as integers.
_UNSTABLE = (1, 9999)


def encodings_of(footer: StripeFooter) -> dict[int, list[ColumnEncoding]]:
    """Of each column, by its id: that in the clear, then those of its encrypted forms."""
    found = {column: [encoding] for column, encoding in enumerate(footer.encodings)}
    for variant in footer.variants:
        for at, encoding in enumerate(variant.encodings):
            found.setdefault(variant.root + at, []).append(encoding)
    return found


async def stripe_index(file: OrcFile, columns: Iterable[tuple[str, Type]], stripe: int) -> dict[str, Any]:
    """The indexes of these columns of one stripe; rows are those of the file.

    Raises what `OrcFile.row_index` raises.
    """
    footer = await file.stripe_footer(stripe)
    indexes = await file.row_index(stripe)
    information = file.stripes[stripe]
    found = [
        {"column": name, **_column(file, footer, type_, indexes.get(type_.column_id), information)}
        for name, type_ in columns
    ]
    rows = {"first_row": information.first_row, "row_count": information.row_count}
    return {"stripe": stripe, **rows, "columns": found}


def _column(
    file: OrcFile, footer: StripeFooter, type_: Type, index: RowIndex | None, stripe: StripeInformation
) -> dict[str, Any]:
    """What a stripe has to find rows of one column by; sizes of bloom filters are by their kind."""
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
    stride = file.tail.footer.row_index_stride
    return {
        "column_id": type_.column_id,
        "encoding": encoding.kind.name,
        "index_bytes": lengths.get(StreamKind.ROW_INDEX, 0),
        "bloom_filter_bytes": {kind.name: lengths[kind] for kind in _BLOOMS if lengths.get(kind)},
        "row_groups": []
        if index is None
        else [_row_group(index, at, stride, stripe, places) for at in range(len(index))],
    }


def _row_group(
    index: RowIndex, at: int, stride: int, stripe: StripeInformation, places: Sequence[StreamPositions]
) -> dict[str, Any]:
    """One entry of a row index; positions are by stream, and there by name."""
    numbers = index.entry(at).tolist()
    known = index.statistics(at)
    return {
        "first_row": stripe.first_row + at * stride,
        "row_count": max(0, min(stride, stripe.row_count - at * stride)),
        "statistics": None if known is None else known_statistics(known),
        "positions": {
            place.kind.name: dict(
                zip(place.names, numbers[place.first : place.first + len(place)], strict=False)
            )
            for place in places
        },
    }


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
