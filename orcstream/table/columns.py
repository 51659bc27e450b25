"""What is asked of the columns of a table: those of its rows, and those that its folders name.

Knows how both stand side by side, and brings predicates to one partition, and to where a file has the
columns. Must not know files, nor how a predicate is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from orcstream.query.expr import All, Any_, ColumnRef, Condition, Expr, Matching, Not
from orcstream.reader.options import Columns, ReadOptions
from orcstream.schema.schema import Schema, find_column, numbered
from orcstream.schema.types import Kind, Type, steps_of
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
        self.projected = root
        if options.columns is not None:
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


# Whether a condition on the partition's columns holds; a null counts as false.
Holds: TypeAlias = Callable[[Condition, Matching], bool]
# From the path of a column in the table to that in a file.
Place: TypeAlias = Callable[[tuple[str, ...]], tuple[str, ...]]


def relocated(expr: Expr, root: Type, place: Place, matching: Matching) -> Expr:
    """The same question where the table's columns lie elsewhere. `root` is the table's.

    Raises `ColumnNotFound` for a column that the table has not.
    """

    def moved(condition: Condition) -> Expr:
        path = place(_names(root, condition, matching))
        return Condition(path, condition.op, condition.values)

    return mapped(expr, moved)


def narrowed(
    expr: Expr, root: Type, partition: Mapping[str, object], holds: Holds, matching: Matching
) -> Expr | bool:
    """What is left to be asked of the rows of one partition; true or false where its columns decide.

    `root` has the table's columns and the partition's; those named in `partition` are the same in all rows.
    """

    def asked(expr: Expr, *, negated: bool) -> Expr | bool:
        # Negations go down to the conditions: there a null is as good as false.
        match expr:
            case Not():
                return asked(expr.part, negated=not negated)
            case All() | Any_():
                is_all = isinstance(expr, All) is not negated
                return _joined([asked(part, negated=negated) for part in expr.parts], is_all=is_all)
            case ColumnRef():
                return asked(Condition(expr.path, "is_true"), negated=negated)
            case Condition():
                if _names(root, expr, matching)[0] not in partition:
                    return Not(expr) if negated else expr
                return holds(expr, matching) if not negated else _is_false(expr, holds, matching)
        raise AssertionError(expr)

    return asked(expr, negated=False)


def _joined(parts: list[Expr | bool], *, is_all: bool) -> Expr | bool:
    if any(part is not is_all and isinstance(part, bool) for part in parts):
        return not is_all
    left = tuple(part for part in parts if not isinstance(part, bool))
    if not left:
        return is_all
    if len(left) == 1:
        return left[0]
    return All(left) if is_all else Any_(left)


def _is_false(condition: Condition, holds: Holds, matching: Matching) -> bool:
    """Whether it is false, which a null is not."""
    if condition.op in ("is_null", "is_not_null"):
        return not holds(condition, matching)
    return not holds(condition, matching) and not holds(Condition(condition.path, "is_null"), matching)


def mapped(expr: Expr, change: Callable[[Condition], Expr]) -> Expr:
    """The same combination of changed conditions."""
    match expr:
        case All():
            return All(tuple(mapped(part, change) for part in expr.parts))
        case Any_():
            return Any_(tuple(mapped(part, change) for part in expr.parts))
        case Not():
            return Not(mapped(expr.part, change))
        case ColumnRef():
            return change(Condition(expr.path, "is_true"))
        case Condition():
            return change(expr)
    raise AssertionError(expr)


def _names(root: Type, condition: Condition, matching: Matching) -> tuple[str, ...]:
    """The path of names that a condition asks about, from the root down."""
    names: list[str] = []
    node = root
    for index in find_column(root, condition.path, case_sensitive=matching.case_sensitive):
        names.append(steps_of(node)[index])
        node = node.children[index]
    return tuple(names)
