"""The examples that serve HTTP, before an S3 server: as a process that is ended, and under many requests."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.orc
from aiohttp.test_utils import TestClient, TestServer

import orcstream
from orcstream.io.keys import read_key_file
from tests.meta.tree import ROOT
from tests.servers.processes import free_port
from tests.servers.s3_proxy import start_versitygw

ENOUGH = 2_000


class Posters:
    """Clients of the ingest service that post until it is gone."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sent: set[int] = set()
        self.taken: set[int] = set()
        self.enough = asyncio.Event()

    async def post(self, session: aiohttp.ClientSession, ids: range) -> int:
        rows = [
            {"tenant": f"t{one % 3}", "id": one, "email": f"{one}@example.org", "amount": one / 4}
            for one in ids
        ]
        self.sent.update(ids)
        async with session.post(f"{self.url}/rows", data="\n".join(map(json.dumps, rows))) as response:
            if response.status == 202:
                self.taken.update(ids)
        if len(self.taken) >= ENOUGH:
            self.enough.set()
        return response.status

    async def run(self, session: aiohttp.ClientSession, first: int) -> None:
        try:
            for start in itertools.count(first, 20):
                assert await self.post(session, range(start, start + 20)) == 202
        except aiohttp.ClientError:
            return  # it does not listen any more


async def test_ingest_service_loses_nothing(tmp_path: Path) -> None:
    server = start_versitygw()
    server.client.create_bucket(Bucket="ingest-service")
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"pii": "00" * 16}))
    keys.chmod(0o600)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(str(ROOT / "examples" / "ingest_service.py"), "s3://ingest-service/events"),
        *("--keys", str(keys), "--port", str(port), "--storage-options", json.dumps(server.options)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        while b"Running on" not in (line := await process.stdout.readline()):
            assert line, "the service ended"
        posters = Posters(f"http://127.0.0.1:{port}")
        async with aiohttp.ClientSession() as session:
            await refuse(session, posters.url)
            async with asyncio.TaskGroup() as tasks:
                for number in range(6):
                    tasks.create_task(posters.run(session, number * 1_000_000))
                await posters.enough.wait()
                process.send_signal(signal.SIGTERM)
        printed = (await process.stdout.read()).decode()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert "rows in s3://ingest-service/events/tenant=t0/000" in printed

    masked = await stored_rows(server.client, server.options, keys=None)
    found = await stored_rows(server.client, server.options, keys=await read_key_file(keys))
    ids = [row["id"] for row in found]
    assert len(ids) == len(set(ids))
    assert posters.taken <= set(ids) <= posters.sent
    assert all(row["email"] == f"{row['id']}@example.org" for row in found)
    assert {row["email"][-12:] for row in masked} == {".xxxxxxx.xxx"}


async def refuse(session: aiohttp.ClientSession, url: str) -> None:
    for body in ("{", '{"id": "seven"}', '{"id": 7}\n{"unknown": 1}'):
        async with session.post(f"{url}/rows", data=body) as response:
            assert response.status == 400
            assert await response.text()
    async with session.get(f"{url}/files") as response:
        assert await response.json() == []


async def stored_rows(client: Any, options: dict[str, Any], keys: Any) -> list[dict[str, Any]]:
    names = [one["Key"] for one in client.list_objects_v2(Bucket="ingest-service")["Contents"]]
    rows = []
    urls = [f"s3://ingest-service/{name}" for name in names]
    async with orcstream.open_many(urls, storage_options=options, keys=keys) as files:
        async for file in files:
            async with file:
                rows += (await file.read()).to_pylist()
    return rows


async def test_lookups() -> None:
    server = start_versitygw()
    server.client.create_bucket(Bucket="lookups")
    url, options = "s3://lookups/orders.orc", server.options
    example = runpy.run_path(str(ROOT / "examples" / "lookup_service.py"))
    await example["make"](url, options, rows=100_000)
    data = server.client.get_object(Bucket="lookups", Key="orders.orc")["Body"].read()
    table = pa.orc.ORCFile(pa.BufferReader(data)).read()
    known = table["id"].to_pylist()

    async with TestClient(TestServer(example["service"](url, options))) as client:

        async def look_up(id_: int) -> tuple[int, dict[str, Any]]:
            async with client.get(f"/rows/{id_}") as response:
                return response.status, await response.json()

        numbers = range(0, 100_000, 9_973)
        for number, (status, found) in zip(
            numbers, await asyncio.gather(*(look_up(known[number]) for number in numbers)), strict=True
        ):
            assert (status, found["rows"]) == (200, table.slice(number, 1).to_pylist())
            assert found["figures"]["round_trips"] <= 2
            assert found["figures"]["requests"] <= 4
            assert found["figures"]["rows_looked_at"] <= 2_000  # one row group
            assert found["figures"]["bytes_read"] < len(data)
        missing = next(one for one in range(known[50_000], known[-1]) if one not in set(known))
        status, found = await look_up(missing)
        assert (status, found["rows"]) == (404, [])
        assert found["figures"]["rows_looked_at"] == 0
        assert found["figures"]["rows_pruned_by_bloom"] > 0

        async with client.get("/take", params={"rows": "99999,0"}) as response:
            assert await response.json() == {"rows": table.take([99_999, 0]).to_pylist()}
        for rows in ("100000", "x", ""):
            async with client.get("/take", params={"rows": rows}) as response:
                assert response.status == 400

        await example["make"](url, options, rows=10)  # another file takes its place
        status, found = await look_up(known[3])
        assert (status, [row["id"] for row in found["rows"]]) == (200, [known[3]])
