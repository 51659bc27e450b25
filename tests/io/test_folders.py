"""What is in a folder, whichever store it is in."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem
from s3fs import S3FileSystem

import orcstream
from orcstream.errors import RetriesExhausted, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import RetryPolicy
from orcstream.io.folders import list_files, list_folder, list_names, remove_files
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.s3 import folder as folder_s3
from tests.servers.loopback import RangeServer, range_server
from tests.servers.s3_proxy import S3_KINDS, start_s3
from tests.servers.sink_stores import SinkStore, make_store, s3_store

__all__ = ["range_server"]  # fixture

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


async def test_names_directly_in_a_folder(store: SinkStore) -> None:
    for name in NAMES:
        put(store, name, b"x")
    for url in (store.url_of("t"), store.url_of("t/")):
        assert await list_names(url, storage_options=store.options) == ["a.orc", "day=2024-01-01", "z"]
    for url in (store.url_of("none"), store.url_of("t/a.orc")):
        assert await list_names(url, storage_options=store.options) == []
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
        if not folder.startswith("memory://"):  # where objects are their own versions
            assert listed.version == file.tail.fingerprint


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
    store = s3_store(start_s3("moto"), tmp_path.name)
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


def _page(inner: str, name: str = "ListBucketResult") -> bytes:
    return f'<?xml version="1.0"?><{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</{name}>'.encode()


ODD_PAGES = [
    _page("<Contents><Size>1</Size></Contents>"),
    _page("<Contents><Key>t/a</Key></Contents>"),
    _page("<Contents><Key>t/a</Key><Size>-1</Size></Contents>"),
    _page("<Contents><Key>t/a</Key><Size>many</Size></Contents>"),
    _page("<Contents><Key>t/a</Key><Size>1</Size><LastModified>once</LastModified></Contents>"),
    _page("<Contents><Key>elsewhere</Key><Size>1</Size></Contents>"),
    _page("<IsTruncated>true</IsTruncated>"),
    _page("<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"),
    _page("", "Something"),
    b"<html>",
    b"<Contents",
    b"",
]


@pytest.mark.parametrize("page", ODD_PAGES)
async def test_a_listing_of_s3_that_is_none(
    page: bytes, range_server: RangeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an error, or empty; and the end of a listing is not taken for granted."""
    monkeypatch.setattr(RetryPolicy, "_wait_s", lambda *_: 0.0)
    range_server.refusal = page
    range_server.statuses = [(200, {"Content-Type": "application/xml"})] * 20
    options = {"key": "k", "secret": "s", "endpoint_url": range_server.url}
    with pytest.raises((SourceError, FileNotFoundError)) as caught:
        await list_files("s3://bucket/t", storage_options=options)
    assert isinstance(caught.value, SourceError) or b"Contents" not in page
    if isinstance(caught.value, SourceError):
        assert caught.value.url == "s3://bucket/t"
    assert leased_clients() == 0


async def test_keys_that_s3_has_no_time_for_are_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = s3_store(start_s3("moto"), tmp_path.name)
    names = [f"{number}" for number in range(5)]
    for name in names:
        store.put(f"t/{name}", b"")
    asked: list[list[str]] = []
    codes: list[dict[str, str]] = []  # for each request, of the keys that are refused
    real = S3FileSystem._call_s3

    async def call(self: S3FileSystem, operation: str, *more: Any, **arguments: Any) -> Any:
        if operation != "delete_objects":
            return await real(self, operation, *more, **arguments)
        keys = [one["Key"] for one in arguments["Delete"]["Objects"]]
        asked.append([key.rpartition("/")[2] for key in keys])
        refused = codes.pop(0) if codes else {}
        kept = [key for key in keys if key.rpartition("/")[2] not in refused]
        answer = {}
        if kept:
            objects = [{"Key": key} for key in kept]
            answer = await real(self, operation, *more, **{**arguments, "Delete": {"Objects": objects}})
        errors = [{"Key": key, "Code": refused[key.rpartition("/")[2]]} for key in keys if key not in kept]
        return {**answer, "Errors": errors}

    monkeypatch.setattr(S3FileSystem, "_call_s3", call)
    monkeypatch.setattr(RetryPolicy, "_wait_s", lambda *_: 0.0)
    url = store.url_of("t")
    codes[:] = [{"1": "SlowDown", "3": "InternalError", "4": "ServiceUnavailable"}, {"3": "InternalError"}]
    await remove_files(url, names, storage_options=store.options)
    assert asked == [names, ["1", "3", "4"], ["3"]]
    with pytest.raises(FileNotFoundError):
        await list_files(url, storage_options=store.options)
    asked.clear()
    codes[:] = [{"1": "SlowDown"}] * 100
    with pytest.raises(RetriesExhausted, match=r"t/1 .*SlowDown"):
        await remove_files(url, names, storage_options=store.options)
    assert asked == [names, *[["1"]] * (len(asked) - 1)]
    assert len(asked) > 2
    for code, expected in (("AccessDenied", PermissionError), ("NoSuchVersion", SourceError)):
        asked.clear()
        codes[:] = [{"1": "SlowDown", "2": code}]
        with pytest.raises(expected, match=f"t/2 .*{code}"):
            await remove_files(url, names, storage_options=store.options)
        assert len(asked) == 1
    assert leased_clients() == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/t/", "simplecache::memory://t"])
