"""What is asked of the columns of a table: those of its rows, and those that its folders name.

Knows how both stand side by side, and what a partition's values leave of a predicate. Must not know files.
"""

from __future__ import annotations

from orcstream.query.expr import Expr
from orcstream.reader.options import Columns, ReadOptions
from orcstream.schema.schema import Schema, find_column, numbered
from orcstream.schema.types import Kind, Type, steps_of
from orcstream.table.narrowing import narrowed
from orcstream.table.partition_values import PartitionColumns, PartitionRow


def with_partitions(row: Type, columns: PartitionColumns) -> Type:
    """The struct of a table's columns, numbered anew."""
    if columns.names:
        names = (*row.field_names, *columns.names)
        row = Type(Kind.STRUCT, (*row.children, *columns.types), names)
    return numbered(row, attributes=False).root


class AskedColumns:
    """The columns of one read. `root` is the table's struct, `row` that of its rows.

    `projected` are those that were asked for, `of_rows` the paths of those among them that files are asked
    for. Raises `ColumnNotFound` and other `UsageError` for what cannot be asked.
    """

    def __init__(
        self,
        root: Type,
        row: Type,
        partitions: PartitionColumns,
        options: ReadOptions,
    ) -> None:
        self._root = root
        self._options = options
        self._partitions = frozenset(partitions.names)
        self.projected = Schema(root).select(options.columns, options.case_sensitive)
        self.of_rows = self._of_rows(row, options.columns)
        if options.expr is not None:
            from orcstream.query.binding import bind

            bind(options.expr, root, options.matching)

    def narrowed(self, row: PartitionRow) -> Expr | bool:
        """What is left to be asked of the rows of a partition; true or false where its values decide."""
        options = self._options
        if options.expr is None:
            return True
        return narrowed(options.expr, self._root, row.values, row.holds, options.matching)

    def _of_rows(self, row: Type, columns: Columns | None) -> list[tuple[str, ...]]:
        if columns is None:
            return [(name,) for name in row.field_names]
        paths = [self._path(column) for column in columns]
        return [path for path in paths if path[0] not in self._partitions]

    def _path(self, column: str | tuple[str, ...]) -> tuple[str, ...]:
        names: list[str] = []
        node = self._root
        for index in find_column(node, column, case_sensitive=self._options.case_sensitive):
            names.append(steps_of(node)[index])
            node = node.children[index]
        return tuple(names)
