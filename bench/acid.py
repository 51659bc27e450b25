"""Transactional tables: what it costs that rows were deleted, against a plain scan of the same file.

Ten million rows like those of `lineitem`, in a delta, and a million deletes spread over all of them. The
plain scan reads the same columns of the same file, deleted or not. With less memory, the keys of deleted rows
are put aside on disk.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem
from bench.report import Figure, Timing, interleave
from orcstream import acid

OVER_PLAIN = 1.5
_SPILLING = 64 << 20
_BUCKET = 1 << 29


def measure(*, quick: bool) -> list[Figure]:
    rows = 1_000_000 if quick else 10_000_000
    folder = lineitem.DATA / f"acid-{rows}"
    if not (folder / "made").exists():
        asyncio.run(_make(folder, rows))
    (file,) = folder.glob("delta_*/bucket_00000")
    found = interleave(
        3 if quick else 5,
        plain2=lambda: asyncio.run(_plain(file)),
        merged2=lambda: asyncio.run(_merged(folder)),
        plain64=lambda: asyncio.run(_plain(file, memory_limit=_SPILLING)),
        merged64=lambda: asyncio.run(_merged(folder, memory_limit=_SPILLING)),
        plain1=lambda: asyncio.run(_plain(file, decode_threads=1)),
        merged1=lambda: asyncio.run(_merged(folder, decode_threads=1)),
    )
    what = f"{rows // 1_000_000} million rows, a tenth of them deleted"
    return [
        _over(f"{what}: over the plain scan", found["plain2"], found["merged2"], OVER_PLAIN),
        _over(f"{what}, 1 thread: over the plain scan", found["plain1"], found["merged1"], OVER_PLAIN),
        _over(f"{what}, memory_limit=64 MB: over the plain scan", found["plain64"], found["merged64"]),
    ]


def _over(what: str, plain: Timing, merged: Timing, floor: float | None = None) -> Figure:
    value = merged.wall_s / plain.wall_s
    return Figure("acid", what, value, floor=floor, at_most=True, beside=f"plain {plain}, merged {merged}")


async def _make(folder: Path, rows: int) -> None:
    table = orc.read_table(lineitem.path_of("none", min(rows, lineitem.ROWS)))
    await acid.create_table(folder, table.schema)
    async with acid.open_table(folder) as opened:
        async with await opened.transaction() as change:
            for start in range(0, rows, table.num_rows):
                await change.insert(table.slice(0, rows - start))
        gone = np.random.default_rng(1).permutation(rows)[: rows // 10]
        ids = pa.StructArray.from_arrays(
            [
                pa.array(np.ones(len(gone), np.int64)),
                pa.array(np.full(len(gone), _BUCKET, np.int32)),
                pa.array(gone),
            ],
            ["writeid", "bucketid", "rowid"],
        )
        async with await opened.transaction() as change:
            await change.delete_rows(pa.table({"row__id": ids}))
    async with acid.open_table(folder) as opened:
        count = sum([batch.num_rows async for batch in opened.batches(columns=[])])
    assert count == rows - len(gone)
    (folder / "made").touch()


async def _plain(file: Path, **options: Any) -> None:
    async with orcstream.open(file) as opened, opened.batches(columns=["row"], **options) as stream:
        async for _ in stream:
            pass


async def _merged(folder: Path, **options: Any) -> None:
    async with acid.open_table(folder) as opened, opened.batches(**options) as stream:
        async for _ in stream:
            pass
