"""URLs that name one directory, and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orcstream.acid.transactions.metastore import check_location, is_same_place
from orcstream.errors import UsageError

SAME = (
    ("s3://bucket/warehouse/t", "s3a://bucket/warehouse/t/"),
    ("s3n://bucket/t", "s3://bucket//t"),
    ("gs://bucket/t", "gcs://bucket/t"),
    ("hdfs://namenode/t", "hdfs://namenode:8020/t/"),
    ("hdfs://NameNode:8020/t", "hdfs://namenode/t"),
    ("webhdfs://namenode:9870/t", "hdfs://namenode:8020/t"),
    ("webhdfs://namenode:9870/t", "hdfs://nameservice/t"),
    ("hdfs://someone@namenode/t", "hdfs://namenode/t"),
    ("hdfs:///t", "hdfs://namenode:8020/t"),
    ("abfss://box@account.dfs.core.windows.net/t", "abfs://box@account.dfs.core.windows.net/t"),
    ("az://box/t", "abfss://box@account.dfs.core.windows.net/t"),
    ("http://host/t", "http://host:80/t"),
    ("/warehouse/t", "file:/warehouse/t"),
    ("file:///warehouse/t", "file:/warehouse/t/"),
    ("file://localhost/warehouse/t", "/warehouse/./t"),
    ("s3://bucket/a%20b", "s3a://bucket/a b"),
)
OTHERS = (
    ("s3://bucket/t", "s3://bucket/u"),
    ("s3://bucket/t", "s3://basket/t"),
    ("s3://bucket/t", "s3://bucket/t/day=1"),
    ("s3://bucket/t", "s3://bucket/T"),
    ("s3://bucket/t", "gs://bucket/t"),
    ("hdfs://namenode:8020/t", "hdfs://namenode:9000/t"),
    ("hdfs://one:8020/t", "hdfs://other:8020/t"),
    ("hdfs://one/t", "hdfs://other/t"),
    ("hdfs://namenode/t", "hdfs://namenode/u"),
    ("webhdfs://one:9870/t", "hdfs://other:8020/t"),
    ("abfs://box@account.dfs.core.windows.net/t", "abfs://box@other.dfs.core.windows.net/t"),
    ("az://box/t", "az://crate/t"),
    ("/warehouse/t", "file:/warehouse/u"),
    ("/warehouse/t", "hdfs://namenode/warehouse/t"),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_place(one: str, other: str) -> None:
    assert is_same_place(one, other)
    assert is_same_place(other, one)
    check_location(one, other, "default.t")


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_two_places(one: str, other: str) -> None:
    assert not is_same_place(one, other)
    assert not is_same_place(other, one)
    with pytest.raises(UsageError) as caught:
        check_location(one, other, "default.t")
    assert all(part in caught.value.message for part in (one, other, "default.t"))


def test_links_of_local_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "warehouse" / "t"
    table.mkdir(parents=True)
    (tmp_path / "linked").symlink_to(table.parent)
    monkeypatch.chdir(table.parent)
    for url in (str(table), f"file:{tmp_path}/linked/t", str(tmp_path / "linked" / "t"), "t", "./t/"):
        assert is_same_place(url, f"file:{table}")
    assert not is_same_place("u", f"file:{table}")


def test_secrets_are_not_shown_and_nonsense_is_our_error() -> None:
    with pytest.raises(UsageError) as caught:
        check_location("hdfs://me:secret@namenode/t", "hdfs://namenode/u", "default.t")
    assert "secret" not in str(caught.value)
    with pytest.raises(UsageError, match=r"hdfs://namenode:x/t\b.*\bURL\b"):
        check_location("hdfs://namenode:x/t", "hdfs://namenode/t", "default.t")
