"""The file tail from the last bytes of a file: either it is all there, or exactly what is missing.

Knows how postscript, footer and metadata lie at a file's end, and the habits of real files there. Must
not fetch anything. Contract: `plan_tail` is a pure function of bytes; it asks for more at most once, for
exactly the footer's missing bytes, and every byte of the answer is checked. Specification: "File Tail".
The other messages of a file, stripe footers and indexes, are decompressed as its postscript says.

    [header "ORC"][stripes ...][encrypted stripe statistics][metadata][footer][postscript][its length]

A tail can be kept as bytes (`Tail.to_bytes`): what of it lies in the file, as it lies there, behind a head.

    magic 7, version 1, check sum 16, then what the sum covers:
    file length 8, length of the fingerprint 4, fingerprint (UTF-8), bytes of the file up to its end
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import overload

from orcstream.byterange import ByteRange, BytesLike
from orcstream.codec.metadata.parse import (
    measure_stripe_footer,
    parse_footer,
    parse_metadata,
    parse_postscript,
    parse_stripe_footer,
)
from orcstream.codec.metadata.structure import (
    Calendar,
    Footer,
    Postscript,
    StatisticsList,
    StripeFooter,
    StripeInformation,
)
from orcstream.codec.metadata.wire import (
    AT_ONCE_BYTES,
    MESSAGE_CAP_BYTES,
    Room,
    message_cap,
    metadata_limit,
)
from orcstream.codec.streams.compression import Compression, decompress_metadata
from orcstream.errors import CorruptTail, FormatError, NotOrcFile, Unsupported, UsageError, located
from orcstream.schema.column_statistics import Trust, trust_of
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type

MAGIC = b"ORC"
_PARQUET_MAGIC = b"PAR1"
# Statistics of 10,000 columns in 1,000 stripes take some 200 MB; they are cut up, not parsed as a whole.
METADATA_CAP_BYTES = 256 << 20

# The last byte is the version of what follows it.
_SAVED_MAGIC = b"ORCTAIL\x01"
_SUM_BYTES = 16
_SAVED_HEAD = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Need:
    """The suffix is too short: fetch these bytes, which end where it begins, and plan again with both."""

    range: ByteRange


@dataclass(frozen=True, slots=True)
class Large:
    """The suffix is long enough, but its footer takes long to parse: call `plan_tail` again, on a thread."""


@dataclass(frozen=True, slots=True)
class Tail:
    """All that a file says about itself at its end: `postscript` and `footer` as checked values.

    `file_length` is in bytes. Whoever opens the same files again and again keeps their tails
    (`to_bytes`), some kilobytes each; `open` with one sends no request. `metadata` holds the file
    metadata (stripe statistics) as they lie in the file, where the suffix had them; they are parsed by
    `parse_stripe_statistics` when somebody asks. `stripe_statistics` are those that are encrypted,
    likewise. `ending` is what follows both: the footer as it lies in the file, the postscript and its
    length. `fingerprint` tells versions of the object apart; it is empty where the store has none.
    """

    postscript: Postscript
    footer: Footer
    file_length: int
    metadata: bytes | None
    ending: bytes = b""
    fingerprint: str = ""
    stripe_statistics: bytes | None = b""

    def __repr__(self) -> str:
        footer = self.footer
        return f"<Tail: {footer.row_count} rows, {len(footer.stripes)} stripes, {self.file_length} bytes>"

    def to_bytes(self) -> bytes:
        """The tail as bytes for `from_bytes`: little more than what of it lies in the file."""
        # Headers may hold bytes that are no UTF-8.
        fingerprint = self.fingerprint.encode(errors="surrogateescape")
        head = _SAVED_HEAD.pack(self.file_length, len(fingerprint))
        body = b"".join((head, fingerprint, self.held))
        return b"".join((_SAVED_MAGIC, _check_sum(body), body))

    @classmethod
    def from_bytes(cls, data: BytesLike) -> Tail:
        """The tail that `to_bytes` made these bytes of.

        Raises `UsageError` for bytes that it did not make, or another version of it, or that were damaged;
        `FormatError` and `Unsupported` as opening the file would.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise UsageError(f"a saved tail is bytes, not {type(data).__name__}")
        saved = bytes(data)
        start = len(_SAVED_MAGIC) + _SUM_BYTES
        if saved[: len(_SAVED_MAGIC) - 1] != _SAVED_MAGIC[:-1] or len(saved) < start + _SAVED_HEAD.size:
            raise UsageError("these bytes are no saved tail: they are not what Tail.to_bytes makes")
        if saved[: len(_SAVED_MAGIC)] != _SAVED_MAGIC:
            raise UsageError("this tail was saved by another version of orcstream; open the file without it")
        body = saved[start:]
        if _check_sum(body) != saved[len(_SAVED_MAGIC) : start]:
            raise UsageError("this saved tail was damaged: its check sum is wrong")
        file_length, fingerprint_bytes = _SAVED_HEAD.unpack_from(body)
        held_at = _SAVED_HEAD.size + fingerprint_bytes
        fingerprint = body[_SAVED_HEAD.size : held_at].decode(errors="surrogateescape")
        planned = plan_tail(memoryview(body)[held_at:], file_length)
        if not isinstance(planned, Tail):
            raise UsageError("this saved tail was damaged: it is cut short")
        return replace(planned, fingerprint=fingerprint)

    @property
    def held(self) -> bytes:
        """All bytes of the file that are kept here; they end where the file ends."""
        return (self.stripe_statistics or b"") + (self.metadata or b"") + self.ending

    @property
    def footer_range(self) -> ByteRange:
        """The (compressed) file footer."""
        stop = max(0, self.file_length - 1 - self.postscript.length)  # 0: a file of no bytes
        return ByteRange(stop - self.postscript.footer_length, stop)

    @property
    def metadata_range(self) -> ByteRange:
        """The (compressed) file metadata."""
        stop = self.footer_range.start
        return ByteRange(stop - self.postscript.metadata_length, stop)

    @property
    def stripe_statistics_range(self) -> ByteRange:
        """The encrypted stripe statistics, stream after stream, variant after variant."""
        stop = self.metadata_range.start
        return ByteRange(stop - self.postscript.stripe_statistics_length, stop)


