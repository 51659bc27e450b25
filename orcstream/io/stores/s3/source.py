"""S3: credentials by s3fs, bytes by plain ranged GETs on a presigned URL.

Knows s3fs's client and S3's habits. A signed request through botocore costs 1.5 ms of a core, eight times a
plain GET; so the object's URL is signed once and each request only adds `Range` and `If-Match`, which the
signature leaves out. Where that cannot be (extra signed headers, a proxy that botocore was told of) or is
refused (a policy against signed URLs, a bucket in another region), requests go through s3fs as usual.
"""
# ruff: noqa: SLF001 - the asynchronous interface of s3fs is spelled with underscores

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import anyio
import yarl
from aiobotocore.session import AioSession
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError
from botocore.utils import get_environ_proxies
from s3fs import S3FileSystem

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import (
    TRANSIENT_STATUS,
    OnBytes,
    PinnedSource,
    Suffix,
    Transient,
    check_length,
    no_such_file,
    not_permitted,
    retry_after_s,
)
from orcstream.io.loop.clients import Lease, lease_client
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.request.tls import tls_of
from orcstream.io.stores.fsspec.source import cause_of, translate_error
from orcstream.io.stores.http.ranges import ContentRange, HttpStatus, RangeClient, other_range, stall_timeout
from orcstream.io.stores.s3.options import object_of, options_refused, parameter_refused, with_customer_key
from orcstream.io.stores.s3.presign import SignedPattern, pattern_of

NO_CREDENTIALS = "no credentials were found: give storage_options key and secret, profile, or anon=True"

T = TypeVar("T")

SIGNED_FOR_S = 3600
# Signed anew after this long, so that a request that waits for its turn does not expire.
RENEWED_AFTER_S = 1800
CONNECTION_CAP = 256

# What a signed URL is refused with that botocore may still get answered: it follows buckets to their
# region, signs afresh and knows more ways to sign.
FALL_BACK_STATUS = frozenset({301, 307, 400, 403})
# Refusals that another attempt may not meet.
TRANSIENT_CODES = frozenset(
    {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted"}
)
# What S3 says of credentials with status 400.
CREDENTIAL_CODES = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})


@dataclass(slots=True)
class S3Client:
    """s3fs for signing, and a session of our own for the bytes."""

    filesystem: Any
    session: aiohttp.ClientSession
    patterns: dict[str, tuple[SignedPattern, float]] = field(default_factory=dict)
    """By bucket: how its URLs are signed, and when that was found out."""
    _proxies: dict[str, str | None] = field(default_factory=dict)

    def proxy_for(self, url: yarl.URL) -> str | None:
        """The proxy that the environment names; asked once for each host, because it reads all variables."""
        origin = f"{url.scheme}://{url.authority}"
        if origin not in self._proxies:
            self._proxies[origin] = get_environ_proxies(origin).get(url.scheme)
        return self._proxies[origin]

    async def aclose(self) -> None:
        try:
            await self.session.close()
        finally:
            creator = getattr(self.filesystem, "_s3creator", None)
            if creator is not None:
                await creator.__aexit__(None, None, None)


async def lease_s3(options: Mapping[str, Any], shown: str) -> Lease[S3Client]:
    """A share of the running loop's S3 client for these storage options."""
    return await lease_client("s3", options, lambda: _make_client(options, shown))


async def _make_client(options: Mapping[str, Any], shown: str) -> S3Client:
    config: dict[str, Any] = {
        "max_pool_connections": 64,
        "retries": {"total_max_attempts": 1, "mode": "standard"},
    }
    if "request_checksum_calculation" in Config.OPTION_DEFAULTS:
        # Newer botocore sends checksums in trailers, which many stores refuse, or take for data.
        config["request_checksum_calculation"] = "when_required"
    config |= options.get("config_kwargs") or {}
    arguments = {**options, "config_kwargs": config}
    filesystem = S3FileSystem(asynchronous=True, skip_instance_cache=True, **arguments)
    filesystem.s3_additional_kwargs = with_customer_key(filesystem.s3_additional_kwargs)
    # The scheduler tries again; attempts inside attempts multiply their waits.
    filesystem.retries = 1
    if filesystem.session is None:
        filesystem.session = _new_session(filesystem.kwargs)
    await filesystem.set_session()
    try:
        _leave_bodies_to_tls(filesystem._s3.meta)
        verify = (options.get("client_kwargs") or {}).get("verify")
        if verify is None:
            verify = filesystem.session.get_config_variable("ca_bundle")
        connector = aiohttp.TCPConnector(limit=CONNECTION_CAP, ssl=await tls_of(verify, "verify", shown))
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    except BaseException:
        await until_over(filesystem._s3creator.__aexit__(None, None, None))
        raise
    return S3Client(filesystem, session)


