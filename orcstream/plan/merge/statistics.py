"""Statistics of joined files: bounds, counts and sums over all of them, as far as all are known.

Knows statistics as values. Must not know where files keep them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from orcstream.codec.metadata.structure import Footer, StatisticsList
from orcstream.codec.metadata.write import statistics_list
from orcstream.schema.column_statistics import ColumnStatistics, merge
from orcstream.schema.types import Kind


class ColumnMerger:
    """Statistics of some columns, over all files with rows."""

    def __init__(self) -> None:
        self._merged: list[ColumnStatistics] = []
        self._are_known = True
        self._have_rows = False

    def add(self, found: list[ColumnStatistics] | None, row_count: int) -> None:
        """Those of one file, the same columns each time; None where something is missing."""
        if not self._are_known or (row_count == 0 and self._have_rows):
            return
        if found is None:
            # A file without rows says nothing that could be missed.
            self._are_known = row_count == 0
        elif not self._have_rows:
            self._merged = found
            self._have_rows = row_count > 0
        else:
            try:
                self._merged = [_joint(*both) for both in zip(self._merged, found, strict=True)]
            except ValueError:  # of different kinds: one of the writers was wrong
                self._are_known = False

    def serialized(self) -> StatisticsList:
        """Those of all; none where something is not known."""
        if not self._are_known or any(column.value_count is None for column in self._merged):
            return StatisticsList(())
        try:
            return statistics_list(self._merged)
        except ValueError:  # numbers that fit no more
            return StatisticsList(())


def _joint(one: ColumnStatistics, other: ColumnStatistics) -> ColumnStatistics:
    if (one.bytes_on_disk is None) != (other.bytes_on_disk is None):
        # ORC Java leaves out 0, and the files are of one writer.
        one, other = (replace(each, bytes_on_disk=each.bytes_on_disk or 0) for each in (one, other))
    joint = merge(one, other)
    # A bound that is NaN says that nothing is known: ORC C++ compares no further once it has met one.
    bounds = [(each.minimum, each.maximum) for each in (one, other) if each.value_count]
    if any(_is_nan(minimum) for minimum, _ in bounds):
        joint = replace(joint, minimum=math.nan)
    if any(_is_nan(maximum) for _, maximum in bounds):
        joint = replace(joint, maximum=math.nan)
    return joint


def _is_nan(bound: object) -> bool:
    return isinstance(bound, float) and math.isnan(bound)


def recorded(footer: Footer) -> list[ColumnStatistics] | None:
    """The statistics of all columns; None where some are missing."""
    found: list[ColumnStatistics] = []
    for type_ in footer.schema.types:
        column = footer.statistics.get(type_.column_id)
        if column is None or column.value_count is None:
            return None
        found.append(column)
    if footer.row_count and _is_unrecorded(found[0]):
        return None
    structs = [type_ for type_ in footer.schema.types if type_.kind is Kind.STRUCT]
    fields = [child for type_ in structs if found[type_.column_id].value_count for child in type_.children]
    if any(_is_unrecorded(found[child.column_id]) for child in fields):
        return None
    return found


def _is_unrecorded(column: ColumnStatistics) -> bool:
    """Neither values nor nulls, in a column that has some: a writer that did not count (HIVE-20604)."""
    return column.value_count == 0 and column.has_null is not True
