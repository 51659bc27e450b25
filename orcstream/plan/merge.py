"""Files joined stripe by stripe: which ones go together, what is copied, and the tail of the result.

Knows what files must share so that their stripes may lie in one file, and how a tail is made of theirs. Must
not fetch anything, nor look into a stripe. Contract: files are added in the order of their rows; one that
does not go with those before it is refused and changes nothing; after the last one, `ending` answers the
bytes that belong behind the stripes.

The rules are those of ORC Java (`OrcFile.mergeFiles`): format and writer versions that it knows; the same
schema with its attributes, compression, format version, writer, writer version, row index stride and
calendar; and the same values where two files have user metadata of one name. The longest compression block
size is that of the result. Here encrypted files are refused, too, because the statistics in their tails are
encrypted for the file as a whole.

The result promises no more than the files do: it names their writer and its version, by which readers decide
what to believe, and its software version where all have the same. Statistics of stripes are copied as they
are, up to the first stripe that has none (readers take a list that ends early as unknown from there on).
Those of the file are merged; if anything in them is unknown there are none at all, because a column without
a count is taken by some readers for one without values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orcstream.byterange import ByteRange
from orcstream.codec.compression import Compression, Compressor
from orcstream.codec.metadata import MAX_BLOCK_SIZE, MESSAGE_CAP_BYTES, Footer, StatisticsList
from orcstream.codec.metadata_out import serialize_footer, statistics_list, tail_bytes
from orcstream.codec.structure import Calendar, StripeInformation
from orcstream.column_statistics import ColumnStatistics, merge
from orcstream.errors import CorruptTail, Unsupported
from orcstream.plan.tail import MAGIC, METADATA_CAP_BYTES, Tail
from orcstream.schema import Kind, Schema

__all__ = ["EMPTY", "FileMerger", "Refusal"]

EMPTY = "empty"
"""The reason of a file without bytes, which is a table without rows: nothing is lost without it."""

_JAVA = 0
_JAVA_VERSIONS = range(10)
# ORC C++, Presto, Go, Trino and cuDF have one version each.
_OTHER_WRITERS = range(1, 6)
_OTHER_VERSION = 6
_MAX_ROWS = (1 << 63) - 1
# What it takes to say how long a piece of a message is.
_LENGTH_BYTES = 11


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file cannot be merged. `is_unsupported`: with no file, rather than not with the first."""

    reason: str
    message: str
    is_unsupported: bool = False


