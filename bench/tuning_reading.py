"""What the settings of reading cost: from the local disk, and from a distant store.

The table is that of `lineitem`, a million rows. The store is behind 30 ms and 90 MB/s a connection, 200
MB/s together; it has one core, and the reader the other.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import orcstream
from bench import lineitem, servers
from bench.tuning_tables import Table, against, in_turns, rounds_of

ROWS = 1_000_000
MIB = 1 << 20
LINK_MBPS = 200
TEXTS = ["l_returnflag", "l_linestatus", "l_shipmode"]
COLUMNS = lineitem.THREE_COLUMNS
DEFAULT = "the default"


async def _scan(url: str | Path, options: dict[str, Any] | None = None, io: Any = None, **read: Any) -> Any:
    """All rows, as Arrow, each batch dropped before the next; answers the statistics."""
    async with (
        orcstream.open(url, storage_options=options, io_options=io) as file,
        file.batches(**read) as stream,
    ):
        async for batch in stream:
            pa.record_batch(batch)
        return stream.stats


# --- the local disk --------------------------------------------------------------------------------


def measure_local(*, quick: bool) -> list[Table]:
    return asyncio.run(_local(lineitem.path_of("zstd", ROWS), rounds_of(quick=quick)))


async def _local(path: Path, rounds: int) -> list[Table]:
    return [
        await _settings(path, rounds, "batch-rows", "batch_rows", [1_000, 8_192, 65_536, 262_144], 65_536),
        await _settings(path, rounds, "decode-threads", "decode_threads", [1, 2, 4], 2),
        await _settings(
            path, rounds, "timestamp-unit", "timestamp_unit", ["ns", "us", "s"], "ns", columns=["l_received"]
        ),
        await _dictionaries(path, rounds),
        await _columns(path, rounds),
    ]


async def _settings(
    path: Path, rounds: int, name: str, option: str, values: list[Any], default: Any, **read: Any
) -> Table:
    actions = {str(value): partial(_scan, path, **read, **{option: value}) for value in values}
    shown = against(await in_turns(rounds, actions), str(default))
    return Table(name, (f"`{option}`", "time"), [(f"`{value!r}`", shown[str(value)]) for value in values])


async def _dictionaries(path: Path, rounds: int) -> Table:
    """Of a file that has them: those that pyarrow writes have none."""
    with tempfile.TemporaryDirectory(dir=lineitem.DATA) as folder:
        texts = Path(folder) / "texts.orc"
        async with orcstream.open(path) as file, orcstream.create(texts) as out:
            async for batch in file.batches(columns=TEXTS):
                await out.write(batch)
        return await _settings(texts, rounds, "dictionaries", "dictionaries", [False, True], default=False)


async def _columns(path: Path, rounds: int) -> Table:
    choices: dict[str, dict[str, Any]] = {
        "all 15 columns": {},
        "3 of them": {"columns": COLUMNS},
        "3, of rows that statistics leave (1 in 100)": {
            "columns": COLUMNS,
            "where": orcstream.col("l_orderkey") < 8 * ROWS // 4 // 100,
        },
        "none: rows are counted": {"columns": []},
    }
    seconds = await in_turns(rounds, {name: partial(_scan, path, **read) for name, read in choices.items()})
    shown = against(seconds, next(iter(choices)))
    rows = []
    for name, read in choices.items():
        stats = await _scan(path, **read)
        rows.append((name, shown[name], f"{stats.bytes_read / 1e6:.1f} MB"))
    return Table("columns", ("what is read", "time", "bytes"), rows)


# --- memory ----------------------------------------------------------------------------------------


def measure_memory(*, quick: bool) -> list[Table]:
    """Of processes of their own (`bench.memory`), on the store without distance and with it."""
    path, tiny = lineitem.path_of("zstd", 3 * ROWS), lineitem.path_of("zstd", 1000)
    limits = (8, 32, 64, 256, 1024)
    with servers.near() as store, servers.distant(store, link_mbps=LINK_MBPS) as distance:
        store.put(tiny, path)
        options = distance.store.storage_options
        servers.move_to_client_core()
        urls = [f"s3://{servers.BUCKET}/{one.name}" for one in (path, tiny)]
        seconds = asyncio.run(_at_limits(urls[0], options, limits, 1 if quick else 3))
        shown = against(seconds, "256")
        rows = [
            (f"{limit} MiB", shown[str(limit)], f"{_peak(urls, options, limit * MIB) / 1e6:.0f} MB")
            for limit in limits
        ]
    return [Table("memory-limit", ("`memory_limit`", "time", "peak of the process"), rows)]


async def _at_limits(
    url: str, options: dict[str, Any], limits: tuple[int, ...], rounds: int
) -> dict[str, float]:
    actions = {str(limit): partial(_scan, url, options, memory_limit=limit * MIB) for limit in limits}
    async with orcstream.open(url, storage_options=options):  # keeps the client
        return await in_turns(rounds, actions)


def _peak(urls: list[str], options: dict[str, Any], limit: int) -> int:
    command = [sys.executable, "-m", "bench.memory", *urls, json.dumps(options), str(limit)]
    run = subprocess.run(command, cwd=servers.ROOT, stdout=subprocess.PIPE, check=True)
    return int(run.stdout)


# --- the distant store -----------------------------------------------------------------------------


def measure_distant(*, quick: bool) -> list[Table]:
    path = lineitem.path_of("zstd", ROWS)
    with servers.near() as store, servers.distant(store, link_mbps=LINK_MBPS) as distance:
        store.put(path)
        servers.move_to_client_core()
        url, options = f"s3://{servers.BUCKET}/{path.name}", distance.store.storage_options
        return asyncio.run(_distant(url, options, rounds_of(quick=quick)))


async def _distant(url: str, options: dict[str, Any], rounds: int) -> list[Table]:
    async with orcstream.open(url, storage_options=options) as kept:  # with the client
        return [
            await _io_options(url, options, rounds),
            await _opening(url, options, rounds, kept.tail.to_bytes()),
        ]


async def _io_options(url: str, options: dict[str, Any], rounds: int) -> Table:
    choices: dict[str, Any] = {
        DEFAULT: None,
        "`request_cap=1`": {"request_cap": 1},
        "`request_cap=4`": {"request_cap": 4},
        "`request_cap=64`": {"request_cap": 64},
        "`part_bytes=1 MiB`": {"part_bytes": MIB},
        "`part_bytes=64 MiB`": {"part_bytes": 64 * MIB},
        "`adaptive=False`": {"adaptive": False},
        "`hedge=True`": {"hedge": True},
    }
    actions = {name: partial(_scan, url, options, io) for name, io in choices.items()}
    shown = against(await in_turns(rounds, actions), DEFAULT)
    rows = []
    for name in choices:
        stats = await actions[name]()
        rows.append((name, shown[name], str(stats.request_count), f"{stats.bytes_read / 1e6:.1f} MB"))
    return Table("io-options", ("`io_options`", "time", "requests", "bytes"), rows)


async def _opening(url: str, options: dict[str, Any], rounds: int, tail: bytes) -> Table:
    async def first_batch(**given: Any) -> None:
        async with (
            orcstream.open(url, storage_options=options, **given) as file,
            file.batches(columns=["l_orderkey"], rows=range(10)) as stream,
        ):
            await anext(stream)

    choices: dict[str, dict[str, Any]] = {
        DEFAULT: {},
        "`tail_bytes=4 KiB`": {"io_options": {"tail_bytes": 4096}},
        "`tail_bytes=1 MiB`": {"io_options": {"tail_bytes": MIB}},
        "`tail=` of an earlier time": {"tail": tail},
    }
    seconds = await in_turns(rounds, {name: partial(first_batch, **given) for name, given in choices.items()})
    shown = against(seconds, DEFAULT)
    return Table("opening", ("from the URL to 10 rows", "time"), [(name, shown[name]) for name in choices])
