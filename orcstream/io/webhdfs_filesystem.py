"""WebHDFS as an asynchronous file system of fsspec, for programs that use fsspec beside this package.

Knows fsspec's interface, and translates it into the calls of `io.stores.hdfs.webhdfs`. Must not know how
a call travels. Nothing of this package needs it, and importing it registers nothing: `register` does,
where a program wants ``webhdfs://`` to mean this one. fsspec's own asks one server with requests, on
threads.

A file that is written appears at once, empty, and grows by its parts, as everywhere in HDFS; but in a
transaction of fsspec's it is written under another name, and renamed. Nothing is asked a second time.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import posixpath
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import fsspec
from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, sync
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import stringify_path

from orcstream._credentials import strip_credentials
from orcstream.byterange import BytesLike
from orcstream.errors import ShortRead
from orcstream.io.contract.byte_sink import temporary_beside
from orcstream.io.contract.byte_source import no_such_file
from orcstream.io.loop.clients import Lease
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.stores.hdfs.calls import FileStatus, place_of, status_or_none
from orcstream.io.stores.hdfs.webhdfs import WebHdfs
from orcstream.io.stores.hdfs.webhdfs_connection import HdfsConnection, lease_webhdfs
from orcstream.io.urls import WEB_HDFS, protocol_of

__all__ = ["WebHdfsFileSystem", "register"]

PART_BYTES = 8 << 20
CLOSE_TIMEOUT_S = 5.0
# What fsspec gives to every file system.
OF_FSSPEC: Final = frozenset(
    {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "batch_size"}
)


def register() -> None:
    """Let fsspec open ``webhdfs://`` and ``swebhdfs://`` with this file system, in this process."""
    for protocol in sorted(WEB_HDFS):
        fsspec.register_implementation(protocol, WebHdfsFileSystem, clobber=True)


class WebHdfsFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """One cluster and user; the options are those of `orcstream.open` for ``webhdfs://``.

    With ``asynchronous=True`` the coroutines belong to the loop that calls the first of them, and `aclose`
    ends them; without, fsspec's own loop carries them. Errors are those of `orcstream.errors`, and the
    built-in ones for what is missing, not permitted or there already.
    """

    protocol = ("webhdfs", "swebhdfs")
    root_marker = "/"

    def __init__(
        self, *, asynchronous: bool = False, loop: asyncio.AbstractEventLoop | None = None, **options: Any
    ) -> None:
        own = {name: options.pop(name) for name in OF_FSSPEC & set(options)}
        super().__init__(asynchronous=asynchronous, loop=loop, **own)
        self._hdfs_options = options
        self._leasing = asyncio.Lock()
        self._lease: Lease[HdfsConnection] | None = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        if protocol_of(text) not in WEB_HDFS:
            text = f"webhdfs:///{text}"
        return place_of(text, strip_credentials(text)).path

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        return dict(place_of(path, strip_credentials(path)).options)

    async def aclose(self) -> None:
        """Give back the connections; a later call takes them anew."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.aclose()

    async def _calls(self, path: str) -> WebHdfs:
        async with self._leasing:
            if self._lease is None:
                self._lease = await lease_webhdfs(self._hdfs_options, path)
                if not self.asynchronous:
                    weakref.finalize(self, _give_back, asyncio.get_running_loop(), self._lease)
        return WebHdfs(self._lease.client, path)

    # --- looking

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return _info_of(await (await self._calls(path)).status(path), path)

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        found = await (await self._calls(path)).list_folder(path)
        infos = [_info_of(one, posixpath.join(path, one.name) if one.name else path) for one in found]
        return infos if detail else [one["name"] for one in infos]

    def modified(self, path: str) -> datetime.datetime:
        """When the file or folder was changed last."""
        return datetime.datetime.fromtimestamp(self.info(path)["modificationTime"] / 1000, datetime.UTC)

    # --- bytes

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        calls = await self._calls(path)
        if start is not None and end is not None and 0 <= start < end:
            with suppress(ShortRead):  # the file may end before; then its length is asked for
                return bytes(await calls.read(path, start, end - start))
        length = (await calls.status(path)).length
        start, stop, _step = slice(start, end).indices(length)
        return bytes(await calls.read(path, start, stop - start)) if stop > start else b""

    async def _pipe_file(self, path: str, value: BytesLike, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        calls = await self._calls(path)
        await calls.create(path, overwrite=mode != "create")
        view = memoryview(value).cast("B")
        for start in range(0, len(view), PART_BYTES):
            await calls.append(path, view[start : start + PART_BYTES])

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Any = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        local, rpath = Path(lpath), self._strip_protocol(rpath)
        if await run_in_thread(local.is_dir):
            await self._makedirs(rpath, exist_ok=True)
            return
        calls = await self._calls(rpath)
        file: Any = await run_in_thread(partial(io.open, local, "rb"))
        try:
            callback.set_size(await run_in_thread(lambda: local.stat().st_size))
            await calls.create(rpath, overwrite=mode != "create")
            while data := await run_in_thread(lambda: file.read(PART_BYTES)):
                await calls.append(rpath, data)
                callback.relative_update(len(data))
        finally:
            file.close()

    async def _get_file(self, rpath: str, lpath: str, callback: Any = DEFAULT_CALLBACK, **_: Any) -> None:
        local, rpath = Path(lpath), self._strip_protocol(rpath)
        calls = await self._calls(rpath)
        status = await calls.status(rpath)
        if status.is_folder:
            await run_in_thread(lambda: local.mkdir(parents=True, exist_ok=True))
            return
        callback.set_size(status.length)
        await run_in_thread(lambda: local.parent.mkdir(parents=True, exist_ok=True))
        file: Any = await run_in_thread(partial(io.open, local, "wb"))
        try:
            for start in range(0, status.length, PART_BYTES):
                data = await calls.read(rpath, start, min(PART_BYTES, status.length - start))
                await run_in_thread(partial(file.write, data))
                callback.relative_update(len(data))
        finally:
            file.close()

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        calls = await self._calls(path1)
        status = await calls.status(path1)
        if status.is_folder:
            await self._makedirs(path2, exist_ok=True)
            return
        await calls.create(path2, overwrite=True)
        for start in range(0, status.length, PART_BYTES):
            await calls.append(path2, await calls.read(path1, start, min(PART_BYTES, status.length - start)))

    # --- names

    async def _mv_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        await (await self._calls(path1)).rename(path1, path2, overwrite=True)

    def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Rename a file or folder, at once; a file of the new name is replaced."""
        sync(self.loop, self._mv_file, path1, path2, **kwargs)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._delete(self._strip_protocol(path), recursive=False)

    async def _rm(self, path: Any, recursive: bool = False, batch_size: int | None = None, **_: Any) -> None:  # noqa: ARG002 - of fsspec
        # Without its own recursion: HDFS removes a folder at once.
        for one in await self._expand_path(path):
            await self._delete(one, recursive=recursive)

    async def _rmdir(self, path: str) -> None:
        await self._delete(self._strip_protocol(path), recursive=False)

    async def _delete(self, path: str, *, recursive: bool) -> None:
        if not await (await self._calls(path)).delete(path, recursive=recursive):
            raise no_such_file(path)

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if not create_parents:
            await self._info(self._parent(path))
        await self._makedirs(path)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if not exist_ok and await self._exists(path):
            raise FileExistsError(path)
        await (await self._calls(path)).make_folder(path)

    def rmdir(self, path: str) -> None:
        """Remove a folder, which must be empty."""
        sync(self.loop, self._rmdir, path)

    # --- open files

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs: Any) -> _File:
        return _File(self, path, mode, block_size or PART_BYTES, **kwargs)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> _AsyncFile:
        """A file whose `read`, `write` and `close` are awaited."""
        if mode not in ("rb", "wb", "ab"):
            raise ValueError(f"files are opened as rb, wb or ab, not {mode}")
        path = self._strip_protocol(path)
        size = (await self._info(path))["size"] if mode == "rb" else None
        return _AsyncFile(self, path, mode, kwargs.pop("block_size", None) or PART_BYTES, size=size, **kwargs)

    async def _begin(self, path: str, mode: str) -> None:
        calls = await self._calls(path)
        if mode == "wb" or await status_or_none(calls, path) is None:
            await calls.create(path, overwrite=True)

    async def _append(self, path: str, data: bytes) -> None:
        if data:
            await (await self._calls(path)).append(path, data)


