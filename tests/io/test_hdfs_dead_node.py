"""HDFS while one of two DataNodes is down, and the NameNode does not know it yet."""

from __future__ import annotations

import io
import time
from typing import Any

import anyio
import numpy as np
import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

import orcstream
from orcstream.byterange import BytesLike
from orcstream.errors import SinkError, SourceError
from orcstream.io.contract import byte_source as retry
from orcstream.io.contract.byte_sink import ByteSink
from orcstream.io.sink import open_sink
from orcstream.io.stores.hdfs.native import HdfsNative
from orcstream.io.stores.hdfs.webhdfs_connection import (
    AVOIDED_S,
    MOST_AVOIDED,
    AvoidedNodes,
    transfer_address,
)
from orcstream.io.urls import open_source
from tests.servers.hdfs import USER, FaultyHdfs, HdfsServer, faulty_hdfs, hdfs_server, native_hdfs

__all__ = ["faulty_hdfs", "hdfs_server", "native_hdfs"]  # fixtures

ROWS = 400_000
OPTIONS = {"user": USER}


def table() -> bytes:
    """A file of several blocks, each of which is on both nodes."""
    buffer = io.BytesIO()
    options: dict[str, Any] = {"compression": "none", "stripe_bytes": 1 << 20}
    with orcstream.blocking.create(buffer, "struct<a:double>", **options) as out:
        out.write({"a": np.arange(ROWS, dtype=np.float64)})
    return buffer.getvalue()


@pytest.mark.parametrize("number", [0, 1])
async def test_a_scan_reads_around_a_node_that_is_down(faulty_hdfs: FaultyHdfs, number: int) -> None:
    server, data = faulty_hdfs.server, table()
    server.put("/down/a.orc", data)
    server.put("/down/b.orc", data)
    faulty_hdfs.stop(number)
    tries = {"retries": 1}  # the one that finds out which node it is
    for _ in range(4):
        async with orcstream.open(
            server.url("/down/a.orc"), storage_options=OPTIONS, io_options=tries
        ) as file:
            read = (await file.read()).to_numpy()["a"]
        assert np.array_equal(read, np.arange(ROWS))
    urls = [server.url(f"/down/{name}.orc") for name in "ab"]
    async with orcstream.dataset(urls, storage_options=OPTIONS) as files:
        assert (await files.read()).num_rows == 2 * ROWS
    async with orcstream.open(server.native_url("/down/a.orc")) as file:
        assert (await file.read()).num_rows == ROWS


async def test_a_node_that_was_down_is_asked_when_the_other_is(faulty_hdfs: FaultyHdfs) -> None:
    server = faulty_hdfs.server
    server.put("/down/a", bytes(1000))
    source = await open_source(server.url("/down/a"), storage_options=OPTIONS, io_options=None)
    try:
        for number in (0, 1):
            faulty_hdfs.stop(number)
            failure_count = 0
            for _ in range(20):
                try:
                    await source.fetch_suffix(10)
                except SourceError:
                    failure_count += 1
            # One that finds the node; of the second one also that which finds that none would be left.
            assert failure_count <= 1 + number
            faulty_hdfs.start()
    finally:
        await source.aclose()


async def test_a_file_is_written_around_a_node_that_is_down(
    faulty_hdfs: FaultyHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "LONGEST_WAIT_S", 0.1)
    server = faulty_hdfs.server
    faulty_hdfs.stop(0)
    async with orcstream.create(
        server.url("/down/w.orc"), "struct<a:bigint>", storage_options=OPTIONS, sink_options={"retries": 20}
    ) as out:
        await out.write([{"a": 1}])
    async with orcstream.open(server.url("/down/w.orc"), storage_options=OPTIONS) as file:
        assert file.row_count == 1


@pytest.mark.parametrize("when", ["before", "between parts"])
async def test_hdfs_native_says_what_to_do_about_a_node_that_is_down(
    faulty_hdfs: FaultyHdfs, when: str
) -> None:
    url = faulty_hdfs.server.native_url("/down/n.orc")
    options = {"timeout_s": 3, "abort_timeout_s": 3, "part_bytes": 1000}
    failures: list[str] = []
    start_s = time.monotonic()
    for _ in range(3):
        sink = await open_sink(url, sink_options=options)
        try:
            if when == "before":
                faulty_hdfs.stop(0)
            await sink.write(bytes(5000))
            if when != "before":
                await sink.write(bytes(5000))
                faulty_hdfs.stop(0)
            await sink.write(bytes(5000))
            await sink.prepare()
        except (SinkError, SourceError) as error:
            failures.append(str(error))
        finally:
            await sink.abort()
            faulty_hdfs.start()
    assert time.monotonic() - start_s < 60
    assert all("over webhdfs://, or later" in failure for failure in failures)
    assert failures or when != "before"


