"""Whether two URLs name one directory: the user's, and the one that a metastore has, which Hadoop wrote.

Must not know what is in it. Stores have several names for one scheme, and Hadoop writes ``file:/x``. Names of
hosts are not looked up: a nameservice and a host of it are taken for the same.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from orcstream._credentials import strip_credentials
from orcstream.errors import UsageError

# One store, by the schemes of its clients.
_STORES: Final = {
    **dict.fromkeys(("", "file", "local"), "file"),
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs", "viewfs"), "hdfs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs", "az", "azure"), "azure"),
}
_PORTS: Final = {"hdfs": 8020, "webhdfs": 9870, "swebhdfs": 9871, "http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _Place:
    """`container` is a bucket, or what Azure calls so; `port` is None where the URL names none."""

    store: str
    scheme: str
    container: str
    host: str
    port: int | None
    path: str


def is_same_place(url: str, location: str) -> bool:
    """Whether both are one directory, as far as their texts and links of local folders say."""
    one, other = _place(url), _place(location)
    if (one.store, one.container) != (other.store, other.container):
        return False
    if one.path != other.path and unquote(one.path) != unquote(other.path):
        return False
    if one.host != other.host and one.host and other.host:
        # A nameservice has no port, and the host of a namenode most often has.
        return one.store == "hdfs" and (one.port is None) != (other.port is None)
    ports = [place.port or _PORTS.get(place.scheme) for place in (one, other)]
    return one.scheme != other.scheme or ports[0] == ports[1]


def check_location(url: str, location: str, table: str) -> None:
    """Raise `UsageError` where a table is opened by a URL that is not where its metastore has it."""
    shown = strip_credentials(url)
    try:
        is_same = is_same_place(url, location)
    except ValueError as error:
        raise UsageError(f"{shown} or {strip_credentials(location)} is no URL: {error}", url=shown) from None
    if not is_same:
        raise UsageError(
            f"the metastore has {table} at {strip_credentials(location)}, not at {shown}: open the "
            "metastore's location, or name the table that is at this URL",
            url=shown,
        )


def _place(url: str) -> _Place:
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme or len(scheme) == 1:  # a path, perhaps with the letter of a drive
        return _Place("file", "file", "", "", None, os.path.realpath(url))
    scheme = scheme.lower()
    store = _STORES.get(scheme, scheme)
    if store == "file":
        return _Place("file", "file", "", "", None, os.path.realpath(_local_path(rest)))
    parts = urlsplit(rest if rest.startswith("//") else f"//{rest.lstrip('/')}")
    path = posixpath.normpath("/" + parts.path.strip("/"))
    authority = parts.netloc.rpartition("@")[2]
    if store == "azure":
        # container@account.host/path, or container/path where options name the account.
        container, at, host = parts.netloc.rpartition("@")
        return _Place(store, store, container if at else authority, host if at else "", None, path)
    if store in ("s3", "gs"):
        return _Place(store, store, authority, "", None, path)
    return _Place(store, scheme, "", parts.hostname or "", parts.port, path)


def _local_path(rest: str) -> str:
    """The path of ``file:/x``, ``file:///x`` or ``file://localhost/x``, without its scheme."""
    return "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
