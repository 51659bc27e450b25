"""Protobuf bytes of a file to frozen, checked values: parse, then trust.

Knows the wire form of postscript, file footer and stripe footers, and what a hostile file may claim in them.
With `codec.metadata.indexes`, which has statistics and indexes, and `codec.metadata.write`, their
counterpart, the only modules that import the generated messages; nothing below or above them sees a
protobuf. Must not know compression (callers hand in decompressed bytes, at most `MESSAGE_CAP_BYTES` of
them unless said otherwise: a parsed message takes up to 50 times its bytes) nor which ranges to read.

Contract: any bytes in, only `FormatError` or `Unsupported` out. Ids are within the schema, lengths within
the file, counts agree with each other. Numbers of enums that a later format may add stay harmless where
they can (see `StreamKind.UNKNOWN`). Specification: "File Tail", "Stripe Footer".
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata.structure import (
    Calendar,
    ColumnEncoding,
    DataMask,
    EncodingKind,
    Encryption,
    EncryptionVariant,
    Footer,
    Postscript,
    StatisticsList,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    StripeVariant,
)
from orcstream.codec.metadata.wire import (
    AT_ONCE_BYTES,
    Room,
    check_footer_parts,
    check_paths,
    check_stripe_footer_parts,
    foreign,
    split_each,
    split_field,
)
from orcstream.codec.streams.compression import Compression
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind
from orcstream.errors import CorruptStripe, CorruptTail, FormatError, NotOrcFile, Unsupported
from orcstream.schema.schema import Schema
from orcstream.schema.types import (
    CHILD_COUNTS,
    DEFAULT_CRS,
    EDGE_ALGORITHMS,
    MAX_DEPTH,
    MAX_PRECISION,
    FileColumn,
    Kind,
    Type,
)

# What the 23 bits of a chunk header can say; ORC Java refuses more too.
MAX_BLOCK_SIZE = 1 << 23
_DEFAULT_BLOCK_SIZE = 256 << 10
_MAX_LENGTH = (1 << 63) - 1
# Three bytes of an IV. (Column ids have three as well; a footer under the cap cannot list more types.)
_MAX_STRIPE_ID = 0xFFFFFF
_PLACEHOLDERS = (StreamKind.ENCRYPTED_INDEX, StreamKind.ENCRYPTED_DATA)
_TAIL_ONLY = (StreamKind.STRIPE_STATISTICS, StreamKind.FILE_STATISTICS)
# Each variant is a request to a key store, and each of its columns counts once more.
_MAX_VARIANT_COLUMNS = 1 << 18
_Enum = TypeVar("_Enum", bound=enum.IntEnum)


def _text(value: object) -> str:
    # protobuf hands out text that is not UTF-8 as bytes, whatever its stubs say.
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not UTF-8")  # noqa: TRY004  # of a type by its content
    return value


def _note(value: str | bytes) -> str:
    """Text that says nothing about the data: not worth refusing a file for."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _known(cls: type[_Enum], number: int, unknown: _Enum) -> _Enum:
    try:
        return cls(number)
    except ValueError:
        return unknown


def parse_postscript(data: bytes) -> Postscript:
    """The postscript from its bytes, without the length byte behind it."""
    with foreign(NotOrcFile, "postscript"):
        message = pb.PostScript.FromString(data)
        magic = message.magic if message.HasField("magic") else None
    if magic not in (None, "ORC"):
        raise NotOrcFile(f"the postscript's magic is {magic!r} and not 'ORC'")
    if len(message.version) == 1:
        # Meta's fork keeps the magic, but has its writer version where ORC has a pair.
        raise Unsupported("the file is DWRF, Meta's fork of ORC", reason="dwrf")
    lengths = (message.footer_length, message.metadata_length, message.stripe_statistics_length)
    if max(lengths) > _MAX_LENGTH:
        raise CorruptTail(f"the postscript claims lengths beyond 2^63: {lengths}")
    try:
        compression = Compression(message.compression)
    except ValueError:
        raise Unsupported(
            f"unknown compression kind {message.compression}", reason="unknown_compression"
        ) from None
    block_size = message.compression_block_size if message.HasField("compression_block_size") else None
    if compression is Compression.NONE or block_size is None:
        block_size = _DEFAULT_BLOCK_SIZE  # what an uncompressed file says here means nothing
    elif not 0 < block_size <= MAX_BLOCK_SIZE:
        raise CorruptTail(f"a compression block size of {block_size} bytes, not 1 to {MAX_BLOCK_SIZE}")
    return Postscript(
        length=len(data),
        footer_length=message.footer_length,
        compression=compression,
        compression_block_size=block_size,
        version=(message.version[0], message.version[1]) if message.version else (0, 11),
        metadata_length=message.metadata_length,
        writer_version=message.writer_version,
        stripe_statistics_length=message.stripe_statistics_length,
        has_magic=magic is not None,
    )


