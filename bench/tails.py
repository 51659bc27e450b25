"""Opening a thousand files of a distant store: `open_many` against plain GETs of the same ends.

The plain GETs go through one aiohttp session on URLs signed ahead, as many at once, and do nothing with what
arrives. Requests are counted by the proxy.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import yarl
from aiobotocore.session import get_session
from botocore.config import Config

import orcstream
from bench import lineitem, servers
from bench.report import Figure, Stopwatch, Timing, median_of

FILES = 1000
TINY_ROWS = 1000
TAIL_BYTES = 64 * 1024
OVER_BARE = 1.3
# What open_many does by itself. Beyond it the CPU of one core is what counts, which only informs.
DEFAULT_CAP = 16


def measure(*, quick: bool) -> list[Figure]:
    return [
        figure
        for cap in (DEFAULT_CAP, 64)
        for figure in _measure_at(cap, 100 if quick else FILES, 1 if quick else 3)
    ]


def _measure_at(cap: int, count: int, rounds: int) -> list[Figure]:
    paths = files(count)
    with servers.near() as near:
        near.put(*paths)
        with servers.distant(near) as distance:
            servers.move_to_client_core()
            bare, ours, requests = asyncio.run(_compare(distance, [path.name for path in paths], cap, rounds))
    waves = -(-count // cap)
    beside = f"bare {bare}, ours {ours}; {waves} times the latency alone are {waves * 0.03:.3f} s"
    what = f"{count} tails, {cap} at once: over bare GETs"
    figures = [
        Figure(
            "tails",
            what,
            ours.wall_s / bare.wall_s,
            floor=OVER_BARE if cap == DEFAULT_CAP else None,
            at_most=True,
            beside=beside,
        )
    ]
    what = f"{count} tails, {cap} at once: requests"
    return [*figures, Figure("tails", what, requests, "requests", floor=count, at_most=True)]


def files(count: int) -> list[Path]:
    """The same tiny file under many names."""
    source = lineitem.path_of("zstd", TINY_ROWS)
    folder = lineitem.DATA / "tails"
    folder.mkdir(exist_ok=True)
    paths = [folder / f"tail-{number:04}.orc" for number in range(count)]
    for path in paths:
        if not path.exists():
            os.link(source, path)
    return paths


async def _compare(
    distance: servers.Distance, names: list[str], cap: int, rounds: int
) -> tuple[Timing, Timing, int]:
    """Plain GETs, `open_many`, and the requests of one of the latter."""
    urls = [f"s3://{servers.BUCKET}/{name}" for name in names]
    signed = await sign_all(distance.store, names)
    options = distance.store.storage_options
    bare: list[Timing] = []
    ours: list[Timing] = []
    requests = 0
    connector = aiohttp.TCPConnector(limit=cap)
    # Both have their connections and clients before anything is timed.
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        orcstream.open(urls[0], storage_options=options),
    ):
        for _ in range(rounds + 1):
            watch = Stopwatch()
            await fetch(session, signed, cap)
            bare.append(watch.stop())
            distance.log()
            watch = Stopwatch()
            await _open(urls, options, cap)
            ours.append(watch.stop())
            requests = len(distance.log())
    return median_of(bare[1:]), median_of(ours[1:]), requests


async def fetch(session: aiohttp.ClientSession, urls: Iterable[yarl.URL], cap: int) -> None:
    waiting = iter(urls)

    async def work() -> None:
        for url in waiting:
            async with session.get(url, headers={"Range": f"bytes=-{TAIL_BYTES}"}) as answer:
                assert answer.status == 206
                await answer.read()

    await asyncio.gather(*(work() for _ in range(cap)))


async def _open(urls: list[str], options: dict[str, Any], cap: int) -> None:
    count = 0
    async with orcstream.open_many(urls, storage_options=options, concurrency=cap) as files:
        async for file in files:
            assert file.row_count == TINY_ROWS
            await file.aclose()
            count += 1
    assert count == len(urls)


async def sign_all(store: servers.Store, names: list[str]) -> list[yarl.URL]:
    async with get_session().create_client(
        "s3",
        region_name=servers.REGION,
        endpoint_url=store.endpoint,
        aws_access_key_id=servers.ACCESS,
        aws_secret_access_key=servers.SECRET,
        config=Config(signature_version="s3v4"),
    ) as client:
        return [
            yarl.URL(
                await client.generate_presigned_url(
                    "get_object", Params={"Bucket": servers.BUCKET, "Key": name}, ExpiresIn=86_400
                ),
                encoded=True,
            )
            for name in names
        ]
