"""The calls of a Hive metastore about one table: what it is, what is committed, and requests for locks.

Must not know connections (`acid.transactions.metastore_client`), stores, nor what becomes of a transaction
(`metastore_transactions`).
"""

from __future__ import annotations

import asyncio
import copy
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import anyio

from orcstream.acid.transactions.contract import (
    Constraint,
    ConstraintKind,
    Operation,
    Outcome,
    Snapshot,
    TableDefinition,
)
from orcstream.acid.transactions.metastore_client import UNKNOWN_METHOD, MetastoreClient, Refused, services
from orcstream.errors import OrcError, SourceError, Unsupported, UsageError
from orcstream.io.loop.uncancelled import until_done, until_over
from orcstream.plan.acid.names import NULL_TEXT, parse_folder
from orcstream.plan.acid.snapshot import WriteIds
from orcstream.schema.schema import numbered
from orcstream.schema.types import Kind, Type, parse_type

_AGENT: Final = "orcstream"
# What Hive asks of those who read and write such tables; bucketing is its version 2.
_CAPABILITIES: Final = (
    "HIVEBUCKET2 HIVEFULLACIDREAD HIVEFULLACIDWRITE HIVEMANAGEDINSERTREAD HIVEMANAGEDINSERTWRITE "
    "EXTREAD EXTWRITE".split()
)
_PARTITIONS_AT_ONCE: Final = 500
_CATALOG: Final = "hive"  # of a metastore that has others, too
# The method, its request, the field of its answer, and the fields of a constraint's name and expression.
_CONSTRAINTS: Final[Mapping[ConstraintKind, tuple[str, str, str, str, str]]] = {
    "NOT NULL": (
        "get_not_null_constraints",
        "NotNullConstraintsRequest",
        "notNullConstraints",
        "nn_name",
        "",
    ),
    "DEFAULT": (
        "get_default_constraints",
        "DefaultConstraintsRequest",
        "defaultConstraints",
        "dc_name",
        "default_value",
    ),
    "CHECK": (
        "get_check_constraints",
        "CheckConstraintsRequest",
        "checkConstraints",
        "dc_name",
        "check_expression",
    ),
}
_SETTLING_S: Final = 30.0
_LOCK_LOOKS_S: Final = (0.05, 2.0)  # the first pause between two looks at a lock, and the longest


@dataclass(frozen=True, slots=True)
class HiveTable:
    """A table as its metastore has it. `location` is a URL of its directory; Hadoop writes ``file:/x``."""

    name: str
    location: str
    definition: TableDefinition
    parameters: Mapping[str, str]
    storage: Any = field(repr=False, compare=False)  # the service's own, to make partitions of


@dataclass(frozen=True, slots=True)
class HivePartition:
    """A partition; `name` is as in ``country=DE/day=1``, which is its path below the table most often."""

    name: str
    values: tuple[str, ...]
    location: str


