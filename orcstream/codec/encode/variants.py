"""The encrypted columns of a file under construction: their keys, their streams, their statistics.

Knows which local key and counter every encrypted stream takes, and what a footer says about encryption. Must
not know key stores, nor where streams come to lie. Contract: under one local key no counter is taken for two
different streams, as long as the caller gives each stripe an id of its own. Streams are encrypted piece by
piece, after compression. Specification: "Column Encryption".
"""

from __future__ import annotations

from collections.abc import Sequence

from orcstream.codec.crypto.masks import data_mask
from orcstream.codec.crypto.sealing import VariantStatistics, seal
from orcstream.codec.crypto.streams import StreamCipher, stream_cipher
from orcstream.codec.encode.encoder import EncodedColumn, EncodedStream, EncodeOptions, EncryptedRoot
from orcstream.codec.encode.file_statistics import FileStatistics
from orcstream.codec.metadata.structure import (
    DataMask,
    Encryption,
    StreamInformation,
    StripeVariant,
)
from orcstream.codec.streams.compression import Compressor
from orcstream.encryption import FileKeys, Mask
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn


class FileVariants:
    """The variants of one file, in their order; there may be none.

    Raises ValueError where there are not as many local keys.
    """

    def __init__(self, schema: Schema, options: EncodeOptions, keys: FileKeys) -> None:
        self._options = options
        self._keys = keys
        self._roots = tuple(options.encrypted.values())
        if len(keys.keys) != len(self._roots):
            raise ValueError(f"{len(keys.keys)} local keys for {len(self._roots)} encrypted columns")
        trees = [schema.types[root.root].column_ids for root in self._roots]
        self._statistics = [FileStatistics([schema.types[column] for column in tree]) for tree in trees]
        # What a tail says after so many stripes: one and the same, or its counters would serve twice.
        self._last: tuple[int, Encryption, bytes] | None = None

    @property
    def encrypted_keys(self) -> tuple[bytes, ...]:
        """The local keys as files hold them."""
        return self._keys.encrypted

    def encrypt(self, column: EncodedColumn, stripe_id: int) -> EncodedColumn:
        """The column with its streams encrypted in place, if it belongs to a variant."""
        if column.variant is not None:
            key = self._keys.keys[column.variant][1].key
            for stream in (*column.index, *column.data):
                kind = stream.information.kind
                _encrypt(stream, stream_cipher(key, column.column, kind, stripe_id))
        return column

    def split(
        self, columns: Sequence[EncodedColumn]
    ) -> tuple[list[EncodedColumn], list[list[EncodedColumn]]]:
        """The clear columns of a stripe, and those of each variant."""
        clear: list[EncodedColumn] = []
        hidden: list[list[EncodedColumn]] = [[] for _ in self._roots]
        for column in columns:
            (clear if column.variant is None else hidden[column.variant]).append(column)
        return clear, hidden

    def in_stripe(self, hidden: Sequence[Sequence[EncodedColumn]]) -> tuple[StripeVariant, ...]:
        """What a stripe footer says of the variants."""
        return tuple(
            StripeVariant(root.root, _streams_of(columns), tuple(column.encoding for column in columns))
            for root, columns in zip(self._roots, hidden, strict=True)
        )

    def add_statistics(self, hidden: Sequence[Sequence[EncodedColumn]]) -> None:
        """Those of one more stripe."""
        for statistics, columns in zip(self._statistics, hidden, strict=True):
            statistics.add([column.statistics for column in columns])

    def tail(self, compressor: Compressor | None) -> tuple[Encryption | None, bytes]:
        """What a footer says now, and the encrypted statistics of the stripes that it lists."""
        if not self._roots:
            return None, b""
        count = len(self._statistics[0].stripes)
        if self._last is None or self._last[0] != count:
            self._last = (count, *self._new_tail(count, compressor))
        return self._last[1:]

    def _new_tail(self, stripe_count: int, compressor: Compressor | None) -> tuple[Encryption, bytes]:
        return seal(
            _masks_of(self._roots),
            self._keys,
            (
                VariantStatistics(root.root, found.of_columns(), found.of_all().serialized)
                for root, found in zip(self._roots, self._statistics, strict=True)
            ),
            stripe_count=stripe_count,
            block_size=self._options.block_size,
            compressor=compressor,
        )


def _streams_of(columns: Sequence[EncodedColumn]) -> tuple[StreamInformation, ...]:
    """All streams of some columns: those of the index area, then those of the data area."""
    index = [stream.information for column in columns for stream in column.index]
    return (*index, *(stream.information for column in columns for stream in column.data))


def _encrypt(stream: EncodedStream, cipher: StreamCipher) -> None:
    at = 0
    for number, piece in enumerate(stream.pieces):
        encrypted = cipher.apply(memoryview(piece), at)
        stream.pieces[number] = encrypted
        at += len(encrypted)


def _masks_of(roots: Sequence[EncryptedRoot]) -> tuple[DataMask, ...]:
    columns: dict[Mask, list[FileColumn]] = {}
    for root in roots:
        columns.setdefault(root.mask, []).append(root.root)
    ordered = sorted(columns.items(), key=lambda item: (item[0].name, item[0].parameters))
    return tuple(data_mask(mask, tuple(sorted(found))) for mask, found in ordered)
