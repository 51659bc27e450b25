"""Tables with a transaction log, and transactions that do as if they had written something."""

from __future__ import annotations

from orcstream.acid.log import TransactionLog
from orcstream.acid.transactions import TableDefinition, Work
from orcstream.schema import Schema

__all__ = ["MEMORY", "TABLE", "delta", "write"]

TABLE = TableDefinition(Schema.parse("struct<id:int,name:string>"), (("country", "string"),), ("id",), 4)
MEMORY = "memory://acid-log/table"


def delta(number: int, partition: str = "country=DE") -> str:
    return f"{partition}/delta_{number:07}_{number:07}_0000"


async def write(log: TransactionLog, partition: str = "country=DE", *, deletes: bool = False) -> int:
    """One transaction that is committed."""
    transaction = await log.begin()
    directories = (delta(transaction.write_id, partition),)
    await transaction.commit(Work(directories, (partition,) if deletes else ()))
    return transaction.write_id
