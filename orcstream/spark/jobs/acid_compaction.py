"""Compaction of a transactional table: its driver begins and commits, tasks write the files of buckets.

Knows who does what. Must not know what a compaction makes, nor who says what is committed (`orcstream.acid`).
Nothing counts before the commit, so there is nothing to be gone on with: who was killed leaves a transaction
open, and files that nobody sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from orcstream import acid
from orcstream._keywords import check_integer
from orcstream.spark.access import Access, run
from orcstream.spark.jobs.distributing import Distribute, Progress, SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TableToCompact:
    """Which table is compacted, and how; see `compact_table`."""

    url: str
    kind: Literal["minor", "major"] = "minor"
    partitions: Sequence[str] | None = None
    metastore: str | None = None
    table: str | None = None
    access: Access = field(default_factory=Access)


@dataclass(frozen=True, slots=True)
class _How:
    """What a task needs to write a piece. Values only."""

    access: Access
    memory_limit: int
    options: Mapping[str, Any]

    async def write(self, piece: acid.CompactionPiece) -> int:
        return await acid.write_piece(
            piece,
            memory_limit=self.memory_limit,
            storage_options=self.access.storage_options,
            keys=await self.access.key_provider(),
            **self.options,
        )


def compact_table(
    spark: SparkSession,
    url: str,
    *,
    kind: Literal["minor", "major"] = "minor",
    partitions: Sequence[str] | None = None,
    metastore: str | None = None,
    table: str | None = None,
    memory_limit: int = 256 << 20,
    storage_options: dict[str, object] | None = None,
    keys: str | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> acid.Compaction:
    """Compact a Hive transactional table: as `AcidTable.compact`, its buckets side by side.

    `kind` is "minor" or "major", `partitions` are paths such as ``country=DE``, all by default. `metastore`
    and `table` are for a table that Hive shares, as of `orcstream.acid.open_table`. Each task has
    `memory_limit` bytes. `keys` is where the keys of encrypted columns are, and `options` are those of
    `orcstream.create` for the files that are made (``encrypt`` among them).

    The driver begins a transaction and gives signs of life; a task writes the file of one bucket of a
    partition; the driver commits. Readers and writers are not disturbed. A task that is tried again, or that
    runs beside another of the same bucket, finds the file of the first or makes it. A job that fails leaves
    nothing; one whose driver is killed leaves a transaction open and files that nobody sees: run it again.

    Raises what `AcidTable.compact` raises on the driver, and what Spark raises where a task has failed.
    """
    what = TableToCompact(url, kind, partitions, metastore, table, Access(storage_options or {}, keys))
    return compact_table_with(SparkTasks(spark, progress), what, memory_limit=memory_limit, options=options)


def compact_table_with(
    distribute: Distribute,
    what: TableToCompact,
    *,
    memory_limit: int = 256 << 20,
    options: Mapping[str, Any] | None = None,
) -> acid.Compaction:
    """As `compact_table`, on anything that does units of work."""
    check_integer("memory_limit", memory_limit, 1)
    how = _How(what.access, memory_limit, options or {})
    table = run(partial(_open, what))
    try:
        compaction = run(partial(table.begin_compaction, what.kind, partitions=what.partitions))
        try:
            counts = distribute("writing buckets", compaction.pieces, partial(_write, how))
            return run(partial(compaction.commit, counts))
        except BaseException as error:
            run(partial(compaction.give_up, error))
            raise
    finally:
        run(table.aclose)


async def _open(what: TableToCompact) -> acid.AcidTable:
    return await acid.open_table(
        what.url,
        metastore=what.metastore,
        table=what.table,
        storage_options=what.access.storage_options,
        keys=await what.access.key_provider(),
    )


def _write(how: _How, piece: acid.CompactionPiece) -> int:
    return run(partial(how.write, piece))
