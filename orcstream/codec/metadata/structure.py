"""The structure of a file as frozen values: postscript, stripes, streams, encodings, encryption.

Knows which facts a tail and a stripe footer hold. Must not know how they were serialised (that is
`codec.metadata`, the only maker of these values from foreign bytes) nor where streams lie
(`codec.metadata.layout`). Contract: offsets, lengths, ids and indices in these values were checked
against each other and against the file's length. Specification: "File Tail", "Stripes", "Column
Encryption".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from orcstream.byterange import ByteRange
from orcstream.codec.streams.compression import Compression
from orcstream.encryption import EncryptionKey, KeyProviderKind, Mask
from orcstream.schema.types import FileColumn


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
