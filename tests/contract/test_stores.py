"""What a user does with a store, on every store there is: write, read, seek, filter, ingest, follow.

A store that is in `SINK_STORES` is written to and read; one that is only in `SOURCE_STORES` is read.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest

import orcstream
from orcstream import col
from orcstream.errors import Unsupported
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.fsspec.sink import ATOMIC_RENAMES
from tests.servers.hdfs import USER
from tests.servers.sink_stores import SINK_STORES, SinkStore, make_store, rename_at_once
from tests.servers.source_stores import SOURCE_STORES, make_source_store, range_server

__all__ = ["range_server"]  # a fixture

NAME = "Größe 数据 a+b%20;&=[x]~'#?.orc"
SCHEMA = "struct<id:bigint,name:string,amount:double>"
STRIPE_ROWS, STRIPES = 5000, 4
ROWS = STRIPE_ROWS * STRIPES
TABLE = pa.table(
    {
        "id": range(ROWS),
        "name": [f"row {number * 7919 % ROWS}" for number in range(ROWS)],
        "amount": [number / 8 for number in range(ROWS)],
    }
)
# The tail is not all of the file, and a gap of a few hundred bytes is not worth reading: pruning shows.
TUNED = {"tail_bytes": 4096, "latency_s": 0.001, "bandwidth": 1e6, "retries": 1}
# Where bytes can be appended by the writer's own clients.
GROWING = {"local", "file_url", "memory", "hdfs"}
# Sends the whole file, whatever is asked for.
WHOLE = {"http_whole"}

READ_ONLY = [kind for kind in SOURCE_STORES if kind not in SINK_STORES]


@dataclass
class Place:
    """One file of a store, with the rows of `TABLE`."""

    kind: str
    url: str
    options: Mapping[str, Any] | None
    write: Callable[[], Awaitable[None]]

    def open(self) -> Any:
        return orcstream.open(self.url, storage_options=self.options, io_options=TUNED)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATOMIC_RENAMES, "tests.servers.sink_stores.RenamingFileSystem", rename_at_once)
    monkeypatch.setenv("HADOOP_USER_NAME", USER)


@pytest.fixture
def writable(request: pytest.FixtureRequest, tmp_path: Path) -> SinkStore:
    return make_store(request.param, tmp_path)


@pytest.fixture(params=[*SINK_STORES, *READ_ONLY])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param in SINK_STORES:
        store = make_store(request.param, tmp_path)
        return Place(request.param, store.url_of(NAME), store.options, lambda: write_in_steps(store, NAME))
    source = make_source_store(request, tmp_path)

    async def put() -> None:
        buffer = io.BytesIO()
        await write_rows(orcstream.create(buffer, SCHEMA, row_index_stride=1000, compression="none"))
        await source.put(NAME, buffer.getvalue())

    return Place(request.param, source.url_of(NAME), source.storage_options, put)


async def write_rows(opening: Any, each: Callable[[], None] = lambda: None) -> None:
    async with opening as out:
        for start in range(0, ROWS, STRIPE_ROWS // 2):
            await out.write(TABLE.slice(start, STRIPE_ROWS // 2))
            if (start + STRIPE_ROWS // 2) % STRIPE_ROWS == 0:
                await out.end_stripe()
            each()


async def write_in_steps(store: SinkStore, name: str) -> None:
    """Nothing of the file is seen before its end, and nothing else is left then."""

    def nothing_yet() -> None:
        assert store.seen(name) is None

    opening = orcstream.create(
        store.url_of(name),
        SCHEMA,
        row_index_stride=1000,
        compression="none",
        storage_options=store.options,
        sink_options=store.tuned(),
    )
    await write_rows(opening, nothing_yet)
    assert store.seen(name) is not None
    assert store.left() == []
    assert leased_clients() == 0


async def test_a_file_is_written_and_read(place: Place) -> None:
    await place.write()
    async with place.open() as file:
        assert (file.row_count, len(file.stripes)) == (ROWS, STRIPES)
        assert pa.table(await file.read()).equals(TABLE)
        assert pa.table(await file.read(columns=["amount"], rows=range(4990, 5010))).equals(
            TABLE.select(["amount"]).slice(4990, 20)
        )
        await seeks(file)
        await filters(file, fetches_less=place.kind not in WHOLE)
    assert leased_clients() == 0


async def seeks(file: Any) -> None:
    wanted = [ROWS - 1, 3, 12_345]
    assert [row["id"] for row in (await file.take(wanted, columns=["id"])).to_pylist()] == wanted
    async with file.batches(columns=["id", "name"], batch_rows=100) as stream:
        for row in (12_345, 17, ROWS - 1):
            await stream.seek(row)
            assert (await anext(stream)).to_pylist()[0] == {
                "id": row,
                "name": f"row {row * 7919 % ROWS}",
            }


async def filters(file: Any, *, fetches_less: bool) -> None:
    async with file.batches() as stream:
        everything = sum([batch.num_rows async for batch in stream])
        all_bytes = stream.stats.bytes_read
    assert everything == ROWS
    async with file.batches(where=(col("id") >= 12_995) & (col("id") < 13_005)) as stream:
        found = [row["id"] async for batch in stream for row in batch.to_pylist()]
        stats = stream.stats
    assert found == list(range(12_995, 13_005))
    assert stats.rows_pruned_by_stripe == ROWS - STRIPE_ROWS
    assert stats.rows_pruned_by_row_group == STRIPE_ROWS - 2000
    assert not fetches_less or stats.bytes_read < all_bytes / 4


@pytest.mark.parametrize("writable", SINK_STORES, indirect=True)
async def test_a_write_that_fails_leaves_nothing(writable: SinkStore) -> None:
    writable.put(NAME, b"earlier")

    def fail() -> None:
        raise ZeroDivisionError

    opening = orcstream.create(
        writable.url_of(NAME), SCHEMA, storage_options=writable.options, sink_options=writable.tuned()
    )
    with pytest.raises(ZeroDivisionError):
        await write_rows(opening, fail)
    assert writable.seen(NAME) == b"earlier"
    assert writable.left() == []
    assert leased_clients() == 0


@pytest.mark.parametrize("writable", SINK_STORES, indirect=True)
async def test_rows_are_ingested(writable: SinkStore) -> None:
    days = [datetime.date(2024, 2, 28), datetime.date(2024, 2, 29)]
    rows = [{"day": days[n % 2], "city": f"Köln/{n % 3} +%", "n": n} for n in range(600)]
    async with orcstream.ingest(
        writable.url_of("in é+#/day={day}/{city}-{number}.orc"),
        "struct<day:date,city:string,n:bigint>",
        max_rows=60,
        storage_options=writable.options,
        sink_options=writable.tuned(),
    ) as out:
        for start in range(0, len(rows), 50):
            await out.write(rows[start : start + 50])
    assert sorted(one.row_count for one in out.files) == [40] * 6 + [60] * 6  # of six partitions
    found = []
    for one in out.files:
        async with orcstream.open(one.url, storage_options=writable.options) as file:
            found += [row["n"] for row in (await file.read()).to_pylist()]
    assert sorted(found) == list(range(600))
    assert leased_clients() == 0


@pytest.mark.parametrize("writable", SINK_STORES, indirect=True)
async def test_a_growing_file_is_followed(writable: SinkStore, request: pytest.FixtureRequest) -> None:
    url, options = writable.url_of(NAME), writable.options
    writing: dict[str, Any] = {"storage_options": options, "growing": True}
    kind = request.node.callspec.params["writable"]
    if kind not in GROWING:
        with pytest.raises(Unsupported):
            await orcstream.create(url, "struct<n:bigint>", **writing)
        assert leased_clients() == 0
        return
    out = await orcstream.create(url, "struct<n:bigint>", **writing)
    await out.write([{"n": 0}, {"n": 1}])
    await out.flush()
    with anyio.fail_after(60):
        async with (
            orcstream.open(url, follow=True, poll_s=0.02, storage_options=options) as file,
            file.batches() as stream,
        ):
            assert (await anext(stream)).to_pylist() == [{"n": 0}, {"n": 1}]
            await out.write([{"n": 2}])
            await out.flush()
            assert (await anext(stream)).to_pylist() == [{"n": 2}]
            await out.write([{"n": 3}])
            await out.commit()
            assert [row["n"] async for batch in stream for row in batch.to_pylist()] == [3]
    await out.aclose()
    assert leased_clients() == 0
