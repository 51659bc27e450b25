"""WebHDFS, the HTTP interface of HDFS: its calls, asynchronous, each one request or two.

Knows the REST interface as Hadoop documents it, and HttpFS, which speaks the same. Must not know what the
bytes mean, nor when a call may be repeated: that is for whoever calls to judge.

The NameNode answers names; bytes travel to and from a DataNode, which it names in an answer (servers that
know `noredirect`) or a redirect (others). HttpFS may serve the bytes itself. The address of a DataNode holds
the user's name or token, so it is never shown.

Errors: `FileNotFoundError`, `PermissionError` and `FileExistsError` for what the server says was the reason;
`Transient` where another attempt may help, a stand-by NameNode or one in safe mode among it; `ShortRead` for
bytes that are missing; `HdfsRefusal` and other `SourceError` for the rest, whatever bytes the server sends.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import yarl

from orcstream.byterange import BytesLike
from orcstream.errors import ShortRead, SourceError, Unsupported, UsageError
from orcstream.io.byte_sink import already_there
from orcstream.io.byte_source import TRANSIENT_STATUS, Transient, no_such_file, not_permitted
from orcstream.io.clients import Lease, lease_client
from orcstream.io.hadoop_rest import HEADERS, SHORT_BYTES, Reply, exchange, member, new_session
from orcstream.io.tls import tls_of
from orcstream.io.urls import protocol_of

__all__ = ["FileStatus", "HdfsConnection", "HdfsRefusal", "WebHdfs", "lease_webhdfs", "place_of"]

DEFAULT_PORTS: Final = {"http": 9870, "https": 9871}
OPTIONS: Final = frozenset(
    {"host", "port", "user", "password", "token", "proxy_to", "use_https", "session_verify", "data_proxy"}
    | {"kerberos"}  # which is not asked for, where this module is
)
PREFIX: Final = "/webhdfs/v1"
# A page of a listing is 1,000 names unless the server was told otherwise; the rest are smaller.
LISTING_BYTES = 64 << 20
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

# What Java's exceptions stand for, by their class without its package.
MISSING: Final = frozenset({"FileNotFoundException", "NoSuchFileException"})
FORBIDDEN: Final = frozenset(
    {"AccessControlException", "AuthenticationException", "AuthorizationException", "InvalidToken"}
    | {"SecurityException"}
)
PASSING: Final = frozenset(
    {"StandbyException", "RetriableException", "SafeModeException", "RetryStartFileException"}
    | {"NotReplicatedYetException", "BlockMissingException", "CannotObtainBlockLengthException"}
    | {"ConnectException", "ConnectTimeoutException", "SocketTimeoutException", "SocketException"}
    | {"NoRouteToHostException", "EOFException", "ClosedChannelException", "InterruptedIOException"}
    # Somebody still writes: an earlier request of ours, where the name is ours alone.
    | {"AlreadyBeingCreatedException", "RecoveryInProgressException"}
)


class HdfsRefusal(SourceError):
    """The server refused; `kind` is the class of its exception, or empty."""

    def __init__(self, message: str, kind: str = "", *, url: str | None = None) -> None:
        super().__init__(message, url=url)
        self.kind = kind


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


@dataclass(frozen=True, slots=True)
class HdfsConnection:
    """What the users of one server and identity share: connections, and who asks."""

    session: aiohttp.ClientSession
    origin: yarl.URL
    identity: tuple[tuple[str, str], ...]
    password: Mapping[str, str]
    """The header that holds it, where there is one."""
    data_proxy: Callable[[str], str]

    async def aclose(self) -> None:
        await self.session.close()


class WebHdfs:
    """The calls. `url` is what errors name: what the user named, without credentials.

    Paths are absolute and plain, without any escapes. A request of whose answer nothing arrives for
    `stall_timeout_s` seconds has failed.
    """

    def __init__(self, connection: HdfsConnection, url: str, stall_timeout_s: float | None = None) -> None:
        self._connection = connection
        self._url = url
        self._stall_timeout_s = stall_timeout_s

    async def read(self, path: str, offset: int, length: int) -> BytesLike:
        """Exactly `length` bytes from `offset` on, which must be 1 at least; `ShortRead` otherwise."""
        try:
            wanted = {"offset": str(offset), "length": str(length), "noredirect": "true"}
            reply = await self._ask("GET", "OPEN", path, wanted, max(length, SHORT_BYTES))
            location = self._location(reply)
            if location is not None:
                reply = await self._exchange("GET", location, None, length)
        except HdfsRefusal as error:
            if "out of the range" in error.message:
                raise self._short(offset, length, "the file ends before", error) from error
            raise
        if reply.status != 200:
            raise self._senseless(f"bytes were asked for, and the status is {reply.status}")
        if len(reply.body) != length:
            raise self._short(offset, length, f"{len(reply.body)} arrived")
        return reply.body

    async def create(self, path: str, *, overwrite: bool = False, permission: str = "") -> None:
        """Make an empty file, and the folders above it; `FileExistsError` without `overwrite`.

        aiohttp sends such a request a second time by itself where the first was not answered. So one without
        `overwrite` may find its own file; and it has no bytes, which would have to be sent again.
        """
        options = {"permission": permission} if permission else {}
        options["overwrite"] = "true" if overwrite else "false"
        await self._send("PUT", "CREATE", path, b"", options)

    async def append(self, path: str, data: BytesLike) -> None:
        """Add `data` to the end, and close the file again.

        After a failure any beginning of `data` may have been added, or be added yet. While another client
        has the file open this is `Transient`, so adding nothing finds out whether one has.
        """
        await self._send("POST", "APPEND", path, data, {})

    async def truncate(self, path: str, length: int) -> None:
        """Cut a file off at `length`. Until its last block has its new length, appending is `Transient`."""
        await self._ask("POST", "TRUNCATE", path, {"newlength": str(length)})

    async def rename(self, path: str, target: str, *, overwrite: bool) -> None:
        """Give a file another name at once; a file of that name is replaced, or `FileExistsError`.

        `FileNotFoundError` may also mean that the file was renamed by a first request, as with `create`.
        """
        options = {"destination": target, "renameoptions": "OVERWRITE" if overwrite else "NONE"}
        reply = await self._ask("PUT", "RENAME", path, options)
        # Servers without options (HttpFS) answer that they did not rename with success and "false".
        if reply.body and not self._boolean(reply):
            raise HdfsRefusal("the file was not renamed", url=self._url)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        """Whether there was anything to delete."""
        options = {"recursive": "true" if recursive else "false"}
        reply = await self._ask("DELETE", "DELETE", path, options)
        return self._boolean(reply)

    async def status(self, path: str) -> FileStatus:
        reply = await self._ask("GET", "GETFILESTATUS", path, {})
        return self._status(member(self._json(reply), "FileStatus"))

    async def status_or_none(self, path: str) -> FileStatus | None:
        """The status, or None where there is nothing."""
        try:
            return await self.status(path)
        except FileNotFoundError:
            return None

    async def list_folder(self, path: str) -> list[FileStatus]:
        """What is in a folder, a page at a time; for a file, its status without a name."""
        found: list[FileStatus] = []
        after: dict[str, str] = {}
        while True:
            reply = await self._ask("GET", "LISTSTATUS_BATCH", path, after, LISTING_BYTES)
            listing = member(self._json(reply), "DirectoryListing")
            page = member(member(member(listing, "partialListing"), "FileStatuses"), "FileStatus")
            if not isinstance(page, list):
                raise self._senseless("a listing that is none")
            found += [self._status(one) for one in page]
            if not page or not self._number(member(listing, "remainingEntries")):
                return found
            following = {"startAfter": found[-1].name}
            if following == after:
                raise self._senseless("a listing that does not go on")
            after = following

    async def _send(
        self, method: str, op: str, path: str, data: BytesLike, options: Mapping[str, str]
    ) -> None:
        reply = await self._ask(method, op, path, {**options, "noredirect": "true"})
        location = self._location(reply)
        if location is None:
            raise self._senseless("no DataNode was named")
        reply = await self._exchange(method, location, data, SHORT_BYTES)
        if reply.status not in (200, 201):
            raise self._senseless(f"bytes were sent, and the status is {reply.status}")

    async def _ask(
        self,
        method: str,
        op: str,
        path: str,
        options: Mapping[str, str],
        most_bytes: int = SHORT_BYTES,
    ) -> Reply:
        """One request to the NameNode."""
        query = urlencode([("op", op), *self._connection.identity, *options.items()], quote_via=quote)
        target = yarl.URL(f"{self._connection.origin}{PREFIX}{quote(path)}?{query}", encoded=True)
        return await self._exchange(method, target, None, most_bytes)

    async def _exchange(
        self, method: str, target: yarl.URL, data: BytesLike | None, most_bytes: int
    ) -> Reply:
        """One request, and its answer of at most `most_bytes`; refusals are raised."""
        headers = HEADERS if data is None else {**HEADERS, "Content-Type": "application/octet-stream"}
        # DataNodes are not told the password; a gateway that stands for all of them is asked again.
        if target.origin() == self._connection.origin:
            headers = {**headers, **self._connection.password}
        reply = await exchange(
            self._connection.session,
            method,
            target,
            headers=headers,
            data=data,
            most_bytes=most_bytes,
            stall_timeout_s=self._stall_timeout_s,
            url=self._url,
        )
        if reply.status >= 400:
            raise self._refusal(reply)
        return reply

    def _location(self, reply: Reply) -> yarl.URL | None:
        """The address of the DataNode; None where the answer is the bytes themselves."""
        if 300 <= reply.status < 400:
            text = reply.headers.get("Location")
        elif reply.is_json:
            text = member(self._json(reply), "Location")
        else:
            return None
        location = _location_of(text, self._connection)
        if location is None:
            raise self._senseless("a redirect to nowhere")
        return location

    def _refusal(self, reply: Reply) -> Exception:
        """What a refusal means. Statuses alone are not believed to say that a file is missing."""
        kind, reason = reply.refusal()
        # Stand-by NameNodes that know no tokens yet hide their state in another exception.
        if kind in PASSING or (kind in FORBIDDEN and "StandbyException" in reason):
            return Transient(reason, url=self._url)
        if kind in MISSING:
            return no_such_file(self._url)
        if kind in FORBIDDEN or (not kind and reply.status in (401, 403, 407)):
            return not_permitted(self._url)
        if kind == "FileAlreadyExistsException":
            return already_there(self._url)
        if kind == "UnsupportedOperationException":
            return Unsupported(reason, reason="store_cannot_do_this", url=self._url)
        if reply.status in TRANSIENT_STATUS:
            return Transient(reason, url=self._url, retry_after_s=reply.retry_after_s)
        return HdfsRefusal(reason, kind, url=self._url)

    def _json(self, reply: Reply) -> Any:
        try:
            return reply.json()
        except ValueError:
            raise self._senseless("it is no JSON") from None

    def _boolean(self, reply: Reply) -> bool:
        return member(self._json(reply), "boolean") is True

    def _status(self, value: Any) -> FileStatus:
        name, permission = member(value, "pathSuffix"), member(value, "permission")
        if not isinstance(name, str) or "/" in name or name in (".", "..") or not _is_utf8(name):
            raise self._senseless("a name that is none")
        return FileStatus(
            name=name,
            is_folder=member(value, "type") == "DIRECTORY",
            length=self._number(member(value, "length")),
            modified_ms=self._number(member(value, "modificationTime")),
            file_id=self._number(member(value, "fileId") or 0),
            permission=permission if isinstance(permission, str) and permission.isdigit() else "",
        )

    def _number(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._senseless("a number that is none")
        return value

    def _senseless(self, what: str) -> SourceError:
        return SourceError(f"not an answer of WebHDFS: {what}", url=self._url)

    def _short(self, offset: int, length: int, what: str, cause: Exception | None = None) -> ShortRead:
        error = ShortRead(
            f"{length} bytes from {offset} on were asked for, {what}", url=self._url, file_offset=offset
        )
        error.__cause__ = cause
        return error


def _location_of(text: object, connection: HdfsConnection) -> yarl.URL | None:
    """The address as it is meant: the NameNode escapes most of a path, but not all."""
    if not isinstance(text, str):
        return None
    try:
        escaped = quote(connection.data_proxy(text), safe=PRINTABLE)
        location = connection.origin.join(yarl.URL(escaped, encoded=True))
        usable = location.scheme in ("http", "https") and location.host and location.port
    except ValueError:
        return None
    return location if usable else None


def _is_utf8(text: str) -> bool:
    """Whether `text` can be sent: JSON, and names of files elsewhere, may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Place:
    """A URL, taken apart: the options that it holds, and the path."""

    options: Mapping[str, Any]
    path: str