class MetastoreCalls:
    """What a Hive metastore says of a table, and what it can be asked to do with it; see `Metastore`."""

    def __init__(
        self,
        url: str,
        table: str,
        *,
        user: str | None = None,
        timeout_s: float = 60.0,
        lock_timeout_s: float = 300.0,
    ) -> None:
        database, dot, name = table.lower().rpartition(".")
        if not (database and dot and name) or "." in database:
            raise UsageError(f"a table of a metastore is database.table, not {table!r}")
        self.name = f"{database}.{name}"
        self.lock_timeout_s = lock_timeout_s
        self.database = database
        self.table_name = name
        self._client = MetastoreClient(url, user=user, timeout_s=timeout_s)

    # --- the table

    async def table(self) -> HiveTable:
        """What the metastore says of the table, now."""
        try:
            answer = await self.call("get_table_req", self.table_request(), repeat=True)
        except Refused as error:
            if error.kind == "NoSuchObjectException":
                raise UsageError(f"the metastore has no table {self.name}", url=self._client.url) from None
            raise
        return _table_of(self.name, answer.table, self._client.url)

    async def definition(self) -> TableDefinition:
        """What the table is, with what holds for the rows that are written."""
        return replace((await self.table()).definition, constraints=await self.constraints())

    async def constraints(self) -> tuple[Constraint, ...]:
        """Those that are enabled, of the kinds that Hive enforces."""
        found: list[Constraint] = []
        for kind, (method, request, answer, name, text) in _CONSTRAINTS.items():
            asked = getattr(services(), request)(
                catName=_CATALOG, db_name=self.database, tbl_name=self.table_name
            )
            try:
                given = getattr(await self.call(method, asked, repeat=True), answer)
            except Refused as error:
                if error.kind != UNKNOWN_METHOD:
                    raise
                continue  # a version that has no such constraints
            found += [
                Constraint(
                    kind,
                    getattr(one, name),
                    (one.column_name or "").lower(),
                    getattr(one, text) if text else "",
                )
                for one in given
                if one.enable_cstr
            ]
        return tuple(found)

    async def partitions(self) -> tuple[HivePartition, ...]:
        """Those that the metastore knows, sorted by name."""
        names = sorted(
            await self.call("get_partition_names", self.database, self.table_name, -1, repeat=True)
        )
        found: list[HivePartition] = []
        for first in range(0, len(names), _PARTITIONS_AT_ONCE):
            some = names[first : first + _PARTITIONS_AT_ONCE]
            answer = await self.call(
                "get_partitions_by_names_req", self.partitions_request(some), repeat=True
            )
            by_values = {tuple(one.values): one for one in answer.partitions}
            for name in some:
                one = by_values.get(values := _values_of(name))
                if one is not None:  # else it was dropped meanwhile
                    found.append(HivePartition(name, values, one.sd.location))
        return tuple(found)

    async def add_partitions(self, paths: Collection[str]) -> None:
        """Make these known, by their paths below the table; those that are known already stay as they are."""
        table = await self.table()
        types = services()
        parts = []
        for path in sorted(paths):
            storage = copy.copy(table.storage)
            storage.location = f"{table.location.rstrip('/')}/{path}"
            parts.append(
                types.Partition(
                    values=list(_values_of(path)),
                    dbName=self.database,
                    tableName=self.table_name,
                    createTime=0,
                    lastAccessTime=0,
                    sd=storage,
                    parameters={},
                )
            )
        for first in range(0, len(parts), _PARTITIONS_AT_ONCE):
            request = types.AddPartitionsRequest(
                dbName=self.database,
                tblName=self.table_name,
                parts=parts[first : first + _PARTITIONS_AT_ONCE],
                ifNotExists=True,
                needResult=False,
            )
            await self.call("add_partitions_req", request, repeat=True)

    # --- transactions

    async def snapshot(self, write_id: int | None = None) -> Snapshot:
        """What is committed now, up to a write id where one is given."""
        snapshot = await self._snapshot(0)
        if write_id is None:
            return snapshot
        mark = min(WriteIds(write_id).high_watermark, snapshot.write_ids.high_watermark)
        of = snapshot.write_ids
        cut = [tuple(one for one in ids if one <= mark) for ids in (of.open, of.aborted)]
        return Snapshot(WriteIds(mark, *cut), snapshot.transactions)

    async def open_transactions(self, count: int, kind: int) -> list[int]:
        """The ids of so many new transactions, or fewer, in order. Cancelled, it leaves none open."""
        request = services().OpenTxnRequest(
            num_txns=count, user=self.user, hostname=socket.gethostname(), agentInfo=_AGENT, txn_type=kind
        )
        # Else the ids in an answer that nobody waits for would be lost.
        opening = asyncio.create_task(self.call("open_txns", request), name="orcstream transaction")
        try:
            await until_done(opening)
        except asyncio.CancelledError as error:
            if opening.exception() is None:
                await until_over(self._leave(opening.result().txn_ids, error))
            raise
        return sorted(opening.result().txn_ids)

    async def _leave(self, transaction_ids: Sequence[int], error: BaseException) -> None:
        """Where this fails too, the metastore gives them up when they have been silent for long enough."""
        try:
            with anyio.fail_after(_SETTLING_S):
                await self.call("abort_txns", services().AbortTxnsRequest(txn_ids=list(transaction_ids)))
        except (OrcError, OSError) as failure:
            some = ", ".join(map(str, transaction_ids))
            error.add_note(f"transactions that stay open for a while: {some}: {failure}")

    async def _snapshot(self, transaction_id: int) -> Snapshot:
        """What the transaction sees; 0 is for a reader without one."""
        transactions = await self.transactions()
        if transaction_id:
            mark = transaction_id - 1
            transactions = WriteIds(
                mark,
                tuple(one for one in transactions.open if one <= mark),
                tuple(one for one in transactions.aborted if one <= mark),
            )
        return Snapshot(await self._write_ids(transactions), transactions)

    async def transactions(self) -> WriteIds:
        """Which transactions are open or were aborted, of all tables."""
        found = await self.call("get_open_txns", repeat=True)
        return _ids_of(found.txn_high_water_mark, found.open_txns, found.abortedBits)

    async def write_ids(self) -> WriteIds:
        """Which write ids of the table are committed now."""
        return await self._write_ids(await self.transactions())

    async def _write_ids(self, transactions: WriteIds) -> WriteIds:
        request = services().GetValidWriteIdsRequest(
            fullTableNames=[self.name], validTxnList=str(transactions)
        )
        answer = await self.call("get_valid_write_ids", request, repeat=True)
        (found,) = answer.tblValidWriteIds
        return _ids_of(found.writeIdHighWaterMark, found.invalidWriteIds, found.abortedBits)

    async def outcome_of(self, transaction_id: int, write_id: int) -> Outcome:
        """What became of a transaction. One without rows is asked for by its own id."""
        transactions = await self.transactions()
        ids, one = (
            (await self._write_ids(transactions), write_id) if write_id else (transactions, transaction_id)
        )
        if ids.is_aborted(one):
            return "aborted"
        return "committed" if ids.is_visible(one) else "open"

    async def locked(self, request: Any, call: Callable[..., Awaitable[Any]]) -> bool:
        """Wait for locks, up to `lock_timeout_s`; returns whether they are held. `call` makes the calls."""
        types, pause = services(), _LOCK_LOOKS_S[0]
        with anyio.move_on_after(self.lock_timeout_s):
            answer = await call("lock", request)
            while answer.state == types.LockState.WAITING:
                await anyio.sleep(pause)
                pause = min(pause * 1.5, _LOCK_LOOKS_S[1])
                look = types.CheckLockRequest(lockid=answer.lockid, txnid=request.txnid)
                answer = await call("check_lock", look, repeat=True)
            return bool(answer.state == types.LockState.ACQUIRED)
        return False

    # --- calls

    @property
    def user(self) -> str:
        """Who is said to ask."""
        return self._client.user

    @property
    def url(self) -> str:
        """As it was given."""
        return self._client.url

    async def call(self, method: str, *arguments: Any, repeat: bool = False) -> Any:
        """The answer of the metastore's own call, for what has no name here."""
        return await self._client.call(method, *arguments, repeat=repeat)

    async def call_raw(self, method: str, arguments: bytes, *, repeat: bool = False) -> bytes:
        """The same in bytes, both ways; see `MetastoreClient.call_raw`."""
        return await self._client.call_raw(method, arguments, repeat=repeat)

    def table_request(self) -> Any:
        """What asks for the table."""
        types = services()
        return types.GetTableRequest(
            dbName=self.database,
            tblName=self.table_name,
            capabilities=types.ClientCapabilities([types.ClientCapability.INSERT_ONLY_TABLES]),
            processorCapabilities=list(_CAPABILITIES),
            processorIdentifier=_AGENT,
        )

    def partitions_request(self, names: Collection[str]) -> Any:
        """What asks for partitions."""
        return services().GetPartitionsByNamesRequest(
            db_name=self.database,
            tbl_name=self.table_name,
            names=list(names),
            processorCapabilities=list(_CAPABILITIES),
            processorIdentifier=_AGENT,
        )

    def lock_request(
        self, components: Sequence[tuple[Operation | Literal["read"], str]], transaction_id: int
    ) -> Any:
        """The locks for reads or changes of partitions, "" being the table, or that of one without any."""
        types = services()
        asked = []
        for operation, partition in components:
            locks = {
                "read": (types.LockType.SHARED_READ, types.DataOperationType.SELECT),
                "insert": (types.LockType.SHARED_READ, types.DataOperationType.INSERT),
                "change": (types.LockType.EXCL_WRITE, types.DataOperationType.UPDATE),
                "overwrite": (types.LockType.EXCLUSIVE, types.DataOperationType.UPDATE),
            }
            lock, does = locks[operation]
            asked.append(
                types.LockComponent(
                    type=lock,
                    level=types.LockLevel.PARTITION if partition else types.LockLevel.TABLE,
                    dbname=self.database,
                    tablename=self.table_name,
                    partitionname=partition or None,
                    operationType=does,
                    isTransactional=True,
                    isDynamicPartitionWrite=False,
                )
            )
        return types.LockRequest(
            component=asked,
            txnid=transaction_id,
            user=self.user,
            hostname=socket.gethostname(),
            agentInfo=_AGENT,
        )

    async def aclose(self) -> None:
        """Close the connection."""
        await self._client.aclose()


