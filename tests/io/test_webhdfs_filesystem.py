"""Our WebHDFS as a file system of fsspec, called from threads and awaited, against the real server."""

from __future__ import annotations

import datetime
import gc
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations import webhdfs as of_fsspec

from orcstream.errors import UsageError
from orcstream.io import webhdfs_filesystem as module
from orcstream.io.loop.clients import leased_clients
from orcstream.io.webhdfs_filesystem import WebHdfsFileSystem, register
from tests.servers.hdfs import USER, HdfsServer, hdfs_server

__all__ = ["hdfs_server"]  # fixture

NAMES = ["a b", "c%20d", "e;f+g&h=i?j#k", "ü", "[x]", "l'm\"n"]
DATA = bytes(range(256)) * 40


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"/fsspec/{tmp_path.name}"


@pytest.fixture
def files(hdfs_server: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebHdfsFileSystem]:
    """Called as any synchronous file system; with parts that are small, so that files have several."""
    monkeypatch.setattr(module, "PART_BYTES", 4000)
    files = WebHdfsFileSystem(host="127.0.0.1", port=hdfs_server.port, user=USER, skip_instance_cache=True)
    yield files
    fsspec.asyn.sync(files.loop, files.aclose)


def test_names_of_any_kind(files: WebHdfsFileSystem, folder: str, hdfs_server: HdfsServer) -> None:
    for name in NAMES:
        files.pipe_file(f"{folder}/{name}", name.encode())
    assert sorted(hdfs_server.names(folder)) == sorted(NAMES)
    assert sorted(files.ls(folder, detail=False)) == sorted(f"{folder}/{name}" for name in NAMES)
    for name in NAMES:
        path = f"{folder}/{name}"
        assert files.cat_file(path) == name.encode() == hdfs_server.get(path)
        info = files.info(f"webhdfs://127.0.0.1:{hdfs_server.port}{path}")
        assert (info["name"], info["size"], info["type"]) == (path, len(name.encode()), "file")
        assert info["fileId"] == hdfs_server.status(path)["fileId"]
    assert files.ls(f"{folder}/ü", detail=False) == [f"{folder}/ü"]
    age = datetime.datetime.now(datetime.UTC) - files.modified(f"{folder}/ü")
    assert abs(age) < datetime.timedelta(minutes=10)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (None, None),
        (0, 10),
        (10_000, 20_000),
        (-5, None),
        (None, -10_000),
        (5, 5),
        (7, 3),
        (20_000, 20_001),
        (3, None),
    ],
)
def test_ranges(files: WebHdfsFileSystem, folder: str, start: int | None, end: int | None) -> None:
    files.pipe_file(f"{folder}/a", DATA)
    assert files.cat_file(f"{folder}/a", start, end) == DATA[start:end]


def test_a_folder_of_several_pages(files: WebHdfsFileSystem, folder: str, hdfs_server: HdfsServer) -> None:
    names = [f"{folder}/d{number:03}" for number in range(110)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: hdfs_server.call("PUT", "MKDIRS", name), names))
    assert files.ls(folder, detail=False) == names
    files.rm(folder, recursive=True)
    assert not files.exists(folder)


