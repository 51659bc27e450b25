"""Readers and writers for a long time, on an S3 server and a network that fail: `make soak`.

versitygw stands behind a proxy that answers one request in twenty with 500 or 503, and that one behind
toxiproxy, which breaks connections off now and then. Files are created, ingested, merged and read in all
ways; others of this host are followed while they grow. What must hold: every row read is right; every file
that is visible is whole, by pyarrow; nothing is left of uploads; memory is flat; everything is done at least
once. Ends with a summary, and with status 1 for any violation.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

import orcstream
from orcstream import col
from orcstream.errors import RetriesExhausted, SinkError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import cleanup
from tests.servers.s3_proxy import Asked, Refusal, S3Proxy, run_s3_proxy, start_versitygw
from tests.servers.sink_stores import BUCKET, SinkStore, s3_store
from tests.servers.toxiproxy import Link, linked

ERROR_SHARE = 0.05
REPORT_S = 5.0
STEPS = ("create", "ingest", "merge", "follow", "scan", "filtered", "seek")
# From so long on, each of them is expected to be done.
ALL_DONE_S = 60.0
# A second half that takes more than this, of the first half's memory, grows.
GROWTH = 1.15
SLACK_BYTES = 32 << 20
IO = {"retries": 12, "timeout_s": 20.0, "stall_timeout_s": 2.0}
SINK = {"retries": 12, "timeout_s": 20.0, "stall_timeout_s": 2.0, "abort_timeout_s": 20.0}
# What a user is told when all attempts of a request have failed. It happens, and changes no row.
GIVEN_UP = (RetriesExhausted, SinkError)


def table_of(seed: int) -> pa.Table:
    """Rows that follow from a number, so that any part of a file can be judged by itself."""
    rng = random.Random(seed)
    count = rng.randrange(2_000, 20_000)
    ids = range(seed * 100_000, seed * 100_000 + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"{seed} {one * 7919 % 10_007}" for one in ids]),
            "value": pa.array([rng.random() for _ in ids]),
        }
    )


class Soak:
    """One run. `live` holds what is visible: names, and the seeds whose rows they hold."""

    def __init__(self, store: SinkStore, direct: SinkStore, folder: Path) -> None:
        self.store = store
        self.folder = folder  # of this host, for files that grow
        self.direct = direct  # the same bucket, without what fails on the way
        self.live: dict[str, tuple[int, ...]] = {}
        self.in_use: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.given_up: Counter[str] = Counter()
        self.violations: list[str] = []
        self.row_count = 0
        self._seeds = itertools.count(1)
        self._rng = random.Random(11)

    async def work(self, stop_s: float) -> None:
        """One of several that do this side by side."""
        while time.monotonic() < stop_s and not self.violations:
            # Twice as much is read as is written.
            step = self._rng.choice((*STEPS, *STEPS[-3:]))
            try:
                await getattr(self, step)()
                self.done[step] += 1
            except* GIVEN_UP:
                self.given_up[step] += 1
            except* Exception as group:
                self.violations += [f"{step}: {type(one).__name__}: {one}" for one in group.exceptions]

    # --- writing -----------------------------------------------------------------------------------

    async def create(self) -> None:
        seed = next(self._seeds)
        name = f"created {seed}.orc"
        table = table_of(seed)
        async with orcstream.create(
            self.store.url_of(name), table.schema, storage_options=self.store.options, sink_options=SINK
        ) as out:
            for start in range(0, len(table), 4_000):
                await out.write(table.slice(start, 4_000))
        self.live[name] = (seed,)
        await self._limit_files()

    async def ingest(self) -> None:
        seeds = [next(self._seeds) for _ in range(3)]
        found: list[orcstream.IngestedFile] = []
        async with orcstream.ingest(
            self.store.url_of("ingested {uuid}.orc"),
            table_of(seeds[0]).schema,
            max_rows=6_000,
            storage_options=self.store.options,
            sink_options=SINK,
            on_file=found.append,
        ) as out:
            for seed in seeds:
                await out.write(table_of(seed))
        expected = pa.concat_tables(map(table_of, seeds)).sort_by("id")
        tables = []
        for one in found:
            data = await anyio.to_thread.run_sync(self.direct.seen, one.url.rpartition("/")[2])
            assert data is not None, f"{one.url} is committed and not there"
            tables.append(orc.read_table(io.BytesIO(data)))
        self._same(pa.concat_tables(tables).sort_by("id"), expected, "what was ingested")

    async def merge(self) -> None:
        async with self._used(3) as names:
            if len(names) < 2:
                return
            seeds = tuple(seed for name in names for seed in self.live[name])
            if len(seeds) > 12:
                return
            target = f"merged {next(self._seeds)}.orc"
            await orcstream.merge(
                [self.store.url_of(name) for name in names],
                self.store.url_of(target),
                storage_options=self.store.options,
                target_storage_options=self.store.options,
                io_options=IO,
                sink_options=SINK,
            )
            self.live[target] = seeds
        await self._limit_files()

    # --- reading -----------------------------------------------------------------------------------

    async def scan(self) -> None:
        async with self._opened() as (file, expected):
            async with file.batches(batch_rows=3_000) as stream:
                at = 0
                async for batch in stream:
                    part = pa.Table.from_batches([pa.record_batch(batch)])
                    self._same(part, expected.slice(at, len(part)), "a batch")
                    at += len(part)
            assert at == len(expected), f"{at} rows of {len(expected)}"

    async def filtered(self) -> None:
        async with self._opened() as (file, expected):
            wanted = self._rng.sample(expected["id"].to_pylist(), 5)
            found = pa.table(await file.read(where=col("id").isin(wanted)))
            # More than five where a file was merged with one that has its rows.
            self._same(found, expected.filter(pc.is_in(expected["id"], pa.array(wanted))), "a predicate")

    async def seek(self) -> None:
        async with self._opened() as (file, expected), file.batches(batch_rows=500) as stream:
            for _ in range(3):
                row = self._rng.randrange(len(expected))
                await stream.seek(row)
                part = pa.Table.from_batches([pa.record_batch(await anext(stream))])
                self._same(part, expected.slice(row, len(part)), f"rows from {row}")

    async def follow(self) -> None:
        """A file of this host, since objects of S3 do not grow."""
        seed = next(self._seeds)
        table = table_of(seed)
        path = self.folder / f"grown {seed}.orc"
        out = await orcstream.create(path, table.schema, growing=True)
        try:
            await out.write(table.slice(0, 1_000))
            await out.flush()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._followed, path, table)
                for start in range(1_000, len(table), 4_000):
                    await out.write(table.slice(start, 4_000))
                    await out.flush()
                await out.commit()
        finally:
            await out.abort()
            path.unlink(missing_ok=True)

    async def _followed(self, path: Path, table: pa.Table) -> None:
        at = 0
        async with orcstream.open(path, follow=True, poll_s=0.05) as file, file.batches() as stream:
            async for batch in stream:
                part = pa.Table.from_batches([pa.record_batch(batch)])
                self._same(part, table.slice(at, len(part)), "a batch that was followed")
                at += len(part)
        assert at == len(table), f"{at} rows of {len(table)} were followed"

    # --- what all have in common -------------------------------------------------------------------

    @asynccontextmanager
    async def _used(self, count: int) -> AsyncIterator[list[str]]:
        """Some of the files, which stay until they are let go."""
        names = self._rng.sample(sorted(self.live), min(count, len(self.live)))
        self.in_use.update(names)
        try:
            yield names
        finally:
            self.in_use.subtract(names)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[orcstream.OrcFile, pa.Table]]:
        if not self.live:
            await self.create()
        async with self._used(1) as (name,):
            expected = pa.concat_tables(map(table_of, self.live[name])).combine_chunks()
            async with orcstream.open(
                self.store.url_of(name), storage_options=self.store.options, io_options=IO
            ) as file:
                yield file, expected

    def _same(self, found: pa.Table, expected: pa.Table, what: str) -> None:
        assert found.equals(expected), f"{what}: other rows than were written"
        self.row_count += len(found)

    async def _limit_files(self) -> None:
        """What pyarrow has read may go, so that the store does not grow."""
        for name in sorted(self.live):
            if len(self.live) <= 20:
                return
            if name in self.live and not self.in_use[name]:
                await self.check(name, self.live.pop(name))

    async def check(self, name: str, seeds: tuple[int, ...]) -> None:
        """By pyarrow, and without what fails on the way."""
        data = await anyio.to_thread.run_sync(self.direct.seen, name)
        assert data is not None, f"{name} is committed and not there"
        expected = pa.concat_tables(map(table_of, seeds))
        assert orc.read_table(io.BytesIO(data)).equals(expected), f"{name}: other rows than were written"
        self.done["checked"] += 1


def resident_bytes() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def failing(rng: random.Random) -> Callable[[int, Asked], Refusal | None]:
    def fault(_number: int, _asked: Asked) -> Refusal | None:
        if rng.random() >= ERROR_SHARE:
            return None
        return rng.choice((Refusal(500, "InternalError"), Refusal(503, "SlowDown")))

    return fault


async def unsettle(link: Link, rng: random.Random) -> None:
    """Connections are reset, cut off or held, for some moments."""
    toxics: list[Callable[[], None]] = [
        lambda: link.spoil("reset_peer", timeout=rng.randrange(50)),
        lambda: link.spoil("limit_data", bytes=rng.randrange(200_000)),
        lambda: link.spoil("limit_data", "upstream", bytes=rng.randrange(200_000)),
        lambda: link.spoil("timeout", timeout=rng.randrange(300)),
        lambda: link.spoil("latency", latency=rng.randrange(100), jitter=50),
    ]
    while True:
        await anyio.sleep(rng.uniform(0.5, 2.0))
        await anyio.to_thread.run_sync(rng.choice(toxics))
        try:
            await anyio.sleep(rng.uniform(0.1, 0.5))
        finally:
            link.heal()


async def report(soak: Soak, proxy: S3Proxy, samples: list[tuple[float, int]], start_s: float) -> None:
    while True:
        await anyio.sleep(REPORT_S)
        proxy.asked.clear()
        samples.append((time.monotonic() - start_s, resident_bytes()))
        print(
            f"{samples[-1][0]:6.0f} s  {samples[-1][1] >> 20:5d} MiB  {soak.row_count:10d} rows"
            f"  {dict(soak.done)}  given up: {dict(soak.given_up)}",
            flush=True,
        )


async def run(soak: Soak, proxy: S3Proxy, link: Link, seconds: float) -> list[str]:
    """What was violated."""
    start_s = time.monotonic()
    samples: list[tuple[float, int]] = []
    async with anyio.create_task_group() as around:
        around.start_soon(unsettle, link, random.Random(5))
        around.start_soon(report, soak, proxy, samples, start_s)
        async with anyio.create_task_group() as workers:
            for _ in range(6):
                workers.start_soon(soak.work, start_s + seconds)
        around.cancel_scope.cancel()
    proxy.pass_all()
    for name, seeds in soak.live.items():
        await soak.check(name, seeds)
    violations = list(soak.violations)
    if soak.given_up:
        # A writer whose abort could not reach the store has said so.
        await cleanup(
            f"s3://{BUCKET}/", older_than_s=0, storage_options=soak.direct.options, remove=not violations
        )
    if left := soak.direct.left():
        violations.append(f"uploads are left: {left}")
    if count := leased_clients():
        violations.append(f"{count} clients are left")
    if seconds >= ALL_DONE_S:
        violations += [f"{step} was never done" for step in STEPS if not soak.done[step]]
    return violations + memory_violations(samples, seconds)


def memory_violations(samples: list[tuple[float, int]], seconds: float) -> list[str]:
    """The first tenth is left out: what is imported and cached comes then."""
    first = [size for at_s, size in samples if 0.1 * seconds <= at_s < 0.5 * seconds]
    second = [size for at_s, size in samples if at_s >= 0.5 * seconds]
    if not first or not second:
        return []
    before, after = sum(first) / len(first), sum(second) / len(second)
    print(f"memory: {before / 2**20:.0f} MiB in the first half, {after / 2**20:.0f} MiB in the second")
    if after > before * GROWTH + SLACK_BYTES:
        return [f"memory grows, from {before / 2**20:.0f} to {after / 2**20:.0f} MiB"]
    return []


@contextmanager
def placed() -> Iterator[tuple[Soak, S3Proxy, Link]]:
    server = start_versitygw()
    with (
        run_s3_proxy(server.endpoint) as proxy,
        linked(proxy.port) as link,
        tempfile.TemporaryDirectory() as folder,
    ):
        proxy.fault = failing(random.Random(3))
        soak = Soak(s3_store(server, "soak", link.endpoint), s3_store(server, "soak"), Path(folder))
        yield soak, proxy, link


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    seconds = parser.parse_args().seconds
    with placed() as (soak, proxy, link):
        violations = asyncio.run(run(soak, proxy, link, seconds))
    done = ", ".join(f"{count} {name}" for name, count in sorted(soak.done.items()))
    print(f"{seconds:g} s: {soak.row_count} rows; {done}; given up: {dict(soak.given_up) or 'nothing'}")
    for violation in violations:
        print(f"VIOLATION: {violation}")
    print("soak: " + ("FAILED" if violations else "ok"))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
