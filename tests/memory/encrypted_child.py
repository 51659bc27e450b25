"""Writes or merges encrypted files in a process of its own: `python -m tests.memory.encrypted_child`.

Arguments: ``write PATH BLOCKS OPTIONS`` or ``merge TARGET FILE TIMES TINY``; it prints what it took. The peak
is VmHWM less VmRSS after importing and doing the same in small.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import orcstream
from orcstream import Encrypt
from tests.generators.encrypting import CountedKeys
from tests.memory.child import status_bytes

ROWS = 50_000


def block() -> pa.RecordBatch:
    """Rows of about 110 decoded bytes, hardly compressible."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(-(1 << 62), 1 << 62, ROWS)
    few = np.array([f"{number:040d}" for number in range(100)])
    return pa.record_batch(
        {
            "n": numbers,
            "d": numbers / 7.0,
            "text": [f"{number:x}" for number in numbers.tolist()],
            "few": few[numbers % 100],
            "list": pa.ListArray.from_arrays(np.arange(0, ROWS + 1, dtype=np.int32), pa.array(numbers)),
        }
    )


# All but "d"; a mask that keeps texts, so that both forms are of some size.
ENCRYPT = [Encrypt("pii", ["n", "list"]), Encrypt("pay", ["text", "few"], "redact")]


async def write(path: str, rows: pa.RecordBatch, count: int, options: dict[str, Any]) -> None:
    out = await orcstream.create(path, rows.schema, encrypt=ENCRYPT, keys=CountedKeys(), **options)
    async with out:
        for _ in range(count):
            await out.write(rows)


async def merge(target: str, path: str, count: int) -> orcstream.MergeResult:
    return await orcstream.merge([path] * count, target, keys=CountedKeys(), rekey=True)


async def main(what: str, path: str, *arguments: str) -> None:
    found: dict[str, Any] = {}
    if what == "write":
        rows, options = block(), json.loads(arguments[1])
        await write(path, rows.slice(0, 10), 1, options)
        before = status_bytes("VmRSS")
        await write(path, rows, int(arguments[0]), options)
    else:
        file, count, tiny = arguments
        await merge(path, tiny, 2)
        before = status_bytes("VmRSS")
        found = {"rows": (await merge(path, file, int(count))).row_count}
    print(json.dumps({**found, "peak": status_bytes("VmHWM") - before, "bytes": Path(path).stat().st_size}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
