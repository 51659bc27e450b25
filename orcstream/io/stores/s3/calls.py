"""Requests about one key of a bucket, and about uploads to it, made through s3fs's client.

Knows what S3's answers and refusals mean. Must not know in which order an upload or a commit makes them.
"""
# ruff: noqa: SLF001 - the asynchronous interface of s3fs is spelled with underscores

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from orcstream.errors import SinkError
from orcstream.io.contract.byte_source import TRANSIENT_STATUS, Transient, no_such_file, not_permitted
from orcstream.io.stores.s3.client import TRANSIENT_CODES, asked_wait_s, guarded, is_of_credentials

# A part that was under way when its upload was aborted may bring it back to life: waits before each attempt.
ABORT_WAITS_S = (0.0, 0.1, 0.3, 0.6)
# So many of them, where it is known that a part was sent whole and not answered.
UNSETTLED_LOOKS = 2
# Refusals of what arrived damaged, which another attempt may not meet.
DAMAGED_CODES = frozenset({"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"})


class Refused(SinkError):
    """A refusal of the store that stays one; leaves the store as something else, or as a cause."""

    def __init__(self, message: str, code: str, status: int, *, url: str) -> None:
        super().__init__(message, url=url)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class S3Calls:
    """Requests to one key, failing with `Transient`, `Refused` and what the store's refusals stand for."""

    filesystem: Any
    bucket: str
    key: str
    url: str

    async def call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        async def call() -> Mapping[str, Any]:
            answer: Mapping[str, Any] = await self.filesystem._call_s3(
                operation, self.filesystem.req_kw, **{"Bucket": self.bucket, **arguments}
            )
            return answer

        return await guarded(call, self.url, _meaning_to_writers)

    async def abort_upload(self, key: str, upload_id: str, *, is_settled: bool = True) -> None:
        """Until the store knows of no such upload; longer where parts may still arrive."""
        is_gone = False
        for number, wait_s in enumerate(ABORT_WAITS_S):
            await anyio.sleep(wait_s)
            is_gone = await self._abort_once(key, upload_id)
            if is_gone and (is_settled or number >= UNSETTLED_LOOKS):
                return
        if not is_gone:
            raise Transient("the upload was aborted and is still there", url=self.url)

    async def _abort_once(self, key: str, upload_id: str) -> bool:
        """Whether it is gone, as far as this writer may know."""
        try:
            await self.call("abort_multipart_upload", Key=key, UploadId=upload_id)
            return await self.has_parts(key, upload_id) is None
        except Refused as error:
            if error.status == 404:
                return True
            raise

    async def has_parts(self, key: str, upload_id: str) -> bool | None:
        """Whether an upload has parts; None for writers that may not look. `Refused` where there is none."""
        try:
            answer = await self.call("list_parts", Key=key, UploadId=upload_id, MaxParts=1)
        except PermissionError:
            return None
        self.text_of(answer, "UploadId")
        return bool(answer.get("Parts"))

    async def uploads(self, prefix: str) -> AsyncIterator[Mapping[str, Any]]:
        """The unfinished uploads to keys with this prefix."""
        markers: dict[str, str] = {}
        seen: set[tuple[str, str]] = set()
        while True:
            answer = await self.call("list_multipart_uploads", Prefix=prefix, **markers)
            self.text_of(answer, "Bucket")
            for upload in answer.get("Uploads") or ():
                if not isinstance(upload.get("Initiated"), datetime.datetime):
                    raise SinkError("the store lists an upload and not when it was begun", url=self.url)
                self.text_of(upload, "Key")
                self.text_of(upload, "UploadId")
                yield upload
            if not answer.get("IsTruncated"):
                return
            following = {
                "KeyMarker": answer.get("NextKeyMarker") or "",
                "UploadIdMarker": answer.get("NextUploadIdMarker") or "",
            }
            place = following["KeyMarker"], following["UploadIdMarker"]
            if not following["KeyMarker"] or place in seen:
                raise SinkError(
                    "the store's listing of uploads has more pages and does not go on", url=self.url
                )
            seen.add(place)
            markers = following

    def text_of(self, answer: Mapping[str, Any], name: str) -> str:
        """A member that each answer has. Proxies and stores that fail send status 200 and nothing else."""
        found = answer.get(name)
        if not isinstance(found, str) or not found:
            raise Transient(f"not an answer of S3: it has no {name}", url=self.url)
        return found

    async def head(self) -> Mapping[str, Any] | None:
        """What is visible under the key now; None for nothing."""
        try:
            seen = await self.call("head_object", Key=self.key)
        except Refused as error:
            if error.status == 404:
                return None
            raise
        self.text_of(seen, "ETag")
        return seen


def _meaning_to_writers(answer: Mapping[str, Any], _: Exception, url: str) -> Exception:
    code = str(answer.get("Error", {}).get("Code", ""))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0
    text = f"{code}: {answer.get('Error', {}).get('Message', '')}"
    if code == "NoSuchBucket":
        return no_such_file(url, text)
    if status in TRANSIENT_STATUS or code in TRANSIENT_CODES | DAMAGED_CODES:
        return Transient(text, url=url, retry_after_s=asked_wait_s(answer))
    if is_of_credentials(status, code):
        return not_permitted(url, text)
    return Refused(text, code, status, url=url)
