"""Values to streams (specification: "Column Encodings"): the writing half of the reference.

`Encoder` turns a column of neutral values into streams, plainly. What a writer is free to choose can be
chosen: the version of run lengths or an integer encoder of one's own, dictionaries and their order, a
PRESENT stream where there is nothing null, a scale for each decimal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from . import byte_rle, rle_v1, rle_v2, values
from .builder import FileBuilder, Options, Stream
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
    streams: list[Stream] = field(default_factory=list)
    encodings: dict[int, tuple[int, int]] = field(default_factory=dict)

    def put(self, column: int, kind: int, data: bytes) -> None:
        self.streams.append(Stream(kind, column, data))

    def numbers(self, found: Sequence[int], *, signed: bool) -> bytes:
        encode = self.integers or (rle_v1.encode if self.version == 1 else rle_v2.encode)
        return encode(found, signed=signed)

    def column(self, type_: T, column: int, found: Sequence[Any]) -> None:
        """Encode a column and all below it."""
        flags = [value is not None for value in found]
        if self.present or not all(flags):
            self.put(column, PRESENT, byte_rle.encode_booleans(flags))
        there = [value for value in found if value is not None]
        plain = DIRECT if self.version == 1 else DIRECT_V2
        kind = type_.kind
        byte_kinds = ("boolean", "tinyint", "float", "double", "struct", "uniontype")
        self.encodings[column] = (DIRECT if kind in byte_kinds else plain, 0)
        if kind == "boolean":
            self.put(column, DATA, byte_rle.encode_booleans(there))
        elif kind == "tinyint":
            self.put(column, DATA, byte_rle.encode(there))
        elif kind in ("smallint", "int", "bigint", "date"):
            self.put(column, DATA, self.numbers(there, signed=True))
        elif kind in ("float", "double"):
            self.put(column, DATA, struct.pack(f"<{len(there)}{kind[0]}", *there))
        elif kind == "decimal":
            self.decimals(type_, column, there)
        elif kind.startswith("timestamp"):
            pairs = [values.encode_timestamp(v, self.zone, instant=kind != "timestamp") for v in there]
            self.put(column, DATA, self.numbers([seconds for seconds, _ in pairs], signed=True))
            self.put(column, SECONDARY, self.numbers([nanos for _, nanos in pairs], signed=False))
        elif type_.children or kind == "struct":
            self.nested(type_, column, there)
        else:
            self.blobs(
                column, [value if isinstance(value, bytes) else value.encode() for value in there], kind
            )

    def decimals(self, type_: T, column: int, found: Sequence[Decimal]) -> None:
        assert type_.scale is not None
        choose = self.scales or (lambda _, scale: scale)
        scales = [choose(row, type_.scale) for row in range(len(found))]
        unscaled = [values.unscaled_of(value, scale) for value, scale in zip(found, scales, strict=True)]
        self.put(column, DATA, values.encode_decimals(unscaled))
        self.put(column, SECONDARY, self.numbers(scales, signed=True))

    def blobs(self, column: int, found: Sequence[bytes], kind: str) -> None:
        if self.dictionary and kind != "binary":
            words = list(dict.fromkeys(found))
            words = sorted(words) if self.sort_dictionary else words[::-1]
            places = {word: i for i, word in enumerate(words)}
            self.encodings[column] = (DICTIONARY if self.version == 1 else DICTIONARY_V2, len(words))
            self.put(column, DATA, self.numbers([places[word] for word in found], signed=False))
            found, data = words, DICTIONARY_DATA
        else:
            data = DATA
        self.put(column, data, b"".join(found))
        self.put(column, LENGTH, self.numbers([len(word) for word in found], signed=False))

    def nested(self, type_: T, column: int, found: Sequence[Any]) -> None:
        parts: list[list[Any]]
        if type_.kind == "struct":
            parts = [[value[i] for value in found] for i in range(len(type_.children))]
        elif type_.kind == "uniontype":
            assert all(isinstance(value, Union) for value in found)
            self.put(column, DATA, byte_rle.encode([value.tag for value in found]))
            parts = [[v.value for v in found if v.tag == tag] for tag in range(len(type_.children))]
        else:
            self.put(column, LENGTH, self.numbers([len(value) for value in found], signed=False))
            items = [item for value in found for item in value]
            parts = [items] if type_.kind == "array" else [[item[i] for item in items] for i in (0, 1)]
        below = column + 1
        for child, part in zip(type_.children, parts, strict=True):
            self.column(child, below, part)
            below += len(child.flatten())

    def encoding_list(self) -> list[tuple[int, int]]:
        return [self.encodings[column] for column in sorted(self.encodings)]


def add_stripe(
    builder: FileBuilder, rows: Sequence[Any], encoder: Encoder | None = None, *, zone: str | None = None
) -> Encoder:
    """Encode rows into the builder's next stripe; `zone` overrides what the stripe footer says."""
    encoder = encoder or Encoder()
    encoder.column(builder.type_, 0, rows)
    builder.stripe(len(rows), encoder.streams, encoder.encoding_list(), zone=zone or encoder.zone)
    return encoder


def make_file(
    type_: T, rows: Sequence[Any], encoder: Encoder | None = None, options: Options | None = None
) -> bytes:
    """A file of one stripe."""
    builder = FileBuilder(type_, options)
    add_stripe(builder, rows, encoder)
    return builder.build()
