"""Keys in a Hadoop or Ranger KMS, over its REST interface.

Knows the calls of the key server, who asks, and that several servers stand for each other. Must not know
files.

A file's local key is drawn as random bytes, which are taken for the *encrypted* local key: the server is only
ever asked to decrypt. Its interface flips every bit of the initial vector, so the complement of the first 16
bytes is sent. This is what ORC Java does; what one writes, the other reads.

Who asks is told by a user's name, a delegation token, or a Kerberos ticket. Where the server answers with its
cookie (`hadoop.auth`), that is sent instead of another ticket, until the server wants it no more.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import yarl

from orcstream._cipher import BLOCK_BYTES
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import Unsupported, UsageError
from orcstream.io.contract.byte_source import TRANSIENT_STATUS, Transient, retry_after_s
from orcstream.io.keys.service import KeyService, import_extra, new_local_key, shown_place
from orcstream.io.loop.clients import tls_of
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.stores.hdfs.hadoop_rest import HEADERS, Reply, exchange, member, new_session

PLACE = re.compile(
    r"kms://(?P<scheme>https?)@(?P<hosts>[^/:@?#\[\]]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[^?#]*)?)"
)
COOKIE = "hadoop.auth="
UNAUTHENTICATED: Final = frozenset({401, 403, 407})


@dataclass(slots=True)
class _Servers:
    """The servers that stand for each other, and what one loop has learnt of them."""

    session: aiohttp.ClientSession
    origins: Sequence[yarl.URL]
    current: int
    cookies: dict[yarl.URL, str] = field(default_factory=dict, repr=False)

    async def aclose(self) -> None:
        await self.session.close()


class HadoopKeyProvider(KeyService[_Servers]):
    """Keys in a Hadoop or Ranger KMS, named as Hadoop does: ``kms://http@host1;host2:9600/kms``.

    Who asks is `user`, or the owner of a delegation `token`, or with `kerberos` whoever has the ticket
    (with pyspnego); `proxy_to` is the user they act for. `verify` is a file of certificates to trust, or
    False for any. `place` is such a name; a call may take `timeout_s` seconds. A server that does not
    answer is replaced by the next one; each is tried, whatever `retries` says.

    Raises `UsageError` for a place or options that make no sense.
    """

    kind = KeyProviderKind.HADOOP
    _service = "a key server"

    def __init__(
        self,
        place: str,
        *,
        user: str | None = None,
        token: str | None = None,
        kerberos: bool = False,
        proxy_to: str | None = None,
        verify: str | bool = True,
        timeout_s: float = 20.0,
        retries: int = 4,
    ) -> None:
        shown = shown_place(place)
        self._origins, self._path = _servers_of(place, shown)
        if sum(map(bool, (user, token, kerberos))) > 1:
            raise UsageError("a user, a token and a ticket each say who asks; give one", url=shown)
        names = {"user.name": user, "delegation": token, "doas": proxy_to}
        self._identity_query = [(name, value) for name, value in names.items() if value]
        self._secret = token or ""
        self._kerberos, self._verify = kerberos, verify
        identity = {"place": place, "who": self._identity_query, "kerberos": kerberos, "verify": verify}
        super().__init__(shown, identity, timeout_s=timeout_s, retries=retries)
        self._policy = replace(self._policy, retries=max(retries, len(self._origins) - 1))

    async def current_key(self, name: str) -> EncryptionKey:
        answer = await self._ask("GET", f"key/{self._quoted(name)}/_metadata")
        versions, bits, cipher = (member(answer, one) for one in ("versions", "length", "cipher"))
        if not answer:  # the server's way to say that it has none
            raise self._refused(f"there is no key {name!r}")
        if type(versions) is not int or versions < 1 or type(bits) is not int:
            raise self._senseless("a key without versions or length")
        if not isinstance(cipher, str) or not cipher.startswith("AES/CTR/"):
            raise self._refused(f"the key {name!r} is not for AES/CTR")
        algorithm = EncryptionAlgorithm.AES_CTR_128 if bits == 128 else EncryptionAlgorithm.AES_CTR_256
        return EncryptionKey(name, versions - 1, algorithm)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        return await self.decrypt_local_key(key, new_local_key(key))

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        if not encrypted or len(encrypted) != key.algorithm.key_bytes:
            raise self._refused(f"{len(encrypted)} bytes are no local key of {key.algorithm.name}")
        flipped = bytes(byte ^ 0xFF for byte in encrypted[:BLOCK_BYTES])
        body = {"name": key.name, "iv": _base64(flipped), "material": _base64(encrypted)}
        version = self._quoted(key.name) + quote(f"@{key.version}", safe="")
        answer = await self._ask("POST", f"keyversion/{version}/_eek", {"eek_op": "decrypt"}, body)
        return self._of_length(key, encrypted, self._bytes(member(answer, "material")))

    async def _connect(self) -> _Servers:
        tls = await tls_of(self._verify, "verify", self.url)
        # Whoever comes first to a server stays with it; so that not all do, the first is drawn.
        first = random.randrange(len(self._origins))  # noqa: S311 - shares out load, hides nothing
        return _Servers(new_session(tls), self._origins, first)

    async def _ask(
        self,
        method: str,
        path: str,
        options: Mapping[str, str] | None = None,
        body: Mapping[str, str] | None = None,
    ) -> Any:
        """What the server says to a call, as JSON."""
        query = urlencode([*(options or {}).items(), *self._identity_query], quote_via=quote)
        target = f"{self._path}/v1/{path}?{query}"
        data = None if body is None else json.dumps(body).encode()

        async def attempt(servers: _Servers) -> Any:
            tried = servers.current
            try:
                reply = await self._exchange(servers, servers.origins[tried], method, target, data)
                return self._checked(reply)
            except (Transient, asyncio.CancelledError):  # no answer in time ends in the latter
                # Of those that failed together the first moves on to the next server, not each.
                if servers.current == tried:
                    servers.current = (tried + 1) % len(servers.origins)
                raise

        return await self._call(attempt)

    async def _exchange(
        self, servers: _Servers, origin: yarl.URL, method: str, target: str, data: bytes | None
    ) -> Reply:
        """One call, and a second one where the cookie of an earlier one was refused."""
        for _ in range(2):
            cookie = servers.cookies.get(origin)
            headers = dict(HEADERS) if data is None else {**HEADERS, "Content-Type": "application/json"}
            if cookie is not None:
                headers["Cookie"] = COOKIE + cookie
            elif self._kerberos:
                headers["Authorization"] = await self._negotiate(origin.host or "")
            reply = await exchange(
                servers.session,
                method,
                yarl.URL(f"{origin}{target}", encoded=True),
                headers=headers,
                data=data,
                url=self.url,
            )
            _keep_cookie(servers, origin, reply)
            if cookie is None or reply.status not in UNAUTHENTICATED or reply.refusal()[0]:
                break
            servers.cookies.pop(origin, None)
        return reply

    async def _negotiate(self, host: str) -> str:
        """The header with a ticket for the server; getting one may ask the Kerberos server."""
        spnego = await import_extra("spnego", "kerberos")

        def first_token() -> bytes | None:
            client = spnego.client(hostname=host, service="HTTP", protocol="kerberos")
            token: bytes | None = client.step()
            return token

        try:
            token = await run_in_thread(first_token)
        except ImportError as error:
            raise Unsupported(
                f"Kerberos needs its libraries: pip install 'orcstream[kerberos]' ({error})",
                reason="missing_dependency",
                url=self.url,
            ) from error
        except Exception as error:  # a tree of its own, of which none is promised
            raise self._refused(f"no Kerberos ticket for HTTP@{host}: {error}") from error
        return f"Negotiate {_base64(token or b'')}"

    def _checked(self, reply: Reply) -> Any:
        """The answer, or what a refusal means."""
        if reply.status in (200, 201):
            try:
                return reply.json()
            except ValueError:
                raise self._senseless("it is no JSON") from None
        kind, reason = reply.refusal()
        reason = reason.replace(self._secret, "...") if self._secret else reason
        if reply.status in TRANSIENT_STATUS:
            raise Transient(reason, url=self.url, retry_after_s=retry_after_s(reply.headers))
        # What the server itself says is a refusal; "not found" of a gateway or another server is not.
        if "Negotiate" in reply.headers.get("WWW-Authenticate", "") and not self._kerberos:
            reason += "; it wants a Kerberos ticket"
        if reply.status in UNAUTHENTICATED or (kind and 400 <= reply.status < 500):
            raise self._refused(reason)
        raise self._senseless(reason)

    def _quoted(self, name: str) -> str:
        if name in (".", ".."):  # which stand for other places in a path, however they are written
            raise self._refused(f"there is no key {name!r}")
        return quote(self._named(name), safe="")

    def _bytes(self, text: object) -> bytes:
        """Bytes as the server writes them: in the alphabet for URLs, without padding."""
        if isinstance(text, str):
            try:
                standard = text.rstrip("=").replace("-", "+").replace("_", "/")
                return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
            except (binascii.Error, ValueError):
                pass
        raise self._senseless("bytes that are none")


def _keep_cookie(servers: _Servers, origin: yarl.URL, reply: Reply) -> None:
    for name, value in reply.headers.items():
        if name.lower() == "set-cookie" and value.startswith(COOKIE):
            text = value[len(COOKIE) :].partition(";")[0].strip()
            if text in ("", '""'):
                servers.cookies.pop(origin, None)
            else:
                servers.cookies[origin] = text


def _servers_of(place: str, shown: str) -> tuple[tuple[yarl.URL, ...], str]:
    """The addresses of the servers, and the path of the service."""
    match = PLACE.fullmatch(place)
    if match is None:
        raise UsageError("a key server is named kms://http@host1;host2:port/kms", url=shown)
    scheme, port = match["scheme"], int(match["port"]) if match["port"] else None
    hosts = [host for host in match["hosts"].split(";") if host]
    try:
        origins = tuple(yarl.URL.build(scheme=scheme, host=host, port=port).origin() for host in hosts)
    except ValueError:
        origins = ()
    if not origins or port == 0 or (port or 0) >= 1 << 16:
        raise UsageError("the hosts and the port of the key server are no address", url=shown)
    return origins, quote(match["path"].rstrip("/"), safe="/%")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
