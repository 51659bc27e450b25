"""Local files, into Arrow: against pyarrow's reader, against pure decompression, streamed against whole."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem
from bench.decompress import Chunks
from bench.report import Figure, Timing, interleave
from bench.servers import ROOT

BATCH_ROWS = 65_536
# How many times as fast as pyarrow with two decode threads: the least, and what is aimed at.
SPEED = {
    "zstd": (3.0, 3.5),
    "zlib": (4.6, 5.0),
    "snappy": (4.2, 5.0),
    "none": (4.2, 5.0),
    "lz4": (None, None),
}
SPEED_ONE_THREAD = (1.4, 1.7)
SPEED_FIRST = (2.2, 3.0)
OVER_DECOMPRESSION = (1.35, 1.2)
OVER_WHOLE = 1.25
# Pyarrow's, then ours.
_FIRST = ("orc.ORCFile(path).read()", "asyncio.run(local.read(path, 2))")


def measure(*, quick: bool) -> list[Figure]:
    codecs = ("zstd", "none") if quick else tuple(SPEED)
    rows = 1_000_000 if quick else lineitem.ROWS
    figures = []
    for codec in codecs:
        figures += _measure_codec(codec, lineitem.path_of(codec, rows), rounds=3 if quick else 7)
    figures.append(_measure_first(lineitem.path_of("zstd", rows), rounds=3 if quick else 7))
    return figures


def _measure_codec(codec: str, path: Path, rounds: int) -> list[Figure]:
    actions: dict[str, Any] = {
        "pyarrow": lambda: orc.ORCFile(str(path)).read(),
        "two": lambda: asyncio.run(read(path, decode_threads=2)),
        "one": lambda: asyncio.run(read(path, decode_threads=1)),
        "streamed": lambda: asyncio.run(stream(path, decode_threads=2)),
    }
    if codec in ("zstd", "zlib"):
        chunks = Chunks(path, codec)
        actions["decompress two"] = lambda: chunks.decompress(2)
        actions["decompress one"] = lambda: chunks.decompress(1)
        actions["in place"] = lambda: chunks.decompress_in_place(2)
    times = interleave(rounds, **actions)
    pyarrow, two, one, streamed = (times[name] for name in ("pyarrow", "two", "one", "streamed"))
    floor, target = SPEED[codec]
    figures = [
        _speed(f"{codec}, 2 threads: as fast as pyarrow", pyarrow, two, floor, target),
        _speed(f"{codec}, 1 thread: as fast as pyarrow", pyarrow, one, *SPEED_ONE_THREAD),
        _longer(f"{codec}: streamed in batches of 64k rows over read()", streamed, two, OVER_WHOLE),
    ]
    if codec in ("zstd", "zlib"):
        for word, threads, whole in (("two", 2, two), ("one", 1, one)):
            pure = times[f"decompress {word}"]
            what = f"{codec}, {threads} thread(s): over decompression alone"
            figures.append(_longer(what, whole, pure, *OVER_DECOMPRESSION))
        what = f"{codec}, 2 threads: over decompression alone in the same way"
        figures.append(_longer(what, two, times["in place"]))
    return figures


def _measure_first(path: Path, rounds: int) -> Figure:
    """One read in a fresh process: memory is fresh as well, and modules are imported by it that come late."""
    theirs, ours = zip(
        *(tuple(map(partial(_in_fresh_process, path), _FIRST)) for _ in range(rounds)), strict=True
    )
    their_s, our_s = statistics.median(theirs), statistics.median(ours)
    beside = f"pyarrow {their_s:.3f} s, ours {our_s:.3f} s"
    floor, target = SPEED_FIRST
    what = "zstd, first read of a process, 2 threads: as fast as pyarrow"
    return Figure("local", what, their_s / our_s, floor=floor, target=target, beside=beside)


def _in_fresh_process(path: Path, action: str) -> float:
    """Seconds of `action`, after the imports of both."""
    code = (
        "import asyncio, time, orcstream, pyarrow\n"
        "from bench import local\n"
        "from pyarrow import orc\n"
        f"path = {str(path)!r}\n"
        "begun = time.perf_counter()\n"
        f"kept = {action}\n"
        "print(time.perf_counter() - begun)"
    )
    return float(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT))


def _speed(what: str, theirs: Timing, ours: Timing, floor: float | None, target: float | None) -> Figure:
    value = theirs.wall_s / ours.wall_s
    return Figure("local", what, value, floor=floor, target=target, beside=f"pyarrow {theirs}, ours {ours}")


def _longer(
    what: str, ours: Timing, base: Timing, floor: float | None = None, target: float | None = None
) -> Figure:
    value = ours.wall_s / base.wall_s
    beside = f"ours {ours}, base {base}"
    return Figure("local", what, value, floor=floor, target=target, at_most=True, beside=beside)


async def read(path: Path, decode_threads: int) -> Any:
    """The whole file as a pyarrow table."""
    async with orcstream.open(str(path)) as file:
        return (await file.read(decode_threads=decode_threads)).to_arrow()


async def stream(path: Path, decode_threads: int) -> int:
    """The whole file as pyarrow record batches, each dropped before the next."""
    rows = 0
    async with (
        orcstream.open(str(path)) as file,
        file.batches(batch_rows=BATCH_ROWS, decode_threads=decode_threads) as batches,
    ):
        async for batch in batches:
            rows += pa.record_batch(batch).num_rows
    return rows
