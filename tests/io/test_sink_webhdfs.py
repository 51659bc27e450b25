"""Writing to a real HDFS through a proxy that loses, breaks and delays what a sink asks."""

from __future__ import annotations

import asyncio
import functools
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.errors import CommitFailed, CommitUnknown, SinkError
from orcstream.io.contract.byte_sink import ByteSink, Prepared, is_temporary_of
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import cleanup, commit, discard, open_sink
from tests.servers.hdfs import HdfsServer
from tests.servers.hdfs_proxy import Fault, HdfsAsked, HdfsProxy, hdfs_proxy, hdfs_server
from tests.support.effort import STEP, pairs, some

__all__ = ["hdfs_proxy", "hdfs_server"]  # fixtures

PART = 300_000
# Several blocks of the server's, and a part that spans two.
DATA = os.urandom(4 * PART + 17)
TUNED = {"part_bytes": PART, "retries": 8, "timeout_s": 20, "abort_timeout_s": 20}


class Target:
    """A file of one test."""

    def __init__(self, proxy: HdfsProxy, folder: Path) -> None:
        self.proxy, self.server = proxy, proxy.server
        self.folder = f"/faults/{folder.name}"
        self.path = f"{self.folder}/a.orc"
        self.server.put(self.path, b"earlier")
        self.url = proxy.url(self.path)

    async def open(self, *, overwrite: bool = True, **more: Any) -> ByteSink:
        return await open_sink(
            self.url, storage_options=self.proxy.options, sink_options=TUNED | more, overwrite=overwrite
        )

    async def write(self, data: bytes = DATA, *, overwrite: bool = True) -> Prepared:
        sink = await self.open(overwrite=overwrite)
        try:
            await sink.write(data)
            return await sink.prepare()
        finally:
            await sink.aclose()

    async def commit(self, prepared: Prepared, **more: Any) -> None:
        await commit(prepared, storage_options=self.proxy.options, sink_options=TUNED | more)

    @property
    def content(self) -> bytes:
        return self.server.get(self.path)

    @property
    def left(self) -> list[str]:
        return [name for name in self.server.names(self.folder) if name != "a.orc"]

    def pass_all(self) -> None:
        self.proxy.fault = lambda _number, _asked: None


async def write_all(sink: ByteSink, data: bytes = DATA) -> Prepared:
    await sink.write(data)
    return await sink.prepare()


async def write_and_close(sink: ByteSink) -> Prepared:
    try:
        return await write_all(sink, DATA[: 2 * PART + 1])
    finally:
        await sink.aclose()


@pytest.fixture
def target(hdfs_proxy: HdfsProxy, tmp_path: Path) -> Target:
    return Target(hdfs_proxy, tmp_path)


FAULTS: dict[str, list[Fault]] = {
    "GETFILESTATUS name": ["refuse", "500"],
    "CREATE name": ["refuse", "500"],
    "CREATE data": ["refuse", "lose", "500"],
    "APPEND name": ["refuse", "lose", "500"],
    "APPEND data": ["refuse", "lose", "half", "500"],
}


@pytest.mark.parametrize(
    ("where", "fault", "number"),
    some(
        [
            (where, fault, number)
            for where in FAULTS
            for fault in FAULTS[where]
            for number in ((0, 3) if where == "APPEND data" else (0,))
        ],
        2,
    ),
)
async def test_one_request_that_fails_changes_nothing(
    target: Target, where: str, fault: Fault, number: int
) -> None:
    target.proxy.fail_once(where, fault, number)
    prepared = await target.write()
    assert target.proxy.traffic.count(where) > number
    assert prepared.length == len(DATA)
    assert target.content == b"earlier"
    await target.commit(prepared)
    assert target.content == DATA
    assert target.left == []
    assert leased_clients() == 0


async def test_an_append_that_broke_off_goes_on_where_it_stopped(target: Target) -> None:
    target.proxy.fail_once("APPEND data", "half", 2)
    await target.commit(await target.write())
    assert target.content == DATA
    sent = [asked.body_bytes for asked in target.proxy.asked if asked.where == "APPEND data"]
    # Two parts, the third cut off, nothing (until the broken one is closed), and what was missing of it.
    assert sent[:3] == [PART, PART, PART]
    again = next(size for size in sent[3:] if size)
    assert sent[3] == 0
    assert 0 < again < PART, "some of it had arrived"


