"""Folders of S3: keys below a prefix, a thousand in a request. Knows s3fs's client.

S3 has no folders: one without files is not there, and what looks like one, a key that ends with ``/``, is
left out.
"""
# ruff: noqa: SLF001 - the asynchronous interface of s3fs is spelled with underscores

from __future__ import annotations

import datetime
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from orcstream.errors import SourceError
from orcstream.io.byte_source import no_such_file, not_permitted
from orcstream.io.clients import Lease
from orcstream.io.folder import ListedFile, below, retried
from orcstream.io.s3 import S3Client, find_place, guarded
from orcstream.io.urls import strip_credentials

__all__ = ["S3Folder", "open_s3_folder"]

# As many as one request takes.
REMOVED_AT_ONCE = 1000


class S3Folder:
    """Keys below a prefix, whatever is in them; keys that end like folders are markers of them."""

    def __init__(self, lease: Lease[S3Client], bucket: str, key: str, url: str) -> None:
        self._lease = lease
        self._filesystem = lease.client.filesystem
        self._bucket = bucket
        self._prefix = f"{key.rstrip('/')}/" if key else ""
        self._key = key
        self._url = url
        self._shown = strip_credentials(url)

    async def list_files(self) -> list[ListedFile]:
        found = [one async for one in self._objects(self._prefix)]
        if found:
            files = [(one["Key"].removeprefix(self._prefix), one) for one in found]
            return [
                self._of(one, below(self._url, path), path)
                for path, one in files
                if path and not path.endswith("/")
            ]
        itself = await self._itself()
        if itself is None:
            raise no_such_file(self._shown)
        return [self._of(itself, self._url, posixpath.basename(self._key))]

    async def remove_files(self, paths: Sequence[str]) -> None:
        for first in range(0, len(paths), REMOVED_AT_ONCE):
            keys = [{"Key": self._prefix + path} for path in paths[first : first + REMOVED_AT_ONCE]]
            answer = await self._call("delete_objects", Delete={"Objects": keys, "Quiet": True})
            for failure in answer.get("Errors") or ():
                text = f"{failure.get('Key')} was not removed: {failure.get('Code')}"
                if failure.get("Code") == "AccessDenied":
                    raise not_permitted(self._shown, text)
                raise SourceError(text, url=self._shown)

    async def aclose(self) -> None:
        await self._lease.aclose()

    async def _itself(self) -> Mapping[str, Any] | None:
        """The key as a file: it comes first of those that begin like it."""
        if not self._key or self._key.endswith("/"):
            return None
        async for one in self._objects(self._key):
            return one if one["Key"] == self._key else None
        return None

    async def _objects(self, prefix: str) -> AsyncIterator[Mapping[str, Any]]:
        after: dict[str, str] = {}
        while True:
            page = await self._call("list_objects_v2", Prefix=prefix, **after)
            for one in page.get("Contents") or ():
                yield one
            token = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or not token or after.get("ContinuationToken") == token:
                return
            after = {"ContinuationToken": token}

    async def _call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        async def ask() -> Mapping[str, Any]:
            answer = await self._filesystem._call_s3(operation, Bucket=self._bucket, **arguments)
            return cast("Mapping[str, Any]", answer)

        return await retried(lambda: guarded(ask, self._shown), self._shown)

    @staticmethod
    def _of(one: Mapping[str, Any], url: str, path: str) -> ListedFile:
        modified = one.get("LastModified")
        modified_s = modified.timestamp() if isinstance(modified, datetime.datetime) else None
        return ListedFile(url, path, one["Size"], str(one.get("ETag") or ""), modified_s)


async def open_s3_folder(url: str, options: Mapping[str, Any], shown: str) -> S3Folder:
    form = "a folder in S3 is s3://bucket/prefix"
    place = await find_place(
        url, options, shown, is_meant=lambda one: bool(one.bucket) and not one.version, form=form
    )
    return S3Folder(place.lease, place.bucket, place.key, url)
