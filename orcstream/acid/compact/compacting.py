"""Compaction of a table: directories of events brought together as few large ones, for readers to come.

Knows which files are read and written for each bucket, and what becomes of them. Must not know Hive's rules
(`plan.acid.compaction`), how a file is made (`acid.compact.piece`), nor who says what is committed. What is
made counts when its transaction is committed; what it stands in for stays where it is until `clean` removes
it, since readers of earlier snapshots need it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from orcstream.acid.compact.piece import CompactionPiece, Content, PieceWriter
from orcstream.acid.snapshot import TableSnapshot
from orcstream.acid.transactions.contract import (
    Snapshot,
    TableDefinition,
    Transaction,
    Transactions,
    Work,
    kept_alive,
)
from orcstream.acid.view import TableView
from orcstream.acid.write.event_writer import VERSION
from orcstream.errors import UsageError
from orcstream.io import small_files
from orcstream.io.contract.folder import below
from orcstream.io.folders import remove_files, remove_folders
from orcstream.io.loop.uncancelled import clean_up, until_over
from orcstream.plan.acid.compaction import (
    CompactionKind,
    CompactionPlan,
    plan_compaction,
    settled_ids,
    settled_partition,
)
from orcstream.plan.acid.names import parse_directory
from orcstream.plan.acid.snapshot import VERSION_FILE, AcidFile, Partition


@dataclass(frozen=True, slots=True)
class CompactedPartition:
    """What became of the partition at `path`: `directories` were made, in place of those that it `replaces`.

    These are paths below the table. `kind` is that of the compaction. `row_count` rows and `delete_count`
    deletes were written.
    """

    path: str
    kind: CompactionKind
    directories: tuple[str, ...]
    replaces: tuple[str, ...]
    row_count: int
    delete_count: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction that was committed, in a transaction that is in the names of what it made.

    `transaction_id` is 0 where there was nothing to do. `partitions` of the table at `url` were compacted.
    """

    url: str
    transaction_id: int
    partitions: tuple[CompactedPartition, ...]


class TableCompaction:
    """A compaction that was begun, and gives signs of life until it is committed or given up.

    Whoever began it has each of its `pieces` written, in whatever order and wherever, and commits it then, or
    gives it up. Belongs to the loop it was begun in.
    """

    def __init__(self, table: TableView, definition: TableDefinition, transaction: Transaction) -> None:
        self._table = table
        self._definition = definition
        self._transaction = transaction
        self._alive = AsyncExitStack()
        self._plans: list[CompactionPlan] = []
        self._of_any_version: set[str] = set()  # directories that may hold updates of before Hive 3
        self._pieces: list[CompactionPiece] = []

    @property
    def table(self) -> TableView:
        """The table with the columns that the compaction writes."""
        return self._table

    @property
    def transaction_id(self) -> int:
        """The transaction, which is in the names of what is made."""
        return self._transaction.transaction_id

    @property
    def pieces(self) -> tuple[CompactionPiece, ...]:
        """The files to be written; none where there is nothing to do."""
        return tuple(self._pieces)

    async def plan(self, kind: CompactionKind, wanted: Callable[[Partition], bool]) -> None:
        """Find out what a compaction of this `kind` makes of `wanted` partitions, and make the directories.

        Called once, by `AcidTable.begin_compaction`.
        """
        await self._alive.enter_async_context(kept_alive(self._transaction))
        view = await self._table.seen(_settled(self._transaction.snapshot))
        for listed in filter(wanted, view.partitions):
            one = settled_partition(listed, view.write_ids)
            plan = plan_compaction(one, kind, self.transaction_id)
            if plan is not None:
                await self._transaction.lock("insert", [one.path])
                self._plans.append(plan)
                if _may_hold_updates(view.snapshot, one):
                    self._of_any_version.update(plan.paths(plan.inserts))
                self._pieces += _pieces(view.snapshot, one, plan, self._definition)
        for path in self._version_files():
            await small_files.put(
                below(self._table.place, path),
                VERSION.encode(),
                overwrite=True,
                storage_options=self._table.storage_options,
            )

    def _version_files(self) -> list[str]:
        """What a directory of events since Hive 3 has, even if it comes to hold no rows."""
        if self._definition.insert_only:
            return []
        made = [path for plan in self._plans for path in _made(plan)]
        return [f"{path}/{VERSION_FILE}" for path in made if path not in self._of_any_version]

    async def commit(self, row_counts: Sequence[int]) -> Compaction:
        """Let all of it count; `row_counts` are those of the pieces, in their order.

        Raises `CommitFailed` where another compaction was first, `CommitUnknown` where the answer was lost:
        `give_up` then, as after any other error.
        """
        if len(row_counts) != len(self._pieces):
            raise UsageError(f"there are {len(self._pieces)} pieces, and {len(row_counts)} counts of rows")
        url = self._table.url
        if not self._plans:
            await self._transaction.abort()
            await self._alive.aclose()
            return Compaction(url, 0, ())
        counts: Counter[tuple[str, Content]] = Counter()
        for piece, count in zip(self._pieces, row_counts, strict=True):
            counts[piece.directory, piece.content] += count
        done = tuple(_compacted(plan, counts) for plan in self._plans)
        directories = tuple(path for one in done for path in one.directories)
        replaces = tuple(path for one in done for path in one.replaces)
        await self._transaction.commit(Work(directories, replaces=replaces))
        await self._alive.aclose()
        return Compaction(url, self.transaction_id, done)

    async def give_up(self, error: BaseException) -> None:
        """Leave nothing of it, because of `error`; that this failed is told by a note of the error."""
        try:
            await clean_up(error, lambda: until_over(self._give_up()), "the compaction could not be given up")
        finally:
            await self._alive.aclose()

    async def _give_up(self) -> None:
        if await self._transaction.abort() != "committed":
            await self._discard()

    async def _discard(self) -> None:
        paths = [*(piece.path for piece in self._pieces), *self._version_files()]
        folders = [path for plan in self._plans for path in _made(plan)]
        options = self._table.storage_options
        await remove_files(self._table.place, paths, storage_options=options)
        await remove_folders(self._table.place, folders, storage_options=options)


