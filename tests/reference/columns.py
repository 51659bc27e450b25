"""Values to streams (specification: "Column Encodings"): the writing half of the reference.

`Encoder` turns a column of neutral values into streams, plainly. What a writer is free to choose can be
chosen: the version of run lengths or an integer encoder of one's own, dictionaries and their order, a
PRESENT stream where there is nothing null, a scale for each decimal. With an `Index` it writes row indexes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from . import byte_rle, compression, positions, rle_v1, rle_v2, values, varint
from .builder import FileBuilder, Options, Stream
from .indexes import Cells, Form, Index, Seat
from .reader import (
    DATA,
    DICTIONARY,
    DICTIONARY_DATA,
    DICTIONARY_V2,
    DIRECT,
    DIRECT_V2,
    LENGTH,
    PRESENT,
    SECONDARY,
)
from .types import T, Union

Integers = Callable[..., bytes]


@dataclass
class Encoder:
    """How columns are encoded; one for a stripe."""

    version: int = 2
    integers: Integers | None = None
    """Called with (values, signed=...); None is the plain encoder of the version."""
    present: bool = False
    """PRESENT streams also where nothing is null."""
    dictionary: bool = False
    sort_dictionary: bool = True
    zone: str = "UTC"
    scales: Callable[[int, int], int] | None = None
    """The scale to store a decimal at, from its row and its type's scale."""
    index: Index | None = None
    streams: list[Stream] = field(default_factory=list)
    encodings: dict[int, tuple[int, int]] = field(default_factory=dict)
    cells: dict[int, Cells] = field(default_factory=dict)
    seats: dict[int, list[Seat]] = field(default_factory=dict)

    def put(
        self, column: int, kind: int, data: bytes, form: Form | None = None, marks: Sequence[int] = ()
    ) -> None:
        """`form` and `marks` say where row groups begin, for streams that positions are recorded of."""
        self.streams.append(Stream(kind, column, data))
        if form:
            self.seats.setdefault(column, []).append(Seat(kind, data, form, marks))

    def numbers(self, found: Sequence[int], *, signed: bool) -> bytes:
        encode = self.integers or (rle_v1.encode if self.version == 1 else rle_v2.encode)
        return encode(found, signed=signed)

    def column(self, type_: T, column: int, found: Sequence[Any], marks: Sequence[int] = ()) -> None:
        """Encode a column and all below it; `marks` are the values that row groups begin with."""
        self.cells[column] = Cells(type_, found, marks)
        flags = [value is not None for value in found]
        if self.present or not all(flags):
            self.put(column, PRESENT, byte_rle.encode_booleans(flags), "bits", marks)
        there = [value for value in found if value is not None]
        marks = positions.sums(flags, marks)
        plain = DIRECT if self.version == 1 else DIRECT_V2
        kind = type_.kind
        byte_kinds = ("boolean", "tinyint", "float", "double", "struct", "uniontype")
        self.encodings[column] = (DIRECT if kind in byte_kinds else plain, 0)
        if kind == "boolean":
            self.put(column, DATA, byte_rle.encode_booleans(there), "bits", marks)
        elif kind == "tinyint":
            self.put(column, DATA, byte_rle.encode(there), "bytes", marks)
        elif kind in ("smallint", "int", "bigint", "date"):
            self.put(column, DATA, self.numbers(there, signed=True), "integers", marks)
        elif kind in ("float", "double"):
            size = 4 if kind == "float" else 8
            data = struct.pack(f"<{len(there)}{kind[0]}", *there)
            self.put(column, DATA, data, "plain", [mark * size for mark in marks])
        elif kind == "decimal":
            self.decimals(type_, column, there, marks)
        elif kind.startswith("timestamp"):
            pairs = [values.encode_timestamp(v, self.zone, instant=kind != "timestamp") for v in there]
            seconds = self.numbers([seconds for seconds, _ in pairs], signed=True)
            self.put(column, DATA, seconds, "integers", marks)
            nanos = self.numbers([nanos for _, nanos in pairs], signed=False)
            self.put(column, SECONDARY, nanos, "integers", marks)
        elif type_.children or kind == "struct":
            self.nested(type_, column, there, marks)
        else:
            blobs = [value if isinstance(value, bytes) else value.encode() for value in there]
            self.blobs(column, blobs, kind, marks)

    def decimals(self, type_: T, column: int, found: Sequence[Decimal], marks: Sequence[int]) -> None:
        assert type_.scale is not None
        choose = self.scales or (lambda _, scale: scale)
        scales = [choose(row, type_.scale) for row in range(len(found))]
        unscaled = [values.unscaled_of(value, scale) for value, scale in zip(found, scales, strict=True)]
        sizes = [len(varint.write_signed(number)) for number in unscaled]
        self.put(column, DATA, values.encode_decimals(unscaled), "plain", positions.sums(sizes, marks))
        self.put(column, SECONDARY, self.numbers(scales, signed=True), "integers", marks)

    def blobs(self, column: int, found: Sequence[bytes], kind: str, marks: Sequence[int]) -> None:
        if self.dictionary and kind != "binary":
            words = list(dict.fromkeys(found))
            words = sorted(words) if self.sort_dictionary else words[::-1]
            places = {word: i for i, word in enumerate(words)}
            self.encodings[column] = (DICTIONARY if self.version == 1 else DICTIONARY_V2, len(words))
            indexes = self.numbers([places[word] for word in found], signed=False)
            self.put(column, DATA, indexes, "integers", marks)
            # The dictionary is read whole: no positions.
            self.put(column, DICTIONARY_DATA, b"".join(words))
            self.put(column, LENGTH, self.numbers([len(word) for word in words], signed=False))
            return
        sizes = [len(word) for word in found]
        self.put(column, DATA, b"".join(found), "plain", positions.sums(sizes, marks))
        self.put(column, LENGTH, self.numbers(sizes, signed=False), "integers", marks)

    def nested(self, type_: T, column: int, found: Sequence[Any], marks: Sequence[int]) -> None:
        parts: list[list[Any]]
        below_marks = [list(marks)] * len(type_.children)
        if type_.kind == "struct":
            parts = [[value[i] for value in found] for i in range(len(type_.children))]
        elif type_.kind == "uniontype":
            assert all(isinstance(value, Union) for value in found)
            tags = [value.tag for value in found]
            self.put(column, DATA, byte_rle.encode(tags), "bytes", marks)
            parts = [[v.value for v in found if v.tag == tag] for tag in range(len(type_.children))]
            below_marks = [
                positions.sums([found == tag for found in tags], marks) for tag in range(len(type_.children))
            ]
        else:
            sizes = [len(value) for value in found]
            self.put(column, LENGTH, self.numbers(sizes, signed=False), "integers", marks)
            items = [item for value in found for item in value]
            parts = [items] if type_.kind == "array" else [[item[i] for item in items] for i in (0, 1)]
            below_marks = [positions.sums(sizes, marks)] * len(parts)
        below = column + 1
        for child, part, starts in zip(type_.children, parts, below_marks, strict=True):
            self.column(child, below, part, starts)
            below += len(child.flatten())

    def index_streams(self, options: Options, frame: Callable[[bytes], bytes]) -> list[Stream]:
        if self.index is None:
            return []
        made = self.index.streams(
            self.cells,
            self.seats,
            version=lambda column: 1 if self.encodings[column][0] in (DIRECT, DICTIONARY) else 2,
            frame=frame,
            kind=options.compression or compression.NONE,
            block_size=options.block_size or 256 * 1024,
        )
        return [Stream(kind, column, data) for kind, column, data in made]

    def encoding_list(self) -> list[tuple[int, int]]:
        return [self.encodings[column] for column in sorted(self.encodings)]

    def bloom_encodings(self) -> dict[int, int]:
        """The form of each column's bloom filters, as far as the stripe footer is to tell it."""
        found = (
            {}
            if self.index is None
            else {c: self.index.encoding_of(c, v.type_) for c, v in self.cells.items()}
        )
        return {column: form for column, form in found.items() if form is not None}


def add_stripe(
    builder: FileBuilder, rows: Sequence[Any], encoder: Encoder | None = None, *, zone: str | None = None
) -> Encoder:
    """Encode rows into the builder's next stripe; `zone` overrides what the stripe footer says."""
    encoder = encoder or Encoder()
    marks = encoder.index.marks(len(rows)) if encoder.index else []
    encoder.column(builder.type_, 0, rows, marks)
    builder.stripe(
        len(rows),
        encoder.streams,
        encoder.encoding_list(),
        zone=zone or encoder.zone,
        index=encoder.index_streams(builder.options, builder.frame),
        bloom_encodings=encoder.bloom_encodings(),
        values={column: cells.found for column, cells in encoder.cells.items()},
    )
    return encoder


def make_file(
    type_: T, rows: Sequence[Any], encoder: Encoder | None = None, options: Options | None = None
) -> bytes:
    """A file of one stripe."""
    builder = FileBuilder(type_, options)
    add_stripe(builder, rows, encoder)
    return builder.build()
