"""Frozen values to the protobuf bytes of a file: the counterpart of `codec.metadata`.

Knows the wire form of postscript, file footer, file metadata, stripe footers, row indexes and bloom
filters. Must not know compression beyond the framing of a tail, nor where the numbers come from. Contract:
pure and deterministic; ``parse_x(serialize_x(value)) == value`` for values that a file can hold, and
ValueError for others. Specification: "File Tail", "Stripe Footer", "Row Group Index", "Bloom Filter Index".

What our files say of their writer. Numbers of writers are given out by the ORC project and we have none, so
the choice is between an unknown one and that of ORC Java (0). With an unknown one, ORC Java takes the
writer version to be FUTURE: it believes statistics and filters, but `OrcFile.mergeFiles` (Hive's
CONCATENATE) refuses the file (`understandFormat`), and a number that is given to somebody else later brings
us their faults. ORC C++ and Trino look at the version of the postscript only (Trino: is it at least 1; C++:
does it come after HIVE-8732), but that C++ distrusts filters of number 1 without a known release. Readers
from before ORC-202 know no writers at all and take the version for ORC Java's. So files say 0, with the
version whose promises they keep: 9 (ORC-14), which is 8 (bounds of long texts), 7 (decimals), 6 (timestamps
in UTC), 5 (UTF-8 in filters) and so on. The software version says who it was in truth; no reader decides
anything by it for writer 0. In return whatever ORC Java 9 is believed must be true of our files: CHAR
padded in statistics and filters, the second before 1970 as it writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata.bloom import BloomIndex
from orcstream.codec.metadata.indexes import CHILD_COUNTS, STATISTICS_PARTS, RowIndex
from orcstream.codec.metadata.structure import (
    Calendar,
    ColumnEncoding,
    EncodingKind,
    Encryption,
    Footer,
    Postscript,
    StatisticsList,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
)
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams.compression import Compression, Compressor
from orcstream.schema.column_statistics import BoundingBox, ColumnStatistics, StatisticsKind
from orcstream.schema.types import EDGE_ALGORITHMS, INT64, Kind, Type

WRITER = 0
WRITER_VERSION = 9
FILE_VERSION = (0, 12)
_MS = 1_000_000  # nanoseconds of a millisecond
_MAX_POSTSCRIPT_BYTES = 255
# The wire type of what has a length.
_BYTES = 2


# --- statistics ------------------------------------------------------------------------------------


def serialize_statistics(statistics: ColumnStatistics) -> bytes:
    """One column's statistics."""
    message = pb.ColumnStatistics()
    _put(message, number_of_values=statistics.value_count)
    _copy(message, statistics, "has_null", "bytes_on_disk")
    if statistics.kind is not None:
        name, fields = STATISTICS_PARTS[statistics.kind]
        part = getattr(message, name)
        part.SetInParent()
        if statistics.kind in _PARTS:
            _PARTS[statistics.kind](part, statistics)
        else:
            _copy(part, statistics, *fields)
    _copy(message.collection_statistics, statistics, *CHILD_COUNTS)
    if statistics.bounding_box is not None:
        box: Any = message.geospatial_statistics.bbox
        box.SetInParent()
        _copy(box, statistics.bounding_box, *BoundingBox.__slots__)
    if statistics.geospatial_types:  # an empty list would make the part present
        message.geospatial_statistics.geospatial_types.extend(statistics.geospatial_types)
    return _bytes(message)


def statistics_list(statistics: Iterable[ColumnStatistics]) -> StatisticsList:
    """Statistics by column id in the form in which footers hold them."""
    return StatisticsList(tuple(map(serialize_statistics, statistics)))


