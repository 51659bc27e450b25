"""nginx: whatever it is told to do, rows are right, or the error says what is wrong."""

from __future__ import annotations

import base64
import functools
import io
import ssl
from collections.abc import Mapping
from typing import Any

import anyio
import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream import col
from orcstream.errors import SourceChanged, SourceError, Unsupported
from orcstream.io.loop.clients import leased_clients
from tests.servers.nginx import AWKWARD, Nginx, nginx_server

__all__ = ["nginx_server"]  # a fixture

ROWS = 300_000
SERVED = ["plain", "gzip", "no-etag", "no-version", "weak", AWKWARD]


@functools.cache
def table() -> pa.Table:
    rows = range(ROWS)
    return pa.table({"id": rows, "half": [row / 2 for row in rows], "name": [f"n{row}" for row in rows]})


@functools.cache
def large(*, reverse: bool = False) -> bytes:
    """A file of a few megabytes in several stripes, too large to be taken whole."""
    buffer = io.BytesIO()
    rows = table()
    orc.write_table(
        rows.take(list(range(ROWS))[::-1]) if reverse else rows,
        buffer,
        compression="uncompressed",
        stripe_size=1 << 20,
        dictionary_key_size_threshold=0.0,
    )
    return buffer.getvalue()


@functools.cache
def small() -> bytes:
    buffer = io.BytesIO()
    orc.write_table(table().slice(0, 1000), buffer)
    return buffer.getvalue()


async def read(url: str, options: Mapping[str, Any] | None = None, **asked: Any) -> pa.Table:
    async with orcstream.open(url, storage_options=options, io_options={"retries": 0}) as file:
        return pa.table(await file.read(**asked))


@pytest.mark.parametrize("location", SERVED)
async def test_all_rows(nginx_server: Nginx, location: str) -> None:
    url = nginx_server.put("all é%2F#.orc", large(), location)
    assert await read(url) == table()
    asked = [one for one in nginx_server.asked() if one.location == location]
    assert {one.status for one in asked} == {206}
    assert leased_clients() == 0


@pytest.mark.parametrize("location", SERVED)
async def test_chosen_rows_cost_few_bytes(nginx_server: Nginx, location: str) -> None:
    url = nginx_server.put("some.orc", large(), location)
    async with orcstream.open(url) as file:
        found = pa.table(await file.read(columns=["name"], where=col("id").between(123_456, 123_460)))
        async with file.batches(columns=["id"]) as stream:
            await stream.seek(250_001)
            batch = pa.record_batch(await anext(stream))
    assert found["name"].to_pylist() == [f"n{row}" for row in range(123_456, 123_461)]
    assert batch["id"][0].as_py() == 250_001
    asked = [one for one in nginx_server.asked() if one.location == location]
    assert sum(one.sent_bytes for one in asked) < len(large()) / 2


async def test_ranges_that_are_ignored(nginx_server: Nginx) -> None:
    """A small file is taken whole, once; of a large one nothing is."""
    url = nginx_server.put("small.orc", small(), "whole")
    assert await read(url) == table().slice(0, 1000)
    assert [one.status for one in nginx_server.asked()] == [200]
    url = nginx_server.put("large.orc", large(), "whole")
    with pytest.raises(Unsupported) as caught:
        await read(url)
    assert caught.value.reason == "no_range_requests"
    assert leased_clients() == 0


async def test_ranges_that_are_ignored_from_some_request_on(nginx_server: Nginx) -> None:
    """As behind a balancer whose servers differ."""
    url = nginx_server.put("large.orc", large(), "plain")
    async with orcstream.open(url) as file:
        file_url = url.replace("/plain/", "/whole/")
        tail = file.tail.to_bytes()
    with pytest.raises(Unsupported, match="whole"):
        async with orcstream.open(file_url, tail=orcstream.Tail.from_bytes(tail)) as file:
            await file.read()


async def test_what_is_compressed_on_its_way_is_not_taken_for_the_file(nginx_server: Nginx) -> None:
    url = nginx_server.put("a.orc", large(), "encoded")
    with pytest.raises(Unsupported) as caught:
        await read(url)
    assert caught.value.reason == "content_encoding"


@pytest.mark.parametrize("location", ["plain", "no-etag", "weak"])
@pytest.mark.parametrize("same_length", [True, False])
async def test_a_file_replaced_meanwhile(nginx_server: Nginx, location: str, same_length: bool) -> None:
    url = nginx_server.put("replaced.orc", large(), location)
    async with orcstream.open(url) as file:
        nginx_server.put("replaced.orc", large(reverse=True) if same_length else small())
        with pytest.raises(SourceChanged):
            await file.read()


