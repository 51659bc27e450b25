"""Parts that S3 copies by itself, between bytes that are written: order, limits, conditions, failures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orcstream.byterange import ByteRange
from orcstream.errors import SinkError, SourceChanged, UsageError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.request import part_sink
from orcstream.io.request.part_sink import PartSink
from tests.servers.loopback import MotoServer
from tests.servers.s3_proxy import Asked, Fault, S3Proxy, s3_proxies
from tests.servers.sink_stores import BUCKET, SinkStore, make_store, s3_store

__all__ = ["s3_proxies"]  # a fixture

MIB = 1 << 20
SOURCE = os.urandom(17 * MIB)
WRITTEN = os.urandom(6 * MIB)


@pytest.fixture
def proxied(s3_proxies: tuple[MotoServer, S3Proxy], tmp_path: Path) -> tuple[SinkStore, S3Proxy]:
    server, proxy = s3_proxies
    store = s3_store(server, tmp_path.name, proxy.endpoint)
    store.put("source ü+.orc", SOURCE)
    return store, proxy


@pytest.fixture
def etag(proxied: tuple[SinkStore, S3Proxy], s3_proxies: tuple[MotoServer, S3Proxy]) -> Callable[[], str]:
    store, server = proxied[0], s3_proxies[0]

    def find() -> str:
        key = store.url_of("source ü+.orc").removeprefix(f"s3://{BUCKET}/")
        answer: str = server.client.head_object(Bucket=BUCKET, Key=key)["ETag"]
        return answer

    return find


def is_copy(asked: Asked) -> bool:
    return "x-amz-copy-source" in asked.headers


# How many bytes stand before the copy, what is copied, and how many requests copy it.
CASES = {
    "nothing before": (0, ByteRange(100, 12 * MIB), 1),
    "a byte before": (1, ByteRange(0, 17 * MIB), 1),
    "a part before": (5 * MIB, ByteRange(0, 5 * MIB), 1),
    "a part and a byte before": (5 * MIB + 1, ByteRange(0, 17 * MIB), 1),
    "too short to copy": (0, ByteRange(3, 5 * MIB + 2), 0),
    "too short once the part before is filled": (1, ByteRange(0, 10 * MIB - 2), 0),
    "just long enough": (1, ByteRange(0, 10 * MIB - 1), 1),
    "nothing": (7, ByteRange(5, 5), 0),
}


@pytest.mark.parametrize("case", CASES)
async def test_copies_and_bytes_keep_their_order(
    proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str], case: str
) -> None:
    store, proxy = proxied
    before, wanted, copy_count = CASES[case]
    sink = await store.open("a.orc")
    await sink.write(WRITTEN[:before])
    assert await sink.copy(store.url_of("source ü+.orc"), wanted, etag())
    assert sink.length == before + wanted.length
    await sink.write(b"after")
    prepared = await sink.prepare()
    assert prepared.length == before + wanted.length + 5
    await store.commit(prepared)
    await sink.aclose()
    assert store.seen("a.orc") == WRITTEN[:before] + SOURCE[wanted.start : wanted.stop] + b"after"
    assert len([asked for asked in proxy.asked if is_copy(asked)]) == copy_count
    assert leased_clients() == 0


async def test_long_copies_are_made_in_pieces(
    proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_sink, "COPIED_BYTES", 11 * MIB)
    store, proxy = proxied
    sink = await store.open("a.orc")
    url = store.url_of("source ü+.orc")
    assert await sink.copy(url, ByteRange(0, 17 * MIB), etag())
    assert await sink.copy(url, ByteRange(MIB, 7 * MIB), etag())
    assert sink.held_bytes == 0
    await store.commit(await sink.prepare())
    await sink.aclose()
    assert store.seen("a.orc") == SOURCE + SOURCE[MIB : 7 * MIB]
    ranges = [asked.headers["x-amz-copy-source-range"] for asked in proxy.asked if is_copy(asked)]
    half = 17 * MIB // 2
    assert sorted(ranges) == sorted(
        [f"bytes=0-{half - 1}", f"bytes={half}-{17 * MIB - 1}", f"bytes={MIB}-{7 * MIB - 1}"]
    )


@pytest.mark.parametrize("wanted", [ByteRange(0, 17 * MIB), ByteRange(0, 1000)], ids=["copied", "fetched"])
async def test_a_source_that_was_replaced(
    proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str], wanted: ByteRange
) -> None:
    store, _ = proxied
    fingerprint = etag()
    store.put("source ü+.orc", SOURCE[::-1])
    sink = await store.open("a.orc")

    async def write() -> None:
        await sink.copy(store.url_of("source ü+.orc"), wanted, fingerprint)
        await sink.prepare()

    with pytest.raises(SourceChanged):
        await write()
    await sink.abort()
    assert store.left() == []
    assert store.seen("a.orc") is None


async def test_a_source_that_is_not_there(
    proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str]
) -> None:
    store, _ = proxied
    sink = await store.open("a.orc")
    with pytest.raises(FileNotFoundError, match=r"none\.orc"):
        await sink.copy(store.url_of("none.orc"), ByteRange(0, 1000), etag())
    await sink.abort()
    assert store.left() == []


@pytest.mark.parametrize("fault", ["refuse", "lose", "500", "lose_500"])
async def test_every_request_of_a_copy_may_be_lost_once(
    proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str], fault: Fault
) -> None:
    store, proxy = proxied
    fingerprint = etag()
    lost: set[str] = set()

    def once(_: int, asked: Asked) -> Fault | None:
        kind = "copy" if is_copy(asked) else "get" if "range" in asked.headers else ""
        if not kind or kind in lost:
            return None
        lost.add(kind)
        return fault

    proxy.fault = once
    sink = await store.open("a.orc")
    await sink.write(b"before")
    assert await sink.copy(store.url_of("source ü+.orc"), ByteRange(0, 17 * MIB), fingerprint)
    await store.commit(await sink.prepare())
    await sink.aclose()
    assert lost == {"copy", "get"}
    assert store.seen("a.orc") == b"before" + SOURCE


async def test_a_copy_that_is_cancelled(proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str]) -> None:
    store, proxy = proxied
    fingerprint = etag()
    proxy.fault = lambda _, asked: "hold" if is_copy(asked) else None
    sink = await store.open("a.orc")

    async def write() -> None:
        await sink.copy(store.url_of("source ü+.orc"), ByteRange(0, 17 * MIB), fingerprint)
        await sink.prepare()

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await anyio.to_thread.run_sync(proxy.wait_for_requests, 2)
        group.cancel_scope.cancel()
    proxy.pass_all()
    with pytest.raises(SinkError):
        await sink.prepare()
    await sink.abort()
    assert store.left() == []


@pytest.mark.parametrize("kind", ["local", "memory", "renametest"])
async def test_other_stores_do_not_copy(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(kind, tmp_path)
    if kind == "renametest":
        store.sink_options["allow_non_atomic"] = True
    sink = await store.open("a.orc")
    await sink.write(b"x")
    assert not await sink.copy(store.url_of("b.orc"), ByteRange(0, 10), '"e"')
    await sink.write(b"y")
    await store.commit(await sink.prepare())
    await sink.aclose()
    assert store.seen("a.orc") == b"xy"


async def test_what_s3_does_not_copy(proxied: tuple[SinkStore, S3Proxy], etag: Callable[[], str]) -> None:
    store, _ = proxied
    sink = await store.open("a.orc")
    assert isinstance(sink, PartSink)
    assert not await sink.copy("http://host/source.orc", ByteRange(0, 10), etag())
    # A fingerprint of another kind: the store could not tell whether it is the same file.
    assert not await sink.copy(store.url_of("source ü+.orc"), ByteRange(0, 10), "1234-5678")
    await sink.prepare()
    with pytest.raises(UsageError, match="prepared"):
        await sink.copy(store.url_of("source ü+.orc"), ByteRange(0, 10), etag())
    await sink.abort()
