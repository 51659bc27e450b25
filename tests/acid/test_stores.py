"""One small table in every kind of store; and how many requests it takes, and how many at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pyarrow as pa
import pytest

from orcstream import col
from orcstream.acid import open_table
from orcstream.errors import Unsupported
from orcstream.io.loop.clients import leased_clients
from tests.generators.acid import DELETE, INSERT, Event, key_of, put_events, put_rows
from tests.servers.loopback import MotoServer
from tests.servers.s3_proxy import S3_KINDS, S3Proxy, s3_proxies
from tests.servers.sink_stores import SinkStore, make_store, s3_store

__all__ = ["s3_proxies"]  # fixture

DELTAS = 20


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Originals in two partitions, twenty tiny deltas, and one of deletes."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("day=2024-05-01", "day=x%2Fy"):
        put_rows(folder / name / "000000_0", [{"k": 100 + at, "v": name} for at in range(3)])
    day = folder / "day=2024-05-01"
    for write_id in range(1, DELTAS + 1):
        event = Event(INSERT, key_of(write_id, 0), write_id, {"k": write_id, "v": "ü"})
        put_events(day / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000", [event], version=True)
    deletes = [Event(DELETE, key, 21, None) for key in (key_of(0, 1), key_of(7, 0))]
    put_events(day / "delete_delta_0000021_0000021_0000" / "bucket_00000", deletes, version=True)
    return folder


EXPECTED = sorted(
    [(100, "2024-05-01"), (102, "2024-05-01"), *((100 + at, "x/y") for at in range(3))]
    + [(one, "2024-05-01") for one in range(1, DELTAS + 1) if one != 7]
)


def put_all(folder: Path, store: SinkStore) -> str:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = f"t/{path.relative_to(folder)}"
            url = store.url_of(name)
            if "://" not in url and not url.startswith("memory:"):
                Path(url).parent.mkdir(parents=True, exist_ok=True)
            store.put(name, path.read_bytes())
    return store.url_of("t")


async def read(url: str, options: Any, **asked: Any) -> list[tuple[Any, ...]]:
    async with open_table(url, storage_options=options) as table:
        found = pa.table(await table.read(columns=["k", "day"], **asked))
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize("kind", ["local", "memory", *S3_KINDS])
async def test_the_same_rows(kind: str, table: Path, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    url = put_all(table, store)
    assert await read(url, store.options) == EXPECTED
    found = await read(url, store.options, where=(col("day") == "x/y") | (col("k") == 5))
    assert found == [row for row in EXPECTED if row[1] == "x/y" or row[0] == 5]
    assert leased_clients() == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/t", "simplecache::memory://t"])
async def test_where_nothing_can_be_listed(url: str) -> None:
    with pytest.raises(Unsupported) as caught:
        await open_table(url)
    assert caught.value.reason == "no_listing"


@pytest.mark.parametrize("kind", ["local", "memory", *S3_KINDS])
async def test_nothing_there(kind: str, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    with pytest.raises(FileNotFoundError):
        await open_table(store.url_of("t"), storage_options=store.options)
    assert leased_clients() == 0


AT_ONCE = 8


async def test_tiny_deltas_are_read_side_by_side(
    s3_proxies: tuple[MotoServer, S3Proxy], table: Path, tmp_path: Path
) -> None:
    """Here none of them is answered before so many have asked."""
    server, proxy = s3_proxies
    url = put_all(table, s3_store(server, tmp_path.name))
    options = s3_store(server, tmp_path.name, proxy.endpoint).options
    found: list[tuple[Any, ...]] = []
    async with open_table(url, storage_options=options) as opened:
        before = len(proxy.asked)
        proxy.fault = lambda _, asked: "hold" if "/delta_" in asked.path else None

        async def read_all() -> None:
            rows = pa.table(await opened.read(columns=["k", "day"])).to_pylist()
            found.extend(tuple(row.values()) for row in rows)

        def wait_for_deltas() -> None:
            with proxy.arrived:
                assert proxy.arrived.wait_for(lambda: asked_for_deltas() >= AT_ONCE, timeout=60)

        def asked_for_deltas() -> int:
            return sum("/delta_" in asked.path for asked in proxy.asked[before:])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_all)
            await anyio.to_thread.run_sync(wait_for_deltas)
            proxy.pass_all()
        assert sorted(found) == EXPECTED
        assert len(proxy.asked) - before <= DELTAS + 3, "a tiny file is one request"
    assert leased_clients() == 0
