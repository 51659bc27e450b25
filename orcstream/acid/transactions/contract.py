"""Who says which write ids are committed: the contract that a table's own log and Hive's metastore keep.

Knows transactions, snapshots and what a transaction did, as values. Must not know who keeps them, stores,
rows, nor how files are written.

A transaction begins with a write id that no other has, and a snapshot of what it sees. Its files are whole
and durable before `commit`, and count from then on, all at once; or never. Of two that change rows of one
partition side by side the first to commit wins; to overwrite a partition changes all of its rows, and who
inserts some with a lower write id has to commit before. A commit or an abort that failed or was cancelled may
have happened: `abort` finds out, and settles it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from orcstream._printable import logger_of
from orcstream.errors import OrcError, Unsupported, UsageError
from orcstream.io.loop.uncancelled import end_task
from orcstream.plan.acid.snapshot import WriteIds
from orcstream.plan.projection import RowColumns
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import Kind, Type, parse_type

_logger = logger_of("orcstream.acid")

Purpose: TypeAlias = Literal["write", "compaction"]
Operation: TypeAlias = Literal["insert", "change", "overwrite"]
Outcome: TypeAlias = Literal["open", "committed", "aborted"]

# Between two signs of life. Hive gives up what was silent for 300 s, if nobody has told it otherwise.
HEARTBEAT_S = 60.0
# Of one batch. A metastore gives no more at once, either (`hive.txn.max.open.batch`).
MOST_TRANSACTIONS = 1000


ConstraintKind: TypeAlias = Literal["NOT NULL", "DEFAULT", "CHECK"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One of Hive's that is enabled. `expression` is Hive's; a CHECK of a whole row has no `column`."""

    kind: ConstraintKind
    name: str
    column: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a transactional table is: the columns of its rows, then what it is partitioned and bucketed by.

    `schema` is that of a row, without the partition columns; `partitions` are these, with their types as
    texts. Buckets are counted from 0 to `bucket_count` - 1; 0 means that the table has none. A table that is
    `insert_only` holds plain files of rows, of which none is ever deleted. `constraints` hold for the rows
    that are written. `by_position` is for tables that Hive defines: their columns match those of files by
    position, not by name, and folders of partitions are named as Hive names them. Where `hive_compacts`, Hive
    starts compactions by itself. Raises `UsageError` for what no table can be.
    """

    schema: Schema
    partitions: tuple[tuple[str, str], ...] = ()
    bucket_columns: tuple[str, ...] = ()
    bucket_count: int = 0
    insert_only: bool = False
    constraints: tuple[Constraint, ...] = ()
    by_position: bool = False
    hive_compacts: bool = False

    @property
    def row_columns(self) -> RowColumns:
        """The columns of the rows, and how its files match them."""
        return RowColumns(self.schema, self.schema, self.by_position)

    def __post_init__(self) -> None:
        if self.schema.root.kind is not Kind.STRUCT:
            raise UsageError("the schema of a table is a struct: its columns")
        names = [*self.schema.names, *(name for name, _ in self.partitions)]
        lowered = [name.lower() for name in names]
        twice = next((one for at, one in enumerate(lowered) if one in lowered[:at]), None)
        if twice is not None:
            raise UsageError(f"two columns are named {twice}; names of columns do not differ in case alone")
        for name, text in self.partitions:
            if not name or parse_type(text).children:
                raise UsageError(f"a table cannot be partitioned by {name!r} of type {text}")
        missing = [one for one in self.bucket_columns if one not in self.schema.names]
        if missing:
            raise UsageError(f"the table is to be bucketed by {missing[0]}, which is no column of it")
        if type(self.bucket_count) is not int or not 0 <= self.bucket_count <= _MOST_BUCKETS:
            raise UsageError(f"a table has 0 to {_MOST_BUCKETS} buckets, not {self.bucket_count!r}")
        if bool(self.bucket_columns) != bool(self.bucket_count):
            raise UsageError("bucket_columns and bucket_count are given together")


# Twelve bits of the column `bucket` name one.
_MOST_BUCKETS = 1 << 12


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a reader sees: rows of `write_ids`, and directories that compactions of `transactions` made.

    `directories` says, for each partition, which directories the visible write ids wrote in it, by their
    paths below the table; None where nobody knows. `removed` are ranges of write ids, both ends included,
    that have lost directories on purpose: others stand in for them. Each such removal changes `removals`.
    """

    write_ids: WriteIds
    transactions: WriteIds
    directories: Mapping[str, frozenset[str]] | None = None
    removed: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    removals: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What a transaction did.

    `directories` are the ones that it wrote, by their paths below the table. Those of `deletes_in` are the
    partitions that it deleted rows of or overwrote, "" being that of a table without partitions. A compaction
    tells which directories its own stand in for: `replaces`.
    """

    directories: tuple[str, ...] = ()
    deletes_in: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that it wrote to, sorted."""
        return tuple(sorted({path.rpartition("/")[0] for path in self.directories}))


