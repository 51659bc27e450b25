"""Takes files in hand and prints what each took.

Run as `python -m tests.memory.bomb_child OPERATION PATIENCE TINY FILE...`.

One line of JSON for each file: the outcome, the peak of memory over that before the file (VmHWM), the
seconds it took, and how late the event loop was at most for a task that wakes up every few milliseconds.
What comes out of a bomb that is legal is waited for so many seconds.

Each of several files has a forked process of its own: memory that allocators keep after one file would be
counted for the next, and how much they keep depends on which threads ran. The tiny file goes first in each,
so that what is imported late and what threads need is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orcstream
import orcstream.inspect as orcstream_inspect
from tests.memory.child import status_bytes

LIMIT = 16 << 20
WAKE_S = 0.005


async def read(path: str) -> str:
    return await _batches(path, memory_limit=LIMIT)


async def select(path: str) -> str:
    async with orcstream.open(path) as file:
        column = file.schema.names[0]
    return await _batches(path, where=orcstream.col(column) > 5, memory_limit=LIMIT)


async def slice_(path: str) -> str:
    return await _batches(path, rows=range(10_005, 10_010), memory_limit=LIMIT)


async def _batches(path: str, **options: Any) -> str:
    rows = 0
    async with orcstream.open(path) as file, file.batches(**options) as stream:
        async for batch in stream:
            rows += batch.num_rows
    return f"{rows} rows"


async def tools(path: str) -> str:
    async with orcstream.open(path) as file:
        len(await file.stripe_statistics())
        for number in range(min(1, len(file.stripes))):
            await file.stripe_footer(number)
            await file.row_index(number)
    return "seen"


async def verify(path: str) -> str:
    async with orcstream.open(path) as file:
        found = await file.verify(stripes=range(min(1, len(file.stripes))), memory_limit=LIMIT)
    return f"{len(found.faults)} faults: {'; '.join(map(str, found.faults[:1]))}"


async def merge(path: str) -> str:
    target = Path(path).with_suffix(".merged")
    try:
        return f"{(await orcstream.merge([path], target)).row_count} rows"
    finally:
        target.unlink(missing_ok=True)


async def data_set(path: str) -> str:
    rows = 0
    async with orcstream.dataset(path) as data, data.batches(memory_limit=LIMIT) as stream:
        async for batch in stream:
            rows += batch.num_rows
    return f"{rows} rows"


async def inspect(path: str) -> str:
    return await _inspected(path)


async def inspect_question(path: str) -> str:
    async with orcstream.open(path) as file:
        column = file.schema.names[0]
    return await _inspected(path, where=orcstream.col(column) > 5, rows=range(100))


async def _inspected(path: str, **question: Any) -> str:
    found = await orcstream_inspect.inspect(path, **question)
    forms = (found.to_html, found.to_text, found.to_json)
    length = await asyncio.to_thread(lambda: sum(len(form()) for form in forms))
    return "; ".join([f"{length} characters", *found.problems[:2]])


OPERATIONS: dict[str, Callable[[str], Awaitable[str]]] = {
    "read": read,
    "select": select,
    "slice": slice_,
    "tools": tools,
    "verify": verify,
    "merge": merge,
    "data_set": data_set,
    "inspect": inspect,
    "inspect_question": inspect_question,
}


class Lateness:
    """How late the loop was at most since it was asked last."""

    def __init__(self) -> None:
        self._most = 0.0

    async def run(self) -> None:
        while True:
            due = time.monotonic() + WAKE_S
            await asyncio.sleep(WAKE_S)
            self._most = max(self._most, time.monotonic() - due)

    def take(self) -> float:
        most, self._most = self._most, 0.0
        return most


async def outcome(work: Awaitable[str], patience_s: float) -> str:
    try:
        async with asyncio.timeout(patience_s):
            return await work
    except TimeoutError:
        return "timeout"
    except Exception as error:  # noqa: BLE001  # told to the test
        return f"{type(error).__name__}: {str(error)[:300]}"


async def measure(operation: str, patience_s: float, tiny: str, path: str) -> None:
    work = OPERATIONS[operation]
    late = Lateness()
    task = asyncio.create_task(late.run())
    await work(tiny)
    gc.collect()
    before = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    await asyncio.sleep(2 * WAKE_S)
    late.take()
    began = time.monotonic()
    found = await outcome(work(path), patience_s)
    took = time.monotonic() - began
    await asyncio.sleep(2 * WAKE_S)
    line = {"outcome": found, "peak": status_bytes("VmHWM") - before, "late": late.take(), "took": took}
    print(json.dumps(line), flush=True)  # noqa: T201
    task.cancel()


def main(operation: str, patience_s: str, tiny: str, *paths: str) -> None:
    if len(paths) == 1:
        asyncio.run(measure(operation, float(patience_s), tiny, *paths))
        return
    asyncio.run(outcome(OPERATIONS[operation](tiny), float(patience_s)))
    for path in paths:
        process = os.fork()
        if not process:
            asyncio.run(measure(operation, float(patience_s), tiny, path))
            os._exit(0)
        if os.waitpid(process, 0)[1]:
            sys.exit(f"the process of {path} failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
