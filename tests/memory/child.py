"""Reads one file in a process of its own and prints what it took: `python -m tests.memory.child`.

Arguments: the file, a tiny one, the memory limit, further options of `batches` as JSON. The consumer drops
each batch. The peak is VmHWM less VmRSS after importing and reading the tiny file.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import orcstream
from orcstream.io.keys import InMemoryKeyProvider
from tests.generators.encrypting import SECRETS

KEYS = InMemoryKeyProvider()
for name, secret in SECRETS.items():
    KEYS.add_key(name, secret)


async def read(path: str, options: dict[str, Any]) -> dict[str, Any]:
    row_count = largest = batch_count = 0
    async with orcstream.open(path, keys=KEYS) as file, file.batches(**options) as stream:
        async for batch in stream:
            row_count += batch.num_rows
            batch_count += 1
            largest = max(largest, batch.num_rows)
            del batch
        return {"rows": row_count, "batches": batch_count, "largest": largest, "hops": stream.stats.hop_count}


def status_bytes(name: str) -> int:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) * 1024


async def main(path: str, tiny: str, limit: str, options: str) -> None:
    wanted = {"memory_limit": int(limit), **json.loads(options)}
    await read(tiny, wanted)
    before = status_bytes("VmRSS")
    found: dict[str, Any]
    try:
        found = await read(path, wanted)
    except orcstream.errors.Unsupported as error:
        found = {"reason": error.reason, "message": str(error), "column": error.column, "row": error.row}
    print(json.dumps({**found, "peak": status_bytes("VmHWM") - before}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
