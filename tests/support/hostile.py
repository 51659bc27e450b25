"""Damaged and hostile bytes against the reader: the invariant, in one function for tests and fuzzing.

Any bytes in: rows, or `FormatError` or `Unsupported` with the file's URL, out; in bounded time and memory.
"""

from __future__ import annotations

import contextlib
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import anyio

import orcstream
from orcstream.errors import FormatError, Unsupported

TIME_LIMIT_S = 20.0
ROW_LIMIT = 5_000_000
"""Rows to take of a file that claims more: the claim may be true, runs are cheap."""


async def read_everything(path: Path, *, memory_limit: int = 32 << 20) -> int:
    """Open, look at all there is to look at, read; answers the rows. Only errors of the invariant are caught.

    The row count is -1 where the file was refused.
    """
    try:
        async with orcstream.open(str(path)) as file:
            str(file.schema)
            dict(file.statistics)
            for number in range(min(len(file.stripes), 3)):
                with contextlib.suppress(FormatError, Unsupported):
                    await file.stripe_footer(number)
                with contextlib.suppress(FormatError, Unsupported):
                    await file.row_index(number)
            rows = 0
            async with file.batches(memory_limit=memory_limit, batch_rows=8192) as stream:
                async for batch in stream:
                    rows += batch.num_rows
                    if rows > ROW_LIMIT:
                        break
            return rows
    except (FormatError, Unsupported) as error:
        refusal = error
    assert refusal.url is not None, f"an error without its URL: {refusal!r}"
    assert path.name in refusal.url, refusal.url
    return -1


def run(path: Path) -> int:
    """`read_everything` on a loop of its own, within the time limit."""

    async def limited() -> int:
        with anyio.fail_after(TIME_LIMIT_S):
            return await read_everything(path)

    began = time.monotonic()
    rows = anyio.run(limited)
    took = time.monotonic() - began
    assert took < TIME_LIMIT_S, f"{took:.1f} s"
    return rows


def peak_bytes() -> int:
    """The largest this process has been."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def truncations(data: bytes, step: int = 97) -> Iterator[bytes]:
    for stop in range(0, len(data), step):
        yield data[:stop]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to four small harms: flipped bits, other bytes, bytes out or in; half of them near the tail."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        low = max(0, len(out) - 400) if rng.random() < 0.5 else 0
        at = rng.randrange(low, len(out)) if low < len(out) else 0
        harm = rng.random()
        if not out:
            break
        if harm < 0.5:
            out[at] ^= 1 << rng.randrange(8)
        elif harm < 0.85:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif harm < 0.93:
            del out[at : at + rng.randint(1, 8)]
        else:
            out[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(out)
