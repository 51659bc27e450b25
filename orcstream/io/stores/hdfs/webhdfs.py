"""WebHDFS, the HTTP interface of HDFS: its calls, asynchronous, each one request or two.

Knows the REST interface as Hadoop documents it, and HttpFS, which speaks the same. Must not know what the
bytes mean, nor when a call may be repeated: that is for whoever calls to judge. Who is asked, and as whom, is
`io.stores.hdfs.webhdfs_connection`'s to find out. Errors are those of `io.stores.hdfs.calls`.

The NameNode answers names; bytes travel to and from a DataNode, which it names in an answer (servers that
know `noredirect`) or a redirect (others). HttpFS may serve the bytes itself. The address of a DataNode holds
the user's name or token, so it is never shown. Of several NameNodes one is active: a stand-by one says so,
before it does anything, and then the next one is asked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import yarl

from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import OrcError, SourceError
from orcstream.io.contract.byte_source import (
    TRANSIENT_STATUS,
    Transient,
    not_permitted,
    retry_after_s,
    short_read,
)
from orcstream.io.stores.hdfs.calls import (
    Appending,
    FileStatus,
    HdfsRefusal,
    StandBy,
    error_of,
)
from orcstream.io.stores.hdfs.hadoop_rest import HEADERS, SHORT_BYTES, Reply, exchange, member
from orcstream.io.stores.hdfs.webhdfs_connection import HdfsConnection, avoids_all, transfer_address
from orcstream.io.urls import is_utf8

PREFIX: Final = "/webhdfs/v1"
# A page of a listing is 1,000 names unless the server was told otherwise; the rest are smaller.
LISTING_BYTES = 64 << 20
LONGEST: Final = (1 << 63) - 1
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


class WebHdfs:
    """The calls; see `io.stores.hdfs.calls.Hdfs`. `url` is what errors name, without credentials.

    A request of whose answer nothing arrives for `stall_timeout_s` seconds has failed.
    """

    appends = True

    def __init__(self, connection: HdfsConnection, url: str, stall_timeout_s: float | None = None) -> None:
        self._connection = connection
        self._url = url
        self._stall_timeout_s = stall_timeout_s

    async def read(self, path: str, offset: int, length: int) -> BytesLike:
        asked = ByteRange(offset, offset + length)
        try:
            wanted = {"offset": str(offset), "length": str(length), "noredirect": "true"}
            reply = await self._ask_for_node("GET", "OPEN", path, wanted, max(length, SHORT_BYTES))
            node = self._node(reply)
            if node is not None:
                reply = await self._exchange_with("GET", node, path, offset, None, length)
        except HdfsRefusal as error:
            if "out of the range" in error.message:
                raise short_read(asked, "the file ends before", self._url) from error
            raise
        if reply.status != 200:
            raise self._senseless(f"bytes were asked for, and the status is {reply.status}")
        if len(reply.body) != length:
            raise short_read(asked, f"{len(reply.body)} arrived", self._url)
        return reply.body

    async def create(self, path: str, *, overwrite: bool = False, permission: str = "") -> Appending:
        # aiohttp sends such a request a second time by itself where the first was not answered. So one
        # without `overwrite` may find its own file; and it has no bytes, which would have to be sent again.
        options = {"permission": permission} if permission else {}
        options["overwrite"] = "true" if overwrite else "false"
        await self._send("PUT", "CREATE", path, b"", options)
        return Appending(self, path)

    async def append(self, path: str, data: BytesLike) -> None:
        await self._send("POST", "APPEND", path, data, {})

    async def truncate(self, path: str, length: int) -> None:
        await self._ask("POST", "TRUNCATE", path, {"newlength": str(length)})

    async def rename(self, path: str, target: str, *, overwrite: bool) -> None:
        # `FileNotFoundError` may also mean that the file was renamed by a first request, as with `create`.
        options = {"destination": target, "renameoptions": "OVERWRITE" if overwrite else "NONE"}
        reply = await self._ask("PUT", "RENAME", path, options)
        # Servers without options (HttpFS) answer that they did not rename with success and "false".
        if reply.body and not self._boolean(reply):
            raise HdfsRefusal("the file was not renamed", url=self._url)

    async def delete(self, path: str, *, recursive: bool = False) -> bool:
        options = {"recursive": "true" if recursive else "false"}
        reply = await self._ask("DELETE", "DELETE", path, options)
        return self._boolean(reply)

    async def make_folder(self, path: str) -> None:
        """Make a folder and those above it; one that is there already stays."""
        if not self._boolean(await self._ask("PUT", "MKDIRS", path, {})):
            raise HdfsRefusal("the folder was not made", url=self._url)

    async def status(self, path: str) -> FileStatus:
        reply = await self._ask("GET", "GETFILESTATUS", path, {})
        return self._status(member(self._json(reply), "FileStatus"))

    async def list_folder(self, path: str) -> list[FileStatus]:
        """What is in a folder, a page at a time; for a file, its status without a name."""
        found: list[FileStatus] = []
        after: dict[str, str] = {}
        seen = {""}
        while True:
            reply = await self._ask("GET", "LISTSTATUS_BATCH", path, after, LISTING_BYTES)
            listing = member(self._json(reply), "DirectoryListing")
            page = member(member(member(listing, "partialListing"), "FileStatuses"), "FileStatus")
            if not isinstance(page, list):
                raise self._senseless("a listing that is none")
            found += [self._status(one) for one in page]
            if any(one.is_folder and not one.name for one in found[-len(page) :]):
                raise self._senseless("a folder without a name")  # who went into it would never come back
            if not self._number(member(listing, "remainingEntries")):
                return found
            # The NameNode knows the first only, HttpFS the second.
            if not page or found[-1].name in seen:
                raise self._senseless("a listing that does not go on")
            seen.add(found[-1].name)
            after = dict.fromkeys(("startafter", "startAfter"), found[-1].name)

    async def _send(
        self, method: str, op: str, path: str, data: BytesLike, options: Mapping[str, str]
    ) -> None:
        reply = await self._ask_for_node(method, op, path, {**options, "noredirect": "true"})
        node = self._node(reply)
        if node is None:
            raise self._senseless("no DataNode was named")
        reply = await self._exchange_with(method, node, path, 0, data, SHORT_BYTES)
        if reply.status not in (200, 201):
            raise self._senseless(f"bytes were sent, and the status is {reply.status}")

    async def _ask_for_node(
        self, method: str, op: str, path: str, options: Mapping[str, str], most_bytes: int = SHORT_BYTES
    ) -> Reply:
        """One request to the NameNode that a DataNode is to carry out: one that answered before."""
        avoided = self._connection.avoided.option()
        try:
            return await self._ask(method, op, path, {**options, **avoided}, most_bytes)
        except HdfsRefusal as error:
            if not avoids_all(error.message, avoided):
                raise
            self._connection.avoided.clear()
            raise Transient(f"no DataNode is left: {error.message}", url=self._url) from error

    async def _exchange_with(
        self, method: str, node: _Node, path: str, offset: int, data: BytesLike | None, most_bytes: int
    ) -> Reply:
        """One request to a DataNode; one that fails is left out from now on."""
        try:
            return await self._exchange(method, node.target, data, most_bytes)
        except Transient:
            with suppress(
                OrcError, OSError
            ):  # HttpFS does not know the call, and there is one answer already
                wanted = {"offset": str(offset), "length": "1"}
                reply = await self._ask("GET", "GET_BLOCK_LOCATIONS", path, wanted, LISTING_BYTES)
                address = transfer_address(self._json(reply), node.named)
                if address is not None:
                    self._connection.avoided.add(address)
            raise

    async def _ask(
        self,
        method: str,
        op: str,
        path: str,
        options: Mapping[str, str],
        most_bytes: int = SHORT_BYTES,
    ) -> Reply:
        """One request to the NameNode that is active."""
        query = urlencode([("op", op), *self._connection.identity, *options.items()], quote_via=quote)
        for is_last in [*[False] * (len(self._connection.name_nodes) - 1), True]:
            origin = self._connection.name_nodes[0]
            target = yarl.URL(f"{origin}{PREFIX}{quote(path)}?{query}", encoded=True)
            try:
                return await self._exchange(method, target, None, most_bytes)
            except Transient as error:
                self._connection.pass_over(origin)
                # Others may have been carried out: whoever calls knows whether to ask again.
                if is_last or not isinstance(error, StandBy):
                    raise
        raise AssertionError("the last one answers or raises")

    async def _exchange(
        self, method: str, target: yarl.URL, data: BytesLike | None, most_bytes: int
    ) -> Reply:
        """One request, and its answer of at most `most_bytes`; refusals are raised."""
        headers = HEADERS if data is None else {**HEADERS, "Content-Type": "application/octet-stream"}
        # DataNodes are not told the password; a gateway that stands for all of them is asked again.
        if target.origin() in self._connection.name_nodes:
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

    def _node(self, reply: Reply) -> _Node | None:
        """The DataNode to ask; None where the answer is the bytes themselves."""
        if 300 <= reply.status < 400:
            text = reply.headers.get("Location")
        elif reply.is_json:
            text = member(self._json(reply), "Location")
        else:
            return None
        target = _location_of(text, self._connection, self._connection.data_proxy)
        if target is None:
            raise self._senseless("a redirect to nowhere")
        return _Node(target, _location_of(text, self._connection) or target)

    def _refusal(self, reply: Reply) -> Exception:
        """What a refusal means. Statuses alone are not believed to say that a file is missing."""
        kind, reason = reply.refusal()
        error = error_of(kind, reason, self._url)
        if isinstance(error, PermissionError) or (not kind and reply.status in (401, 403, 407)):
            said = reason.partition(": ")[2] if kind else ""
            return not_permitted(self._url, "; ".join(filter(None, (said, self._connection.note))))
        if error is not None:
            return error
        if reply.status in TRANSIENT_STATUS:
            return Transient(reason, url=self._url, retry_after_s=retry_after_s(reply.headers))
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
        if not isinstance(name, str) or "/" in name or name in (".", "..") or not is_utf8(name):
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
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST:
            raise self._senseless("a number that is none")
        return value

    def _senseless(self, what: str) -> SourceError:
        return SourceError(f"not an answer of WebHDFS: {what}", url=self._url)


@dataclass(frozen=True, slots=True)
class _Node:
    """A DataNode: where to reach it, and the address that the NameNode has."""

    target: yarl.URL
    named: yarl.URL


def _location_of(
    text: object, connection: HdfsConnection, data_proxy: Callable[[str], str] = str
) -> yarl.URL | None:
    """The address as it is meant: the NameNode escapes most of a path, but not all."""
    if not isinstance(text, str):
        return None
    try:
        escaped = quote(data_proxy(text), safe=PRINTABLE)
        location = connection.name_nodes[0].join(yarl.URL(escaped, encoded=True))
        usable = location.scheme in ("http", "https") and location.host and location.port
    except ValueError:
        return None
    return location if usable else None
