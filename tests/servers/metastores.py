"""Metastores for tests that are no Hive: whatever a test wants to answer; and a client of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from orcstream.acid.transactions.metastore import Metastore

__all__ = ["opened", "server"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[str]:
    """The address of a server that lets `serve` answer each connection."""
    served: list[asyncio.Task[None]] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.ensure_future(serve(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1") as running:
        yield f"thrift://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    for task in served:
        task.cancel()
    await asyncio.gather(*served, return_exceptions=True)


@asynccontextmanager
async def opened(url: str, table: str = "default.plain", **options: float) -> AsyncIterator[Metastore]:
    """A client of a metastore, for one table."""
    metastore = Metastore(url, table, **options)  # type: ignore[arg-type]
    try:
        yield metastore
    finally:
        await metastore.aclose()