@overload
def plan_tail(suffix: memoryview, file_length: int) -> Need | Tail: ...
@overload
def plan_tail(suffix: memoryview, file_length: int, *, at_once: bool) -> Need | Large | Tail: ...
def plan_tail(suffix: memoryview, file_length: int, *, at_once: bool = False) -> Need | Large | Tail:
    """The tail from the last bytes of a file of `file_length` bytes.

    With `at_once`, the answer is `Large` where the footer takes long to parse. A file of no bytes is an empty
    table, as for ORC Java: Hive leaves such files for empty buckets.
    """
    if len(suffix) > file_length:
        raise CorruptTail(f"{len(suffix)} bytes at the end of a file of {file_length}")
    if file_length == 0:
        return _empty_tail()
    if len(suffix) == 0:
        return Need(ByteRange(max(0, file_length - 256), file_length))
    postscript_length = suffix[-1]
    if postscript_length == 0 or postscript_length + 1 > file_length:
        raise NotOrcFile(
            f"{_what_else(suffix, file_length)}: the last byte gives the postscript {postscript_length} "
            f"bytes, in a file of {file_length}",
            file_offset=file_length - 1,
        )
    if postscript_length + 1 > len(suffix):
        return _need(file_length, len(suffix), postscript_length + 1)
    try:
        postscript = parse_postscript(bytes(suffix[-1 - postscript_length : -1]))
        if postscript.tail_bytes > file_length:
            raise CorruptTail(f"a tail of {postscript.tail_bytes} bytes in a file of {file_length}")
    except (FormatError, Unsupported) as error:
        error.locate(file_offset=file_length - 1 - postscript_length)
        if isinstance(error, NotOrcFile):
            error.message = f"{_what_else(suffix, file_length)}: {error.message}"
        raise
    if postscript.footer_length > MESSAGE_CAP_BYTES:
        raise Unsupported(
            f"a file footer of {postscript.footer_length} bytes, more than {MESSAGE_CAP_BYTES}",
            reason="metadata_too_large",
            file_offset=file_length - 1 - postscript_length,
        )
    if not postscript.has_magic and len(suffix) == file_length and suffix[:3] != MAGIC:
        # Files of Hive 0.11.0 have the magic at their start only. Where that was not fetched, a footer that
        # parses is proof enough: a round trip for three bytes would prove less.
        raise NotOrcFile("no 'ORC' at the start of the file nor in its postscript", file_offset=0)
    wanted = 1 + postscript_length + postscript.footer_length
    if wanted > len(suffix):
        return _need(file_length, len(suffix), wanted)
    return _tail(suffix, postscript, file_length, at_once=at_once)


def _what_else(suffix: memoryview, file_length: int) -> str:
    """What a file is that does not end as ORC files do, for people."""
    if suffix[-4:] == _PARQUET_MAGIC:
        return "this is a Parquet file"
    if len(suffix) == file_length and suffix[:3] == MAGIC:
        return "an ORC file that was cut short, or is still being written"
    return "not an ORC file, or cut short"


def _need(file_length: int, have: int, wanted: int) -> Need:
    return Need(ByteRange(file_length - wanted, file_length - have))


