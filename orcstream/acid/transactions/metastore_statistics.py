"""What Hive believes of a table's statistics once somebody else has written: nothing, until it looks again.

Knows the metastore's marks. Must not know transactions, nor what was written.

Hive answers count, min and max from statistics where the table, or the partition, has the parameter
COLUMN_STATS_ACCURATE and its `writeId` is one that the query sees. Each writer sets that id, and whoever has
no statistics to offer takes the parameter away, before his commit. Tables and partitions are handed back as
the bytes that they came in, so that fields of later versions survive.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any, Final

from orcstream.acid.transactions import thrift_messages as messages
from orcstream.acid.transactions.metastore_calls import MetastoreCalls
from orcstream.acid.transactions.metastore_client import UNKNOWN_METHOD, Refused, services
from orcstream.io.loop.threads import run_in_thread

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
