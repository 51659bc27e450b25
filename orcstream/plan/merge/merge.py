"""Files joined stripe by stripe: which ones go together, what is copied, and the tail of the result.

Knows what files must share so that their stripes may lie in one file, and how a tail is made of theirs. Must
not fetch anything, nor look into a stripe. Contract: files are added in the order of their rows; one that
does not go with those before it is refused and changes nothing; after the last one, `ending` answers the
bytes that belong behind the stripes.

The rules are those of ORC Java (`OrcFile.mergeFiles`): format and writer versions that it knows; the same
schema with its attributes, compression, format version, writer, writer version, row index stride and
calendar; and the same values where two files have user metadata of one name. The longest compression block
size is that of the result. Encrypted files go together where the same columns are encrypted with the same
keys (`plan.merge.variants`).

The result promises no more than the files do: it names their writer and its version, by which readers decide
what to believe, and its software version where all have the same. Statistics of stripes are copied as they
are, up to the first stripe that has none (readers take a list that ends early as unknown from there on).
Those of the file are merged; if anything in them is unknown there are none at all, because a column without
a count is taken by some readers for one without values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.parse import MAX_BLOCK_SIZE
from orcstream.codec.metadata.structure import Calendar, StatisticsList, StripeInformation
from orcstream.codec.metadata.wire import MESSAGE_CAP_BYTES
from orcstream.codec.metadata.write import serialize_footer, tail_bytes
from orcstream.codec.streams.compression import Compression, Compressor
from orcstream.encryption import NO_KEYS, FileKeys
from orcstream.errors import CorruptTail, Unsupported
from orcstream.plan.merge.statistics import ColumnMerger, recorded
from orcstream.plan.merge.variants import OpenedStatistics, VariantMerger
from orcstream.plan.tail import MAGIC, METADATA_CAP_BYTES, Tail
from orcstream.schema.schema import Schema

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
    """The result as far as it is known. `user_metadata` replaces what files say under these names.

    With `opens`, encrypted files are taken, too; `rename` is that of `VariantMerger`.
    """

    def __init__(
        self,
        user_metadata: Mapping[str, bytes],
        *,
        opens: bool = False,
        rename: Mapping[str, str] | None = None,
    ) -> None:
        self._opens = opens
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
        self._columns = ColumnMerger()
        self.variants = VariantMerger(rename)
        self.length = len(MAGIC)
        """Bytes of the result up to its last stripe's end."""
        self.row_count = 0

    @property
    def is_empty(self) -> bool:
        """Whether no file was added."""
        return self._first is None

    @property
    def schema(self) -> Schema:
        """That of the first file, and of all in shape."""
        assert self._first is not None, "no file was added"
        return self._first.footer.schema

    @property
    def stripe_count(self) -> int:
        return len(self._stripes)

    def refusal(self, tail: Tail) -> Refusal | None:
        """Why the file cannot be added; None where it can."""
        refusal = _not_understood(tail, opens=self._opens)
        if refusal is not None or self._first is None:
            return refusal
        for reason, what, there, here in self._differences(self._first, tail):
            if there != here:
                return Refusal(reason, f"{what} is {here}, that of the first file {there}")
        for name, value in tail.footer.user_metadata.items():
            if name not in self._own_metadata and self._user_metadata.get(name, value) != value:
                return Refusal("user_metadata", f"its user metadata {name!r} differs from an earlier file's")
        return None

    def _shape_of(self, tail: Tail) -> tuple[object, ...]:
        return _shape(self.variants.renamed(tail.footer.schema))

    def _differences(self, first: Tail, tail: Tail) -> Iterable[tuple[str, str, object, object]]:
        """Reason, words, and both sides of what must be equal."""
        if self._shape_of(tail) != self._shape:
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
        shapes = [self.variants.shape(each.footer.encryption) for each in (first, tail)]
        if shapes[0] != shapes[1]:
            there, here = (_encryption_text(each) for each in (first, tail))
            yield "encryption", "its encryption", there, here if here != there else "another"

    def add(
        self, tail: Tail, statistics: Sequence[StatisticsList], opened: OpenedStatistics
    ) -> list[ByteRange]:
        """Append a file's stripes, with their statistics; answers what to copy of it, in this order.

        `statistics` are those that stand in the clear, `opened` those of encrypted columns. The file must not
        be one that `refusal` speaks against. What lies side by side in the file is one range. Raises
        `CorruptTail` where the statistics of the file cannot be parsed.
        """
        footer = tail.footer
        if self.row_count + footer.row_count > _MAX_ROWS:
            raise CorruptTail(f"a file of {footer.row_count} rows makes more than 2^63 in all")
        self._columns.add(recorded(footer), footer.row_count)
        self.variants.add(tail, opened)
        if self._first is None:
            self._first = replace(tail, metadata=None, ending=b"")
            self._shape = self._shape_of(tail)
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

    def renew(self, keys: FileKeys) -> None:
        """Give all stripes new local keys and ids; their streams are then to be encrypted anew."""
        self._stripes = [
            replace(stripe, encrypt_stripe_id=stripe.index + 1, encrypted_local_keys=keys.encrypted)
            for stripe in self._stripes
        ]

    def ending(self, keys: FileKeys = NO_KEYS) -> bytes:
        """All that follows the last stripe; `keys` where there are encrypted columns.

        Raises `Unsupported` where the footer gets so long that nobody would read it.
        """
        assert self._first is not None, "no file was added"
        postscript = self._first.postscript
        compression = postscript.compression
        compressor = None if compression is Compression.NONE else Compressor(compression)
        encryption, encrypted_statistics = None, b""
        if keys.keys:
            encryption, encrypted_statistics = self.variants.ending(
                keys, len(self._stripes), self._block_size, compressor
            )
        footer = replace(
            self._first.footer,
            schema=self.variants.renamed(self._first.footer.schema),
            encryption=encryption,
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
        return tail_bytes(
            footer,
            self._stripe_statistics,
            compression=compression,
            block_size=self._block_size,
            compressor=compressor,
            encrypted_statistics=encrypted_statistics,
            version=postscript.version,
            writer_version=postscript.writer_version,
        )


def _not_understood(tail: Tail, *, opens: bool) -> Refusal | None:
    """What speaks against a file, whichever others there are."""
    postscript, footer = tail.postscript, tail.footer
    if tail.file_length == 0:
        return Refusal(EMPTY, "the file has no bytes, and so no schema", True)
    if footer.encryption is not None and not opens:
        return Refusal("encrypted", "encrypted files are merged with keys= only", True)
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


def _encryption_text(tail: Tail) -> str:
    encryption = tail.footer.encryption
    if encryption is None or not encryption.variants:
        return "none"
    names = [encryption.keys[variant.key] for variant in encryption.variants]
    roots = [variant.root for variant in encryption.variants]
    return ", ".join(
        f"column {root} with version {key.version} of {key.name!r}"
        for root, key in zip(roots, names, strict=True)
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
