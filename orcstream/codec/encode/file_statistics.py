"""The statistics of a file under construction: those of each stripe, and of all stripes together.

Knows columns of one file, or of one encrypted subtree of it. Must not know how statistics become bytes of a
tail (`codec.metadata.write`), nor encryption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orcstream.codec.encode.statistics import statistics_of_nothing
from orcstream.codec.metadata.indexes import StatisticsList
from orcstream.codec.metadata.write import statistics_list
from orcstream.schema.column_statistics import ColumnStatistics, merge
from orcstream.schema.types import Type


class FileStatistics:
    """`stripes` has the statistics of each stripe so far, by the order of the columns given."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = types
        self._merged: list[ColumnStatistics] = []
        self.stripes: list[StatisticsList] = []

    def add(self, statistics: list[ColumnStatistics]) -> None:
        """Those of one more stripe, one for each column."""
        self.stripes.append(statistics_list(statistics))
        if self._merged:
            statistics = [merge(a, b) for a, b in zip(self._merged, statistics, strict=True)]
        self._merged = statistics

    def of_columns(self) -> list[list[bytes]]:
        """Those of each column, by stripe."""
        return [[stripe.serialized[index] for stripe in self.stripes] for index in range(len(self._types))]

    def of_all(self) -> StatisticsList:
        """Those of all stripes so far."""
        merged = self._merged or [
            replace(statistics_of_nothing(type_), bytes_on_disk=0) for type_ in self._types
        ]
        return statistics_list(merged)
