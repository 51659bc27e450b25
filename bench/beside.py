"""Beside a thread that computes in Python: what a scan and a write lose to it, and what it loses to them.

Such a thread keeps the interpreter's lock for 5 ms at a time, and whoever wants it waits that long. So what
takes the lock seldom is hardly slower, as `pyarrow.orc` shows, and what takes it thousands of times is many
times slower. `tests.support.lock` counts those times, and the CPU time in which the lock is held: that bounds
what any number of threads can gain.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem, local, servers, write
from bench.report import Figure, interleave, leave_out
from tests.support import lock

ROWS = 2_000_000
ROWS_QUICK = 500_000
CORES = len(os.sched_getaffinity(0))
# The counting thread has a core of its own where that can be: its loss and ours are the lock's alone then.
THREADS = max(1, min(2, CORES - 1))
LINK_MBPS = 200.0

SCAN = (2.5, 1.3)
WRITE = (2.5, 1.3)
DISTANT = (3.0, 1.5)
KEPT_PERCENT = (80.0, 92.0)
LATE_MS = (4.0, 2.0)
SPEED_UP = (8.0, 12.0)
MANY_THREADS = 16

_TICK_S = 0.001
_COUNTED_ALONE_S = 0.3


def measure(*, quick: bool) -> list[Figure]:
    rows, rounds = (ROWS_QUICK, 1) if quick else (ROWS, 3)
    codecs = ("zstd",) if quick else tuple(lineitem.CODECS)
    counting = Counting()
    figures = []
    for codec in codecs:
        for writer, path_of in (("pyarrow", lineitem.path_of), ("ORC Java", lineitem.path_by_java)):
            figures += _scan(counting, f"{codec} by {writer}", path_of(codec, rows), rounds)
    path = lineitem.path_of("zstd", rows)
    if THREADS == 1:
        figures.append(_scan_by_default(counting, path, rounds))
    figures += _write(counting, path, rounds)
    figures.append(_distant(counting, path, rounds))
    figures.append(_lateness(path, scans=5 if quick else 20))
    figures += _predicted(rows)
    return figures


class Counting:
    """A thread that only counts, while something else is done, and how fast it was."""

    def __init__(self) -> None:
        self._begin, self._ended = threading.Event(), threading.Event()
        self._goes_on = False
        self._speed = 0.0
        threading.Thread(target=self._run, name="counting", daemon=True).start()

    def beside(self, action: Callable[[], object], speeds: list[float]) -> object:
        """What the action returns; a second's count goes to `speeds`."""
        self._goes_on = True
        self._begin.set()
        try:
            return action()
        finally:
            self._goes_on = False
            self._ended.wait()
            self._ended.clear()
            speeds.append(self._speed)

    def _run(self) -> None:
        while self._begin.wait():
            self._begin.clear()
            count = 0
            begun = time.perf_counter()
            while self._goes_on:
                count += 1
            self._speed = count / (time.perf_counter() - begun)
            self._ended.set()


class _Case:
    """Things alone and beside the counting thread, in turns."""

    def __init__(
        self,
        counting: Counting,
        rounds: int,
        *,
        before: Callable[[], object] = lambda: None,
        **actions: Callable[[], object],
    ) -> None:
        self._speeds: dict[str, list[float]] = {name: [] for name in (*actions, "")}
        measured: dict[str, Callable[[], object]] = {
            "": partial(counting.beside, lambda: time.sleep(_COUNTED_ALONE_S), self._speeds[""])
        }
        for name, action in actions.items():
            measured[f"{name} alone"] = action
            measured[f"{name} beside"] = partial(counting.beside, action, self._speeds[name])
        self._times = interleave(rounds, before=before, **measured)

    def longer(self, name: str) -> float:
        return self._times[f"{name} beside"].wall_s / self._times[f"{name} alone"].wall_s

    def kept_percent(self, name: str) -> float:
        """How fast the thread counted meanwhile, of its speed by itself."""
        return 100 * statistics.median(self._speeds[name]) / statistics.median(self._speeds[""])

    def seconds(self, name: str) -> str:
        alone, beside = (self._times[f"{name} {how}"].wall_s for how in ("alone", "beside"))
        return f"{alone:.3f} s alone, {beside:.3f} s beside"


