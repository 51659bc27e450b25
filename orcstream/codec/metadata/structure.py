"""The structure of a file as frozen values: its footers, stripes, streams, encodings, encryption.

Knows which facts a tail and a stripe footer hold, where streams lie within a stripe, and what the numbers
of a row index entry mean. Must not know how these values were serialised (that is the other modules of
`codec.metadata`, the only makers of them from foreign bytes) but for statistics, which are parsed when they
are asked for; nor what is worth reading. Contract: offsets,
lengths, ids and indices in these values were checked against each other and against the file's length, and
the ranges that are made of them lie within the stripe. Specification: "File Tail", "Stripes", "Column
Encryption", "Stream Encryption", "Row Group Index" and the tables of "Column Encodings", whose order of
streams is the order of positions, whatever the order in the file.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.indexes import parse_statistics
from orcstream.codec.streams.compression import Compression
from orcstream.encryption import EncryptionKey, KeyProviderKind, Mask
from orcstream.schema.column_statistics import ColumnStatistics
from orcstream.schema.schema import Schema
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, FileColumn, Kind, Type


class StreamKind(enum.IntEnum):
    """Stream.Kind; UNKNOWN stands for every number of a later format: such a stream only takes up room."""

    UNKNOWN = -1
    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8
    ENCRYPTED_INDEX = 9
    ENCRYPTED_DATA = 10
    STRIPE_STATISTICS = 100
    FILE_STATISTICS = 101

    @property
    def is_index(self) -> bool:
        """Whether it lies in the index area of a stripe."""
        return self in _INDEX_KINDS


class EncodingKind(enum.IntEnum):
    """ColumnEncoding.Kind; UNKNOWN matters only to who reads the column."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3
    UNKNOWN = -1


class Calendar(enum.IntEnum):
    """CalendarKind of dates and timestamps before 15 October 1582; UNKNOWN where the file does not say."""

    UNKNOWN = 0
    JULIAN_GREGORIAN = 1
    PROLEPTIC_GREGORIAN = 2


_INDEX_KINDS = frozenset(
    (StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8, StreamKind.ENCRYPTED_INDEX)
)


@dataclass(frozen=True, slots=True)
class Postscript:
    """The uncompressed end of a file. `length` is its own, without the length byte that follows it."""

    length: int
    footer_length: int
    compression: Compression
    compression_block_size: int
    version: tuple[int, int]
    metadata_length: int
    writer_version: int
    stripe_statistics_length: int
    has_magic: bool

    @property
    def version_is_known(self) -> bool:
        """False for versions after this package; such files are read as if they were of the last one."""
        return self.version in ((0, 11), (0, 12), (1, 9999))

    @property
    def tail_bytes(self) -> int:
        """How many bytes at the file's end are no stripes."""
        return self.stripe_statistics_length + self.metadata_length + self.footer_length + self.length + 1


@dataclass(frozen=True, slots=True)
class StripeInformation:
    """Where a stripe lies and which rows it holds; `first_row` counts from the start of the file.

    `encrypt_stripe_id` and `encrypted_local_keys` are those in force, inherited from earlier stripes where
    the file does not repeat them; None and () in files without encryption.
    """

    index: int
    offset: int
    index_length: int
    data_length: int
    footer_length: int
    row_count: int
    first_row: int
    encrypt_stripe_id: int | None = None
    encrypted_local_keys: tuple[bytes, ...] = ()

    @property
    def index_range(self) -> ByteRange:
        """The index streams."""
        return ByteRange(self.offset, self.offset + self.index_length)

    @property
    def data_range(self) -> ByteRange:
        """The data streams."""
        start = self.offset + self.index_length
        return ByteRange(start, start + self.data_length)

    @property
    def footer_range(self) -> ByteRange:
        """The (compressed) stripe footer."""
        start = self.offset + self.index_length + self.data_length
        return ByteRange(start, start + self.footer_length)

    @property
    def range(self) -> ByteRange:
        """The whole stripe."""
        return ByteRange(self.offset, self.footer_range.stop)


@dataclass(frozen=True, slots=True)
class StreamInformation:
    """A stream as a footer lists it. `variant` is the encryption variant's index, None for clear streams."""

    kind: StreamKind
    column: FileColumn
    length: int
    variant: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """How a column is encoded in one stripe; `bloom_encoding` 1 means UTC timestamps (ORC-135)."""

    kind: EncodingKind
    dictionary_size: int = 0
    bloom_encoding: int = 0


