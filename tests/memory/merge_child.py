"""Merges a file with itself in a process of its own: `python -m tests.memory.merge_child`; prints the peak.

Arguments: the target, the file, how many times, a tiny file. The peak is VmHWM less VmRSS after importing and
merging the tiny file.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import orcstream
from tests.memory.child import status_bytes


async def main(target: str, path: str, count: str, tiny: str) -> None:
    await orcstream.merge([tiny, tiny], target)
    before = status_bytes("VmRSS")
    result = await orcstream.merge([path] * int(count), target)
    peak = status_bytes("VmHWM") - before
    print(json.dumps({"peak": peak, "bytes": result.length, "rows": result.row_count}))  # noqa: T201
    Path(target).unlink()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
