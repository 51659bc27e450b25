"""HDFS over its own RPC, through the package hdfs-native: the calls of `hdfs.calls`, on worker threads.

Knows hdfs-native's client and the forms of its errors. Must not know what the bytes mean, nor when a call may
be repeated. Name services, tokens, Kerberos and mount tables are the client's: it reads ``HADOOP_CONF_DIR``
by itself, and takes Hadoop's properties as storage options.

Its synchronous client is used: the asynchronous one (0.14.7) panics wherever it has to wait, for a NameNode
that does not answer or a block that is not complete. On threads a range costs the same. A call that hangs
cannot be stopped; a cancellation leaves it to finish by itself.

Nothing is appended to a file that is there. hdfs-native (0.14.7) adds to a block that has bytes without a new
generation stamp: a replica that the NameNode did not know of yet stays behind, counts as good, and later
appends are cut off at its length. So a file has one writer, open from its creation until it is closed.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import OrcError, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_sink import already_there
from orcstream.io.contract.byte_source import Transient, no_such_file, not_permitted, short_read
from orcstream.io.loop.clients import Lease, lease_client
from orcstream.io.loop.uncancelled import own_limiter, run_in_thread, until_over
from orcstream.io.stores.hdfs.calls import (
    WRITE_ANEW,
    FileStatus,
    HdfsPlace,
    HdfsRefusal,
    error_of,
)
from orcstream.io.stores.hdfs.hadoop_configuration import configuration_folder

T = TypeVar("T")

OPTIONS: Final = ("hadoop_conf_dir", "kerberos_principal", "kerberos_keytab", "kerberos_cache")
# Attempts are counted, and waited for, by whoever calls; the client is to find the active NameNode.
DEFAULTS: Final = {"dfs.client.failover.max.attempts": "4", "dfs.client.failover.sleep.base.millis": "100"}
# How long a file that nobody wants any more is waited for to be closed; it takes milliseconds.
RELEASE_S: Final = 1.0
STILL_OPEN: Final = (
    "hdfs-native does not read the last block of a file that somebody writes until it is closed, "
    "webhdfs:// does"
)
NO_APPENDS: Final = (
    "hdfs-native appends to blocks in a way that can lose acknowledged bytes, and cannot cut files off: "
    "webhdfs:// can do both"
)
# What the client reads by itself, when it is made.
ENVIRONMENT: Final = (
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER"),
    *("HADOOP_TOKEN_FILE_LOCATION", "KRB5CCNAME", "KRB5_CONFIG"),
)
JAVA_EXCEPTION: Final = re.compile(r"(?:Fatal)?RPC ?[Ee]rror\W+(?:[\w$]+\.)*(\w+)\W+(.*)")
# The client's own kinds of failure, by the beginning of its texts; all others may pass.
FORBIDDEN: Final = ("SASLError", "GSSAPIError", "NoSASLMechanism")
LASTING: Final = (
    *("InvalidPath", "InvalidArgument", "UrlParseError", "XmlParseError", "OperationFailed"),
    *("UnsupportedErasureCodingPolicy", "UnsupportedFeature"),
)
REASON_CHARACTERS = 300


class NativeConnection:
    """A client of one cluster; it closes what it holds when it is collected."""

    def __init__(self, client: Any, package: Any) -> None:
        self.client = client
        self.package = package

    async def aclose(self) -> None:
        """Nothing that could be closed."""


class HdfsNative:
    """The calls; see `io.stores.hdfs.calls.Hdfs`. `url` is what errors name."""

    appends = False

    def __init__(self, connection: NativeConnection, url: str) -> None:
        self._client = connection.client
        self._package = connection.package
        self._url = url
        # The file that was read last, with the places of its blocks: each range saves a call.
        self._reader: tuple[str, Any] | None = None

    async def read(self, path: str, offset: int, length: int) -> BytesLike:
        def work() -> bytes:
            known, stop = self._reader, offset + length
            # What was opened does not grow with its file.
            is_usable = known is not None and known[0] == path and len(known[1]) >= stop
            reader = known[1] if known is not None and is_usable else self._client.read(path)
            if len(reader) < stop:  # it panics past the end
                if self._client.get_file_info(path).length >= stop:
                    raise Transient(STILL_OPEN, url=self._url)
                raise short_read(ByteRange(offset, stop), f"the file has {len(reader)}", self._url)
            try:
                data: bytes = reader.read_range(offset, length)
            except BaseException:
                self._reader = None  # blocks move
                raise
            self._reader = (path, reader)
            return data

        data = await self._run(work)
        if len(data) != length:
            raise short_read(ByteRange(offset, offset + length), f"{len(data)} arrived", self._url)
        return data

    async def create(self, path: str, *, overwrite: bool = False, permission: str = "") -> _Writer:
        options = self._package.WriteOptions(
            overwrite=overwrite,
            create_parent=True,
            **({"permission": int(permission, 8)} if permission else {}),
        )

        def work() -> Any:
            writer = self._client.create(path, options)
            # Its finalizer would close the file, on any thread, and wait 15 seconds for a broken one. So it
            # counts as closed for Python; the methods of hdfs-native's class do not look at that.
            io.RawIOBase.close(writer)
            return writer

        return _Writer(await self._run(work), self._url)

    async def append(self, path: str, data: BytesLike) -> None:  # noqa: ARG002 - of the contract
        raise Unsupported(NO_APPENDS, reason="store_cannot_do_this", url=self._url)

    async def truncate(self, path: str, length: int) -> None:  # noqa: ARG002 - of the contract
        raise Unsupported(NO_APPENDS, reason="store_cannot_do_this", url=self._url)

    async def rename(self, path: str, target: str, *, overwrite: bool) -> None:
        await self._run(lambda: self._client.rename(path, target, overwrite))

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        deleted: bool = await self._run(lambda: self._client.delete(path, recursive))
        return deleted

    async def status(self, path: str) -> FileStatus:
        return _status(await self._run(lambda: self._client.get_file_info(path)), "")

    async def list_folder(self, path: str) -> list[FileStatus]:
        found = await self._run(lambda: list(self._client.list_status(path, False)))
        return [_status(one, "" if one.path == path else posixpath.basename(one.path)) for one in found]

    async def _run(self, work: Callable[[], T]) -> T:
        return await _on_thread(work, self._url)


class _Writer:
    """One file that is open for writing; see `HdfsWriter`. After a failure nothing can be added."""

    def __init__(self, writer: Any, url: str) -> None:
        self._writer = writer
        self._url = url
        # What was cancelled is still at work on the file, and is waited for by what comes next.
        self._lock = threading.Lock()

    async def write(self, data: BytesLike) -> None:
        await self._run(lambda writer: writer.write(data))

    async def close(self) -> None:
        await self._run(lambda writer: writer.close())

    async def release(self) -> None:
        def work() -> None:
            with self._lock:
                # Only a close ends its connections at once, also where the file is deleted already.
                writer, self._writer = self._writer, None
                if writer is not None:
                    writer.close()

        async def bounded() -> None:
            with anyio.move_on_after(RELEASE_S), suppress(Exception):
                await _on_thread(work, self._url)

        await until_over(bounded())

    async def _run(self, use: Callable[[Any], object]) -> None:
        def work() -> None:
            with self._lock:
                if self._writer is None:
                    raise SourceError(f"the upload was interrupted. {WRITE_ANEW}", url=self._url)
                try:
                    use(self._writer)
                except BaseException:
                    self._writer = None
                    raise

        try:
            await _on_thread(work, self._url)
        except Transient as error:
            raise SourceError(f"{error.message}. {WRITE_ANEW}", url=self._url) from error


def _status(found: Any, name: str) -> FileStatus:
    return FileStatus(
        name=name,
        is_folder=found.isdir,
        length=found.length,
        modified_ms=found.modification_time,
        file_id=0,
        permission=f"{found.permission:o}",
    )


async def lease_hdfs_native(
    place: HdfsPlace, options: Mapping[str, Any], shown: str
) -> Lease[NativeConnection]:
    """A share of the running loop's client for the cluster of a URL, these options and the environment."""
    for name in ("user", "password", "token"):
        if name in options or name in place.options:
            raise UsageError(
                f"hdfs-native takes no {name} from the URL or storage_options: set HADOOP_USER_NAME or "
                "HADOOP_TOKEN_FILE_LOCATION, or use webhdfs://",
                url=shown,
            )
    for name, value in options.items():
        if name not in OPTIONS and ("." not in str(name) or not isinstance(value, str)):
            raise UsageError(
                f"storage_options: {name!r} is no property of Hadoop's with a text for its value, nor one of "
                + ", ".join(OPTIONS),
                url=shown,
            )
    settings = {
        "protocol": place.protocol,
        "host": place.options.get("host"),
        "port": place.options.get("port"),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
    }
    return await lease_client("hdfs-native", {**settings, **options}, lambda: _connect(place, options, shown))


