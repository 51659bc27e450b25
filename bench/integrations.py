"""What reaching the engine through another library costs, and a data set of a thousand small files.

Over the distance of `distant`: the same question once to the engine, into a frame of polars, and once to
polars through `scan_orc`; bytes are those that the proxy counted. The small files are those of `tails`, read
whole with `dataset`, against plain GETs of the same bytes, as many at once.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import polars as pl

import orcstream
from bench import lineitem, servers, tails
from bench.report import Figure, interleave
from orcstream import col
from orcstream.integrations.polars import scan_orc

OVER_ENGINE = 1.2
COLUMNS = ["l_orderkey", "l_partkey", "l_extendedprice", "l_shipdate", "l_shipmode"]
# A row group in a hundred, by the column whose values ascend.
LOW, HIGH = 3_000_001, 3_059_993
DAY = datetime.date(1995, 3, 1)
SMALL_FILES_AT_ONCE = 16

Question = tuple[str, Callable[[Any], Any], pl.Expr]
QUESTIONS: tuple[Question, ...] = (
    (
        "1 % of the row groups, 5 columns",
        lambda column: (column("l_orderkey") >= LOW) & (column("l_orderkey") <= HIGH),
        (pl.col("l_orderkey") >= LOW) & (pl.col("l_orderkey") <= HIGH),
    ),
    (
        "half of the rows, 5 columns",
        lambda column: column("l_shipdate") < DAY,
        pl.col("l_shipdate") < DAY,
    ),
)


def measure(*, quick: bool) -> list[Figure]:
    path = lineitem.path_of("zstd", lineitem.ROWS)
    rounds = 3 if quick else 7
    with servers.near() as store, servers.distant(store) as distance:
        store.put(path)
        servers.move_to_client_core()
        figures = [one for question in QUESTIONS for one in _polars(distance, path, question, rounds)]
    return [*figures, *_small_files(100 if quick else 1000, 1 if quick else 3)]


def _polars(distance: servers.Distance, path: Path, question: Question, rounds: int) -> list[Figure]:
    url, options = f"s3://{servers.BUCKET}/{path.name}", distance.store.storage_options
    what, where, predicate = question

    def engine() -> pl.DataFrame:
        return pl.DataFrame(
            orcstream.blocking.read(url, columns=COLUMNS, where=where(col), storage_options=options)
        )

    def polars() -> pl.DataFrame:
        return scan_orc(url, storage_options=options).filter(predicate).select(COLUMNS).collect()

    with orcstream.blocking.open(url, storage_options=options):  # a client, which both use
        assert engine().equals(polars())
        times = interleave(rounds, engine=engine, polars=polars)
        read = {
            name: _bytes_of(distance, action) for name, action in (("engine", engine), ("polars", polars))
        }
    beside = f"polars {times['polars']}, engine {times['engine']}"
    return [
        Figure(
            "integrations",
            f"polars scan_orc, {what}: over the engine",
            times["polars"].wall_s / times["engine"].wall_s,
            floor=OVER_ENGINE,
            at_most=True,
            beside=beside,
        ),
        Figure(
            "integrations",
            f"polars scan_orc, {what}: bytes over the engine's",
            read["polars"] / read["engine"],
            floor=1.0,
            at_most=True,
            beside=f"{read['polars']:,} and {read['engine']:,}, headers included",
        ),
    ]


def _bytes_of(distance: servers.Distance, action: Callable[[], object]) -> int:
    distance.log()
    action()
    return sum(exchange.answer_bytes for exchange in distance.log())


def _small_files(count: int, rounds: int) -> list[Figure]:
    paths = tails.files(count)
    with servers.near() as near:
        near.put(*paths)
        with servers.distant(near) as distance:
            signed = asyncio.run(tails.sign_all(distance.store, [path.name for path in paths]))
            urls = [f"s3://{servers.BUCKET}/{path.name}" for path in paths]
            options = distance.store.storage_options

            def bare() -> None:
                asyncio.run(_fetch(signed))

            def ours() -> None:
                with orcstream.blocking.dataset(urls, storage_options=options) as files:
                    assert files.read().num_rows == count * tails.TINY_ROWS

            with orcstream.blocking.open(urls[0], storage_options=options):
                times = interleave(rounds, bare=bare, ours=ours)
                distance.log()
                ours()
                requests = len(distance.log())
    beside = f"bare {times['bare']}, ours {times['ours']}; {requests} requests"
    return [
        Figure(
            "integrations",
            f"dataset, all rows of {count} small files: over bare GETs, {SMALL_FILES_AT_ONCE} at once",
            times["ours"].wall_s / times["bare"].wall_s,
            at_most=True,
            beside=beside,
        )
    ]


async def _fetch(signed: list[Any]) -> None:
    connector = aiohttp.TCPConnector(limit=SMALL_FILES_AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:
        await tails.fetch(session, signed, SMALL_FILES_AT_ONCE)
