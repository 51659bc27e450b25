"""A writer that waits to be killed: `python -m tests.io.sink_child STAGE URL OPTIONS PART_BYTES`.

At the stage "again" it writes one file after the other to the URL, the first before it says that it is ready.
"""

from __future__ import annotations

import asyncio
import json
import sys

from orcstream.io.sink import commit, open_sink


def content(number: int, part_bytes: int) -> bytes:
    return bytes([number % 251]) * (2 * part_bytes + 1 + number % 251)


async def write_again(url: str, options: str, part_bytes: int) -> None:
    chosen = {"storage_options": json.loads(options), "sink_options": {"part_bytes": part_bytes}}
    for number in range(1 << 30):
        sink = await open_sink(url, **chosen)
        await sink.write(content(number, part_bytes))
        await commit(await sink.prepare(), **chosen)
        await sink.aclose()
        if number == 0:
            sys.stdout.write("ready\n")
            sys.stdout.flush()


async def run(stage: str, url: str, options: str, part_bytes: str) -> None:
    if stage == "again":
        await write_again(url, options, int(part_bytes))
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