async def begin_compaction(
    table: TableView,
    definition: TableDefinition,
    transactions: Transactions,
    kind: CompactionKind,
    wanted: Callable[[Partition], bool],
) -> TableCompaction:
    """Begin to compact the partitions that are wanted, in one transaction."""
    compaction = TableCompaction(table, definition, await transactions.begin("compaction"))
    try:
        await compaction.plan(kind, wanted)
    except BaseException as error:
        await compaction.give_up(error)
        raise
    return compaction


async def compact(compaction: TableCompaction, writer: PieceWriter) -> Compaction:
    """Write the pieces of a compaction, one after the other, and commit it."""
    try:
        counts = [
            await writer.write(compaction.table.of(piece.snapshot), piece) for piece in compaction.pieces
        ]
        return await compaction.commit(counts)
    except BaseException as error:
        await compaction.give_up(error)
        raise


# --- pieces


def _pieces(
    snapshot: TableSnapshot, partition: Partition, plan: CompactionPlan, definition: TableDefinition
) -> list[CompactionPiece]:
    """The files that are made of one partition: of each content one for each bucket."""
    deltas = tuple(file for file in partition.inserts if file.directory in partition.deltas)
    contents: list[tuple[str | None, Content, Partition]] = [
        (plan.base, "rows", partition),
        (plan.inserts, "inserts", replace(partition, base=None, inserts=deltas, deletes=())),
        (plan.deletes, "deletes", replace(partition, base=None, inserts=())),
    ]
    return [
        CompactionPiece(path, bucket, content, definition, snapshot.only(_of_bucket(read, bucket)))
        for name, content, read in contents
        for path in plan.paths(name)
        for bucket in _buckets(read.deletes if content == "deletes" else read.inserts)
    ]


def _settled(seen: Snapshot) -> Snapshot:
    """What a compaction reads: nothing of an id that is open, nor of later ones."""
    write_ids, known = settled_ids(seen.write_ids), seen.directories
    if known is not None:
        known = {path: _up_to(write_ids.high_watermark, written) for path, written in known.items()}
    return replace(seen, write_ids=write_ids, directories=known)


def _up_to(mark: int, written: frozenset[str]) -> frozenset[str]:
    found = ((path, parse_directory(path.rpartition("/")[2])) for path in written)
    return frozenset(path for path, one in found if one is not None and one.last_write_id <= mark)


def _may_hold_updates(snapshot: TableSnapshot, partition: Partition) -> bool:
    """Whether a delta may be of before Hive 3: events stay events where deltas are brought together."""
    versioned = snapshot.versioned(partition)
    return any(
        file.is_of_events and file.directory in partition.deltas and file.directory not in versioned
        for file in partition.inserts
    )


def _of_bucket(partition: Partition, bucket: int) -> Partition:
    return replace(
        partition,
        inserts=tuple(file for file in partition.inserts if _bucket(file) == bucket),
        deletes=tuple(file for file in partition.deletes if _bucket(file) == bucket),
    )


def _buckets(files: Iterable[AcidFile]) -> list[int]:
    return sorted({_bucket(file) for file in files})


def _bucket(file: AcidFile) -> int:
    return file.bucket or 0


def _made(plan: CompactionPlan) -> tuple[str, ...]:
    return plan.paths(plan.base, plan.inserts, plan.deletes)


def _compacted(plan: CompactionPlan, counts: Counter[tuple[str, Content]]) -> CompactedPartition:
    made = _made(plan)
    return CompactedPartition(
        plan.partition,
        plan.kind,
        made,
        plan.paths(*plan.replaces),
        row_count=sum(counts[path, "rows"] + counts[path, "inserts"] for path in made),
        delete_count=sum(counts[path, "deletes"] for path in made),
    )
