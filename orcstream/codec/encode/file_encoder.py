"""A file under construction: rows become stripes, stripes a file.

Knows how rows are cut into row groups, how a stripe is laid out and what stands in its footer and in the
file's tail. Must not know threads, clocks nor where the bytes go. A `StripeEncoder` is one stripe; its
columns can be encoded side by side: `take` answers what to encode of some rows, as a task for each column,
`close` the tasks that end it. Those of one call are carried out before the next call. `FileEncoder` then lays
the columns out.
`FileVariants` encrypts the finished streams of encrypted columns, piece by piece, and seals their statistics.
Contract: the same vectors, cuts, options and keys give the same bytes; pieces come in file order. No two
stripes that are begun have one id of encryption, whether they are laid out or not: under one local key no
counter is taken for two different streams. Specification:
"Stripes", "File Tail", "Column Encryption".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from orcstream.codec.crypto.masks import data_mask, mask_text
from orcstream.codec.crypto.sealing import VariantStatistics, seal
from orcstream.codec.crypto.streams import MAX_STRIPE_ID, StreamCipher, stream_cipher
from orcstream.codec.encode._column import CloseTask, ColumnEncoder, EncodeTask
from orcstream.codec.encode._source import SourceTree
from orcstream.codec.encode.encoded import EncodedColumn, EncodedStream, encoded
from orcstream.codec.encode.encoders import encoder_of, root_encoder_of
from orcstream.codec.encode.options import EncodeOptions, EncryptedRoot
from orcstream.codec.encode.statistics import statistics_of_nothing
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.codec.metadata.structure import (
    Calendar,
    DataMask,
    Encryption,
    Footer,
    StatisticsList,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    StripeVariant,
)
from orcstream.codec.metadata.write import (
    WRITER,
    WRITER_VERSION,
    frame_metadata,
    serialize_stripe_footer,
    statistics_list,
    tail_bytes,
)
from orcstream.codec.streams.compression import Compressor
from orcstream.codec.vectors.column import Field, Vector
from orcstream.encryption import NO_KEYS, FileKeys, Mask
from orcstream.errors import Unsupported
from orcstream.schema.column_statistics import ColumnStatistics, merge
from orcstream.schema.schema import Schema, with_encryption
from orcstream.schema.types import FileColumn, Kind, Type

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAGIC = b"ORC"


class StripeEncoder:
    """One stripe. Its columns are those of the root, and before them the root itself where it is a struct.

    `id` is that of its encryption.
    """

    def __init__(self, schema: Schema, options: EncodeOptions, variants: FileVariants, id_: int) -> None:
        root = schema.root
        self._options = options
        self._variants = variants
        self.id = id_
        self._has_root = root.kind is Kind.STRUCT
        self._stride = options.row_index_stride
        self._group_rows = 0
        self.row_count = 0
        own = root_encoder_of(root, options) if self._has_root else encoder_of(root, options)
        below = (encoder_of(child, options) for child in root.children) if self._has_root else ()
        self._columns: tuple[ColumnEncoder, ...] = (own, *below)

    def take(self, rows: IngestedRows, start: int, stop: int) -> list[EncodeTask]:
        """What encodes some rows of a batch, for all columns, as the next ones of the stripe."""
        fields, vectors = rows.fields, tuple(vector.slice(start, stop) for vector in rows.vectors)
        if self._has_root:
            fields = (Field("", "+s", self._columns[0].type), *fields)
            vectors = (Vector(stop - start, (None,), 0), *vectors)
        trees = [SourceTree(field, vector) for field, vector in zip(fields, vectors, strict=True)]
        cuts = np.array(list(self._cut(stop - start)), np.int64)
        self.row_count += stop - start
        return [EncodeTask(column, tree, cuts) for column, tree in zip(self._columns, trees, strict=True)]

    def _cut(self, count: int) -> Iterator[tuple[int, int, bool, bool]]:
        """The row groups' parts of so many rows: (first row, rows, whether they begin or end a row group)."""
        at = 0
        while at < count:
            begins = self._group_rows == 0
            rows = count - at if not self._stride else min(count - at, self._stride - self._group_rows)
            self._group_rows += rows
            ends = self._group_rows == self._stride
            if ends:
                self._group_rows = 0
            yield at, rows, begins, ends
            at += rows

    def close(self) -> list[CloseTask]:
        """The end of all columns. The stripe has rows, and none are added any more."""
        return [CloseTask(column, bool(self._group_rows)) for column in self._columns]

    def encoded(self, compressor: Compressor | None) -> list[EncodedColumn]:
        """The closed columns by column id, encrypted where they have to be; the encoders are let go."""
        columns, self._columns = self._columns, ()
        found = []
        for column in columns:
            found += encoded(column, self._options, compressor)
        return [self._variants.encrypt(column, self.id) for column in found]

    @property
    def size_bytes(self) -> int:
        """What the stripe's data will take in the file, about, rather too much; indexes are not counted."""
        return sum(column.size_bytes for column in self._columns)

    @property
    def held_bytes(self) -> int:
        """Memory held by the encoders."""
        return sum(column.held_bytes for column in self._columns)


