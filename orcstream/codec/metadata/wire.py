"""The bytes of protobuf messages: what their parts may take in memory, and the parts by themselves.

Knows the wire format's tags and lengths, and what a parsed message takes, part by part, as measured. Must
not know what the parts mean. A few kilobytes decompress to millions of parts, and each takes 100 bytes and
some microseconds. So parts are counted before anything is made of them, and what they would take is
compared with a limit: 64 MiB, or eight times the file's length where that is more, because files of
thousands of columns and stripes need that much.

Messages whose parts are mostly never needed, and which may be larger than a parsed message may be, are cut
into those parts. Contract: the pieces are views of the data given, at most `limit` of them; bytes that are
no protobuf message are `CorruptTail`, and so is one with more other fields than any format would have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from orcstream.codec.metadata._wire import count_parts, find_field
from orcstream.errors import CorruptStripe, CorruptTail, FormatError, Unsupported
from orcstream.schema.types import Type, steps_of

AT_ONCE_BYTES = 16 << 10
"""Messages of up to so many bytes, decompressed, are parsed on the loop; longer ones on a thread."""

AT_ONCE_COLUMNS = 2000
"""Likewise of columns, or of streams of a stripe: what is done for each takes up to 30 microseconds."""

MOST_POSITIONS = 64
"""Of an entry of a row index: no column has so many streams that it needs more than 14."""

MESSAGE_CAP_BYTES = 32 << 20
"""Of one message, decompressed. Its bytes exist up to four times while it is parsed."""

_LEAST_LIMIT = 64 << 20
_MOST_LIMIT = 1 << 30
_BYTES_OF_FILE = 8
_COPIES = 4

# A message of hundreds of megabytes of two bytes each would keep a reader busy for minutes.
_MAX_OTHERS = 100_000
# What each part takes besides its bytes, however short it is: a file claims millions for next to nothing.
_PART_BYTES = 44

_LEAF, _PACKED = -1, -2


def _table(*messages: dict[int, int]) -> npt.NDArray[np.int8]:
    table = np.full((len(messages), 16), _LEAF, np.int8)
    for kind, fields in enumerate(messages):
        for number, child in fields.items():
            table[kind, number] = child
    return table


_Costs = tuple[int, int]


def _measured(*messages: tuple[dict[int, int], _Costs]) -> tuple[npt.NDArray[np.int8], list[_Costs]]:
    return _table(*(fields for fields, _ in messages)), [costs for _, costs in messages]


# Numbers of fields as in proto/orc_proto.proto, and the places of their kinds in these lists; bytes for each
# message, and for each field or packed number in it.
_FOOTER, _FOOTER_COSTS = _measured(
    ({3: 1, 4: 2, 5: 4, 10: 5}, (0, 80)),  # Footer
    ({}, (400, 0)),  # StripeInformation
    ({2: _PACKED, 7: 3}, (450, 120)),  # Type
    ({}, (200, 0)),  # StringPair
    ({}, (400, 0)),  # UserMetadataItem
    ({1: 6, 2: 7, 3: 8}, (0, 0)),  # Encryption
    ({3: _PACKED}, (400, 120)),  # DataMask
    ({}, (400, 0)),  # EncryptionKey
    ({4: 9}, (500, 0)),  # EncryptionVariant
    ({}, (250, 0)),  # Stream
)
_STRIPE_FOOTER, _STRIPE_FOOTER_COSTS = _measured(
    ({1: 1, 2: 2, 4: 3}, (0, 0)),  # StripeFooter
    ({}, (400, 0)),  # Stream
    ({}, (250, 0)),  # ColumnEncoding
    ({1: 1, 2: 2}, (500, 0)),  # StripeEncryptionVariant
)
# Bloom filters: the index, and the filters with their words.
BLOOM_INDEX = _table({1: 1}, {2: _PACKED})
# Of a path beside the characters of its names.
_STEP_BYTES = 8
# A stripe names its local keys beside five numbers and the id of its keys.
_STRIPE, _STRIPE_FIELDS, _KEY_BYTES = 1, 6, 120
# Each column has at most one stream of each kind that is known; those of later formats are few.
_STREAMS_OF_COLUMN = 16


@dataclass(slots=True, eq=False)
class Room:
    """What several messages may take in memory together; `advice` says what gives them more."""

    limit: int
    what: str
    advice: str = ""
    taken: int = 0

    @property
    def left(self) -> int:
        """How many bytes more may be taken."""
        return self.limit - self.taken

    def take(self, size: int) -> None:
        """Count bytes that are about to be taken.

        Raises `Unsupported` (``metadata_too_large``) where they are more than are left.
        """
        self.taken += size
        if self.taken > self.limit:
            raise Unsupported(
                f"the {self.what} would take {self.taken} bytes of memory, and may take {self.limit}"
                f"{self.advice and '; '}{self.advice}",
                reason="metadata_too_large",
            )


def metadata_limit(file_length: int) -> int:
    """How many bytes the metadata of a file of so many bytes may take in memory."""
    return min(max(_LEAST_LIMIT, _BYTES_OF_FILE * file_length), _MOST_LIMIT)


def message_cap(file_length: int) -> int:
    """How many bytes a message of such a file may decompress to."""
    return min(MESSAGE_CAP_BYTES, metadata_limit(file_length) // _COPIES)


def check_footer_parts(data: bytes, file_length: int) -> None:
    """Whether the parts of a file footer fit into memory. Raises ValueError for what is no message."""
    if len(data) <= AT_ONCE_BYTES:
        return
    counts = count_parts(data, _FOOTER)
    stripes, fields = counts[_STRIPE]
    keys = max(0, fields - _STRIPE_FIELDS * stripes)
    size = _COPIES * len(data) + _size(counts, _FOOTER_COSTS) + keys * _KEY_BYTES
    Room(metadata_limit(file_length), "file footer").take(size)


def check_paths(root: Type, file_length: int) -> None:
    """Whether the paths of all columns, from the root down, fit into memory; dotted names are made of them.

    Long names of structs that lie in each other are repeated for each column below: 80 KB of file made 4 GB.
    """
    size = 0
    left = [(0, root)]
    while left:
        above, node = left.pop()
        size += above
        if node.children:
            steps = zip(steps_of(node), node.children, strict=True)
            left.extend((above + len(step) + _STEP_BYTES, child) for step, child in steps)
    Room(metadata_limit(file_length) // _COPIES, "paths of the columns").take(size)


def check_stripe_footer_parts(data: bytes, column_count: int) -> None:
    """Whether a stripe footer has no more parts than so many columns can have, those of variants included."""
    if len(data) <= AT_ONCE_BYTES:
        return
    counts = count_parts(data, _STRIPE_FOOTER)
    most = _STREAMS_OF_COLUMN * (column_count + 1)
    if max(streams := counts[1][0], counts[2][0]) > most:
        raise CorruptStripe(f"{streams} streams and {counts[2][0]} encodings for {column_count} columns")
    Room(_MOST_LIMIT, "stripe footer").take(_size(counts, _STRIPE_FOOTER_COSTS))


def _size(counts: list[tuple[int, int]], costs: list[_Costs]) -> int:
    return sum(
        messages * whole + fields * part
        for (messages, fields), (whole, part) in zip(counts, costs, strict=True)
    )


# --- the parts by themselves -----------------------------------------------------------------------


def split_field(data: memoryview, number: int, limit: int, what: str) -> list[memoryview]:
    """Views of the length-delimited field `number`, at most `limit` of them; others are passed over."""
    try:
        places, others = find_field(data, number, limit)
    except ValueError as error:
        raise CorruptTail(f"the {what} cannot be parsed: {error}") from error
    if others > _MAX_OTHERS:
        raise CorruptTail(f"the {what} has more than {_MAX_OTHERS} fields that nobody knows")
    ends = iter(memoryview(places).cast("q"))
    pieces = [data[start:stop] for start, stop in zip(ends, ends, strict=True)]
    if len(pieces) > limit:
        raise CorruptTail(f"the {what} has more than the {limit} parts that the file has use for")
    return pieces


def split_each(
    messages: Iterable[memoryview], number: int, limit: int, what: str, room: Room
) -> Iterator[tuple[bytes, ...]]:
    """Copies of the parts of each message, as `split_field` finds them; they take some of `room`."""
    for message in messages:
        parts = split_field(message, number, limit, what)
        room.take(len(message) + len(parts) * _PART_BYTES)
        yield tuple(map(bytes, parts))


@contextmanager
def foreign(error_class: type[FormatError], what: str) -> Iterator[None]:
    """What goes wrong in foreign code on foreign bytes (protobuf, UTF-8, integers) is the file's fault."""
    try:
        yield
    except (DecodeError, ValueError, OverflowError) as error:
        raise error_class(f"the {what} cannot be parsed: {error}") from error
