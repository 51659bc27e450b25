"""A profile of many files: what their columns hold and cost, and which of them indexes prune.

Knows how profiles become a table. Must not know where numbers come from (`profiling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from orcstream.spark.access import Access
from orcstream.spark.jobs.distributing import Distribute, Progress, SparkTasks
from orcstream.spark.jobs.looking import found_pieces, looked_at
from orcstream.spark.jobs.profiling import ColumnProfile, merged_columns, profile_piece
from orcstream.spark.jobs.tables import check_report, distinct_counts, write_table
from orcstream.spark.write.target import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELDS: Final = {
    "name": "string",
    "type": "string",
    "value_count": "bigint",
    "null_count": "bigint",
    "minimum": "string",
    "maximum": "string",
    "distinct": "bigint",
    "stored_bytes": "bigint",
    "plain_bytes": "bigint",
    "compression_ratio": "double",
    "stream_bytes": "map<string, bigint>",
    "encodings": "map<string, bigint>",
    "row_group_count": "bigint",
    "point_share": "double",
    "range_share": "double",
}
PROFILE_SCHEMA: Final = ", ".join(f"`{name}` {type_}" for name, type_ in _FIELDS.items())
PIECE_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """All `columns`, in the order of the files' schemas.

    `file_count` files have `row_count` rows, and `length` bytes together.
    """

    file_count: int
    row_count: int
    length: int
    columns: tuple[ColumnProfile, ...]

    def __getitem__(self, name: str) -> ColumnProfile:
        return next(one for one in self.columns if one.name == name)

    def to_df(self, spark: SparkSession) -> DataFrame:
        """The columns as a table."""
        rows = [tuple(getattr(one, name) for name in _FIELDS) for one in self.columns]
        return spark.createDataFrame(rows, PROFILE_SCHEMA)


def profile(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    distinct: bool = True,
    report: str | None = None,
    journal: str | None = None,
    storage_options: dict[str, object] | None = None,
    keys: str | None = None,
    progress: Progress | None = None,
) -> ProfileResult:
    """What the columns of all files below `paths` hold, what they cost, and which of them indexes prune.

    Everything but `distinct` comes from metadata: no row is decoded. With it, rows are read, and the numbers
    of different values estimated by Spark's `approx_count_distinct`. `report` is a folder that gets the
    columns as a table of ORC files, in place of an earlier one; it is one of its own (`UsageError`). With
    `journal`, a folder, what was looked at is recorded there: a job that was killed and is started again with
    it goes on.

    Raises what `orcstream.open` raises.
    """
    access = Access(storage_options or {}, keys)
    listed = [paths] if isinstance(paths, str) else list(paths)
    check_report(report, listed)
    counts = distinct_counts(spark, listed, access) if distinct else None
    folder = None if journal is None else Folder(journal, access)
    found = profile_with(SparkTasks(spark, progress), listed, access, distinct=counts, journal=folder)
    if report is not None:
        write_table(found.to_df(spark), report, access)
    return found


def profile_with(
    distribute: Distribute,
    paths: Sequence[str],
    access: Access,
    *,
    distinct: Mapping[str, int] | None = None,
    piece_bytes: int = PIECE_BYTES,
    journal: Folder | None = None,
) -> ProfileResult:
    """As `profile`, on anything that does units of work."""
    pieces = found_pieces(distribute, paths, access, piece_bytes=piece_bytes)
    found = looked_at(
        distribute, "profiling", pieces, profile_piece, access, piece_bytes=piece_bytes, journal=journal
    )
    lengths = {piece.url: piece.length for piece in pieces}
    return ProfileResult(
        len(lengths),
        sum(one["rows"] for one in found),
        sum(lengths.values()),
        tuple(merged_columns(found, distinct)),
    )