class FileStatistics:
    """`stripes` has the statistics of each stripe so far, by the order of the columns given."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = types
        self._merged: list[ColumnStatistics] = []
        self.stripes: list[StatisticsList] = []

    def add(self, statistics: list[ColumnStatistics]) -> None:
        """Those of one more stripe, one for each column."""
        self.stripes.append(statistics_list(statistics))
        if self._merged:
            statistics = [merge(a, b) for a, b in zip(self._merged, statistics, strict=True)]
        self._merged = statistics

    def of_columns(self) -> list[list[bytes]]:
        """Those of each column, by stripe."""
        return [[stripe.serialized[index] for stripe in self.stripes] for index in range(len(self._types))]

    def of_all(self) -> StatisticsList:
        """Those of all stripes so far."""
        merged = self._merged or [
            replace(statistics_of_nothing(type_), bytes_on_disk=0) for type_ in self._types
        ]
        return statistics_list(merged)


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


class FileEncoder:
    """Lays out stripes and writes what stands between and behind them.

    `writer_timezone` is what stripe footers say. `position` is how many bytes came out so far: the next piece
    stands there in the file. `keys` are those of the columns that `options` encrypt.
    """

    def __init__(
        self,
        schema: Schema,
        options: EncodeOptions,
        *,
        writer_timezone: str,
        software_version: str,
        keys: FileKeys = NO_KEYS,
    ) -> None:
        self.schema = schema
        self.options = options
        self.position = 0
        self.row_count = 0
        self._writer_timezone = writer_timezone
        self._software_version = software_version
        self._variants = FileVariants(schema, options, keys)
        self._noted = with_encryption(
            schema,
            {column: (root.key, mask_text(root.mask)) for column, root in options.encrypted.items()},
        )
        self._begun_count = 0
        self._stripes: list[StripeInformation] = []
        self._statistics = FileStatistics(schema.types)

    @property
    def stripe_count(self) -> int:
        """Stripes laid out so far."""
        return len(self._stripes)

    @property
    def stripes(self) -> Sequence[StripeInformation]:
        """Those that were laid out."""
        return self._stripes

    def begin_stripe(self) -> StripeEncoder:
        """An empty stripe, to be given to `lay_out` when it is finished.

        Raises Unsupported (`too_many_stripes`) where there is no id left to encrypt it with.
        """
        # The statistics of a file take the number after that of its last stripe.
        if self.options.encrypted and self._begun_count + 1 >= MAX_STRIPE_ID:
            raise Unsupported(
                f"a file with encrypted columns has at most {MAX_STRIPE_ID - 1} stripes",
                reason="too_many_stripes",
            )
        self._begun_count += 1
        return StripeEncoder(self.schema, self.options, self._variants, self._begun_count)

    def header(self) -> bytes:
        """What a file begins with."""
        self.position += len(_MAGIC)
        return _MAGIC

    def lay_out(self, stripe: StripeEncoder, compressor: Compressor | None) -> Iterator[Buffer]:
        """The pieces of a closed stripe; they are let go one by one, so take each before the next.

        The stripe counts as written at once.
        """
        clear, hidden = self._variants.split(stripe.encoded(compressor))
        index, hidden_index = _indexes_of(clear), [part for some in hidden for part in _indexes_of(some)]
        data, hidden_data = _data_of(clear), [part for some in hidden for part in _data_of(some)]
        footer = StripeFooter(
            (
                *_directory(index, hidden_index, StreamKind.ENCRYPTED_INDEX),
                *_directory(data, hidden_data, StreamKind.ENCRYPTED_DATA),
            ),
            tuple(column.encoding for column in clear),
            self._writer_timezone,
            self._variants.in_stripe(hidden),
        )
        framed = frame_metadata(serialize_stripe_footer(footer), self.options.block_size, compressor)
        information = StripeInformation(
            index=len(self._stripes),
            offset=self.position,
            index_length=_length_of([*index, *hidden_index]),
            data_length=_length_of([*data, *hidden_data]),
            footer_length=len(framed),
            row_count=stripe.row_count,
            first_row=self.row_count,
            encrypt_stripe_id=stripe.id if hidden else None,
            encrypted_local_keys=self._variants.encrypted_keys if hidden else (),
        )
        self._stripes.append(information)
        self._statistics.add([column.statistics for column in clear])
        self._variants.add_statistics(hidden)
        self.position = information.range.stop
        self.row_count += stripe.row_count
        streams = [*index, *hidden_index, *data, *hidden_data]
        return _pieces_of([*(stream.pieces for stream in streams), [framed]])

    def tail(self, user_metadata: Mapping[str, bytes], compressor: Compressor | None) -> bytes:
        """All that stands behind the last stripe: with it, what came out so far is a complete file."""
        encryption, encrypted_statistics = self._variants.tail(compressor)
        footer = Footer(
            schema=self._noted,
            stripes=tuple(self._stripes),
            row_count=self.row_count,
            row_index_stride=self.options.row_index_stride,
            statistics=self._statistics.of_all(),
            user_metadata=dict(user_metadata),
            writer=WRITER,
            software_version=self._software_version,
            calendar=Calendar.JULIAN_GREGORIAN if self.options.hybrid else Calendar.PROLEPTIC_GREGORIAN,
            encryption=encryption,
            header_length=len(_MAGIC),
            content_length=self.position,
        )
        data = tail_bytes(
            footer,
            self._statistics.stripes,
            compression=self.options.compression,
            block_size=self.options.block_size,
            compressor=compressor,
            encrypted_statistics=encrypted_statistics,
            version=self.options.version,
            writer_version=WRITER_VERSION,
        )
        self.position += len(data)
        return data


def _indexes_of(columns: Sequence[EncodedColumn]) -> list[EncodedStream]:
    return [stream for column in columns for stream in column.index]


def _data_of(columns: Sequence[EncodedColumn]) -> list[EncodedStream]:
    return [stream for column in columns for stream in column.data]


def _directory(
    clear: Sequence[EncodedStream], hidden: Sequence[EncodedStream], placeholder: StreamKind
) -> list[StreamInformation]:
    """What a stripe footer says of one area: its clear streams, and the room that the others take."""
    found = [stream.information for stream in clear]
    if length := _length_of(hidden):
        found.append(StreamInformation(placeholder, FileColumn(0), length))
    return found


def _length_of(streams: Sequence[EncodedStream]) -> int:
    return sum(stream.information.length for stream in streams)


def _pieces_of(streams: list[list[Buffer]]) -> Iterator[Buffer]:
    for pieces in streams:
        pieces.reverse()
        while pieces:
            yield pieces.pop()


def _streams_of(columns: Sequence[EncodedColumn]) -> tuple[StreamInformation, ...]:
    """All streams of some columns: those of the index area, then those of the data area."""
    return tuple(stream.information for stream in (*_indexes_of(columns), *_data_of(columns)))


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
