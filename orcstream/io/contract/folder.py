"""What a folder of a store is: the contract that every store's listing is brought to.

Knows names of files and when a call is repeated. Must not know any store, nor what the files are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from orcstream.io.contract.byte_source import IoOptions, RetryPolicy
from orcstream.io.loop.clients import Lease

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file in a folder.

    `url` is what `open` takes; `path` is relative to the folder, with ``/`` between its parts. `version`
    tells the file from others of its name and length, as far as the store can, and is the `fingerprint` of
    the opened file's tail; it is empty where the store cannot. `modified_s` counts seconds from 1970, and is
    None where the store does not say.
    """

    url: str = field(repr=False)
    path: str
    length: int
    version: str
    modified_s: float | None


@dataclass(frozen=True, slots=True)
class FolderListing:
    """What is in a folder, at any depth.

    `empty_folders` are the paths of folders with nothing in them, relative like those of files, where the
    store has such.
    """

    files: Sequence[ListedFile]
    empty_folders: Sequence[str] = ()


class Folder(Protocol):
    """One URL of a store, as a folder."""

    async def walk(self) -> FolderListing:
        """All that is in it, in any order; where the URL names a file, itself."""

    async def names(self) -> Sequence[str]:
        """Of the files and folders that are directly in it, in any order; none where it is a file."""

    async def remove_files(self, paths: Sequence[str]) -> None:
        """Those that are gone already are no failure."""

    async def remove_folders(self, paths: Sequence[str]) -> None:
        """Those that are empty, or hold nothing but such; others stay. Some stores have no folders."""

    async def aclose(self) -> None: ...


class LeasedFolder:
    """What folders have in common whose store is asked through a shared client; part of a `Folder`."""

    def __init__(self, url: str, shown: str, lease: Lease[Any]) -> None:
        self._url, self._shown = url, shown
        self._lease = lease

    async def aclose(self) -> None:
        await self._lease.aclose()


def below(url: str, path: str) -> str:
    """The URL of a file in a folder; paths stand in URLs as they are."""
    return f"{url.rstrip('/')}/{path}"


async def retried(call: Callable[[], Awaitable[T]], url: str) -> T:
    """One request, made again while another attempt may help."""
    return await RetryPolicy.of(IoOptions()).run(call, url=url)
