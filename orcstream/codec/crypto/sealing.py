"""What a tail says of encryption, and stripes that are given other keys.

Knows the messages of encrypted statistics, and which bytes of a stripe are encrypted how. Must not know key
stores, nor where bytes come from or go. Contract: with one local key, no two calls take one stripe id for
different bytes; to see to that is the caller's part. Specification: "Column Encryption".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orcstream._buffer import Buffer
from orcstream.byterange import ByteRange
from orcstream.codec.crypto.streams import StreamCipher, stream_cipher
from orcstream.codec.metadata.structure import (
    DataMask,
    Encryption,
    EncryptionVariant,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
    stream_ranges,
)
from orcstream.codec.metadata.write import frame_metadata, join_field
from orcstream.codec.streams.compression import Compressor
from orcstream.encryption import FileKeys, LocalKey
from orcstream.errors import Unsupported
from orcstream.schema.types import FileColumn

# What is decrypted at a time, to be encrypted again.
_STEP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class VariantStatistics:
    """The statistics of one variant before they are encrypted, serialized.

    `of_columns` has those of each column by stripe, from `root` on; `of_file` has one for each column, or
    nothing where they are not known.
    """

    root: FileColumn
    of_columns: Sequence[Sequence[bytes]]
    of_file: Sequence[bytes]


def seal(
    masks: tuple[DataMask, ...],
    keys: FileKeys,
    variants: Iterable[VariantStatistics],
    *,
    stripe_count: int,
    block_size: int,
    compressor: Compressor | None,
) -> tuple[Encryption, bytes]:
    """What a footer says of encryption, and the encrypted statistics of the stripes."""
    master_keys = sorted({key for key, _ in keys.keys}, key=lambda key: (key.name, key.version))
    sealed: list[EncryptionVariant] = []
    pieces: list[bytes] = []

    def encrypted(local: LocalKey, column: FileColumn, kind: StreamKind, parts: Sequence[bytes]) -> bytes:
        framed = frame_metadata(join_field(1, parts), block_size, compressor)
        # Not the id of any stripe: an earlier footer of the same file took that of a stripe after it.
        return stream_cipher(local.key, column, kind, stripe_count + 1).apply(framed)

    for index, ((key, local), variant) in enumerate(zip(keys.keys, variants, strict=True)):
        streams: list[StreamInformation] = []
        for place, parts in enumerate(variant.of_columns):
            column, kind = FileColumn(variant.root + place), StreamKind.STRIPE_STATISTICS
            pieces.append(encrypted(local, column, kind, parts))
            streams.append(StreamInformation(kind, column, len(pieces[-1]), index))
        of_file = b""
        if variant.of_file:
            of_file = encrypted(local, variant.root, StreamKind.FILE_STATISTICS, variant.of_file)
        key_index = master_keys.index(key)
        sealed.append(EncryptionVariant(variant.root, key_index, local.encrypted, tuple(streams), of_file))
    return Encryption(masks, tuple(master_keys), tuple(sealed), keys.provider), b"".join(pieces)


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """An encrypted stream on its way to another key; `range` is where it lies in the file that it is from."""

    range: ByteRange
    old: StreamCipher
    new: StreamCipher


def plan_rekeying(
    stripe: StripeInformation,
    footer: StripeFooter,
    old_keys: Mapping[int, bytes],
    new_keys: Mapping[int, bytes],
    new_stripe_id: int,
) -> list[Rekeyed]:
    """The encrypted streams of a stripe, ascending; keys are local ones, by variant.

    Raises Unsupported for streams of a later format, whose counters are not known.
    """
    found: list[Rekeyed] = []
    for stream, range_ in stream_ranges(stripe, footer):
        if stream.variant is not None and range_.length:
            if stream.kind is StreamKind.UNKNOWN:
                raise Unsupported(
                    "an encrypted stream of a kind that is not known cannot be given another key",
                    reason="unknown_stream",
                    column=stream.column,
                    stripe=stripe.index,
                )
            old = stream_cipher(
                old_keys[stream.variant], stream.column, stream.kind, stripe.encrypt_stripe_id or 1
            )
            new = stream_cipher(new_keys[stream.variant], stream.column, stream.kind, new_stripe_id)
            found.append(Rekeyed(range_, old, new))
    return found


def rekey(data: memoryview, place: ByteRange, streams: Sequence[Rekeyed]) -> memoryview:
    """The bytes of `place` with what is encrypted of them under the new keys; lengths stay."""
    inside = [one for one in streams if one.range.start < place.stop and place.start < one.range.stop]
    if not inside:
        return data
    out = memoryview(Buffer(len(data)))  # of the memory that earlier pieces gave back
    out[:] = data
    scratch = memoryview(Buffer(_STEP_BYTES))
    for one in inside:
        old, new = one.old.keystream(), one.new.keystream()
        first, last = max(one.range.start, place.start), min(one.range.stop, place.stop)
        for start in range(first, last, _STEP_BYTES):
            stop = min(start + _STEP_BYTES, last)
            part = out[start - place.start : stop - place.start]
            offset, plain = start - one.range.start, scratch[: len(part)]
            old.apply(part, offset, plain)
            new.apply(plain, offset, part)
    return out