async def test_an_append_that_arrives_late_finds_no_file(target: Target) -> None:
    target.proxy.fail_once("APPEND data", "late", 2)
    prepared = await target.write()
    assert await anyio.to_thread.run_sync(target.proxy.finish_late, 1) == [404]
    await target.commit(prepared)
    assert target.content == DATA


@pytest.mark.parametrize(
    ("where", "fault"), pairs(["RENAME name", "APPEND data", "GETFILESTATUS name"], ["refuse", "lose"])
)
async def test_finding_out_may_fail_as_well(target: Target, where: str, fault: Fault) -> None:
    """Of a lost append, each request that finds out what arrived."""

    def fail(count: int, asked: Any) -> Fault | None:
        if asked.where == "APPEND data" and count == 2:
            return "lose"
        lost = target.proxy.traffic.count("APPEND data") > 2
        first = {"RENAME name": 0, "APPEND data": 3, "GETFILESTATUS name": 1}[where]
        return fault if lost and asked.where == where and count == first else None

    target.proxy.fault = fail
    prepared = await target.write()
    assert "RENAME name" in target.proxy.traffic
    await target.commit(prepared)
    assert target.content == DATA
    assert target.left == []


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("fault", ["refuse", "lose", "500"])
async def test_a_commit_whose_answer_is_lost(target: Target, overwrite: bool, fault: Fault) -> None:
    if not overwrite:
        target.server.delete(target.path)
    prepared = await target.write(b"new", overwrite=overwrite)
    target.proxy.fail_once("RENAME name", fault)
    await target.commit(prepared)
    assert target.content == b"new"
    await target.commit(prepared)
    await discard(prepared, storage_options=target.proxy.options)
    assert target.content == b"new"
    assert target.left == []


async def test_a_commit_that_is_never_answered_is_unknown(target: Target) -> None:
    prepared = await target.write(b"new")
    target.proxy.fault = lambda _, asked: "lose" if asked.where == "RENAME name" else None
    await target.commit(prepared, retries=1)  # the second attempt looks first
    again = await target.write(b"newer")
    target.proxy.fault = lambda _, asked: "refuse" if asked.where == "RENAME name" else None
    with pytest.raises(CommitUnknown, match=r"\b2 times\b"):
        await target.commit(again, retries=1)
    target.pass_all()
    await target.commit(again)
    assert target.content == b"newer"


async def test_a_commit_of_what_is_gone(target: Target) -> None:
    prepared = await target.write(b"new")
    target.server.delete(target.path)
    await discard(prepared, storage_options=target.proxy.options)
    with pytest.raises(CommitFailed, match="gone"):
        await target.commit(prepared)
    other = await target.write(b"other")
    await target.commit(other)
    await target.commit(await target.write(b"third"))
    with pytest.raises(CommitUnknown, match="replaced"):
        await target.commit(other)
    assert target.content == b"third"


async def test_a_file_is_replaced_at_once(target: Target) -> None:
    """Whoever looks meanwhile sees the earlier file or the new one, and never none."""
    contents = [bytes([65 + number]) * (number + 1) for number in range(10)]
    prepared = [await target.write(content) for content in contents]
    seen: set[int] = set()
    done = False

    def look() -> None:
        while not done:
            seen.add(target.server.status(target.path)["length"])  # raises where there is none

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, look)
        for one in prepared:
            await target.commit(one)
        done = True
    assert target.content == contents[-1]
    assert len(seen) > 2


