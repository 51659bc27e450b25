"""A stand-in for Azure Key Vault, and a transport of azure-core's that leads to it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from azure.core.credentials import AccessToken
from azure.core.pipeline.transport import AioHttpTransport
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from tests.servers.http_server import Handler, serving

__all__ = ["Credential", "FakeVault", "VaultTransport", "fake_vault"]

HOST = "fake.vault.azure.net"
PADDING = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
CHALLENGE = 'Bearer authorization="https://login.microsoftonline.com/t", resource="https://vault.azure.net"'
Key = rsa.RSAPrivateKey | bytes


@dataclass
class FakeVault:
    """`keys` are the versions of each by their names; those that are bytes belong to a managed HSM."""

    port: int = 0
    keys: dict[str, dict[str, Key]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)
    answer: tuple[int, bytes] | None = None  # instead of all others

    def add(self, name: str, *, symmetric: bool = False) -> None:
        """A new version of a key."""
        key = os.urandom(32) if symmetric else rsa.generate_private_key(65537, 2048)
        self.keys.setdefault(name, {})[os.urandom(16).hex()] = key


class Credential:
    """Whoever has it may do everything; counts how often it was closed."""

    closed = 0

    async def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        return AccessToken("token", 1 << 33)

    async def close(self) -> None:
        Credential.closed += 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class VaultTransport(AioHttpTransport):  # type: ignore[misc]  # it is loaded on first use, so Any to mypy
    """The transport of azure-core, but for where it leads to."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def send(self, request: Any, **config: Any) -> Any:
        asked = request.url
        parts = urlsplit(asked)
        assert parts.hostname == HOST
        request.url = parts._replace(scheme="http", netloc=f"127.0.0.1:{self._port}").geturl()
        try:
            return await super().send(request, **config)
        finally:
            request.url = asked


class _Handler(Handler[FakeVault]):
    methods = ("GET", "POST")

    def serve(self) -> None:
        text = self.read_body()
        if self.headers.get("Authorization") != "Bearer token":
            self._say(401, {"error": {"code": "Unauthorized"}}, {"WWW-Authenticate": CHALLENGE})
            return
        vault = self.state
        if vault.answer is not None:
            self._say_bytes(*vault.answer, {})
            return
        _, _, name, version, operation = (*urlsplit(self.path).path.split("/"), "", "")[:5]
        versions = vault.keys.get(name, {})
        if name in vault.refused:
            self._say(403, {"error": {"code": "Forbidden", "message": "no\nand more"}})
        elif not versions or (version and version not in versions):
            self._say(404, {"error": {"code": "KeyNotFound", "message": f"no {name}"}})
        else:
            version = version or list(versions)[-1]
            self._answer(vault, name, version, operation, json.loads(text) if text else {})

    def _answer(self, vault: FakeVault, name: str, version: str, operation: str, body: Any) -> None:
        key, kid = vault.keys[name][version], f"https://{HOST}/keys/{name}/{version}"
        if not operation:
            enabled = name not in vault.disabled
            web_key = {"kid": kid, "key_ops": ["wrapKey", "unwrapKey"], **_public(key)}
            self._say(200, {"key": web_key, "attributes": {"enabled": enabled, "created": 1, "updated": 1}})
            return
        given = _decoded(body["value"])
        try:
            value = _wrapped(key, given) if operation == "wrapkey" else _unwrapped(key, given)
        except (ValueError, InvalidUnwrap):
            self._say(400, {"error": {"code": "BadParameter", "message": "not wrapped so"}})
            return
        self._say(200, {"kid": kid, "value": _encoded(value)})

    def _say(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        self._say_bytes(status, json.dumps(value).encode(), headers or {})

    def _say_bytes(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.answer(status, body, {**headers, "Content-Type": "application/json"})


def _public(key: Key) -> dict[str, str]:
    if isinstance(key, bytes):
        return {"kty": "oct-HSM"}
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "n": _encoded(numbers.n.to_bytes(256, "big")), "e": _encoded(b"\1\0\1")}


def _wrapped(key: Key, plain: bytes) -> bytes:
    return aes_key_wrap(key, plain) if isinstance(key, bytes) else key.public_key().encrypt(plain, PADDING)


def _unwrapped(key: Key, wrapped: bytes) -> bytes:
    return aes_key_unwrap(key, wrapped) if isinstance(key, bytes) else key.decrypt(wrapped, PADDING)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@contextmanager
def fake_vault() -> Iterator[FakeVault]:
    with serving(_Handler, FakeVault) as vault:
        yield vault
