"""Which encoder a column has, with which streams.

Knows the encoding tables. Must not know what encoders do. Specification: "Column Encodings".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orcstream.codec.crypto.masks import Masking, mask_of
from orcstream.codec.encode._column import ColumnEncoder
from orcstream.codec.encode._fixed import (
    BooleanEncoder,
    ByteColumnEncoder,
    DecimalEncoder,
    FloatEncoder,
    IntegerColumnEncoder,
    TimestampEncoder,
)
from orcstream.codec.encode._forms import FormsEncoder
from orcstream.codec.encode._nested import ListEncoder, StructEncoder, UnionEncoder
from orcstream.codec.encode._texts import BinaryEncoder, TextEncoder
from orcstream.codec.encode.bloom_build import bloom_size
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.metadata.structure import EncodingKind, StreamKind, is_decimal64
from orcstream.codec.streams._encode_rle_v2 import IntEncoder
from orcstream.codec.streams._encode_values import (
    BoolEncoder,
    ByteEncoder,
    Encoder,
    IntEncoderV1,
    RawEncoder,
    Varint128Encoder,
)
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams.compression import Compression
from orcstream.codec.vectors.column import DTYPES
from orcstream.codec.vectors.times import UTC
from orcstream.encryption import Mask
from orcstream.schema.types import TEXTS, TIMES, Kind, Type, decimal_shape


def encoder_of(type_: Type, options: EncodeOptions) -> ColumnEncoder:
    """A new encoder of a column and all columns below it."""
    encrypted = options.encrypted.get(type_.column_id)
    if encrypted is not None:
        masked = _masked(type_, replace(options, blooms={}), encrypted.mask)
        values = encoder_of(type_, replace(options, encrypted={}))
        # Beside a variant, the masked form has no bloom filters.
        return FormsEncoder(
            type_, (masked.encoder, values), (masked.masking, None), (None, encrypted.variant)
        )
    mask = options.masked.get(type_.column_id)
    if mask is not None:
        masked = _masked(type_, options, mask)
        return FormsEncoder(type_, (masked.encoder,), (masked.masking,), (None,))
    return _MAKERS[type_.kind](_Maker(type_, options))


def root_encoder_of(type_: Type, options: EncodeOptions) -> ColumnEncoder:
    """The root of a file without its columns, which are encoded each for itself: rows, none of them null."""
    return _Maker(type_, options).make(ColumnEncoder)


@dataclass(frozen=True, slots=True)
class _Masked:
    encoder: ColumnEncoder
    masking: Masking


def _masked(type_: Type, options: EncodeOptions, mask: Mask) -> _Masked:
    encoder = encoder_of(type_, replace(options, encrypted={}, masked={}))
    return _Masked(encoder, mask_of(type_, mask, options.zone))


class _Maker:
    """Makes the streams of one column."""

    def __init__(self, type_: Type, options: EncodeOptions) -> None:
        self.type = type_
        self.options = options

    def make(
        self, encoder: Callable[..., ColumnEncoder], *streams: tuple[StreamKind, Encoder], **more: Any
    ) -> ColumnEncoder:
        """An encoder with PRESENT and these streams."""
        filter_bytes = hash_count = 0
        share = self.options.blooms.get(self.type.column_id)
        if share is not None and self.options.row_index_stride:
            bits, hash_count = bloom_size(self.options.row_index_stride, share)
            filter_bytes = bits // 8
        return encoder(
            self.type,
            more.pop("encoding", EncodingKind.DIRECT),
            ((StreamKind.PRESENT, BoolEncoder(self._out())), *streams),
            filter_bytes=filter_bytes,
            hash_count=hash_count,
            **more,
        )

    def versioned(
        self, encoder: Callable[..., ColumnEncoder], *streams: tuple[StreamKind, Encoder], **more: Any
    ) -> ColumnEncoder:
        """The same for a column whose integers have run lengths of either version."""
        encoding = EncodingKind.DIRECT if self.options.version_1 else EncodingKind.DIRECT_V2
        return self.make(encoder, *streams, encoding=encoding, **more)

    def integers(
        self, kind: StreamKind = StreamKind.DATA, *, signed: bool = True
    ) -> tuple[StreamKind, Encoder]:
        """A stream of integers, as the file version has them."""
        if self.options.version_1:
            return kind, IntEncoderV1(self._out(), signed=signed)
        return kind, IntEncoder(self._out(), signed=signed, aligned=self.options.aligned)

    def data(self, encoder: Callable[..., Encoder], **more: Any) -> tuple[StreamKind, Encoder]:
        """A stream DATA."""
        return StreamKind.DATA, encoder(self._out(), **more)

    def below(self) -> tuple[ColumnEncoder, ...]:
        """The encoders of the columns below."""
        return tuple(encoder_of(child, self.options) for child in self.type.children)

    def _out(self) -> OutStream:
        compressed = self.options.compression is not Compression.NONE
        return OutStream(compressed=compressed, block_size=self.options.block_size)


def _booleans(maker: _Maker) -> ColumnEncoder:
    return maker.make(BooleanEncoder, maker.data(BoolEncoder))


def _bytes(maker: _Maker) -> ColumnEncoder:
    return maker.make(ByteColumnEncoder, maker.data(ByteEncoder))


def _integers(maker: _Maker) -> ColumnEncoder:
    item_bytes = np.dtype(DTYPES[maker.type.kind]).itemsize
    hybrid = maker.options.hybrid and maker.type.kind is Kind.DATE
    return maker.versioned(IntegerColumnEncoder, maker.integers(), item_bytes=item_bytes, hybrid=hybrid)


def _floats(maker: _Maker) -> ColumnEncoder:
    item_bytes = np.dtype(DTYPES[maker.type.kind]).itemsize
    return maker.make(FloatEncoder, maker.data(RawEncoder, item_bytes=item_bytes), item_bytes=item_bytes)


def _decimals(maker: _Maker) -> ColumnEncoder:
    scale = decimal_shape(maker.type)[1]
    if is_decimal64(maker.type, decimal64=maker.options.decimal64):
        return maker.make(DecimalEncoder, maker.integers(), scale=scale)
    scales = maker.integers(StreamKind.SECONDARY)
    return maker.versioned(DecimalEncoder, maker.data(Varint128Encoder), scales, scale=scale)


def _timestamps(maker: _Maker) -> ColumnEncoder:
    options = maker.options
    return maker.versioned(
        TimestampEncoder,
        maker.integers(),
        maker.integers(StreamKind.SECONDARY, signed=False),
        zone=UTC if maker.type.kind is Kind.TIMESTAMP_INSTANT else options.zone,
        mean_time=options.mean_time,
        hybrid=options.hybrid,
    )


def _binaries(maker: _Maker) -> ColumnEncoder:
    return maker.versioned(
        BinaryEncoder,
        maker.data(RawEncoder, item_bytes=1),
        maker.integers(StreamKind.LENGTH, signed=False),
    )


def _texts(maker: _Maker) -> ColumnEncoder:
    options, type_ = maker.options, maker.type
    return maker.versioned(
        TextEncoder,
        maker.data(RawEncoder, item_bytes=1),
        maker.integers(StreamKind.LENGTH, signed=False),
        maker.integers(signed=False),
        dictionary_encoding=EncodingKind.DICTIONARY if options.version_1 else EncodingKind.DICTIONARY_V2,
        threshold=options.dictionary_threshold,
        pad_to=type_.max_length or 0 if type_.kind is Kind.CHAR else 0,
    )


def _lists(maker: _Maker) -> ColumnEncoder:
    lengths = maker.integers(StreamKind.LENGTH, signed=False)
    return maker.versioned(ListEncoder, lengths, children=maker.below())


def _structs(maker: _Maker) -> ColumnEncoder:
    return maker.make(StructEncoder, children=maker.below())


def _unions(maker: _Maker) -> ColumnEncoder:
    return maker.make(UnionEncoder, maker.data(ByteEncoder), children=maker.below())


_MAKERS: dict[Kind, Callable[[_Maker], ColumnEncoder]] = {
    Kind.BOOLEAN: _booleans,
    Kind.BYTE: _bytes,
    **dict.fromkeys((Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE), _integers),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _floats),
    **dict.fromkeys(TEXTS, _texts),
    **dict.fromkeys((Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY), _binaries),
    **dict.fromkeys(TIMES, _timestamps),
    Kind.DECIMAL: _decimals,
    **dict.fromkeys((Kind.LIST, Kind.MAP), _lists),
    Kind.STRUCT: _structs,
    Kind.UNION: _unions,
}
