"""What the values of a file's structure must hold among each other, beyond what one field can say.

Knows stripes, streams and encodings as values; `codec.metadata` calls it on everything it parses. Must not
know protobuf. Contract: answers nothing, raises `FormatError` or `Unsupported`. Specification: "Stripe
Footer", "Stream Encryption".
"""

from __future__ import annotations

from collections.abc import Sequence

from orcstream.codec.metadata.structure import (
    EncryptionVariant,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
)
from orcstream.errors import CorruptStripe, CorruptTail, Unsupported
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn

_PLACEHOLDERS = (StreamKind.ENCRYPTED_INDEX, StreamKind.ENCRYPTED_DATA)
_TAIL_ONLY = (StreamKind.STRIPE_STATISTICS, StreamKind.FILE_STATISTICS)
# Each variant is a request to a key store, and each of its columns counts once more.
_MAX_VARIANT_COLUMNS = 1 << 18


def check_no_overlap(stripes: Sequence[StripeInformation]) -> None:
    """Overlapping stripes would let a small file claim any amount of data."""
    stop = 0
    for stripe in sorted(stripes, key=lambda stripe: (stripe.offset, stripe.range.stop)):
        if stripe.offset < stop and stripe.range.length:
            raise CorruptTail(f"two stripes overlap at byte {stripe.offset}", stripe=stripe.index)
        stop = max(stop, stripe.range.stop)


def check_variants(variants: Sequence[EncryptionVariant], schema: Schema) -> None:
    """Whether encrypted columns lie side by side, and are so few that keys can be asked for."""
    types = schema.types
    columns = sum(len(types[one.root].column_ids) for one in variants)
    if columns > _MAX_VARIANT_COLUMNS:
        raise Unsupported(f"encryption variants of {columns} columns", reason="too_many_variants")
    last = FileColumn(-1)
    for root in sorted({one.root for one in variants}):
        # No writer does that: whose nulls would decide about the values of the inner one?
        if root <= last:
            raise CorruptTail(f"column {root} is encrypted, and so is one that it lies within", column=root)
        last = types[root].column_ids[-1]


def check_stripe_footer(footer: StripeFooter, stripe: StripeInformation, schema: Schema) -> None:
    """Whether the streams fit into the stripe and belong to columns that exist."""
    if len(footer.encodings) != schema.column_count:
        raise CorruptStripe(f"{len(footer.encodings)} encodings for {schema.column_count} columns")
    room = stripe.index_length + stripe.data_length
    claimed = sum(stream.length for stream in footer.streams)
    if claimed > room:
        raise CorruptStripe(f"streams of {claimed} bytes in a stripe body of {room}")
    _check_streams(footer.streams, schema.root.column_ids)
    for index, variant in enumerate(footer.variants):
        columns = schema.types[variant.root].column_ids
        _check_streams(variant.streams, columns)
        if len(variant.encodings) != len(columns):
            raise CorruptStripe(
                f"variant {index} has {len(variant.encodings)} encodings for {len(columns)} columns"
            )
    # A placeholder has exactly the room of the variants' streams of its area.
    for kind, is_index in ((StreamKind.ENCRYPTED_INDEX, True), (StreamKind.ENCRYPTED_DATA, False)):
        given = sum(stream.length for stream in footer.streams if stream.kind is kind)
        taken = sum(
            stream.length
            for variant in footer.variants
            for stream in variant.streams
            if stream.kind.is_index is is_index
        )
        if given != taken:
            raise CorruptStripe(f"{kind.name} has {given} bytes for streams of {taken}")


def _check_streams(streams: Sequence[StreamInformation], columns: Sequence[FileColumn]) -> None:
    seen: set[tuple[StreamKind, int]] = set()
    for stream in streams:
        if stream.kind is StreamKind.UNKNOWN:
            continue
        if stream.kind in _PLACEHOLDERS:
            if stream.variant is not None:
                raise CorruptStripe(f"a {stream.kind.name} stream within variant {stream.variant}")
            column = FileColumn(0)
        else:
            column = stream.column
        if stream.kind in _TAIL_ONLY:
            raise CorruptStripe(f"a {stream.kind.name} stream within a stripe")
        if column not in columns:
            raise CorruptStripe(
                f"a stream of column {column}, beyond {columns[0]} to {columns[-1]}",
                column=column,
                stream_kind=stream.kind.name,
            )
        if (stream.kind, column) in seen:
            raise CorruptStripe(
                "two streams of one kind and column", column=column, stream_kind=stream.kind.name
            )
        seen.add((stream.kind, column))