def _scan(counting: Counting, file: str, path: Path, rounds: int) -> list[Figure]:
    case = _Case(
        counting,
        rounds,
        ours=lambda: asyncio.run(_read(path, THREADS)),
        pyarrow=lambda: orc.ORCFile(str(path)).read(),
    )
    theirs = f"pyarrow {case.longer('pyarrow'):.2f} x, {case.seconds('pyarrow')}"
    what = f"{file}, {THREADS} thread(s): scan"
    kept = f"beside pyarrow {case.kept_percent('pyarrow'):.0f} %"
    return [
        _longer(f"{what} beside over alone", case, *SCAN, beside=theirs),
        _kept(f"{what}, what the counting thread keeps of its speed", case, kept),
    ]


async def _read(path: Path, decode_threads: int) -> None:
    """Without a result: `asyncio.run` of Python 3.11.7 makes a text of it, which takes the lock 20 times."""
    await local.read(path, decode_threads)


def _scan_by_default(counting: Counting, path: Path, rounds: int) -> Figure:
    """With as many threads as cores a part of the loss is the core's that the counting thread takes."""
    case = _Case(counting, rounds, ours=lambda: asyncio.run(_read(path, 2)))
    what = f"zstd by pyarrow, 2 threads on {CORES} core(s): scan beside over alone"
    return _longer(
        what, case, SCAN[0], beside=f"the thread keeps {case.kept_percent('ours'):.0f} % of its speed"
    )


def _write(counting: Counting, path: Path, rounds: int) -> list[Figure]:
    table = orc.read_table(path)
    with tempfile.TemporaryDirectory(dir=lineitem.DATA) as folder:
        ours, theirs = Path(folder) / "ours.orc", Path(folder) / "theirs.orc"

        def remove() -> None:
            ours.unlink(missing_ok=True)
            theirs.unlink(missing_ok=True)

        case = _Case(
            counting,
            rounds,
            before=remove,
            ours=lambda: write.write(table, ours, "zstd", None, THREADS),
            pyarrow=lambda: orc.write_table(table, str(theirs), compression="zstd"),
        )
    what = f"zstd, {THREADS} thread(s): write"
    beside = f"pyarrow {case.longer('pyarrow'):.2f} x, {case.seconds('pyarrow')}"
    return [
        _longer(f"{what} beside over alone", case, *WRITE, beside=beside),
        _kept(f"{what}, what the counting thread keeps of its speed", case),
    ]


def _distant(counting: Counting, path: Path, rounds: int) -> Figure:
    """Over the distance of `bench.distant`, whose client has one core; here it needs one more."""
    with servers.near() as store:
        store.put(path)
        with servers.distant(store, link_mbps=LINK_MBPS) as distance:
            url = f"s3://{servers.BUCKET}/{path.name}"
            scan = partial(_scan_url, url, distance.store.storage_options)
            case = _Case(counting, rounds, ours=lambda: asyncio.run(scan()))
    what = f"zstd by pyarrow, distant, {THREADS} thread(s): scan beside over alone"
    return _longer(what, case, *DISTANT, beside=f"the thread keeps {case.kept_percent('ours'):.0f} %")


async def _scan_url(url: str, options: dict[str, Any]) -> None:
    async with (
        orcstream.open(url, storage_options=options) as file,
        file.batches(batch_rows=local.BATCH_ROWS, decode_threads=THREADS) as batches,
    ):
        async for batch in batches:
            pa.record_batch(batch)


def _longer(
    what: str, case: _Case, floor: float | None = None, target: float | None = None, *, beside: str
) -> Figure:
    told = f"ours {case.seconds('ours')}; {beside}"
    return Figure("beside", what, case.longer("ours"), "x", floor, target, at_most=True, beside=told)


