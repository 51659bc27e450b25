"""A writer that waits to be killed in the middle of a stripe: `python -m tests.io.follow_child PATH`."""

from __future__ import annotations

import asyncio
import sys

import orcstream


async def run(path: str) -> None:
    out = await orcstream.create(path, "struct<n:bigint>", growing=True, compression="none")
    for part in range(3):
        await out.write([{"n": number} for number in range(1000 * part, 1000 * part + 1000)])
        await out.flush()
        sys.stdout.write("flushed\n")
        sys.stdout.flush()
        sys.stdin.readline()
    # More than a sink gathers, so that bytes of a stripe are in the file, and no footer behind them.
    await out.write([{"n": number**3} for number in range(600_000)])
    await out.end_stripe()
    await out.write([{"n": 0}])
    await out.end_stripe()
    sys.stdout.write("torn\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
