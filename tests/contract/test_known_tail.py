"""Opening with a tail that is known: no request for it, and no row of an object that was replaced since."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.errors import SourceChanged, UsageError
from orcstream.io.loop.clients import leased_clients
from orcstream.testing import SourceStore
from tests.servers.loopback import MotoServer, RangeServer, moto_server, range_server
from tests.servers.source_stores import SOURCE_STORES, WebServer, make_source_store
from tests.support.read_sources import Leftovers, cost_of, ended_before, open_over, probe, sample
from tests.support.recording import RecordingSource

__all__ = ["moto_server", "range_server"]  # fixtures

# The tail is not all of the file, whatever is read with it.
TAIL = {"tail_bytes": 400}


def table(first: int) -> pa.Table:
    return pa.table({"id": range(first, first + 3000), "name": [f"row {i % 7}" for i in range(3000)]})


def file_of(first: int) -> bytes:
    out = io.BytesIO()
    orc.write_table(table(first), out, compression="uncompressed", stripe_size=16384)
    return out.getvalue()


OLD, NEW = file_of(0), file_of(1)


def test_the_files_can_only_be_told_apart_by_their_bytes() -> None:
    assert len(OLD) == len(NEW)
    assert OLD != NEW


@pytest.fixture(params=SOURCE_STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SourceStore:
    return make_source_store(request, tmp_path)


async def put(store: SourceStore, data: bytes) -> str:
    await store.put("t.orc", data)
    return store.url_of("t.orc")


async def save(store: SourceStore, url: str) -> bytes:
    async with orcstream.open(url, storage_options=store.storage_options, io_options=TAIL) as file:
        return file.tail.to_bytes()


async def test_it_reads_the_same(store: SourceStore) -> None:
    url = await put(store, OLD)
    tail = await save(store, url)
    for known in (tail, orcstream.Tail.from_bytes(tail)):
        async with orcstream.open(url, storage_options=store.storage_options, tail=known) as file:
            assert file.row_count == 3000
            assert pa.table(await file.read()).equals(table(0))
            assert len(await file.stripe_statistics()) == len(file.stripes)
            assert file.tail.to_bytes() == tail
    assert leased_clients() == 0


async def test_an_object_of_another_length(store: SourceStore) -> None:
    url = await put(store, OLD)
    tail = await save(store, url)
    for data in (OLD[:3000], OLD + b"x", b"y" * 100):
        await put(store, data)
        async with orcstream.open(url, storage_options=store.storage_options, tail=tail) as file:
            with pytest.raises(SourceChanged) as caught:
                await file.read()
            assert caught.value.url == file.url


async def test_another_object_of_the_same_length(store: SourceStore) -> None:
    url = await put(store, OLD)
    tail = await save(store, url)
    await put(store, NEW)
    async with orcstream.open(url, storage_options=store.storage_options, tail=tail) as file:
        with pytest.raises(SourceChanged):
            await file.read()
        with pytest.raises(SourceChanged):
            await file.stripe_footer(0)


async def test_a_web_server_that_only_says_when(range_server: RangeServer) -> None:
    range_server.etag = None
    range_server.modified = "Sat, 21 Nov 2020 07:00:00 GMT"
    url = range_server.serve("t.orc", OLD)
    async with orcstream.open(url) as file:
        tail = file.tail
    range_server.modified = "Sat, 21 Nov 2020 07:00:01 GMT"
    async with orcstream.open(url, tail=tail) as file:
        with pytest.raises(SourceChanged):
            await file.read()


async def test_a_web_server_that_says_nothing_is_only_asked_for_the_length(range_server: RangeServer) -> None:
    range_server.etag = None
    url = range_server.serve("t.orc", OLD)
    async with orcstream.open(url) as file:
        tail = file.tail
    assert tail.fingerprint == ""
    range_server.serve("t.orc", NEW)
    async with orcstream.open(url, tail=tail) as file:
        assert pa.table(await file.read()).equals(table(1))


async def test_an_object_that_is_gone(store: SourceStore) -> None:
    tail = await save(store, await put(store, OLD))
    with pytest.raises(FileNotFoundError):  # at once where opening looks, else where something is read
        async with orcstream.open(
            store.url_of("missing.orc"), storage_options=store.storage_options, tail=tail
        ) as file:
            await file.read()


async def test_opening_sends_no_request(range_server: RangeServer, moto_server: MotoServer) -> None:
    url = range_server.serve("bucket/t.orc", OLD)
    options = moto_server.options | {"endpoint_url": range_server.url}
    for target, given in ((url, None), ("s3://bucket/t.orc", options)):
        async with orcstream.open(target, storage_options=given) as file:
            tail = file.tail.to_bytes()
        range_server.requests.clear()
        async with orcstream.open(target, storage_options=given, tail=tail) as file:
            assert file.schema.names == ("id", "name")
            assert range_server.requests == []
            await file.read(columns=["id"])
            assert range_server.requests
            assert {headers["If-Match"] for _, _, headers in range_server.requests} == {file.tail.fingerprint}


async def test_explain_counts_no_tail() -> None:
    async with orcstream.open(OLD, io_options=TAIL) as file:
        tail, before = file.tail, await file.explain()
    async with orcstream.open(OLD, io_options=TAIL, tail=tail) as file:
        plan = await file.explain()
        waves = {wave.name: wave for wave in plan.waves}
        assert (waves["tail"].request_count, waves["tail"].bytes_read) == (0, 0)
        assert plan.hop_count == before.hop_count - 1


async def test_a_tail_read_in_two_requests_is_kept_whole() -> None:
    source = RecordingSource(probe(OLD, cost_of(tail_bytes=100)))
    file = await open_over(source)
    assert len(source.ranges) == 2
    assert orcstream.Tail.from_bytes(file.tail.to_bytes()) == file.tail
    await file.aclose()


@pytest.mark.parametrize("tail", [b"", b"nonsense", 5, sample()], ids=["none", "few", "number", "file"])
def test_what_is_no_tail_is_refused_before_anything_is_opened(tail: Any) -> None:
    with pytest.raises(UsageError, match=r"\btail\b"):
        orcstream.open("/nowhere", tail=tail)


async def test_the_tail_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(OLD)
    (tmp_path / "b.orc").write_bytes(NEW)
    async with orcstream.open(tmp_path / "a.orc") as file:
        tail = file.tail
    async with orcstream.open(tmp_path / "b.orc", tail=tail) as file:
        with pytest.raises(SourceChanged):
            await file.read()


async def test_cancelled_after_every_turn_of_the_loop(range_server: RangeServer) -> None:
    url = range_server.serve("t.orc", OLD)
    tail = await save(WebServer(range_server, "http"), url)

    async def read() -> int:
        async with orcstream.open(url, tail=tail) as file:
            return (await file.read(columns=["id"])).num_rows

    turn, finished = 0, False
    while not finished:
        left = Leftovers()
        task = asyncio.create_task(read())
        finished = await ended_before(task, turn)
        assert not finished or task.result() == 3000
        await left.check()
        assert leased_clients() == 0
        turn += 1 if turn < 40 else 1000
    assert turn > 10  # how many there are depends on how fast the server answers
