"""Tables with a transaction log, and transactions that do as if they had written something."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from orcstream.acid.log import TransactionLog
from orcstream.acid.transactions import TableDefinition, Work
from orcstream.io import records
from orcstream.schema import Schema

__all__ = ["MEMORY", "TABLE", "delta", "scattered", "write"]

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


def scattered(monkeypatch: pytest.MonkeyPatch, draw: random.Random) -> None:
    """Each access to a record takes a turn of the loop or several, as it happens."""

    def slowed(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def slow(*arguments: Any, **options: Any) -> Any:
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
            found = await call(*arguments, **options)
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
            return found

        return slow

    for name in ("listed", "put", "get", "remove"):
        monkeypatch.setattr(records.Records, name, slowed(getattr(records.Records, name)))
