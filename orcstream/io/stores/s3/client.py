"""The client of S3, what URLs and storage options mean to it, and what its refusals stand for.

Knows the words of s3fs and botocore.
"""
# ruff: noqa: SLF001 - the asynchronous interface of s3fs is spelled with underscores

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import yarl
from aiobotocore.session import AioSession
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError
from botocore.utils import get_environ_proxies
from s3fs import S3FileSystem

from orcstream._keywords import unknown_option
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import (
    TRANSIENT_STATUS,
    Transient,
    no_such_file,
    not_permitted,
    retry_after_s,
)
from orcstream.io.loop.clients import Lease, lease_client, tls_of
from orcstream.io.loop.sockets import socket_factory
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.stores.fsspec.source import cause_of, translate_error
from orcstream.io.urls import StoreUrl

T = TypeVar("T")

CONNECTION_CAP = 256
NO_CREDENTIALS = "no credentials were found: give storage_options key and secret, profile, or anon=True"
VERSION = "?versionId="
CUSTOMER = "SSECustomer"
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
    patterns: dict[str, tuple[Any, float]] = field(default_factory=dict)
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
        tls = await tls_of(verify, "verify", shown)
        connector = aiohttp.TCPConnector(limit=CONNECTION_CAP, ssl=tls, socket_factory=socket_factory)
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


async def find_place(target: StoreUrl, *, is_meant: Callable[[S3Place], bool], form: str) -> S3Place:
    """The place, if it is of the form that is meant; `UsageError` else, and for options that are refused."""
    merged = {**S3FileSystem._get_kwargs_from_urls(target.url), **target.options}
    try:
        lease = await lease_s3(merged, target.shown)
    except UsageError as error:
        raise error.locate(url=target.shown) from None
    except (BotoCoreError, TypeError, ValueError, KeyError) as error:
        raise options_refused(error, target.shown) from error
    place = S3Place(lease, *object_of(lease.client.filesystem, target.url))
    if not is_meant(place):
        await lease.aclose()
        raise UsageError(form, url=target.shown)
    return place


def object_of(filesystem: Any, url: str) -> tuple[str, str, str | None]:
    """Bucket, key and version that a URL names; a version counts whatever the options say of versions."""
    bucket, key, _ = filesystem.split_path(url)
    return bucket, key, url.partition(VERSION)[2] or None


def arguments_of(bucket: str, key: str, version: str | None) -> dict[str, str]:
    """What requests about an object name it by."""
    return {"Bucket": bucket, "Key": key} | ({"VersionId": version} if version else {})


def with_customer_key(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`s3_additional_kwargs` for every kind of request, where they hold a key of the customer's (SSE-C).

    botocore encodes such a key for most requests and leaves it alone in the others, and it does not know that
    what is copied has been encrypted by the same key. A key that comes with its MD5 is encoded already.
    """
    made = dict(parameters)
    key = made.get(f"{CUSTOMER}Key")
    if key is None:
        return made
    if not isinstance(key, bytes | str):
        raise UsageError(
            f"s3_additional_kwargs: {CUSTOMER}Key must be bytes or text, not {type(key).__name__}"
        )
    if f"{CUSTOMER}KeyMD5" not in made:
        data = key.encode() if isinstance(key, str) else key
        made[f"{CUSTOMER}Key"] = base64.b64encode(data).decode()
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        made[f"{CUSTOMER}KeyMD5"] = base64.b64encode(digest).decode()
    for name in ("Algorithm", "Key", "KeyMD5"):
        if f"{CUSTOMER}{name}" in made:
            made[f"CopySource{CUSTOMER}{name}"] = made[f"{CUSTOMER}{name}"]
    return made


def options_refused(error: Exception, url: str) -> UsageError:
    """What s3fs or botocore make of storage options that they do not know, or that cannot be."""
    # s3fs hands on what it does not know, and the names of who refuses it say nothing.
    return UsageError(
        f"no S3 client: {unknown_option(error) or error}; storage_options are those of s3fs: key, secret, "
        "token, profile, anon, endpoint_url, client_kwargs, config_kwargs, …",
        url=url,
    )


def parameter_refused(error: ParamValidationError, url: str) -> UsageError:
    """What botocore makes of `s3_additional_kwargs`, without their values: there are secrets among them.

    And of the bucket.
    """
    if "Invalid bucket name" in str(error):
        return UsageError(
            "this is no name of a bucket; an S3 URL is s3://bucket/key, and credentials are given as "
            "storage_options key and secret",
            url=url,
        )
    names = ", ".join(sorted(set(re.findall(r"parameter (?:in input: )?\"?([\w.]+)", str(error)))))
    return UsageError(f"s3_additional_kwargs are not what S3 takes: {names or 'see its API'}", url=url)


async def guarded(
    call: Callable[[], Awaitable[T]],
    url: str,
    meaning: Callable[[Mapping[str, Any], Exception, str], Exception] | None = None,
) -> T:
    """What a call through s3fs answers. `meaning` says what a refusal is; those of `ByteSource` else."""
    try:
        return await call()
    except (SourceError, Unsupported, UsageError):
        raise
    except NoCredentialsError as error:
        raise not_permitted(url, NO_CREDENTIALS) from error
    except ParamValidationError as error:
        raise parameter_refused(error, url) from None
    except Exception as error:
        answer = answer_of(error)
        if answer is None or (meaning is None and status_of(answer) is None):
            raise translate_error(error, url) from cause_of(error)
        raise (meaning or _meaning_to_readers)(answer, error, url) from error


def _meaning_to_readers(answer: Mapping[str, Any], error: Exception, url: str) -> Exception:
    return refused(status_of(answer) or 0, str(error), url, _reason(answer), asked_wait_s(answer))


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


def status_of(answer: Mapping[str, Any]) -> int | None:
    """The HTTP status of an answer that is an error; a body that says otherwise counts for more."""
    if answer.get("Error", {}).get("Code", "") in ("SlowDown", "RequestTimeout"):
        return 503
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def _reason(answer: Mapping[str, Any]) -> str:
    """The store's code and message; answers to HEAD have a status for both."""
    said = answer.get("Error", {})
    return ": ".join(filter(None, (str(said.get("Code", "")), str(said.get("Message", "")))))


def is_of_credentials(status: int, reason: str) -> bool:
    return status in (401, 403) or reason.partition(":")[0] in CREDENTIAL_CODES


def refused(status: int, text: str, url: str, reason: str, wait_s: float = 0.0) -> Exception:
    if status == 404:
        # That the object is not there is what the words say; that its bucket is not is news.
        return no_such_file(url, "" if reason.startswith("NoSuchKey") else reason)
    if is_of_credentials(status, reason):
        return not_permitted(url, reason)
    if status == 412:
        return SourceChanged("the object was replaced since it was opened", url=url)
    if status == 416:
        return ShortRead(f"the range does not lie in the object: {text}", url=url)
    if status in TRANSIENT_STATUS:
        return Transient(text, url=url, retry_after_s=wait_s)
    return SourceError(text, url=url)