# --- what answers say ------------------------------------------------------------------------------


def _ids_of(mark: int, exceptions: Sequence[int], aborted_bits: bytes) -> WriteIds:
    """The service tells open and aborted ids in one list, and by a bit for each which it is."""
    opened: list[int] = []
    aborted: list[int] = []
    for at, one in enumerate(exceptions):
        byte = aborted_bits[at // 8] if at // 8 < len(aborted_bits) else 0
        (aborted if byte >> at % 8 & 1 else opened).append(one)
    try:
        return WriteIds(mark, tuple(opened), tuple(aborted))
    except UsageError as error:
        raise SourceError(f"the metastore's list of ids is none: {error.message}") from None


def _values_of(path: str) -> tuple[str, ...]:
    """The values of ``country=DE/day=1``, as the metastore has them."""
    texts = (parse_folder(folder, errors="replace")[1] for folder in path.split("/"))
    return tuple(NULL_TEXT if text is None else text for text in texts)


def _table_of(name: str, table: Any, url: str) -> HiveTable:
    parameters = dict(table.parameters or {})
    if parameters.get("transactional", "").lower() != "true":
        raise UsageError(f"{name} is not transactional: open its files, or their folder", url=url)
    storage = table.sd
    library = storage.serdeInfo.serializationLib or ""
    if not library.endswith(".OrcSerde"):
        raise Unsupported(f"the files of {name} are no ORC ({library})", reason="table_format", url=url)
    count = max(storage.numBuckets or 0, 0)
    definition = TableDefinition(
        numbered(Type(Kind.STRUCT, *_columns(name, storage.cols, url))),
        tuple((one.name, one.type) for one in table.partitionKeys or ()),
        tuple(storage.bucketCols or ()) if count else (),
        count,
        parameters.get("transactional_properties", "").lower() == "insert_only",
        by_position=True,
        hive_compacts=_no_compaction(parameters) != "true",
    )
    return HiveTable(name, storage.location, definition, parameters, storage)


def _no_compaction(parameters: Mapping[str, str]) -> str:
    """The property that keeps Hive's initiator away, of which it takes both spellings."""
    lower = "no_auto_compaction"
    return (parameters.get(lower) or parameters.get(lower.upper()) or "").lower()


def _columns(name: str, columns: Sequence[Any], url: str) -> tuple[tuple[Type, ...], tuple[str, ...]]:
    types = []
    for one in columns:
        try:
            types.append(parse_type(one.type))
        except UsageError as error:
            raise Unsupported(
                f"column {one.name} of {name} is a {one.type}, which no ORC file has: {error.message}",
                reason="hive_type",
                url=url,
            ) from None
    return tuple(types), tuple(one.name for one in columns)