def _bytes(message: pb.Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _put(message: Any, **fields: Any) -> None:
    """Sets the fields that are not None."""
    for name, value in fields.items():
        if value is not None:
            setattr(message, name, value)


def _copy(message: Any, value: object, *names: str) -> None:
    """Sets the fields of these names to what the attributes of the same names are, but for None."""
    _put(message, **{name: getattr(value, name) for name in names})


def _booleans(part: Any, s: ColumnStatistics) -> None:
    if s.sum is not None:
        part.count.append(int(s.sum))


def _decimals(part: Any, s: ColumnStatistics) -> None:
    _put(part, **{name: _decimal_text(getattr(s, name)) for name in ("minimum", "maximum", "sum")})


def _decimal_text(value: object) -> str | None:
    """As Hive prints decimals: without an exponent, without zeros behind the last digit that counts."""
    if not isinstance(value, Decimal):
        return None
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _times(part: Any, s: ColumnStatistics) -> None:
    _put(part, minimum=s.local_minimum_ms, maximum=s.local_maximum_ms)
    # Without nanoseconds a bound is as wide as its millisecond, so those at its ends are left out.
    for name, absent in (("minimum", 0), ("maximum", _MS - 1)):
        bound = getattr(s, name)
        if bound is None or bound // _MS not in INT64:
            continue
        milliseconds, below = divmod(bound, _MS)
        _put(part, **{f"{name}_utc": milliseconds, f"{name}_nanos": None if below == absent else below + 1})


# Those whose fields have other names or values than the attributes.
_PARTS: dict[StatisticsKind, Callable[[Any, ColumnStatistics], None]] = {
    "boolean": _booleans,
    "decimal": _decimals,
    "timestamp": _times,
}


def serialize_metadata(stripes: Iterable[StatisticsList]) -> bytes:
    """The file metadata: the statistics of each stripe, by column id."""
    return join_field(1, (join_field(1, stripe.serialized) for stripe in stripes))


# --- indexes ---------------------------------------------------------------------------------------


def serialize_row_index(index: RowIndex) -> bytes:
    """The row index of one column."""
    message = pb.RowIndexView()
    for group, statistics in enumerate(index.serialized_statistics):
        entry = message.entry.add()
        entry.positions.extend(index.entry(group).tolist())
        if statistics:
            entry.statistics = statistics
    return _bytes(message)


def serialize_bloom_index(index: BloomIndex) -> bytes:
    """The bloom filters of one column, in the form of the stream that `index.utf8` names.

    A filter that is None becomes one without bits, which proves nothing.
    """
    message = pb.BloomFilterIndex()
    for bloom in index.filters:
        part = message.bloom_filter.add()
        if bloom is None:
            continue
        part.num_hash_functions = bloom.hash_count
        if index.utf8:
            part.utf8bitset = bloom.bits
        else:
            part.bitset.extend(np.frombuffer(bloom.bits, "<u8").tolist())
    return _bytes(message)


# --- stripe footer ---------------------------------------------------------------------------------


def serialize_stripe_footer(footer: StripeFooter) -> bytes:
    """The directory of one stripe."""
    message = pb.StripeFooter()
    _add_streams(message.streams, footer.streams)
    _add_encodings(message.columns, footer.encodings)
    _put(message, writer_timezone=footer.writer_timezone)
    for variant in footer.variants:
        part = message.encryption.add()
        _add_streams(part.streams, variant.streams)
        _add_encodings(part.encoding, variant.encodings)
    return _bytes(message)


def _add_streams(messages: Any, streams: Sequence[StreamInformation]) -> None:
    for stream in streams:
        if stream.kind is StreamKind.UNKNOWN:
            raise ValueError("a stream of an unknown kind")
        messages.add(kind=int(stream.kind), column=stream.column, length=stream.length)


def _add_encodings(messages: Any, encodings: Sequence[ColumnEncoding]) -> None:
    for encoding in encodings:
        if encoding.kind is EncodingKind.UNKNOWN:
            raise ValueError("a column of an unknown encoding")
        part = messages.add(kind=int(encoding.kind))
        if encoding.kind in (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2):
            part.dictionary_size = encoding.dictionary_size
        if encoding.bloom_encoding:
            part.bloom_encoding = encoding.bloom_encoding


# --- file tail -------------------------------------------------------------------------------------


def serialize_footer(footer: Footer) -> bytes:
    """The file footer. `stripes` and `row_count` must agree, or nobody will read the file."""
    if footer.row_count != sum(stripe.row_count for stripe in footer.stripes):
        raise ValueError(f"{footer.row_count} rows, which are not those of the stripes")
    message = pb.FooterView(number_of_rows=footer.row_count)
    _copy(
        message, footer, "header_length", "content_length", "row_index_stride", "writer", "software_version"
    )
    _add_stripes(message.stripes, footer.stripes)
    for type_ in footer.schema.types:
        _add_type(message.types, type_)
    for name, value in footer.user_metadata.items():
        message.metadata.add(name=name, value=value)
    message.statistics.extend(footer.statistics.serialized)
    if footer.encryption is not None:
        _put_encryption(message.encryption, footer.encryption)
    if footer.calendar is not Calendar.UNKNOWN:
        message.calendar = int(footer.calendar)
    return _bytes(message)


def _add_stripes(messages: Any, stripes: Sequence[StripeInformation]) -> None:
    last_id, keys = 0, tuple[bytes, ...]()
    for stripe in stripes:
        part = messages.add(number_of_rows=stripe.row_count)
        _copy(part, stripe, "offset", "index_length", "data_length", "footer_length")
        if stripe.encrypt_stripe_id is None:
            continue
        # ORC Java gives the first stripe its number, the others inherit.
        if stripe.encrypt_stripe_id != last_id + 1 or stripe.index == 0:
            part.encrypt_stripe_id = stripe.encrypt_stripe_id
        if stripe.encrypted_local_keys != keys:
            part.encrypted_local_keys.extend(stripe.encrypted_local_keys)
        last_id, keys = stripe.encrypt_stripe_id, stripe.encrypted_local_keys


def _add_type(messages: Any, type_: Type) -> None:
    message = messages.add(
        kind=int(type_.kind),
        subtypes=[child.column_id for child in type_.children],
        field_names=type_.field_names,
    )
    _put(message, maximum_length=type_.max_length, crs=type_.crs)
    if type_.precision is not None:
        _put(message, precision=type_.precision, scale=type_.scale or 0)
    for key, value in type_.attributes:
        message.attributes.add(key=key, value=value)
    if type_.kind is Kind.GEOGRAPHY and type_.algorithm is not None:
        message.algorithm = EDGE_ALGORITHMS.index(type_.algorithm)


def _put_encryption(message: Any, encryption: Encryption) -> None:
    message.SetInParent()
    for mask in encryption.masks:
        message.mask.add(name=mask.name, mask_parameters=mask.parameters, columns=mask.columns)
    for key in encryption.keys:
        message.key.add(key_name=key.name, key_version=key.version, algorithm=int(key.algorithm))
    for variant in encryption.variants:
        part = message.variants.add()
        _copy(part, variant, "root", "key", "encrypted_key", "file_statistics")
        _add_streams(part.stripe_statistics, variant.stripe_statistics)
    message.key_provider = int(encryption.key_provider)


def serialize_postscript(postscript: Postscript) -> bytes:
    """The postscript, without the length byte that follows it. Its `length` is not said but comes out."""
    message = pb.PostScript(compression=int(postscript.compression), version=postscript.version)
    _copy(message, postscript, "footer_length", "metadata_length", "writer_version")
    if postscript.compression is not Compression.NONE:
        message.compression_block_size = postscript.compression_block_size
    if postscript.stripe_statistics_length:
        message.stripe_statistics_length = postscript.stripe_statistics_length
    if postscript.has_magic:
        message.magic = "ORC"
    return _bytes(message)


def frame_metadata(data: bytes, block_size: int, compressor: Compressor | None) -> bytes:
    """A footer, metadata section or index stream as chunks of at most `block_size` bytes before compression.

    None stands for a file without compression, which has no chunks.
    """
    if compressor is None:
        return data
    out = OutStream(compressed=True, block_size=block_size)
    out.write(data)
    out.finish(compressor)
    return b"".join(out.drain())


def tail_bytes(
    footer: Footer,
    stripe_statistics: Sequence[StatisticsList],
    *,
    compression: Compression,
    block_size: int,
    compressor: Compressor | None,
    encrypted_statistics: bytes = b"",
    version: tuple[int, int] = FILE_VERSION,
    writer_version: int = WRITER_VERSION,
) -> bytes:
    """All that follows the last stripe: statistics, metadata, footer, postscript and its length.

    `compressor` is one of `compression`, None for none. `encrypted_statistics` are those of all variants as
    they stand in the file, whose streams `footer.encryption` lists.
    """
    if (compression is Compression.NONE) != (compressor is None):
        raise ValueError(f"a tail of compression {compression.name} needs its compressor")
    metadata = frame_metadata(serialize_metadata(stripe_statistics), block_size, compressor)
    body = frame_metadata(serialize_footer(footer), block_size, compressor)
    postscript = serialize_postscript(
        Postscript(
            length=0,
            footer_length=len(body),
            compression=compression,
            compression_block_size=block_size,
            version=version,
            metadata_length=len(metadata),
            writer_version=writer_version,
            stripe_statistics_length=len(encrypted_statistics),
            has_magic=True,
        )
    )
    assert len(postscript) <= _MAX_POSTSCRIPT_BYTES
    return encrypted_statistics + metadata + body + postscript + bytes((len(postscript),))


# --- messages that are joined from pieces ----------------------------------------------------------


def join_field(number: int, pieces: Iterable[bytes]) -> bytes:
    """A message that holds these pieces as its length-delimited field `number` and nothing else."""
    tag = _varint_bytes(number << 3 | _BYTES)
    return b"".join(part for piece in pieces for part in (tag, _varint_bytes(len(piece)), piece))


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
