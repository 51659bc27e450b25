"""A file behind 30 ms and 90 MB/s a connection: against fetching its bytes, and against pyarrow.

Server and proxy have one core, every client the other. The link that all connections share passes 200 MB/s,
about what a small machine of a cloud has; 110 MB take 0.57 s then. Beside it the scan is measured without a
bound on the link, where sixteen connections bring 1.4 GB/s to one core and decompression is what takes the
time. `warm` has an open file that keeps the store's client alive, as a program that reads many files has;
`cold` makes one, and is measured against fetching with a URL that a new client has signed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

import aiohttp
import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem, servers
from bench.report import Figure, Stopwatch, Timing, calm, median_of

PART_BYTES = 8 * 1024 * 1024
AT_ONCE = 16
LINK_MBPS = 200.0
BATCH_ROWS = 65_536
OVER_FETCHING = (1.8, 1.5)
BYTES_OVER_WANTED = 1.15
HOPS = 3


def measure(*, quick: bool) -> list[Figure]:
    codecs = ("zstd",) if quick else ("zstd", "snappy", "none")
    paths = {codec: lineitem.path_of(codec, 1_000_000 if quick else lineitem.ROWS) for codec in codecs}
    rounds = 3 if quick else 7
    figures = []
    with servers.near() as store:
        store.put(*paths.values())
        for codec, path in paths.items():
            with servers.distant(store, link_mbps=LINK_MBPS) as distance:
                servers.move_to_client_core()
                figures += _Case(distance, codec, path, rounds).figures()
            with servers.distant(store) as distance:
                servers.move_to_client_core()
                figures += _Case(distance, codec, path, rounds).unbound()
    return figures


class _Case:
    """One file behind the distance."""

    def __init__(self, distance: servers.Distance, codec: str, path: Path, rounds: int) -> None:
        self._distance = distance
        self._codec = codec
        self._path = path
        self._rounds = rounds
        self._bytes = path.stat().st_size
        self._signed = distance.store.signed_url(path.name)
        self._url = f"s3://{servers.BUCKET}/{path.name}"
        self._options = distance.store.storage_options

    def figures(self) -> list[Figure]:
        figures = self._scans("", f", pyarrow {self._pyarrow(None)}", *OVER_FETCHING)
        return [*figures, *asyncio.run(self._three_columns()), *asyncio.run(self._first_batch())]

    def unbound(self) -> list[Figure]:
        """The scan without a bound on the link. It has no floor: decompression alone takes longer."""
        return self._scans(", no bound on the link", "")

    def _scans(
        self, setting: str, peers: str, floor: float | None = None, target: float | None = None
    ) -> list[Figure]:
        bare, warm, signed, cold = asyncio.run(self._scan_times())
        return [
            Figure(
                "distant",
                f"{self._codec}{setting}: full scan over {what}",
                ours.wall_s / base.wall_s,
                floor=floor,
                target=target,
                at_most=True,
                beside=f"ours {ours}, fetching {base}{peers}",
            )
            for what, ours, base in (
                ("fetching the bytes (warm client)", warm, bare),
                ("making a client and fetching the bytes (cold client)", cold, signed),
            )
        ]

    async def _scan_times(self) -> tuple[Timing, Timing, Timing, Timing]:
        async def kept_open() -> Timing:
            async with orcstream.open(self._url, storage_options=self._options):
                return await calm(self._scan)

        runs = [
            (
                await calm(self._fetch),
                await kept_open(),
                await calm(self._sign_and_fetch),
                await calm(self._scan),
            )
            for _ in range(self._rounds + 1)
        ]
        bare, warm, signed, cold = (median_of(column) for column in zip(*runs[1:], strict=True))
        return bare, warm, signed, cold

    async def _sign_and_fetch(self) -> None:
        """The same, and before it what anybody needs to be let in: a client of the store."""
        await servers.sign(self._distance.store, self._path.name)
        await self._fetch()

    async def _fetch(self) -> None:
        """The file's bytes in parts, with nothing done to them."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def part(session: aiohttp.ClientSession, start: int) -> int:
            stop = min(self._bytes, start + PART_BYTES)
            async with (
                turn,
                session.get(self._signed, headers={"Range": f"bytes={start}-{stop - 1}"}) as answer,
            ):
                return len(await answer.read())

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
            parts = [part(session, start) for start in range(0, self._bytes, PART_BYTES)]
            assert sum(await asyncio.gather(*parts)) == self._bytes

    async def _scan(self, columns: list[str] | None = None) -> None:
        async with (
            orcstream.open(self._url, storage_options=self._options) as file,
            file.batches(columns=columns, batch_rows=BATCH_ROWS) as batches,
        ):
            rows = 0
            async for batch in batches:
                rows += pa.record_batch(batch).num_rows
            assert rows == file.row_count

    async def _three_columns(self) -> list[Figure]:
        columns = lineitem.THREE_COLUMNS
        wanted = await self._bytes_wanted(columns)
        self._distance.log()
        watch = Stopwatch()  # once: its requests are counted
        await self._scan(columns)
        ours = watch.stop()
        log = self._distance.log()
        read = sum(exchange.answer_bytes for exchange in log)
        theirs = self._pyarrow(columns)
        beside = f"{len(log)} requests, {read:,} bytes with headers; ours {ours}, pyarrow {theirs}"
        what = f"{self._codec}: bytes read over bytes wanted, 3 columns of 15"
        figure = Figure("distant", what, read / wanted, floor=BYTES_OVER_WANTED, at_most=True, beside=beside)
        return [figure]

    async def _bytes_wanted(self, columns: list[str]) -> int:
        """The tail, the stripe footers and the data streams of these columns, from the local copy."""
        async with orcstream.open(str(self._path)) as file:
            ids = {0} | {int(file.schema[name].column_id) for name in columns}
            wanted: int = file.tail.postscript.tail_bytes + sum(
                stripe.footer_length for stripe in file.stripes
            )
            for index in range(len(file.stripes)):
                footer = await file.stripe_footer(index)
                wanted += sum(s.length for s in footer.streams if s.column in ids and not s.kind.is_index)
        return wanted

    async def _first_batch(self) -> list[Figure]:
        """How many times latency is paid before rows arrive, and how long that takes."""
        hops, seconds = [], []
        async with orcstream.open(self._url, storage_options=self._options):
            for _ in range(self._rounds):
                self._distance.log()
                start = time.perf_counter()
                async with orcstream.open(self._url, storage_options=self._options) as file:
                    # Each request of the open waits for the one before; the stream counts its own, since
                    # the proxy cannot tell a request that had to wait from one that only did.
                    opening = len(self._distance.log())
                    async with file.batches(columns=lineitem.THREE_COLUMNS) as batches:
                        await anext(batches)
                        seconds.append(time.perf_counter() - start)
                        hops.append(opening + batches.stats.hop_count)
        beside = f"{statistics.median(seconds):.3f} s to the first batch of 3 columns"
        what = f"{self._codec}: hops from a bare URL to the first batch"
        return [Figure("distant", what, max(hops), unit="hops", floor=HOPS, at_most=True, beside=beside)]

    def _pyarrow(self, columns: list[str] | None) -> Timing:
        """Once: it takes long, and is no bound."""
        watch = Stopwatch()
        filesystem = self._distance.store.pyarrow_filesystem()
        with filesystem.open_input_file(f"{servers.BUCKET}/{self._path.name}") as source:
            orc.ORCFile(source).read(columns=columns)
        return watch.stop()