class _File(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """Called on any thread but the loop's."""

    def __init__(self, fs: WebHdfsFileSystem, path: str, mode: str, block_size: int, **kwargs: Any) -> None:
        super().__init__(fs, path, mode, block_size, **kwargs)
        self._written = path
        if mode == "wb" and not self.autocommit:
            self._written = temporary_beside(path)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = sync(self.fs.loop, self.fs._cat_file, self.path, start, end)  # noqa: SLF001 - of one module
        return data

    def _initiate_upload(self) -> None:
        sync(self.fs.loop, self.fs._begin, self._written, self.mode)  # noqa: SLF001

    def _upload_chunk(self, final: bool = False) -> bool:  # noqa: ARG002 - of fsspec
        sync(self.fs.loop, self.fs._append, self._written, self.buffer.getvalue())  # noqa: SLF001
        return True

    def commit(self) -> None:
        if self._written != self.path:
            self.fs.mv(self._written, self.path)

    def discard(self) -> None:
        if self._written != self.path:
            self.fs.rm_file(self._written)


class _AsyncFile(AbstractAsyncStreamedFile):  # type: ignore[misc]  # fsspec has no types
    async def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = await self.fs._cat_file(self.path, start, end)  # noqa: SLF001 - of one module
        return data

    async def _initiate_upload(self) -> None:
        await self.fs._begin(self.path, self.mode)  # noqa: SLF001

    async def _upload_chunk(self, final: bool = False) -> bool:  # noqa: ARG002 - of fsspec
        await self.fs._append(self.path, self.buffer.getvalue())  # noqa: SLF001
        return True


def _info_of(status: FileStatus, path: str) -> dict[str, Any]:
    return {
        "name": path,
        "size": status.length,
        "type": "directory" if status.is_folder else "file",
        "modificationTime": status.modified_ms,
        "fileId": status.file_id,
        "permission": status.permission,
    }


def _give_back(loop: asyncio.AbstractEventLoop, lease: Lease[HdfsConnection]) -> None:
    """When a file system is collected, on whatever thread, or the program ends."""
    if not loop.is_running():
        return
    closing = asyncio.run_coroutine_threadsafe(lease.aclose(), loop)
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            return
    with suppress(TimeoutError):
        closing.result(CLOSE_TIMEOUT_S)