# --- file footer -----------------------------------------------------------------------------------


def parse_footer(data: bytes, postscript: Postscript, file_length: int) -> Footer:
    """The file footer from its decompressed bytes."""
    with foreign(CorruptTail, "file footer"):
        check_footer_parts(data, file_length)
        message = pb.FooterView.FromString(data)
        schema = Schema(_root(message.types))
        if len(data) > AT_ONCE_BYTES:
            check_paths(schema.root, file_length)
        encryption = None
        if message.HasField("encryption"):
            encryption = _encryption(message.encryption, schema, postscript)
        stripes = _stripes(message.stripes, file_length - postscript.tail_bytes, encryption)
        row_count = stripes[-1].first_row + stripes[-1].row_count if stripes else 0
        if message.HasField("number_of_rows") and message.number_of_rows != row_count:
            raise CorruptTail(f"the footer counts {message.number_of_rows} rows, its stripes {row_count}")
        try:
            calendar = Calendar(message.calendar)
        except ValueError:
            raise Unsupported(f"unknown calendar {message.calendar}", reason="unknown_calendar") from None
        return Footer(
            schema=schema,
            stripes=stripes,
            row_count=row_count,
            row_index_stride=message.row_index_stride,
            statistics=StatisticsList(tuple(message.statistics)),
            user_metadata={_note(item.name): item.value for item in message.metadata},
            writer=message.writer,
            software_version=_note(message.software_version)
            if message.HasField("software_version")
            else None,
            calendar=calendar,
            encryption=encryption,
            header_length=message.header_length,
            content_length=message.content_length,
        )


def _root(messages: Sequence[pb.Type]) -> Type:
    """The type tree: ids must be those of a pre-order walk, each type reached exactly once."""
    count = len(messages)
    if not count:
        raise CorruptTail("the footer has no types")
    last = _subtree_ends([message.subtypes for message in messages])
    done: list[Type] = []  # the types right of the one in hand, those nearest to it last
    for column in range(count - 1, -1, -1):
        message = messages[column]
        children = tuple(done.pop() for _ in message.subtypes)
        done.append(_type(message, children, FileColumn(column), FileColumn(last[column])))
    return done[0]


def _subtree_ends(subtypes: list[list[int]]) -> list[int]:
    """Checks the numbering of the whole tree; answers the largest id within each subtree."""
    last = list(range(len(subtypes)))
    expected = 1  # the id that the walk comes to next
    path: list[tuple[int, Iterator[int]]] = [(0, iter(subtypes[0]))]
    while path:
        column, children = path[-1]
        child = next(children, None)
        if child is None:
            last[column] = expected - 1
            path.pop()
            continue
        if child != expected or child >= len(subtypes):
            raise CorruptTail(
                f"type {column} lists {child} as subtype where pre-order numbering has {expected}",
                column=column,
            )
        expected += 1
        if len(path) >= MAX_DEPTH:
            raise Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", reason="schema_too_deep")
        path.append((child, iter(subtypes[child])))
    if expected != len(subtypes):
        raise CorruptTail(f"of {len(subtypes)} types only {expected} belong to the root")
    return last


def _type(message: pb.Type, children: tuple[Type, ...], column: FileColumn, last: FileColumn) -> Type:
    try:
        kind = Kind(message.kind)
    except ValueError:
        raise Unsupported(f"unknown type kind {message.kind}", reason="unknown_type", column=column) from None
    names = tuple(map(_text, message.field_names)) if kind is Kind.STRUCT else ()
    least, most = CHILD_COUNTS.get(kind, (0, 0))
    if kind is Kind.STRUCT and len(names) != len(children):
        raise CorruptTail(f"a struct of {len(children)} children with {len(names)} names", column=column)
    if kind is not Kind.STRUCT and not least <= len(children) <= most:
        raise CorruptTail(f"a {kind.name} type with {len(children)} children", column=column)
    max_length = precision = scale = None
    if kind in (Kind.CHAR, Kind.VARCHAR):
        max_length = message.maximum_length or None
    if kind is Kind.DECIMAL and message.precision:
        # Without a precision (files of Hive 0.11 and 0.12) neither number says anything.
        precision, scale = message.precision, message.scale
        if precision > MAX_PRECISION or scale > precision:
            raise CorruptTail(f"a decimal of precision {precision} and scale {scale}", column=column)
    crs = algorithm = None
    if kind in (Kind.GEOMETRY, Kind.GEOGRAPHY):
        crs = _text(message.crs) if message.HasField("crs") else DEFAULT_CRS
    if kind is Kind.GEOGRAPHY:
        if message.algorithm >= len(EDGE_ALGORITHMS):
            raise Unsupported(
                f"unknown edge interpolation {message.algorithm}", reason="unknown_algorithm", column=column
            )
        algorithm = EDGE_ALGORITHMS[message.algorithm]
    attributes = tuple((_text(pair.key), _text(pair.value)) for pair in message.attributes)
    return Type(kind, children, names, max_length, precision, scale, attributes, crs, algorithm, column, last)


