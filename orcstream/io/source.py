"""Opens a URL: decides which kind of source reads it.

Knows which protocol goes where. Must not know how any of them works. Stores' modules are imported when
their first URL is opened, because aiohttp, fsspec and s3fs take longer to import than all of this package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from orcstream._credentials import strip_credentials
from orcstream.byterange import BytesLike, CostModel
from orcstream.io.contract.byte_source import ByteSource
from orcstream.io.loop.tasks import need_asyncio
from orcstream.io.options import IoOptions, plain_options
from orcstream.io.urls import is_our_hdfs, local_path, protocol_of, text_of

# As CostModel.hdfs.
HDFS_PROTOCOLS = frozenset({"hdfs", "arrow_hdfs", "webhdfs", "swebhdfs", "viewfs"})


async def open_source(
    url: str | os.PathLike[str] | BytesLike,
    *,
    storage_options: Mapping[str, Any] | None,
    io_options: IoOptions | Mapping[str, Any] | None,
) -> ByteSource:
    """The source that reads `url`: a path, any URL that fsspec knows, or the bytes themselves.

    No request is sent yet, but for local files, which are opened.
    """
    need_asyncio()
    tuned = IoOptions.of(io_options)
    cost = cost_of(url, tuned)
    if isinstance(url, bytes | bytearray | memoryview):
        from orcstream.io.stores.memory.source import BytesSource

        return BytesSource(url, cost)
    text = text_of(url, "text, a path or bytes")
    options = plain_options(storage_options)
    shown = strip_credentials(text)
    kind = kind_of(text)
    if kind in ("http", "https"):
        from orcstream.io.stores.http.source import open_http

        return await open_http(text, options, cost, shown, tuned.stall_timeout_s)
    if kind == "chain":
        from orcstream.io.stores.fsspec.source import open_chain

        return await open_chain(text, options, cost, shown)
    if kind in ("file", "local"):
        from orcstream.io.stores.local.source import open_local

        return await open_local(local_path(text), cost, shown)
    if kind == "memory":
        from orcstream.io.stores.memory.source import open_memory

        return open_memory(text, cost, shown)
    if kind in ("s3", "s3a"):
        from orcstream.io.stores.s3.source import open_s3

        return await open_s3(text, options, cost, shown, tuned.stall_timeout_s)
    if is_our_hdfs(kind, options):
        from orcstream.io.stores.hdfs.source import open_hdfs_source

        return await open_hdfs_source(text, options, cost, shown, tuned.stall_timeout_s)
    from orcstream.io.stores.fsspec.source import open_filesystem

    return await open_filesystem(kind, text, options, cost, shown)


def cost_of(
    url: str | os.PathLike[str] | BytesLike, io_options: IoOptions | Mapping[str, Any] | None
) -> CostModel:
    """What reading from the kind of source behind `url` costs, before anything was measured."""
    tune = IoOptions.of(io_options).tune
    if isinstance(url, bytes | bytearray | memoryview):
        return tune(CostModel.memory())
    kind = kind_of(text_of(url, "text, a path or bytes"))
    if kind in ("http", "https"):
        return tune(CostModel.http())
    if kind in ("file", "local"):
        return tune(CostModel.local())
    if kind == "memory":
        return tune(CostModel.memory())
    return tune(CostModel.hdfs() if kind in HDFS_PROTOCOLS else CostModel.object_store())


def kind_of(url: str) -> str:
    """The protocol of a URL, or "chain"."""
    protocol = protocol_of(url)
    if protocol not in ("http", "https") and "::" in url and _is_chain(url):
        return "chain"
    return protocol


def _is_chain(url: str) -> bool:
    """Whether the part before the first ``::`` is a file system over another; else it is an odd file name."""
    first = url.partition("::")[0]
    if "://" in first:
        return protocol_of(first) not in ("file", "local", "memory")
    from fsspec.registry import known_implementations, registry

    return first in known_implementations or first in registry
