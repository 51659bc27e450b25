"""Folders of S3: keys below a prefix, a thousand in a request. Knows s3fs's client.

S3 has no folders: one without files is not there, unless a key that ends with ``/`` marks it.
"""
# ruff: noqa: SLF001 - the asynchronous interface of s3fs is spelled with underscores

from __future__ import annotations

import datetime
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from orcstream.errors import SourceError
from orcstream.io.contract.byte_source import Transient, no_such_file, not_permitted
from orcstream.io.contract.folder import FolderListing, LeasedFolder, ListedFile, below, retried
from orcstream.io.stores.s3.client import TRANSIENT_CODES, S3Place, find_place, guarded
from orcstream.io.urls import StoreUrl

# As many as one request takes.
REMOVED_AT_ONCE = 1000


class S3Folder(LeasedFolder):
    """Keys below a prefix, whatever is in them; keys that end like folders are markers of them."""

    def __init__(self, place: S3Place, target: StoreUrl) -> None:
        super().__init__(target.url, target.shown, place.lease)
        self._filesystem = place.lease.client.filesystem
        self._bucket, self._key = place.bucket, place.key
        self._prefix = f"{place.key.rstrip('/')}/" if place.key else ""

    async def walk(self) -> FolderListing:
        found = [one async for one in self._objects(self._prefix)]
        if found:
            keys = [(one["Key"].removeprefix(self._prefix), one) for one in found]
            files = [
                self._of(one, below(self._url, path), path)
                for path, one in keys
                if path and not path.endswith("/")
            ]
            return FolderListing(files, _without_more(sorted(path for path, _ in keys)))
        itself = await self._itself()
        if itself is None:
            raise no_such_file(self._shown)
        return FolderListing([self._of(itself, self._url, posixpath.basename(self._key))])

    async def names(self) -> Sequence[str]:
        found: set[str] = set()
        async for page in self._pages(Prefix=self._prefix, Delimiter="/"):
            keys = [one.get("Key") for one in page.get("Contents") or ()]
            keys += [one.get("Prefix") for one in page.get("CommonPrefixes") or ()]
            found.update(key.removeprefix(self._prefix).strip("/") for key in keys if isinstance(key, str))
        return sorted(found - {""})

    async def remove_files(self, paths: Sequence[str]) -> None:
        for first in range(0, len(paths), REMOVED_AT_ONCE):
            await self._remove([self._prefix + path for path in paths[first : first + REMOVED_AT_ONCE]])

    async def remove_folders(self, paths: Sequence[str]) -> None:
        """There are none."""

    async def _remove(self, keys: list[str]) -> None:
        """Those that the store had no time for are asked for again, and only these."""

        async def attempt() -> None:
            objects = [{"Key": key} for key in keys]
            answer = await self._ask("delete_objects", Delete={"Objects": objects, "Quiet": False})
            said = len(answer.get("Deleted") or ()) + len(answer.get("Errors") or ())
            if said < len(keys):
                raise Transient(
                    f"the store says of {said} of {len(keys)} keys what became of them", url=self._shown
                )
            busy = {}
            for failure in answer.get("Errors") or ():
                key, code = failure.get("Key"), failure.get("Code")
                text = f"{key} was not removed: {code}"
                if code == "AccessDenied":
                    raise not_permitted(self._shown, text)
                if key not in keys or code not in TRANSIENT_CODES:
                    raise SourceError(text, url=self._shown)
                busy[key] = text
            if busy:
                keys[:] = busy
                raise Transient(next(iter(busy.values())), url=self._shown)

        await retried(attempt, self._shown)

    async def _itself(self) -> Mapping[str, Any] | None:
        """The key as a file: it comes first of those that begin like it."""
        if not self._key or self._key.endswith("/"):
            return None
        async for one in self._objects(self._key):
            return one if one["Key"] == self._key else None
        return None

    async def _objects(self, prefix: str) -> AsyncIterator[Mapping[str, Any]]:
        async for page in self._pages(Prefix=prefix):
            for one in page.get("Contents") or ():
                key, size = one.get("Key"), one.get("Size")
                if not isinstance(key, str) or not isinstance(size, int) or size < 0:
                    raise SourceError("the store lists an object without its key or size", url=self._shown)
                if not key.startswith(prefix):
                    raise SourceError("the store lists an object of another folder", url=self._shown)
                yield one

    async def _pages(self, **arguments: Any) -> AsyncIterator[Mapping[str, Any]]:
        after: dict[str, str] = {}
        seen = {""}
        while True:
            page = await retried(partial(self._ask_page, **arguments, **after), self._shown)
            yield page
            if not page.get("IsTruncated"):
                return
            token = page.get("NextContinuationToken")
            if not isinstance(token, str) or token in seen:
                raise SourceError("the store's listing has more pages and does not go on", url=self._shown)
            seen.add(token)
            after = {"ContinuationToken": token}

    async def _ask_page(self, **arguments: Any) -> Mapping[str, Any]:
        """A page that names its bucket. Without it, an answer without keys does not prove a folder empty."""
        page = await self._ask("list_objects_v2", **arguments)
        if not page.get("Name"):
            raise Transient("the store answered a listing with nothing", url=self._shown)
        return page

    async def _ask(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        async def ask() -> Mapping[str, Any]:
            answer = await self._filesystem._call_s3(
                operation, self._filesystem.req_kw, Bucket=self._bucket, **arguments
            )
            return cast("Mapping[str, Any]", answer)

        return await guarded(ask, self._shown)

    @staticmethod
    def _of(one: Mapping[str, Any], url: str, path: str) -> ListedFile:
        modified = one.get("LastModified")
        modified_s = modified.timestamp() if isinstance(modified, datetime.datetime) else None
        return ListedFile(url, path, one["Size"], str(one.get("ETag") or ""), modified_s)


def _without_more(paths: Sequence[str]) -> list[str]:
    """Markers of folders in which there is nothing else."""
    pairs = zip(paths, [*paths[1:], ""], strict=True)
    return [path[:-1] for path, after in pairs if path.endswith("/") and not after.startswith(path)]


async def open_target(target: StoreUrl) -> S3Folder:
    form = "a folder in S3 is s3://bucket/prefix"
    place = await find_place(target, is_meant=lambda one: bool(one.bucket) and not one.version, form=form)
    return S3Folder(place, target)
