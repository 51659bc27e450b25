"""Our kernels behind the interface of the reference's decoders, fed in pieces and taken in turns."""

from __future__ import annotations

import random
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from typing_extensions import Buffer as ReadableBuffer

from orcstream._buffer import Buffer
from orcstream.byterange import ByteRange
from orcstream.codec.crypto.forms import PlacedStream, StripeForm
from orcstream.codec.decode._column import ColumnDecoder, Turn
from orcstream.codec.decode.stripe import StripeOptions, build_columns
from orcstream.codec.metadata.structure import ColumnEncoding, EncodingKind, StreamInformation, StreamKind
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams._values import (
    BoolValues,
    ByteValues,
    IntValues,
    RawValues,
    Values,
    Varint128Values,
)
from orcstream.codec.streams.compression import Compression, Decompressor
from orcstream.codec.vectors.column import Vector, VectorOptions
from orcstream.codec.vectors.times import UTC, Clock
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn
from tests.generators import chunks
from tests.reference import values as values_reference
from tests.reference.builder import Stream
from tests.reference.types import T, Union


def values_of(encoding: str, stream: InputStream, *, signed: bool) -> tuple[Values, type[np.generic]]:
    """The value stream of an encoding, and what its values are."""
    if encoding == "byte":
        return ByteValues(stream), np.uint8
    if encoding == "boolean":
        return BoolValues(stream), np.uint8
    return IntValues(stream, signed=signed, version_2=encoding == "rle_v2"), np.int64


def decode(
    encoding: str,
    pieces: Sequence[bytes],
    count: int,
    *,
    signed: bool,
    turns: Iterable[int] = (),
    skip: int = 0,
    zlib: bool = False,
) -> list[int]:
    """`count` values of a stream that arrives in pieces, taken in turns of the given sizes, the rest at once.

    Pieces are fed only when the values at hand do not do, so every state in which a decoder can run
    dry is met.
    """
    decompress = Decompressor(Compression.ZLIB if zlib else Compression.NONE)
    stream = InputStream(compressed=zlib, block_size=1 << 18)
    values, kind = values_of(encoding, stream, signed=signed)
    if skip:
        values.seek(skip)
    waiting = list(pieces)
    out: list[int] = []
    sizes = iter(turns)
    while len(out) < count:
        wanted = min(next(sizes, count), count - len(out))
        have = values.ensure(wanted, decompress)
        while have < wanted:
            assert waiting or not stream.complete, "a complete stream must raise when it is short"
            stream.feed(waiting.pop(0) if waiting else b"", last=not waiting)
            have = values.ensure(wanted, decompress)
        out += np.frombuffer(memoryview(values.take(wanted)), kind).tolist()
    return out


def _decoder(encoding: str) -> Callable[[bytes, int, bool], list[int]]:
    return lambda data, count, signed: decode(encoding, [data], count, signed=signed)


DECODERS = {encoding: _decoder(encoding) for encoding in ("byte", "boolean", "rle_v1", "rle_v2")}


class Fed:
    """A value stream whose pieces are fed one by one, only when it has run dry.

    `encoding` is one of `DECODERS`, "varint128", or "raw" and a width in bytes.
    """

    def __init__(
        self,
        encoding: str,
        pieces: Sequence[bytes],
        *,
        signed: bool = False,
        compression: Compression = Compression.NONE,
        block_size: int = 1 << 18,
    ) -> None:
        self.encoding = encoding
        self.input = InputStream(
            compressed=compression is not Compression.NONE,
            block_size=block_size,
            column=7,
            kind="DATA",
            file_offset=1000,
        )
        self.decompress = Decompressor(compression)
        self.waiting = list(pieces)
        self.values: Values
        if encoding == "varint128":
            self.values = Varint128Values(self.input)
        elif encoding.startswith("raw"):
            self.values = RawValues(self.input, item_bytes=int(encoding[3:]))
        else:
            self.values, _ = values_of(encoding, self.input, signed=signed)

    def feed(self) -> None:
        assert not self.input.complete, "a complete stream must raise when it is short"
        self.input.feed(self.waiting.pop(0) if self.waiting else b"", last=not self.waiting)

    def skip_bytes(self, count: int) -> None:
        while count:
            count -= self.input.skip(count, self.decompress)
            if count:
                self.feed()

    def ensure(self, count: int) -> None:
        while self.values.ensure(count, self.decompress) < count:
            self.feed()

    def peek(self, count: int) -> list[Any]:
        return unpacked(self.encoding, self.values.peek(count))

    def take(self, count: int) -> list[Any]:
        self.ensure(count)
        return unpacked(self.encoding, self.values.take(count))


