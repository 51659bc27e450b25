"""Constraints that Hive declares of a table's columns, and enforces on its own writes: these are ours.

Must not know who declares them. NOT NULL is checked here. A DEFAULT is Hive's expression for rows without the
column, so they must name it. A CHECK is an expression of Hive's SQL, which only Hive evaluates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from orcstream.errors import SchemaMismatch, Unsupported

if TYPE_CHECKING:
    from orcstream.codec.ingest.ingest import IngestedRows, UserData

ConstraintKind: TypeAlias = Literal["NOT NULL", "DEFAULT", "CHECK"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that is enabled. `expression` is Hive's; a CHECK of a whole row has no `column`."""

    kind: ConstraintKind
    name: str
    column: str
    expression: str = ""


def check_rows(constraints: Iterable[Constraint], rows: IngestedRows, first_row: int = 0) -> None:
    """Raise `SchemaMismatch` for rows that break a constraint, `Unsupported` where nobody can tell.

    `first_row` is the number of the first of them in the data.
    """
    from orcstream.codec.vectors.cells import validity

    names = [field.name.lower() for field in rows.fields]
    for one in constraints:
        if one.kind == "CHECK" and rows.row_count:
            raise Unsupported(
                f"Hive's constraint {one.name} is CHECK {one.expression}, which only Hive evaluates: write "
                "such rows with Hive, or disable the constraint",
                reason="check_constraint",
            )
        if one.kind == "NOT NULL" and one.column in names:
            at = names.index(one.column)
            valid = validity(rows.fields[at].type, rows.vectors[at])
            if valid is not None and not valid.all():
                row = first_row + int(np.flatnonzero(~valid)[0])
                raise SchemaMismatch(
                    f"column {one.column!r} is null in row {row}; Hive's constraint {one.name} is NOT NULL"
                )


def check_named(constraints: Iterable[Constraint], data: object, given: UserData) -> None:
    """Raise `SchemaMismatch` where rows lack a column for which Hive declares a DEFAULT."""
    wanted = [one for one in constraints if one.kind == "DEFAULT"]
    if not wanted:
        return
    for names in _names_of(data, given):
        lowered = {name.lower() for name in names}
        for one in wanted:
            if one.column not in lowered:
                raise SchemaMismatch(
                    f"the data lacks column {one.column!r}; Hive's constraint {one.name} is DEFAULT "
                    f"{one.expression}: give the column's values"
                )


def _names_of(data: object, given: UserData) -> Iterable[Iterable[str]]:
    """The names of the columns, of each row where they may differ; rows that are sequences have all."""
    if isinstance(data, Sequence):
        return (row for row in data if isinstance(row, Mapping))
    return [given.schema().names]
