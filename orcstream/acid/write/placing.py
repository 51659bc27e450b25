"""Where rows that are inserted go: to which partition, and there to which bucket.

Knows what the user gives, what the table is partitioned and bucketed by, and Hive's constraints of its rows.
NOT NULL is checked here. A DEFAULT is Hive's expression for rows without the column, so they must name it. A
CHECK is an expression of Hive's SQL, which only Hive evaluates. Must not know transactions, files, nor ids of
rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orcstream.acid.read.row_ids import Ints
from orcstream.acid.transactions.contract import (
    Constraint,
    TableDefinition,
    full_schema,
    partition_schema,
)
from orcstream.acid.write.bucketing import buckets_of_rows
from orcstream.codec.encode.grouping import only
from orcstream.codec.encode.writable import discreetly
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.codec.vectors.column import validity
from orcstream.errors import ColumnNotFound, SchemaMismatch, Unsupported, UsageError
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.plan.acid.names import HIVES_NAMES, escape
from orcstream.schema.schema import Schema, find_column
from orcstream.schema.types import FileColumn, Kind, Type
from orcstream.writer.partitions import Partitioner
from orcstream.writer.template import UrlTemplate


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows of one bucket of a partition, which is named by its path below the table."""

    partition: str
    bucket: int
    rows: IngestedRows


class Placing:
    """Tells the places of rows of a table."""

    def __init__(self, definition: TableDefinition, hidden: Sequence[str | tuple[str, ...]] = ()) -> None:
        """`hidden` names columns of the table's files whose values errors must not show."""
        self._definition = definition
        self._hidden = hidden
        self._names = tuple(name for name, _ in definition.partitions)
        self._partitioner = self.partitioner(full_schema(definition), self._names)
        named = partition_schema(definition)
        self._named = self.partitioner(named, self._names, keep=True) if self._names else None

    async def placed(self, data: object, partition: Mapping[str, Any] | None) -> AsyncIterator[Placed]:
        """The rows of `data`, a piece at a time, by their own partition columns or in a `partition`.

        `data` is what `OrcWriter.write` takes; `partition` has the values by name. Raises `SchemaMismatch`
        for data that does not fit, `UsageError` for a partition that is none of the table's.
        """
        fixed = None if partition is None else self.path_of(partition)
        schema = self._definition.schema if partition is not None else self._partitioner.schema
        given = self.user_data(data)
        _check_named(self._definition.constraints, data, given)
        batches, first_row = self.vectors(given, schema), 0
        while (rows := await run_in_thread(lambda: next(batches, None))) is not None:
            self.check(rows, first_row)
            first_row += rows.row_count
            parts = self._split(rows) if fixed is None else [(fixed, rows)]
            for path, part in parts:
                for bucket, some in await self._by_bucket(part):
                    yield Placed(path, bucket, some)

    def user_data(self, data: object) -> UserData:
        """The data, of which errors show no hidden values."""
        return UserData(data, hides_values=bool(self._hidden))

    def vectors(self, given: UserData, schema: Schema) -> Iterator[IngestedRows]:
        """`given.vectors`, with errors that show no hidden values; `schema` has columns of the table."""
        return discreetly(given.vectors(schema), schema, [*self._hidden_roots(schema)])

    def _hidden_roots(self, schema: Schema) -> Iterator[FileColumn]:
        root = schema.root
        if not self._definition.insert_only:  # in files of events, the rows are a column
            root = Type(Kind.STRUCT, (root,), (HIVES_NAMES.row,))
        for name in self._hidden:
            try:
                path = find_column(root, name)
            except ColumnNotFound:
                continue  # an error where the file is made, or a partition column
            type_ = root
            for index in path:
                type_ = type_.children[index]
            yield type_.column_id

    def check(self, rows: IngestedRows, first_row: int = 0) -> None:
        """Raise for rows that break a constraint; see `_check_rows`."""
        _check_rows(self._definition.constraints, rows, first_row)

    def partitioner(self, schema: Schema, names: Sequence[str], *, keep: bool = False) -> Partitioner:
        """Splits rows of a `schema` that has the partition columns `names`, by the table's own folders."""
        template = UrlTemplate.of_folders(names)
        return Partitioner(schema, template, keep=keep, as_hive=self._definition.by_position)

    def path_of(self, partition: Mapping[str, Any]) -> str:
        """The path of a partition, given its values by name: the one that rows with these values go to.

        Raises `SchemaMismatch` for a value that its column cannot hold.
        """
        if set(partition) != set(self._names):
            raise UsageError(f"partition names values of {', '.join(self._names) or 'no columns'}")
        if self._named is None:
            return ""
        (rows,) = UserData([dict(partition)]).vectors(self._named.schema)
        ((where, _),) = self._named.split(rows)
        return partition_path(where.texts)

    def _split(self, rows: IngestedRows) -> list[tuple[str, IngestedRows]]:
        return [(partition_path(where.texts), part) for where, part in self._partitioner.split(rows)]

    async def _by_bucket(self, rows: IngestedRows) -> list[tuple[int, IngestedRows]]:
        definition = self._definition
        if not definition.bucket_count:
            return [(0, rows)]
        columns = [definition.schema.names.index(name) for name in definition.bucket_columns]
        numbers = await run_in_thread(lambda: buckets_of_rows(rows, columns, definition.bucket_count))
        return list(by_bucket(definition, rows, numbers))


def by_bucket(
    definition: TableDefinition, rows: IngestedRows, buckets: Ints
) -> Iterator[tuple[int, IngestedRows]]:
    """The rows of each bucket, where `buckets` says that of each row."""
    schema = definition.schema
    columns = range(len(schema.names))
    for bucket in np.unique(buckets):
        positions = np.flatnonzero(buckets == bucket)
        whole = len(positions) == rows.row_count
        yield int(bucket), rows if whole else only(rows, columns, schema, positions)


def partition_path(texts: Sequence[tuple[str, str]]) -> str:
    """The path of a partition below the table, of names and of values as texts that may stand in a path."""
    return "/".join(f"{escape(name)}={text}" for name, text in texts)


# --- constraints -----------------------------------------------------------------------------------


def _check_rows(constraints: Iterable[Constraint], rows: IngestedRows, first_row: int = 0) -> None:
    """Raise `SchemaMismatch` for rows that break a constraint, `Unsupported` where nobody can tell.

    `first_row` is the number of the first of them in the data.
    """
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


def _check_named(constraints: Iterable[Constraint], data: object, given: UserData) -> None:
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
