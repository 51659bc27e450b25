"""Files of HDFS as sources of bytes.

Knows which calls a read takes, not how they travel. No request can be made conditional, so the pin is the
status: length, time of the last change and, over WebHDFS, the file's id, which a file that takes its place
does not have. `verify` asks for it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.errors import ShortRead, SourceError
from orcstream.io.contract.byte_source import OnBytes, StatusSource
from orcstream.io.stores.hdfs.opening import OpenedHdfs, open_hdfs


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


async def open_hdfs_source(
    url: str, options: Mapping[str, Any], cost: CostModel, shown: str, stall_timeout_s: float
) -> HdfsSource:
    return HdfsSource(await open_hdfs(url, options, shown, stall_timeout_s), cost, shown)
