"""HDFS: a temporary beside the target, written part by part, then renamed over it.

Knows in which order calls may be made and repeated. The file is created empty, then each part is added, one
at a time. These are apart because what is added to a file that was deleted does nothing: whatever is still
under way when a writer gives up can bring nothing back.

Where the client keeps the file open until its end (hdfs-native), a part that fails ends the upload. Where
each part is an append (WebHDFS), one whose answer was lost may have added any beginning of its part, or may
do so later. Then

1. the temporary is renamed: an append that has not begun finds no file of that name any more;
2. nothing is appended to it, which fails while another append still has the file open;
3. the length of the file is what has arrived, and the part is continued from there.

So no byte is written twice. What is finished is durable as HDFS has it: each DataNode that holds a copy has
received it. The rename replaces a file at once. Its version (`FileStatus.version`) stays the same, so it
tells a commit whose answer was lost from one that never arrived.
"""

from __future__ import annotations

import errno
import os
import posixpath
from dataclasses import dataclass

import anyio

from orcstream.byterange import BytesLike
from orcstream.errors import CommitFailed, CommitUnknown, SinkError
from orcstream.io.contract.byte_sink import (
    MovedFile,
    MovingStore,
    Prepared,
    SinkOptions,
    Temporary,
    is_temporary_of,
    policy_of,
    temporary_beside,
)
from orcstream.io.contract.byte_source import Transient, is_transient
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.stores.hdfs.calls import (
    WRITE_ANEW,
    Appending,
    Hdfs,
    HdfsWriter,
    list_or_none,
    status_or_none,
)
from orcstream.io.stores.hdfs.source import OpenedHdfs, open_hdfs
from orcstream.io.urls import StoreUrl


@dataclass(frozen=True, slots=True)
class HdfsFile(MovedFile):
    """A prepared file; the version tells it from others, under either name."""

    version: str


class HdfsStore(MovingStore[HdfsFile]):
    """One path of a file system."""

    _kind = HdfsFile
    _how = "on HDFS"

    def __init__(self, opened: OpenedHdfs, url: str) -> None:
        super().__init__(opened.lease, opened.path, url)
        self._hdfs = opened.hdfs

    def new_upload(self, options: SinkOptions) -> _Upload:
        return _Upload(self._hdfs, self._path, self._url, options)

    async def _remove(self, path: str) -> None:
        await self._hdfs.delete(path)

    async def _temporaries(self) -> list[Temporary]:
        status = await status_or_none(self._hdfs, self._path)
        whole = status is not None and status.is_folder
        folders, name = [self._path], None
        if not whole:
            folder, name = posixpath.split(self._path)
            folders = [folder]
        found: list[Temporary] = []
        while folders:
            folder = folders.pop()
            for one in await list_or_none(self._hdfs, folder) or ():
                path = posixpath.join(folder, one.name)
                if one.is_folder and whole:
                    folders.append(path)
                elif not one.is_folder and is_temporary_of(one.name, name):
                    found.append(Temporary(self._named(path), path, one.modified_ms / 1000))
        return found

    def _named(self, path: str) -> str:
        """The URL of another path of the same server, spelled as the user spells it."""
        scheme, _, rest = self._url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}{path}"

    async def _commit(self, file: HdfsFile, prepared: Prepared) -> None:
        if await self._is_committed(file):
            self._unsettled = False
            return
        unsettled, self._unsettled = self._unsettled, True
        try:
            await self._hdfs.rename(file.temporary, file.path, overwrite=prepared.overwrite)
        except (FileNotFoundError, FileExistsError) as error:
            # An earlier attempt may have been carried out after all.
            await self._judge(file, error, unsettled)
        except PermissionError:
            self._unsettled = unsettled
            raise
        self._unsettled = False

    async def _judge(self, file: HdfsFile, error: OSError, unsettled: bool) -> None:
        """What it means that there was nothing to rename, or something in the way."""
        if await self._is_committed(file):
            return
        self._unsettled = unsettled
        if isinstance(error, FileExistsError):
            raise error
        if await status_or_none(self._hdfs, file.path) is None and not unsettled:
            raise CommitFailed("what was prepared is gone", url=self._url) from error
        raise CommitUnknown(
            "what was prepared is gone: it was discarded, or committed, and the file replaced since",
            url=self._url,
        ) from error

    async def _is_committed(self, file: HdfsFile) -> bool:
        seen = await status_or_none(self._hdfs, file.path)
        if seen is None or seen.version != file.version:
            return False
        # Without ids, another file may have the same length and time.
        return bool(seen.file_id) or await status_or_none(self._hdfs, file.temporary) is None


