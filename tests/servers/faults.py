"""A file in each store behind a network that a test can spoil, and what is looked at beside the engine.

`TABLE` is the file's rows, by pyarrow, which also judges what the engine writes. `Place.links` are the hops
to the store. `healing` lets a fault end when the engine has met it, so that no test waits for a time.
"""

from __future__ import annotations

import functools
import io
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.io.contract import byte_source as retry
from orcstream.io.loop.clients import leased_clients
from tests.servers.hdfs import HdfsServer, start_hdfs
from tests.servers.hdfs_proxy import run_hdfs_proxy
from tests.servers.loopback import run_range_server
from tests.servers.s3_proxy import S3_KINDS, start_s3
from tests.servers.sink_stores import SinkStore, hdfs_store, s3_store
from tests.servers.toxiproxy import Link, linked

__all__ = ["FILE", "TABLE", "Met", "Place", "healing", "nothing_leased", "place_of", "rows_of", "whole"]

ROW_COUNT = 30_000


def _table() -> pa.Table:
    draw = np.random.default_rng(7)
    ids = np.arange(ROW_COUNT)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"row {one * 7919 % 10_007}" for one in ids]),
            "value": pa.array(draw.random(ROW_COUNT)),
        }
    )


TABLE = _table()


@functools.cache
def file_of(stripe_bytes: int = 65_536) -> bytes:
    """The table as pyarrow writes it, in several stripes with row indexes."""
    buffer = io.BytesIO()
    orc.write_table(
        TABLE, buffer, stripe_size=stripe_bytes, row_index_stride=1000, compression="zlib", batch_size=1000
    )
    return buffer.getvalue()


FILE = file_of()


@dataclass
class Place:
    """A folder of a store, reached by the engine through `links` and by the test without them."""

    kind: str
    url_of: Callable[[str], str]
    put: Callable[[str, bytes], None]
    seen: Callable[[str], bytes | None]
    left: Callable[[], list[str]]
    options: Mapping[str, Any]
    links: dict[str, Link] = field(default_factory=dict)

    @property
    def link(self) -> Link:
        (link,) = self.links.values()
        return link


@contextmanager
def place_of(kind: str, folder: str) -> Iterator[Place]:
    """A place in "http", "s3" (versitygw, or moto where there is none) or "hdfs"."""
    with {"http": _http, "s3": _s3, "hdfs": _hdfs}[kind](folder) as place:
        yield place


@contextmanager
def _http(folder: str) -> Iterator[Place]:
    with run_range_server() as server, linked(int(server.url.rpartition(":")[2])) as link:
        yield Place(
            "http",
            lambda name: f"{link.endpoint}/{folder}/{name}",
            lambda name, data: server.files.update({f"/{folder}/{name}": data}),
            lambda name: server.files.get(f"/{folder}/{name}"),
            list,
            {},
            {"": link},
        )


@contextmanager
def _s3(folder: str) -> Iterator[Place]:
    server = start_s3(S3_KINDS[-1])
    with linked(int(server.endpoint.rpartition(":")[2])) as link:
        store = s3_store(server, folder, link.endpoint)
        yield _placed("s3", store, {"": link})


@contextmanager
def _hdfs(folder: str) -> Iterator[Place]:
    """Two links: one to the NameNode and one to the DataNodes, by way of a proxy that finds each of them."""
    server = start_hdfs()
    with run_hdfs_proxy(server) as proxy, linked(server.port) as names, linked(proxy.port) as data:

        def lead_here(location: str) -> str:
            parts = urllib.parse.urlsplit(proxy.lead_here(location))
            return parts._replace(netloc=f"127.0.0.1:{data.port}").geturl()

        store = hdfs_store("hdfs", folder)
        direct = store.url_of
        store.url_of = lambda name: direct(name).replace(server.address, HdfsServer(names.port, 0).address, 1)
        store.options = {**server.options, "data_proxy": lead_here}
        yield _placed("hdfs", store, {"name": names, "data": data})


def _placed(kind: str, store: SinkStore, links: dict[str, Link]) -> Place:
    return Place(kind, store.url_of, store.put, store.seen, store.left, store.options or {}, links)


@dataclass
class Met:
    """How often requests have failed, and how long stores asked to be left alone."""

    count: int = 0
    asked_s: list[float] = field(default_factory=list)


@contextmanager
def healing(heal: Callable[[], object] = lambda: None, *, after: int = 1) -> Iterator[Met]:
    """Call `heal` when requests have failed `after` times; none waits before it is sent again."""
    met = Met()

    def wait_s(_policy: retry.RetryPolicy, _failures: int, error: Exception) -> float:
        met.count += 1
        met.asked_s.append(getattr(error, "retry_after_s", 0.0))
        if met.count == after:
            heal()
        return 0.002

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry.RetryPolicy, "_wait_s", wait_s)
        yield met


@asynccontextmanager
async def nothing_leased() -> AsyncIterator[None]:
    """No client of a store is left over by what is done in the block."""
    assert leased_clients() == 0
    yield
    assert leased_clients() == 0


async def rows_of(file: orcstream.OrcFile, **options: Any) -> pa.Table:
    """Through `batches()`, put together again."""
    async with file.batches(**options) as stream:
        batches = [pa.record_batch(batch) async for batch in stream]
    return pa.Table.from_batches(batches, TABLE.schema) if batches else TABLE.slice(0, 0)


def whole(data: bytes | None) -> pa.Table:
    """What pyarrow reads of a file that is visible."""
    assert data is not None
    return orc.read_table(io.BytesIO(data))
