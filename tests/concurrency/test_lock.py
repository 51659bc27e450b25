"""How often scans and writes take the interpreter's lock: by windows and threads, and not by chunks.

A thread that takes the lock waits up to 5 ms for it beside another that computes in Python. Counting needs no
quiet machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from bench import lineitem
from tests.servers.loopback import RangeServer, range_server
from tests.support import lock
from tests.support.needs import not_here
from tests.support.read_sources import Decodes, counted_workers

__all__ = ["range_server"]  # a fixture

ROWS = 400_000
CALLS = 300
STARTING = 1

PER_WINDOW_AND_THREAD = 2
BESIDES = 150
# A third are for making and closing 16 connections; the others depend on how much comes at a time.
OVER_HTTP = 600
OF_A_WRITE = 350
# Of 100 batches.
OF_A_TABLE = 20


@pytest.fixture(scope="module", autouse=True)
def counted() -> None:
    problem = lock.missing()
    if problem is not None:
        not_here(problem)


# --- the counter -----------------------------------------------------------------------------------

DATA = "data = bytes(range(256)) * 64; "
RELEASING = {
    "interpreter": ("import time", "time.sleep(0)"),
    "kernel": (
        "import numpy; from orcstream.codec.metadata._bloom import hash_longs; "
        "numbers = numpy.arange(100); out = numpy.zeros(100, 'u8')",
        "hash_longs(numbers, out)",
    ),
    "zstandard": (f"import zstandard; {DATA}", "zstandard.compress(data)"),
    "cramjam": (f"import cramjam; {DATA}", "cramjam.snappy.compress_raw(data)"),
    "deflate": (f"import deflate; {DATA}", "deflate.deflate_compress(data, 1)"),
}


# From which versions on a package takes the lock once for a call.
ONCE_FROM = {"cramjam": (2, 14), "deflate": (0, 9)}


def cases() -> Iterator[Any]:
    for name in RELEASING:
        least = ONCE_FROM.get(name, ())
        is_older = bool(least) and tuple(map(int, version(name).split(".")[:2])) < least
        reason = f"{name} takes the lock once for a call from {'.'.join(map(str, least))} on"
        yield pytest.param(name, marks=pytest.mark.skipif(is_older, reason=reason))


@pytest.mark.parametrize("name", list(cases()))
def test_each_take_is_counted(name: str) -> None:
    setup, call = RELEASING[name]
    (takes,) = lock.takes_of(setup, f"for _ in range({CALLS}): {call}")
    assert takes.kind == "caller"
    assert takes.takes == CALLS + STARTING


def test_time_with_the_lock_is_told_from_time_without() -> None:
    (holding,) = lock.takes_of("", "sum(number * number for number in range(3_000_000))")
    assert holding.cpu_s > 0.02
    assert holding.held_s > 0.9 * holding.cpu_s
    (releasing,) = lock.takes_of("import hashlib", "hashlib.pbkdf2_hmac('sha256', b'', b'', 400_000)")
    assert releasing.cpu_s > 0.02
    assert releasing.held_s < 0.1 * releasing.cpu_s


def test_threads_are_told_apart_and_places_named() -> None:
    setup = "import threading, time"
    work = "target=lambda: [time.sleep(0) for _ in range(50)], name='other'"
    statement = f"one = threading.Thread({work}); one.start(); time.sleep(0); one.join()"
    kinds = {takes.kind: takes for takes in lock.takes_of(setup, statement, places=True)}
    assert set(kinds) == {"caller", "ended"}
    assert kinds["ended"].takes >= 50
    assert sum(kinds["ended"].places.values()) == kinds["ended"].takes


# --- scans -----------------------------------------------------------------------------------------


async def windows_of(path: Path) -> int:
    """A batch is what all columns have of a window."""
    async with orcstream.open(str(path)) as file, file.batches() as stream:
        return len([batch async for batch in stream])


@pytest.fixture(scope="module")
def table() -> Any:
    return lineitem.table(0, ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lock")


async def write(table: Any, path: Path, codec: str, chunk_bytes: int) -> None:
    if codec == "lz4":  # pyarrow 26 stores all chunks of such a file as they are
        async with orcstream.create(path, compression=codec, block_bytes=chunk_bytes) as out:
            await out.write(table)
        return
    orc.write_table(
        table,
        str(path),
        compression=lineitem.CODECS[codec],
        compression_block_size=chunk_bytes,
        dictionary_key_size_threshold=0.5,
    )


@pytest.mark.parametrize(
    ("codec", "chunk_kib", "threads"),
    [
        ("zstd", 64, 1),
        ("zstd", 64, 2),
        ("zstd", 64, 4),
        ("zstd", 256, 2),
        ("zlib", 64, 2),
        ("snappy", 64, 2),
        ("lz4", 64, 2),
        ("none", 64, 2),
    ],
)
async def test_a_scan_takes_the_lock_seldom(
    table: Any, folder: Path, codec: str, chunk_kib: int, threads: int
) -> None:
    path = folder / f"{codec}-{chunk_kib}.orc"
    if not path.exists():
        await write(table, path, codec, chunk_kib * 1024)
    windows = await windows_of(path)
    scan = f"orcstream.blocking.read({str(path)!r}, decode_threads={threads})"
    kinds = lock.takes_of("import orcstream.blocking", scan)
    print(windows, {kind.kind: kind.takes for kind in kinds})  # noqa: T201  # figures for a report of a failure
    assert {kind.kind for kind in kinds} == {"caller", "loop", "worker"}
    assert sum(kind.takes for kind in kinds) <= windows * threads * PER_WINDOW_AND_THREAD + BESIDES


async def test_a_scan_over_http_takes_the_lock_seldom(
    table: Any, folder: Path, range_server: RangeServer
) -> None:
    path = folder / "zstd-64.orc"
    if not path.exists():
        await write(table, path, "zstd", 64 * 1024)
    url = range_server.serve("a.orc", path.read_bytes())
    scan = f"orcstream.blocking.read({url!r}, decode_threads=2)"
    kinds = lock.takes_of("import orcstream.blocking", scan)
    print({kind.kind: kind.takes for kind in kinds})  # noqa: T201  # figures for a report of a failure
    assert {kind.kind for kind in kinds} == {"caller", "loop", "worker"}
    assert sum(kind.takes for kind in kinds) <= OVER_HTTP


async def test_a_result_becomes_a_table_without_the_lock(table: Any, folder: Path) -> None:
    path = folder / "zstd-64.orc"
    if not path.exists():
        await write(table, path, "zstd", 64 * 1024)
    read = f"orcstream.blocking.read({str(path)!r}, batch_rows=4000)"
    setup = f"import orcstream.blocking, pyarrow; result = {read}"
    (caller,) = (kind for kind in lock.takes_of(setup, "pyarrow.table(result)") if kind.kind == "caller")
    assert caller.takes <= OF_A_TABLE


class Counting:
    """A thread that only counts, meanwhile."""

    def __enter__(self) -> None:
        self._goes_on = True
        self._thread = threading.Thread(target=self._count)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._goes_on = False
        self._thread.join()

    def _count(self) -> None:
        count = 0
        while self._goes_on:
            count += 1


async def test_a_spare_thread_decodes_while_another_waits_for_the_lock(table: Any, folder: Path) -> None:
    path = folder / "zstd-64.orc"
    if not path.exists():
        await write(table, path, "zstd", 64 * 1024)
    decodes = Decodes()
    with counted_workers() as active:
        for _ in range(20):  # until enough calls of a read have had to wait
            async with orcstream.open(path, observer=decodes) as file:
                with Counting():
                    await file.read(decode_threads=1, memory_limit=16 << 20)
            if active[1] > 1:
                break
    assert active[1] == 2
    assert decodes.at_once() == 1


async def test_a_read_that_is_alone_has_no_spare_thread(table: Any, folder: Path) -> None:
    path = folder / "zstd-64.orc"
    if not path.exists():
        await write(table, path, "zstd", 64 * 1024)
    for _ in range(20):  # other work on the machine delays calls, too
        with counted_workers() as active:
            async with orcstream.open(path) as file:
                await file.read(decode_threads=1)
        if active[1] == 1:
            break
    assert active[1] == 1


@pytest.mark.parametrize(
    ("codec", "stride", "threads"), [("zstd", 10_000, 1), ("zstd", 500, 2), ("none", 10_000, 2)]
)
def test_a_write_takes_the_lock_seldom(
    table: Any, folder: Path, codec: str, stride: int, threads: int
) -> None:
    """However many row groups and chunks there are."""
    source, target = folder / "source.arrow", folder / f"written-{codec}.orc"
    if not source.exists():
        with pa.OSFile(str(source), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    setup = (
        "import pyarrow as pa; from orcstream.blocking import create\n"
        f"table = pa.ipc.open_file(pa.memory_map({str(source)!r})).read_all()\n"
        "def write():\n"
        f"    with create({str(target)!r}, compression={codec!r}, "
        f"row_index_stride={stride}, encode_threads={threads}) as out:\n"
        "        out.write(table)"
    )
    kinds = lock.takes_of(setup, "write()")
    print({kind.kind: kind.takes for kind in kinds})  # noqa: T201  # figures for a report of a failure
    assert orc.ORCFile(target).nrows == ROWS
    assert sum(kind.takes for kind in kinds) <= OF_A_WRITE
