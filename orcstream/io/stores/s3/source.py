"""S3: credentials by s3fs, bytes by plain ranged GETs on a presigned URL.

Knows s3fs's client and S3's habits. A signed request through botocore costs 1.5 ms of a core, eight times a
plain GET; so the object's URL is signed once and each request only adds `Range` and `If-Match`, which the
signature leaves out. Where that cannot be (extra signed headers, a proxy that botocore was told of) or is
refused (a policy against signed URLs, a bucket in another region), requests go through s3fs as usual.
"""
# ruff: noqa: SLF001 - the asynchronous interface of s3fs is spelled with underscores

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote

import anyio
import yarl

from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import ShortRead, Unsupported
from orcstream.io.contract.byte_source import LeasedSource, OnBytes, Suffix, Transient, check_length
from orcstream.io.stores.http.ranges import ContentRange, HttpStatus, RangeClient, other_range, stall_timeout
from orcstream.io.stores.s3.client import (
    S3Place,
    answer_of,
    arguments_of,
    find_place,
    guarded,
    is_of_credentials,
    refused,
    status_of,
)
from orcstream.io.urls import StoreUrl

T = TypeVar("T")

SIGNED_FOR_S = 3600
# Signed anew after this long, so that a request that waits for its turn does not expire.
RENEWED_AFTER_S = 1800

# What a signed URL is refused with that botocore may still get answered: it follows buckets to their
# region, signs afresh and knows more ways to sign.
FALL_BACK_STATUS = frozenset({301, 307, 400, 403})


@dataclass(frozen=True, slots=True, eq=False)
class _Signature:
    """A signed URL. Compared by identity: signing twice within a second gives the same text."""

    url: yarl.URL = field(repr=False)
    made_s: float


