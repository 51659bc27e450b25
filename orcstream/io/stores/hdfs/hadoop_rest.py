"""One HTTP request to a server of Hadoop's, and what its answers have in common.

Knows aiohttp's failures and the form in which Hadoop's servers tell exceptions. Must not know what is asked:
WebHDFS and the key server decide what a refusal means.

Errors: `Transient` where the server or the way to it failed; `ShortRead` for an answer that is longer than
was asked for; `SourceError` for what is no answer. Addresses hold tokens and names: only `url` is ever shown.
"""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import yarl

from orcstream.byterange import BytesLike
from orcstream.errors import ShortRead, SourceError
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.sockets import socket_factory

# Servers that defend against forged requests of browsers ask for the first, with any value.
HEADERS: Final = {"X-XSRF-HEADER": "orcstream", "Accept-Encoding": "identity"}
CONNECTION_CAP = 256
CONNECT_TIMEOUT_S = 20.0
SHORT_BYTES = 64 << 10
REASON_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytearray

    @property
    def is_json(self) -> bool:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json"

    def json(self) -> Any:
        """The body; `ValueError` where it is no JSON."""
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def refusal(self) -> tuple[str, str]:
        """The class of Java's exception, without its package, or empty; and a line that says why."""
        try:
            remote = member(self.json(), "RemoteException")
        except ValueError:
            remote = None
        name, message = member(remote, "exception"), member(remote, "message")
        if not isinstance(name, str):
            return "", f"the server answered with status {self.status}"
        kind = name.rpartition(".")[2]
        lines = message.splitlines() if isinstance(message, str) else []
        return kind, f"{kind[:REASON_CHARACTERS]}: {(lines or [''])[0][:REASON_CHARACTERS]}"


def new_session(tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    """A session without cookies; how long a call may take is for whoever makes it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTION_CAP, ssl=tls, socket_factory=socket_factory),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    target: yarl.URL,
    *,
    headers: Mapping[str, str],
    data: BytesLike | None = None,
    most_bytes: int = SHORT_BYTES,
    stall_timeout_s: float | None = None,
    url: str,
) -> Reply:
    """One request, and its answer of at most `most_bytes`, whatever its status.

    Connecting is bounded, and with `stall_timeout_s` each wait for bytes.
    """
    # A file is sent in pieces, and bytes in one go; this shares the bytes.
    body = None if data is None else io.BytesIO(data)
    connect_s = min(CONNECT_TIMEOUT_S, stall_timeout_s or CONNECT_TIMEOUT_S)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=stall_timeout_s)
    try:
        async with session.request(
            method, target, data=body, headers=headers, allow_redirects=False, timeout=timeout
        ) as response:
            limit = SHORT_BYTES if response.status >= 400 else most_bytes
            return Reply(response.status, response.headers, await _read(response, limit, url))
    except (aiohttp.ClientSSLError, ssl.SSLError) as error:
        raise SourceError(f"no secure connection: {type(error).__name__}", url=url) from None
    except (aiohttp.InvalidURL, aiohttp.ClientResponseError, ValueError) as error:
        # Their texts hold the address as it was sent, token included.
        raise SourceError(f"the request failed: {type(error).__name__}", url=url) from None
    except TimeoutError as error:
        raise Transient("the server did not answer in time", url=url) from error
    except SourceError:
        raise
    except (aiohttp.ClientError, OSError) as error:
        raise Transient(f"the connection failed: {error}", url=url) from error


async def _read(response: aiohttp.ClientResponse, most_bytes: int, url: str) -> bytearray:
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        response.close()
        raise SourceError("the server encodes what nobody asked it to encode", url=url)
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > most_bytes:
            response.close()
            raise ShortRead(f"more than the {most_bytes} bytes that were asked for", url=url)
    return data


def member(value: Any, name: str) -> Any:
    """A member of a JSON object; None of anything else."""
    return value.get(name) if isinstance(value, Mapping) else None
