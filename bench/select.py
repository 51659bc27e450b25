"""Reads of little from afar: one row, and one row group in a hundred.

Server and proxy have one core, the client the other, and the distance is that of `distant`. What is compared
with is what the same machine needs for the requests alone: bare GETs by the same client library, with nothing
done to the answers.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
from pyarrow import compute, orc

import orcstream
from bench import lineitem, servers
from bench.proxy import Exchange
from bench.report import Figure
from orcstream.codec.metadata.structure import StreamKind, positions_of, stream_ranges
from orcstream.codec.streams.compression import Compression

ROW = 1_234_567
POINT_COLUMNS = ["l_partkey", "l_extendedprice"]
POINT_HOPS = 3
POINT_OVER_BARE = 1.5
GROUP_ROWS = 10_000
# A row group in a hundred, by the one column whose values ascend.
GROUPS = range(150, 153)
GROUP_COLUMNS = ["l_orderkey", "l_partkey", "l_extendedprice", "l_shipdate", "l_shipmode"]
BYTES_OVER_CHUNKS = 2.2
OVER_PYARROW = 8.0

# The newest names of the interface.
_API: Any = orcstream


def measure(*, quick: bool) -> list[Figure]:
    path = lineitem.path_of("zstd", lineitem.ROWS)
    with servers.near() as store, servers.distant(store) as distance:
        store.put(path)
        servers.move_to_client_core()
        return [
            *asyncio.run(_Point(distance, path).figures(5 if quick else 11)),
            *asyncio.run(_Groups(distance, path).figures(3 if quick else 7)),
        ]


class _Case:
    """One file behind the distance; a client that another open file keeps alive."""

    def __init__(self, distance: servers.Distance, path: Path) -> None:
        self._distance = distance
        self._path = path
        self._url = f"s3://{servers.BUCKET}/{path.name}"
        self._options = distance.store.storage_options

    def _open(self) -> Any:
        return _API.open(self._url, storage_options=self._options)


class _Point(_Case):
    """One row of two columns, from a bare URL."""

    async def figures(self, rounds: int) -> list[Figure]:
        ours, bare, hops = [], [], []
        signed = await asyncio.to_thread(self._distance.store.signed_url, self._path.name)
        async with self._open(), aiohttp.ClientSession() as session:
            opening = await self._requests_of_an_open()
            for round_ in range(rounds + 1):
                self._distance.log()
                took, later_hops, waves = await self._read()
                sizes = largest(self._distance.log(), [*[1] * opening, *waves])
                gets = await _timed(partial(self._bare, session, signed, sizes))
                if round_:
                    ours.append(took)
                    bare.append(gets)
                    hops.append(opening + later_hops)
        times = statistics.median(ours), statistics.median(bare)
        beside = f"ours {times[0]:.3f} s, three GETs of {sizes} bytes {times[1]:.3f} s"
        what = "one row of two columns, from a bare URL"
        return [
            Figure("select", f"{what}: hops", max(hops), "hops", POINT_HOPS, None, True),
            Figure(
                "select",
                f"{what}: over three bare GETs",
                times[0] / times[1],
                "x",
                POINT_OVER_BARE,
                None,
                True,
                beside,
            ),
        ]

    async def _requests_of_an_open(self) -> int:
        """Each waits for the one before."""
        self._distance.log()
        async with self._open():
            return len(self._distance.log())

    async def _read(self) -> tuple[float, int, list[int]]:
        """Seconds, hops after the open, and the requests of each."""
        choice: dict[str, Any] = {"rows": range(ROW, ROW + 1), "columns": POINT_COLUMNS}
        start = time.perf_counter()
        async with self._open() as file:
            async with file.batches(**choice) as stream:
                rows = sum([batch.num_rows async for batch in stream])
                took = time.perf_counter() - start
            assert rows == 1
            planned = await file.explain(**choice)
        waves = [wave.request_count for wave in planned.waves[1:] if wave.request_count]
        assert sum(waves) == stream.stats.request_count
        return took, stream.stats.hop_count, waves

    @staticmethod
    async def _bare(session: aiohttp.ClientSession, url: str, sizes: list[int]) -> None:
        for size in sizes:
            async with session.get(url, headers={"Range": f"bytes=0-{size - 1}"}) as answer:
                assert len(await answer.read()) == size


class _Groups(_Case):
    """A predicate that keeps three row groups of three hundred."""

    async def figures(self, rounds: int) -> list[Figure]:
        first, last = GROUPS.start * GROUP_ROWS, GROUPS.stop * GROUP_ROWS - 1
        low, high = (row // 4 * 8 + 1 for row in (first, last))
        where = _API.col("l_orderkey").between(low, high)
        ours, read = [], 0
        async with self._open():
            for round_ in range(rounds + 1):
                start = time.perf_counter()
                async with (
                    self._open() as file,
                    file.batches(where=where, columns=GROUP_COLUMNS) as stream,
                ):
                    rows = sum([pa.record_batch(batch).num_rows async for batch in stream])
                    read = stream.stats.bytes_read
                if round_:
                    ours.append(time.perf_counter() - start)
                assert rows == len(GROUPS) * GROUP_ROWS
        chunks = await self._chunk_bytes()
        theirs = await asyncio.to_thread(self._pyarrow, low, high)
        took = statistics.median(ours)
        what = "1 % of the row groups, 5 columns"
        beside = f"read {read:,}, chunks {chunks:,}; tail left out"
        times = f"ours {took:.3f} s, pyarrow {theirs:.3f} s"
        return [
            Figure(
                "select",
                f"{what}: bytes over those of their chunks",
                read / chunks,
                "x",
                BYTES_OVER_CHUNKS,
                None,
                True,
                beside,
            ),
            Figure("select", f"{what}: as fast as pyarrow", theirs / took, "x", OVER_PYARROW, beside=times),
        ]

    def _pyarrow(self, low: int, high: int) -> float:
        """It has no predicates: all rows of these columns, then a filter. Once: it takes long."""
        start = time.perf_counter()
        filesystem = self._distance.store.pyarrow_filesystem()
        with filesystem.open_input_file(f"{servers.BUCKET}/{self._path.name}") as source:
            table = orc.ORCFile(source).read(columns=GROUP_COLUMNS)
        key = compute.field("l_orderkey")
        assert table.filter((key >= low) & (key <= high)).num_rows == len(GROUPS) * GROUP_ROWS
        return time.perf_counter() - start

    async def _chunk_bytes(self) -> int:
        """Compression chunks that hold values of these groups, and dictionaries; from the local copy."""
        data = self._path.read_bytes()
        async with _API.open(str(self._path)) as file:
            wanted = {int(file.schema[name].column_id) for name in GROUP_COLUMNS}
            stripe = file.stripes[0]
            footer, indexes = await file.stripe_footer(0), await file.row_index(0)
            placed = stream_ranges(stripe, footer)
            present = {stream.column for stream, _ in placed if stream.kind is StreamKind.PRESENT}
            total = 0
            for stream, range_ in placed:
                if stream.kind.is_index or int(stream.column) not in wanted:
                    continue
                parts = positions_of(
                    file.schema.types[stream.column].kind,
                    footer.encodings[stream.column].kind,
                    has_present=stream.column in present,
                    compressed=file.compression is not Compression.NONE,
                )
                index = indexes[stream.column]
                own = [part for part in parts if part.kind is stream.kind]
                if not own:  # a dictionary
                    total += range_.length
                    continue
                (start, *_), (stop, *skips) = (
                    [int(number) for number in index.entry(group)[own[0].first :][: len(own[0])]]
                    for group in (GROUPS.start, GROUPS.stop)
                )
                if any(skips):  # the last group's rows reach into the chunk that the next one begins in
                    header = int.from_bytes(data[range_.start + stop : range_.start + stop + 3], "little")
                    stop += 3 + header // 2
                total += stop - start
        return total


def largest(log: list[Exchange], waves: list[int]) -> list[int]:
    """The longest answer of each wave, whose requests were sent one wave after the other."""
    sent = sorted(log, key=lambda exchange: exchange.sent_s)
    found, at = [], 0
    for count in waves:
        found.append(max(exchange.answer_bytes for exchange in sent[at : at + count]))
        at += count
    return found


async def _timed(action: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter()
    await action()
    return time.perf_counter() - start