async def test_without_any_version_only_the_length_tells(nginx_server: Nginx) -> None:
    url = nginx_server.put("replaced.orc", large(), "no-version")
    async with orcstream.open(url) as file:
        nginx_server.put("replaced.orc", small())
        with pytest.raises(SourceChanged):
            await file.read()


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("forbidden", PermissionError),
        ("basic", PermissionError),
        ("bearer", PermissionError),
        ("moved-302", PermissionError),
        ("gone", FileNotFoundError),
        ("moved-308", SourceError),
    ],
)
async def test_refusals(nginx_server: Nginx, location: str, expected: type[Exception]) -> None:
    url = nginx_server.put("a.orc", small(), location)
    with pytest.raises(expected) as caught:
        await read(url)
    assert url in str(caught.value)
    assert leased_clients() == 0


async def test_a_file_that_is_not_there(nginx_server: Nginx) -> None:
    url = nginx_server.url("missing é.orc")
    with pytest.raises(FileNotFoundError) as caught:
        await read(url)
    assert caught.value.filename == url


async def test_basic_authentication(nginx_server: Nginx) -> None:
    url = nginx_server.put("a.orc", small(), "basic")
    rows = table().slice(0, 1000)
    code = base64.b64encode(b"reader:hunter2").decode()
    assert await read(url, {"headers": {"Authorization": f"Basic {code}"}}) == rows
    assert await read(url.replace("://", "://reader:hunter2@")) == rows
    with pytest.raises(PermissionError) as caught:
        await read(url.replace("://", "://reader:hunter3@"))
    assert caught.value.filename == url, "without the password"


async def test_bearer_tokens(nginx_server: Nginx) -> None:
    url = nginx_server.put("a.orc", small(), "bearer")
    assert await read(url, {"headers": {"Authorization": "Bearer hunter2"}}) == table().slice(0, 1000)
    with pytest.raises(PermissionError) as caught:
        await read(url, {"headers": {"Authorization": "Bearer hunter3"}})
    assert "hunter3" not in str(caught.value)


@pytest.mark.parametrize("location", ["moved-301", "moved-307"])
async def test_redirects_are_followed(nginx_server: Nginx, location: str) -> None:
    """Authorization is for the host that was named, and goes to no other."""
    url = nginx_server.put("a é%.orc", large(), location)
    assert await read(url, {"headers": {"Authorization": "Bearer hunter2"}}) == table()
    asked = nginx_server.asked()
    assert {one.status for one in asked if one.location == location} == {int(location[-3:])}
    arrived = [one for one in asked if one.location == "plain"]
    assert {one.status for one in arrived} == {206}
    told = {"Bearer hunter2"} if location == "moved-301" else {""}
    assert {one.authorization for one in arrived} == told


async def test_connections_are_kept_and_shared(nginx_server: Nginx) -> None:
    urls = [nginx_server.put(f"{number}.orc", large()) for number in range(4)]
    async with orcstream.open(urls[0], io_options={"request_cap": 2}) as first:
        for url in urls:
            async with orcstream.open(url, io_options={"request_cap": 2, "part_bytes": 200_000}) as file:
                await file.read()
        await first.read(columns=["id"])
    asked = nginx_server.asked()
    assert len(asked) > 40
    assert len({one.connection for one in asked}) <= 2


async def test_many_readers_at_once(nginx_server: Nginx) -> None:
    urls = [nginx_server.put(f"{number}.orc", large()) for number in range(3)]
    answers: list[pa.Table] = []

    async def read_one(url: str) -> None:
        answers.append(await read(url, columns=["half"]))

    async with anyio.create_task_group() as group:
        for url in urls * 3:
            group.start_soon(read_one, url)
    assert answers == [table().select(["half"])] * 9
    assert leased_clients() == 0


async def test_through_a_proxy(nginx_server: Nginx, monkeypatch: pytest.MonkeyPatch) -> None:
    url = nginx_server.put("a é%2F.orc", small())
    proxy = f"http://127.0.0.1:{nginx_server.proxy_port}"
    rows = table().slice(0, 1000)
    assert await read(url, {"proxy": proxy}) == rows
    assert len(nginx_server.asked()) == 2, "the proxy has logged it, too"
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    assert await read(url, {"client_kwargs": {"trust_env": True}}) == rows
    assert len(nginx_server.asked()) == 2


async def test_client_certificates(nginx_server: Nginx) -> None:
    nginx_server.put("a.orc", small())
    url = nginx_server.url("a.orc", origin=f"https://127.0.0.1:{nginx_server.tls_port}")
    with pytest.raises(SourceError, match=r"\bcertificate verify failed\b"):
        await read(url)
    context = ssl.create_default_context(cafile=str(nginx_server.certificate))
    with pytest.raises(SourceError):
        await read(url, {"ssl": context})
    context.load_cert_chain(nginx_server.certificate)
    assert await read(url, {"ssl": context}) == table().slice(0, 1000)
