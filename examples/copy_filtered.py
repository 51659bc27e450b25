"""Some rows of one ORC file, streamed into another: from any URL to any URL, in bounded memory.

`python examples/copy_filtered.py SOURCE TARGET "amount > 20"` does it for files of yours, such as
`s3://bucket/in.orc`; without arguments, for two files of 400,000 rows in memory file systems of fsspec. As
`orcstream convert SOURCE TARGET --where TEXT` does, this never has more than a few batches and one stripe.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

import orcstream
from orcstream import Expr

MEMORY = 64 << 20
ROWS = 400_000


async def copy(source: str, target: str, where: Expr) -> orcstream.WriteResult:
    async with orcstream.open(source) as file, file.batches(where=where, memory_limit=MEMORY) as stream:
        # The same columns and types, the user's metadata, and nothing under the target's name until the end.
        async with orcstream.create(
            target, stream.schema, user_metadata=file.user_metadata, memory_limit=MEMORY
        ) as out:
            async for batch in stream:
                await out.write(batch)  # waits while the store is slow, and then so does the reading
        stats = stream.stats
        print(
            f"{source}: {file.row_count:,} rows, {stats.bytes_read:,} of {file.tail.file_length:,} bytes read"
        )
    result = out.result
    print(f"{result.url}: {result.row_count:,} rows, {result.length:,} bytes, stripes: {result.stripe_count}")
    return result


async def make(url: str) -> None:
    random = np.random.default_rng(7)
    # Small stripes, so that there is something to leave out.
    async with orcstream.create(
        url, user_metadata={"origin": "example"}, memory_limit=16 << 20, stripe_bytes=1 << 19
    ) as out:
        for first in range(0, ROWS, 50_000):
            ids = np.arange(first, first + 50_000)
            await out.write({"id": ids, "amount": random.gamma(2, 10, ids.size).round(2)})


async def show() -> None:
    await make("memory://example/all.orc")
    where = Expr.parse("id >= 300000 and amount > 50")
    await copy("memory://example/all.orc", "memory://example/large.orc", where)
    async with orcstream.open("memory://example/large.orc") as file:
        print(file.user_metadata, (await file.take([0])).to_pylist())


def main() -> None:
    if len(sys.argv) == 4:
        asyncio.run(copy(sys.argv[1], sys.argv[2], Expr.parse(sys.argv[3])))
    else:
        asyncio.run(show())


if __name__ == "__main__":
    main()