def _tail(suffix: memoryview, postscript: Postscript, file_length: int, *, at_once: bool) -> Large | Tail:
    stop = len(suffix) - 1 - postscript.length
    start = stop - postscript.footer_length
    cap_bytes = AT_ONCE_BYTES if at_once else message_cap(file_length)
    try:
        try:
            footer_bytes = _decompress(suffix[start:stop], postscript, cap_bytes, "file footer")
        except Unsupported:
            if at_once:  # few bytes may decompress to many
                return Large()
            raise
        footer = parse_footer(footer_bytes, postscript, file_length)
    except (FormatError, Unsupported) as error:
        if not postscript.has_magic and isinstance(error, FormatError):
            raise NotOrcFile(f"no magic in the postscript, and {error.message}") from error
        error.locate(file_offset=file_length - len(suffix) + start)
        raise
    metadata_start = start - postscript.metadata_length
    metadata = bytes(suffix[metadata_start:start]) if metadata_start >= 0 else None
    encrypted_start = metadata_start - postscript.stripe_statistics_length
    encrypted = bytes(suffix[encrypted_start:metadata_start]) if encrypted_start >= 0 else None
    ending = bytes(suffix[start:])
    return Tail(postscript, footer, file_length, metadata, ending, stripe_statistics=encrypted)


def parse_stripe_statistics(tail: Tail, metadata: bytes) -> tuple[StatisticsList, ...]:
    """Column statistics of each stripe; shorter than the list of stripes where a writer left some out.

    `metadata` are the bytes of `tail.metadata_range`.
    """
    try:
        limit = metadata_limit(tail.file_length)
        cap_bytes = min(METADATA_CAP_BYTES, limit // 2)
        data = _decompress(memoryview(metadata), tail.postscript, cap_bytes, "file metadata")
        room = Room(limit, "statistics of the stripes")
        return parse_metadata(data, len(tail.footer.stripes), tail.footer.schema.column_count, room)
    except (FormatError, Unsupported) as error:
        error.locate(file_offset=tail.metadata_range.start)
        raise


def _check_sum(body: bytes) -> bytes:
    return blake2b(body, digest_size=_SUM_BYTES).digest()


def _decompress(data: memoryview, postscript: Postscript, cap_bytes: int, what: str) -> bytes:
    try:
        return decompress_metadata(data, postscript.compression, postscript.compression_block_size, cap_bytes)
    except FormatError as error:
        raise CorruptTail(f"the {what} cannot be decompressed: {error.message}") from error


def _empty_tail() -> Tail:
    postscript = Postscript(
        length=0,
        footer_length=0,
        compression=Compression.NONE,
        compression_block_size=256 << 10,
        version=(0, 12),
        metadata_length=0,
        writer_version=0,
        stripe_statistics_length=0,
        has_magic=False,
    )
    footer = Footer(
        schema=Schema(Type(Kind.STRUCT)),
        stripes=(),
        row_count=0,
        row_index_stride=0,
        statistics=StatisticsList(()),
        user_metadata={},
        writer=0,
        software_version=None,
        calendar=Calendar.UNKNOWN,
        encryption=None,
        header_length=0,
        content_length=0,
    )
    return Tail(postscript, footer, 0, b"")


def check_footer_length(stripe: StripeInformation) -> None:
    """Before the footer of a stripe is fetched: one that claims more than any may have is `Unsupported`."""
    if stripe.footer_length > MESSAGE_CAP_BYTES:
        raise Unsupported(
            f"a stripe footer of {stripe.footer_length} bytes, more than {MESSAGE_CAP_BYTES}",
            reason="metadata_too_large",
            stripe=stripe.index,
        )


def footer_of(tail: Tail, stripe: StripeInformation, data: memoryview) -> StripeFooter:
    """The footer of a stripe from the bytes of its `footer_range`."""
    with located(stripe=stripe.index, file_offset=stripe.footer_range.start):
        footer = decompress_message(tail, data)
        return parse_stripe_footer(footer, stripe, tail.footer.schema, tail.footer.encryption)


def check_footer(tail: Tail, stripe: StripeInformation, data: memoryview) -> None:
    """Raise `CorruptStripe` for a footer whose stripe cannot be read, as far as that is known at once."""
    if tail.footer.encryption is not None:
        footer_of(tail, stripe, data)
        return
    with located(stripe=stripe.index, file_offset=stripe.footer_range.start):
        measure_stripe_footer(decompress_message(tail, data), stripe, tail.footer.schema)


def decompress_message(tail: Tail, data: memoryview, most_bytes: int | None = None) -> bytes:
    """A footer or an index stream; of `most_bytes` at most, where that is less than any may have."""
    postscript = tail.postscript
    cap_bytes = message_cap(tail.file_length)
    if most_bytes is not None:
        cap_bytes = min(cap_bytes, max(0, most_bytes))
    return decompress_metadata(data, postscript.compression, postscript.compression_block_size, cap_bytes)


def is_large(tail: Tail, data: memoryview) -> bool:
    """Whether a message takes longer to parse than other tasks of a loop should wait."""
    if len(data) > AT_ONCE_BYTES // 4:
        return True
    try:
        decompress_message(tail, data, AT_ONCE_BYTES)
    except Unsupported:
        return True
    except FormatError:  # raised by who parses it
        return False
    return False


def trust_in(tail: Tail) -> Trust:
    """Which of a file's own numbers may be believed."""
    footer, postscript = tail.footer, tail.postscript
    return trust_of(footer.writer, postscript.writer_version, footer.software_version, postscript.version)
