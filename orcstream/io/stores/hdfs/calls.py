"""HDFS, whichever way it is asked: the calls that reading and writing need, and what its refusals mean.

Knows Java's exceptions by their names, and paths. Must not know how a call travels: that is
`io.stores.hdfs.webhdfs`'s (HTTP) and `io.stores.hdfs.native`'s (RPC) business.

Errors: `FileNotFoundError`, `PermissionError` and `FileExistsError` for what the server says was the reason;
`Transient` where another attempt may help, a stand-by NameNode or one in safe mode among it; `ShortRead` for
bytes that are missing; `HdfsRefusal` and other `SourceError` for the rest, whatever bytes the server sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import yarl

from orcstream.byterange import BytesLike
from orcstream.errors import SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_sink import already_there
from orcstream.io.contract.byte_source import Transient, no_such_file, not_permitted
from orcstream.io.urls import is_utf8, protocol_of

# What Java's exceptions stand for, by their class without its package.
MISSING: Final = frozenset({"FileNotFoundException", "NoSuchFileException"})
FORBIDDEN: Final = frozenset(
    {"AccessControlException", "AuthenticationException", "AuthorizationException", "InvalidToken"}
    | {"SecurityException"}
)
PASSING: Final = frozenset(
    {"RetriableException", "SafeModeException", "RetryStartFileException"}
    | {"NotReplicatedYetException", "BlockMissingException", "CannotObtainBlockLengthException"}
    | {"ConnectException", "ConnectTimeoutException", "SocketTimeoutException", "SocketException"}
    | {"NoRouteToHostException", "EOFException", "ClosedChannelException", "InterruptedIOException"}
    # Somebody still writes: an earlier request of ours, where the name is ours alone.
    | {"AlreadyBeingCreatedException", "RecoveryInProgressException"}
)

# Of an append to a block whose second copy is on its way, which Java says in an exception of no kind.
WAIT_FOR_COPIES: Final = "not sufficiently replicated yet"


WRITE_ANEW: Final = (
    "hdfs-native does not continue an interrupted file. If a DataNode is down, the NameNode names it for ten "
    "more minutes: write the file again over webhdfs://, or later"
)


class HdfsRefusal(SourceError):
    """The server refused; `kind` is the class of its exception, or empty."""

    def __init__(self, message: str, kind: str = "", *, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.kind = kind


class StandBy(Transient):
    """The NameNode that was asked is not the active one, and did nothing."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What the NameNode knows of a file or folder.

    `name` is empty for the path that was asked about. `file_id` stays the same when a file is renamed, and
    is 0 where the server does not say; `permission` is octal text, or empty.
    """

    name: str
    is_folder: bool
    length: int
    modified_ms: int
    file_id: int
    permission: str

    @property
    def version(self) -> str:
        """Text that another content has not, and that a rename leaves as it is."""
        return f"length={self.length} modified={self.modified_ms} id={self.file_id}"


class HdfsWriter(Protocol):
    """The end of a file that was created, for one task at a time."""

    async def write(self, data: BytesLike) -> None:
        """Add `data`, some of which may still be on its way when this returns.

        After a failure any beginning of it may have been added, or be added yet.
        """

    async def close(self) -> None:
        """Every DataNode of the pipeline has everything, and the file is closed. May be called again."""

    async def release(self) -> None:
        """Give back what is held, whatever failed before or is still under way; raises nothing."""


class Hdfs(Protocol):
    """The calls. Paths are absolute and plain, without any escapes."""

    async def read(self, path: str, offset: int, length: int) -> BytesLike:
        """Exactly `length` bytes from `offset` on, which must be 1 at least; `ShortRead` otherwise."""

    @property
    def appends(self) -> bool:
        """Whether a file that is there can be added to, and cut off; the calls are `Unsupported` if not."""

    async def create(self, path: str, *, overwrite: bool = False, permission: str = "") -> HdfsWriter:
        """Make an empty file, and the folders above it; `FileExistsError` without `overwrite`."""

    async def append(self, path: str, data: BytesLike) -> None:
        """Add `data` to the end, and close the file again.

        After a failure any beginning of `data` may have been added, or be added yet. While another client
        has the file open this is `Transient`, so adding nothing finds out whether one has.
        """

    async def truncate(self, path: str, length: int) -> None:
        """Cut a file off at `length`. Until its last block has its new length, appending is `Transient`."""

    async def rename(self, path: str, target: str, *, overwrite: bool) -> None:
        """Give a file another name at once; a file of that name is replaced, or `FileExistsError`."""

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Whether there was anything to delete."""

    async def status(self, path: str) -> FileStatus: ...

    async def list_folder(self, path: str) -> list[FileStatus]:
        """What is in a folder; for a file, its status without a name."""


