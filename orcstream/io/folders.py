"""Folders: what is in them, removing it, and making them where a store has folders that must be there.

Must not know how any store lists, or what the files are.

A listing is no snapshot: files that come or go meanwhile may be in it or not.

Errors: `FileNotFoundError` where there is neither folder nor file, `PermissionError`, `Unsupported` (reason
``no_listing``) for web servers and chains of file systems, `SourceError` for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from orcstream._credentials import strip_credentials
from orcstream.errors import Unsupported
from orcstream.io.contract.folder import Folder, FolderListing, ListedFile
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.stores.local.folder import check_no_link_leads_out
from orcstream.io.stores.local.source import in_thread
from orcstream.io.urls import READ_ONLY, StoreUrl, kind_of, local_path, protocol_of

T = TypeVar("T")
_Url: TypeAlias = str | os.PathLike[str]
_Options: TypeAlias = Mapping[str, Any] | None


async def list_files(url: _Url, *, storage_options: _Options = None) -> list[ListedFile]:
    """All files below a folder, at any depth, in the order of their paths; of a file, itself.

    A folder that is there and empty has no files. S3 knows no such folder: there that is `FileNotFoundError`.
    """
    return list((await list_folder(url, storage_options=storage_options)).files)


async def list_folder(url: _Url, *, storage_options: _Options = None) -> FolderListing:
    """`list_files`, and the folders below that have nothing in them, in the order of their paths.

    S3 has these as far as somebody left a key there that ends with ``/``; other stores of objects have none.
    """
    found = await _with_folder(url, storage_options, lambda folder: folder.walk())
    return FolderListing(sorted(found.files, key=lambda file: file.path), sorted(found.empty_folders))


async def list_names(url: _Url, *, storage_options: _Options = None) -> list[str]:
    """The names of files and folders that are directly in a folder, sorted; none where there is no folder."""
    try:
        return sorted(await _with_folder(url, storage_options, lambda folder: folder.names()))
    except FileNotFoundError:
        return []


async def remove_files(url: _Url, paths: Iterable[str], *, storage_options: _Options = None) -> None:
    """Remove files below a folder, by their paths in it; those that are gone already are no failure."""
    await _with_folder(url, storage_options, lambda folder: folder.remove_files(list(paths)))


async def remove_folders(url: _Url, paths: Iterable[str], *, storage_options: _Options = None) -> None:
    """Remove folders below a folder that are empty, or hold nothing but empty ones; others stay."""
    await _with_folder(url, storage_options, lambda folder: folder.remove_folders(list(paths)))


def check_listable(url: str) -> None:
    """Raise `Unsupported` (``no_listing``) for a store without listings, without asking it."""
    if kind_of(url) in READ_ONLY:
        shown = strip_credentials(url)
        raise Unsupported("there is no listing what is in a folder there", reason="no_listing", url=shown)


async def check_links(url: str, paths: Iterable[str]) -> None:
    """Raise `UsageError` where a symbolic link leads one of these paths out of the folder.

    To be called before files are read or written by paths that a record names; removing checks by itself.
    Only local folders have such links.
    """
    if protocol_of(url) in ("file", "local"):
        folder, found = Path(local_path(url)), list(paths)
        shown = strip_credentials(url)
        await in_thread(lambda: check_no_link_leads_out(folder, found, shown), shown)


async def make_folder_of(url: str) -> None:
    """Make the folder that a file is to be in, and those above it, where there is none."""
    if protocol_of(url) in ("file", "local"):
        folder = Path(local_path(url)).parent
        await in_thread(lambda: folder.mkdir(parents=True, exist_ok=True), strip_credentials(url))


async def _with_folder(url: _Url, storage_options: _Options, call: Callable[[Folder], Awaitable[T]]) -> T:
    target = StoreUrl.of(url, storage_options)
    check_listable(target.url)
    # fsspec keeps no folders in memory apart: what its files are in is found as in all its stores.
    folder: Folder = await target.open("folder", store="fsspec" if target.kind == "memory" else "")
    try:
        return await call(folder)
    finally:
        await until_over(folder.aclose())