def place_of(url: str, shown: str) -> _Place:
    """The server, the user and the path of ``webhdfs://user@host:port/path``.

    The path is taken as it stands: nothing in it is an escape or a query.
    """
    scheme = protocol_of(url)
    authority, _, path = url[len(scheme) + 3 :].partition("/")
    user, _, server = authority.rpartition("@")
    options: dict[str, Any] = {"use_https": scheme == "swebhdfs"}
    if user:
        options["user"], colon, password = user.partition(":")
        options |= {"password": password} if colon else {}
    if server:
        try:
            parsed = yarl.URL(f"http://{server}")
            options["host"], port = parsed.host, parsed.explicit_port
        except ValueError:
            raise UsageError("this is no URL of WebHDFS: webhdfs://host:port/path", url=shown) from None
        options |= {"port": port} if port else {}
    if any(part in (".", "..") for part in path.split("/")) or not _is_utf8(path):
        raise UsageError("a path in HDFS is UTF-8, without '.' and '..'", url=shown)
    return _Place(options, "/" + "/".join(part for part in path.split("/") if part))


async def lease_webhdfs(options: Mapping[str, Any], shown: str) -> Lease[HdfsConnection]:
    """A share of the running loop's connections for these options.

    `options` are those of fsspec's file system of the same name, but for Kerberos.
    """
    unknown = sorted(str(name) for name in set(options) - OPTIONS)
    if unknown:
        names = ", ".join(sorted(OPTIONS))
        raise UsageError(f"storage_options: WebHDFS knows no {unknown[0]}; there are {names}", url=shown)
    if options.get("token") and options.get("user"):
        raise UsageError("storage_options: a token stands for its user; give one of the two", url=shown)
    if options.get("password") and not options.get("user"):
        raise UsageError("storage_options: a password needs its user", url=shown)
    return await lease_client("webhdfs", options, lambda: _connect(options, shown))