class S3Source(LeasedSource):
    """One object; every request carries the ETag of the first answer."""

    def __init__(
        self, place: S3Place, target: StoreUrl, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(place.lease, target.cost, target.shown)
        self._object = arguments_of(place.bucket, place.key, place.version)
        self._filesystem = place.lease.client.filesystem
        self._ranges = RangeClient(
            place.lease.client.session,
            self._pin,
            {"timeout": stall_timeout(target.io.stall_timeout_s)},
            has_etags=True,
        )
        self._clock = clock
        self._signing = anyio.Lock()
        self._signature: _Signature | None = None
        self._proxy: str | None = None
        self._signs: bool | None = None  # None: not tried yet

    async def fetch_suffix(self, length: int) -> Suffix:
        check_length(length)
        return await self._ask(
            lambda url: self._ranges.suffix(url, length, proxy=self._proxy),
            lambda: self._call_suffix(length),
        )

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        if range.length == 0:
            return b""
        return await self._ask(
            lambda url: self._ranges.range(url, range, on_bytes, proxy=self._proxy),
            lambda: self._call_range(range),
        )

    async def _ask(self, signed: Callable[[yarl.URL], Awaitable[T]], called: Callable[[], Awaitable[T]]) -> T:
        """The answer to a signed URL, or to a call through s3fs; errors are those of `ByteSource`."""
        if self._signs is not False:
            try:
                signature, is_fresh = await self._sign(None)
                if signature is not None:
                    try:
                        return await self._note(True, signed(signature.url))
                    except HttpStatus as error:
                        if is_fresh or not is_of_credentials(error.status, error.reason):
                            raise
                    # Signed by credentials that have ended since.
                    signature, _ = await self._sign(signature)
                    if signature is not None:
                        return await self._note(True, signed(signature.url))
            except HttpStatus as error:
                if self._signs or error.status not in FALL_BACK_STATUS:
                    raise refused(error.status, error.message, self.url, error.reason) from None
        return await self._note(False, guarded(called, self.url))

    async def _note(self, signs: bool, answer: Awaitable[T]) -> T:
        """Remember which way led to an answer, so that the other is not tried again."""
        result = await answer
        self._signs = signs
        return result

    async def _sign(self, earlier: _Signature | None) -> tuple[_Signature | None, bool]:
        """A signature other than `earlier` and whether it is new; None where none can be made ahead.

        Of requests that were refused together, the first has a new one made and the others use it.
        """
        async with self._signing:
            current = self._signature
            if (
                current is not None
                and current is not earlier
                and self._clock() - current.made_s < RENEWED_AFTER_S
            ):
                return current, False
            # What is signed like others is as old as the first of them: refused, it may have ended.
            signature = self._sign_like_others() if earlier is None else None
            is_fresh = signature is None
            if signature is None:
                text = await guarded(self._presign, self.url)
                if text is None:
                    self._signs = False
                    return None, True
                signature = _Signature(yarl.URL(text, encoded=True), self._clock())
            self._signature = signature
            self._proxy = self._lease.client.proxy_for(signature.url)
            return signature, is_fresh

    def _sign_like_others(self) -> _Signature | None:
        """As botocore signed another URL of this bucket before."""
        pattern, made_s = self._lease.client.patterns.get(self._object["Bucket"], (None, 0.0))
        if pattern is None or "VersionId" in self._object or self._clock() - made_s >= RENEWED_AFTER_S:
            return None
        return _Signature(yarl.URL(pattern.url_for(self._object["Key"]), encoded=True), made_s)

    async def _learn_pattern(self, text: str, client: Any) -> None:
        """Keep how botocore has signed, for other objects of the bucket; credentials may have changed."""
        patterns, bucket = self._lease.client.patterns, self._object["Bucket"]
        patterns.pop(bucket, None)
        credentials = getattr(client._request_signer, "_credentials", None)
        if credentials is None or "VersionId" in self._object:
            return
        secret = (await credentials.get_frozen_credentials()).secret_key
        pattern = pattern_of(text, self._object["Key"], secret)
        if pattern is not None:
            patterns[bucket] = (pattern, self._clock())

    async def _presign(self) -> str | None:
        filesystem = self._filesystem
        if {"proxies", "proxies_config", "client_cert"} & set(filesystem.config_kwargs):
            return None
        await filesystem.set_session()
        client = await filesystem.get_s3(self._object["Bucket"])
        extra = filesystem._get_s3_method_kwargs(client.get_object, filesystem.req_kw)
        if extra:
            return None  # they become headers, which a signature covers
        client.meta.events.register_first("choose-signer.s3", _prefer_v4, unique_id="orcstream")
        text: str = await client.generate_presigned_url(
            "get_object", Params=self._object, ExpiresIn=SIGNED_FOR_S
        )
        await self._learn_pattern(text, client)
        return text

    async def _call_range(self, wanted: ByteRange) -> BytesLike:
        there, _, data = await self._call(f"bytes={wanted.start}-{wanted.stop - 1}", wanted.length)
        if there != wanted:
            raise other_range(wanted, there, self.url)
        return data

    async def _call_suffix(self, length: int) -> Suffix:
        try:
            there, file_length, data = await self._call(f"bytes=-{length}", length)
        except OSError as error:
            if status_of(answer_of(error) or {}) != 416:
                raise
            await self._confirm_empty()
            return Suffix(b"", 0, self._pin.fingerprint)
        if there != ByteRange(max(0, file_length - length), file_length):
            raise Unsupported("the store knows no suffix ranges", reason="no_range_requests", url=self.url)
        return Suffix(data, file_length, self._pin.fingerprint)

    async def _confirm_empty(self) -> None:
        """Pin the source to an empty object, if the store says in a second answer that it has no bytes."""
        head = await self._filesystem._call_s3("head_object", self._filesystem.req_kw, **self._object)
        if head.get("ContentLength") != 0 or not head.get("ETag"):
            raise Transient("the store sent an empty answer for an object with bytes", url=self.url)
        self._pin.set(0, head["ETag"])

    async def _call(self, asked: str, most: int) -> tuple[ByteRange, int, bytes]:
        """The range of the answer, how long the object is, and the bytes; pins the source."""
        etag = self._pin.fingerprint
        condition = {"IfMatch": etag} if etag.startswith('"') else {}
        answer = await self._filesystem._call_s3(
            "get_object", self._filesystem.req_kw, **self._object, Range=asked, **condition
        )
        async with answer["Body"] as body:
            length = answer.get("ContentLength")
            if length == 0 and not self._pin.file_length:
                # Of an empty object there is no range, and stores differ in how they say it.
                await self._confirm_empty()
                return ByteRange(0, 0), 0, b""
            if not length:
                raise Transient("an answer without bytes", url=self.url)
            if "ContentRange" not in answer and not answer.get("ETag"):
                raise Transient("a whole body without an ETag, which is not the object", url=self.url)
            named = ContentRange.parse(answer.get("ContentRange", f"bytes 0-{length - 1}/{length}"))
            if named is None or named.range is None or named.file_length is None or length > most:
                raise Unsupported(
                    "the store does not answer ranges", reason="no_range_requests", url=self.url
                )
            data: bytes = await body.read()
        if not len(data) == length == named.range.length:
            text = f"{len(data)} of {length} bytes, said to be {named.range.length}"
            raise ShortRead(text, url=self.url)
        self._pin.set(named.file_length, answer.get("ETag", ""))
        return named.range, named.file_length, data


def _prefer_v4(signature_version: str, **_: object) -> str | None:
    """Version 4 signatures for URLs too, where botocore still defaults to version 2 in old regions."""
    return "s3v4-query" if signature_version in ("s3v4-query", "v4-query") else None


async def open_target(target: StoreUrl) -> S3Source:
    form = "an S3 URL is s3://bucket/key"
    return S3Source(
        await find_place(target, is_meant=lambda one: bool(one.bucket and one.key), form=form), target
    )


# --- AWS Signature Version 4 in its query form
#
# botocore takes 0.6 ms of a core to sign a URL; hashing alone takes a tenth. So the first URL of a bucket is
# made by botocore, and is the pattern of the others: host, path, credential, date and parameters stay, the
# key and the signature change. A pattern is only used once it has signed its own key as botocore did.


@dataclass(frozen=True, slots=True)
class SignedPattern:
    """A bucket's signed URL without its key; `query` has everything but the signature, in sorted order."""

    origin: str
    host: str
    path_prefix: str
    query: str = field(repr=False)
    date: str
    scope: str
    signing_key: bytes = field(repr=False)

    def url_for(self, key: str) -> str:
        """The signed URL of an object."""
        path = self.path_prefix + _quoted(key)
        request = f"GET\n{path}\n{self.query}\nhost:{self.host}\n\nhost\nUNSIGNED-PAYLOAD"
        digest = sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.date}\n{self.scope}\n{digest}"
        signature = hmac.new(self.signing_key, text.encode(), sha256).hexdigest()
        return f"{self.origin}{path}?{self.query}&X-Amz-Signature={signature}"


