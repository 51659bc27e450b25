"""Encrypted statistics as a tail has them, and stripes that are given other keys.

Knows the messages of encrypted statistics, and which bytes of a stripe are encrypted how. Must not know key
stores, nor where bytes come from or go. Contract: with one local key, no two calls take one stripe id for
different bytes; to see to that is the caller's part. Specification: "Column Encryption".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orcstream._buffer import Buffer
from orcstream.byterange import ByteRange
from orcstream.codec.compression import Compressor
from orcstream.codec.encryption import StreamCipher, stream_cipher
from orcstream.codec.layout import stream_ranges
from orcstream.codec.metadata_out import frame_metadata
from orcstream.codec.structure import StreamInformation, StreamKind, StripeFooter, StripeInformation
from orcstream.codec.wire import join_field
from orcstream.errors import Unsupported
from orcstream.schema import FileColumn

__all__ = ["Rekeyed", "SealedStatistics", "plan_rekeying", "rekey", "seal_statistics"]

# What is decrypted at a time, to be encrypted again.
_STEP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class SealedStatistics:
    """The statistics of one variant: its streams and their bytes, and those of the file."""

    streams: tuple[StreamInformation, ...]
    data: bytes
    of_file: bytes


def seal_statistics(
    variant: int,
    root: FileColumn,
    of_columns: Sequence[Sequence[bytes]],
    of_file: Sequence[bytes],
    *,
    key: bytes,
    stripe_count: int,
    block_size: int,
    compressor: Compressor | None,
) -> SealedStatistics:
    """Encrypt a variant's statistics: those of each stripe by column, from `root` on, and of the file."""

    def sealed(column: FileColumn, kind: StreamKind, parts: Sequence[bytes]) -> bytes:
        framed = frame_metadata(join_field(1, parts), block_size, compressor)
        # Not the id of any stripe: an earlier footer of the same file took that of a stripe after it.
        return stream_cipher(key, column, kind, stripe_count + 1).apply(framed)

    kind = StreamKind.STRIPE_STATISTICS
    streams: list[StreamInformation] = []
    pieces: list[bytes] = []
    for place, parts in enumerate(of_columns):
        column = FileColumn(root + place)
        pieces.append(sealed(column, kind, parts))
        streams.append(StreamInformation(kind, column, len(pieces[-1]), variant))
    whole = sealed(root, StreamKind.FILE_STATISTICS, of_file) if of_file else b""
    return SealedStatistics(tuple(streams), b"".join(pieces), whole)


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
        first, last = max(one.range.start, place.start), min(one.range.stop, place.stop)
        for start in range(first, last, _STEP_BYTES):
            stop = min(start + _STEP_BYTES, last)
            part = out[start - place.start : stop - place.start]
            offset, plain = start - one.range.start, scratch[: len(part)]
            one.old.apply_into(part, offset, plain)
            one.new.apply_into(plain, offset, part)
    return out