@pytest.mark.parametrize("where", ["CREATE data", "APPEND data"])
async def test_aborting_while_a_request_is_under_way(target: Target, where: str) -> None:
    target.proxy.fault = lambda _, asked: "late" if asked.where == where else None
    sink = await target.open(retries=0)
    with pytest.raises(SinkError):
        await write_all(sink)
    await sink.abort()
    assert target.left == []
    count = target.proxy.traffic.count(where)
    statuses = await anyio.to_thread.run_sync(target.proxy.finish_late, count)
    if where == "APPEND data":
        assert statuses == [404]
    else:  # made after its writer gave up: hidden, empty, and found by the clean-up
        assert statuses == [201, 403], "aiohttp sends such a request a second time by itself"
        (name,) = target.left
        assert is_temporary_of(name, "a.orc")
        assert len(await cleanup(target.url, older_than_s=0, storage_options=target.server.options)) == 1
    assert target.left == []
    assert target.content == b"earlier"


async def test_cancelled_while_any_request_is_under_way(target: Target) -> None:
    """With every request of a write, also those that find out what a lost append did."""
    loop = asyncio.get_running_loop()
    proxy = target.proxy
    number = 0
    while True:
        first = len(proxy.asked)
        task = asyncio.create_task(write_and_close(await target.open()))
        cancel = functools.partial(loop.call_soon_threadsafe, task.cancel)

        def fail(
            _: int,
            asked: HdfsAsked,
            first: int = first,
            count: int = number + 1,
            cancel: Callable[[], object] = cancel,
        ) -> Fault | None:
            seen = proxy.traffic[first:]
            if len(seen) == count:
                cancel()
            return "half" if asked.where == "APPEND data" and seen.count("APPEND data") == 2 else None

        proxy.fault = fail
        await asyncio.wait([task])
        target.pass_all()
        if not task.cancelled():
            await discard(task.result(), storage_options=proxy.options)
            break
        assert target.left == [], f"cancelled with request {number} under way"
        number += STEP
    assert number > 15
    assert target.left == []
    assert target.content == b"earlier"
    assert leased_clients() == 0


async def test_the_folder_of_another_user(target: Target) -> None:
    for options in ({"user": "somebody"}, {}):
        sink = await open_sink(target.server.url(target.path), storage_options=options, sink_options=TUNED)
        with pytest.raises(PermissionError):
            await write_all(sink)
        await sink.abort()
    assert target.left == []
    assert target.content == b"earlier"


async def test_folders_are_made_and_never_replaced(target: Target) -> None:
    url = target.server.url(f"{target.folder}/new/folder/b.orc")
    sink = await open_sink(url, storage_options=target.server.options)
    await commit(await sink.prepare(), storage_options=target.server.options)
    await sink.aclose()
    assert target.server.get(f"{target.folder}/new/folder/b.orc") == b""
    sink = await open_sink(target.server.url(target.folder), storage_options=target.server.options)
    with pytest.raises(IsADirectoryError):
        await sink.prepare()
    await sink.abort()


async def test_a_table_is_written_and_read_by_others(target: Target) -> None:
    rows = pa.table({"id": range(50_000), "noise": [os.urandom(8) for _ in range(50_000)]})
    target.proxy.fault = lambda count, asked: (
        "lose" if asked.where == "APPEND data" and count % 2 == 0 else None
    )
    async with orcstream.create(
        target.url, storage_options=target.proxy.options, sink_options=TUNED | {"part_bytes": 100_000}
    ) as out:
        for batch in rows.to_batches(max_chunksize=10_000):
            await out.write(batch)
    assert target.proxy.traffic.count("APPEND data") > 5
    assert orc.read_table(io.BytesIO(target.content)).equals(rows)
    assert target.left == []


async def test_the_permissions_of_the_earlier_file_are_kept(target: Target) -> None:
    target.server.call("PUT", "SETPERMISSION", target.path, permission="600")
    await target.commit(await target.write(b"secret"))
    assert target.server.status(target.path)["permission"] == "600"


async def test_nobody_answers(hdfs_server: HdfsServer) -> None:
    sink = await open_sink(
        "webhdfs://user@127.0.0.1:1/a.orc", sink_options={"retries": 1, "abort_timeout_s": 5}
    )
    with pytest.raises(SinkError, match="2 times") as caught:
        await sink.prepare()
    assert "user" not in str(caught.value)
    await sink.abort()
    assert leased_clients() == 0