def _stripes(
    messages: Sequence[pb.StripeInformation], body_stop: int, encryption: Encryption | None
) -> tuple[StripeInformation, ...]:
    """The stripes, with what encryption lets them inherit; none may leave the body or overlap another."""
    stripes: list[StripeInformation] = []
    variants = encryption.variants if encryption is not None else ()
    if variants and len(messages) >= _MAX_STRIPE_ID:
        raise CorruptTail(f"{len(messages)} stripes, and no counter for the encrypted statistics of so many")
    first_row = 0
    stripe_id, keys = 0, tuple[bytes, ...]()
    for index, message in enumerate(messages):
        lengths = message.index_length, message.data_length, message.footer_length
        stop = message.offset + sum(lengths)
        if stop > body_stop:
            raise CorruptTail(
                f"the stripe ends at byte {stop}, the stripes of this file at {body_stop}", stripe=index
            )
        if message.number_of_rows > _MAX_LENGTH - first_row:
            raise CorruptTail(f"a stripe of {message.number_of_rows} rows", stripe=index)
        if variants:
            stripe_id = message.encrypt_stripe_id if message.HasField("encrypt_stripe_id") else stripe_id + 1
            keys = tuple(message.encrypted_local_keys) or keys
            if not 0 < stripe_id <= _MAX_STRIPE_ID:
                raise CorruptTail(f"the encryption stripe id is {stripe_id}", stripe=index)
            if len(keys) != len(variants):
                raise CorruptTail(f"{len(keys)} local keys for {len(variants)} variants", stripe=index)
        own_id = stripe_id if variants else None
        stripe = StripeInformation(
            index, message.offset, *lengths, message.number_of_rows, first_row, own_id, keys
        )
        stripes.append(stripe)
        first_row += message.number_of_rows
    _check_no_overlap(stripes)
    return tuple(stripes)


def _encryption(message: pb.Encryption, schema: Schema, postscript: Postscript) -> Encryption:
    variants: list[EncryptionVariant] = []
    for index, variant in enumerate(message.variants):
        if variant.root >= schema.column_count:
            raise CorruptTail(f"encryption variant {index} is of column {variant.root}, which does not exist")
        if variant.key >= len(message.key):
            raise CorruptTail(f"encryption variant {index} has key {variant.key} of {len(message.key)}")
        root = schema.types[variant.root]
        streams = tuple(_stream(stream, index) for stream in variant.stripe_statistics)
        for stream in streams:
            if stream.column not in root.column_ids:
                raise CorruptTail(f"encryption variant {index} has statistics of column {stream.column}")
        variants.append(
            EncryptionVariant(
                root.column_id, variant.key, variant.encrypted_key, streams, variant.file_statistics
            )
        )
    check_variants(variants, schema)
    claimed = sum(stream.length for variant in variants for stream in variant.stripe_statistics)
    if claimed > postscript.stripe_statistics_length:
        raise CorruptTail(
            f"encrypted stripe statistics of {claimed} bytes in {postscript.stripe_statistics_length}"
        )
    masks: list[DataMask] = []
    for mask in message.mask:
        if any(column >= schema.column_count for column in mask.columns):
            raise CorruptTail(f"the mask {mask.name!r} is for columns that do not exist")
        columns = tuple(FileColumn(column) for column in mask.columns)
        masks.append(DataMask(_note(mask.name), tuple(map(_note, mask.mask_parameters)), columns))
    keys = tuple(
        EncryptionKey(
            _text(key.key_name),
            key.key_version,
            _known(EncryptionAlgorithm, key.algorithm, EncryptionAlgorithm.UNKNOWN),
        )
        for key in message.key
    )
    provider = _known(KeyProviderKind, message.key_provider, KeyProviderKind.UNKNOWN)
    return Encryption(tuple(masks), keys, tuple(variants), provider)


# --- stripe footer ---------------------------------------------------------------------------------


