"""Single rows of a large ORC file by HTTP: one open file, and two round trips to the store for each lookup.

    python examples/lookup_service.py s3://bucket/orders.orc --make --port 8080
    curl localhost:8080/rows/4712             # by the column id
    curl 'localhost:8080/take?rows=0,499999'  # by row number

`--make` writes a file of 500,000 orders first. They are sorted by id, so the statistics of stripes and row
groups leave one row group; a bloom filter tells ids that are not there without reading any values. Each
answer has the figures of its read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np
from aiohttp import web

import orcstream
from orcstream import ReadStatistics, col

ROWS = 500_000


class SharedFile:
    """One open file for all requests, whose tail was read once. One that was replaced is opened anew."""

    def __init__(self, url: str, options: dict[str, Any] | None) -> None:
        self._open = partial(orcstream.open, url, storage_options=options)
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._file: orcstream.OrcFile | None = None

    async def ask(self, question: Callable[[orcstream.OrcFile], Awaitable[Any]]) -> Any:
        file = await self._newer_than(None)
        try:
            return await question(file)
        except orcstream.SourceChanged:
            return await question(await self._newer_than(file))

    async def _newer_than(self, known: orcstream.OrcFile | None) -> orcstream.OrcFile:
        async with self._opening:
            if self._file is None or self._file is known:
                # Others may still read the earlier one; it is closed at the end.
                self._file = await self._opened.enter_async_context(self._open())
            return self._file

    async def aclose(self) -> None:
        await self._opened.aclose()


SHARED = web.AppKey("shared", SharedFile)


async def look_up(request: web.Request) -> web.Response:
    where = col("id") == int(request.match_info["id"])

    async def question(file: orcstream.OrcFile) -> tuple[list[dict[str, Any]], ReadStatistics]:
        async with file.batches(where=where) as stream:
            return [row async for batch in stream for row in batch.to_pylist()], stream.stats

    rows, stats = await request.app[SHARED].ask(question)
    figures = {
        "requests": stats.request_count,
        "round_trips": stats.hop_count,
        "bytes_read": stats.bytes_read,
        "rows_looked_at": stats.rows_filtered + stats.row_count,
        "rows_pruned_by_bloom": stats.rows_pruned_by_bloom,
    }
    return answer({"rows": rows, "figures": figures}, 200 if rows else 404)


async def take(request: web.Request) -> web.Response:
    try:
        numbers = [int(number) for number in request.query["rows"].split(",")]
        result = await request.app[SHARED].ask(lambda file: file.take(numbers))
    except (KeyError, ValueError) as error:  # UsageError, for a row that is not there, is a ValueError
        raise web.HTTPBadRequest(text=f"{error}\n") from error
    return answer({"rows": result.to_pylist()})


def answer(content: object, status: int = 200) -> web.Response:
    return web.json_response(content, status=status, dumps=partial(json.dumps, default=str))


def service(url: str, options: dict[str, Any] | None = None) -> web.Application:
    async def shared_file(app: web.Application) -> AsyncIterator[None]:
        app[SHARED] = SharedFile(url, options)
        yield
        await app[SHARED].aclose()

    app = web.Application()
    app.add_routes([web.get(r"/rows/{id:\d{1,18}}", look_up), web.get("/take", take)])
    app.cleanup_ctx.append(shared_file)
    return app


async def make(url: str, options: dict[str, Any] | None = None, rows: int = ROWS) -> None:
    random = np.random.default_rng(7)
    ids = np.cumsum(random.integers(1, 4, rows))  # with gaps
    async with orcstream.create(
        url, blooms=["id"], stripe_bytes=1 << 20, row_index_stride=2_000, storage_options=options
    ) as out:
        for start in range(0, rows, 50_000):
            some = ids[start : start + 50_000]
            note = [f"order {number:x}" for number in random.integers(0, 1 << 40, some.size)]
            await out.write({"id": some, "amount": random.gamma(2, 10, some.size).round(2), "note": note})
    print(f"{url}: {rows:,} rows in {out.result.stripe_count} stripes, {out.result.length:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="single rows of an ORC file, by HTTP")
    parser.add_argument("url")
    parser.add_argument("--make", action="store_true", help="write a file of orders there first")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--storage-options", type=json.loads, metavar="JSON")
    given = parser.parse_args()
    if given.make:
        asyncio.run(make(given.url, given.storage_options))
    web.run_app(service(given.url, given.storage_options), host="127.0.0.1", port=given.port)


if __name__ == "__main__":
    main()
