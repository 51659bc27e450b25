"""What costs little each time but is paid often: `import orcstream`, and opening files of one store."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import orcstream
from bench import lineitem, servers
from bench.report import Figure

IMPORT_MS = 60
OPENS = 1000
OPENS_AT_ONCE = 32
TINY_ROWS = 1000


def measure_import(*, quick: bool) -> list[Figure]:
    """The package's names load what they need when they are first used, so the first use is shown too."""
    statements = ("import numpy", "import orcstream", "from orcstream import open")
    for each in statements:
        _wall_and_cpu(each)  # what is imported is compiled, and in the page cache
    rounds = [[_wall_and_cpu(each) for each in statements] for _ in range(7 if quick else 25)]
    numpy, ours, first_use = (
        [1000 * statistics.median(round_[index][kind] for round_ in rounds) for kind in (0, 1)]
        for index in range(len(statements))
    )
    figures = []
    for statement, took, most in ((statements[1], ours, IMPORT_MS), (statements[2], first_use, None)):
        beside = (
            f"{took[0]:.0f} ms, numpy {numpy[0]:.0f} ms; the difference is {took[1] - numpy[1]:.0f} ms of CPU"
        )
        what = f"{statement}, over import numpy"
        figures.append(Figure("import", what, took[0] - numpy[0], "ms", most, None, True, beside))
    return figures


def _wall_and_cpu(statement: str) -> tuple[float, float]:
    """Wall clock and CPU seconds of a statement in a fresh interpreter."""
    code = (
        "import time; wall, cpu = time.perf_counter(), time.process_time()\n"
        f"{statement}\n"
        "print(time.perf_counter() - wall, time.process_time() - cpu)"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=servers.ROOT, stdout=subprocess.PIPE, check=True)
    wall, cpu = map(float, run.stdout.split())
    return wall, cpu


def measure_opens(*, quick: bool) -> list[Figure]:
    path = lineitem.path_of("zstd", TINY_ROWS)
    count = 100 if quick else OPENS
    with servers.near() as store:
        store.put(path)
        with _counted_clients() as made:
            wall, cpu = time.perf_counter(), time.process_time()
            asyncio.run(_open_many(f"s3://{servers.BUCKET}/{path.name}", store.storage_options, count))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    beside = f"{1000 * wall / count:.2f} ms each ({1000 * cpu / count:.2f} CPU), {OPENS_AT_ONCE} at once"
    return [
        Figure("opens", f"S3 clients made for {count} opens", len(made), "clients", 1, None, True, beside)
    ]


async def _open_many(url: str, options: dict[str, Any], count: int) -> None:
    turn = asyncio.Semaphore(OPENS_AT_ONCE)

    async def one() -> None:
        async with turn, orcstream.open(url, storage_options=options) as file:
            assert file.row_count == TINY_ROWS

    # One stays open, as in a program that works through a list of files.
    async with orcstream.open(url, storage_options=options):
        await asyncio.gather(*(one() for _ in range(count - 1)))


@contextlib.contextmanager
def _counted_clients() -> Iterator[list[object]]:
    """Collects every S3 client that is made meanwhile."""
    from aiobotocore.client import AioBaseClient

    made: list[object] = []
    original = AioBaseClient.__init__

    def counting(self: object, *arguments: Any, **named: Any) -> None:
        made.append(self)
        original(self, *arguments, **named)

    with mock.patch.object(AioBaseClient, "__init__", counting):
        yield made