async def _connect(place: HdfsPlace, options: Mapping[str, Any], shown: str) -> NativeConnection:
    try:
        package = await run_in_thread(_imported)
    except ImportError as error:
        raise UsageError(
            f"{place.protocol}:// needs hdfs-native: pip install 'orcstream[hdfs]'; or use webhdfs://",
            url=shown,
        ) from error
    host, port = place.options.get("host"), place.options.get("port")
    # Without a host the client takes fs.defaultFS.
    address = f"{place.protocol}://{host}{f':{port}' if port else ''}" if host else None
    properties = {name: value for name, value in options.items() if name not in OPTIONS}
    kerberos = {name: options[name] for name in OPTIONS[1:] if options.get(name)}

    def work() -> Any:
        folder = None
        if options.get("hadoop_conf_dir") is not None:
            folder = configuration_folder(options["hadoop_conf_dir"], {})
        return package.Client(address, {**DEFAULTS, **properties}, folder, **kerberos)

    try:
        return NativeConnection(await _on_thread(work, shown), package)
    except SourceError as error:
        if isinstance(error, Transient):
            raise
        raise UsageError(f"no cluster: {error.message}", url=shown) from error


def _imported() -> Any:
    import hdfs_native

    return hdfs_native


async def _on_thread(work: Callable[[], T], url: str) -> T:
    def guarded() -> T:
        try:
            return work()
        except Exception:
            raise
        except BaseException as error:
            # A panic in Rust is none of Python's exceptions, and would end the program.
            raise SourceError(f"hdfs-native failed: {_short(error)}", url=url) from error

    try:
        return await anyio.to_thread.run_sync(guarded, abandon_on_cancel=True, limiter=own_limiter())
    except OrcError as error:
        raise error.locate(url=url) from error.__cause__
    except Exception as error:
        raise _translate(error, url) from error


def _translate(error: Exception, url: str) -> Exception:
    """A failure of hdfs-native as one of ours, or the built-in error it stands for."""
    if isinstance(error, FileNotFoundError):
        return no_such_file(url)
    if isinstance(error, FileExistsError):
        return already_there(url)
    if isinstance(error, IsADirectoryError):
        return SourceError("this is a directory", url=url)
    reason = _short(error)
    if isinstance(error, PermissionError):
        return not_permitted(url, reason)
    java = JAVA_EXCEPTION.match(reason)
    if java is not None:
        kind, text = java[1], f"{java[1]}: {java[2]}"
        return error_of(kind, text, url) or HdfsRefusal(text, kind, url=url)
    if isinstance(error, UnicodeError | ValueError | TypeError) or reason.startswith(LASTING):
        return SourceError(reason, url=url)
    if reason.startswith(FORBIDDEN):
        return not_permitted(url, reason)
    return Transient(reason, url=url)


def _short(error: BaseException) -> str:
    """The first line; what follows is Java's stack."""
    first = str(error).replace("\\n", "\n").replace('\\"', '"').partition("\n")[0]
    return first[:REASON_CHARACTERS] or type(error).__name__
