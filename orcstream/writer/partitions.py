"""Rows by partition: which rows go to which files, and what of them the files hold.

Knows partition columns and their texts in paths. Must not know files, tasks or time. Contract: the rows of a
partition keep their order; nulls, and texts of no characters, are one partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orcstream.codec.encode.grouping import Coded, can_group, code, groups_of, only, without_columns
from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.errors import SchemaMismatch, UsageError
from orcstream.plan.acid.names import NULL_TEXT, escape
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind
from orcstream.writer.template import LONGEST_SEGMENT_BYTES, UrlTemplate, hive_text_of, text_of


@dataclass(frozen=True, slots=True)
class Partition:
    """The values of the partition columns, and their texts in paths, by which partitions are told apart."""

    texts: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Any], ...] = field(compare=False)


class Partitioner:
    """Splits rows of `schema`. Files have `file_schema`: without the partition columns, unless `keep`.

    Texts are those of Spark, or with `as_hive` those of Hive itself.
    """

    def __init__(self, schema: Schema, template: UrlTemplate, *, keep: bool, as_hive: bool = False) -> None:
        self.schema = schema
        self._template = template
        self._text_of = hive_text_of if as_hive else lambda value, _type: text_of(value)
        columns = template.columns
        self._names = columns
        self._at = [_place(schema, name) for name in columns]
        self._kept = [at for at in range(len(schema.root.children)) if keep or at not in self._at]
        self.file_schema = schema
        if columns and not keep:
            if not self._kept:
                raise UsageError("all columns are partition columns: there is nothing left for the files")
            self.file_schema = without_columns(schema, self._at)

    def split(self, rows: IngestedRows) -> list[tuple[Partition, IngestedRows]]:
        """The rows of each partition, as rows of the files."""
        if self.schema.root.kind is not Kind.STRUCT:
            return [(Partition((), ()), rows)]
        if not self._at:
            return [(Partition((), ()), only(rows, self._kept, self.file_schema))]
        columns = [self._coded(rows, at) for at in self._at]
        found = []
        for numbers, positions in groups_of([column for column, _ in columns], rows.row_count):
            named = list(zip(self._names, numbers, columns, strict=True))
            partition = Partition(
                tuple((name, texts[number]) for name, number, (_, texts) in named),
                tuple((name, column.values[number]) for name, number, (column, _) in named),
            )
            self._check_length(partition, int(positions[0]))
            found.append((partition, only(rows, self._kept, self.file_schema, positions)))
        return found

    def _check_length(self, partition: Partition, row: int) -> None:
        longest = self._template.longest_segment(dict(partition.texts))
        if len(longest.encode()) > LONGEST_SEGMENT_BYTES:
            raise SchemaMismatch(
                f"the values {dict(partition.values)!s:.200} make a name of {len(longest.encode())} bytes, "
                f"too long for a path: files and folders have names of at most {LONGEST_SEGMENT_BYTES} bytes",
                row=row,
            )

    def _coded(self, rows: IngestedRows, at: int) -> tuple[Coded, list[str]]:
        """The column by its distinct texts, since several values may have one; and these texts."""
        name = self.schema.names[at]
        found = code(rows.fields[at], rows.vectors[at])
        places: dict[str, int] = {}
        values: list[Any] = []
        moved = np.zeros(len(found.values), np.int64)
        for number, value in enumerate(found.values):
            text = escape(self._text_of(value, rows.fields[at].type))
            if "\0" in text:
                raise SchemaMismatch(
                    f"the column {name!r} has {value!r:.50}, and paths cannot contain the character NUL",
                    column=self.schema.root.children[at].column_id,
                    row=int(np.flatnonzero(found.numbers == number)[0]),
                )
            moved[number] = places.setdefault(text, len(places))
            if len(values) < len(places):
                values.append(None if text == NULL_TEXT else value)
        return Coded(moved[found.numbers], values), list(places)


def _place(schema: Schema, name: str) -> int:
    root = schema.root
    if root.kind is not Kind.STRUCT or schema.names.count(name) != 1:
        raise UsageError(f"there is no column {name!r} to partition by; there are {schema.names}")
    at = schema.names.index(name)
    type_ = root.children[at]
    if not can_group(type_):
        raise UsageError(f"the column {name!r} is {type_}, and there are no partitions by that")
    return at
