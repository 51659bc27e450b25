"""A file builder: any type tree, any streams, honest or not (specification: "File Tail", "Stripes").

Everything an honest writer would derive can be overridden, left out or contradicted. `FileBuilder.stripe`
takes streams as bytes; `tests.reference.columns` makes them from values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import compression, wire
from .statistics import Statistics
from .types import KINDS, T

MAGIC = b"ORC"


@dataclass
class Stream:
    """One stream; `data` is not yet compressed, or is taken as it is where `framed`."""

    kind: int
    column: int
    data: bytes
    framed: bool = False


@dataclass
class Options:
    """What the tail says. None leaves a field out."""

    compression: int | None = compression.NONE
    block_size: int | None = 65_536
    version: tuple[int, ...] | None = (0, 12)
    writer_version: int | None = 9
    writer: int | None = 0
    calendar: int | None = 2
    stride: int | None = 0
    magic: bool = True
    header: bytes = MAGIC
    original_chunks: bool = False
    row_count: int | None = None
    """The footer's count of rows, if it shall differ from the sum of the stripes'."""
    footer_extra: list[wire.Field] = field(default_factory=list)
    postscript_extra: list[wire.Field] = field(default_factory=list)
    metadata: bytes | None = None
    statistics: Statistics | None = None
    """Makes the statistics of stripes and file from their values; None counts the root's rows only."""
    software: str | None = None
    types: list[bytes] | None = None
    """The footer's types as messages, if they shall not be the tree's."""


class FileBuilder:
    """Stripes in, bytes out."""

    def __init__(self, type_: T, options: Options | None = None) -> None:
        self.type_ = type_
        self.options = options or Options()
        self._body = bytearray(self.options.header)
        self._stripes: list[tuple[int, int, int, int, int]] = []
        self._values: list[Mapping[int, Sequence[Any]]] = []

    def frame(self, data: bytes) -> bytes:
        kind = self.options.compression or 0
        block_size = self.options.block_size or 256 * 1024
        return compression.frame(data, kind, block_size, original=self.options.original_chunks)

    def pad(self, size: int) -> None:
        """Zeros, as writers put between stripes to align them with blocks."""
        self._body += bytes(size)

    def stripe(
        self,
        row_count: int,
        streams: Sequence[Stream],
        encodings: Sequence[tuple[int, int]],
        *,
        zone: str | None = "UTC",
        index: Sequence[Stream] = (),
        footer: bytes | None = None,
        bloom_encodings: Mapping[int, int] | None = None,
        values: Mapping[int, Sequence[Any]] | None = None,
    ) -> None:
        """Add a stripe; encodings are (kind, dictionary size), one for each column.

        `values` are those of each column, for statistics of the stripe and the file.
        """
        offset = len(self._body)
        sizes = []
        entries = []
        for group in (index, streams):
            start = len(self._body)
            for stream in group:
                framed = stream.data if stream.framed else self.frame(stream.data)
                self._body += framed
                place: list[wire.Field] = [(1, stream.kind), (2, stream.column), (3, len(framed))]
                entries.append(wire.message(*place))
            sizes.append(len(self._body) - start)
        if footer is None:
            blooms = bloom_encodings or {}
            kinds = [
                wire.message((1, kind), (2, size or None), (3, blooms.get(column)))
                for column, (kind, size) in enumerate(encodings)
            ]
            footer = wire.message(*wire.repeated(1, entries), *wire.repeated(2, kinds), (3, zone))
        framed = self.frame(footer)
        self._body += framed
        self._stripes.append((offset, sizes[0], sizes[1], len(framed), row_count))
        self._values.append(values or {})

    def build(self) -> bytes:
        o = self.options
        rows = sum(stripe[4] for stripe in self._stripes)
        stripes = [
            wire.message(*((i, number) for i, number in enumerate(stripe, 1))) for stripe in self._stripes
        ]
        # Of the other columns nothing is claimed but that there may be nulls.
        statistics = [wire.message((1, rows)), *(wire.message((10, 1)) for _ in self.type_.flatten()[1:])]
        metadata = b"" if o.metadata is None else self.frame(o.metadata)
        if o.statistics is not None:
            statistics = self._statistics(self._values)
            by_stripe = [wire.message(*wire.repeated(1, self._statistics([one]))) for one in self._values]
            metadata = self.frame(wire.message(*wire.repeated(1, by_stripe)))
        footer = self.frame(
            wire.message(
                (1, len(o.header)),
                (2, len(self._body)),
                *wire.repeated(3, stripes),
                *wire.repeated(4, _types(self.type_, 0) if o.types is None else o.types),
                (6, rows if o.row_count is None else o.row_count),
                *wire.repeated(7, statistics),
                (8, o.stride),
                (9, o.writer),
                (11, o.calendar),
                (12, o.software),
                *o.footer_extra,
            )
        )
        postscript = wire.message(
            (1, len(footer)),
            (2, o.compression),
            (3, o.block_size),
            (4, o.version),
            (5, len(metadata)),
            (6, o.writer_version),
            *o.postscript_extra,
            (8000, MAGIC if o.magic else None),
        )
        return bytes(self._body) + metadata + footer + postscript + bytes((len(postscript),))

    def _statistics(self, stripes: Sequence[Mapping[int, Sequence[Any]]]) -> list[bytes]:
        """Of each column, over the values of all these stripes."""
        make = self.options.statistics
        assert make is not None
        return [
            make(type_, [value for stripe in stripes for value in stripe[column]])
            for column, type_ in enumerate(self.type_.flatten())
        ]


def _types(type_: T, column: int) -> list[bytes]:
    """The type and its subtree, in pre-order, as messages."""
    ids, below, next_id = [], [], column + 1
    for child in type_.children:
        ids.append(next_id)
        below += _types(child, next_id)
        next_id += len(child.flatten())
    own = wire.message(
        (1, KINDS.index(type_.kind)),
        (2, ids or None),
        *wire.repeated(3, type_.names),
        (4, type_.max_length),
        (5, type_.precision),
        (6, type_.scale),
    )
    return [own, *below]
