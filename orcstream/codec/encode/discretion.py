"""Errors about values that a file hides: they name the column and the row, but not the value.

Knows which columns are encrypted or masked. Must not know how values are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from orcstream.codec.ingest.ingest import IngestedRows, stream_failure
from orcstream.errors import SchemaMismatch, SourceError
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn


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
        path, type_ = next(one for one in schema.walk() if one[1].column_id == error.column)
        shown = f"the column {'.'.join(path)!r}, which is {type_},"
    return SchemaMismatch(
        f"{shown} is given a value that it does not take; what is encrypted or masked is not shown",
        column=error.column,
        row=error.row,
    )