def unpacked(encoding: str, buffer: Buffer) -> list[Any]:
    """The values that a taken buffer holds."""
    data = bytes(buffer)
    if encoding in ("byte", "boolean"):
        return list(data)
    if encoding == "varint128":
        return [int.from_bytes(data[at : at + 16], "little", signed=True) for at in range(0, len(data), 16)]
    if encoding.startswith("raw"):
        width = int(encoding[3:])
        return [data[at : at + width] for at in range(0, len(data), width)]
    return [int(value) for value in np.frombuffer(data, np.int64)]


def buffer_of(data: ReadableBuffer) -> Buffer:
    """A block of our own with these bytes, as kernels take them."""
    view = memoryview(data).cast("B")
    out = Buffer(view.nbytes)
    memoryview(out)[:] = view
    return out


def int64_buffer(values: Sequence[int]) -> Buffer:
    return buffer_of(np.array(values, np.int64).tobytes())


@pytest.fixture
def packaged_zones() -> Iterator[None]:
    """`zoneinfo` reads the `tzdata` package, as the reader does; the machine's edition may be another."""
    path = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=path)
    zoneinfo.ZoneInfo.clear_cache()


class Column:
    """A column (and its children) of a stripe as streams, to be decoded as often as a test likes."""

    def __init__(
        self,
        type_: T,
        streams: Sequence[Stream],
        encodings: Sequence[tuple[int, int]],
        *,
        vectors: VectorOptions | None = None,
    ) -> None:
        self.type = Schema.parse(str(type_)).root
        self.streams = list(streams)
        self.encodings = [ColumnEncoding(EncodingKind(kind), size) for kind, size in encodings]
        self.vectors = vectors or VectorOptions()

    def put(self, column: int, kind: StreamKind, data: bytes) -> None:
        """Replace a stream, or add it."""
        self.streams = [s for s in self.streams if (s.column, s.kind) != (column, kind)]
        self.streams.append(Stream(kind, column, data))

    def data(self, column: int, kind: StreamKind) -> bytes:
        return next(s.data for s in self.streams if (s.column, s.kind) == (column, kind))

    def open(
        self,
        *,
        zlib: bool = False,
        rng: random.Random | None = None,
        dictionary_limit: int = (1 << 31) - 1,
    ) -> OpenColumn:
        """A decoder whose streams wait to be fed: each whole, or in random pieces where `rng` is given."""
        waiting: dict[tuple[int, str], list[bytes]] = {}
        placed = []
        at = 0
        for stream in self.streams:
            data = stream.data
            if zlib:
                sizes = [rng.randint(1, 300) for _ in range(99)] if rng else [1 << 17]
                data = chunks.framed(data, sizes, deflate=True)
            sizes = [rng.randint(1, 400) for _ in range(99)] if rng else [len(data)]
            kind = StreamKind(stream.kind)
            waiting[stream.column, kind.name] = chunks.pieces(data, sizes)
            information = StreamInformation(kind, FileColumn(stream.column), len(data))
            placed.append(PlacedStream(information, ByteRange(at, at + len(data))))
            at += len(data)
        options = StripeOptions(
            vectors=self.vectors,
            compressed=zlib,
            block_size=1 << 18,
            clock=Clock(UTC),
            hybrid=False,
            decimal64=False,
        )
        (built,) = build_columns([self.type], StripeForm(placed, self.encodings), options)
        decompress = Decompressor(Compression.ZLIB if zlib else Compression.NONE)
        return OpenColumn(built.decoder, Turn(decompress, dictionary_limit), waiting)


class OpenColumn:
    """A decoder, and the pieces that its streams are still to be fed."""

    def __init__(
        self, decoder: ColumnDecoder, turn: Turn, waiting: dict[tuple[int, str], list[bytes]]
    ) -> None:
        self.decoder = decoder
        self.turn = turn
        self._waiting = waiting
        self._inputs = {(stream.column, stream.kind): stream for stream in decoder.streams()}

    def ready(self, count: int, budget: int) -> int:
        return self.decoder.ready_rows(count, budget, self.turn)

    def feed(self, column: int, kind: str) -> None:
        """The next piece of one stream."""
        pieces = self._waiting[column, kind]
        self._inputs[column, kind].feed(pieces.pop(0) if pieces else b"", last=not pieces)

    def dry(self) -> set[tuple[int, str]]:
        """Columns and kinds of the streams that ran dry."""
        return {place for place, stream in self._inputs.items() if stream.is_dry}

    def feed_starved(self) -> bool:
        """A piece for each stream that ran dry and is not complete; whether there was any."""
        dry = [place for place in self.dry() if self._inputs[place].starved]
        for place in dry:
            self.feed(*place)
        return bool(dry)

    def feed_all(self) -> None:
        for place, stream in self._inputs.items():
            while stream.starved:
                self.feed(*place)