@dataclass(frozen=True, slots=True)
class StripeVariant:
    """A variant's part of a stripe footer; `encodings[i]` is that of column ``root + i``."""

    root: FileColumn
    streams: tuple[StreamInformation, ...]
    encodings: tuple[ColumnEncoding, ...]


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The directory of a stripe. `encodings` has one entry for each column id of the schema.

    `streams` are the clear ones and the two placeholders of encryption, in file order.
    """

    streams: tuple[StreamInformation, ...]
    encodings: tuple[ColumnEncoding, ...]
    writer_timezone: str | None = None
    variants: tuple[StripeVariant, ...] = ()


@dataclass(frozen=True, slots=True)
class EncryptionVariant:
    """An encrypted subtree: `key` indexes `Encryption.keys`; the statistics are still encrypted."""

    root: FileColumn
    key: int
    encrypted_key: bytes
    stripe_statistics: tuple[StreamInformation, ...]
    file_statistics: bytes


@dataclass(frozen=True, slots=True)
class DataMask(Mask):
    """How the clear form of some columns was made."""

    columns: tuple[FileColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class Encryption:
    """All that a file says about its encrypted columns."""

    masks: tuple[DataMask, ...]
    keys: tuple[EncryptionKey, ...]
    variants: tuple[EncryptionVariant, ...]
    key_provider: KeyProviderKind


@dataclass(frozen=True, slots=True)
class Footer:
    """The file footer. `row_index_stride` is 0 where there are no indexes; `writer` is the writer's id.

    `header_length` and `content_length` are as written; writers disagree about what they count.
    """

    schema: Schema
    stripes: tuple[StripeInformation, ...]
    row_count: int
    row_index_stride: int
    statistics: StatisticsList
    user_metadata: Mapping[str, bytes]
    writer: int
    software_version: str | None
    calendar: Calendar
    encryption: Encryption | None
    header_length: int
    content_length: int


@dataclass(frozen=True, slots=True)
class StatisticsList:
    """Serialised column statistics by column id, parsed when asked for; may be shorter than the schema."""

    serialized: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.serialized)

    def overlaid(self, columns: Mapping[FileColumn, bytes], unknown: Container[FileColumn]) -> StatisticsList:
        """With those of `columns` in place of what is there, and nothing (b"") of those that are unknown."""
        filled = [b"" if column in unknown else one for column, one in enumerate(self.serialized)]
        if columns:
            filled += [b""] * (max(columns) + 1 - len(filled))
        for column, serialized in columns.items():
            filled[column] = serialized
        return StatisticsList(tuple(filled))

    def get(self, column: int) -> ColumnStatistics | None:
        """The statistics of a column; None where the file has none."""
        if not 0 <= column < len(self.serialized):
            return None
        return parse_statistics(self.serialized[column])


# --- where streams lie -----------------------------------------------------------------------------


def stream_ranges(
    stripe: StripeInformation, footer: StripeFooter
) -> list[tuple[StreamInformation, ByteRange]]:
    """The file range of each stream, clear and encrypted, in file order.

    Streams follow each other without gaps from the stripe's start. The two placeholders of encryption stand
    for the variants' streams of their area, one variant after the other; they have no range of their own.
    """
    placed: list[tuple[StreamInformation, ByteRange]] = []
    start = stripe.offset
    for stream in footer.streams:
        if stream.kind in (StreamKind.ENCRYPTED_INDEX, StreamKind.ENCRYPTED_DATA):
            streams: Iterable[StreamInformation] = (
                part
                for variant in footer.variants
                for part in variant.streams
                if part.kind.is_index is stream.kind.is_index
            )
        else:
            streams = (stream,)
        for part in streams:
            placed.append((part, ByteRange(start, start + part.length)))
            start += part.length
    return placed


# --- what the positions of a row index mean --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamPositions:
    """The part of a row index entry that belongs to one stream: its names begin at number `first`."""

    kind: StreamKind
    first: int
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)


# What follows the place in the stream. Values of fixed width, characters and unbounded varints are no runs.
_PLAIN: tuple[str, ...] = ()
_RUNS = ("values_to_skip",)
_BITS = ("values_to_skip", "bits_to_skip")

_INTEGERS = ((StreamKind.DATA, _RUNS),)
_TEXT = ((StreamKind.DATA, _PLAIN), (StreamKind.LENGTH, _RUNS))
_STREAMS: dict[Kind, tuple[tuple[StreamKind, tuple[str, ...]], ...]] = {
    Kind.BOOLEAN: ((StreamKind.DATA, _BITS),),
    **dict.fromkeys((*INTEGERS, Kind.DATE, Kind.UNION), _INTEGERS),
    **dict.fromkeys(FLOATS, ((StreamKind.DATA, _PLAIN),)),
    **dict.fromkeys((*TEXTS, Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY), _TEXT),
    Kind.DECIMAL: ((StreamKind.DATA, _PLAIN), (StreamKind.SECONDARY, _RUNS)),
    **dict.fromkeys(TIMES, ((StreamKind.DATA, _RUNS), (StreamKind.SECONDARY, _RUNS))),
    **dict.fromkeys((Kind.LIST, Kind.MAP), ((StreamKind.LENGTH, _RUNS),)),
    Kind.STRUCT: (),
}


@cache
def positions_of(
    kind: Kind, encoding: EncodingKind, *, has_present: bool, compressed: bool, decimal64: bool = False
) -> tuple[StreamPositions, ...]:
    """What the positions of a row index entry belong to, in their order.

    `has_present` is whether the stripe footer lists a PRESENT stream for the column: when a writer suppresses
    it (nothing is null), its positions are left out too. `decimal64` is for decimals of at most 18 digits
    in files of version UNSTABLE-PRE-2.0, which have one stream of runs.
    """
    streams = _STREAMS[kind]
    if encoding in (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2) or decimal64:
        # The dictionary itself is read whole; there is nothing to seek in it.
        streams = _INTEGERS
    if has_present:
        streams = ((StreamKind.PRESENT, _BITS), *streams)
    place = ("chunk_offset", "bytes_into_chunk") if compressed else ("stream_offset",)
    result: list[StreamPositions] = []
    first = 0
    for stream, rest in streams:
        result.append(StreamPositions(stream, first, place + rest))
        first += len(place) + len(rest)
    return tuple(result)


def is_decimal64(type_: Type, *, decimal64: bool) -> bool:
    """Whether a decimal is stored as plain integers: short ones, in files of version UNSTABLE-PRE-2.0."""
    return decimal64 and type_.kind is Kind.DECIMAL and 0 < (type_.precision or 0) <= 18
