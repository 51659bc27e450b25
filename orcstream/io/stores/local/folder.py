"""Folders of this machine. Knows the disk; links to folders are not followed, links to files are.

Nothing outside of the folder is removed, whatever paths say: neither by ``..`` nor through links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from orcstream.errors import SourceError, UsageError
from orcstream.io.contract.folder import FolderListing, ListedFile, below
from orcstream.io.stores.local.source import fingerprint_of, in_thread
from orcstream.io.urls import StoreUrl, local_path


class LocalFolder:
    """See `Folder`."""

    def __init__(self, target: StoreUrl) -> None:
        self._url, self._shown = target.url, target.shown
        self._path = Path(local_path(target.url))

    async def walk(self) -> FolderListing:
        return await in_thread(self._walk, self._shown, SourceError)

    async def names(self) -> Sequence[str]:
        def work() -> list[str]:
            try:
                return [one.name for one in self._path.iterdir()]
            except NotADirectoryError:
                return []

        return await in_thread(work, self._shown, SourceError)

    async def remove_files(self, paths: Sequence[str]) -> None:
        def work() -> None:
            check_no_link_leads_out(self._path, paths, self._shown)
            for path in paths:
                (self._path / path).unlink(missing_ok=True)

        await in_thread(work, self._shown)

    async def remove_folders(self, paths: Sequence[str]) -> None:
        def work() -> None:
            # The folder itself may be a link, too.
            check_no_link_leads_out(self._path, [f"{path}/" for path in paths], self._shown)
            for path in paths:
                for folder, _, _ in os.walk(self._path / path, topdown=False):
                    with suppress(OSError):  # not empty, or gone meanwhile
                        Path(folder).rmdir()

        await in_thread(work, self._shown)

    async def aclose(self) -> None:
        """Nothing is held."""

    def _walk(self) -> FolderListing:
        status = self._path.stat()
        if not stat.S_ISDIR(status.st_mode):
            return FolderListing([_of_status(self._url, self._path.name, status)])
        root = os.fspath(self._path)
        found, empty = [], []
        for folder, folders, names in os.walk(root, onerror=_unless_removed):
            inside = folder[len(root) :].replace(os.sep, "/").strip("/")
            if inside and not folders and not names:
                empty.append(inside)
            for name in names:
                path = f"{inside}/{name}" if inside else name
                try:  # paths as objects would take longer than asking for the files
                    status = os.stat(f"{folder}/{name}")  # noqa: PTH116
                    found.append(_of_status(below(self._url, path), path, status))
                except FileNotFoundError:
                    continue  # removed meanwhile
        return FolderListing(found, empty)


def check_no_link_leads_out(folder: Path, paths: Iterable[str], shown: str) -> None:
    """Raise `UsageError` where the folders of a path are not below `folder`, with all links followed.

    A path that ends with ``/`` is that of a folder. Files may be links: removing one removes the link.
    """
    root = os.path.realpath(folder)
    inside = root if root.endswith(os.sep) else root + os.sep
    parents = {path.rpartition("/")[0]: path for path in paths}
    for parent, path in parents.items():
        place = os.path.realpath(os.path.join(root, parent))  # noqa: PTH118 - an absolute one counts, too
        if place != root and not place.startswith(inside):
            raise UsageError(
                f"the path {path!r} leads out of the folder, to {place!r}; nothing was done", url=shown
            )


def _unless_removed(error: OSError) -> None:
    """For `os.walk`, which leaves out what it cannot look into."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _of_status(url: str, path: str, status: os.stat_result) -> ListedFile:
    return ListedFile(url, path, status.st_size, fingerprint_of(status), status.st_mtime)


async def open_target(target: StoreUrl) -> LocalFolder:
    return LocalFolder(target)
