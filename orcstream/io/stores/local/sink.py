"""Local files: written beside the target under a hidden name, then renamed over it.

Knows files, links and folders. The file is flushed to the disk while it grows and before it is prepared, its
folder after the rename; so after a crash of the machine there is the earlier file or the new one. With
``overwrite=False`` the name is made by a hard link, which fails where there is one already. A target that is
a symbolic link stays one: what it points to is replaced. The new file has the permissions of the one that it
replaces.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orcstream.errors import CommitFailed, CommitUnknown, SinkError, Unsupported, UsageError
from orcstream.io.contract.byte_sink import (
    MovedFile,
    MovingStore,
    Prepared,
    SinkOptions,
    Temporary,
    already_there,
    is_temporary_of,
    state_of,
    temporary_name,
)
from orcstream.io.stores.local.source import WRITE_ONLY, in_thread, set_mode, sync_data, sync_folder, write_at
from orcstream.io.urls import StoreUrl, local_path

# What file systems without hard links answer to one.
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class LocalFile(MovedFile):
    """A prepared file. Inode, length and time of its last write tell it from others, under either name.

    The inode alone does not: file systems give the number of a removed file to the next one.
    """

    inode: int
    length: int
    modified_ns: int

    @classmethod
    def of(cls, path: str, temporary: str) -> LocalFile:
        """The file that is the temporary now, to become `path`."""
        seen = Path(temporary).lstat()
        return cls(path, temporary, seen.st_ino, seen.st_size, seen.st_mtime_ns)

    def is_at(self, path: Path) -> bool:
        """Whether this file has that name."""
        try:
            seen = path.lstat()
        except FileNotFoundError:
            return False
        return (seen.st_ino, seen.st_size, seen.st_mtime_ns) == (self.inode, self.length, self.modified_ns)


class LocalStore(MovingStore[LocalFile]):
    """One path of this machine."""

    upload_cap = 2
    _kind = LocalFile
    _how = "as a local file"

    def __init__(self, path: str, url: str) -> None:
        super().__init__(None, path, url)

    def new_upload(self, options: SinkOptions) -> _Upload:  # noqa: ARG002 - of the contract
        return _Upload(self._path, self._url)

    async def commit(self, prepared: Prepared, options: SinkOptions) -> None:  # noqa: ARG002
        # One attempt: what a disk refuses once, it refuses again.
        await self._commit(state_of(prepared, self._kind, self._how), prepared)

    async def _commit(self, file: LocalFile, prepared: Prepared) -> None:
        await in_thread(lambda: _commit(file, prepared.overwrite, self._url), self._url)

    async def _remove(self, path: str) -> None:
        await in_thread(lambda: Path(path).unlink(missing_ok=True), self._url)

    async def _temporaries(self) -> list[Temporary]:
        return await in_thread(lambda: list(_temporaries(self._path)), self._url)


# So much is brought to the disk at a time while more is encoded, not all of a file at its end.
_SYNCED_BYTES = 32 << 20


class _Upload:
    retries_parts = False  # what a disk refuses once, it refuses again

    def __init__(self, path: str, url: str) -> None:
        # As it is now: the process may change its folder before the file is committed.
        self._path = os.path.realpath(path)
        folder, name = os.path.split(self._path)
        self._temporary = os.path.join(folder, temporary_name(name))  # noqa: PTH118 - "/" has no name for pathlib
        self._url = url
        self._descriptor = -1
        self._counting = threading.Lock()
        self._unsynced_bytes = 0
        self.remains = ""

    async def begin(self) -> None:
        await in_thread(self._begin, self._url)

    async def put(self, number: int, offset: int, data: bytes) -> None:  # noqa: ARG002
        await in_thread(lambda: self._put(data, offset), self._url)

    async def finish(self, length: int) -> LocalFile:
        return await in_thread(lambda: self._finish(length), self._url)

    async def discard(self) -> None:
        await in_thread(self._discard, self._url)

    def _begin(self) -> None:
        mode: int | None = None
        with contextlib.suppress(FileNotFoundError):
            earlier = Path(self._path).stat()
            if stat.S_ISDIR(earlier.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._url)
            if not stat.S_ISREG(earlier.st_mode):
                raise UsageError("not a regular file: it cannot be replaced", url=self._url)
            mode = stat.S_IMODE(earlier.st_mode)
        # Whoever opens it while it is readable reads all that is written later.
        first = 0o666 if mode is None else 0o600
        self._descriptor = os.open(self._temporary, WRITE_ONLY | os.O_CREAT | os.O_EXCL, first)
        self.remains = self._temporary
        if mode is not None:
            with contextlib.suppress(PermissionError):
                set_mode(self._descriptor, mode)

    def _put(self, data: bytes, offset: int) -> None:
        write_at(self._descriptor, data, offset)
        with self._counting:
            self._unsynced_bytes += len(data)
            if self._unsynced_bytes < _SYNCED_BYTES:
                return
            self._unsynced_bytes = 0
        sync_data(self._descriptor)

    def _finish(self, length: int) -> LocalFile:
        os.fsync(self._descriptor)
        status = os.fstat(self._descriptor)
        if status.st_size != length:
            raise SinkError(f"{length} bytes were written, the file has {status.st_size}", url=self._url)
        self._close()
        sync_folder(self._path)
        # Not before: some systems settle the time when a file is closed.
        return LocalFile.of(self._path, self._temporary)

    def _discard(self) -> None:
        self._close()
        Path(self._temporary).unlink(missing_ok=True)
        self.remains = ""

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _commit(file: LocalFile, overwrite: bool, url: str) -> None:
    temporary, path = Path(file.temporary), Path(file.path)
    if not file.is_at(temporary):
        if file.is_at(path):  # committed before
            sync_folder(file.path)
            return
        raise CommitFailed("what was prepared is gone, or was changed", url=url)
    try:
        if overwrite:
            temporary.replace(path)
        elif not file.is_at(path):  # it is, where an earlier commit got no further than the link
            os.link(temporary, path)
    except FileExistsError:
        raise already_there(url) from None
    except OSError as error:
        if not overwrite and error.errno in NO_LINKS:
            raise Unsupported(
                "this file system has no hard links, so overwrite=False cannot be kept",
                reason="no_exclusive_commit",
                url=url,
            ) from error
        if isinstance(error, PermissionError):
            raise
        raise CommitFailed(f"the file cannot be renamed: {error.strerror or error}", url=url) from error
    try:
        temporary.unlink(missing_ok=True)
        sync_folder(file.path)
    except OSError as error:
        raise CommitUnknown(
            f"the file is there, but a crash of the machine may take it back: {error.strerror or error}",
            url=url,
        ) from error


def _temporaries(path: str) -> Iterator[Temporary]:
    target = Path(path)
    if target.is_dir():
        found = ((Path(folder) / name) for folder, _, names in os.walk(target) for name in names)
        candidates = [one for one in found if is_temporary_of(one.name, None)]
    else:
        target = Path(os.path.realpath(path))
        beside = target.parent.iterdir() if target.parent.is_dir() else ()
        candidates = [one for one in beside if is_temporary_of(one.name, target.name)]
    for candidate in candidates:
        with contextlib.suppress(FileNotFoundError):  # its writer, or a cleanup, was there first
            status = candidate.lstat()
            if stat.S_ISREG(status.st_mode):
                yield Temporary(str(candidate), str(candidate), status.st_mtime)


async def open_target(target: StoreUrl) -> LocalStore:
    return LocalStore(local_path(target.url), target.shown)