# What botocore's own files say of AWS's services, by where they are. To read them takes 60 ms.
_loaders: dict[str | None, Any] = {}


def _new_session(options: Mapping[str, Any]) -> AioSession:
    """A session as s3fs would make it; but those files are read for the first one only."""
    session = AioSession(**options)
    place = session.get_config_variable("data_path")
    loader = _loaders.setdefault(place, session.get_component("data_loader"))
    session.register_component("data_loader", loader)
    return session


def _leave_bodies_to_tls(meta: Any) -> None:
    """Over HTTPS bodies need no hash of their own, unless the user asks for it; botocore hashes them else."""
    if meta.endpoint_url.startswith("https:"):
        meta.config.s3 = {"payload_signing_enabled": False, **(meta.config.s3 or {})}


@dataclass(frozen=True, slots=True)
class S3Place:
    """What a URL names, with a share of the client for it; `version` is None where the URL has none."""

    lease: Lease[S3Client]
    bucket: str
    key: str
    version: str | None


async def find_place(
    url: str, options: Mapping[str, Any], shown: str, *, is_meant: Callable[[S3Place], bool], form: str
) -> S3Place:
    """The place, if it is of the form that is meant; `UsageError` else, and for options that are refused."""
    merged = {**S3FileSystem._get_kwargs_from_urls(url), **options}
    try:
        lease = await lease_s3(merged, shown)
    except UsageError as error:
        raise error.locate(url=shown) from None
    except (BotoCoreError, TypeError, ValueError, KeyError) as error:
        raise options_refused(error, shown) from error
    place = S3Place(lease, *object_of(lease.client.filesystem, url))
    if not is_meant(place):
        await lease.aclose()
        raise UsageError(form, url=shown)
    return place


async def open_s3(
    url: str, options: Mapping[str, Any], cost: CostModel, shown: str, stall_timeout_s: float
) -> S3Source:
    form = "an S3 URL is s3://bucket/key"
    place = await find_place(
        url, options, shown, is_meant=lambda one: bool(one.bucket and one.key), form=form
    )
    return S3Source(place.bucket, place.key, place.version, place.lease, cost, shown, stall_timeout_s)


@dataclass(frozen=True, slots=True, eq=False)
class _Signature:
    """A signed URL. Compared by identity: signing twice within a second gives the same text."""

    url: yarl.URL = field(repr=False)
    made_s: float


