"""Transactions that were begun at a Hive metastore: their locks, their signs of life, their ends.

Knows what the metastore answers to those, and what it means that an answer was lost. Must not know how ids
are given (`acid.transactions.metastore`), connections, stores, nor how directories are written.

Locks are those of Hive: inserting shares them with everybody, changing rows excludes others that do,
overwriting excludes all. At the commit the metastore compares who changed what meanwhile; the first wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from orcstream.acid.transactions.contract import Operation, Outcome, Snapshot, Work
from orcstream.acid.transactions.metastore_calls import MetastoreCalls
from orcstream.acid.transactions.metastore_client import Lost, Refused, services
from orcstream.acid.transactions.metastore_statistics import outdate_statistics
from orcstream.errors import CommitFailed, CommitUnknown
from orcstream.io.contract.retry import retry_commit

# Locks that are as good as one.
_INCLUDED_IN: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    "insert": ("insert", "change", "overwrite"),
    "change": ("change", "overwrite"),
    "overwrite": ("overwrite",),
}
_GONE: Final = ("TxnAbortedException", "NoSuchTxnException")


class MetastoreTransaction:
    """One that was begun at a metastore; see `Transaction`. `last_write_id` is the last one of its batch."""

    def __init__(
        self,
        metastore: MetastoreCalls,
        transaction_id: int,
        write_id: int,
        kind: int,
        snapshot: Snapshot,
        *,
        last_write_id: int,
    ) -> None:
        self._metastore = metastore
        self._last_write_id = last_write_id
        self._kind = kind
        self._locked: set[tuple[Operation, str]] = set()
        self._is_committed = self._is_aborted = False
        self.transaction_id = transaction_id
        self.write_id = write_id
        self.snapshot = snapshot

    @property
    def has_ended(self) -> bool:
        """Whether it is known to have ended."""
        return self._is_committed or self._is_aborted

    async def lock(self, operation: Operation, partitions: Collection[str]) -> None:
        """Wait for the locks, for as long as `lock_timeout_s`; see `Transaction`."""
        wanted = [
            (operation, one)
            for one in sorted(set(partitions))
            if not self._locked.intersection((held, one) for held in _INCLUDED_IN[operation])
        ]
        if not wanted or not self.write_id:
            return
        request = self._metastore.lock_request(wanted, self.transaction_id)
        if await self._metastore.locked(request, self._call):
            self._locked.update(wanted)
            return
        raise CommitFailed(
            f"{self._metastore.name} is locked by others; begin again, or raise lock_timeout_s",
            url=self._metastore.url,
        )

    async def seen_since(self) -> Snapshot | None:
        """What is committed by now, where any of it was begun since: who had his lock first may overwrite."""
        snapshot = await self._metastore.snapshot()
        later, mark = self._last_write_id + 1, snapshot.write_ids.high_watermark
        is_newer = later <= mark and snapshot.write_ids.visible(later, mark) != "none"
        return snapshot if is_newer else None

    async def heartbeat(self) -> None:
        """A sign of life. `CommitFailed` where the transaction was given up."""
        await self._call("heartbeat", services().HeartbeatRequest(txnid=self.transaction_id), repeat=True)

    async def commit(self, work: Work) -> None:
        """Make all that it wrote count; see `Transaction`. Partitions that are new are made known before."""
        if self._is_committed:
            return
        changed = set(work.deletes_in)
        await self.lock("change", changed)
        await self.lock("insert", set(work.partitions) - changed)
        new = {path for path in work.partitions if path}
        if new and self.write_id:
            await self._metastore.add_partitions(new)
        if self.write_id:
            seen = f"{self._metastore.name}:{self.snapshot.write_ids}"
            written = {*work.partitions, *changed}
            await outdate_statistics(self._metastore, written, self.write_id, seen)
        # Else the metastore trusts that whoever had to wait for a lock has taken a new snapshot since.
        request = services().CommitTxnRequest(
            txnid=self.transaction_id, exclWriteEnabled=False, txn_type=self._kind
        )
        is_repeated = False

        async def attempt() -> None:
            nonlocal is_repeated
            try:
                await self._metastore.call("commit_txn", request)
            except Lost as error:
                is_repeated = True
                raise CommitUnknown(
                    f"{error.message}: whether transaction {self.transaction_id} was committed is not known",
                    url=self._metastore.url,
                ) from error

        try:
            await retry_commit(attempt)
        except Refused as error:
            await self._check_refused(error, is_repeated=is_repeated)
        self._is_committed = True

    async def _check_refused(self, error: Refused, *, is_repeated: bool) -> None:
        """Raise, unless an earlier attempt, whose answer was lost, has done it."""
        if error.kind not in _GONE:
            raise CommitUnknown(error.message, url=error.url) from error
        if not is_repeated or await self.outcome() != "committed":
            raise self._given_up(error) from None

    async def abort(self) -> Outcome:
        """Give it up; answers "committed" where a commit was first."""
        request = services().AbortTxnRequest(txnid=self.transaction_id, txn_type=self._kind)
        try:
            await self._metastore.call("abort_txn", request, repeat=True)
        except Refused as error:
            if error.kind != "NoSuchTxnException":
                raise
            return await self.outcome()
        self._is_aborted = True
        return "aborted"

    async def outcome(self) -> Outcome:
        """What the metastore says now."""
        if self._is_committed:
            return "committed"
        return await self._metastore.outcome_of(self.transaction_id, self.write_id)

    async def _call(self, method: str, request: Any, *, repeat: bool = False) -> Any:
        try:
            return await self._metastore.call(method, request, repeat=repeat)
        except Refused as error:
            if error.kind in _GONE:
                raise self._given_up(error) from None
            raise

    def _given_up(self, error: Refused) -> CommitFailed:
        return CommitFailed(
            f"transaction {self.transaction_id} cannot be committed ({error.message}); begin again, with "
            f"what is there now",
            url=self._metastore.url,
        )


class MetastoreBatch:
    """Several that were begun at once; see `TransactionBatch`."""

    def __init__(self, metastore: MetastoreCalls, transactions: Sequence[MetastoreTransaction]) -> None:
        self._metastore = metastore
        self.transactions = transactions
        self.transaction_id = transactions[0].transaction_id

    async def heartbeat(self) -> None:
        """A sign of life for those that are open. `CommitFailed` where one of them was given up."""
        ids = self._open()
        if not ids:
            return
        request = services().HeartbeatTxnRangeRequest(min=ids[0], max=ids[-1])
        answer = await self._metastore.call("heartbeat_txn_range", request, repeat=True)
        # What ended meanwhile is gone, and not given up.
        gone = set(self._open()).intersection({*answer.aborted, *answer.nosuch})
        if gone:
            raise CommitFailed(
                f"the metastore has given up transaction {min(gone)}; begin again, with what is there now",
                url=self._metastore.url,
            )

    async def abort(self) -> None:
        """Give up those that are open."""
        ids = self._open()
        if ids:
            await self._metastore.call("abort_txns", services().AbortTxnsRequest(txn_ids=ids), repeat=True)

    def _open(self) -> list[int]:
        return [one.transaction_id for one in self.transactions if not one.has_ended]
