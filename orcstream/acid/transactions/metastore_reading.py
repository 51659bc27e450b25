"""A reader's transaction at a Hive metastore: while it is open, nothing that the reader may need is removed.

Knows which calls open, keep and end one. Must not know what is read. As Hive's own readers do, it takes a
shared lock of the table and sends heartbeats. Hive's cleaner waits for it, and so do statements that
overwrite or drop the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from orcstream._printable import logger_of
from orcstream.acid.transactions.contract import HEARTBEAT_S
from orcstream.acid.transactions.metastore_calls import MetastoreCalls
from orcstream.acid.transactions.metastore_client import UNKNOWN_METHOD, Refused, services
from orcstream.errors import OrcError, SourceError
from orcstream.io.loop.uncancelled import end_task, until_over

_logger = logger_of("orcstream.acid")
_GONE: Final = ("TxnAbortedException", "NoSuchTxnException", "NoSuchLockException")
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
            if error.kind in _GONE:
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
            if error.kind in _GONE:
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
        if error.kind not in _GONE:
            _logger.warning("read transaction %d stays open for a while: %s", transaction_id, error)
    except (OrcError, OSError) as error:
        _logger.warning("read transaction %d stays open for a while: %s", transaction_id, error)


def _aborted(metastore: MetastoreCalls, transaction_id: int) -> SourceError:
    return SourceError(
        f"the metastore has aborted the read transaction {transaction_id} of {metastore.name}: its files may "
        "be removed now; open the table again, and read it from the start",
        url=metastore.url,
    )
