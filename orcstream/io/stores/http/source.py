"""HTTP(S): an object behind a URL, read by ranges.

The session is made by fsspec's HTTP file system, so that its storage options mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import yarl

from orcstream.byterange import ByteRange, BytesLike
from orcstream.errors import SourceError, UsageError
from orcstream.io.contract.byte_source import LeasedSource, OnBytes, Suffix, no_such_file, not_permitted
from orcstream.io.loop.clients import Lease, lease_client
from orcstream.io.loop.sockets import socket_factory
from orcstream.io.stores.http.ranges import HttpStatus, RangeClient, cannot_be, stall_timeout
from orcstream.io.stores.http.redirects import new_stranger
from orcstream.io.urls import StoreUrl


@dataclass(frozen=True, slots=True)
class _HttpClient:
    filesystem: Any
    session: aiohttp.ClientSession
    stranger: aiohttp.ClientSession

    async def aclose(self) -> None:
        try:
            await self.stranger.close()
        finally:
            await self.session.close()


async def _make_client(options: Mapping[str, Any]) -> _HttpClient:
    from fsspec.implementations.http import HTTPFileSystem

    filesystem = HTTPFileSystem(asynchronous=True, skip_instance_cache=True, **options)
    if "connector" not in filesystem.client_kwargs and "get_client" not in options:
        connector = aiohttp.TCPConnector(socket_factory=socket_factory)
        filesystem.client_kwargs = {**filesystem.client_kwargs, "connector": connector}
    session = await filesystem.set_session()
    return _HttpClient(filesystem, session, new_stranger(session, filesystem.client_kwargs))


async def open_target(target: StoreUrl) -> HttpSource:
    try:
        lease = await lease_client("http", target.options, lambda: _make_client(target.options))
    except (TypeError, ValueError) as error:
        raise cannot_be(error, target.shown) from None
    try:
        url = lease.client.filesystem.encode_url(target.url)
    except (ValueError, TypeError):
        await lease.aclose()
        raise UsageError("this is no URL", url=target.shown) from None
    return HttpSource(url, lease, target)


class HttpSource(LeasedSource):
    """An object behind a URL. Every answer is checked; where the server names no version, only its length."""

    def __init__(self, encoded: yarl.URL, lease: Lease[_HttpClient], target: StoreUrl) -> None:
        super().__init__(lease, target.cost, target.shown)
        self._encoded = encoded
        filesystem = lease.client.filesystem
        options = dict(filesystem.kwargs)
        if "timeout" not in filesystem.client_kwargs:  # the user's own, where there are some
            options.setdefault("timeout", stall_timeout(target.io.stall_timeout_s))
        self._ranges = RangeClient(lease.client.session, self._pin, options, lease.client.stranger)

    async def fetch_suffix(self, length: int) -> Suffix:
        try:
            return await self._ranges.suffix(self._encoded, length)
        except HttpStatus as error:
            raise _refused(error, self.url) from None

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        try:
            return await self._ranges.range(self._encoded, range, on_bytes)
        except HttpStatus as error:
            raise _refused(error, self.url) from None


def _refused(error: HttpStatus, url: str) -> Exception:
    if error.status in (404, 410):
        return no_such_file(url, error.reason)
    if error.status in (401, 403, 407):
        note = (
            f"redirected to {error.elsewhere}, which gets no credentials of another server"
            if error.elsewhere
            else ""
        )
        return not_permitted(url, "; ".join(filter(None, (error.reason, note))))
    return SourceError(error.message, url=url)
