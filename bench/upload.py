"""Gigabytes of Arrow written to a distant store in bounded memory: how fast, and how much memory it takes.

The store is behind 30 ms and 90 MB/s a connection; server and proxy have one core, the writer the other. Each
run is a process of its own (`python -m bench.upload ...`), whose peak of memory (VmHWM) less what it held
(VmRSS) after making its rows and writing a tiny file to the same store is what counts. The *null sink* takes
the bytes and forgets them: what is left is encoding. A *wide* table has 1,000 columns.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import orcstream
from bench import lineitem, servers
from bench.memory import status_bytes
from bench.report import Figure
from orcstream.byterange import ByteRange
from orcstream.io.contract.byte_sink import Prepared, SinkOptions
from orcstream.io.stores.memory.sink import HeldBytes
from orcstream.writer.creating import WholeFile
from orcstream.writer.options import WriteOptions
from orcstream.writer.writer import OrcWriter

LIMIT_BYTES = 128 * 1000 * 1000
ABOVE_LIMIT_BYTES = 64 * 1000 * 1000
ARROW_BYTES = 5 * 1000 * 1000 * 1000
ARROW_BYTES_QUICK = 500 * 1000 * 1000
OVER_ENCODING = 0.8
ROUNDS = 3  # in turns
BATCH_ROWS = 65_536
CODEC = "zstd"
WIDE_COLUMNS = 1000
WIDE_ROWS = 4096


def measure(*, quick: bool) -> list[Figure]:
    size = ARROW_BYTES_QUICK if quick else ARROW_BYTES
    figures = []
    # At a commit this store copies all parts. How fast a disk is at that says nothing of the writer.
    with (
        servers.in_memory() as objects,
        servers.near(objects) as store,
        servers.distant(store) as distance,
    ):
        store.put()
        options = distance.store.storage_options
        servers.move_to_client_core()
        runs = [
            (
                _run("lineitem", "null", size, None),
                _run("lineitem", f"s3://{servers.BUCKET}/upload.orc", size, options),
            )
            for _ in range(1 if quick else ROUNDS)
        ]
        wide = _run("wide", f"s3://{servers.BUCKET}/upload.orc", size // 5, options)
    null, sent = (_median_of(several) for several in zip(*runs, strict=True))
    for what, commit_s in (("to the commit", 0.0), ("until all is at the store", sent["commit_s"])):
        figures.append(
            Figure(
                "upload",
                f"{size / 1e9:.1f} GB of Arrow, {what}: as fast as encoding alone",
                null["wall_s"] / (sent["wall_s"] - commit_s),
                floor=OVER_ENCODING,
                beside=f"to the store {_shown(sent)}, to nowhere {_shown(null)}",
            )
        )
    for name, run in ((f"{size / 1e9:.1f} GB of Arrow", sent), (f"{WIDE_COLUMNS} columns", wide)):
        figures.append(
            Figure(
                "upload",
                f"{name}: peak with memory_limit={LIMIT_BYTES / 1e6:.0f} MB",
                run["peak_bytes"] / 1e6,
                "MB",
                (LIMIT_BYTES + ABOVE_LIMIT_BYTES) / 1e6,
                at_most=True,
                beside=_shown(run),
            )
        )
    return figures


def _median_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run of the median time, with the highest of all peaks."""
    median = sorted(runs, key=lambda run: run["wall_s"])[len(runs) // 2]
    return median | {"peak_bytes": max(run["peak_bytes"] for run in runs)}


def _shown(run: dict[str, Any]) -> str:
    return (
        f"{run['wall_s']:.2f} s ({run['cpu_s']:.2f} CPU), {run['file_bytes'] / 1e6:,.0f} MB "
        f"in {run['stripes']} stripes, commit {run['commit_s']:.2f} s"
    )


def _run(rows: str, url: str, size: int, options: dict[str, Any] | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.upload", rows, url, str(size), json.dumps(options)]
    run = subprocess.run(command, cwd=servers.ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


# --- the child -------------------------------------------------------------------------------------


class NullSink:
    """Takes bytes and forgets them."""

    url = "null"
    held_bytes = 0

    def __init__(self) -> None:
        self.length = 0

    async def write(self, data: Any) -> None:
        self.length += memoryview(data).nbytes

    async def copy(self, source: str, range: ByteRange, fingerprint: str) -> bool:  # noqa: ARG002
        return False

    async def prepare(self) -> Prepared:
        return Prepared(url=self.url, length=self.length, overwrite=True, state=HeldBytes((), ""))

    async def abort(self) -> None: ...

    async def aclose(self) -> None: ...


def _lineitem(size: int) -> Iterator[pa.RecordBatch]:
    table = lineitem.table(0, 1_000_000).combine_chunks()
    done = 0
    while True:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield batch
            done += batch.nbytes
            if done >= size:
                return


def _wide(size: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(7)
    numbers = random.integers(0, 1 << 40, (WIDE_COLUMNS // 2, WIDE_ROWS))
    texts = [pa.array([f"{column}-{row % 97}" for row in range(WIDE_ROWS)]) for column in range(20)]
    columns = {f"n{index}": pa.array(values) for index, values in enumerate(numbers)}
    columns |= {f"t{index}": texts[index % 20] for index in range(WIDE_COLUMNS // 2)}
    batch = pa.record_batch(columns)
    for _ in range(-(-size // batch.nbytes)):
        yield batch


async def _write(
    url: str, batches: Iterator[pa.RecordBatch], options: dict[str, Any] | None
) -> tuple[OrcWriter, float]:
    """The writer, and how long its commit took after everything was there."""
    if url == "null":
        settings = WriteOptions(memory_limit=LIMIT_BYTES, compression=CODEC)
        out = OrcWriter(WholeFile(NullSink(), None, SinkOptions()), None, settings, user_metadata={})
        for batch in batches:
            await out.write(batch)
        await out.prepare()
        return out, 0.0
    async with orcstream.create(
        url, storage_options=options, memory_limit=LIMIT_BYTES, compression=CODEC
    ) as out:
        for batch in batches:
            await out.write(batch)
        await out.prepare()
        begun = time.perf_counter()
        await out.commit()
    return out, time.perf_counter() - begun


async def _child(rows: str, url: str, size: int, options: dict[str, Any] | None) -> dict[str, Any]:
    source = {"lineitem": _lineitem, "wide": _wide}[rows]
    for tiny in source(1):
        await _write(url, iter([tiny.slice(0, 10)]), options)
    batches = source(size)
    first = next(batches)
    before = status_bytes("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    out, commit_s = await _write(url, all_batches(), options)
    return {
        "commit_s": commit_s,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_bytes": status_bytes("VmHWM") - before,
        "file_bytes": (await out.prepare()).length if url == "null" else out.result.length,
        "stripes": out.stripe_count,
    }


if __name__ == "__main__":
    rows_, url_, size_, options_ = sys.argv[1:]
    print(json.dumps(asyncio.run(_child(rows_, url_, int(size_), json.loads(options_)))))
