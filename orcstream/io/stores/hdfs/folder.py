"""Folders of HDFS: a request or more for each. Knows the calls, not how they travel."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import partial

from orcstream.io.contract.folder import FolderListing, LeasedFolder, ListedFile, below, retried
from orcstream.io.stores.hdfs.calls import FileStatus, HdfsRefusal, list_or_none
from orcstream.io.stores.hdfs.source import OpenedHdfs, open_hdfs
from orcstream.io.urls import StoreUrl


class HdfsFolder(LeasedFolder):
    """See `Folder`."""

    def __init__(self, opened: OpenedHdfs, target: StoreUrl) -> None:
        super().__init__(target.url, target.shown, opened.lease)
        self._hdfs, self._path = opened.hdfs, opened.path

    async def walk(self) -> FolderListing:
        status = await retried(lambda: self._hdfs.status(self._path), self._shown)
        if not status.is_folder:
            return FolderListing([self._of(status, self._url, posixpath.basename(self._path))])
        found, empty, folders = [], [], [""]
        while folders:
            folder = folders.pop()
            listing = await self._list_folder(folder)
            if folder and listing == []:
                empty.append(folder)
            for one in listing or ():
                path = posixpath.join(folder, one.name)
                if one.is_folder:
                    folders.append(path)
                else:
                    found.append(self._of(one, below(self._url, path), path))
        return FolderListing(found, empty)

    async def names(self) -> Sequence[str]:
        status = await retried(lambda: self._hdfs.status(self._path), self._shown)
        return [one.name for one in await self._list_folder("") or ()] if status.is_folder else []

    async def remove_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            await retried(partial(self._hdfs.delete, below(self._path, path)), self._shown)

    async def remove_folders(self, paths: Sequence[str]) -> None:
        for path in paths:
            await self._remove_folder(path)

    async def _remove_folder(self, folder: str) -> bool:
        """Whether it is gone."""
        whole = posixpath.join(self._path, folder)
        for one in await self._list_folder(folder) or ():
            if not one.is_folder or not await self._remove_folder(posixpath.join(folder, one.name)):
                return False
        try:
            await retried(partial(self._hdfs.delete, whole), self._shown)
        except HdfsRefusal:  # something was put there meanwhile
            return False
        return True

    async def _list_folder(self, folder: str) -> list[FileStatus] | None:
        whole = posixpath.join(self._path, folder)
        return await retried(lambda: list_or_none(self._hdfs, whole), self._shown)

    @staticmethod
    def _of(status: FileStatus, url: str, path: str) -> ListedFile:
        return ListedFile(url, path, status.length, status.version, status.modified_ms / 1000)


async def open_target(target: StoreUrl) -> HdfsFolder:
    return HdfsFolder(await open_hdfs(target), target)