class S3Source(PinnedSource):
    """One object; every request carries the ETag of the first answer."""

    def __init__(
        self,
        bucket: str,
        key: str,
        version: str | None,
        lease: Lease[S3Client],
        cost: CostModel,
        url: str,
        stall_timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._object = {"Bucket": bucket, "Key": key} | ({"VersionId": version} if version else {})
        self._lease = lease
        self._filesystem = lease.client.filesystem
        super().__init__(cost, url)
        self._ranges = RangeClient(
            lease.client.session,
            self._pin,
            {"timeout": stall_timeout(stall_timeout_s)},
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

    async def verify(self) -> None:
        """Nothing to do: every request was conditional."""

    async def aclose(self) -> None:
        await self._lease.aclose()

    async def _ask(self, signed: Callable[[yarl.URL], Awaitable[T]], called: Callable[[], Awaitable[T]]) -> T:
        """The answer to a signed URL, or to a call through s3fs; errors are those of `ByteSource`."""
        if self._signs is not False:
            try:
                signature, is_fresh = await self._sign(None)
                if signature is not None:
                    try:
                        return await self._note(True, signed(signature.url))
                    except HttpStatus as error:
                        if is_fresh or not _is_of_credentials(error.status, error.reason):
                            raise
                    # Signed by credentials that have ended since.
                    signature, _ = await self._sign(signature)
                    if signature is not None:
                        return await self._note(True, signed(signature.url))
            except HttpStatus as error:
                if self._signs or error.status not in FALL_BACK_STATUS:
                    raise _refused(error.status, error.message, self.url, error.reason) from None
        return await self._note(False, guarded(called, self.url))

    async def _note(self, signs: bool, answer: Awaitable[T]) -> T:
        """Remember which way led to an answer, so that the other is not tried again."""
        result = await answer
        self._signs = signs
        return result

    async def _sign(self, refused: _Signature | None) -> tuple[_Signature | None, bool]:
        """A signature other than `refused` and whether it is new; None where none can be made ahead.

        Of requests that were refused together, the first has a new one made and the others use it.
        """
        async with self._signing:
            current = self._signature
            if (
                current is not None
                and current is not refused
                and self._clock() - current.made_s < RENEWED_AFTER_S
            ):
                return current, False
            # What is signed like others is as old as the first of them: refused, it may have ended.
            signature = self._sign_like_others() if refused is None else None
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
            if _status(answer_of(error) or {}) != 416:
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


async def guarded(call: Callable[[], Awaitable[T]], url: str) -> T:
    """What a call through s3fs answers; its failures as those of `ByteSource`."""
    try:
        return await call()
    except SourceError:
        raise
    except NoCredentialsError as error:
        raise not_permitted(url, NO_CREDENTIALS) from error
    except ParamValidationError as error:
        raise parameter_refused(error, url) from None
    except Exception as error:
        answer = answer_of(error) or {}
        status = _status(answer)
        if status is None:
            raise translate_error(error, url) from cause_of(error)
        raise _refused(status, str(error), url, _reason(answer), asked_wait_s(answer)) from error


def _prefer_v4(signature_version: str, **_: object) -> str | None:
    """Version 4 signatures for URLs too, where botocore still defaults to version 2 in old regions."""
    return "s3v4-query" if signature_version in ("s3v4-query", "v4-query") else None


def answer_of(error: Exception) -> Mapping[str, Any] | None:
    """The store's answer behind an error of botocore, which s3fs keeps as the cause of its own."""
    for one in (error, error.__cause__):
        if isinstance(one, ClientError):
            answer: Mapping[str, Any] = one.response
            return answer
    return None


def asked_wait_s(answer: Mapping[str, Any]) -> float:
    """How long the store asks to be left alone."""
    return retry_after_s(answer.get("ResponseMetadata", {}).get("HTTPHeaders") or {})


def _status(answer: Mapping[str, Any]) -> int | None:
    """The HTTP status of an answer that is an error; a body that says otherwise counts for more."""
    if answer.get("Error", {}).get("Code", "") in ("SlowDown", "RequestTimeout"):
        return 503
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def _reason(answer: Mapping[str, Any]) -> str:
    """The store's code and message; answers to HEAD have a status for both."""
    said = answer.get("Error", {})
    return ": ".join(filter(None, (str(said.get("Code", "")), str(said.get("Message", "")))))


def _is_of_credentials(status: int, reason: str) -> bool:
    return status in (401, 403) or reason.partition(":")[0] in CREDENTIAL_CODES


def _refused(status: int, text: str, url: str, reason: str, wait_s: float = 0.0) -> Exception:
    if status == 404:
        # That the object is not there is what the words say; that its bucket is not is news.
        return no_such_file(url, "" if reason.startswith("NoSuchKey") else reason)
    if _is_of_credentials(status, reason):
        return not_permitted(url, reason)
    if status == 412:
        return SourceChanged("the object was replaced since it was opened", url=url)
    if status == 416:
        return ShortRead(f"the range does not lie in the object: {text}", url=url)
    if status in TRANSIENT_STATUS:
        return Transient(text, url=url, retry_after_s=wait_s)
    return SourceError(text, url=url)
