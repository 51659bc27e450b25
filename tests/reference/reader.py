"""A whole-file reader: bytes to neutral values (specification: "File Tail", "Stripes", "Column Encodings").

Reads everything a file holds, one column of one stripe at a time, in plain lists. No encryption (masked
values come out; see `encryption`), no pruning, no limits: give it small files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from . import byte_rle, compression, rle_v1, rle_v2, values, wire
from .errors import Malformed
from .types import KINDS, T, Union
from .varint import wrap

PRESENT, DATA, LENGTH, DICTIONARY_DATA, _, SECONDARY, ROW_INDEX = range(7)
DIRECT, DICTIONARY, DIRECT_V2, DICTIONARY_V2 = range(4)
_WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "date": 32}
# Hive 0.11 wrote no precision: such decimals have no scale of their own, and the reference reader takes six.
_HIVE_11 = (38, 6)


@dataclass(frozen=True)
class StripeSpan:
    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    row_count: int


@dataclass(frozen=True)
class Tail:
    schema: T
    row_count: int
    stripes: tuple[StripeSpan, ...]
    compression: int
    block_size: int
    version: tuple[int, ...]
    writer: int
    writer_version: int
    stride: int
    calendar: int

    @property
    def is_hybrid(self) -> bool:
        """Whether days before 1582 are of the Julian calendar: said so, or unsaid by Java and its old kin."""
        return self.calendar == 1 or (self.calendar == 0 and self.writer == 0)

    @property
    def short_decimals(self) -> bool:
        """UNSTABLE-PRE-2.0: decimals of up to 18 digits are plain integers."""
        return self.version == (1, 9999)


@dataclass(frozen=True)
class StripeFooter:
    """Streams by (column, kind), as decompressed bytes; encodings as (kind, dictionary size)."""

    streams: dict[tuple[int, int], bytes]
    encodings: list[tuple[int, int]]
    zone: str


def read_tail(data: bytes) -> Tail:
    if not data:  # Hive leaves such files for empty buckets
        return Tail(T("struct"), 0, (), 0, 0, (), 0, 0, 0, 0)
    size = data[-1]
    postscript = wire.parse(data[-1 - size : -1])
    magic = wire.blob(postscript, 8000)
    if magic != b"ORC" and data[:3] != b"ORC":
        raise Malformed("no magic")
    kind = wire.number(postscript, 2)
    block_size = wire.number(postscript, 3, 256 * 1024)
    footer_stop = len(data) - 1 - size
    footer_start = footer_stop - wire.number(postscript, 1)
    if footer_start < 0:
        raise Malformed("footer is longer than the file")
    footer = wire.parse(compression.unframe(data[footer_start:footer_stop], kind, block_size))
    return Tail(
        _schema([wire.parse(item) for item in wire.blobs(footer, 4)]),
        wire.number(footer, 6),
        tuple(
            StripeSpan(*(wire.number(wire.parse(item), key) for key in range(1, 6)))
            for item in wire.blobs(footer, 3)
        ),
        kind,
        block_size,
        tuple(wire.numbers(postscript, 4)) or (0, 11),
        wire.number(footer, 9),
        wire.number(postscript, 6),
        wire.number(footer, 8),
        wire.number(footer, 11),
    )


def _schema(types: list[wire.Message]) -> T:
    def build(at: int) -> T:
        fields = types[at]
        if wire.number(fields, 1) >= len(KINDS):
            raise Malformed("unknown kind of type")
        kind = KINDS[wire.number(fields, 1)]
        children = tuple(map(build, wire.numbers(fields, 2)))
        names = tuple(name.decode() for name in wire.blobs(fields, 3))
        if kind == "struct" and len(names) != len(children):
            raise Malformed("a struct's names and children differ in number")
        if kind == "decimal":
            precision, scale = wire.number(fields, 5), wire.number(fields, 6)
            precision, scale = (precision, scale) if precision else _HIVE_11
            return T(kind, precision=precision, scale=scale)
        return T(kind, children, names, wire.number(fields, 4) or None)

    return build(0)


def read_stripe(data: bytes, tail: Tail, span: StripeSpan) -> StripeFooter:
    start = span.offset + span.index_bytes + span.data_bytes
    raw = compression.unframe(data[start : start + span.footer_bytes], tail.compression, tail.block_size)
    fields = wire.parse(raw)
    streams = {}
    at = span.offset
    for item in map(wire.parse, wire.blobs(fields, 1)):
        kind, column, length = (wire.number(item, key) for key in (1, 2, 3))
        if kind in (PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY):
            framed = data[at : at + length]
            streams[column, kind] = compression.unframe(framed, tail.compression, tail.block_size)
        at += length
    encodings = [
        (wire.number(item, 1), wire.number(item, 2)) for item in map(wire.parse, wire.blobs(fields, 2))
    ]
    return StripeFooter(streams, encodings, wire.blob(fields, 3).decode())


def read(data: bytes, *, default_zone: str = "UTC", proleptic: bool = False) -> tuple[T, list[object]]:
    """The schema and every row; `proleptic` says that days are what they seem, whatever the writer."""
    tail = read_tail(data)
    if proleptic:
        tail = replace(tail, calendar=2)
    rows: list[object] = []
    for span in tail.stripes:
        rows += rows_of(tail, read_stripe(data, tail, span), span.row_count, default_zone)
    return tail.schema, rows


def rows_of(tail: Tail, footer: StripeFooter, count: int, default_zone: str = "UTC") -> list[object]:
    """The rows of a stripe."""
    return _Decoder(tail, footer, footer.zone or default_zone).column(tail.schema, 0, count)


@dataclass(frozen=True)
class _Decoder:
    """One stripe's columns."""

    tail: Tail
    footer: StripeFooter
    zone: str

    def column(self, type_: T, column: int, count: int) -> list[object]:
        """`count` values of a column, nulls spread in."""
        present = self.footer.streams.get((column, PRESENT))
        if present is None:
            return self.some(type_, column, count)
        flags = byte_rle.decode_booleans(present, count)
        found = iter(self.some(type_, column, sum(flags)))
        return [next(found) if flag else None for flag in flags]

    def stream(self, column: int, kind: int, count: int) -> bytes:
        data = self.footer.streams.get((column, kind))
        if data is None and count:
            raise Malformed(f"column {column} has no stream of kind {kind}")
        return data or b""

    def integers(self, column: int, kind: int, count: int, *, signed: bool) -> list[int]:
        data = self.stream(column, kind, count)
        old = self.footer.encodings[column][0] in (DIRECT, DICTIONARY)
        decode = rle_v1.decode if old else rle_v2.decode
        return decode(data, count, signed=signed)

    def some(self, type_: T, column: int, count: int) -> list[object]:
        """`count` values that are there."""
        kind = type_.kind
        if kind == "boolean":
            return list(byte_rle.decode_booleans(self.stream(column, DATA, count), count))
        if kind == "tinyint":
            return [wrap(v, 8) for v in byte_rle.decode(self.stream(column, DATA, count), count)]
        if kind in _WIDTHS:
            numbers = self.integers(column, DATA, count, signed=True)
            narrow = [wrap(value, _WIDTHS[kind]) for value in numbers]
            if kind == "date" and self.tail.is_hybrid:
                return [values.day_from_hybrid(day) for day in narrow]
            return list(narrow)
        if kind in ("float", "double"):
            size, letter = (4, "f") if kind == "float" else (8, "d")
            data = self.stream(column, DATA, count)[: size * count]
            if len(data) < size * count:
                raise Malformed("floating point values end early")
            return list(struct.unpack(f"<{count}{letter}", data))
        if kind in ("string", "varchar", "char", "binary", "geometry", "geography"):
            return self.blobs(type_, column, count)
        if kind == "decimal":
            return self.decimals(type_, column, count)
        if kind.startswith("timestamp"):
            return self.timestamps(column, count, instant=kind != "timestamp")
        return self.nested(type_, column, count)

    def blobs(self, type_: T, column: int, count: int) -> list[object]:
        encoding, size = self.footer.encodings[column]
        if encoding in (DICTIONARY, DICTIONARY_V2):
            words = self.cut(column, LENGTH, DICTIONARY_DATA, size)
            indexes = self.integers(column, DATA, count, signed=False)
            if any(not 0 <= index < size for index in indexes):
                raise Malformed("dictionary index out of range")
            found = [words[index] for index in indexes]
        else:
            found = self.cut(column, LENGTH, DATA, count)
        if type_.kind in ("binary", "geometry", "geography"):
            return list(found)
        try:
            texts = [word.decode() for word in found]
        except UnicodeDecodeError as error:
            raise Malformed(str(error)) from None
        if type_.kind == "char":
            return [text.rstrip(" ") for text in texts]
        return list(texts)

    def cut(self, column: int, lengths: int, kind: int, count: int) -> list[bytes]:
        sizes = self.integers(column, lengths, count, signed=False)
        data = self.stream(column, kind, sum(sizes))
        if any(size < 0 for size in sizes) or sum(sizes) > len(data):
            raise Malformed("lengths exceed the data")
        out, at = [], 0
        for size in sizes:
            out.append(data[at : at + size])
            at += size
        return out

    def decimals(self, type_: T, column: int, count: int) -> list[object]:
        assert type_.precision is not None and type_.scale is not None
        if self.tail.short_decimals and type_.precision <= 18:
            numbers = rle_v2.decode(self.stream(column, DATA, count), count, signed=True)
            scales = [type_.scale] * count
        else:
            numbers = values.decode_decimals(self.stream(column, DATA, count), count)
            scales = self.integers(column, SECONDARY, count, signed=True)
        return [values.decimal_of(n, s, type_.scale) for n, s in zip(numbers, scales, strict=True)]

    def timestamps(self, column: int, count: int, *, instant: bool) -> list[object]:
        seconds = self.integers(column, DATA, count, signed=True)
        nanos = self.integers(column, SECONDARY, count, signed=False)
        found = [
            values.decode_timestamp(s, n, self.zone, instant=instant)
            for s, n in zip(seconds, nanos, strict=True)
        ]
        if self.tail.is_hybrid:
            found = [values.timestamp_from_hybrid(value) for value in found]
        return list(found)

    def nested(self, type_: T, column: int, count: int) -> list[object]:
        ids = [column + 1]
        for child in type_.children:
            ids.append(ids[-1] + len(child.flatten()))
        if type_.kind == "struct":
            fields = [self.column(child, i, count) for child, i in zip(type_.children, ids, strict=False)]
            return list(zip(*fields, strict=True)) if fields else [() for _ in range(count)]
        if type_.kind == "uniontype":
            tags = byte_rle.decode(self.stream(column, DATA, count), count)
            if any(tag >= len(type_.children) for tag in tags):
                raise Malformed("union tag out of range")
            sources = [
                iter(self.column(child, i, tags.count(tag)))
                for tag, (child, i) in enumerate(zip(type_.children, ids, strict=False))
            ]
            return [Union(tag, next(sources[tag])) for tag in tags]
        sizes = self.integers(column, LENGTH, count, signed=False)
        if any(size < 0 for size in sizes):
            raise Malformed("negative length")
        total = sum(sizes)
        parts = [self.column(child, i, total) for child, i in zip(type_.children, ids, strict=False)]
        items = parts[0] if type_.kind == "array" else list(zip(*parts, strict=True))
        out: list[object] = []
        at = 0
        for size in sizes:
            out.append(list(items[at : at + size]))
            at += size
        return out
