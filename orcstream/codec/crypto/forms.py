"""The form in which each column of a file is read: the clear one, or one of its encryption variants.

Knows which streams and encodings make up a form, and where ORC Java 1.6 put those of encrypted columns. Must
not know who has which key: what can be opened is told. Contract: pure functions of checked values; of each
column the streams of one form are left. Specification: "Column Encryption", "Stream Encryption".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import (
    ColumnEncoding,
    Encryption,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    stream_ranges,
)
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn

if TYPE_CHECKING:
    from orcstream.codec.crypto.streams import StreamCipher


@dataclass(frozen=True, slots=True)
class PlacedStream:
    """A stream, where it lies in the file, and what decrypts it; None for what is clear."""

    information: StreamInformation
    range: ByteRange
    cipher: StreamCipher | None = None

    @property
    def kind(self) -> StreamKind:
        return self.information.kind

    @property
    def column(self) -> FileColumn:
        return self.information.column


class StripeForm:
    """The streams of one stripe that are read, in file order, and the encodings of all columns."""

    def __init__(self, streams: Sequence[PlacedStream], encodings: Sequence[ColumnEncoding]) -> None:
        self.streams = streams
        self.encodings = encodings

    @cached_property
    def _present(self) -> frozenset[int]:
        return frozenset(stream.column for stream in self.streams if stream.kind is StreamKind.PRESENT)

    def has_present(self, column: int) -> bool:
        """Whether a column says which of its values are null."""
        return column in self._present


class FileForm:
    """Of each column, the variant that it is read from: the first of those in `open_variants`.

    Columns without one are read in the clear: as they are, or masked, where they are `encrypted`. No variant
    lies within another one (`checks.check_variants` refuses such files, as ORC Java refuses to write them).
    """

    def __init__(
        self, encryption: Encryption | None, schema: Schema, open_variants: Collection[int] = ()
    ) -> None:
        variants = encryption.variants if encryption is not None else ()
        self.variant_of: dict[FileColumn, int] = {}
        encrypted: set[FileColumn] = set()
        # One look at each tree, however many variants there are of it: a file may list any number.
        opened: dict[FileColumn, int | None] = {}
        for index, variant in enumerate(variants):
            if opened.setdefault(variant.root, None) is None and index in open_variants:
                opened[variant.root] = index
        for root, first in opened.items():
            columns = schema.types[root].column_ids
            encrypted.update(columns)
            if first is not None:
                self.variant_of.update(dict.fromkeys(columns, first))
        self.encrypted = frozenset(encrypted)

    def is_masked(self, column: FileColumn) -> bool:
        """Whether what is read of a column is what its mask left."""
        return column in self.encrypted and column not in self.variant_of

    def of_stripe(
        self, stripe: StripeInformation, footer: StripeFooter, local_keys: Mapping[int, bytes]
    ) -> StripeForm:
        """The streams to read; `local_keys` has the stripe's keys of variants.

        Without the key of its variant, a column has no streams: it is not to be read.
        """
        placed = [one for one in stream_ranges(stripe, footer) if not self._has_filters_of_both(one[0])]
        if not self.variant_of:
            clear = [PlacedStream(*one) for one in placed if one[0].variant is None]
            return StripeForm(clear, footer.encodings)
        from orcstream.codec.crypto.streams import stream_cipher

        indexed = {
            (stream.variant, stream.column) for stream, _ in placed if stream.kind is StreamKind.ROW_INDEX
        }
        streams: list[PlacedStream] = []
        for stream, range_ in placed:
            if stream.kind is StreamKind.UNKNOWN:
                continue  # nobody knows its counter, nor which columns it may name
            variant = self.variant_of.get(stream.column)
            if stream.variant == variant:
                cipher = None
                if variant is not None:
                    if variant not in local_keys:
                        continue
                    stripe_id = stripe.encrypt_stripe_id or 1
                    cipher = stream_cipher(local_keys[variant], stream.column, stream.kind, stripe_id)
                streams.append(PlacedStream(stream, range_, cipher))
            elif (
                stream.variant is None
                and stream.kind is StreamKind.ROW_INDEX
                and (variant, stream.column) not in indexed
            ):
                streams.append(PlacedStream(stream, range_))  # of both forms, see `row_index`
        return StripeForm(streams, self._encodings(footer))

    def _has_filters_of_both(self, stream: StreamInformation) -> bool:
        """Whether bloom filters are of no use: ORC Java writes those of the values in clear, too."""
        is_filter = stream.kind in (StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)
        return is_filter and stream.variant is None and stream.column in self.encrypted

    def _encodings(self, footer: StripeFooter) -> Sequence[ColumnEncoding]:
        encodings = list(footer.encodings)
        for column, variant in self.variant_of.items():
            part = footer.variants[variant]
            encodings[column] = part.encodings[column - part.root]
        return encodings

    def most_entries(self, column: FileColumn, group_count: int) -> int:
        """How many entries the row index of a column may have."""
        count = max(1, group_count)
        return 2 * count if column in self.encrypted else count

    def row_index(self, stream: StreamInformation, index: RowIndex, group_count: int) -> RowIndex:
        """The entries of the form that is read.

        ORC Java 1.6.0 to 1.6.10 wrote those of the encrypted form before those of the clear one, into the
        clear stream (ORC-991).
        """
        if stream.variant is not None or stream.column not in self.encrypted:
            return index
        of_both = len(index) == 2 * group_count
        if self.is_masked(stream.column):
            return index.part(group_count, None) if of_both else index
        return index.part(0, group_count if of_both else 0)