def parse_stripe_footer(
    data: bytes, stripe: StripeInformation, schema: Schema, encryption: Encryption | None = None
) -> StripeFooter:
    """A stripe footer from its decompressed bytes."""
    try:
        with foreign(CorruptStripe, "stripe footer"):
            check_stripe_footer_parts(data, schema.column_count + _variant_columns(schema, encryption))
            message = pb.StripeFooter.FromString(data)
            footer = StripeFooter(
                streams=tuple(_stream(stream, None) for stream in message.streams),
                encodings=_encodings(message.columns, schema.types),
                writer_timezone=_text(message.writer_timezone) or None,
                variants=_stripe_variants(message, schema, encryption),
            )
        _check_stripe_footer(footer, stripe, schema)
    except FormatError as error:
        error.locate(stripe=stripe.index, file_offset=stripe.footer_range.start)
        raise
    return footer


def measure_stripe_footer(data: bytes, stripe: StripeInformation, schema: Schema) -> None:
    """Check the lengths that a stripe footer claims, without parsing all of it: a copy needs no more.

    For a file without encryption, where the streams of the footer are all there are.
    """
    with foreign(CorruptStripe, "stripe footer"):
        check_stripe_footer_parts(data, schema.column_count)
        message = pb.StripeFooter.FromString(data)
    claimed = sum([stream.length for stream in message.streams])
    _check_stripe_lengths(claimed, len(message.columns), stripe, schema)


def _variant_columns(schema: Schema, encryption: Encryption | None) -> int:
    """How many columns the variants of a file have."""
    variants = encryption.variants if encryption is not None else ()
    return sum(len(schema.types[one.root].column_ids) for one in variants)


def _stream(message: pb.Stream, variant: int | None) -> StreamInformation:
    # Streams follow each other without gaps, so one of an unknown kind must keep its length.
    kind = _known(StreamKind, message.kind, StreamKind.UNKNOWN)
    return StreamInformation(kind, FileColumn(message.column), message.length, variant)


def _encodings(messages: Sequence[pb.ColumnEncoding], types: Sequence[Type]) -> tuple[ColumnEncoding, ...]:
    """The encodings of as many columns; that there is one for each type is checked with the footer."""
    encodings: list[ColumnEncoding] = []
    for message, type_ in zip_longest(messages, types[: len(messages)]):
        if message.dictionary_size > 0x7FFFFFFF:  # an int in Java, where a negative one crashed readers
            raise CorruptStripe(f"a dictionary of {message.dictionary_size} entries")
        kind = _known(EncodingKind, message.kind, EncodingKind.UNKNOWN)
        if kind is EncodingKind.UNKNOWN and type_ is not None and type_.kind is Kind.STRUCT:
            kind = EncodingKind.DIRECT  # cuDF writes -1; a struct has nothing that is encoded
        encodings.append(ColumnEncoding(kind, message.dictionary_size, message.bloom_encoding))
    return tuple(encodings)


def _stripe_variants(
    message: pb.StripeFooter, schema: Schema, encryption: Encryption | None
) -> tuple[StripeVariant, ...]:
    variants = encryption.variants if encryption is not None else ()
    if len(message.encryption) != len(variants):
        raise CorruptStripe(f"{len(message.encryption)} encryption variants, the file has {len(variants)}")
    return tuple(
        StripeVariant(
            variant.root,
            tuple(_stream(stream, index) for stream in part.streams),
            _encodings(part.encoding, schema.types[variant.root : variant.root + len(part.encoding)]),
        )
        for index, (variant, part) in enumerate(zip(variants, message.encryption, strict=True))
    )


# --- what values must hold among each other, beyond what one field can say ---------------------------


def _check_no_overlap(stripes: Sequence[StripeInformation]) -> None:
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


def _check_stripe_lengths(
    claimed: int, encoding_count: int, stripe: StripeInformation, schema: Schema
) -> None:
    """Whether streams of so many bytes fit into the stripe, and each column has an encoding."""
    if encoding_count != schema.column_count:
        raise CorruptStripe(f"{encoding_count} encodings for {schema.column_count} columns")
    room = stripe.index_length + stripe.data_length
    if claimed > room:
        raise CorruptStripe(f"streams of {claimed} bytes in a stripe body of {room}")


def _check_stripe_footer(footer: StripeFooter, stripe: StripeInformation, schema: Schema) -> None:
    """Whether the streams fit into the stripe and belong to columns that exist."""
    claimed = sum(stream.length for stream in footer.streams)
    _check_stripe_lengths(claimed, len(footer.encodings), stripe, schema)
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


def parse_metadata(
    data: bytes, stripe_count: int, column_count: int, room: Room
) -> tuple[StatisticsList, ...]:
    """Statistics by stripe from the decompressed file metadata; may be of fewer stripes than there are.

    The bytes are only cut up here, so they may be far longer than other messages.
    """
    stripes = split_field(memoryview(data), 1, stripe_count, "file metadata")
    return tuple(map(StatisticsList, split_each(stripes, 1, column_count, "stripe statistics", room)))
