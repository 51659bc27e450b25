"""Errors about values that a file is to hide: they say which column and row, and not the value.

Knows which columns are encrypted or masked. Must not know how values are checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from orcstream.codec.encoder import EncodeOptions
from orcstream.codec.ingest import IngestedRows
from orcstream.errors import SchemaMismatch
from orcstream.schema import Schema

__all__ = ["discreetly"]


def discreetly(
    batches: Iterator[IngestedRows], schema: Schema, options: EncodeOptions
) -> Iterator[IngestedRows]:
    """The batches; a `SchemaMismatch` over a value of a hidden column is told without it."""
    while True:
        failure: SchemaMismatch | None = None
        rows: IngestedRows | None = None
        try:
            rows = next(batches, None)
        except SchemaMismatch as error:
            if not (options.encrypted or options.masked):
                raise
            failure = _without_value(error, schema, options)
        if failure is not None:  # out here, so that the error that has the value does not come along
            raise failure
        if rows is None:
            return
        yield rows


def _without_value(error: SchemaMismatch, schema: Schema, options: EncodeOptions) -> SchemaMismatch:
    if error.row is None:
        return error  # about the data as a whole
    shown = "a column"
    if error.column is not None:
        roots = (*options.encrypted, *options.masked)
        if not any(error.column in schema.types[root].column_ids for root in roots):
            return error
        path, type_ = next(one for one in schema.walk() if one[1].column_id == error.column)
        shown = f"the column {'.'.join(path)!r}, which is {type_},"
    return SchemaMismatch(
        f"{shown} is given a value that it does not take; what is encrypted or masked is not shown",
        column=error.column,
        row=error.row,
    )
