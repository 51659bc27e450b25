"""Files of HDFS as sources of bytes, through WebHDFS.

Knows which calls a read takes. A range costs two trips, to the NameNode and to a DataNode; opening costs one
more, for the status. No request can be made conditional, so the pin is the status: length, time of the last
change and the file's id, which a file that takes its place does not have. `verify` asks for it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import ShortRead, SourceError
from orcstream.io.byte_source import OnBytes, StatusSource
from orcstream.io.clients import Lease
from orcstream.io.webhdfs import HdfsConnection, WebHdfs, lease_webhdfs, place_of

__all__ = ["WebHdfsSource", "open_webhdfs"]


class WebHdfsSource(StatusSource):
    """One path."""

    def __init__(
        self, lease: Lease[HdfsConnection], path: str, cost: CostModel, url: str, stall_timeout_s: float
    ) -> None:
        self._hdfs = WebHdfs(lease.client, url, stall_timeout_s)
        super().__init__(lease, path, cost, url)

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
        version = f"length={status.length} modified={status.modified_ms} id={status.file_id}"
        return status.length, version


async def open_webhdfs(
    url: str, options: Mapping[str, Any], cost: CostModel, shown: str, stall_timeout_s: float
) -> WebHdfsSource:
    place = place_of(url, shown)
    lease = await lease_webhdfs({**place.options, **options}, shown)
    return WebHdfsSource(lease, place.path, cost, shown, stall_timeout_s)
