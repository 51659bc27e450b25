"""What a compaction of a partition reads and what it makes, by Hive's rules.

Knows snapshots and names. Must not know files' contents, nor how anything is merged. Pure functions over
values.

A minor compaction brings deltas together as one of inserts and one of deletes, events as they are, but for
those of aborted transactions. A major one makes a base of the rows that are there (`CompactorMR.java`). Both
stop below the lowest write id that is open: nothing may be written below what they make. A directory of
several write ids is taken when all of them have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from orcstream.plan.acid.names import AcidDirectory, DirectoryKind, delta_name
from orcstream.plan.acid.snapshot import Partition, WriteIds

CompactionKind: TypeAlias = Literal["minor", "major"]

# The write id of a base of nothing but rows from before the table was transactional.
_BEFORE_ALL = -(1 << 63)
_LEAST_DELTAS = 2


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What is made of one partition: `base`, or `inserts` and `deletes`; each None where there is none.

    These are names of directories. `replaces` are the directories whose rows are in them, by their names.
    """

    partition: str
    kind: CompactionKind
    base: str | None
    inserts: str | None
    deletes: str | None
    replaces: tuple[str, ...]

    def paths(self, *names: str | None) -> tuple[str, ...]:
        """Names of directories as paths below the table."""
        return tuple(f"{self.partition}/{name}" if self.partition else name for name in names if name)


def settled_ids(write_ids: WriteIds) -> WriteIds:
    """The write ids below the lowest that is open: the ones that a compaction may bring together."""
    if not write_ids.open:
        return write_ids
    mark = min(min(write_ids.open) - 1, write_ids.high_watermark)
    return WriteIds(mark, (), tuple(one for one in write_ids.aborted if one <= mark))


def settled_partition(partition: Partition, write_ids: WriteIds) -> Partition:
    """The partition without deltas that hold write ids above the settled ones, too: a batch that goes on."""
    deltas = tuple(one for one in partition.deltas if one.last_write_id <= write_ids.high_watermark)
    beyond = set(partition.deltas).difference(deltas)
    return replace(
        partition,
        deltas=deltas,
        inserts=tuple(file for file in partition.inserts if file.directory not in beyond),
        deletes=tuple(file for file in partition.deletes if file.directory not in beyond),
    )


def plan_compaction(partition: Partition, kind: CompactionKind, visibility: int) -> CompactionPlan | None:
    """The compaction of a partition as a reader of settled write ids sees it; None where none is needed.

    `visibility` is the transaction that the compaction runs in.
    """
    if kind == "major":
        return _major(partition, visibility)
    return _minor(partition, visibility)


def _major(partition: Partition, visibility: int) -> CompactionPlan | None:
    base = partition.base
    originals = partition.inserts if base is None else ()
    if not partition.deltas and (base is not None or not originals):
        return None
    before = _BEFORE_ALL if base is None else base.last_write_id
    last = max([before, *(one.last_write_id for one in partition.deltas)])
    replaces = (*([base] if base is not None else []), *partition.deltas)
    name = delta_name(DirectoryKind.BASE, last, last, visibility=visibility)
    return CompactionPlan(partition.path, "major", name, None, None, tuple(one.name for one in replaces))


def _minor(partition: Partition, visibility: int) -> CompactionPlan | None:
    deltas = partition.deltas
    if len({_range(one) for one in deltas}) < _LEAST_DELTAS:
        return None
    first = min(one.first_write_id for one in deltas)
    last = max(one.last_write_id for one in deltas)

    def made(kind: DirectoryKind) -> str | None:
        there = any(one.kind is kind for one in deltas)
        return delta_name(kind, first, last, visibility=visibility) if there else None

    return CompactionPlan(
        partition.path,
        "minor",
        None,
        made(DirectoryKind.DELTA),
        made(DirectoryKind.DELETE_DELTA),
        tuple(one.name for one in deltas),
    )


def _range(directory: AcidDirectory) -> tuple[int, int, int, int]:
    """What directories of one range have in common, which are not worth bringing together."""
    return (
        directory.first_write_id,
        directory.last_write_id,
        directory.statement,
        directory.visibility,
    )
