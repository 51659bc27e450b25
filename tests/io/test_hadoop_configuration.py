"""Hadoop's configuration folders and files of tokens: what is in them, and whatever else may be."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.errors import UsageError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.hdfs.calls import place_of
from orcstream.io.stores.hdfs.hadoop_configuration import (
    HadoopConfiguration,
    configuration_folder,
    properties_of,
)
from orcstream.io.stores.hdfs.hadoop_tokens import HadoopToken, read_tokens, token_for
from orcstream.io.stores.hdfs.webhdfs_connection import lease_webhdfs
from tests.servers.hdfs import write_configuration

HA = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": "lake, pond",
    "dfs.ha.namenodes.lake": "nn1, nn2",
    "dfs.namenode.http-address.lake.nn1": "a.example:50070",
    "dfs.namenode.rpc-address.lake.nn2": "b.example:8020",
    "dfs.namenode.https-address.lake.nn1": "a.example:50470",
    "dfs.namenode.http-address.pond": "c.example",
    "suffix": ".example",
}
ONE = {"fs.defaultFS": "hdfs://master:8020"}
CASES: list[tuple[dict[str, str], str, list[str]]] = [
    (HA, "webhdfs:///t", ["http://a.example:50070", "http://b.example:9870"]),
    (HA, "webhdfs://lake/t", ["http://a.example:50070", "http://b.example:9870"]),
    (HA, "swebhdfs://lake/t", ["https://a.example:50470", "https://b.example:9871"]),
    (
        HA | {"dfs.http.policy": "HTTPS_ONLY"},
        "webhdfs:///t",
        ["https://a.example:50470", "https://b.example:9871"],
    ),
    (HA, "webhdfs://pond/t", ["http://c.example:9870"]),
    (HA, "webhdfs://lake:1/t", ["http://lake:1"]),
    (HA, "webhdfs://elsewhere/t", ["http://elsewhere:9870"]),
    (HA | {"dfs.namenode.http-address.pond": "x${suffix}:1"}, "webhdfs://pond/t", ["http://x.example:1"]),
    (ONE, "webhdfs:///t", ["http://master:9870"]),
    (ONE | {"dfs.namenode.http-address": "0.0.0.0:50070"}, "webhdfs:///t", ["http://master:50070"]),
    (ONE | {"dfs.namenode.http-address": "web:50070"}, "webhdfs:///t", ["http://web:50070"]),
    ({"fs.defaultFS": "hdfs://[::1]:8020"}, "webhdfs:///t", ["http://[::1]:9870"]),
    ({"fs.default.name": "webhdfs://web:1"}, "webhdfs:///t", ["http://web:1"]),
    ({}, "webhdfs://nn/t", ["http://nn:9870"]),
]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_TOKEN_FILE_LOCATION"):
        monkeypatch.delenv(name, raising=False)


async def asked(url: str, **options: object) -> tuple[list[str], dict[str, str]]:
    """Who would be asked, and what for a name goes with each request."""
    lease = await lease_webhdfs({**place_of(url, url).options, **options}, url)
    try:
        return [str(origin) for origin in lease.client.name_nodes], dict(lease.client.identity)
    finally:
        await lease.aclose()
        assert leased_clients() == 0


@pytest.mark.parametrize(("properties", "url", "expected"), CASES)
async def test_who_is_asked(
    properties: dict[str, str], url: str, expected: list[str], tmp_path: Path
) -> None:
    write_configuration(tmp_path, properties)
    assert (await asked(url, hadoop_conf_dir=tmp_path))[0] == expected


async def test_where_the_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etc/hadoop", "b", "c"):
        (tmp_path / name).mkdir(parents=True)
        write_configuration(tmp_path / name, {"fs.defaultFS": f"hdfs://{name[0]}:1"})
    with pytest.raises(UsageError, match=r"fs\.defaultFS"):
        await asked("webhdfs:///t")
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    assert (await asked("webhdfs:///t"))[0] == ["http://e:9870"]
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "b"))
    assert (await asked("webhdfs:///t"))[0] == ["http://b:9870"]
    assert (await asked("webhdfs:///t", hadoop_conf_dir=str(tmp_path / "c")))[0] == ["http://c:9870"]
    with pytest.raises(UsageError, match=r"\bhadoop_conf_dir\b.*/d'"):
        await asked("webhdfs:///t", hadoop_conf_dir=str(tmp_path / "d"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "nowhere"))
    assert configuration_folder(None, {}) is None
    with pytest.raises(UsageError, match=r"fs\.defaultFS"):
        await asked("webhdfs:///t")


async def test_a_service_without_addresses(tmp_path: Path) -> None:
    write_configuration(tmp_path, {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": "nn1"})
    with pytest.raises(UsageError, match=r"dfs\.namenode\.http-address\b.*\blake\b"):
        await asked("webhdfs://lake/t", hadoop_conf_dir=tmp_path)


async def test_as_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await asked("webhdfs://nn/t"))[1] == {}
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert (await asked("webhdfs://nn/t"))[1] == {"user.name": "etl"}
    assert (await asked("webhdfs://me@nn/t"))[1] == {"user.name": "me"}
    assert (await asked("webhdfs://nn/t", token="x"))[1] == {"delegation": "x"}
    write_configuration(tmp_path, {"hadoop.security.authentication": "kerberos"})
    with pytest.raises(UsageError, match=r"\bhadoop\.security\.authentication\b.*\bkerberos=True\b"):
        await asked("webhdfs://nn/t", hadoop_conf_dir=tmp_path)
    assert (await asked("webhdfs://nn/t", hadoop_conf_dir=tmp_path, token="x"))[1] == {"delegation": "x"}
    tokens = tmp_path / "tokens"
    tokens.write_bytes(
        b"HDTS\0" + b"\1" + b"\1a" + b"\1i\1p" + b"\x15HDFS_DELEGATION_TOKEN" + b"\4nn:1" + b"\0"
    )
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tokens))
    identity = (await asked("webhdfs://nn:1/t", hadoop_conf_dir=tmp_path))[1]
    assert base64.urlsafe_b64decode(identity["delegation"] + "==") == b"\1i\1p\x15HDFS_DELEGATION_TOKEN\4nn:1"
    assert (await asked("webhdfs://me@nn/t", hadoop_conf_dir=tmp_path))[1] == {"user.name": "me"}
    with pytest.raises(
        UsageError, match=r"\bhadoop\.security\.authentication\b.*\bHADOOP_TOKEN_FILE_LOCATION\b.*\bnn:1\b"
    ):
        await asked("webhdfs://nn:2/t", hadoop_conf_dir=tmp_path)
    write_configuration(tmp_path, {"hadoop.security.authentication": "simple"})
    assert (await asked("webhdfs://nn/t", hadoop_conf_dir=tmp_path))[1] == {"user.name": "etl"}


def test_references_end() -> None:
    values = {"a": "${b}", "b": "${a}", "c": "${c}${c}", "d": "${env.HOME}-${nothing}"}
    configuration = HadoopConfiguration(None, values)
    assert configuration.get("a") in ("${a}", "${b}")
    assert len(configuration.get("c")) < 1 << 17
    assert configuration.get("d").endswith("-${nothing}")
    assert configuration.get("none", "e") == ""


LAUGHS = b"""<!DOCTYPE configuration [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<configuration><property><name>n</name><value>&b;</value></property></configuration>"""
OUTSIDE = b"""<!DOCTYPE configuration [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<configuration><property><name>n</name><value>&a;</value></property></configuration>"""


@pytest.mark.parametrize(
    "data", [LAUGHS, OUTSIDE, b"<!DOCTYPE configuration SYSTEM 'http://x/'><configuration/>"]
)
def test_document_types_are_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"\bcore-site\.xml\b.*\bdocument types\b"):
        properties_of(data, "core-site.xml")


@pytest.mark.parametrize(
    "data", [b"", b"<a/>", b"<configuration>", b"<configuration>&x;</configuration>", b"\xff\xfe<"]
)
def test_what_is_no_configuration(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"core-site\.xml"):
        properties_of(data, "core-site.xml")


def test_other_ways_to_write_it() -> None:
    data = b"""<?xml version="1.0" encoding="UTF-8"?><?xml-stylesheet type="text/xsl" href="x.xsl"?>
    <configuration><!-- c --><property name="a" value="1"/><property><name> b </name>
    <value> 2
    </value><final>true</final><description>d</description></property><property><value>3</value></property>
    <property><name>c</name></property></configuration>"""
    assert properties_of(data, "x") == {"a": "1", "b": "2", "c": ""}


@given(
    st.binary()
    | st.builds(lambda data: b"HDTS" + data, st.binary())
    | st.builds(lambda data: b"HDTS\1" + data, st.binary())
)
def test_any_file_of_tokens(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "tokens"
    path.write_bytes(data)
    try:
        tokens = read_tokens(str(path))
    except UsageError:
        return
    assert all(isinstance(token, HadoopToken) for token in tokens)


def test_no_file_of_tokens() -> None:
    with pytest.raises(UsageError, match="HADOOP_TOKEN_FILE_LOCATION: /nowhere"):
        read_tokens("/nowhere")


def test_which_token() -> None:
    def token(service: str, kind: str = "HDFS_DELEGATION_TOKEN") -> HadoopToken:
        return HadoopToken(b"i", b"p", kind, service)

    key_server = token("nn:9600", "kms-dt")
    assert token_for([key_server], ["nn:9600"]) is None
    assert token_for([token("a"), token("b")], ["b"]) == token("b")
    assert token_for([token("a"), token("b")], ["c"]) is None
    # By IP address, as Hadoop names services unless it is told otherwise; by host else.
    for service in ("127.0.0.1:8020", "localhost:8020"):
        found = token_for([key_server, token("10.0.0.1:8020"), token(service)], ["LOCALHOST:8020"])
        assert found == token(service)
    assert token_for([token("0:0:0:0:0:0:0:1:8020")], ["[::1]:8020"]) == token("0:0:0:0:0:0:0:1:8020")
    # For somebody else: another port or host, and what is no address.
    for service in (
        "127.0.0.1:8021",
        "10.0.0.1:8020",
        "127.0.0.1",
        "ha-hdfs:localhost",
        "localhost:",
        ":8020",
        "",
    ):
        assert token_for([token(service)], ["localhost:8020"]) is None
    assert token_for([token("10.0.0.1:8020")], ["no host:8020", "nowhere.invalid:8020"]) is None


LAKES = {
    "dfs.nameservices": "lake,sea",
    "dfs.ha.namenodes.lake": "nn1,nn2",
    "dfs.namenode.http-address.lake.nn1": "127.0.0.1:50070",
    "dfs.namenode.rpc-address.lake.nn1": "127.0.0.1:9000",
    "dfs.namenode.rpc-address.lake.nn2": "127.0.0.2",
    "dfs.namenode.rpc-address.sea": "127.0.0.3:9001",
    "fs.defaultFS": "hdfs://127.0.0.9:9009",
}
IS_FOR = [
    ("webhdfs://lake/t", "ha-hdfs:lake", True),
    ("webhdfs://lake/t", "ha-webhdfs:lake", True),
    ("webhdfs://lake/t", "127.0.0.1:9000", True),
    ("webhdfs://lake/t", "127.0.0.1:50070", True),
    ("webhdfs://lake/t", "127.0.0.2:8020", True),
    ("webhdfs://lake/t", "127.0.0.1:8020", False),
    ("webhdfs://lake/t", "ha-hdfs:sea", False),
    ("webhdfs://lake/t", "127.0.0.3:9001", False),
    ("webhdfs://sea/t", "127.0.0.3:9001", True),
    # One NameNode of a name service, by its address.
    ("webhdfs://127.0.0.1:50070/t", "ha-hdfs:lake", True),
    ("webhdfs://127.0.0.1:50070/t", "127.0.0.1:9000", True),
    ("webhdfs://127.0.0.1:50071/t", "ha-hdfs:lake", False),
    # The cluster of fs.defaultFS, and one that nothing is known of.
    ("webhdfs:///t", "127.0.0.9:9009", True),
    ("webhdfs://127.0.0.9/t", "127.0.0.9:9009", True),
    ("webhdfs://localhost/t", "127.0.0.1:8020", True),
    ("webhdfs://localhost/t", "127.0.0.1:9870", True),
    ("webhdfs://localhost/t", "127.0.0.9:9009", False),
    ("webhdfs://evil.invalid/t", "127.0.0.1:8020", False),
    ("webhdfs://evil.invalid/t", "ha-hdfs:lake", False),
]


@pytest.mark.parametrize(("url", "service", "is_sent"), IS_FOR)
async def test_a_token_goes_only_to_whom_it_is_for(
    url: str, service: str, is_sent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_configuration(tmp_path, LAKES)
    tokens = tmp_path / "tokens"
    fields = (b"i", b"p", b"HDFS_DELEGATION_TOKEN", service.encode())
    tokens.write_bytes(
        b"HDTS\0" + b"\1" + b"\1a" + b"".join(bytes([len(one)]) + one for one in fields) + b"\0"
    )
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tokens))
    assert ("delegation" in (await asked(url, hadoop_conf_dir=tmp_path))[1]) is is_sent


@pytest.mark.parametrize("count", [0, 127, 128, 255, 256, 70_000])
def test_lengths_of_a_token(count: int) -> None:
    text = HadoopToken(b"x" * count, b"", "", "").url_text
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    size = {True: 1}.get(count <= 127, 2 if count < 256 else 3 if count < 1 << 16 else 4)
    assert len(data) == size + count + 3