def pattern_of(signed_url: str, key: str, secret: str) -> SignedPattern | None:
    """The pattern of a URL that was signed for `key`; None where it was not signed as expected here."""
    url = yarl.URL(signed_url, encoded=True)
    parameters = dict(parse_qsl(url.raw_query_string, keep_blank_values=True))
    signature = parameters.pop("X-Amz-Signature", None)
    path, quoted = url.raw_path, _quoted(key)
    if signature is None or parameters.get("X-Amz-SignedHeaders") != "host" or not path.endswith(quoted):
        return None
    try:
        _, day, region, service, ending = parameters["X-Amz-Credential"].rsplit("/", 4)
        date = parameters["X-Amz-Date"]
    except (KeyError, ValueError):
        return None
    signing_key = f"AWS4{secret}".encode()
    for part in (day, region, service, ending):
        signing_key = hmac.new(signing_key, part.encode(), sha256).digest()
    pattern = SignedPattern(
        origin=f"{url.scheme}://{url.raw_authority}",
        host=url.raw_authority,
        path_prefix=path[: len(path) - len(quoted)],
        query="&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(parameters.items())),
        date=date,
        scope=f"{day}/{region}/{service}/{ending}",
        signing_key=signing_key,
    )
    return pattern if pattern.url_for(key).endswith(f"&X-Amz-Signature={signature}") else None


def _quoted(key: str) -> str:
    return quote(key, safe="/~")


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")
