"""What a file cannot hold of vectors that fit its schema: times that would come back as others.

Knows which times are lost on their way through a file. Must not know where vectors come from. All else that
fits a vector of a type (`codec.ingest.fitting`) can be written. Specification: "Timestamp Columns"; ORC-763.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orcstream.codec.crypto.masks import REDACT, keeps_days, keeps_times
from orcstream.codec.encode.encoder import EncodeOptions
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.codec.vectors._times import unwritable_days, unwritable_timestamps
from orcstream.codec.vectors.cells import union_children
from orcstream.codec.vectors.column import Field, Vector
from orcstream.codec.vectors.times import UTC, units_of
from orcstream.encryption import Mask
from orcstream.errors import SchemaMismatch
from orcstream.schema.types import Kind

_LATE, _SKIPPED, _FAR = 1, 2, 3
_Found = tuple[Field, tuple[str, ...], int | None, int]


def check_writable(rows: IngestedRows, options: EncodeOptions, *, lossy_timestamps: bool) -> None:
    """Raise SchemaMismatch for the first value that would not be read back as it is.

    These are times that the writer's zone or calendar skips, those too far away and, unless
    `lossy_timestamps`, those of the last second before 1970 with parts of a millisecond or more, which every
    reader takes to be a second later. Where only a mask of them is written, it is what the mask keeps that
    has to be written.
    """
    walk = _Walk(options, 1 << _LATE if lossy_timestamps else 0)
    for field, vector in zip(rows.fields, rows.vectors, strict=True):
        for found, path, row, why in walk.unwritable(field, vector, (field.name,), None):
            raise SchemaMismatch(
                f"the column {'.'.join(path)!r} {_problem(why, options)}",
                column=found.type.column_id,
                row=row,
            )


def _problem(why: int, options: EncodeOptions) -> str:
    if why == _LATE:
        return (
            "has a time in the last second before 1970, which ORC files hold in whole seconds only "
            "(ORC-763); with lossy_timestamps=True it is written as ORC Java does, and read a second late"
        )
    if why == _FAR:
        return "has a time too many seconds from 1970 for the format"
    return (
        f"has a time that the zone {options.zone.name} or the calendar skips; write with timezone='UTC' "
        "and calendar='proleptic'"
    )


@dataclass(frozen=True, slots=True)
class _Walk:
    """`passed` has a bit for each reason that is none here."""

    options: EncodeOptions
    passed: int

    def unwritable(
        self, field: Field, vector: Vector, path: tuple[str, ...], mask: Mask | None, *, is_row: bool = True
    ) -> Iterator[_Found]:
        """The first value of each column that cannot be written; its row where rows are those of the data.

        `mask` is that of a column around this one.
        """
        type_ = field.type
        mask = self.options.masked.get(type_.column_id, mask)
        if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.DATE):
            is_day = type_.kind is Kind.DATE
            row, why = self._days(vector, mask) if is_day else self._times(field, vector, mask)
            if why:
                yield field, path, row if is_row else None, why
            return
        for child, part in _children(field, vector):
            below = is_row and type_.kind is Kind.STRUCT
            yield from self.unwritable(child, part, (*path, child.name), mask, is_row=below)

    def _times(self, field: Field, vector: Vector, mask: Mask | None) -> tuple[int, int]:
        passed = self.passed
        if mask is not None and not keeps_times(mask):
            if mask.name != REDACT:
                return -1, 0
            # Whole seconds are left, of clocks that show them; but the year may be as far.
            passed |= 1 << _LATE | 1 << _SKIPPED
        zone = UTC if field.format[4:] else self.options.zone
        return unwritable_timestamps(
            vector.buffers[1],
            vector.buffers[0],
            vector.offset,
            vector.length,
            zone.transitions,
            zone.offsets,
            self.options.hybrid,
            units_of(field.format),
            passed,
        )

    def _days(self, vector: Vector, mask: Mask | None) -> tuple[int, int]:
        if not self.options.hybrid or (mask is not None and not keeps_days(mask)):
            return -1, 0
        row = unwritable_days(vector.buffers[1], vector.buffers[0], vector.offset, vector.length)
        return row, _SKIPPED if row >= 0 else 0


def _children(field: Field, vector: Vector) -> Iterator[tuple[Field, Vector]]:
    match field.type.kind:
        case Kind.STRUCT:
            yield from zip(field.children, vector.struct_children(), strict=True)
        case Kind.LIST:
            yield field.children[0], vector.children[0]
        case Kind.MAP:
            (entries,) = vector.children
            yield from zip(field.children[0].children, entries.struct_children(), strict=True)
        case Kind.UNION:
            yield from zip(field.children, union_children(field, vector), strict=True)
