"""Opening HDFS: the client for a URL, of the two that speak its protocols.

Each is imported when it is first used, since both bring libraries that most programs do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orcstream.io.loop.clients import Lease
from orcstream.io.stores.hdfs.calls import Hdfs, place_of
from orcstream.io.urls import NATIVE_HDFS, protocol_of


@dataclass(frozen=True, slots=True)
class OpenedHdfs:
    """The calls for one path; `lease` is given back by whoever opened them."""

    hdfs: Hdfs
    lease: Lease[Any]
    path: str


async def open_hdfs(
    url: str, options: Mapping[str, Any], shown: str, stall_timeout_s: float | None = None
) -> OpenedHdfs:
    """The client that speaks the protocol of `url`; nothing is asked yet.

    `stall_timeout_s` is WebHDFS's only: hdfs-native has timeouts of its own.
    """
    place = place_of(url, shown)
    if protocol_of(url) in NATIVE_HDFS:
        from orcstream.io.stores.hdfs.native import HdfsNative, lease_hdfs_native

        native = await lease_hdfs_native(place, options, shown)
        return OpenedHdfs(HdfsNative(native.client, shown), native, place.path)
    from orcstream.io.stores.hdfs.webhdfs import WebHdfs
    from orcstream.io.stores.hdfs.webhdfs_connection import lease_webhdfs

    web = await lease_webhdfs({**place.options, **options}, shown)
    return OpenedHdfs(WebHdfs(web.client, shown, stall_timeout_s), web, place.path)