class FileMerger:
    """The result as far as it is known. `user_metadata` replaces what files say under these names."""

    def __init__(self, user_metadata: Mapping[str, bytes]) -> None:
        self._own_metadata = dict(user_metadata)
        self._first: Tail | None = None
        self._shape: tuple[object, ...] = ()
        self._block_size = 0
        self._user_metadata: dict[str, bytes] = {}
        self._software_version: str | None = None
        self._stripes: list[StripeInformation] = []
        self._stripe_statistics: list[StatisticsList] = []
        self._statistics_bytes = 0
        self._stripes_are_known = True
        self._columns = _Columns()
        self.length = len(MAGIC)
        """Bytes of the result up to its last stripe's end."""
        self.row_count = 0

    @property
    def is_empty(self) -> bool:
        """Whether no file was added."""
        return self._first is None

    @property
    def stripe_count(self) -> int:
        return len(self._stripes)

    def refusal(self, tail: Tail) -> Refusal | None:
        """Why the file cannot be added; None where it can."""
        refusal = _not_understood(tail)
        if refusal is not None or self._first is None:
            return refusal
        for reason, what, there, here in self._differences(self._first, tail):
            if there != here:
                return Refusal(reason, f"{what} is {here}, that of the first file {there}")
        for name, value in tail.footer.user_metadata.items():
            if name not in self._own_metadata and self._user_metadata.get(name, value) != value:
                return Refusal("user_metadata", f"its user metadata {name!r} differs from an earlier file's")
        return None

    def _differences(self, first: Tail, tail: Tail) -> Iterable[tuple[str, str, object, object]]:
        """Reason, words, and both sides of what must be equal."""
        if _shape(tail.footer.schema) != self._shape:
            there, here = str(first.footer.schema), str(tail.footer.schema)
            if there == here:
                there, here = "another in its attributes", "one"
            yield "schema", "its schema", there, here
        one, other = first.postscript, tail.postscript
        yield "compression", "its compression", one.compression.name, other.compression.name
        yield "file_version", "its format version", _dotted(one.version), _dotted(other.version)
        yield "writer", "the number of its writer", first.footer.writer, tail.footer.writer
        yield "writer_version", "its writer version", one.writer_version, other.writer_version
        strides = first.footer.row_index_stride, tail.footer.row_index_stride
        yield "row_index_stride", "its row index stride", *strides
        yield "calendar", "its calendar", _calendar(first).name, _calendar(tail).name

    def add(self, tail: Tail, statistics: Sequence[StatisticsList]) -> list[ByteRange]:
        """Append a file's stripes, with their statistics; answers what to copy of it, in this order.

        The file must not be one that `refusal` speaks against. What lies side by side in the file is one
        range. Raises `CorruptTail` where the statistics of the file cannot be parsed.
        """
        footer = tail.footer
        if self.row_count + footer.row_count > _MAX_ROWS:
            raise CorruptTail(f"a file of {footer.row_count} rows makes more than 2^63 in all")
        self._columns.add(footer)
        if self._first is None:
            self._first = replace(tail, metadata=None, ending=b"")
            self._shape = _shape(footer.schema)
            self._software_version = footer.software_version
        elif footer.software_version != self._software_version:
            self._software_version = None
        self._block_size = max(self._block_size, tail.postscript.compression_block_size)
        self._user_metadata.update(footer.user_metadata)
        self._add_statistics(statistics, len(footer.stripes))
        for stripe in footer.stripes:
            moved = replace(stripe, index=len(self._stripes), offset=self.length, first_row=self.row_count)
            self._stripes.append(moved)
            self.length += stripe.range.length
            self.row_count += stripe.row_count
        return _joined(stripe.range for stripe in footer.stripes)

    def _add_statistics(self, statistics: Sequence[StatisticsList], stripe_count: int) -> None:
        if not self._stripes_are_known:
            return
        for stripe in statistics[:stripe_count]:
            self._statistics_bytes += _LENGTH_BYTES + sum(
                len(one) + _LENGTH_BYTES for one in stripe.serialized
            )
            if self._statistics_bytes > METADATA_CAP_BYTES:
                self._stripes_are_known = False
                return
            self._stripe_statistics.append(stripe)
        self._stripes_are_known = len(statistics) >= stripe_count

    def ending(self) -> bytes:
        """All that follows the last stripe.

        Raises `Unsupported` where the footer gets so long that nobody would read it.
        """
        assert self._first is not None, "no file was added"
        footer = replace(
            self._first.footer,
            stripes=tuple(self._stripes),
            row_count=self.row_count,
            statistics=self._columns.serialized(),
            user_metadata={**self._user_metadata, **self._own_metadata},
            software_version=self._software_version,
            calendar=_calendar(self._first),
            header_length=len(MAGIC),
            content_length=self.length,
        )
        if len(serialize_footer(footer)) > MESSAGE_CAP_BYTES:
            raise Unsupported(
                f"a footer for {len(self._stripes)} stripes is longer than the {MESSAGE_CAP_BYTES} bytes "
                "that are read of one: merge fewer files",
                reason="metadata_too_large",
            )
        postscript = self._first.postscript
        compression = postscript.compression
        return tail_bytes(
            footer,
            self._stripe_statistics,
            compression=compression,
            block_size=self._block_size,
            compressor=None if compression is Compression.NONE else Compressor(compression),
            version=postscript.version,
            writer_version=postscript.writer_version,
        )


def _not_understood(tail: Tail) -> Refusal | None:
    """What speaks against a file, whichever others there are."""
    postscript, footer = tail.postscript, tail.footer
    if tail.file_length == 0:
        return Refusal(EMPTY, "the file has no bytes, and so no schema", True)
    if footer.encryption is not None:
        return Refusal("encrypted", "encrypted files cannot be merged", True)
    if not postscript.version_is_known:
        version = _dotted(postscript.version)
        return Refusal("unknown_version", f"format version {version} is not known", True)
    known = footer.writer in _OTHER_WRITERS and postscript.writer_version == _OTHER_VERSION
    if footer.writer == _JAVA:
        known = postscript.writer_version in _JAVA_VERSIONS
    if not known:
        named = f"version {postscript.writer_version} of writer {footer.writer}"
        return Refusal("unknown_writer", f"{named} is not known, nor what it means by its tails", True)
    if postscript.compression_block_size >= MAX_BLOCK_SIZE:
        return Refusal("block_size", f"compression blocks of {MAX_BLOCK_SIZE} bytes are not written", True)
    return None


