"""The same file in each kind of store: what is asked for it and how long it takes, beside pyarrow there.

Every store is on the loopback behind `proxy.py` without any distance, which counts requests and bytes; what a
distance does to them is `distant`'s to say. pyarrow has a client of its own for S3, and fsspec's elsewhere. A
store that this machine lacks is left out, and said to be.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import statistics
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
from pyarrow import compute, dataset, fs

import orcstream
from bench import lineitem, servers
from bench.report import Figure, leave_out
from tests.servers import hdfs, java_server, nginx

ROWS = 1_000_000
COLUMNS = lineitem.THREE_COLUMNS
# Of the one column whose values ascend: within one row group of a hundred.
KEY, KEYS = "l_orderkey", (120_000, 120_400)


@dataclass(frozen=True, slots=True)
class Place:
    """A file in a store; `path` is its name in `filesystem`, which is what pyarrow reads it through."""

    name: str
    url: str
    options: dict[str, Any]
    filesystem: Any
    path: str
    distances: tuple[servers.Distance, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one thing took, the median of its rounds; requests and bytes are the last round's."""

    seconds: float
    requests: int
    answer_bytes: int

    def __str__(self) -> str:
        counted = f"{self.requests} requests, {self.answer_bytes:,} bytes, " if self.requests else ""
        return f"{counted}{self.seconds:.3f} s"


def measure(*, quick: bool) -> list[Figure]:
    path = lineitem.path_of("zstd", ROWS)
    figures: list[Figure] = []
    for place_of in (_local, _s3, _nginx, _webhdfs, _hdfs):
        with place_of(path) as place:
            if place is not None:
                figures += asyncio.run(_figures(place, rounds=1 if quick else 3))
    return figures


# --- where the file is -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _local(path: Path) -> Iterator[Place | None]:
    yield Place("local", str(path), {}, fs.LocalFileSystem(), str(path))


@contextlib.contextmanager
def _s3(path: Path) -> Iterator[Place | None]:
    with servers.near() as store, _counted(store.port) as distance:
        store.put(path)
        there = distance.store
        key = f"{servers.BUCKET}/{path.name}"
        yield Place(
            "S3 (versitygw)",
            f"s3://{key}",
            there.storage_options,
            there.pyarrow_filesystem(),
            key,
            (distance,),
        )


@contextlib.contextmanager
def _nginx(path: Path) -> Iterator[Place | None]:
    if nginx.nginx_path() is None:
        leave_out("there is no nginx: make servers")
        yield None
        return
    server = nginx.start_nginx()
    shutil.copy(path, server.folder / "files" / path.name)
    with _counted(server.port) as distance:
        url = server.url(path.name, origin=distance.store.endpoint)
        yield Place("HTTP (nginx)", url, {}, _wrapped("http"), url, (distance,))


@contextlib.contextmanager
def _webhdfs(path: Path) -> Iterator[Place | None]:
    problem = java_server.missing_jars("hdfs")
    if problem is not None:
        leave_out(problem)
        yield None
        return
    server = hdfs.start_hdfs()
    server.put(f"/bench/{path.name}", path.read_bytes())
    with contextlib.ExitStack() as stack:
        name_node = stack.enter_context(_counted(server.port))
        data_nodes = {port: stack.enter_context(_counted(port)) for port in _data_nodes(server)}
        # Clients are redirected to DataNodes, and from there to where these are counted.
        ports = {f":{port}/": f":{one.store.port}/" for port, one in data_nodes.items()}
        options = {"user": hdfs.USER, "data_proxy": ports}
        port = name_node.store.port
        wrapped = _wrapped("webhdfs", host="127.0.0.1", port=port, **options)
        name = f"/bench/{path.name}"
        url = f"webhdfs://127.0.0.1:{port}{name}"
        yield Place("WebHDFS", url, options, wrapped, name, (name_node, *data_nodes.values()))


@contextlib.contextmanager
def _hdfs(path: Path) -> Iterator[Place | None]:
    """Its own protocol, which no proxy counts."""
    problem = java_server.missing_jars("hdfs")
    if problem is not None:
        yield None
        return
    server = hdfs.start_hdfs()
    name = f"/bench/{path.name}"
    server.put(name, path.read_bytes())
    os.environ["HADOOP_USER_NAME"] = hdfs.USER
    url = server.native_url(name)
    yield Place("HDFS (hdfs-native)", url, {}, _wrapped("hdfs", host="127.0.0.1", port=server.rpc_port), name)


