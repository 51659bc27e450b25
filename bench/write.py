"""A table from Arrow to a local file: against pyarrow's writer, and the file's size against ORC Java's.

pyarrow compresses with a lower level than ORC Java and we do (zstd 1, zlib 2), so speed is measured at its
levels, and beside them at our defaults, which are ORC Java's; sizes are compared at these.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem
from bench.report import Figure, Timing, interleave

# Times pyarrow with two threads, at its levels: the least, and what is aimed at; and so at our defaults.
SPEED = {"zstd": (2.6, 3.0), "zlib": (3.0, None), "snappy": (2.4, 3.0), "none": (2.6, 3.0)}
SPEED_BY_DEFAULT = (1.5, 2.0)
SIZE = (1.05, 1.02)
# The level of pyarrow's own, which it has no parameter for.
LEVELS = {"zstd": 1, "zlib": 2, "snappy": None, "none": None}


def measure(*, quick: bool) -> list[Figure]:
    rows = 1_000_000 if quick else lineitem.ROWS
    table = orc.read_table(lineitem.path_of("none", rows))
    figures = []
    with tempfile.TemporaryDirectory(dir=lineitem.DATA) as folder:
        for codec, level in LEVELS.items():
            if quick and codec not in ("zstd", "none"):
                continue
            figures += _speeds(table, codec, level, Path(folder), rounds=3 if quick else 5)
            figures.append(_size(table, codec, lineitem.path_of("none", rows), Path(folder)))
    return figures


def _speeds(table: Any, codec: str, level: int | None, folder: Path, rounds: int) -> list[Figure]:
    theirs, ours = folder / "theirs.orc", folder / "ours.orc"
    actions: dict[str, Any] = {
        "pyarrow": lambda: orc.write_table(table, str(theirs), compression=lineitem.CODECS[codec]),
        "two": lambda: write(table, ours, codec, level, threads=2),
        "one": lambda: write(table, ours, codec, level, threads=1),
    }
    if level is not None:
        actions["default"] = lambda: write(table, ours, codec, None, threads=2)

    def remove() -> None:
        # Removing a file of 200 MB takes a file system that tells the disk at once up to half a second.
        theirs.unlink(missing_ok=True)
        ours.unlink(missing_ok=True)

    times = interleave(rounds, before=remove, **actions)
    at = "" if level is None else f", level {level}"
    what = f"{codec}{at}, 2 threads: as fast as pyarrow"
    figures = [_speed(what, times["pyarrow"], times["two"], *SPEED[codec])]
    if level is not None:
        what = f"{codec}, default level, 2 threads: as fast as pyarrow at its own"
        figures.append(_speed(what, times["pyarrow"], times["default"], *SPEED_BY_DEFAULT))
    figures.append(_speed(f"{codec}{at}, 1 thread: as fast as pyarrow", times["pyarrow"], times["one"]))
    return figures


def _speed(
    what: str, theirs: Timing, ours: Timing, floor: float | None = None, target: float | None = None
) -> Figure:
    value = theirs.wall_s / ours.wall_s
    return Figure("write", what, value, floor=floor, target=target, beside=f"pyarrow {theirs}, ours {ours}")


def write(table: pa.Table, path: Path, codec: str, level: int | None, threads: int) -> None:
    """The table as a file, synced to disk as every file is."""

    async def work() -> None:
        async with orcstream.create(
            path, compression=codec, compression_level=level, encode_threads=threads
        ) as out:
            await out.write(table)

    asyncio.run(work())


def _size(table: pa.Table, codec: str, source: Path, folder: Path) -> Figure:
    ours, theirs = folder / "ours.orc", folder / "java.orc"
    write(table, ours, codec, None, threads=2)
    lineitem.rewrite_by_java(source, theirs, codec)
    own_bytes, java_bytes = ours.stat().st_size, theirs.stat().st_size
    return Figure(
        "write",
        f"{codec}: size over ORC Java's, both with their defaults",
        own_bytes / java_bytes,
        floor=SIZE[0],
        target=SIZE[1],
        at_most=True,
        beside=f"ours {own_bytes:,}, ORC Java {java_bytes:,} bytes",
    )
