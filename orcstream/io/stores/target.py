"""Which store a URL is of, and what the parts of every store are opened with.

Knows which protocol goes where. Must not know how any store works. A store is a package beside this module
with a `source`, a `sink` and a `folder`, as far as it has them. They are imported when their first URL is
opened, because aiohttp, fsspec and s3fs take longer to import than all of this package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from orcstream._credentials import strip_credentials
from orcstream.byterange import CostModel
from orcstream.io.options import IoOptions, plain_options
from orcstream.io.urls import is_our_hdfs, kind_of, text_of

# By protocol. HDFS is ours for some options only, and all others are fsspec's.
_STORES: Final = {
    **dict.fromkeys(("file", "local"), "local"),
    **dict.fromkeys(("http", "https"), "http"),
    **dict.fromkeys(("s3", "s3a"), "s3"),
    "memory": "memory",
}
# Without a way to list or write anything.
READ_ONLY: Final = frozenset({"http", "https", "chain"})
_HDFS_PROTOCOLS: Final = frozenset({"hdfs", "arrow_hdfs", "webhdfs", "swebhdfs", "viewfs"})


@dataclass(frozen=True, slots=True)
class Target:
    """A URL as a store opens it: `kind` is its protocol, or "chain"; `shown` is without credentials."""

    url: str = field(repr=False)
    shown: str
    kind: str
    options: Mapping[str, Any] = field(repr=False)
    io: IoOptions = field(default_factory=IoOptions)

    @classmethod
    def of(
        cls,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None,
        io: IoOptions | None = None,
        *,
        kinds: str = "text or a path",
    ) -> Target:
        """The target that a user names; `kinds` ends the sentence of the error for what is no URL."""
        text = text_of(url, kinds)
        options = plain_options(storage_options)
        return cls(text, strip_credentials(text), kind_of(text), options, io or IoOptions())

    @property
    def store(self) -> str:
        """The package of the store."""
        return _STORES.get(self.kind) or ("hdfs" if is_our_hdfs(self.kind, self.options) else "fsspec")

    @property
    def cost(self) -> CostModel:
        """What reading costs there, before anything was measured."""
        return self.io.tune(preset_of(self.kind))

    async def open(self, part: str, *arguments: Any, store: str = "") -> Any:
        """What the store's module `part` opens, of this target and `arguments`."""
        module = import_module(f"orcstream.io.stores.{store or self.store}.{part}")
        return await module.open_target(self, *arguments)


def preset_of(kind: str) -> CostModel:
    """What reading costs from a kind of store, unless the user names or a read measures it."""
    if kind in _HDFS_PROTOCOLS:
        return CostModel.hdfs()
    preset = {"http": CostModel.http, "local": CostModel.local, "memory": CostModel.memory}
    return preset.get(_STORES.get(kind, ""), CostModel.object_store)()