class Transaction(Protocol):
    """One that was begun. Belongs to the loop it was begun in."""

    @property
    def write_id(self) -> int:
        """The id of the rows it writes, from 1; 0 for a compaction, which has none of its own."""

    @property
    def transaction_id(self) -> int:
        """The id in the names of directories that a compaction makes (`_v0000007`)."""

    @property
    def snapshot(self) -> Snapshot:
        """What it sees: nothing of later write ids, nor of its own."""

    async def lock(self, operation: Operation, partitions: Collection[str]) -> None:
        """Say that these partitions are going to get rows, or be changed or overwritten, before they are.

        Where there are locks, waits for them. `CommitFailed` where they cannot be had.
        """

    async def seen_since(self) -> Snapshot | None:
        """What is committed by now, if a base of a later write id may be among it that hides its rows.

        None where that cannot be, or `commit` finds out. To be asked when all locks are held.
        """

    async def heartbeat(self) -> None:
        """A sign of life, or others may give the transaction up. `CommitFailed` where they have."""

    async def commit(self, work: Work) -> None:
        """Make all that it wrote count. May be called again, with the same `work`.

        `CommitFailed` where another transaction that changed the same rows was first, or this one was given
        up: then nothing of it counts, ever. `CommitUnknown` where the answer was lost: `abort` finds out.
        """

    async def abort(self) -> Outcome:
        """Give it up; answers what became of it, "committed" where a commit was first."""

    async def outcome(self) -> Outcome:
        """What is known of it; "open" may still become either."""


class TransactionBatch(Protocol):
    """Transactions with write ids one after the other, begun at once: for rows that keep arriving.

    They insert rows, and nothing else. They stay open until each of them has ended.
    """

    @property
    def transactions(self) -> Sequence[Transaction]:
        """In the order of their write ids."""

    @property
    def transaction_id(self) -> int:
        """The first one's."""

    async def heartbeat(self) -> None:
        """A sign of life for those that are open. `CommitFailed` where others have given them up."""

    async def abort(self) -> None:
        """Give up those that are open; others keep their outcomes."""


class Transactions(Protocol):
    """Of one table."""

    async def definition(self) -> TableDefinition:
        """What the table is."""

    async def snapshot(self, write_id: int | None = None) -> Snapshot:
        """What is committed now, up to a write id where one is given; the value never changes afterwards."""

    async def begin(self, purpose: Purpose = "write") -> Transaction:
        """A new transaction, with ids that no other has."""

    async def begin_batch(self, count: int) -> TransactionBatch:
        """So many new transactions, or fewer, with ids that no other has; at most `MOST_TRANSACTIONS`."""

    async def abort_dead(self, older_than_s: float) -> tuple[int, ...]:
        """Give up what has shown no sign of life for so many seconds; answers the ids, sorted."""

    def opening(self) -> AbstractAsyncContextManager[None]:
        """Held while a snapshot is taken and the table is listed: cleaners wait for it, where they can."""

    async def removing(self, directories: Collection[str]) -> None:
        """Directories, by their paths below the table, are going to be removed: nobody needs them."""

    async def aclose(self) -> None:
        """Give back what is held. Open transactions stay open."""


@asynccontextmanager
async def kept_alive(
    transaction: Transaction | TransactionBatch, *, interval_s: float = HEARTBEAT_S
) -> AsyncIterator[None]:
    """Give signs of life while the block runs; that one could not be given is told to the log of the program.

    A transaction that was given up all the same fails at its commit.
    """
    beating = asyncio.create_task(_beat(transaction, interval_s), name="orcstream heartbeat")
    try:
        yield
    finally:
        await end_task(beating)


async def _beat(transaction: Transaction | TransactionBatch, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        try:
            await transaction.heartbeat()
        except (OrcError, OSError) as error:
            _logger.warning("transaction %d gave no sign of life: %s", transaction.transaction_id, error)


def check_encryption(definition: TableDefinition, *, is_encrypted: bool) -> None:
    """Raise `Unsupported` where Hive would compact files with encrypted columns.

    Without the keys it reads nulls or masked values, and writes them into the file that replaces ours.
    """
    if is_encrypted and definition.hive_compacts:
        raise Unsupported(
            "Hive compacts this table by itself, and would replace encrypted values by nulls for good: set "
            "its property first (ALTER TABLE ... SET TBLPROPERTIES ('NO_AUTO_COMPACTION'='true')), and "
            "compact it with `AcidTable.compact` and the keys",
            reason="hive_compacts",
        )


def full_schema(definition: TableDefinition) -> Schema:
    """The columns of the rows, then those of partitions."""
    row = definition.schema.root
    partitions = partition_schema(definition).root
    children, names = (*row.children, *partitions.children), (*row.field_names, *partitions.field_names)
    return numbered(Type(Kind.STRUCT, children, names), attributes=False)


def partition_schema(definition: TableDefinition) -> Schema:
    """The partition columns alone."""
    types = tuple(parse_type(text) for _, text in definition.partitions)
    names = tuple(name for name, _ in definition.partitions)
    return numbered(Type(Kind.STRUCT, types, names))