def _counted(port: int) -> contextlib.AbstractContextManager[servers.Distance]:
    """A server on the loopback behind the proxy, as near as it is without."""
    return servers.distant(servers.Store(port), delay_ms=0, mbps=math.inf)


def _data_nodes(server: hdfs.HdfsServer) -> list[int]:
    """The ports of the DataNodes, as the NameNode tells them."""
    query = "Hadoop:service=NameNode,name=NameNodeInfo"
    with urllib.request.urlopen(f"http://{server.address}/jmx?qry={query}") as answer:
        nodes = json.loads(json.load(answer)["beans"][0]["LiveNodes"])
    return [int(node["infoAddr"].rpartition(":")[2]) for node in nodes.values()]


def _wrapped(protocol: str, **options: Any) -> Any:
    handler = fs.FSSpecHandler(fsspec.filesystem(protocol, skip_instance_cache=True, **options))
    return fs.PyFileSystem(handler)


# --- what is measured --------------------------------------------------------------------------------------


async def _figures(place: Place, rounds: int) -> list[Figure]:
    tasks: dict[str, tuple[Callable[[Place], Awaitable[Any]], Callable[[Place], Any]]] = {
        "open and schema": (_open, _pyarrow_open),
        "three columns of 15": (_scan, _pyarrow_scan),
        "rows of one row group": (_choose, _pyarrow_choose),
    }
    figures = []
    # Another open file keeps the client, as in a program that reads more than one.
    async with orcstream.open(place.url, storage_options=place.options):
        for what, (ours, theirs) in tasks.items():
            our_cost, our_answer = await _cost(place, ours, rounds)

            async def called(place: Place, theirs: Callable[[Place], Any] = theirs) -> Any:
                return await asyncio.to_thread(theirs, place)

            their_cost, their_answer = await _cost(place, called, rounds)
            if our_answer != their_answer:
                sys.exit(f"{place.name}, {what}: {our_answer} here, {their_answer} by pyarrow")
            beside = f"ours {our_cost}; pyarrow {their_cost}"
            value = their_cost.seconds / our_cost.seconds
            figures.append(
                Figure("stores", f"{place.name}, {what}: as fast as pyarrow", value, beside=beside)
            )
    return figures


async def _cost(place: Place, action: Callable[[Place], Awaitable[Any]], rounds: int) -> tuple[Cost, Any]:
    """One round first that is not counted."""
    taken, log, answer = [], [], None
    for number in range(rounds + 1):
        for distance in place.distances:
            distance.log()
        start = time.perf_counter()
        answer = await action(place)
        if number:
            taken.append(time.perf_counter() - start)
        log = [exchange for distance in place.distances for exchange in distance.log()]
    return Cost(statistics.median(taken), len(log), sum(one.answer_bytes for one in log)), answer


async def _open(place: Place) -> int:
    async with orcstream.open(place.url, storage_options=place.options) as file:
        return len(file.schema.root.children)


async def _scan(place: Place) -> int:
    async with orcstream.open(place.url, storage_options=place.options) as file:
        return int(pa.table(await file.read(columns=COLUMNS)).num_rows)


async def _choose(place: Place) -> int:
    where = orcstream.col(KEY).between(*KEYS)
    async with orcstream.open(place.url, storage_options=place.options) as file:
        return int(pa.table(await file.read(columns=COLUMNS, where=where)).num_rows)


def _dataset(place: Place) -> Any:
    return dataset.dataset(place.path, format="orc", filesystem=place.filesystem)


def _pyarrow_open(place: Place) -> int:
    return len(_dataset(place).schema)


def _pyarrow_scan(place: Place) -> int:
    return int(_dataset(place).to_table(columns=COLUMNS).num_rows)


def _pyarrow_choose(place: Place) -> int:
    low, high = KEYS
    chosen = (compute.field(KEY) >= low) & (compute.field(KEY) <= high)
    return int(_dataset(place).to_table(columns=COLUMNS, filter=chosen).num_rows)