def _shape(schema: Schema) -> tuple[object, ...]:
    """What makes two schemas the same; the order of attributes does not."""
    return tuple(
        (
            type_.kind,
            len(type_.children),
            type_.field_names,
            type_.max_length,
            type_.precision,
            type_.scale,
            type_.crs,
            type_.algorithm,
            tuple(sorted(dict(type_.attributes).items())),
        )
        for type_ in schema.types
    )


def _calendar(tail: Tail) -> Calendar:
    """ORC Java's files from before there was the field are hybrid."""
    if tail.footer.calendar is Calendar.UNKNOWN and tail.footer.writer == _JAVA:
        return Calendar.JULIAN_GREGORIAN
    return tail.footer.calendar


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _joined(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """Ranges in their order, those in one that go on where the one before them stops."""
    joined: list[ByteRange] = []
    for one in ranges:
        if one.length == 0:
            continue
        if joined and joined[-1].stop == one.start:
            joined[-1] = ByteRange(joined[-1].start, one.stop)
        else:
            joined.append(one)
    return joined


# --- statistics of the file ------------------------------------------------------------------------


class _Columns:
    """Statistics by column id over all files with rows."""

    def __init__(self) -> None:
        self._merged: list[ColumnStatistics] = []
        self._are_known = True
        self._have_rows = False

    def add(self, footer: Footer) -> None:
        if not self._are_known or (footer.row_count == 0 and self._have_rows):
            return
        found = _recorded(footer)
        if found is None:
            # A file without rows says nothing that could be missed.
            self._are_known = footer.row_count == 0
        elif not self._have_rows:
            self._merged = found
            self._have_rows = footer.row_count > 0
        else:
            try:
                self._merged = [_joint(*both) for both in zip(self._merged, found, strict=True)]
            except ValueError:  # of different kinds: one of the writers was wrong
                self._are_known = False

    def serialized(self) -> StatisticsList:
        if not self._are_known or any(column.value_count is None for column in self._merged):
            return StatisticsList(())
        try:
            return statistics_list(self._merged)
        except ValueError:  # numbers that fit no more
            return StatisticsList(())


def _joint(one: ColumnStatistics, other: ColumnStatistics) -> ColumnStatistics:
    if (one.bytes_on_disk is None) != (other.bytes_on_disk is None):
        # ORC Java leaves out 0, and the files are of one writer.
        one, other = (replace(each, bytes_on_disk=each.bytes_on_disk or 0) for each in (one, other))
    joint = merge(one, other)
    # A bound that is NaN says that nothing is known: ORC C++ compares no further once it has met one.
    bounds = [(each.minimum, each.maximum) for each in (one, other) if each.value_count]
    if any(_is_nan(minimum) for minimum, _ in bounds):
        joint = replace(joint, minimum=math.nan)
    if any(_is_nan(maximum) for _, maximum in bounds):
        joint = replace(joint, maximum=math.nan)
    return joint


def _is_nan(bound: object) -> bool:
    return isinstance(bound, float) and math.isnan(bound)


def _recorded(footer: Footer) -> list[ColumnStatistics] | None:
    """The statistics of all columns; None where some are missing."""
    found: list[ColumnStatistics] = []
    for type_ in footer.schema.types:
        column = footer.statistics.get(type_.column_id)
        if column is None or column.value_count is None:
            return None
        found.append(column)
    if footer.row_count and _is_unrecorded(found[0]):
        return None
    structs = [type_ for type_ in footer.schema.types if type_.kind is Kind.STRUCT]
    fields = [child for type_ in structs if found[type_.column_id].value_count for child in type_.children]
    if any(_is_unrecorded(found[child.column_id]) for child in fields):
        return None
    return found


def _is_unrecorded(column: ColumnStatistics) -> bool:
    """Neither values nor nulls, in a column that has some: a writer that did not count (HIVE-20604)."""
    return column.value_count == 0 and column.has_null is not True
