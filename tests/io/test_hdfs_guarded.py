"""A name service of two NameNodes, the first in stand-by, that looks at tokens: found by Hadoop's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import orcstream
from orcstream.byterange import ByteRange
from orcstream.errors import UsageError
from orcstream.io.contract.byte_sink import SinkOptions
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import cleanup
from orcstream.io.stores.hdfs.webhdfs import WebHdfs
from orcstream.io.stores.hdfs.webhdfs_connection import lease_webhdfs
from orcstream.io.urls import open_source
from tests.servers.hdfs import USER, GuardedHdfs, guarded_hdfs, write_configuration

__all__ = ["guarded_hdfs"]  # fixture

ROWS = [{"n": number, "s": f"row {number}"} for number in range(2000)]
SCHEMA = "struct<n:bigint,s:string>"
FORMS = ["writable", "protobuf"]


@pytest.fixture
def cluster(guarded_hdfs: GuardedHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedHdfs:
    """With Hadoop's configuration of it in the environment, and no user's name."""
    write_configuration(tmp_path, guarded_hdfs.properties() | {"hadoop.security.authentication": "kerberos"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    return guarded_hdfs


def token_of(cluster: GuardedHdfs) -> str:
    answer = cluster.active.call("GET", "GETDELEGATIONTOKEN", "/", renewer="somebody")
    token: str = json.loads(answer)["Token"]["urlString"]
    return token


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("url", ["webhdfs:///t/{}.orc", "webhdfs://minidfs-ns/t/{}.orc", "hdfs:///t/{}.orc"])
async def test_written_and_read_with_a_token_of_a_file(
    form: str, url: str, cluster: GuardedHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(cluster.tokens / f"tokens-{form}"))
    url = url.format(form + url[0])
    async with orcstream.create(url, SCHEMA, sink_options={"part_bytes": 4000}) as out:
        await out.write(ROWS)
    async with orcstream.open(url) as file:
        rows = await file.read(where=orcstream.col("n") >= 1990)
    assert rows.to_pylist() == ROWS[1990:]
    assert cluster.active.status(url[url.index("/t/") :])["owner"] == USER
    assert await cleanup(url, older_than_s=0) == []
    assert leased_clients() == 0


async def test_tokens_for_others_stay_here(cluster: GuardedHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the configuration an address is of the name service; without it, it is a stranger's."""
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(cluster.tokens / "tokens-protobuf"))
    url = f"webhdfs://127.0.0.1:{cluster.active.port}/none.orc"
    with pytest.raises(FileNotFoundError):
        await orcstream.open(url)
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(PermissionError, match="ha-hdfs:minidfs-ns, ha-hdfs:other"):
        await orcstream.open(url)
    assert leased_clients() == 0


async def test_a_token_by_hand(cluster: GuardedHdfs) -> None:
    options = {"token": token_of(cluster)}
    url = "webhdfs://minidfs-ns/by hand.orc"
    async with orcstream.create(url, SCHEMA, storage_options=options) as out:
        await out.write(ROWS)
    async with orcstream.open(url, storage_options=options) as file:
        assert (await file.read()).to_pylist() == ROWS
    assert cluster.active.status("/by hand.orc")["owner"] == USER


async def test_a_token_that_nobody_gave_is_refused(cluster: GuardedHdfs) -> None:
    token = token_of(cluster)
    forged = token[:40] + ("B" if token[40] == "A" else "A") + token[41:]
    for wrong in (forged, "garbage"):
        with pytest.raises(PermissionError):
            await orcstream.open(
                f"webhdfs://127.0.0.1:{cluster.active.port}/a.orc", storage_options={"token": wrong}
            )
    assert leased_clients() == 0


async def test_the_active_one_is_remembered(cluster: GuardedHdfs) -> None:
    lease = await lease_webhdfs({"host": "minidfs-ns", "token": token_of(cluster)}, "webhdfs://minidfs-ns")
    hdfs = WebHdfs(lease.client, "webhdfs://minidfs-ns")
    assert [origin.port for origin in lease.client.name_nodes] == [cluster.ports[0], cluster.ports[2]]
    await hdfs.create("/active", overwrite=True)
    assert [origin.port for origin in lease.client.name_nodes] == [cluster.ports[2], cluster.ports[0]]
    await hdfs.append("/active", b"12345")
    assert bytes(await hdfs.read("/active", 1, 3)) == b"234"
    await lease.aclose()


async def test_a_name_node_that_is_gone(cluster: GuardedHdfs, tmp_path: Path) -> None:
    """Unlike one in stand-by it may have done something: whoever asks decides to ask again."""
    properties = cluster.properties() | {"dfs.namenode.http-address.minidfs-ns.nn1": "127.0.0.1:1"}
    write_configuration(tmp_path, properties)
    cluster.active.put("/there", b"12345")
    options = {"token": token_of(cluster), "hadoop_conf_dir": tmp_path}
    sink_options = SinkOptions(retries=1)
    url = "webhdfs://minidfs-ns/gone.orc"
    async with orcstream.create(url, SCHEMA, storage_options=options, sink_options=sink_options) as out:
        await out.write(ROWS)
    async with orcstream.open(url, storage_options=options, io_options={"retries": 1}) as file:
        assert file.row_count == len(ROWS)


async def test_kerberos_wants_a_token(cluster: GuardedHdfs) -> None:
    with pytest.raises(UsageError, match="HADOOP_TOKEN_FILE_LOCATION"):
        await orcstream.open("webhdfs:///a.orc")
    assert leased_clients() == 0


async def test_native_finds_the_active_one_by_options(
    guarded_hdfs: GuardedHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", USER)
    guarded_hdfs.active.put("/native", b"0123456789")
    source = await open_source(
        "hdfs://minidfs-ns/native", storage_options=guarded_hdfs.properties(), io_options=None
    )
    assert bytes(await source.fetch(ByteRange(3, 6))) == b"345"
    await source.aclose()


async def test_mount_tables(guarded_hdfs: GuardedHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", USER)
    mounts = {
        "fs.viewfs.mounttable.all.link./data": "hdfs://minidfs-ns/mounted",
        "fs.viewfs.mounttable.all.linkFallback": "hdfs://minidfs-ns/rest",
    }
    options = guarded_hdfs.properties() | mounts
    async with orcstream.create("viewfs://all/data/a b.orc", SCHEMA, storage_options=options) as out:
        await out.write(ROWS)
    async with orcstream.open("viewfs://all/data/a b.orc", storage_options=options) as file:
        assert file.row_count == len(ROWS)
    assert guarded_hdfs.active.names("/mounted") == ["a b.orc"]