async def test_where_nothing_can_be_listed(url: str) -> None:
    with pytest.raises(Unsupported) as caught:
        await list_files(url)
    assert caught.value.reason == "no_listing"


@pytest.mark.parametrize("which", ["t", "t/inner"])
async def test_a_folder_that_may_not_be_looked_into_is_an_error(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not a listing without its files."""
    (tmp_path / "t" / "inner").mkdir(parents=True)
    (tmp_path / "t" / "a.orc").write_bytes(b"one")
    scan = os.scandir

    def guarded(path: Any) -> Any:
        if Path(path) == tmp_path / which:
            raise PermissionError(errno.EACCES, "no", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(PermissionError):
        await list_files(tmp_path / "t")


class Listed(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Is listed folder by folder, by `ls`, under a protocol of its own."""

    find = AbstractFileSystem.find

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.removeprefix(f"{cls.protocol}://"))
        return stripped


@pytest.mark.parametrize("error", [PermissionError, ConnectionResetError, FileNotFoundError])
async def test_a_folder_of_fsspec_that_cannot_be_listed(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is an error, and asked again first where that may help; but one that was removed is none."""
    asked: list[str] = []
    is_guarded = False

    class Guarded(Listed):
        protocol = "guarded"
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
            if is_guarded and path.endswith("inner"):
                asked.append(path)
                if len(asked) == 1 or error is PermissionError:
                    raise error("no")
            return super().ls(path, detail=detail, **options)

    fsspec.register_implementation("guarded", Guarded, clobber=True)
    monkeypatch.setattr(RetryPolicy, "_wait_s", lambda *_: 0.0)
    Guarded().pipe({"/t/a.orc": b"one", "/t/inner/b.orc": b"two"})
    is_guarded = True
    if error is PermissionError:
        with pytest.raises(PermissionError):
            await list_files("guarded:///t")
        return
    found = [one.path for one in await list_files("guarded:///t")]
    assert found == (["a.orc"] if error is FileNotFoundError else ["a.orc", "inner/b.orc"])


async def test_the_reason_why_s3_does_not_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is that of reading and writing: who may not is a `PermissionError`, and no value is shown."""
    store = s3_store(start_s3("moto"), tmp_path.name)
    url, options = store.url_of("t"), dict(store.options or {})
    with pytest.raises(UsageError, match="ExpectedBucketOwner") as caught:
        await list_files(
            url, storage_options=options | {"s3_additional_kwargs": {"ExpectedBucketOwner": 471_147}}
        )
    assert "471147" not in str(caught.value)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    nobody = {"endpoint_url": options["endpoint_url"]}
    with pytest.raises(PermissionError, match=r"\bstorage_options\b.*\bkey\b.*\bsecret\b"):
        await list_files(url, storage_options=nobody)
    with pytest.raises(PermissionError, match=r"\bstorage_options\b.*\bkey\b.*\bsecret\b"):
        await remove_files(url, ["a"], storage_options=nobody)
    assert leased_clients() == 0


async def test_a_length_alone_is_no_version() -> None:
    class Silent(Listed):
        """Says nothing of files but how long they are."""

        protocol = "silent"
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
            found = super().ls(path, detail=True, **options)
            return [self._plain(one) if detail else one["name"] for one in found]

        def info(self, path: str, **options: Any) -> Any:
            return self._plain(super().info(path, **options))

        @staticmethod
        def _plain(info: dict[str, Any]) -> dict[str, Any]:
            return {key: info[key] for key in ("name", "size", "type")}

    fsspec.register_implementation("silent", Silent, clobber=True)
    Silent().pipe({"/t/a.orc": b"data"})
    for url in ("silent:///t", "silent:///t/a.orc"):
        (found,) = await list_files(url)
        assert (found.length, found.version, found.modified_s) == (4, "", None)


async def test_folders_without_files(store: SinkStore) -> None:
    """Are told where the store has such; those with something in them are not."""
    put(store, "t/a/x", b"one")
    url, empty = store.url_of("t"), ["day=1/empty", "last"]
    if url.startswith("s3://"):
        for marker in ("t/", "t/a/", "t/day=1/empty/", "t/last/"):
            store.put(marker, b"")
    elif url.startswith("memory:"):
        empty = []  # its objects have none
    elif "hdfs" in url.partition("://")[0]:
        for name in empty:
            put(store, f"t/{name}/x", b"")
        await remove_files(url, [f"{name}/x" for name in empty], storage_options=store.options)
    else:
        for name in empty:
            (Path(url.removeprefix("file://")) / name).mkdir(parents=True)
    found = await list_folder(url, storage_options=store.options)
    assert [one.path for one in found.files] == ["a/x"]
    assert list(found.empty_folders) == empty
    assert leased_clients() == 0


async def test_folders_of_fsspec_without_files() -> None:
    class Hollow(Listed):
        protocol = "hollow"
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

    fsspec.register_implementation("hollow", Hollow, clobber=True)
    Hollow().pipe({"/t/a/x": b"data"})
    for name in ("/t/day=1/empty", "/t/last"):
        Hollow().makedirs(name)
    found = await list_folder("hollow:///t")
    assert [one.path for one in found.files] == ["a/x"]
    assert list(found.empty_folders) == ["day=1/empty", "last"]
