"""Opens a URL: decides which kind of source reads it.

Knows which protocol goes where. Must not know how any of them works. Stores' modules are imported when
their first URL is opened, because aiohttp, fsspec and s3fs take longer to import than all of this package.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from orcstream.byterange import BytesLike, CostModel
from orcstream.errors import Unsupported, UsageError
from orcstream.io.byte_source import ByteSource, Suffix
from orcstream.io.options import IoOptions
from orcstream.io.urls import local_path, protocol_of, strip_credentials

__all__ = ["ByteSource", "IoOptions", "Suffix", "open_source", "strip_credentials"]


async def open_source(
    url: str | os.PathLike[str] | BytesLike,
    *,
    storage_options: Mapping[str, Any] | None,
    io_options: IoOptions | Mapping[str, Any] | None,
) -> ByteSource:
    """The source that reads `url`: a path, any URL that fsspec knows, or the bytes themselves.

    No request is sent yet, but for local files, which are opened.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise Unsupported(
            "the clients of stores need asyncio; run this with asyncio, or trio's guest mode", reason="trio"
        ) from None
    tune = IoOptions.of(io_options).tune
    if isinstance(url, bytes | bytearray | memoryview):
        from orcstream.io.memory import BytesSource

        return BytesSource(url, tune(CostModel.memory()))
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    if not isinstance(url, str):
        raise UsageError(f"a URL must be text, a path or bytes, not {type(url).__name__}")
    options = dict(storage_options or {})
    shown = strip_credentials(url)
    protocol = protocol_of(url)
    if protocol in ("http", "https"):
        from orcstream.io.http import open_http

        return await open_http(url, options, tune(CostModel.http()), shown)
    if "::" in url and _is_chain(url):
        from orcstream.io.filesystem import open_chain

        return await open_chain(url, options, tune(CostModel.object_store()), shown)
    if protocol in ("file", "local"):
        from orcstream.io.local import open_local

        return await open_local(local_path(url), tune(CostModel.local()), shown)
    if protocol == "memory":
        from orcstream.io.memory import open_memory

        return open_memory(url, tune(CostModel.memory()), shown)
    if protocol in ("s3", "s3a"):
        from orcstream.io.s3 import open_s3

        return await open_s3(url, options, tune(CostModel.object_store()), shown)
    from orcstream.io.filesystem import HDFS_PROTOCOLS, open_filesystem

    cost = CostModel.hdfs() if protocol in HDFS_PROTOCOLS else CostModel.object_store()
    return await open_filesystem(protocol, url, options, tune(cost), shown)


def _is_chain(url: str) -> bool:
    """Whether the part before the first ``::`` is a file system over another; else it is an odd file name."""
    first = url.partition("::")[0]
    if "://" in first:
        return protocol_of(first) not in ("file", "local", "memory")
    from fsspec.registry import known_implementations, registry

    return first in known_implementations or first in registry
