"""Statistics of a column over a file, a stripe or a row group, as frozen values.

Knows what each kind of column records. Must not know protobuf (`codec.metadata` fills these values from
foreign bytes) nor which writer's numbers may be believed for pruning (`plan.prune`). Contract: every value
that is not None is of the type the documentation names, decimals are finite, and a bound that could not
be read is None, which proves nothing. Specification: "Column Statistics".
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

__all__ = ["BoundingBox", "ColumnStatistics", "StatisticsKind"]

StatisticsKind = Literal["integer", "double", "string", "boolean", "decimal", "date", "timestamp", "binary"]


@dataclass(frozen=True, slots=True)
class BoundingBox:
    """The extent of geospatial values; None where a dimension does not occur."""

    xmin: float | None = None
    xmax: float | None = None
    ymin: float | None = None
    ymax: float | None = None
    zmin: float | None = None
    zmax: float | None = None
    mmin: float | None = None
    mmax: float | None = None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a writer recorded about some values of one column; None means "not recorded".

    `value_count` counts values that are not null; `has_null` is None in old files, which says nothing
    either way. `bytes_on_disk` counts data streams only. `kind` says how to read the rest, and is None for
    columns that have counts only:

    ========== ==================================================== ==============================
    kind       `minimum`, `maximum`                                 `sum`
    ========== ==================================================== ==============================
    integer    int                                                  int (None when it overflowed)
    double     float, perhaps NaN                                   float, perhaps NaN
    string     str; None when longer than 1024 bytes, then          total bytes
               `lower_bound` <= all values <= `upper_bound`
    boolean    none                                                 count of true
    decimal    Decimal                                              Decimal
    date       int, days since 1970-01-01                           none
    timestamp  int, nanoseconds since 1970-01-01 00:00:00 UTC       none
    binary     none                                                 total bytes
    ========== ==================================================== ==============================

    `local_minimum_ms` and `local_maximum_ms` are what timestamps had before ORC-135: milliseconds of a wall
    clock in a zone that is not recorded.
    """

    value_count: int | None = None
    has_null: bool | None = None
    bytes_on_disk: int | None = None
    kind: StatisticsKind | None = None
    minimum: int | float | str | Decimal | None = None
    maximum: int | float | str | Decimal | None = None
    sum: int | float | Decimal | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    local_minimum_ms: int | None = None
    local_maximum_ms: int | None = None
    min_children: int | None = None
    max_children: int | None = None
    total_children: int | None = None
    bounding_box: BoundingBox | None = None
    geospatial_types: tuple[int, ...] = ()
