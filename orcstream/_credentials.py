"""The form of a URL that may be shown: without user information, signatures and tokens.

Knows how stores and fsspec spell URLs (plain paths, ``protocol://``, ``outer::inner`` chains), and what
secrets are called in them. Must not know anything of the package: errors stand on it.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

# The part before "@" names a container there, not a user.
CONTAINER_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs", "az", "adl"})

# Before it, Hadoop names the protocol of a key server: ``kms://https@host``.
KEY_SERVER = re.compile(r"https?@")

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=://)")

# Between parts of a chain; "::" may also stand in a password.
CHAINED = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.\-]*(?:://|::|\Z)|/|\Z)")

# Names of query parameters that sign or authorise, as AWS, Google, Azure, CloudFront, Alibaba and many
# token schemes spell them.
SECRET_PREFIXES = ("x-amz-", "x-goog-", "x-oss-", "x-ms-")
SECRET_WORDS = ("sig", "token", "secret", "passw", "pwd", "credential", "auth", "key", "accessid", "session")
SECRET_NAMES = frozenset(
    {"expires", "policy", "code", "se", "sp", "st", "sv", "sr", "ss", "srt", "spr", "sip"}
)
SECRET_NAMES |= {"ske", "skt", "sks", "skv", "skoid", "sktid", "sdd", "saoid", "suoid", "scid"}


# URLs in texts of other libraries, and queries of which only the path is shown.
URL_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s\"<>]*[^\s\"<>,.;:')\]]")
PAIR_IN_TEXT = re.compile(r"(?<=[?&;])(?P<name>[^\s?&;='\"]+)=[^\s&;'\")]+")


def strip_credentials(url: str) -> str:
    """`url` without user information, signatures and tokens; every part of a chain is cleaned.

    The rest stays as written, because users look for their own spelling in messages. What is clean already
    stays as it is.
    """
    while (cleaned := "::".join(_strip_one(part) for part in CHAINED.split(url))) != url:
        url = cleaned  # behind what was taken away there may be more of the kind
    return url


def strip_text(text: str) -> str:
    """A text of another library, with each URL in it as `strip_credentials` has it, and no secret's value."""
    text = URL_IN_TEXT.sub(lambda url: strip_credentials(url[0]), text)
    return PAIR_IN_TEXT.sub(lambda pair: f"{pair['name']}=" if _is_secret(pair[0]) else pair[0], text)


def _strip_one(url: str) -> str:
    match = SCHEME.match(url)
    if not match:
        return url
    scheme = match.group()
    rest = url[match.end() + 3 :]
    if scheme.lower() == "kms" and (protocol := KEY_SERVER.match(rest)):
        rest = protocol.group() + _strip_userinfo(rest[protocol.end() :])
    elif scheme.lower() not in CONTAINER_SCHEMES:
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