def test_folders_and_removal(files: WebHdfsFileSystem, folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.ls(folder)
    with pytest.raises(FileNotFoundError):
        files.mkdir(f"{folder}/x/y", create_parents=False)
    files.makedirs(f"{folder}/x/y")
    files.makedirs(f"{folder}/x/y", exist_ok=True)
    with pytest.raises(FileExistsError):
        files.makedirs(f"{folder}/x/y")
    files.pipe({f"{folder}/x/a.orc": b"1", f"{folder}/x/y/b.orc": b"22", f"{folder}/x/c": b"3"})
    assert files.isdir(f"{folder}/x") and files.isfile(f"{folder}/x/c")
    assert sorted(files.find(folder)) == [f"{folder}/x/a.orc", f"{folder}/x/c", f"{folder}/x/y/b.orc"]
    assert files.glob(f"{folder}/x/**/*.orc") == [f"{folder}/x/a.orc", f"{folder}/x/y/b.orc"]
    assert files.du(folder) == 4
    with pytest.raises(OSError, match="not empty"):
        files.rmdir(f"{folder}/x")
    files.rm_file(f"{folder}/x/c")
    with pytest.raises(FileNotFoundError):
        files.rm_file(f"{folder}/x/c")
    files.rm(f"{folder}/x/*.orc")
    assert files.find(folder) == [f"{folder}/x/y/b.orc"]
    files.mv(f"{folder}/x/y", f"{folder}/z")
    files.pipe_file(f"{folder}/z/c", b"333")
    files.mv(f"{folder}/z/c", f"{folder}/z/b.orc")
    assert files.cat(f"{folder}/z/b.orc") == b"333"
    files.cp_file(f"{folder}/z/b.orc", f"{folder}/copy")
    assert files.cat_file(f"{folder}/copy") == b"333"
    with pytest.raises(FileExistsError):
        files.pipe_file(f"{folder}/copy", b"", mode="create")
    files.rm(folder, recursive=True)
    assert not files.exists(folder)


def test_files_from_here_and_to_here(files: WebHdfsFileSystem, folder: str, tmp_path: Path) -> None:
    (tmp_path / "from" / "sub").mkdir(parents=True)
    (tmp_path / "from" / "a").write_bytes(DATA)
    (tmp_path / "from" / "sub" / "b").write_bytes(b"")
    files.put(str(tmp_path / "from"), folder, recursive=True)
    assert files.cat_file(f"{folder}/a") == DATA
    files.get(folder, str(tmp_path / "to"), recursive=True)
    assert (tmp_path / "to" / "a").read_bytes() == DATA
    assert (tmp_path / "to" / "sub" / "b").read_bytes() == b""


def test_open_files(files: WebHdfsFileSystem, folder: str, hdfs_server: HdfsServer) -> None:
    path = f"{folder}/a"
    with files.open(path, "wb", block_size=3000) as out:
        for start in range(0, len(DATA), 1000):
            out.write(DATA[start : start + 1000])
    with files.open(path, "ab") as out:
        out.write(b"more")
    with files.open(path, "rb", block_size=1000) as file:
        assert file.read(10) == DATA[:10]
        file.seek(-6, 2)
        assert file.read() == DATA[-2:] + b"more"
    with files.open(f"{folder}/t", "w", encoding="utf-8") as text:
        text.write("ü\n")
    assert hdfs_server.get(f"{folder}/t") == "ü\n".encode()
    with pytest.raises(FileNotFoundError):
        files.open(f"{folder}/nothing")


def test_a_transaction_is_all_or_nothing(files: WebHdfsFileSystem, folder: str) -> None:
    with files.transaction:
        with files.open(f"{folder}/a", "wb") as out:
            out.write(b"1")
        assert not files.exists(f"{folder}/a")
    assert files.cat_file(f"{folder}/a") == b"1"
    with pytest.raises(ZeroDivisionError), files.transaction:
        _write_and_fail(files, f"{folder}/b")
    assert files.find(folder) == [f"{folder}/a"]


def _write_and_fail(files: WebHdfsFileSystem, path: str) -> None:
    with files.open(path, "wb") as out:
        out.write(b"2")
    raise ZeroDivisionError


async def test_awaited(hdfs_server: HdfsServer, folder: str) -> None:
    files = WebHdfsFileSystem(
        host="127.0.0.1", port=hdfs_server.port, user=USER, asynchronous=True, skip_instance_cache=True
    )
    await files._pipe_file(f"{folder}/a", DATA)
    assert await files._cat_ranges([f"{folder}/a"] * 3, [0, 5, 9000], [5, 100, 9999]) == [
        DATA[0:5],
        DATA[5:100],
        DATA[9000:9999],
    ]
    async with await files.open_async(f"{folder}/b", "wb") as out:
        await out.write(DATA)
        await out.write(b"end")
    async with await files.open_async(f"{folder}/b") as file:
        assert await file.read(5) == DATA[:5]
        assert await file.read() == DATA[5:] + b"end"
    with pytest.raises(ValueError, match="rb, wb or ab"):
        await files.open_async(f"{folder}/b", "r")
    assert leased_clients() == 1
    await files.aclose()
    await files.aclose()
    assert leased_clients() == 0
    assert await files._exists(f"{folder}/b")
    await files.aclose()


def test_it_is_asked_for_by_name(hdfs_server: HdfsServer, folder: str) -> None:
    assert fsspec.get_filesystem_class("webhdfs") is of_fsspec.WebHDFS, "an import changes nothing"
    register()
    try:
        url = f"webhdfs://{USER}@127.0.0.1:{hdfs_server.port}{folder}/a b"
        with fsspec.open(url, "wb") as out:
            out.write(b"123")
        files, path = fsspec.core.url_to_fs(url)
        assert isinstance(files, WebHdfsFileSystem)
        assert pickle.loads(pickle.dumps(files)).cat_file(path) == b"123"
        assert fsspec.filesystem("webhdfs", host="127.0.0.1", port=hdfs_server.port).cat_file(path) == b"123"
    finally:
        fsspec.register_implementation("webhdfs", of_fsspec.WebHDFS, clobber=True)
        fsspec.register_implementation("swebhdfs", of_fsspec.WebHDFS, clobber=True)
        WebHdfsFileSystem.clear_instance_cache()
        gc.collect()


def test_refusals(files: WebHdfsFileSystem, folder: str) -> None:
    files.pipe_file(f"{folder}/a", b"1")
    nobody = WebHdfsFileSystem(host="127.0.0.1", port=files.storage_options["port"], skip_instance_cache=True)
    with pytest.raises(PermissionError):
        nobody.pipe_file(f"{folder}/a", b"2")
    with pytest.raises(PermissionError):
        nobody.rm(f"{folder}/a")
    with pytest.raises(UsageError, match=r"\bcolour\b"):
        WebHdfsFileSystem(colour="red", skip_instance_cache=True).info("/")
    del nobody
    gc.collect()
