"""What is in a folder, whichever store it is in."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import orcstream
from orcstream.errors import Unsupported
from orcstream.io import folder_s3
from orcstream.io.clients import leased_clients
from orcstream.io.folders import list_files, remove_files
from tests.support.s3_proxy import S3_KINDS
from tests.support.sink_stores import SinkStore, make_store

NAMES = [
    "t/a.orc",
    "t/day=2024-01-01/part #1%20.orc",
    "t/day=2024-01-01/ü +&=.orc",
    "t/z/deep/er/x",
    "tt/b.orc",
]


@pytest.fixture(params=["local", "file_url", "memory", "hdfs", *S3_KINDS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SinkStore:
    return make_store(request.param, tmp_path)


def put(store: SinkStore, name: str, data: bytes) -> None:
    url = store.url_of(name)
    if "://" not in url or url.startswith("file://"):
        Path(url.removeprefix("file://")).parent.mkdir(parents=True, exist_ok=True)
    store.put(name, data)


async def test_all_files_below_a_folder(store: SinkStore) -> None:
    began = time.time()
    for length, name in enumerate(NAMES):
        put(store, name, bytes(length))
    for url in (store.url_of("t"), store.url_of("t/")):
        found = await list_files(url, storage_options=store.options)
        assert [(one.path, one.length) for one in found] == [
            (name.removeprefix("t/"), NAMES.index(name)) for name in sorted(NAMES[:4])
        ]
    assert all(one.modified_s is not None and abs(one.modified_s - began) < 3600 for one in found)
    assert all(one.version for one in found)
    assert leased_clients() == 0


async def test_what_is_listed_can_be_opened(store: SinkStore) -> None:
    folder = store.url_of("t")
    name = "day=2024-01-01/part #1%20ü+.orc"
    if "://" not in folder or folder.startswith("file://"):
        Path(store.url_of(f"t/{name}").removeprefix("file://")).parent.mkdir(parents=True)
    async with orcstream.create(
        store.url_of(f"t/{name}"), "struct<a:int>", storage_options=store.options
    ) as out:
        await out.write([(1,), (2,)])
    (listed,) = await list_files(folder, storage_options=store.options)
    assert listed.path == name
    async with orcstream.open(listed.url, storage_options=store.options) as file:
        assert file.row_count == 2


async def test_of_a_file_it_is_the_file(store: SinkStore) -> None:
    put(store, "t/a.orc", b"one")
    put(store, "t/a.orc.other", b"other")
    (found,) = await list_files(store.url_of("t/a.orc"), storage_options=store.options)
    assert (found.url, found.path, found.length) == (store.url_of("t/a.orc"), "a.orc", 3)


async def test_nothing_there(store: SinkStore) -> None:
    put(store, "tt/b.orc", b"one")
    with pytest.raises(FileNotFoundError):
        await list_files(store.url_of("t"), storage_options=store.options)
    assert leased_clients() == 0


async def test_a_file_that_is_replaced_has_another_version(store: SinkStore) -> None:
    put(store, "t/a.orc", b"one")
    (before,) = await list_files(store.url_of("t"), storage_options=store.options)
    time.sleep(0.02)  # noqa: ASYNC251 - the clocks of stores
    put(store, "t/a.orc", b"two")
    (after,) = await list_files(store.url_of("t"), storage_options=store.options)
    assert before.length == after.length
    assert before.version != after.version


async def test_files_are_removed_once(store: SinkStore) -> None:
    for name in NAMES:
        put(store, name, b"x")
    gone = [NAMES[0].removeprefix("t/"), NAMES[1].removeprefix("t/")]
    for _ in range(2):
        await remove_files(store.url_of("t"), gone, storage_options=store.options)
        found = await list_files(store.url_of("t"), storage_options=store.options)
        assert [one.path for one in found] == sorted(name.removeprefix("t/") for name in NAMES[2:4])
    assert store.seen(NAMES[4]) == b"x"


async def test_more_files_than_one_answer_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store("moto", tmp_path)
    names = [f"{number:02}" for number in range(10)]
    for name in names:
        store.put(f"t/{name}", b"")
    small = {**(store.options or {}), "s3_additional_kwargs": {"MaxKeys": 3}}
    found = await list_files(store.url_of("t"), storage_options=small)
    assert [one.path for one in found] == names
    monkeypatch.setattr(folder_s3, "REMOVED_AT_ONCE", 3)
    await remove_files(store.url_of("t"), names, storage_options=store.options)
    with pytest.raises(FileNotFoundError):
        await list_files(store.url_of("t"), storage_options=store.options)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/t/", "simplecache::memory://t"])
async def test_where_nothing_can_be_listed(url: str) -> None:
    with pytest.raises(Unsupported) as caught:
        await list_files(url)
    assert caught.value.reason == "no_listing"
