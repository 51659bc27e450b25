"""A writer that waits to be killed: `python -m tests.io.sink_child STAGE URL OPTIONS PART_BYTES`."""

from __future__ import annotations

import asyncio
import json
import sys

from orcstream.io.sink import open_sink


async def run(stage: str, url: str, options: str, part_bytes: str) -> None:
    sink = await open_sink(
        url, storage_options=json.loads(options), sink_options={"part_bytes": int(part_bytes)}
    )
    await sink.write(bytes(2 * int(part_bytes) + 1))
    if stage == "prepared":
        await sink.prepare()
    else:
        await asyncio.sleep(0.5)  # parts are under way, or have arrived
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
