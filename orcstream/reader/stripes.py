"""Starting a stripe: from the bytes of its footer to its column runs.

Knows which options of the user and which facts of the tail decide how streams are understood.
"""

from __future__ import annotations

from collections.abc import Iterator

from orcstream.codec.column import VectorOptions
from orcstream.codec.compression import Compression, decompress_metadata
from orcstream.codec.layout import stream_ranges
from orcstream.codec.metadata import MESSAGE_CAP_BYTES, parse_stripe_footer
from orcstream.codec.stripe import StripeOptions, build_columns
from orcstream.codec.structure import Calendar, StreamKind, StripeFooter, StripeInformation
from orcstream.codec.temporal import UTC, ZoneRules
from orcstream.errors import FormatError, OrcError
from orcstream.plan.tail import Tail
from orcstream.reader.decoding import StripeRun
from orcstream.reader.zones import load_zone
from orcstream.schema import Kind, Type

__all__ = ["FileTimes", "StripeStarter", "decompress_message", "parse_footer", "walk_types"]


class FileTimes:
    """What `open` was told about the file's times."""

    __slots__ = ("calendar", "default_timezone", "timezone")

    def __init__(self, timezone: str | None, default_timezone: str, calendar: str) -> None:
        self.timezone = timezone
        self.default_timezone = default_timezone
        self.calendar = calendar

    def zone(self, written: str | None) -> ZoneRules:
        return load_zone(self.timezone or written or self.default_timezone)

    def hybrid(self, tail: Tail) -> bool:
        if self.calendar != "auto":
            return self.calendar == "hybrid"
        if tail.footer.calendar is Calendar.UNKNOWN:
            return tail.footer.writer == 0
        return tail.footer.calendar is Calendar.JULIAN_GREGORIAN


class StripeStarter:
    """Makes the runs of stripes, for one read."""

    def __init__(self, tail: Tail, root: Type, vectors: VectorOptions, times: FileTimes) -> None:
        self._tail = tail
        self._root = root
        self._vectors = vectors
        self._times = times
        self._has_zoned = any(type_.kind is Kind.TIMESTAMP for type_ in walk_types(root))
        self._hybrid = times.hybrid(tail)

    def start(self, number: int, stripe: StripeInformation, footer_bytes: memoryview) -> StripeRun:
        footer = parse_footer(self._tail, stripe, footer_bytes)
        postscript = self._tail.postscript
        placed = stream_ranges(stripe, footer)
        is_struct = self._root.kind is Kind.STRUCT
        nullable_root = is_struct and any(
            stream.column == 0 and stream.kind is StreamKind.PRESENT and range_.length
            for stream, range_ in placed
        )
        try:
            options = StripeOptions(
                vectors=self._vectors,
                compressed=postscript.compression is not Compression.NONE,
                block_size=postscript.compression_block_size,
                # Zones that no column needs are not looked up: their names may be unknown.
                zone=self._times.zone(footer.writer_timezone) if self._has_zoned else UTC,
                hybrid=self._hybrid,
                decimal64=postscript.version == (1, 9999),
            )
            types = [self._root] if nullable_root or not is_struct else list(self._root.children)
            columns = build_columns(types, placed, footer.encodings, options)
        except OrcError as error:
            error.locate(stripe=stripe.index)
            raise
        return StripeRun(number, stripe, columns, whole_root=nullable_root)


def parse_footer(tail: Tail, stripe: StripeInformation, data: memoryview) -> StripeFooter:
    try:
        footer = decompress_message(tail, data)
    except FormatError as error:
        error.locate(stripe=stripe.index, file_offset=stripe.footer_range.start)
        raise
    return parse_stripe_footer(footer, stripe, tail.footer.schema, tail.footer.encryption)


def decompress_message(tail: Tail, data: memoryview) -> bytes:
    postscript = tail.postscript
    return decompress_metadata(
        data, postscript.compression, postscript.compression_block_size, MESSAGE_CAP_BYTES
    )


def walk_types(type_: Type) -> Iterator[Type]:
    """A type and all below it."""
    waiting = [type_]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        yield node
