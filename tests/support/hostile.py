"""Damaged and hostile bytes against the reader: the invariant, in one function for tests and fuzzing.

Any bytes in: rows, or `FormatError` or `Unsupported` with the file's URL, out; in bounded time and memory.
Where keys are given, `KeyUnavailable` comes out, too: damage may make it another key.
"""

from __future__ import annotations

import contextlib
import random
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

import orcstream
from orcstream.errors import FormatError, KeyUnavailable, OrcError, Unsupported
from orcstream.io.keys import KeyProvider
from orcstream.query.expr import Expr

ALLOWED = (FormatError, Unsupported, KeyUnavailable)

TIME_LIMIT_S = 20.0
ROW_LIMIT = 5_000_000
"""Rows to take of a file that claims more: the claim may be true, runs are cheap."""


async def read_everything(
    path: Path, keys: KeyProvider | None = None, *, memory_limit: int = 32 << 20, where: Expr | None = None
) -> int:
    """Open, look at all there is to look at, read; answers the rows. Only errors of the invariant are caught.

    The row count is -1 where the file was refused; `where` is tried first.
    """
    try:
        async with orcstream.open(str(path), keys=keys) as file:
            str(file.schema)
            dict(file.statistics)
            with contextlib.suppress(*ALLOWED):
                await file.stripe_statistics()
            for number in range(min(len(file.stripes), 3)):
                with contextlib.suppress(*ALLOWED):
                    await file.stripe_footer(number)
                with contextlib.suppress(*ALLOWED):
                    await file.row_index(number)
            if where is not None:
                with contextlib.suppress(*ALLOWED, orcstream.UsageError):  # columns may have other names
                    await _count(file, memory_limit, where)
            return await _count(file, memory_limit, None)
    except ALLOWED as error:
        _check(error, path)
        return -1


async def _count(file: orcstream.OrcFile, memory_limit: int, where: Expr | None) -> int:
    rows = 0
    async with file.batches(memory_limit=memory_limit, batch_rows=8192, where=where) as stream:
        async for batch in stream:
            rows += batch.num_rows
            if rows > ROW_LIMIT:
                break
    return rows


def _check(refusal: OrcError, path: Path) -> None:
    assert refusal.url is not None, f"an error without its URL: {refusal!r}"
    assert path.name in refusal.url, refusal.url


async def merge_it(path: Path, keys: KeyProvider, **options: Any) -> int:
    """Merge the file under new keys; answers the rows, -1 where it was refused. Nothing else is left."""
    target = path.with_suffix(".merged")
    target.unlink(missing_ok=True)
    before = set(path.parent.iterdir())
    try:
        return (await orcstream.merge([str(path)], target, keys=keys, **options)).row_count
    except ALLOWED as error:
        _check(error, path)
    except orcstream.UsageError as error:
        if path.name not in error.message:  # no file is left to merge, and why
            raise
    assert set(path.parent.iterdir()) == before
    return -1


def run(path: Path, keys: KeyProvider | None = None, *, where: Expr | None = None) -> int:
    """`read_everything` on a loop of its own, within the time limit."""
    return _run(lambda: read_everything(path, keys, where=where))


def run_merge(path: Path, keys: KeyProvider, **options: Any) -> int:
    """`merge_it` on a loop of its own, within the time limit."""
    return _run(lambda: merge_it(path, keys, **options))


def _run(work: Callable[[], Awaitable[int]]) -> int:
    async def limited() -> int:
        with anyio.fail_after(TIME_LIMIT_S):
            return await work()

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
