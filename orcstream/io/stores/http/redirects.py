"""Redirects of HTTP, without the secrets that a user gave for another server.

An origin is a scheme, a host and a port. Headers, cookies, parameters and logins belong to the origin of the
URL that the user opened. Other origins get the headers in `HARMLESS`, and the settings of the transport
(timeouts, proxies, TLS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import yarl

from orcstream.errors import SourceError

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS: Final = 10
# Headers of the user that other origins get: they say nothing about who asks.
HARMLESS: Final = frozenset({"accept", "accept-language", "user-agent"})
# Options of a request, and of a session, that say how to connect.
_TRANSPORT: Final = frozenset(
    {"timeout", "proxy", "proxy_auth", "proxy_headers", "ssl", "verify_ssl", "ssl_context", "fingerprint"}
    | {"read_bufsize", "max_line_size", "max_field_size"}
)
_SESSION: Final = frozenset(
    {"timeout", "trust_env", "trace_configs", "proxy", "proxy_auth", "requote_redirect_url"}
    | {"read_bufsize", "max_line_size", "max_field_size"}
)


def new_stranger(session: aiohttp.ClientSession, options: Mapping[str, Any]) -> aiohttp.ClientSession:
    """A session for other origins, which shares connections with the user's `session` and nothing else.

    `options` are those that the user's session was made with.
    """
    connector = getattr(session, "connector", None)
    kept = {name: value for name, value in options.items() if name in _SESSION}
    return aiohttp.ClientSession(connector=connector, connector_owner=connector is None, **kept)


async def get_following(
    session: aiohttp.ClientSession,
    stranger: aiohttp.ClientSession,
    url: yarl.URL,
    headers: Mapping[str, str],
    needed: Mapping[str, str],
    options: Mapping[str, Any],
    shown: str,
) -> aiohttp.ClientResponse:
    """Return the answer to a GET, after its redirects; `shown` is the URL for errors.

    `session` is for the origin of `url`, `stranger` for all others. `headers` are those of the user, `needed`
    those that every origin gets, and `options` those of aiohttp's requests.
    """
    own = dict(options)
    follows, most = own.pop("allow_redirects", True), own.pop("max_redirects", MOST_REDIRECTS)
    target = url
    for _ in range(most + 1):
        if target is url or _same_origin(target, url):
            response = await session.get(target, headers={**headers, **needed}, allow_redirects=False, **own)
        else:
            response = await stranger.get(
                target,
                headers={**{n: v for n, v in headers.items() if n.lower() in HARMLESS}, **needed},
                allow_redirects=False,
                **{name: value for name, value in own.items() if name in _TRANSPORT},
            )
        location = response.headers.get("Location")
        if response.status not in REDIRECTS or not location or not follows:
            return response
        response.release()
        target = _joined(target, location, url, shown)
        own.pop("params", None)  # they were of the first URL
    raise SourceError(f"more than {most} redirects", url=shown)


def _joined(target: yarl.URL, location: str, url: yarl.URL, shown: str) -> yarl.URL:
    try:
        joined = target.join(yarl.URL(location))
        if joined.scheme not in ("http", "https") or not joined.host:
            raise SourceError("a redirect to something that is not HTTP", url=shown)
        if _same_origin(joined, url) and joined.user is None:
            joined = joined.with_user(url.user).with_password(url.password)
    except ValueError:
        raise SourceError("a redirect to something that is no URL", url=shown) from None
    return joined


def _same_origin(one: yarl.URL, other: yarl.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
