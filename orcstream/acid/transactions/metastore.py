"""Transactions of a table that is shared with Hive: its metastore says what is committed, and where it lies.

Knows how transactions are begun, and compactions requested, through its calls (`metastore_calls`), and
whether two URLs name one directory: the user's, and that of the metastore, which Hadoop wrote. Must not know
what is in a store, nor what becomes of a transaction (`metastore_transactions`).

Stores have several names for one scheme, and Hadoop writes ``file:/x``. Names of hosts are not looked up: a
nameservice and a host of it are taken for the same.

The snapshot of a transaction is taken before its write id, so that whatever it sees has a lower one.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from orcstream._credentials import strip_credentials
from orcstream.acid.transactions.contract import Purpose
from orcstream.acid.transactions.metastore_calls import HiveTable, MetastoreCalls
from orcstream.acid.transactions.metastore_client import services
from orcstream.acid.transactions.metastore_transactions import (
    MetastoreBatch,
    MetastoreTransaction,
    read_transaction,
)
from orcstream.errors import CommitFailed, SourceError, Unsupported, UsageError
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


# One store, by the schemes of its clients.
_STORES: Final = {
    **dict.fromkeys(("", "file", "local"), "file"),
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs", "viewfs"), "hdfs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs", "az", "azure"), "azure"),
}
_PORTS: Final = {"hdfs": 8020, "webhdfs": 9870, "swebhdfs": 9871, "http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _Place:
    """`container` is a bucket, or what Azure calls so; `port` is None where the URL names none."""

    store: str
    scheme: str
    container: str
    host: str
    port: int | None
    path: str


def is_same_place(url: str, location: str) -> bool:
    """Whether both are one directory, as far as their texts and links of local folders say."""
    one, other = _place(url), _place(location)
    if (one.store, one.container) != (other.store, other.container):
        return False
    if one.path != other.path and unquote(one.path) != unquote(other.path):
        return False
    if one.host != other.host and one.host and other.host:
        # A nameservice has no port, and the host of a namenode most often has.
        return one.store == "hdfs" and (one.port is None) != (other.port is None)
    ports = [place.port or _PORTS.get(place.scheme) for place in (one, other)]
    return one.scheme != other.scheme or ports[0] == ports[1]


def check_location(url: str, location: str, table: str) -> None:
    """Raise `UsageError` where a table is opened by a URL that is not where its metastore has it."""
    shown = strip_credentials(url)
    try:
        is_same = is_same_place(url, location)
    except ValueError as error:
        raise UsageError(f"{shown} or {strip_credentials(location)} is no URL: {error}", url=shown) from None
    if not is_same:
        raise UsageError(
            f"the metastore has {table} at {strip_credentials(location)}, not at {shown}: open the "
            "metastore's location, or name the table that is at this URL",
            url=shown,
        )


def _place(url: str) -> _Place:
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme or len(scheme) == 1:  # a path, perhaps with the letter of a drive
        return _Place("file", "file", "", "", None, os.path.realpath(url))
    scheme = scheme.lower()
    store = _STORES.get(scheme, scheme)
    if store == "file":
        return _Place("file", "file", "", "", None, os.path.realpath(_local_path(rest)))
    parts = urlsplit(rest if rest.startswith("//") else f"//{rest.lstrip('/')}")
    path = posixpath.normpath("/" + parts.path.strip("/"))
    authority = parts.netloc.rpartition("@")[2]
    if store == "azure":
        # container@account.host/path, or container/path where options name the account.
        container, at, host = parts.netloc.rpartition("@")
        return _Place(store, store, container if at else authority, host if at else "", None, path)
    if store in ("s3", "gs"):
        return _Place(store, store, authority, "", None, path)
    return _Place(store, scheme, "", parts.hostname or "", parts.port, path)


def _local_path(rest: str) -> str:
    """The path of ``file:/x``, ``file:///x`` or ``file://localhost/x``, without its scheme."""
    return "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
