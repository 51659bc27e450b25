"""Memory while streaming: it follows the limit that was given, whatever the size of the file.

Each reading happens in a process of its own (`python -m bench.memory URL ...`): the peak of its memory
(VmHWM) less what it held (VmRSS) after importing and after reading one tiny file of the same store. The
consumer drops each batch.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import orcstream
from bench import lineitem, servers
from bench.report import Figure

MIB = 1024 * 1024
LIMIT_BYTES = 64 * 1000 * 1000
ABOVE_LIMIT_BYTES = 64 * 1000 * 1000
DIFFERENCE_BYTES = 20 * 1000 * 1000
TIMES_THE_LIMIT = (10, 40)
TIMES_THE_LIMIT_QUICK = (1, 4)
CODEC = "zstd"
TINY_ROWS = 1000


def measure(*, quick: bool) -> list[Figure]:
    times = TIMES_THE_LIMIT_QUICK if quick else TIMES_THE_LIMIT
    paths = [lineitem.of_size(CODEC, factor * LIMIT_BYTES) for factor in times]
    tiny = lineitem.path_of(CODEC, TINY_ROWS)
    with servers.near() as store:
        store.put(tiny, *paths)
        figures = []
        for name, prefix, options in (
            ("local", f"{lineitem.DATA}/", None),
            ("S3", f"s3://{servers.BUCKET}/", store.storage_options),
        ):
            peaks = [_peak(prefix + path.name, prefix + tiny.name, options) for path in paths]
            figures += _figures(name, peaks, times)
    return figures


def _figures(store: str, peaks: list[int], times: tuple[int, ...]) -> list[Figure]:
    floor = (LIMIT_BYTES + ABOVE_LIMIT_BYTES) / 1e6
    what = f"{store}: peak with memory_limit={LIMIT_BYTES / 1e6:.0f} MB, a file of {{}} times that"
    figures = [
        Figure("memory", what.format(factor), peak / 1e6, unit="MB", floor=floor, at_most=True)
        for factor, peak in zip(times, peaks, strict=True)
    ]
    difference = abs(peaks[1] - peaks[0]) / 1e6
    what = f"{store}: difference of the two"
    return [*figures, Figure("memory", what, difference, "MB", DIFFERENCE_BYTES / 1e6, at_most=True)]


def _peak(url: str, tiny: str, options: dict[str, Any] | None) -> int:
    command = [sys.executable, "-m", "bench.memory", url, tiny, json.dumps(options), str(LIMIT_BYTES)]
    run = subprocess.run(command, cwd=servers.ROOT, stdout=subprocess.PIPE, check=True)
    return int(run.stdout)


async def _read(url: str, options: dict[str, Any] | None, limit_bytes: int) -> None:
    async with (
        orcstream.open(url, storage_options=options) as file,
        file.batches(memory_limit=limit_bytes) as batches,
    ):
        async for _ in batches:
            pass


def status_bytes(name: str) -> int:
    """A figure of /proc/self/status, such as VmHWM."""
    with open("/proc/self/status") as status:  # noqa: PTH123 - pathlib is not part of what is measured
        (line,) = (line for line in status if line.startswith(name + ":"))
    return int(line.split()[1]) * 1024


async def _child(url: str, tiny: str, options: dict[str, Any] | None, limit_bytes: int) -> int:
    await _read(tiny, options, limit_bytes)
    before = status_bytes("VmRSS")
    await _read(url, options, limit_bytes)
    return status_bytes("VmHWM") - before


if __name__ == "__main__":
    url_, tiny_, options_, limit_ = sys.argv[1:]
    print(asyncio.run(_child(url_, tiny_, json.loads(options_), int(limit_))))