def rows_of(type_: T, vector: Vector) -> list[Any]:
    """The values of an unsliced vector in neutral form, by the Arrow layout alone."""
    if vector.dictionary is not None:
        words = rows_of(type_, vector.dictionary)
        places = np.frombuffer(_data(vector, 1), np.int32, vector.length).tolist()
        return _with_nulls(vector, [words[i] if words else None for i in places])
    kind = type_.kind
    if kind == "uniontype":
        tags, places = (
            np.frombuffer(_data(vector, i), t, vector.length).tolist()
            for i, t in enumerate((np.int8, np.int32))
        )
        parts = [rows_of(t, child) for t, child in zip(type_.children, vector.children, strict=True)]
        assert [tags.count(tag) for tag in range(len(parts))] == [len(part) for part in parts]
        return [Union(tag, parts[tag][place]) for tag, place in zip(tags, places, strict=True)]
    if kind == "struct":
        fields = [rows_of(t, child) for t, child in zip(type_.children, vector.children, strict=True)]
        plain: list[Any] = list(zip(*fields, strict=True)) if fields else [()] * vector.length
        assert len(plain) == vector.length
        return _with_nulls(vector, plain)
    if kind in ("array", "map"):
        items: list[Any]
        if kind == "map":
            entries = vector.children[0]
            assert entries.null_count == 0
            pairs = zip(type_.children, entries.children, strict=True)
            items = list(zip(*(rows_of(t, child) for t, child in pairs), strict=True))
        else:
            items = rows_of(type_.children[0], vector.children[0])
        return _cut(vector, items)
    if kind in ("string", "char", "varchar", "binary"):
        data = bytes(_data(vector, 2))
        found = _cut(vector, data)
        return found if kind == "binary" else [None if word is None else word.decode() for word in found]
    if kind == "boolean":
        bits = np.unpackbits(np.frombuffer(_data(vector, 1), np.uint8), bitorder="little")
        return _with_nulls(vector, [bool(bit) for bit in bits[: vector.length]])
    if kind == "decimal":
        words = [
            int.from_bytes(_data(vector, 1)[i * 16 : i * 16 + 16], "little", signed=True)
            for i in range(vector.length)
        ]
        return _with_nulls(
            vector, [Decimal(n).scaleb(-(type_.scale or 0), values_reference.EXACT) for n in words]
        )
    return _with_nulls(vector, np.frombuffer(_data(vector, 1), _DTYPES[kind], vector.length).tolist())


_DTYPES: dict[str, type[np.generic]] = {
    "tinyint": np.int8,
    "smallint": np.int16,
    "int": np.int32,
    "bigint": np.int64,
    "float": np.float32,
    "double": np.float64,
    "date": np.int32,
    "timestamp": np.int64,
    "timestamp with local time zone": np.int64,
}


def _data(vector: Vector, index: int) -> memoryview:
    buffer = vector.buffers[index]
    assert buffer is not None
    return memoryview(buffer).cast("B")


def _with_nulls(vector: Vector, plain: list[Any]) -> list[Any]:
    assert vector.offset == 0
    assert len(plain) == vector.length
    if vector.buffers[0] is None:
        assert vector.null_count == 0
        return plain
    bits = np.unpackbits(np.frombuffer(_data(vector, 0), np.uint8), bitorder="little")[: vector.length]
    assert int((bits == 0).sum()) == vector.null_count
    return [value if bit else None for value, bit in zip(plain, bits, strict=True)]


def _cut(vector: Vector, items: Any) -> list[Any]:
    """Offsets applied: `items` is bytes, or a child's rows; all of them are somebody's."""
    ends = np.frombuffer(_data(vector, 1), np.int32, vector.length + 1).tolist()
    assert ends[0] == 0
    assert ends[-1] == len(items)
    found = _with_nulls(vector, [items[a:b] for a, b in pairwise(ends)])
    assert all(a == b for (a, b), value in zip(pairwise(ends), found, strict=True) if value is None)
    return found
