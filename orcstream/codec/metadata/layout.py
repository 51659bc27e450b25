"""Where streams lie within a stripe, and what the numbers of a row index entry mean.

Knows the order of streams in a stripe and the order of positions by type and encoding. Must not know bytes
of streams nor what is worth reading. Contract: pure functions of checked values; the ranges they answer
lie within the stripe. Specification: "Stripes", "Stream Encryption", "Row Group Index" and the tables of
"Column Encodings", whose order of streams is the order of positions, whatever the order in the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.structure import (
    EncodingKind,
    StreamInformation,
    StreamKind,
    StripeFooter,
    StripeInformation,
)
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, Kind, Type


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
