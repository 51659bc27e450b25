"""Opens a URL for reading."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from orcstream.byterange import BytesLike, CostModel
from orcstream.io.contract.byte_source import ByteSource
from orcstream.io.loop.tasks import need_asyncio
from orcstream.io.options import IoOptions
from orcstream.io.urls import StoreUrl, kind_of, preset_of, text_of

_KINDS = "text, a path or bytes"


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
    if isinstance(url, bytes | bytearray | memoryview):
        from orcstream.io.stores.memory.source import BytesSource

        return BytesSource(url, tuned.tune(CostModel.memory()))
    source: ByteSource = await StoreUrl.of(url, storage_options, tuned, kinds=_KINDS).open("source")
    return source


def cost_of(
    url: str | os.PathLike[str] | BytesLike, io_options: IoOptions | Mapping[str, Any] | None
) -> CostModel:
    """What reading from the kind of source behind `url` costs, before anything was measured."""
    in_memory = isinstance(url, bytes | bytearray | memoryview)
    return IoOptions.of(io_options).tune(preset_of("memory" if in_memory else kind_of(text_of(url, _KINDS))))
