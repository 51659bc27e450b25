"""Tables with a transaction log, and transactions that do as if they had written something."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from orcstream.acid.transactions.contract import TableDefinition, Work
from orcstream.acid.transactions.log import TransactionLog, create_log
from orcstream.log import records
from orcstream.schema.schema import Schema
from tests.generators.acid import ROWS
from tests.generators.acid_history import History

__all__ = ["MEMORY", "TABLE", "delta", "keep_history", "scattered", "write"]

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


async def keep_history(
    folder: Path, history: History, partitions: tuple[tuple[str, str], ...] = ()
) -> TransactionLog:
    """A log that says of the table in a folder what its history says; of compactions it knows nothing."""
    log = await create_log(str(folder), TableDefinition(Schema.parse(ROWS), partitions))
    begun = [await log.begin() for _ in range(history.last)]
    for one in begun:
        if one.write_id in history.aborted:
            await one.abort()
        elif one.write_id not in history.open:
            await one.commit(Work(tuple(history.directories(one.write_id))))
    return log


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
