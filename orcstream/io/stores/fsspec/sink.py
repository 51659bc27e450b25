"""Every other store, through its fsspec file system: a temporary beside the target, then a move.

Knows which file systems rename at once, by their class, and how each is asked to. Others copy and delete when
they move, so that readers may see half a file: they are refused unless the user allows it. The temporary is
written through fsspec's file object on one thread at a time; its `close` publishes the temporary only.

Calls that hang cannot be stopped; a cancellation leaves them to finish by themselves.
"""
# ruff: noqa: SLF001 - fsspec has no public names for these

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from orcstream.errors import (
    CommitFailed,
    CommitUnknown,
    SinkError,
    Unsupported,
)
from orcstream.io.contract.byte_sink import (
    MovedFile,
    MovingStore,
    Prepared,
    SinkOptions,
    Temporary,
    already_there,
    is_temporary_of,
    temporary_beside,
)
from orcstream.io.loop.clients import Lease
from orcstream.io.loop.uncancelled import own_limiter
from orcstream.io.stores.fsspec.source import OnThreads, lease_filesystem, modified_of, translated
from orcstream.io.urls import StoreUrl

T = TypeVar("T")

Rename = Callable[[Any, str, str, bool], None]


def _rename_webhdfs(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    # Without options, WebHDFS answers that it did not rename with success and a "false".
    filesystem._call(
        "RENAME",
        method="put",
        path=source,
        destination=filesystem._strip_protocol(target),
        renameoptions="OVERWRITE" if overwrite else "NONE",
    )


def _rename_sftp(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    # OpenSSH: the second, of the protocol itself, fails where there is a target.
    (filesystem.ftp.posix_rename if overwrite else filesystem.ftp.rename)(source, target)


# By class: how a file takes another's place at once, or takes a free name. pyarrow's driver of HDFS is not
# among them: there HDFS cannot be told whether a file may be replaced.
ATOMIC_RENAMES: dict[str, Rename] = {
    "fsspec.implementations.webhdfs.WebHDFS": _rename_webhdfs,
    "fsspec.implementations.sftp.SFTPFileSystem": _rename_sftp,
}


@dataclass(frozen=True, slots=True)
class StoredFile(MovedFile):
    """A prepared file: where it lies, and where it belongs."""


class FilesystemStore(MovingStore[StoredFile]):
    """One path of a file system."""

    _kind = StoredFile
    _how = "on a file system"

    def __init__(self, lease: Lease[OnThreads], path: str, url: str) -> None:
        super().__init__(lease, path, url)
        self._filesystem = lease.client.filesystem

    def new_upload(self, options: SinkOptions) -> _Upload:
        self._check_atomic(options)
        return _Upload(self._filesystem, self._path, self._url)

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None:
        self._check_atomic(options)
        await super().commit(prepared, options)

    def _check_atomic(self, options: SinkOptions) -> None:
        if options.allow_non_atomic or _rename_of(self._filesystem) is not None:
            return
        raise Unsupported(
            f"{type(self._filesystem).__name__} cannot make a file appear at once; "
            "allow_non_atomic=True writes there nevertheless",
            reason="non_atomic_store",
            url=self._url,
        )

    async def _commit(self, file: StoredFile, prepared: Prepared) -> None:
        def work() -> None:
            if _length_of(self._filesystem, file.temporary) is None:
                return  # moved before, or gone: looked at below
            if not prepared.overwrite and self._filesystem.exists(file.path):
                raise already_there(self._url)
            self._unsettled = True
            (_rename_of(self._filesystem) or _move)(
                self._filesystem, file.temporary, file.path, prepared.overwrite
            )

        failure: Exception | None = None
        try:
            await _in_thread(work, self._url)
        except FileExistsError:
            raise
        except Exception as error:  # noqa: BLE001 - judged by what can be seen now
            failure = error
        await self._judge(file, prepared, failure)

    async def _judge(self, file: StoredFile, prepared: Prepared, failure: Exception | None) -> None:
        """Under a name that no other writer knows the temporary is either still there, or was moved."""

        def look() -> tuple[int | None, int | None]:
            return _length_of(self._filesystem, file.temporary), _length_of(self._filesystem, file.path)

        left, seen = await _in_thread(look, self._url)
        self._unsettled = False
        if left is None and seen == prepared.length:
            return
        if left is None and seen is not None:
            raise CommitUnknown(
                f"what was prepared is gone, and the file has {seen} bytes instead of {prepared.length}: "
                "another writer may have replaced it",
                url=self._url,
            ) from failure
        if left is not None and seen is not None and not prepared.overwrite:
            raise already_there(self._url) from failure
        raise failure or CommitFailed(
            "what was prepared is gone" if left is None else "the store did not move the file", url=self._url
        )

    async def _remove(self, path: str) -> None:
        await _in_thread(lambda: _remove(self._filesystem, path), self._url)

    async def _temporaries(self) -> list[Temporary]:
        return await _in_thread(self._listed, self._url)

    def _listed(self) -> list[Temporary]:
        filesystem, name = self._filesystem, None
        filesystem.invalidate_cache()
        if filesystem.isdir(self._path):
            details = filesystem.find(self._path, detail=True)
        else:
            folder, name = posixpath.split(self._path)
            details = {one["name"]: one for one in filesystem.ls(folder, detail=True)}
        return [
            Temporary(filesystem.unstrip_protocol(path), path, modified_of(info))
            for path, info in details.items()
            if is_temporary_of(posixpath.basename(path), name)
        ]


class _Upload:
    retries_parts = False  # what a file object has taken it cannot be given again

    def __init__(self, filesystem: Any, path: str, url: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._url = url
        self._temporary = temporary_beside(path)
        self.remains = ""
        self._file: Any = None
        # Of calls that a cancellation has left running, the discard waits for the last.
        self._one_at_a_time = threading.Lock()

    async def begin(self) -> None:
        def work() -> None:
            if self._filesystem.isdir(self._path):
                raise IsADirectoryError(self._url)
            self.remains = self._temporary  # also where the answer is lost
            self._file = self._filesystem.open(self._temporary, "wb")

        await self._run(work)

    async def put(self, number: int, offset: int, data: bytes) -> None:  # noqa: ARG002
        def work() -> None:
            with memoryview(data) as view:
                done = 0
                while done < len(view):
                    count = self._file.write(view[done:])
                    done += len(view) - done if count is None else count

        await self._run(work)

    async def finish(self, length: int) -> StoredFile:
        def work() -> None:
            if self._file is not None:
                self._file.close()
                self._file = None
            self._filesystem.invalidate_cache()
            stored = _length_of(self._filesystem, self._temporary)
            if stored != length:
                raise SinkError(f"{length} bytes were written, the store has {stored}", url=self._url)

        await self._run(work)
        return StoredFile(self._path, self._temporary)

    async def discard(self) -> None:
        def work() -> None:
            file, self._file = self._file, None
            if file is not None:
                with contextlib.suppress(Exception):  # it may refuse to end what could not be written
                    file.close()
            _remove(self._filesystem, self._temporary)
            self.remains = ""

        await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._one_at_a_time:
                return work()

        return await _in_thread(alone, self._url)


async def open_target(target: StoreUrl) -> FilesystemStore:
    return FilesystemStore(*await lease_filesystem(target), target.shown)


def _rename_of(filesystem: Any) -> Rename | None:
    for cls in type(filesystem).__mro__:
        rename = ATOMIC_RENAMES.get(f"{cls.__module__}.{cls.__qualname__}")
        if rename is not None:
            return rename
    return None


def _move(filesystem: Any, source: str, target: str, overwrite: bool) -> None:  # noqa: ARG001 - was looked at
    if _is_pattern(source):
        filesystem.cp_file(source, target)
        filesystem.rm_file(source)
    else:
        filesystem.mv(source, target)


def _is_pattern(path: str) -> bool:
    """Whether `mv` and `rm` of fsspec would look for files like it, which is not what it names."""
    return any(letter in path for letter in "*?[")


def _length_of(filesystem: Any, path: str) -> int | None:
    try:
        filesystem.invalidate_cache(path)
        size = filesystem.info(path).get("size")
    except FileNotFoundError:
        return None
    return size if isinstance(size, int) else -1


def _remove(filesystem: Any, path: str) -> None:
    try:
        if filesystem.exists(path):
            (filesystem.rm_file if _is_pattern(path) else filesystem.rm)(path)
    except FileNotFoundError:
        pass  # somebody was there first


async def _in_thread(work: Callable[[], T], url: str) -> T:
    with translated(url):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=own_limiter())
