"""Growing files on HDFS: appended to, followed, cut off, and left alone where an append was not answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import orcstream
from orcstream.errors import SinkError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.hdfs.webhdfs import WebHdfs
from tests.io.test_follow import POLL_S, all_of, numbers, rows
from tests.servers.hdfs import HdfsServer, hdfs_server

__all__ = ["hdfs_server"]  # fixture

SCHEMA = "struct<n:bigint>"


def options_of(server: HdfsServer) -> dict[str, Any]:
    return {"storage_options": server.options}


@pytest.fixture
def folder(hdfs_server: HdfsServer, tmp_path: Path) -> str:
    return f"/growing/{tmp_path.name}"


async def test_it_is_followed(hdfs_server: HdfsServer, folder: str) -> None:
    url, options = hdfs_server.url(f"{folder}/a.orc"), options_of(hdfs_server)
    out = await orcstream.create(url, SCHEMA, growing=True, **options)
    await out.write(rows(0, 5))
    await out.flush()
    async with orcstream.open(url, follow=True, poll_s=POLL_S, **options) as file, file.batches() as stream:
        assert numbers(await anext(stream)) == [0, 1, 2, 3, 4]
        await out.write(rows(5, 7))
        await out.flush()
        assert numbers(await anext(stream)) == [5, 6]
        await out.write(rows(7, 9))
        await out.commit()
        assert await all_of(stream) == [7, 8]
        assert file.is_complete
    assert hdfs_server.names(folder) == ["a.orc"]
    assert hdfs_server.status(f"{folder}/a.orc")["length"] == out.result.length
    assert leased_clients() == 0


async def test_an_abort_cuts_it_off(hdfs_server: HdfsServer, folder: str) -> None:
    options: dict[str, Any] = {"storage_options": hdfs_server.options}
    options["sink_options"] = {"part_bytes": 100}
    url = hdfs_server.url(f"{folder}/a.orc")
    out = await orcstream.create(url, SCHEMA, growing=True, compression="none", **options)
    await out.write(rows(0, 5))
    await out.flush()
    flushed = hdfs_server.status(f"{folder}/a.orc")["length"]
    await out.write([{"n": number**5} for number in range(1000)])
    await out.end_stripe()
    await out.write([{"n": 1}])
    await out.end_stripe()  # the bytes of the one before it are there
    assert hdfs_server.status(f"{folder}/a.orc")["length"] > flushed
    await out.abort()
    assert hdfs_server.names(folder) == ["a.orc"]
    assert hdfs_server.status(f"{folder}/a.orc")["length"] == flushed
    async with orcstream.open(url, storage_options=hdfs_server.options) as file:
        assert file.row_count == 5


async def test_an_abort_before_the_first_flush(hdfs_server: HdfsServer, folder: str) -> None:
    url, options = hdfs_server.url(f"{folder}/a.orc"), options_of(hdfs_server)
    out = await orcstream.create(url, SCHEMA, growing=True, **options)
    assert hdfs_server.names(folder) == ["a.orc", "a.orc_flush_length"]
    with pytest.raises(FileExistsError):
        await orcstream.create(url, SCHEMA, growing=True, **options)
    await out.write(rows(0, 5))
    await out.abort()
    assert hdfs_server.names(folder) == []
    assert leased_clients() == 0


@pytest.mark.parametrize("native_cancel", [True, False])
async def test_it_is_cancelled_while_it_is_made(
    native_cancel: bool, hdfs_server: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The creation is waited for, and undone."""
    create, hangs, go_on = WebHdfs.create, anyio.Event(), anyio.Event()

    async def hang(self: WebHdfs, path: str, **more: Any) -> Any:
        hangs.set()
        await go_on.wait()
        return await create(self, path, **more)

    monkeypatch.setattr(WebHdfs, "create", hang)
    hdfs_server.call("PUT", "MKDIRS", folder)
    scope = anyio.CancelScope()

    async def make() -> None:
        with scope:
            url, options = hdfs_server.url(f"{folder}/a.orc"), options_of(hdfs_server)
            await orcstream.create(url, SCHEMA, growing=True, **options)

    making = asyncio.create_task(make())
    await hangs.wait()
    if native_cancel:
        making.cancel()
    else:
        scope.cancel()
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    go_on.set()
    await asyncio.wait([making])
    assert hdfs_server.names(folder) == []
    assert making.cancelled() == native_cancel
    assert leased_clients() == 0


@pytest.mark.parametrize("sent", [False, True])
async def test_an_append_that_is_not_answered(
    sent: bool, hdfs_server: HdfsServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = hdfs_server.url(f"{folder}/a.orc"), options_of(hdfs_server)
    append = WebHdfs.append

    async def lose(self: WebHdfs, path: str, data: Any) -> None:
        if sent:
            await append(self, path, data)
        raise TimeoutError

    out = await orcstream.create(url, SCHEMA, growing=True, **options)
    await out.write(rows(0, 5))
    await out.flush()
    with monkeypatch.context() as patch:
        patch.setattr(WebHdfs, "append", lose)
        await out.write(rows(5, 9))
        with pytest.raises(SinkError):
            await out.flush()
    with pytest.raises(SinkError, match=r"\bappend\b"):
        await out.abort()
    assert hdfs_server.names(folder) == ["a.orc", "a.orc_flush_length"]
    async with orcstream.open(url, follow=True, **options) as file:
        assert (file.row_count, file.is_complete) == (5, False)


async def test_ingested(hdfs_server: HdfsServer, folder: str) -> None:
    template = hdfs_server.url(f"{folder}/d={{d}}/{{number}}.orc")
    options: dict[str, Any] = {"storage_options": hdfs_server.options, "growing": True, "max_rows": 4}
    async with orcstream.ingest(template, "struct<d:string,n:bigint>", **options) as out:
        await out.write([{"d": "ab"[number % 2], "n": number} for number in range(10)])
        await out.flush()
        assert len(out.files) == 2
    assert hdfs_server.names(f"{folder}/d=a") == ["0.orc", "2.orc"]
    assert [one.row_count for one in sorted(out.files, key=lambda one: one.url)] == [4, 1, 4, 1]
