"""Every other store, through its fsspec file system.

Knows `info` and `cat_file`, asynchronous and not. Asynchronous file systems run on the running loop, as
instances of our own (fsspec's cached ones belong to another loop); the others run on worker threads, which
a cancellation leaves to finish by themselves. Chains (``simplecache::s3://...``) are of the second kind.

fsspec cannot make a request conditional, so the pin is the file system's `info`, asked again by `verify`.
"""
# ruff: noqa: SLF001 - the asynchronous interface of fsspec is spelled with underscores

from __future__ import annotations

import datetime
import errno
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiohttp
import anyio
import anyio.to_thread
import fsspec
from fsspec.spec import AbstractFileSystem

from orcstream._credentials import strip_text
from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import OrcError, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import (
    TRANSIENT_STATUS,
    OnBytes,
    StatusSource,
    Transient,
    no_such_file,
    not_permitted,
    short_read,
)
from orcstream.io.loop.clients import Client, Lease, lease_client
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.urls import StoreUrl

T = TypeVar("T")

# What file systems call the things that change with a file.
VERSION_KEYS = (
    *("ETag", "etag", "e_tag", "generation", "md5Hash", "VersionId", "version_id", "fileId", "ino"),
    *("mtime", "modified", "LastModified", "last_modified", "modificationTime", "modification_time"),
    *("updated", "created"),
)
# Where they say when a file was made or changed, as a time or as seconds or milliseconds.
TIME_KEYS = (
    *("mtime", "modified", "last_modified", "LastModified", "modificationTime", "modification_time"),
    "created",
)
MILLISECONDS_FROM = 10**11
TRANSIENT_ERRNO = frozenset(
    {
        *(errno.EAGAIN, errno.EBUSY, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ECONNRESET),
        *(errno.EHOSTUNREACH, errno.EINTR, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH),
        *(errno.EPIPE, errno.EREMOTEIO, errno.ETIMEDOUT),
    }
)
# Of requests, urllib3 and botocore, none of which is imported for this.
TRANSIENT_NAMES = frozenset(
    {"ConnectionError", "Timeout", "ChunkedEncodingError", "ProtocolError", "HTTPClientError"}
    | {"IncompleteReadError", "ResponseStreamingError", "IncompleteRead", "ResponseParserError"}
)
# Where asynchronous file systems keep what has to be closed: a session of aiohttp; Azure's two clients.
CLOSEABLE = ("_session", "service_client", "credential")