def _kept(what: str, case: _Case, beside: str = "") -> Figure:
    floor, target = KEPT_PERCENT if CORES > THREADS else (None, None)
    return Figure("beside", what, case.kept_percent("ours"), "%", floor, target, beside=beside)


def _lateness(path: Path, scans: int) -> Figure:
    """How late a task wakes that sleeps for a millisecond on the loop of a scan."""

    async def scan() -> None:
        for _ in range(scans):
            await local.stream(path, THREADS)

    asyncio.run(_late_beside(scan()))  # once, for what is imported late
    late, idle = asyncio.run(_late_beside(scan())), asyncio.run(_late_beside(asyncio.sleep(1)))
    beside = (
        f"{len(late)} wakes; median {1000 * statistics.median(late):.2f} ms, worst {1000 * max(late):.1f}"
    )
    beside += f"; 99th percentile of an idle loop {_percentile_ms(idle):.2f} ms"
    what = f"zstd by pyarrow, {THREADS} thread(s): the loop's lateness during a scan, 99th percentile"
    return Figure("beside", what, _percentile_ms(late), "ms", *LATE_MS, at_most=True, beside=beside)


async def _late_beside(work: Awaitable[object]) -> list[float]:
    late: list[float] = []

    async def tick() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            late.append(time.perf_counter() - begun - _TICK_S)

    ticking = asyncio.create_task(tick())
    await work
    ticking.cancel()
    return late


def _percentile_ms(late: list[float]) -> float:
    return 1000 * statistics.quantiles(late, n=100)[-1]


# --- the lock --------------------------------------------------------------------------------------


def _predicted(rows: int) -> list[Figure]:
    problem = lock.missing()
    if problem is not None:
        leave_out(problem)
        return []
    figures = []
    path = lineitem.path_of("zstd", rows)
    for writer, file in (("pyarrow", path), ("ORC Java", lineitem.path_by_java("zstd", rows))):
        scan = f"orcstream.blocking.read({str(file)!r}, decode_threads={THREADS})"
        kinds = lock.takes_of("import orcstream.blocking", scan)
        figures.append(_speed_up(f"zstd by {writer}: scan", kinds, *SPEED_UP))
    with tempfile.TemporaryDirectory(dir=lineitem.DATA) as folder:
        target = str(Path(folder) / "ours.orc")
        setup = f"from bench import write; from pyarrow import orc; table = orc.read_table({str(path)!r})"
        kinds = lock.takes_of(setup, f"write.write(table, {target!r}, 'zstd', None, {THREADS})")
    return [*figures, _speed_up("zstd: write", kinds)]


def _speed_up(
    what: str, kinds: list[lock.Takes], floor: float | None = None, target: float | None = None
) -> Figure:
    held, cpu = sum(kind.held_s for kind in kinds), sum(kind.cpu_s for kind in kinds)
    takes = ", ".join(f"{kind.kind} {kind.takes:,} takes, {1000 * kind.held_s:.1f} ms" for kind in kinds)
    beside = f"held for {held / cpu:.1%} of {1000 * cpu:.0f} ms of CPU: {takes}"
    beside += f"; with their queue {queued(held / cpu, MANY_THREADS):.2g}"
    what += f", predicted speed-up, {MANY_THREADS} threads"
    return Figure("beside", what, min(MANY_THREADS, cpu / held), "x", floor, target, beside=beside)


def queued(share: float, threads: int) -> float:
    """How fast threads are, compared with one, that need one lock for this share of their work.

    What the share alone allows is one over it. This counts that they come at random and wait for each other
    (exact mean value analysis of a closed network: one queue, and a core for each).
    """
    speed = length = 0.0
    for count in range(1, threads + 1):
        waiting = share * (1 + length)
        speed = count / (waiting + 1 - share)
        length = speed * waiting
    return speed
