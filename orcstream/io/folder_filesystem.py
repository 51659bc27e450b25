"""Folders of every other store, through its fsspec file system, on threads."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from orcstream.io.byte_source import no_such_file
from orcstream.io.clients import Lease
from orcstream.io.filesystem import (
    SyncFilesystem,
    lease_filesystem,
    modified_of,
    translate_error,
    version_of,
)
from orcstream.io.folder import ListedFile, below, retried
from orcstream.io.threads import run_in_thread
from orcstream.io.urls import strip_credentials

__all__ = ["FilesystemFolder", "open_filesystem_folder"]

T = TypeVar("T")


class FilesystemFolder:
    """Any other file system of fsspec, on threads."""

    def __init__(self, lease: Lease[SyncFilesystem], path: str, url: str) -> None:
        self._lease = lease
        self._filesystem = lease.client.filesystem
        self._path = path
        self._url = url
        self._shown = strip_credentials(url)

    async def list_files(self) -> list[ListedFile]:
        return await self._in_thread(self._find)

    async def remove_files(self, paths: Sequence[str]) -> None:
        def work() -> None:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._filesystem.rm_file(f"{self._path.rstrip('/')}/{path}")

        await self._in_thread(work)

    async def aclose(self) -> None:
        await self._lease.aclose()

    def _find(self) -> list[ListedFile]:
        self._filesystem.invalidate_cache()
        details = self._filesystem.find(self._path, detail=True)
        if not details and not self._filesystem.exists(self._path):
            raise no_such_file(self._shown)
        prefix = f"{self._path.rstrip('/')}/"
        found = []
        for name, info in details.items():
            whole = name == self._path
            path = posixpath.basename(name) if whole else name.removeprefix(prefix)
            url = self._url if whole else below(self._url, path)
            found.append(
                ListedFile(url, path, int(info.get("size") or 0), version_of(info), modified_of(info))
            )
        return found

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def attempt() -> T:
            try:
                return work()
            except Exception as error:
                raise translate_error(error, self._shown) from error

        return await retried(lambda: run_in_thread(attempt), self._shown)


async def open_filesystem_folder(
    protocol: str, url: str, options: Mapping[str, Any], shown: str
) -> FilesystemFolder:
    lease, path = await lease_filesystem(protocol, url, options, shown)
    return FilesystemFolder(lease, path, url)
