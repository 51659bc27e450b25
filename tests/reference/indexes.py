"""Row indexes and bloom filters of a stripe (specification: "Indexes"), honest or not.

`Encoder` notes, for each column, its values and where each row group begins in them, and for each stream
that can be sought in, which of its values come first in a group. `Index.streams` makes the index streams of
that. What a writer may choose or get wrong is an option of `Index`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from . import blooms, compression, positions, wire
from .statistics import Statistics, honest
from .types import T

ROW_INDEX = 6
Form = Literal["bits", "bytes", "integers", "plain"]
Positions = Callable[[int, int, list[int]], list[int]]


@dataclass(frozen=True)
class Cells:
    """A column's values, nulls among them, and which of them begin the row groups."""

    type_: T
    found: Sequence[Any]
    marks: Sequence[int]


@dataclass(frozen=True)
class Seat:
    """A stream that can be sought in; `marks` count its values, or its bytes where the form is plain."""

    kind: int
    data: bytes
    form: Form
    marks: Sequence[int]


@dataclass
class Index:
    """How a stripe is indexed."""

    stride: int = 10_000
    statistics: Statistics = honest
    bloom_kinds: tuple[int, ...] = ()
    bloom_columns: tuple[int, ...] | None = None
    """Column ids with filters; None is all that can have them."""
    bloom_share: float = 0.05
    bloom_encoding: int | None = None
    """What the footer says of the filters; None is what fits their kind."""
    empty_blooms: bool = False
    """Filters that hold nothing: a lie that drops every group asked for one value."""
    runs_back: int = 0
    """Positions begin so many runs early, and skip the more values."""
    late: bool = False
    """A run's or chunk's first value is told as the end of the one before it."""
    positions: Positions = field(default=lambda _column, _group, numbers: numbers)
    """Called with column, group and the right numbers; answers those to write."""

    def marks(self, row_count: int) -> list[int]:
        return list(range(0, row_count, self.stride)) if self.stride else []

    def streams(
        self,
        cells: dict[int, Cells],
        seats: dict[int, list[Seat]],
        *,
        version: Callable[[int], int],
        frame: Callable[[bytes], bytes],
        kind: int,
        block_size: int,
    ) -> list[tuple[int, int, bytes]]:
        """(kind, column, data) of every index stream, in the order of Java's writer."""
        out = []
        for column, one in sorted(cells.items()):
            parts = [one.found[start:stop] for start, stop in _spans(one)]
            places: list[list[int]] = [[] for _ in parts]
            for seat in seats.get(column, []):  # PRESENT is made first, the others in the order of positions
                for group, numbers in enumerate(
                    self._seat(seat, version(column), frame(seat.data), kind, block_size)
                ):
                    places[group] += numbers
            entries = [
                wire.message(
                    (1, self.positions(column, group, places[group])), (2, self.statistics(one.type_, part))
                )
                for group, part in enumerate(parts)
            ]
            out.append((ROW_INDEX, column, wire.message(*wire.repeated(1, entries))))
            if self.has_bloom(column, one.type_):
                out += [
                    (
                        bloom,
                        column,
                        wire.message(*wire.repeated(1, [self._bloom(one.type_, p, bloom) for p in parts])),
                    )
                    for bloom in self.bloom_kinds
                ]
        return out

    def has_bloom(self, column: int, type_: T) -> bool:
        wanted = self.bloom_columns is None or column in self.bloom_columns
        return bool(self.bloom_kinds) and wanted and type_.kind in _FILTERED

    def encoding_of(self, column: int, type_: T) -> int | None:
        """The `bloom_encoding` of a column's entry in the stripe footer."""
        if self.bloom_encoding is not None:
            return self.bloom_encoding
        return 1 if self.has_bloom(column, type_) and blooms.BLOOM_FILTER_UTF8 in self.bloom_kinds else None

    def _bloom(self, type_: T, part: Sequence[Any], kind: int) -> bytes:
        bits, functions = blooms.size_of(max(1, self.stride), self.bloom_share)
        found = [] if self.empty_blooms else [blooms.hash_of(type_, v) for v in part if v is not None]
        return blooms.message(
            blooms.make([h for h in found if h is not None], bits, functions), functions, kind
        )

    def _seat(self, seat: Seat, version: int, framed: bytes, kind: int, block_size: int) -> list[list[int]]:
        back, late = self.runs_back, self.late
        if seat.form == "plain":
            found: list[tuple[int, ...]] = [(mark,) for mark in seat.marks]
        elif seat.form == "integers":
            runs = positions.integer_runs(seat.data, version)
            found = [positions.place(runs, mark, back=back, late=late) for mark in seat.marks]
        else:
            runs = positions.byte_runs(seat.data)
            make = positions.bit_place if seat.form == "bits" else positions.place
            found = [make(runs, mark, back=back, late=late) for mark in seat.marks]
        if kind == compression.NONE:
            return [list(numbers) for numbers in found]
        return [
            [*positions.chunk_place(numbers[0], framed, block_size, late=late), *numbers[1:]]
            for numbers in found
        ]


_FILTERED = frozenset(
    "tinyint smallint int bigint float double string varchar char binary date decimal timestamp".split()
) | {"timestamp with local time zone"}


def _spans(cells: Cells) -> list[tuple[int, int]]:
    ends = [*cells.marks[1:], len(cells.found)] if cells.marks else []
    return list(zip(cells.marks, ends, strict=True))