class Hanging:
    """A writer that is never done with one of its calls."""

    def __init__(self, call: str) -> None:
        self._call = call

    async def write(self, data: BytesLike) -> None:  # noqa: ARG002
        if self._call == "write":
            await anyio.sleep_forever()

    async def close(self) -> None:
        await anyio.sleep_forever()

    async def release(self) -> None: ...


async def _write_all(sink: ByteSink) -> None:
    await sink.write(b"x")
    await sink.prepare()


@pytest.mark.parametrize("call", ["write", "close"])
async def test_a_call_of_hdfs_native_that_hangs_is_given_up_once(
    native_hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    async def create(*_: object, **__: object) -> Hanging:
        return Hanging(call)

    monkeypatch.setattr(HdfsNative, "create", create)
    url = native_hdfs.native_url("/hangs.orc")
    sink = await open_sink(url, sink_options={"timeout_s": 0.2, "retries": 50})
    with anyio.fail_after(5), pytest.raises(SinkError, match="webhdfs://"):
        await _write_all(sink)
    await sink.abort()


@pytest.mark.parametrize("way", ["webhdfs", "hdfs"])
async def test_a_refusal_keeps_hadoops_reason(
    native_hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    native_hdfs.put("/private/a.orc", b"x")
    native_hdfs.call("PUT", "SETPERMISSION", "/private/a.orc", permission="600")
    monkeypatch.setenv("HADOOP_USER_NAME", "nobody")
    url, options = native_hdfs.native_url("/private/a.orc"), {}
    if way == "webhdfs":
        url, options = native_hdfs.url("/private/a.orc"), {"user": "nobody"}
    with pytest.raises(PermissionError) as caught:
        async with orcstream.open(url, storage_options=options):
            pass
    assert 'user=nobody, access=READ, inode="/private/a.orc"' in str(caught.value)


def test_nodes_are_left_out_for_a_while() -> None:
    now = [0.0]
    nodes = AvoidedNodes(lambda: now[0])
    assert nodes.option() == {}
    for number in range(MOST_AVOIDED + 2):
        nodes.add(f"10.0.0.1:{number + 1}")
    assert len(nodes.option()["excludedatanodes"].split(",")) == MOST_AVOIDED
    now[0] = AVOIDED_S / 2
    nodes.add("10.0.0.2:1")
    now[0] = AVOIDED_S
    assert nodes.option() == {"excludedatanodes": "10.0.0.2:1"}
    nodes.clear()
    assert nodes.option() == {}


JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.just("127.0.0.1"),
    lambda inner: st.lists(inner)
    | st.dictionaries(
        st.sampled_from(["LocatedBlocks", "locatedBlocks", "locations", "ipAddr", "xferPort", "infoPort"]),
        inner,
    ),
)


@given(JSON)
def test_any_answer_is_looked_at(blocks: Any) -> None:
    found = transfer_address(blocks, yarl.URL("http://127.0.0.1:9864/webhdfs/v1/a"))
    assert found is None or "," not in found


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({}, "10.0.0.1:9866"),
        ({"hostName": "node"}, "10.0.0.1:9866"),
        ({"infoPort": 1, "infoSecurePort": 9864}, "10.0.0.1:9866"),
        ({"infoPort": 1}, None),
        ({"ipAddr": "10.0.0.1,10.0.0.2:9866"}, None),
        ({"xferPort": "9866,10.0.0.2:9866"}, None),
        ({"xferPort": 0}, None),
        ({"hostName": "other"}, None),
    ],
)
def test_the_address_of_a_node(place: dict[str, Any], expected: str | None) -> None:
    whole = {"ipAddr": "10.0.0.1", "hostName": "node", "xferPort": 9866, "infoPort": 9864, **place}
    blocks = {"LocatedBlocks": {"locatedBlocks": [{"locations": [whole]}]}}
    assert transfer_address(blocks, yarl.URL("http://node:9864/webhdfs/v1/a?op=OPEN")) == expected