async def _connect(options: Mapping[str, Any], shown: str) -> HdfsConnection:
    origin = _origin(options, shown)
    data_proxy = _data_proxy(options.get("data_proxy"), shown)
    names = [("user.name", "user"), ("delegation", "token"), ("doas", "proxy_to")]
    identity = tuple((name, str(options[option])) for name, option in names if options.get(option))
    password: dict[str, str] = {}
    if options.get("password"):
        pair = f"{options['user']}:{options['password']}".encode()
        password["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    verify = options.get("session_verify")
    try:
        tls = await tls_of(verify)
    except OSError as error:
        raise UsageError(f"session_verify: no certificates in {verify}: {error}", url=shown) from error
    session = new_session(tls)
    return HdfsConnection(session, origin, identity, password, data_proxy)


def _origin(options: Mapping[str, Any], shown: str) -> yarl.URL:
    scheme = "https" if options.get("use_https") else "http"
    host = options.get("host")
    if not host:
        raise UsageError("no NameNode is named: webhdfs://host:port/path", url=shown)
    try:
        port = int(options.get("port") or DEFAULT_PORTS[scheme])
        return yarl.URL.build(scheme=scheme, host=str(host), port=port).origin()
    except (ValueError, TypeError):
        raise UsageError("the NameNode's host and port are no address", url=shown) from None


def _data_proxy(given: object, shown: str) -> Callable[[str], str]:
    """How the address of a DataNode becomes one that can be reached from here."""
    if given is None:
        return lambda location: location
    if callable(given):
        return given
    if not isinstance(given, Mapping):
        raise UsageError("storage_options: data_proxy must be a function or a dictionary", url=shown)
    replacements = dict(given)

    def replace(location: str) -> str:
        for old, new in replacements.items():
            location = location.replace(old, new, 1)
        return location

    return replace
