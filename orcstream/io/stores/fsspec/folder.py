"""Folders of every other store, through its fsspec file system, on threads."""
# ruff: noqa: SLF001 - the asynchronous interface of fsspec is spelled with underscores

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

from orcstream.io.contract.folder import FolderListing, LeasedFolder, ListedFile, below, retried
from orcstream.io.loop.clients import Lease
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.stores.fsspec.source import (
    OnThreads,
    fingerprint_of,
    lease_filesystem,
    modified_of,
    translated,
    version_of,
)
from orcstream.io.urls import StoreUrl

T = TypeVar("T")


class FilesystemFolder(LeasedFolder):
    """Any other file system of fsspec, on threads."""

    def __init__(self, lease: Lease[OnThreads], path: str, target: StoreUrl) -> None:
        super().__init__(target.url, target.shown, lease)
        self._filesystem = lease.client.filesystem
        self._path = path

    async def walk(self) -> FolderListing:
        return await self._in_thread(self._find)

    async def names(self) -> Sequence[str]:
        def work() -> list[str]:
            self._filesystem.invalidate_cache()
            whole = self._path.rstrip("/")
            found = [info["name"].rstrip("/") for info in self._filesystem.ls(self._path, detail=True)]
            return [posixpath.basename(name) for name in found if name != whole]

        return await self._in_thread(work)

    async def remove_files(self, paths: Sequence[str]) -> None:
        def work() -> None:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._filesystem.rm_file(f"{self._path.rstrip('/')}/{path}")

        await self._in_thread(work)

    async def remove_folders(self, paths: Sequence[str]) -> None:
        def work() -> None:
            for path in paths:
                self._remove_folder(f"{self._path.rstrip('/')}/{path}")

        await self._in_thread(work)

    def _remove_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            for info in self._filesystem.ls(folder, detail=True):
                if info["type"] == "directory":
                    self._remove_folder(info["name"])
        # Not empty, gone meanwhile, or nothing that this store has.
        with contextlib.suppress(OSError, NotImplementedError):
            self._filesystem.rmdir(folder)

    def _find(self) -> FolderListing:
        self._filesystem.invalidate_cache()
        itself = self._filesystem.info(self._path)
        empty: list[str] = []
        details = self._below(empty) if itself["type"] == "directory" else {self._path: itself}
        prefix = f"{self._path.rstrip('/')}/"
        found = []
        for name, info in details.items():
            whole = name == self._path
            path = posixpath.basename(name) if whole else name.removeprefix(prefix)
            url = self._url if whole else below(self._url, path)
            size = int(info.get("size") or 0)
            version = fingerprint_of(size, info) if version_of(info) else ""
            found.append(ListedFile(url, path, size, version, modified_of(info)))
        return FolderListing(found, [name.removeprefix(prefix) for name in empty])

    def _below(self, empty: list[str]) -> Mapping[str, Any]:
        """Files by their paths; stores without folders list them at once. Empty folders are added."""
        if not _walks(self._filesystem):
            found: Mapping[str, Any] = self._filesystem.find(self._path, detail=True)
            return found
        # fsspec's own walk leaves out a folder that cannot be listed, for whatever reason.
        files, folders, seen = {}, [self._path], {self._path.rstrip("/")}
        while folders:
            folder = folders.pop()
            try:
                listing = self._filesystem.ls(folder, detail=True)
            except FileNotFoundError:
                continue  # removed meanwhile
            if not listing and folder != self._path:
                empty.append(folder)
            for info in listing:
                name = info["name"].rstrip("/")
                if info["type"] != "directory":
                    files[name] = info
                elif name not in seen:
                    seen.add(name)
                    folders.append(name)
        return files

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def attempt() -> T:
            with translated(self._shown):
                return work()

        return await retried(lambda: run_in_thread(attempt), self._shown)


def _walks(filesystem: Any) -> bool:
    """Whether its `find` is the one that fsspec gives to all."""
    cls = type(filesystem)
    if cls.async_impl:
        return bool(cls._find is AsyncFileSystem._find)
    return bool(cls.find is AbstractFileSystem.find)


async def open_target(target: StoreUrl) -> FilesystemFolder:
    return FilesystemFolder(*await lease_filesystem(target), target)
