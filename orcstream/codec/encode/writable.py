"""What of users' rows cannot be written: times that would come back as others; and errors that hide values.

Knows which times are lost on their way through a file, and which columns are encrypted or masked. Must not
know where vectors come from, nor how values are fitted to types (`codec.ingest.fitting`): all else that fits
can be written. Errors about values that a file hides name the column and the row,
but not the value. Specification: "Timestamp Columns"; ORC-763.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from orcstream.codec.crypto.masks import REDACT, keeps_days, keeps_times
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.ingest.ingest import IngestedRows, stream_failure
from orcstream.codec.vectors._times import unwritable_days, unwritable_timestamps
from orcstream.codec.vectors.cells import union_children
from orcstream.codec.vectors.column import Field, Vector
from orcstream.codec.vectors.times import UTC, units_of
from orcstream.encryption import Mask
from orcstream.errors import SchemaMismatch, SourceError
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn, Kind, dotted_names

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


# --- errors about hidden values --------------------------------------------------------------------


def discreetly(
    batches: Iterator[IngestedRows], schema: Schema, hidden: Collection[FileColumn]
) -> Iterator[IngestedRows]:
    """Yield the batches, and raise their errors without values of `hidden` columns and all below these.

    A `SourceError` of an Arrow stream loses its text: it may quote any value.
    """
    while True:
        failure: SchemaMismatch | SourceError | None = None
        rows: IngestedRows | None = None
        try:
            rows = next(batches, None)
        except SourceError:
            if not hidden:
                raise
            failure = stream_failure()
        except SchemaMismatch as error:
            if not hidden:
                raise
            failure = _without_value(error, schema, hidden)
        if failure is not None:  # out here, so that the error that has the value does not come along
            failure.__cause__ = failure.__context__ = None
            raise failure
        if rows is None:
            return
        yield rows


def _without_value(error: SchemaMismatch, schema: Schema, hidden: Collection[FileColumn]) -> SchemaMismatch:
    if error.row is None:
        return error  # about the data as a whole
    shown = "a column"
    if error.column is not None:
        if not any(error.column in schema.types[root].column_ids for root in hidden):
            return error
        name = dotted_names(schema.root)[error.column]
        shown = f"the column {name!r}, which is {schema.types[error.column]},"
    return SchemaMismatch(
        f"{shown} is given a value that it does not take; what is encrypted or masked is not shown",
        column=error.column,
        row=error.row,
    )