class _Upload:
    def __init__(self, hdfs: Hdfs, path: str, url: str, options: SinkOptions) -> None:
        self.retries_parts = hdfs.appends
        self._hdfs = hdfs
        self._path = path
        self._url = url
        self._create_timeout_s = min(options.timeout_s, options.abort_timeout_s)
        self._policy = policy_of(options)
        self._writer: HdfsWriter | None = None
        self._created: list[str] = []  # every name under which a file was asked to be created
        self._names: list[str] = []  # that our file had, has, or may have, in this order
        self._stored_bytes = 0
        self._is_closing = False  # whether a close was begun and is not over
        self._in_doubt = False  # whether an append was sent that was not answered

    async def begin(self) -> None:
        earlier = await status_or_none(self._hdfs, self._path)
        if earlier is not None and earlier.is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._url)
        # A name of its own for each attempt: an earlier one may be carried out later.
        temporary = temporary_beside(self._path)
        self._created.append(temporary)
        try:
            # What is created after we gave up would stay, so the request is not cancelled.
            await until_over(self._create(temporary, earlier.permission if earlier else ""))
        except FileExistsError as error:
            # Nobody else knows the name.
            raise Transient("the creation was sent twice, and answered once", url=self._url) from error
        except Exception as error:
            if not is_transient(error):
                self._created.remove(temporary)
            raise
        self._names = [temporary]

    async def _create(self, temporary: str, permission: str) -> None:
        with anyio.fail_after(self._create_timeout_s):
            self._writer = await self._hdfs.create(temporary, permission=permission)

    async def put(self, number: int, offset: int, data: bytes) -> None:  # noqa: ARG002
        if self._in_doubt:
            await self._settle()
        done = self._stored_bytes - offset
        if not 0 <= done <= len(data):
            raise SinkError(
                f"{offset} bytes were stored, and the file has {self._stored_bytes}", url=self._url
            )
        rest: BytesLike = memoryview(data)[done:] if done else data
        if len(rest):
            self._in_doubt = True
            await self._write(rest)
            self._in_doubt = False
            self._stored_bytes = offset + len(data)

    async def _write(self, data: BytesLike) -> None:
        assert self._writer is not None
        # Of a part that is not sent again, nobody else looks at the clock.
        limit_s = None if self.retries_parts else self._policy.limit_s(len(data))
        try:
            with anyio.fail_after(limit_s):
                await self._writer.write(data)
        except TimeoutError as error:
            if limit_s is None:
                raise
            text = f"a part was not taken within {limit_s:.3g} s. {WRITE_ANEW}"
            raise SinkError(text, url=self._url) from error

    async def _close(self) -> None:
        """Close the file. Where that takes too long, the next attempt would wait for this one."""
        assert self._writer is not None
        if self._is_closing and not self.retries_parts:
            raise SinkError(f"the file was not closed in time. {WRITE_ANEW}", url=self._url)
        self._is_closing = True
        await self._writer.close()
        self._is_closing = False

    async def finish(self, length: int) -> HdfsFile:
        await self._close()
        temporary = self._names[-1]
        for name in dict.fromkeys([*self._created, *self._names[:-1]]):
            if name != temporary:
                await self._hdfs.delete(name)
        status = await self._hdfs.status(temporary)
        if status.length != length:
            raise SinkError(f"{length} bytes were written, the file has {status.length}", url=self._url)
        return HdfsFile(self._path, temporary, status.version)

    async def discard(self) -> None:
        # Older names first: what is renamed meanwhile is met under its next one.
        try:
            for name in dict.fromkeys([*self._created, *self._names]):
                await self._hdfs.delete(name)
        finally:
            if self._writer is not None:
                await self._writer.release()

    @property
    def remains(self) -> str:
        """What a discard has to remove, of which all but one may not be there."""
        return ", ".join(dict.fromkeys([*self._created, *self._names]))

    async def _settle(self) -> None:
        """Find out what has arrived of an append that was not answered."""
        name = temporary_beside(self._path)
        # Before it is sent: a rename whose answer is lost has given the file this name.
        self._names.append(name)
        for earlier in self._names[:-1]:  # older names first, as when they are deleted
            if await self._renamed(earlier, name):
                break
        # Also where nothing was renamed: aiohttp may have sent a request a second time.
        await self._hdfs.append(name, b"")
        self._stored_bytes = (await self._hdfs.status(name)).length
        self._writer = Appending(self._hdfs, name)
        self._in_doubt = False

    async def _renamed(self, name: str, target: str) -> bool:
        try:
            await self._hdfs.rename(name, target, overwrite=False)
        except FileNotFoundError:
            return False
        return True


async def open_target(target: StoreUrl) -> HdfsStore:
    return HdfsStore(await open_hdfs(target), target.shown)
