"""Transactions of a table that is shared with Hive: its metastore says what is committed.

Knows how transactions are begun, and compactions requested, through its calls (`metastore_calls`). Must not
know stores, nor what becomes of a transaction (`metastore_transactions`).

The snapshot of a transaction is taken before its write id, so that whatever it sees has a lower one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal

from orcstream.acid.transactions.contract import Purpose
from orcstream.acid.transactions.metastore_calls import HiveTable, MetastoreCalls
from orcstream.acid.transactions.metastore_client import services
from orcstream.acid.transactions.metastore_reading import read_transaction
from orcstream.acid.transactions.metastore_transactions import MetastoreBatch, MetastoreTransaction
from orcstream.errors import CommitFailed, SourceError, Unsupported
from orcstream.io.loop.uncancelled import until_over

_UNDER_WAY: Final = ("initiated", "working", "ready for cleaning")


@dataclass(frozen=True, slots=True)
class HiveCompaction:
    """A compaction that somebody asked Hive for; `state` is Hive's word, as "working" or "succeeded"."""

    id: int
    partition: str
    kind: str
    state: str
    message: str | None


class Metastore(MetastoreCalls):
    """The transactions of a table, by a Hive metastore; see `Transactions`.

    `url` is ``thrift://host:9083``, several with commas between them; `table` is ``database.table``. A call
    may take `timeout_s` seconds, waiting for a lock `lock_timeout_s`.

    Errors: `SourceError` where the metastore cannot be reached, does not answer or refuses; `UsageError` for
    a table that it does not have, or that is not transactional; `Unsupported` for tables whose files are no
    ORC (reason ``table_format``) or that have columns of types ORC does not (``hive_type``).
    """

    async def begin(self, purpose: Purpose = "write") -> MetastoreTransaction:
        """A new transaction; a compaction's has no write id."""
        return (await self._begin(purpose, 1))[0]

    async def begin_batch(self, count: int) -> MetastoreBatch:
        """So many new transactions, or as many as the metastore gives at once, with write ids in a row."""
        return MetastoreBatch(self, await self._begin("write", count))

    async def _begin(self, purpose: Purpose, count: int) -> Sequence[MetastoreTransaction]:
        types = services()
        if purpose == "write":
            _check_bucketing(await self.table(), self._client.url)
        kind = types.TxnType.COMPACTION if purpose == "compaction" else types.TxnType.DEFAULT
        ids = await self.open_transactions(count, kind)
        try:
            snapshot = await self._snapshot(ids[0])
            write_ids = await self._allocate(ids) if purpose == "write" else [0] * len(ids)
        except BaseException as error:
            await until_over(self._leave(ids, error))
            raise
        return [
            MetastoreTransaction(self, one, write_id, kind, snapshot, last_write_id=write_ids[-1])
            for one, write_id in zip(ids, write_ids, strict=True)
        ]

    async def _allocate(self, transaction_ids: Sequence[int]) -> Sequence[int]:
        """A write id for each; one follows the other."""
        request = services().AllocateTableWriteIdsRequest(
            dbName=self.database, tableName=self.table_name, txnIds=list(transaction_ids)
        )
        answer = await self.call("allocate_table_write_ids", request, repeat=True)
        given = {int(one.txnId): int(one.writeId) for one in answer.txnToWriteIds}
        found = [given[one] for one in transaction_ids if one in given]
        if not found or found != list(range(found[0], found[0] + len(transaction_ids))):
            raise SourceError(
                f"the metastore gave the write ids {found} to transactions in a row", url=self.url
            )
        return found

    async def abort_dead(self, older_than_s: float) -> tuple[int, ...]:  # noqa: ARG002 - Hive's is another
        """The metastore gives up by itself what was silent for too long, and says nothing of it."""
        return ()

    def opening(self) -> AbstractAsyncContextManager[None]:
        """Hold a transaction, for which cleaners wait."""
        return read_transaction(self, locks=False)

    async def removing(self, directories: Collection[str]) -> None:
        """Nothing is noted: whoever reads through Hive has a transaction open, and may need what is old.

        `CommitFailed` while any is.
        """
        opened = await self.open_now() if directories else []
        if opened:
            raise CommitFailed(
                f"transactions are open that may read what is to be removed (the first is {opened[0]}): "
                "clean again when they are over, or leave it to Hive",
                url=self.url,
            )

    async def open_now(self) -> list[int]:
        """The transactions that are open, of all tables; those of readers too, which `transactions` lacks."""
        is_open = services().TxnState.OPEN
        found = await self.call("get_open_txns_info", repeat=True)
        return sorted(one.id for one in found.open_txns if one.state == is_open)

    # --- compaction

    async def compact(self, kind: Literal["minor", "major"], partition: str = "") -> int:
        """Ask Hive to compact the table, or a partition; answers the number of the request.

        One that was asked for already and is not over is answered instead. `SourceError` where Hive refuses.
        """
        types = services()
        request = types.CompactionRequest(
            dbname=self.database,
            tablename=self.table_name,
            partitionname=partition or None,
            type=types.CompactionType.MAJOR if kind == "major" else types.CompactionType.MINOR,
            runas=None,
        )
        answer = await self.call("compact2", request, repeat=True)
        if answer.accepted:
            return int(answer.id)
        for one in reversed(await self.compactions()):
            if one.partition == partition and one.state in _UNDER_WAY:
                return one.id
        raise SourceError(f"Hive does not compact {self.name}: {answer.errormessage}", url=self.url)

    async def compactions(self) -> tuple[HiveCompaction, ...]:
        """Those of this table that Hive remembers, the newest last."""
        types = services()
        request = types.ShowCompactRequest(dbName=self.database, tbName=self.table_name)
        answer = await self.call("show_compact", request, repeat=True)
        names = types.CompactionType._VALUES_TO_NAMES  # noqa: SLF001 - thriftpy2's name for it
        found = [
            HiveCompaction(
                one.id or 0, one.partitionname or "", names[one.type].lower(), one.state, one.errorMessage
            )
            for one in answer.compacts
            if (one.dbname, one.tablename) == (self.database, self.table_name)
        ]
        return tuple(sorted(found, key=lambda one: one.id))


def _check_bucketing(table: HiveTable, url: str) -> None:
    version = table.parameters.get("bucketing_version", "1")
    if table.definition.bucket_count and version != "2":
        raise Unsupported(
            f"{table.name} has buckets of version {version}, by another hash than the one that is written",
            reason="bucketing_version",
            url=url,
        )