async def status_or_none(hdfs: Hdfs, path: str) -> FileStatus | None:
    """The status, or None where there is nothing."""
    try:
        return await hdfs.status(path)
    except FileNotFoundError:
        return None


async def list_or_none(hdfs: Hdfs, path: str) -> list[FileStatus] | None:
    """What is in a folder, or None where there is nothing of that name."""
    try:
        return await hdfs.list_folder(path)
    except FileNotFoundError:
        return None


class Appending:
    """A writer where files are appended to: each write is an append, which closes the file again."""

    def __init__(self, hdfs: Hdfs, path: str) -> None:
        self._hdfs = hdfs
        self._path = path

    async def write(self, data: BytesLike) -> None:
        await self._hdfs.append(self._path, data)

    async def close(self) -> None:
        """It is closed already."""

    async def release(self) -> None:
        """Nothing is held."""


def error_of(kind: str, reason: str, url: str) -> Exception | None:
    """The error that stands for an exception of Java's, by its class; None for one that says too little."""
    # Stand-by NameNodes that know no tokens yet hide their state in another exception.
    if kind == "StandbyException" or (kind in FORBIDDEN and "StandbyException" in reason):
        return StandBy(reason, url=url)
    if kind in PASSING or WAIT_FOR_COPIES in reason:
        return Transient(reason, url=url)
    if kind in MISSING:
        return no_such_file(url)
    if kind in FORBIDDEN:
        return not_permitted(url, reason.partition(": ")[2])
    if kind == "FileAlreadyExistsException":
        return already_there(url)
    if kind == "UnsupportedOperationException":
        return Unsupported(reason, reason="store_cannot_do_this", url=url)
    return None


@dataclass(frozen=True, slots=True)
class HdfsPlace:
    """A URL, taken apart: the options that it holds, and the path."""

    protocol: str
    options: Mapping[str, Any] = field(repr=False)
    path: str


def place_of(url: str, shown: str) -> HdfsPlace:
    """The server, the user and the path of ``webhdfs://user@host:port/path``, each but the path optional.

    The path is taken as it stands: nothing in it is an escape or a query.
    """
    scheme = protocol_of(url)
    authority, _, path = url[len(scheme) + 3 :].partition("/")
    user, _, server = authority.rpartition("@")
    options: dict[str, Any] = {"use_https": True} if scheme == "swebhdfs" else {}
    if user:
        options["user"], colon, password = user.partition(":")
        options |= {"password": password} if colon else {}
    if server:
        try:
            parsed = yarl.URL(f"http://{server}")
            options["host"], port = parsed.host, parsed.explicit_port
        except ValueError:
            raise UsageError(f"this is no URL of HDFS: {scheme}://host:port/path", url=shown) from None
        options |= {"port": port} if port else {}
    if any(part in (".", "..") for part in path.split("/")) or not is_utf8(path):
        raise UsageError("a path in HDFS is UTF-8, without '.' and '..'", url=shown)
    return HdfsPlace(scheme, options, "/" + "/".join(part for part in path.split("/") if part))