class _Calls(Client, Protocol):
    """The two calls a source needs, whichever way they run."""

    async def info(self, path: str) -> Mapping[str, Any]: ...

    async def cat_file(self, path: str, start: int, stop: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class _OnLoop:
    filesystem: Any

    async def info(self, path: str) -> Mapping[str, Any]:
        self.filesystem.invalidate_cache(path)
        answer: Mapping[str, Any] = await self.filesystem._info(path)
        return answer

    async def cat_file(self, path: str, start: int, stop: int) -> Any:
        return await self.filesystem._cat_file(path, start=start, end=stop)

    async def aclose(self) -> None:
        for name in CLOSEABLE:
            close = getattr(getattr(self.filesystem, name, None), "close", None)
            if close is not None:
                closing = close()
                if inspect.isawaitable(closing):
                    await closing


@dataclass(frozen=True, slots=True)
class OnThreads:
    """A file system that is called on threads, whatever its kind."""

    filesystem: Any
    limiter: anyio.CapacityLimiter

    async def info(self, path: str) -> Mapping[str, Any]:
        def ask() -> Mapping[str, Any]:
            self.filesystem.invalidate_cache(path)
            answer: Mapping[str, Any] = self.filesystem.info(path)
            return answer

        return await self._run(ask)

    async def cat_file(self, path: str, start: int, stop: int) -> Any:
        if type(self.filesystem).cat_file is AbstractFileSystem.cat_file:
            # The inherited one opens a file that reads 5 MiB ahead for each range.
            return await self._run(lambda: self._read(path, start, stop))
        return await self._run(lambda: self.filesystem.cat_file(path, start=start, end=stop))

    def _read(self, path: str, start: int, stop: int) -> Any:
        with self.filesystem.open(path, "rb", cache_type="none") as file:
            file.seek(start)
            return file.read(stop - start)

    async def _run(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self.limiter)

    async def aclose(self) -> None:
        """Synchronous file systems close what they hold when they are collected."""


class FilesystemSource(StatusSource):
    """One path of a file system."""

    def __init__(self, lease: Lease[Any], path: str, cost: CostModel, url: str) -> None:
        self._calls: _Calls = lease.client
        super().__init__(lease, path, cost, url)

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:  # noqa: ARG002 - whole at once
        if range.length == 0:
            return b""
        # Not every file system survives a range past the end.
        if self._pin.file_length is not None and range.stop > self._pin.file_length:
            raise short_read(range, f"the file has {self._pin.file_length}", self.url)
        data = await self._guard(self._calls.cat_file(self._path, range.start, range.stop))
        view = memoryview(data).cast("B")
        if len(view) != range.length:
            await self.verify()
            raise short_read(range, f"{len(view)} arrived", self.url)
        return view

    async def _ask(self) -> tuple[int, str]:
        info = await self._guard(self._calls.info(self._path))
        size = info.get("size")
        if info.get("type") == "directory":
            raise SourceError("this is a directory", url=self.url)
        if not isinstance(size, int) or size < 0:
            raise Unsupported("the store does not say how long the file is", reason="no_length", url=self.url)
        return size, fingerprint_of(size, info)

    async def _guard(self, call: Awaitable[T]) -> T:
        with translated(self.url):
            return await call


async def lease_filesystem(target: StoreUrl) -> tuple[Lease[OnThreads], str]:
    """A share of the file system that fsspec finds by the protocol, on threads, and its path for the URL."""
    cls, arguments, path = await _found(target)
    return await _lease_on_threads(target, cls, arguments), path


async def _lease_on_threads(target: StoreUrl, cls: Any, arguments: Mapping[str, Any]) -> Lease[OnThreads]:
    async def make() -> OnThreads:
        with translated(target.shown):
            made = await run_in_thread(lambda: cls(skip_instance_cache=True, **arguments))
        return OnThreads(made, anyio.CapacityLimiter(max(target.cost.request_cap, 16)))

    lease = await lease_client(f"{target.kind}, on threads", arguments, make)
    # Whoever came first may have asked for less.
    limiter = lease.client.limiter
    limiter.total_tokens = max(limiter.total_tokens, target.cost.request_cap)
    return lease


def version_of(info: Mapping[str, Any]) -> str:
    """What a file system says of a file that changes with it; empty where it says nothing."""
    return " ".join(f"{key}={info[key]}" for key in VERSION_KEYS if info.get(key) is not None)


def fingerprint_of(size: int, info: Mapping[str, Any]) -> str:
    """The size, and what else changes with the file."""
    return f"size={size} {version_of(info)}".rstrip()


def modified_of(info: Mapping[str, Any]) -> float | None:
    """When the file was made or changed, in seconds from 1970; None where the file system does not say."""
    for key in TIME_KEYS:
        value = info.get(key)
        if isinstance(value, datetime.datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return value / 1000 if value > MILLISECONDS_FROM else float(value)
    return None


async def _found(target: StoreUrl) -> tuple[Any, dict[str, Any], str]:
    """The class of the file system, its arguments, and the path in it."""
    try:
        # On a thread: this imports the file system's package.
        cls: Any = await run_in_thread(lambda: fsspec.get_filesystem_class(target.kind))
    except (ValueError, ImportError) as error:
        raise UsageError(f"no file system for {target.kind}: {error}", url=target.shown) from error
    return cls, {**cls._get_kwargs_from_urls(target.url), **target.options}, cls._strip_protocol(target.url)


async def open_target(target: StoreUrl) -> FilesystemSource:
    """The file of a file system that fsspec finds by the protocol, or of a chain of them."""
    if target.kind == "chain":
        return await _open_chain(target)
    cls, arguments, path = await _found(target)

    async def make() -> _OnLoop:
        with translated(target.shown):
            return _OnLoop(cls(asynchronous=True, skip_instance_cache=True, **arguments))

    lease: Lease[Any]
    if cls.async_impl:
        lease = await lease_client(target.kind, arguments, make)
    else:
        lease = await _lease_on_threads(target, cls, arguments)
    return FilesystemSource(lease, path, target.cost, target.shown)


async def _open_chain(target: StoreUrl) -> FilesystemSource:
    """A chain of file systems, which fsspec takes apart; on threads, and shared as fsspec shares them."""
    with translated(target.shown):
        try:
            filesystem, path = await run_in_thread(
                lambda: fsspec.core.url_to_fs(target.url, **target.options)
            )
        except (ValueError, ImportError, TypeError) as error:
            text = f"fsspec does not understand this chain: {strip_text(str(error))}"
            raise UsageError(text, url=target.shown) from cause_of(error)
    cost = target.cost
    calls = OnThreads(filesystem, anyio.CapacityLimiter(cost.request_cap))
    return FilesystemSource(Lease(calls, calls.aclose), path, cost, target.shown)


def translate_error(error: Exception, url: str) -> Exception:
    """A foreign failure as one of ours, or the built-in error it stands for; raised from its `cause_of`."""
    if isinstance(error, OrcError | FileExistsError | IsADirectoryError):
        return error
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, aiohttp.ClientError):
        error = error.__cause__  # fsspec takes whatever fails over HTTP for a file that is missing
    status = _status_of(error)
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return no_such_file(url)
    if isinstance(error, PermissionError) or status in (401, 403):
        return not_permitted(url)
    if isinstance(error, NotImplementedError):
        return Unsupported("the store cannot do this", reason="store_cannot_read_ranges", url=url)
    text = f"{type(error).__name__}: {strip_text(str(error))}"
    names = {cls.__name__ for cls in type(error).__mro__}
    if (
        isinstance(error, TimeoutError | ConnectionError)
        or (isinstance(error, OSError) and error.errno in TRANSIENT_ERRNO)
        or (isinstance(error, aiohttp.ClientError) and not isinstance(error, aiohttp.ClientResponseError))
        or status in TRANSIENT_STATUS
        or names & TRANSIENT_NAMES
    ):
        return Transient(text, url=url)
    return SourceError(text, url=url)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Foreign failures leave the block as `translate_error` has them."""
    try:
        yield
    except Exception as error:
        found = translate_error(error, url)
        if found is error:  # it has its own cause
            raise
        raise found from cause_of(error)


def cause_of(error: BaseException) -> BaseException | None:
    """`error`, to be shown as a cause; None where it, or what is behind it, shows credentials."""
    one: BaseException | None = error
    while one is not None:
        if strip_text(str(one)) != str(one):
            return None
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return error


def _status_of(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    for holder, name in ((error, "status"), (error, "code"), (response, "status_code")):
        status = getattr(holder, name, None)
        if isinstance(status, int):
            return status
    return None
