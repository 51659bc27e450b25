"""Files of HDFS as sources of bytes, and the client for a URL, of the two that speak its protocols.

Knows which calls a read takes, not how they travel. No request can be made conditional, so the pin is the
status: length, time of the last change and, over WebHDFS, the file's id, which a file that takes its place
does not have. `verify` asks for it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import ShortRead, SourceError
from orcstream.io.contract.byte_source import OnBytes, StatusSource
from orcstream.io.loop.clients import Lease
from orcstream.io.stores.hdfs.calls import Hdfs, place_of
from orcstream.io.urls import NATIVE_HDFS, StoreUrl


@dataclass(frozen=True, slots=True)
class OpenedHdfs:
    """The calls for one path; `lease` is given back by whoever opened them."""

    hdfs: Hdfs
    lease: Lease[Any]
    path: str


async def open_hdfs(target: StoreUrl, stall_timeout_s: float | None = None) -> OpenedHdfs:
    """The client that speaks the protocol of the URL; nothing is asked yet.

    Each client is imported when it is first used: both bring libraries that most programs do without.
    `stall_timeout_s` is WebHDFS's only: hdfs-native has timeouts of its own.
    """
    place = place_of(target.url, target.shown)
    if target.kind in NATIVE_HDFS:
        from orcstream.io.stores.hdfs.native import HdfsNative, lease_hdfs_native

        native = await lease_hdfs_native(place, target.options, target.shown)
        return OpenedHdfs(HdfsNative(native.client, target.shown), native, place.path)
    from orcstream.io.stores.hdfs.webhdfs import WebHdfs
    from orcstream.io.stores.hdfs.webhdfs_connection import lease_webhdfs

    web = await lease_webhdfs({**place.options, **target.options}, target.shown)
    return OpenedHdfs(WebHdfs(web.client, target.shown, stall_timeout_s), web, place.path)


class HdfsSource(StatusSource):
    """One path."""

    def __init__(self, opened: OpenedHdfs, cost: CostModel, url: str) -> None:
        self._hdfs = opened.hdfs
        super().__init__(opened.lease, opened.path, cost, url)

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:  # noqa: ARG002 - whole at once
        if range.length == 0:
            return b""
        try:
            return await self._hdfs.read(self._path, range.start, range.length)
        except ShortRead:
            await self.verify()  # a shorter file may have taken its place
            raise

    async def _ask(self) -> tuple[int, str]:
        status = await self._hdfs.status(self._path)
        if status.is_folder:
            raise SourceError("this is a directory", url=self.url)
        return status.length, status.version


async def open_target(target: StoreUrl) -> HdfsSource:
    return HdfsSource(await open_hdfs(target, target.io.stall_timeout_s), target.cost, target.shown)
