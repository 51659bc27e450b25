"""Transactions at a Hive metastore: locks, signs of life, ends; those of readers from their begin on.

Knows what the metastore answers to those, and what it means that an answer was lost. Must not know how
writers' ids are given (`acid.transactions.metastore`), connections, stores, nor how directories are written.

Locks are those of Hive: inserting shares them with everybody, changing rows excludes others that do,
overwriting excludes all. At the commit the metastore compares who changed what meanwhile; the first wins. As
Hive's own readers do, ours take a shared lock of the table and send heartbeats: Hive's cleaner waits for
them, and so do statements that overwrite or drop the table.

Hive answers count, min and max from statistics where the table, or the partition, has the parameter
COLUMN_STATS_ACCURATE and its `writeId` is one that the query sees. Each writer sets that id, and whoever has
no statistics to offer takes the parameter away, before his commit. Tables and partitions are handed back as
the bytes that they came in, so that fields of later versions survive.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from orcstream._printable import logger_of
from orcstream.acid.transactions import thrift_messages as messages
from orcstream.acid.transactions.contract import HEARTBEAT_S, Operation, Outcome, Snapshot, Work
from orcstream.acid.transactions.metastore_calls import MetastoreCalls
from orcstream.acid.transactions.metastore_client import UNKNOWN_METHOD, Lost, Refused, services
from orcstream.errors import CommitFailed, CommitUnknown, OrcError, SourceError
from orcstream.io.contract.byte_source import retry_commit
from orcstream.io.loop.uncancelled import end_task, run_in_thread, until_over

# Locks that are as good as one.
_INCLUDED_IN: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    "insert": ("insert", "change", "overwrite"),
    "change": ("change", "overwrite"),
    "overwrite": ("overwrite",),
}
_GONE: Final = ("TxnAbortedException", "NoSuchTxnException")
_logger = logger_of("orcstream.acid")


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


_ACCURATE: Final = b"COLUMN_STATS_ACCURATE"
# Else the metastore lists the files, to count them.
_ENVIRONMENT: Final = {"DO_NOT_UPDATE_STATS": "true"}
_PARTITIONS_AT_ONCE: Final = 500
# Numbers of fields, as in hive_metastore.thrift.
_GIVEN: Final = 1  # the table, or the partitions, of an answer
_CHANGED: Final = 4  # the same of a request
_PARAMETERS_OF_TABLE: Final = 9
_WRITE_ID_OF_TABLE: Final = 19
_PARAMETERS_OF_PARTITION: Final = 7
_WRITE_ID_OF_PARTITION: Final = 10
_I64: Final = 10


async def outdate_statistics(
    metastore: MetastoreCalls, partitions: Collection[str], write_id: int, write_ids: str
) -> None:
    """Say that a transaction has changed these partitions, "" being the table that has none.

    For before its commit, and while its locks are held. `write_ids` is Hive's text of what it sees.
    """
    try:
        if "" in partitions:
            await _outdate_table(metastore, write_id, write_ids)
        paths = sorted(one for one in partitions if one)
        for first in range(0, len(paths), _PARTITIONS_AT_ONCE):
            await _outdate_partitions(
                metastore, paths[first : first + _PARTITIONS_AT_ONCE], write_id, write_ids
            )
    except Refused as error:
        # Before Hive 4 statistics of transactional tables answer no query.
        if error.kind != UNKNOWN_METHOD:
            raise


async def _outdate_table(metastore: MetastoreCalls, write_id: int, write_ids: str) -> None:
    answer = await _asked(metastore, "get_table_req", metastore.table_request())
    _, table = messages.fields(answer)[_GIVEN]
    changed = _outdated(table, _PARAMETERS_OF_TABLE, _WRITE_ID_OF_TABLE, write_id)
    request = services().AlterTableRequest(
        tableName=metastore.table_name, **_common(metastore, write_id, write_ids)
    )
    await _change(metastore, "alter_table_req", request, (messages.STRUCT, changed))


async def _outdate_partitions(
    metastore: MetastoreCalls, paths: Collection[str], write_id: int, write_ids: str
) -> None:
    answer = await _asked(metastore, "get_partitions_by_names_req", metastore.partitions_request(paths))

    def changed() -> tuple[int, bytes]:
        parts = messages.elements(messages.fields(answer)[_GIVEN][1])
        new = [_outdated(one, _PARAMETERS_OF_PARTITION, _WRITE_ID_OF_PARTITION, write_id) for one in parts]
        return len(new), struct.pack(">bi", messages.STRUCT, len(new)) + b"".join(new)

    count, parts = await run_in_thread(changed)
    if count:  # else they were dropped meanwhile
        request = services().AlterPartitionsRequest(
            tableName=metastore.table_name, **_common(metastore, write_id, write_ids)
        )
        await _change(metastore, "alter_partitions_req", request, (messages.LIST, parts))


def _common(metastore: MetastoreCalls, write_id: int, write_ids: str) -> dict[str, Any]:
    return {
        "dbName": metastore.database,
        "environmentContext": services().EnvironmentContext(properties=_ENVIRONMENT),
        "writeId": write_id,
        "validWriteIdList": write_ids,
    }


async def _asked(metastore: MetastoreCalls, method: str, request: Any) -> bytes:
    return await metastore.call_raw(method, _argument(messages.encoded(request)), repeat=True)


async def _change(metastore: MetastoreCalls, method: str, request: Any, changed: messages.Field) -> None:
    whole = messages.with_fields(messages.encoded(request), {_CHANGED: changed})
    await metastore.call_raw(method, _argument(whole), repeat=True)


def _argument(request: bytes) -> bytes:
    """The arguments of a method that takes one struct."""
    return messages.with_fields(b"\0", {1: (messages.STRUCT, request)})


def _outdated(described: bytes, parameters: int, id_field: int, write_id: int) -> bytes:
    """A table or partition without accurate statistics, as of a write id."""
    new = {id_field: (_I64, struct.pack(">q", write_id))}
    given = messages.fields(described).get(parameters)
    if given is not None:
        kept = messages.text_map(given[1])
        kept.pop(_ACCURATE, None)
        new[parameters] = (given[0], messages.encoded_text_map(kept))
    return messages.with_fields(described, new)


# Of a reader, whose lock is all that it has.
_GONE_FOR_READERS: Final = (*_GONE, "NoSuchLockException")
_SETTLING_S: Final = 30.0


@asynccontextmanager
async def read_transaction(
    metastore: MetastoreCalls, *, interval_s: float = HEARTBEAT_S, locks: bool = True
) -> AsyncIterator[None]:
    """Hold a transaction while the block runs and, if it `locks`, a shared lock.

    Raises `SourceError` where the lock cannot be had in time, and where the metastore has aborted the
    transaction; the block is cancelled then. Heartbeats that fail otherwise are logged.
    """
    (transaction_id,) = await metastore.open_transactions(1, services().TxnType.READ_ONLY)
    try:
        try:
            await _announce(metastore, transaction_id)
            if locks:
                await _lock(metastore, transaction_id)
        except Refused as error:
            if error.kind in _GONE_FOR_READERS:
                raise _aborted(metastore, transaction_id) from error
            raise
        is_aborted = False
        with anyio.CancelScope() as scope:
            beating = asyncio.create_task(
                _beat(metastore, transaction_id, interval_s, scope), name="orcstream heartbeat"
            )
            try:
                yield
            finally:
                await end_task(beating)
                is_aborted = not beating.cancelled()
        if is_aborted:
            raise _aborted(metastore, transaction_id)
    finally:
        await until_over(_end(metastore, transaction_id))


async def _announce(metastore: MetastoreCalls, transaction_id: int) -> None:
    # Where Hive's cleaner goes by write ids, and not by transactions.
    ids = await metastore.write_ids()
    mark = min(ids.open, default=ids.high_watermark + 1)
    try:
        await metastore.call(
            "add_write_ids_to_min_history", transaction_id, {metastore.name: mark}, repeat=True
        )
    except Refused as error:
        if error.kind != UNKNOWN_METHOD:
            raise


async def _lock(metastore: MetastoreCalls, transaction_id: int) -> None:
    request = metastore.lock_request([("read", "")], transaction_id)
    if not await metastore.locked(request, metastore.call):
        raise SourceError(
            f"{metastore.name} is locked by others, who overwrite or drop it, for longer than "
            f"{metastore.lock_timeout_s:g} s; read again later, or with read_lock=False",
            url=metastore.url,
        )


async def _beat(
    metastore: MetastoreCalls, transaction_id: int, interval_s: float, scope: anyio.CancelScope
) -> None:
    """Send heartbeats; end, and cancel the reader, where the transaction was aborted."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            request = services().HeartbeatRequest(txnid=transaction_id)
            await metastore.call("heartbeat", request, repeat=True)
        except Refused as error:
            if error.kind in _GONE_FOR_READERS:
                scope.cancel()
                return
            _logger.warning("read transaction %d: a heartbeat failed: %s", transaction_id, error)
        except (OrcError, OSError) as error:
            _logger.warning("read transaction %d: a heartbeat failed: %s", transaction_id, error)


async def _end(metastore: MetastoreCalls, transaction_id: int) -> None:
    """Commit it, which releases the lock. If that fails, the metastore aborts it for its silence."""
    types = services()
    request = types.CommitTxnRequest(
        txnid=transaction_id, exclWriteEnabled=False, txn_type=types.TxnType.READ_ONLY
    )
    try:
        with anyio.fail_after(_SETTLING_S):
            await metastore.call("commit_txn", request, repeat=True)
    except Refused as error:
        if error.kind not in _GONE_FOR_READERS:
            _logger.warning("read transaction %d stays open for a while: %s", transaction_id, error)
    except (OrcError, OSError) as error:
        _logger.warning("read transaction %d stays open for a while: %s", transaction_id, error)


def _aborted(metastore: MetastoreCalls, transaction_id: int) -> SourceError:
    return SourceError(
        f"the metastore has aborted the read transaction {transaction_id} of {metastore.name}: its files may "
        "be removed now; open the table again, and read it from the start",
        url=metastore.url,
    )
