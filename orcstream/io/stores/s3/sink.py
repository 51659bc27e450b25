"""S3: a multipart upload that is begun by us, completed at the commit and aborted on errors.

Knows the requests of an upload, made through s3fs's client: one of 8 MB costs it 2 ms of a core, so there is
nothing to win with signed URLs here. Small files are uploads too, of one part: what `prepare` has answered
must be durable, and only an upload is durable without being visible.

- Over plain HTTP the store checks each part by the SHA-256 that its signature covers; over HTTPS the
  transport does, and nothing is hashed (`payload_signing_enabled` turns it on). Checksums of newer botocore
  travel in trailers, which many stores refuse or store with the data; they are left out unless the storage
  options ask for them.
- The object carries a token in its metadata (`orcstream-write`). It tells a commit whose answer was lost from
  one that never arrived, and a second commit of an upload from that of another.
- An upload whose creation was not answered has no id to abort it by. It is looked for: same key, no parts,
  begun while the request was under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import anyio

from orcstream._credentials import strip_credentials
from orcstream.byterange import ByteRange
from orcstream.errors import (
    CommitFailed,
    SourceChanged,
    Unsupported,
    UsageError,
)
from orcstream.io.contract.byte_sink import (
    CommittingStore,
    Leftover,
    Prepared,
    SinkOptions,
    already_there,
    state_of,
)
from orcstream.io.contract.byte_source import Transient, is_transient, no_such_file
from orcstream.io.loop.uncancelled import end_task, until_over
from orcstream.io.stores.fsspec.source import translated
from orcstream.io.stores.http.ranges import ContentRange
from orcstream.io.stores.s3.calls import Refused, S3Calls
from orcstream.io.stores.s3.client import S3Place, arguments_of, find_place, object_of
from orcstream.io.urls import StoreUrl, protocol_of

TOKEN = "orcstream-write"  # noqa: S105 - a name, no secret
PART_CAP = 10_000
SMALLEST_PART_BYTES = 5 << 20
# How far our clock and the store's may be apart: signatures of requests allow for minutes, hosts in practice
# differ by less than this.
CLOCK_SKEW_S = 5.0
# A store that has taken an upload apart may need a moment until its object is there.
SETTLE_WAITS_S = (0.1, 0.3, 0.6, 1.0)
# The share of the time for an abort that the answers to such parts are waited for.
ANSWER_SHARE = 1 / 3
LOOK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class S3Part:
    """A part as the store has acknowledged it; `checksums` where the storage options ask for them."""

    number: int
    etag: str
    checksums: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class S3Upload:
    """A prepared upload. `token` is in the metadata that its object will have."""

    bucket: str
    key: str
    upload_id: str
    token: str
    parts: tuple[S3Part, ...]

    @property
    def remains(self) -> str:
        return f"upload {self.upload_id}"


class S3Store(CommittingStore[S3Upload]):
    """One key of a bucket."""

    part_cap = PART_CAP
    smallest_part_bytes = SMALLEST_PART_BYTES

    _kind = S3Upload
    _how = "as an upload to S3"

    def __init__(self, place: S3Place, url: str) -> None:
        super().__init__(place.lease, url)
        self._calls = S3Calls(place.lease.client.filesystem, place.bucket, place.key, url)

    def new_upload(self, options: SinkOptions) -> _Upload:
        return _Upload(self._calls, options)

    async def discard(self, prepared: Prepared) -> None:
        upload = state_of(prepared, self._kind, self._how)
        await self._calls.abort_upload(upload.key, upload.upload_id)

    async def cleanup(self, older_than_s: float, *, containing: str, remove: bool) -> list[Leftover]:
        """Uploads to the key, or below it as a folder; S3 does not say which program began them."""
        calls, found = self._calls, []
        folder = calls.key if calls.key.endswith("/") or not calls.key else f"{calls.key}/"
        async for upload in calls.uploads(calls.key):
            key, upload_id = upload["Key"], upload["UploadId"]
            age_s = max(0.0, time.time() - upload["Initiated"].timestamp())
            is_meant = (key == calls.key or key.startswith(folder)) and containing in key
            if is_meant and age_s >= older_than_s:
                found.append(
                    Leftover(url=f"s3://{calls.bucket}/{key}", kind="upload", identity=upload_id, age_s=age_s)
                )
        if remove:
            for one in found:
                await calls.abort_upload(one.url.removeprefix(f"s3://{calls.bucket}/"), one.identity)
        return found

    # --- committing

    async def _commit(self, state: S3Upload, prepared: Prepared) -> None:
        if not self._calls.key:
            raise UsageError("an S3 URL is s3://bucket/key", url=self._url)
        if not prepared.overwrite:
            # Some stores ignore the condition of the request; this narrows the gap where they do.
            seen = await self._look()
            if seen is not None:
                if _is_of(state, seen):
                    return
                raise already_there(self._url)
        unsettled = self._unsettled
        try:
            # Some stores that are asked to complete an upload they do not know of say that they have done so,
            # where there is an object of that name.
            await self._calls.has_parts(state.key, state.upload_id)
            self._unsettled = True
            await self._complete(state, prepared)
        except (Refused, PermissionError) as error:
            self._unsettled = unsettled
            if not isinstance(error, Refused):
                raise
            await self._judge(error, state, prepared)

    async def _complete(self, upload: S3Upload, prepared: Prepared) -> None:
        condition = {} if prepared.overwrite else {"IfNoneMatch": "*"}
        parts = [
            {"PartNumber": part.number, "ETag": part.etag, **dict(part.checksums)} for part in upload.parts
        ]
        answer = await self._calls.call(
            "complete_multipart_upload",
            Key=upload.key,
            UploadId=upload.upload_id,
            MultipartUpload={"Parts": parts},
            **condition,
        )
        # Status 200 alone is no proof: it is sent before the parts are joined.
        if not answer.get("ETag") and not _is_of(upload, await self._look()):
            raise Transient("the answer to the commit has no ETag", url=self._url)

    async def _judge(self, error: Refused, state: S3Upload, prepared: Prepared) -> None:
        """What a refusal means: an earlier attempt may have been carried out without an answer."""
        if error.status == 501 and not prepared.overwrite:
            raise Unsupported(
                "the store cannot commit under a condition, so overwrite=False cannot be kept",
                reason="no_exclusive_commit",
                url=self._url,
            ) from error
        seen = await self._look()
        # The upload may be gone because an earlier attempt, cancelled or lost, is being carried out just now.
        for wait_s in SETTLE_WAITS_S if error.code == "NoSuchUpload" else ():
            if _is_of(state, seen):
                break
            await anyio.sleep(wait_s)
            seen = await self._look()
        if _is_of(state, seen):
            return
        if seen is not None and error.status in (409, 412):
            raise already_there(self._url) from error
        if self._unsettled:
            raise self._unknown(state, error.message) from error
        raise CommitFailed(f"the store refused the commit: {error.message}", url=self._url) from error

    async def _look(self) -> Mapping[str, Any] | None:
        """What is visible; None for nothing, and for writers that may not look."""
        try:
            return await self._calls.head()
        except PermissionError:
            return None

    async def _is_carried_out(self, state: S3Upload) -> bool:
        try:
            with anyio.fail_after(LOOK_TIMEOUT_S):
                return _is_of(state, await self._calls.head())
        except (OSError, Unsupported):
            return False

    @staticmethod
    def _sign_of(state: S3Upload) -> str:
        return f"the object's metadata says {TOKEN}={state.token}"


def _is_of(upload: S3Upload, seen: Mapping[str, Any] | None) -> bool:
    """Whether the object was made by this upload."""
    token: object = ((seen or {}).get("Metadata") or {}).get(TOKEN)
    return token == upload.token


class _Upload:
    retries_parts = True

    def __init__(self, calls: S3Calls, options: SinkOptions) -> None:
        self._calls = calls
        self._create_timeout_s = min(options.timeout_s, options.abort_timeout_s)
        self._timeout_s, self._stall_timeout_s = options.timeout_s, options.stall_timeout_s
        self._answer_timeout_s = min(options.timeout_s, options.abort_timeout_s * ANSWER_SHARE)
        self._is_settled = True  # whether every part that was sent whole was answered
        self._token = uuid4().hex
        self._upload_id = ""
        self._is_gone = False
        self._parts: dict[int, S3Part] = {}
        self._lost: list[tuple[float, float]] = []  # when creations were under way that were not answered

    async def begin(self) -> None:
        if not self._calls.key:
            raise UsageError("an S3 URL is s3://bucket/key", url=self._calls.url)
        given = self._calls.filesystem.s3_additional_kwargs.get("Metadata") or {}
        started_s = time.time()
        try:
            # Its answer names what an abort needs, so the request is not cancelled.
            await until_over(self._create({**given, TOKEN: self._token}))
        except BaseException as error:
            if not isinstance(error, Exception) or is_transient(error):
                self._lost.append((started_s, time.time()))
            raise

    async def _create(self, metadata: Mapping[str, str]) -> None:
        with anyio.fail_after(self._create_timeout_s):
            answer = await self._calls.call(
                "create_multipart_upload", Key=self._calls.key, Metadata=dict(metadata)
            )
        self._upload_id = self._calls.text_of(answer, "UploadId")

    async def put(self, number: int, offset: int, data: bytes) -> None:  # noqa: ARG002
        body = _Body(data)
        answer = await self._answer_to(
            self._calls.call(
                "upload_part", Key=self._calls.key, UploadId=self._upload_id, PartNumber=number, Body=body
            ),
            body.tell,
            len(data),
        )
        self._keep(number, answer)

    def can_copy(self, source: str, fingerprint: str) -> bool:
        return protocol_of(source) in ("s3", "s3a") and fingerprint.startswith('"')

    async def put_copy(self, number: int, source: str, range: ByteRange, fingerprint: str) -> None:
        answer = await self._answer_to(
            self._of_source(
                source,
                self._calls.call(
                    "upload_part_copy",
                    Key=self._calls.key,
                    UploadId=self._upload_id,
                    PartNumber=number,
                    CopySource=self._object(source),
                    CopySourceRange=f"bytes={range.start}-{range.stop - 1}",
                    CopySourceIfMatch=fingerprint,
                ),
            ),
        )
        # There are stores that ignore the condition.
        seen = await self._of_source(source, self._calls.call("head_object", **self._object(source)))
        if self._calls.text_of(seen, "ETag") != fingerprint:
            raise SourceChanged("the object was replaced since it was opened", url=source)
        self._keep(number, answer.get("CopyPartResult") or {})

    async def fetch(self, source: str, range: ByteRange, fingerprint: str) -> bytes:
        wanted = f"bytes={range.start}-{range.stop - 1}"
        answer = await self._of_source(
            source,
            self._calls.call("get_object", **self._object(source), Range=wanted, IfMatch=fingerprint),
        )
        named = ContentRange.parse(answer.get("ContentRange"))
        async with answer["Body"] as body:
            if named is None or named.range != range:
                text = f"bytes {range.start} to {range.stop} were asked for, the answer has others"
                raise Transient(text, url=strip_credentials(source))
            with translated(strip_credentials(source)):
                data: bytes = await body.read()
        if len(data) != range.length:
            raise Transient(f"{len(data)} of {range.length} bytes arrived", url=source)
        return data

    def _object(self, source: str) -> dict[str, str]:
        return arguments_of(*object_of(self._calls.filesystem, source))

    async def _of_source(
        self, source: str, call: Coroutine[Any, Any, Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """The answer about a file that is copied, or what its refusal means."""
        shown = strip_credentials(source)
        try:
            return await call
        except Refused as error:
            if error.status == 412:
                raise SourceChanged("the object was replaced since it was opened", url=shown) from error
            if error.code in ("NoSuchKey", "NoSuchVersion"):
                raise no_such_file(shown) from error
            if error.status == 501:
                raise Unsupported(
                    "the store does not copy parts", reason="no_server_copy", url=self._calls.url
                ) from error
            raise

    def _keep(self, number: int, answer: Mapping[str, Any]) -> None:
        checksums = tuple((name, answer[name]) for name in answer if name.startswith("Checksum"))
        self._parts[number] = S3Part(number, self._calls.text_of(answer, "ETag"), checksums)

    async def _answer_to(
        self,
        call: Coroutine[Any, Any, Mapping[str, Any]],
        sent_bytes: Callable[[], int] = lambda: 0,
        length: int = 0,
    ) -> Mapping[str, Any]:
        """The answer to a part of `length` bytes. One that was sent whole is waited for even if cancelled.

        A store carries out what it has received, and may do so after it has aborted the upload, which is then
        there again. What breaks off in the middle it forgets; so does what stalls there.
        """
        request = asyncio.create_task(call)
        try:
            await self._wait_while_it_moves(request, sent_bytes, length)
            with anyio.fail_after(self._timeout_s):
                await asyncio.wait([request])
            return request.result()
        finally:
            await until_over(self._ended(request, is_sent=lambda: sent_bytes() == length))
            error = None if request.cancelled() else request.exception()
            is_lost = request.cancelled() or (isinstance(error, Exception) and is_transient(error))
            if sent_bytes() == length and is_lost:
                self._is_settled = False

    async def _ended(self, request: asyncio.Task[Any], *, is_sent: Callable[[], bool]) -> None:
        if not request.done() and is_sent():
            await asyncio.wait([request], timeout=self._answer_timeout_s)
        if not request.done():
            await end_task(request)

    async def _wait_while_it_moves(
        self, request: asyncio.Task[Any], sent_bytes: Callable[[], int], length: int
    ) -> None:
        """Until all is sent or `request` is done; `Transient` if it stands still before.

        A request that has not begun may wait for a connection, so it is given more time.
        """
        seen, still_s = 0, 0.0
        look_s = min(self._stall_timeout_s, self._timeout_s)
        while not request.done() and sent_bytes() < length:
            await asyncio.wait([request], timeout=look_s)
            still_s = still_s + look_s if sent_bytes() == seen else 0.0
            seen = sent_bytes()
            if not request.done() and still_s >= (self._stall_timeout_s if seen else self._timeout_s):
                raise Transient(f"the store took nothing for {still_s:g} s", url=self._calls.url)

    async def finish(self, length: int) -> S3Upload:  # noqa: ARG002 - each part was acknowledged
        # Who may not list uploads leaves it to the rules of the bucket: no reason to give up the file.
        with contextlib.suppress(PermissionError):
            await self._sweep_lost()
        parts = tuple(self._parts[number] for number in sorted(self._parts))
        return S3Upload(self._calls.bucket, self._calls.key, self._upload_id, self._token, parts)

    async def discard(self) -> None:
        if self._upload_id:
            await self._calls.abort_upload(self._calls.key, self._upload_id, is_settled=self._is_settled)
            self._is_gone = True
        await self._sweep_lost()

    @property
    def remains(self) -> str:
        known = [f"upload {self._upload_id}"] if self._upload_id and not self._is_gone else []
        lost = ["an upload whose creation was not answered"] if self._lost else []
        return " and ".join(known + lost)

    async def _sweep_lost(self) -> None:
        """Abort what unanswered creations may have begun."""
        calls = self._calls
        for start_s, stop_s in list(self._lost):
            async for upload in calls.uploads(calls.key):
                begun_s = upload["Initiated"].timestamp()
                if (
                    upload["Key"] == calls.key
                    and upload["UploadId"] != self._upload_id
                    and start_s - CLOCK_SKEW_S <= begun_s <= stop_s + CLOCK_SKEW_S
                    and await self._has_no_parts(upload["UploadId"])
                ):
                    await calls.abort_upload(calls.key, upload["UploadId"])
            self._lost.remove((start_s, stop_s))

    async def _has_no_parts(self, upload_id: str) -> bool:
        """Whether nothing was sent to an upload, as to every one whose creator does not know of it."""
        try:
            return await self._calls.has_parts(self._calls.key, upload_id) is False
        except Refused as error:
            if error.status == 404:
                return False
            raise


class _Body(io.BytesIO):
    """The bytes of a part as a file: aiohttp sends a file in pieces, and bytes in one go.

    It shares the bytes. A plain `io.BytesIO` copies them for `getbuffer`, which aiohttp asks for the length.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._data = data

    def getbuffer(self) -> memoryview:
        return memoryview(self._data)


async def open_target(target: StoreUrl) -> S3Store:
    """The key of a bucket; empty for a clean-up of all of it."""
    form = "an S3 URL to write to is s3://bucket/key, without a version"
    place = await find_place(target, is_meant=lambda one: bool(one.bucket) and not one.version, form=form)
    return S3Store(place, target.shown)
