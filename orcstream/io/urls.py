"""URLs as text: which protocol, which path, and the form that may be shown.

Knows how fsspec spells URLs (plain paths, ``protocol://``, ``outer::inner`` chains). Must not open anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

__all__ = [
    "NATIVE_HDFS",
    "WEB_HDFS",
    "is_our_hdfs",
    "local_path",
    "name_of",
    "protocol_of",
    "strip_credentials",
]

# HDFS over HTTP, and over its own RPC.
WEB_HDFS = frozenset({"webhdfs", "swebhdfs"})
NATIVE_HDFS = frozenset({"hdfs", "viewfs"})

# The part before "@" names a container there, not a user.
CONTAINER_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs", "az", "adl"})

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=://)")

# Names of query parameters that sign or authorise, as AWS, Google, Azure, CloudFront, Alibaba and many
# token schemes spell them.
SECRET_PREFIXES = ("x-amz-", "x-goog-", "x-oss-", "x-ms-")
SECRET_WORDS = ("sig", "token", "secret", "passw", "pwd", "credential", "auth", "key", "accessid", "session")
SECRET_NAMES = frozenset(
    {"expires", "policy", "code", "se", "sp", "st", "sv", "sr", "ss", "srt", "spr", "sip"}
)
SECRET_NAMES |= {"ske", "skt", "sks", "skv", "skoid", "sktid", "sdd", "saoid", "suoid", "scid"}


def protocol_of(url: str) -> str:
    """The protocol in lower case; ``"file"`` for a plain path."""
    match = SCHEME.match(url)
    if match:
        return match.group().lower()
    return "file"


def is_our_hdfs(protocol: str, options: Mapping[str, Any]) -> bool:
    """Whether a client of our own speaks it; Kerberos over HTTP is left to fsspec's, which blocks threads."""
    return protocol in NATIVE_HDFS or (protocol in WEB_HDFS and not options.get("kerberos"))


def local_path(url: str) -> str:
    """The path that a plain path or a ``file://`` or ``local://`` URL names; Hadoop writes ``file:/x``."""
    for prefix in ("file://", "local://"):
        if url.lower().startswith(prefix):
            return url[len(prefix) :]
    return url[5:] if url.lower().startswith("file:/") else url


def strip_credentials(url: str) -> str:
    """`url` without user information, signatures and tokens; every part of a chain is cleaned.

    The rest stays as written, because users look for their own spelling in messages.
    """
    return "::".join(_strip_one(part) for part in url.split("::"))


def name_of(url: str) -> str:
    """One for ``/x`` and ``file:///x``, and one for ``s3://`` and ``s3a://``; no credentials."""
    protocol = protocol_of(url)
    if protocol in ("file", "local"):
        return os.path.abspath(local_path(url))  # noqa: PTH100 - paths of text, many of them
    clean = strip_credentials(url)
    return f"s3{clean[3:]}" if protocol == "s3a" else clean


def _strip_one(url: str) -> str:
    match = SCHEME.match(url)
    if not match:
        return url
    scheme = match.group()
    rest = url[match.end() + 3 :]
    if scheme.lower() not in CONTAINER_SCHEMES:
        rest = _strip_userinfo(rest)
    elif ":" in rest.partition("@")[0].partition("/")[0] and "@" in rest:
        user, _, host = rest.partition("@")
        rest = f"{user.partition(':')[0]}@{host}"
    if scheme.lower() in ("http", "https"):
        rest = rest.partition("#")[0]
    before, mark, query = rest.partition("?")
    kept = [pair for pair in re.split("[&;]", query) if not _is_secret(pair)]
    return f"{scheme}://{before}{mark if kept and mark else ''}{'&'.join(kept)}"


def _strip_userinfo(rest: str) -> str:
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        return rest[authority.rindex("@") + 1 :]
    port = authority.partition(":")[2]
    if port and not port.isdigit() and not authority.startswith("[") and "@" in rest:
        # A password with an unescaped slash: no valid URL, but it must not be shown either.
        return rest[rest.rindex("@") + 1 :]
    return rest


def _is_secret(pair: str) -> bool:
    name = unquote_plus(pair.partition("=")[0]).lower()
    return (
        name.startswith(SECRET_PREFIXES) or name in SECRET_NAMES or any(word in name for word in SECRET_WORDS)
    )
