"""URLs: which protocol and which path they name, which store that is, what it is opened with; and to read.

Knows how fsspec spells URLs (plain paths, ``protocol://``, ``outer::inner`` chains), and which relative paths
stay below a folder in every store. Must not know how any store works. A store is a package of `io.stores`
with a `source`, a `sink`, a `folder` and an `append`, as far as it has them. They are imported when their
first URL is opened, because aiohttp, fsspec and s3fs take longer to import than all of this package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from orcstream._credentials import SCHEME, strip_credentials
from orcstream._keywords import plain_options
from orcstream.byterange import BytesLike, CostModel
from orcstream.errors import UsageError
from orcstream.io.contract.byte_source import ByteSource, IoOptions
from orcstream.io.loop.tasks import need_asyncio

# HDFS over HTTP, and over its own RPC.
WEB_HDFS = frozenset({"webhdfs", "swebhdfs"})
NATIVE_HDFS = frozenset({"hdfs", "viewfs"})
# By protocol. HDFS is ours for some options only, and all others are fsspec's.
_STORES: Final = {
    **dict.fromkeys(("file", "local"), "local"),
    **dict.fromkeys(("http", "https"), "http"),
    **dict.fromkeys(("s3", "s3a"), "s3"),
    "memory": "memory",
}
# Without a way to list or write anything.
READ_ONLY: Final = frozenset({"http", "https", "chain"})
_HDFS_PROTOCOLS: Final = WEB_HDFS | NATIVE_HDFS | {"arrow_hdfs"}
_HAS_DRIVES = os.name == "nt"
_DRIVE = re.compile("/[A-Za-z]:")
# A separator on some systems, the start of a drive, a chain of file systems, and the end of a name in C.
_LEADS_ELSEWHERE = re.compile(r"\\|^[A-Za-z]:|::|\0")
# This folder, the one above, or nothing; also as percent-escapes, and escapes of those.
_DOTS = re.compile(r"(?:\.|%(?:25)*2e){0,2}", re.IGNORECASE)


def protocol_of(url: str) -> str:
    """The protocol in lower case; ``"file"`` for a plain path."""
    match = SCHEME.match(url)
    if match:
        return match.group().lower()
    return "file"


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


def is_our_hdfs(protocol: str, options: Mapping[str, Any]) -> bool:
    """Whether a client of our own speaks it; Kerberos over HTTP is left to fsspec's, which blocks threads."""
    return protocol in NATIVE_HDFS or (protocol in WEB_HDFS and not options.get("kerberos"))


def local_path(url: str) -> str:
    """The path that a plain path or a ``file://`` or ``local://`` URL names; Hadoop writes ``file:/x``.

    `UsageError` for what no system takes as a path.
    """
    prefixes = [one for one in ("file://", "local://") if url.lower().startswith(one)]
    start = len(prefixes[0]) if prefixes else 5 if url.lower().startswith("file:/") else 0
    try:
        is_path = b"\0" not in os.fsencode(url)
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise UsageError(f"this is no path: {url!r}")
    path = url[start:]
    # file:///C:/x is C:/x there.
    return path[1:] if _HAS_DRIVES and start and _DRIVE.match(path) else path


def shown_of(url: str) -> str:
    """The URL without credentials. A plain path has none."""
    return strip_credentials(url) if "://" in url else url


def name_of(url: str) -> str:
    """One for ``/x`` and ``file:///x``, and one for ``s3://`` and ``s3a://``; no credentials."""
    protocol = protocol_of(url)
    if protocol in ("file", "local"):
        return os.path.abspath(local_path(url))  # noqa: PTH100 - paths of text, many of them
    clean = strip_credentials(url)
    return f"s3{clean[3:]}" if protocol == "s3a" else clean


def inner_path(value: object) -> str:
    """`value`, if it is the relative path of something below a folder in whatever store; `UsageError` else.

    To be called on every path that a record names, before anything is opened, written or removed by it. No
    store decodes percent-escapes in paths; segments that would be dots for one that does are refused anyway.
    Symbolic links are `io.folders.check_links`.
    """
    if not is_inner_path(value):
        raise UsageError(f"{value!r:.200} is no relative path below the table; nothing was done with it")
    return str(value)


def is_inner_path(value: object) -> bool:
    """Whether `inner_path` takes it."""
    is_text = isinstance(value, str) and is_utf8(value) and not _LEADS_ELSEWHERE.search(value)
    return is_text and not any(_DOTS.fullmatch(segment) for segment in str(value).split("/"))


def is_utf8(text: str) -> bool:
    """Whether `text` can be sent: JSON, and names of files elsewhere, may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_of(url: object, kinds: str) -> str:
    """The URL as text, given as text or a path; `kinds` ends the error's sentence for others."""
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    if not isinstance(url, str):
        raise UsageError(f"a URL must be {kinds}, not {type(url).__name__}")
    return url


@dataclass(frozen=True, slots=True)
class StoreUrl:
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
    ) -> StoreUrl:
        """The target that a user names; `kinds` ends the sentence of the error for what is no URL."""
        text = text_of(url, kinds)
        options = plain_options(storage_options)
        return cls(text, shown_of(text), kind_of(text), options, io or IoOptions())

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
        return await _part_of(store or self.store, part).open_target(self, *arguments)


def _part_of(store: str, part: str) -> Any:
    """A module of a store."""
    return import_module(f"orcstream.io.stores.{store}.{part}")


def preset_of(kind: str) -> CostModel:
    """What reading costs from a kind of store, unless the user names or a read measures it."""
    if kind in _HDFS_PROTOCOLS:
        return CostModel.hdfs()
    preset = {"http": CostModel.http, "local": CostModel.local, "memory": CostModel.memory}
    return preset.get(_STORES.get(kind, ""), CostModel.object_store)()


# --- reading ---------------------------------------------------------------------------------------

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
    source: ByteSource
    if isinstance(url, bytes | bytearray | memoryview):
        source = _part_of("memory", "source").BytesSource(url, tuned.tune(CostModel.memory()))
    else:
        source = await StoreUrl.of(url, storage_options, tuned, kinds=_KINDS).open("source")
    return source


def cost_of(
    url: str | os.PathLike[str] | BytesLike, io_options: IoOptions | Mapping[str, Any] | None
) -> CostModel:
    """What reading from the kind of source behind `url` costs, before anything was measured."""
    in_memory = isinstance(url, bytes | bytearray | memoryview)
    return IoOptions.of(io_options).tune(preset_of("memory" if in_memory else kind_of(text_of(url, _KINDS))))
