"""From a stripe's footer to its column decoders: the streams of each, and where they lie.

Knows the encoding tables: which streams, in which run length encoding, make up a column of which type.
Must not know how bytes are fetched or fed: each decoder's input streams are listed with their file ranges,
and are empty at first.
Specification: "Column Encodings", "Stripe Footer".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from orcstream.byterange import ByteRange
from orcstream.codec.crypto.forms import PlacedStream, StripeForm
from orcstream.codec.decode._column import ColumnDecoder
from orcstream.codec.decode._fixed import (
    BooleanDecoder,
    DateDecoder,
    DecimalDecoder,
    IntegerDecoder,
    PlainDecoder,
    TimestampDecoder,
)
from orcstream.codec.decode._nested import ListDecoder, StructDecoder, UnionDecoder
from orcstream.codec.decode._texts import DictionaryDecoder, TextDecoder
from orcstream.codec.metadata.structure import ColumnEncoding, EncodingKind, StreamKind, is_decimal64
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams._values import (
    BoolValues,
    ByteValues,
    IntValues,
    RawValues,
    Values,
    Varint128Values,
)
from orcstream.codec.vectors.column import VectorOptions
from orcstream.codec.vectors.times import UTC, Clock
from orcstream.errors import CorruptStripe, Unsupported
from orcstream.schema.types import Kind, Type

_V = TypeVar("_V", bound=Values)

_DIRECT = (EncodingKind.DIRECT, EncodingKind.DIRECT_V2)
_DICTIONARY = (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)
_VERSION_2 = (EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2)
_TEXT = (Kind.STRING, Kind.CHAR, Kind.VARCHAR)
_BYTES = (Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY)


@dataclass(frozen=True, slots=True)
class StripeOptions:
    """How streams of a file are to be understood.

    `hybrid` says that days before 1582-10-15 are Julian ones; `decimal64` that decimals of up to 18
    digits are plain integers (UNSTABLE-PRE-2.0; writers differ in the encoding they name, so that does
    not decide).
    """

    vectors: VectorOptions
    compressed: bool
    block_size: int
    clock: Clock
    hybrid: bool
    decimal64: bool


@dataclass(frozen=True, slots=True)
class StreamCursor:
    """One stream of a column: where it lies in the file, and what its values are read from.

    Those of a dictionary are read whole, whatever rows are wanted.
    """

    type: Type
    kind: StreamKind
    range: ByteRange
    values: Values
    is_dictionary: bool = False

    @property
    def input(self) -> InputStream:
        return self.values.input

    def seek(self, file_offset: int, bytes_to_skip: int, rest: Sequence[int]) -> None:
        """Go on at a position: `rest` are its numbers after the place in the stream."""
        self.values.input.restart(file_offset=file_offset, bytes_to_skip=bytes_to_skip)
        self.values.restart()
        if rest:
            self.values.seek(*rest)


@dataclass(slots=True)
class ColumnStreams:
    """A decoder and the streams it reads (empty ones left out)."""

    decoder: ColumnDecoder
    streams: list[StreamCursor]


# --- columns ---------------------------------------------------------------------------------------


def build_columns(
    types: Sequence[Type],
    form: StripeForm,
    options: StripeOptions,
) -> list[ColumnStreams]:
    """A decoder for each of `types` (subtrees of the file's schema), with the streams it needs.

    Raises `CorruptStripe` for encodings that a type cannot have, `Unsupported` for those of a later format.
    """
    index: dict[tuple[int, StreamKind], PlacedStream] = {}
    for stream in form.streams:
        key = (int(stream.column), stream.kind)
        if not stream.kind.is_index and stream.kind is not StreamKind.UNKNOWN:
            if key in index and stream.range.length:
                raise CorruptStripe(
                    "two streams of one kind", column=stream.column, stream_kind=stream.kind.name
                )
            index[key] = stream
    columns = []
    for type_ in types:
        builder = _Builder(index, form.encodings, options)
        decoder = builder.build(type_)
        columns.append(ColumnStreams(decoder, builder.streams))
    return columns


class _Builder:
    """Makes the decoders of one column and its children, and collects their streams."""

    def __init__(
        self,
        index: Mapping[tuple[int, StreamKind], PlacedStream],
        encodings: Sequence[ColumnEncoding],
        options: StripeOptions,
    ) -> None:
        self._index = index
        self._encodings = encodings
        self._options = options
        self.streams: list[StreamCursor] = []

    def build(self, type_: Type) -> ColumnDecoder:
        encoding = self._encodings[type_.column_id]
        if type_.kind is Kind.STRUCT:
            # Nothing of a struct is encoded; writers were seen to leave rubbish there.
            encoding = ColumnEncoding(EncodingKind.DIRECT)
        if encoding.kind is EncodingKind.UNKNOWN:
            raise Unsupported(
                "a column encoding of a later format", reason="unknown_encoding", column=type_.column_id
            )
        allowed = _DIRECT + _DICTIONARY if type_.kind in _TEXT else _DIRECT
        if encoding.kind not in allowed:
            raise CorruptStripe(f"{type_} cannot be encoded as {encoding.kind.name}", column=type_.column_id)
        present = None
        if (type_.column_id, StreamKind.PRESENT) in self._index:
            present = self._stream(type_, StreamKind.PRESENT, BoolValues)
        return _BUILDERS[type_.kind](self, type_, present, encoding)

    def _stream(
        self, type_: Type, kind: StreamKind, make: Callable[[InputStream], _V], *, is_dictionary: bool = False
    ) -> _V:
        placed = self._index.get((type_.column_id, kind))
        stream = InputStream(
            compressed=self._options.compressed,
            block_size=self._options.block_size,
            column=type_.column_id,
            kind=kind.name,
            file_offset=placed.range.start if placed else 0,
            decrypt=placed.cipher.keystream().apply if placed and placed.cipher else None,
        )
        values = make(stream)
        if placed is not None and placed.range.length:
            self.streams.append(StreamCursor(type_, kind, placed.range, values, is_dictionary))
        else:
            # Writers leave out streams without a value; whoever needs one learns that it ends early.
            stream.feed(b"", last=True)
        return values

    def _integers(
        self,
        type_: Type,
        kind: StreamKind,
        encoding: ColumnEncoding,
        *,
        signed: bool,
        is_dictionary: bool = False,
    ) -> IntValues:
        make = partial(IntValues, signed=signed, version_2=encoding.kind in _VERSION_2)
        return self._stream(type_, kind, make, is_dictionary=is_dictionary)

    def _children(self, type_: Type) -> list[ColumnDecoder]:
        return [self.build(child) for child in type_.children]

    def boolean(self, type_: Type, present: BoolValues | None, _: ColumnEncoding) -> ColumnDecoder:
        values = self._stream(type_, StreamKind.DATA, BoolValues)
        return BooleanDecoder(type_, present, [values], row_bytes=1)

    def byte(self, type_: Type, present: BoolValues | None, _: ColumnEncoding) -> ColumnDecoder:
        values = self._stream(type_, StreamKind.DATA, ByteValues)
        return PlainDecoder(type_, present, [values], row_bytes=1)

    def integer(self, type_: Type, present: BoolValues | None, encoding: ColumnEncoding) -> ColumnDecoder:
        values = self._integers(type_, StreamKind.DATA, encoding, signed=True)
        if type_.kind is Kind.LONG:
            return PlainDecoder(type_, present, [values], row_bytes=8)
        return IntegerDecoder(type_, present, [values], row_bytes=2 if type_.kind is Kind.SHORT else 4)

    def floating(self, type_: Type, present: BoolValues | None, _: ColumnEncoding) -> ColumnDecoder:
        width = 4 if type_.kind is Kind.FLOAT else 8
        values = self._stream(type_, StreamKind.DATA, partial(RawValues, item_bytes=width))
        return PlainDecoder(type_, present, [values], row_bytes=width)

    def decimal(self, type_: Type, present: BoolValues | None, encoding: ColumnEncoding) -> ColumnDecoder:
        if is_decimal64(type_, decimal64=self._options.decimal64):
            make = partial(IntValues, signed=True, version_2=True)
            return DecimalDecoder(type_, present, [self._stream(type_, StreamKind.DATA, make)])
        varints = self._stream(type_, StreamKind.DATA, Varint128Values)
        scales = self._integers(type_, StreamKind.SECONDARY, encoding, signed=True)
        return DecimalDecoder(type_, present, [varints, scales])

    def date(self, type_: Type, present: BoolValues | None, encoding: ColumnEncoding) -> ColumnDecoder:
        days = self._integers(type_, StreamKind.DATA, encoding, signed=True)
        return DateDecoder(type_, present, [days], hybrid=self._options.hybrid)

    def timestamp(self, type_: Type, present: BoolValues | None, encoding: ColumnEncoding) -> ColumnDecoder:
        instant = type_.kind is Kind.TIMESTAMP_INSTANT
        seconds = self._integers(type_, StreamKind.DATA, encoding, signed=True)
        nanos = self._integers(type_, StreamKind.SECONDARY, encoding, signed=False)
        return TimestampDecoder(
            type_,
            present,
            [seconds, nanos],
            clock=Clock(UTC) if instant else self._options.clock,
            hybrid=self._options.hybrid,
            unit=self._options.vectors.unit,
        )

    def text(self, type_: Type, present: BoolValues | None, encoding: ColumnEncoding) -> ColumnDecoder:
        is_text = type_.kind in _TEXT
        validate = is_text and self._options.vectors.invalid_utf8 == "error"
        dictionaries = is_text and self._options.vectors.dictionaries
        direct = encoding.kind in _DIRECT
        lengths = self._integers(type_, StreamKind.LENGTH, encoding, signed=False, is_dictionary=not direct)
        data_kind = StreamKind.DATA if direct else StreamKind.DICTIONARY_DATA
        data = self._stream(type_, data_kind, partial(RawValues, item_bytes=1), is_dictionary=not direct)
        if direct:
            own = [lengths, data]
            return TextDecoder(type_, present, own, validate=validate, dictionaries=dictionaries)
        indexes = self._integers(type_, StreamKind.DATA, encoding, signed=False)
        return DictionaryDecoder(
            type_,
            present,
            [indexes, lengths, data],
            encoding.dictionary_size,
            validate=validate,
            dictionaries=dictionaries,
        )

    def struct(self, type_: Type, present: BoolValues | None, _: ColumnEncoding) -> ColumnDecoder:
        return StructDecoder(type_, present, (), self._children(type_))

    def list(self, type_: Type, present: BoolValues | None, encoding: ColumnEncoding) -> ColumnDecoder:
        lengths = self._integers(type_, StreamKind.LENGTH, encoding, signed=False)
        return ListDecoder(type_, present, [lengths], self._children(type_), is_map=type_.kind is Kind.MAP)

    def union(self, type_: Type, present: BoolValues | None, _: ColumnEncoding) -> ColumnDecoder:
        tags = self._stream(type_, StreamKind.DATA, ByteValues)
        return UnionDecoder(type_, present, [tags], self._children(type_))


_Build = Callable[[_Builder, Type, BoolValues | None, ColumnEncoding], ColumnDecoder]

_BUILDERS: dict[Kind, _Build] = {
    Kind.BOOLEAN: _Builder.boolean,
    Kind.BYTE: _Builder.byte,
    Kind.SHORT: _Builder.integer,
    Kind.INT: _Builder.integer,
    Kind.LONG: _Builder.integer,
    Kind.FLOAT: _Builder.floating,
    Kind.DOUBLE: _Builder.floating,
    Kind.DECIMAL: _Builder.decimal,
    Kind.DATE: _Builder.date,
    Kind.TIMESTAMP: _Builder.timestamp,
    Kind.TIMESTAMP_INSTANT: _Builder.timestamp,
    Kind.STRUCT: _Builder.struct,
    Kind.LIST: _Builder.list,
    Kind.MAP: _Builder.list,
    Kind.UNION: _Builder.union,
    **dict.fromkeys((*_TEXT, *_BYTES), _Builder.text),
}
