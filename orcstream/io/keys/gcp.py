"""Keys in the Cloud Key Management Service of Google, through its own client.

Knows how its keys are named, and what its refusals are called. Must not know files.

The service makes no local keys: random bytes are encrypted by it. What it gives for them says which version
of the key it was, so keys that were rotated still open what they closed, as long as their versions are
enabled.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio.lowlevel

from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import UsageError
from orcstream.io.contract.byte_source import Transient
from orcstream.io.keys.service import KeyService, ServiceClient, algorithm_of, import_extra, new_local_key
from orcstream.io.loop.uncancelled import run_in_thread

RING = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+")
KEY = re.compile(RING.pattern + r"/cryptoKeys/[^/]+")
SHORT_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")
VERSION = re.compile(KEY.pattern + r"/cryptoKeyVersions/(?P<number>[0-9]{1,9})")
SCOPES: Final = ("https://www.googleapis.com/auth/cloudkms",)
# gRPC's codes, as their errors are called.
PASSING: Final = (
    *("ServiceUnavailable", "DeadlineExceeded", "GatewayTimeout", "InternalServerError", "BadGateway"),
    *("TooManyRequests", "ResourceExhausted", "Aborted", "Cancelled", "Unknown", "RetryError"),
)


class GcpKeyProvider(KeyService[ServiceClient]):
    """Keys in Google Cloud KMS, by their full names, or their names in `ring`.

    A ring is named ``projects/P/locations/L/keyRings/R``.

    `algorithm` is that of new local keys. `make_client` makes the `KeyManagementServiceAsyncClient` for each
    event loop, and what it makes is closed; without it, credentials come from where Google's tools look.
    A call may take `timeout_s` seconds, and is made again up to `retries` times.
    The library comes with ``orcstream[gcp]``; without it calls raise `Unsupported`.
    """

    kind = KeyProviderKind.GCP
    _service = "Cloud KMS"

    def __init__(
        self,
        ring: str | None = None,
        *,
        algorithm: EncryptionAlgorithm | str = EncryptionAlgorithm.AES_CTR_256,
        make_client: Callable[[], Any] | None = None,
        timeout_s: float = 20.0,
        retries: int = 4,
    ) -> None:
        shown = f"gcp-kms://{ring or ''}"
        if ring is not None and not RING.fullmatch(ring):
            raise UsageError("a key ring is named projects/P/locations/L/keyRings/R", url=shown)
        self._ring = ring
        self._algorithm = algorithm_of(algorithm)
        self._make_client = make_client
        super().__init__(shown, {"make_client": make_client}, timeout_s=timeout_s, retries=retries)

    async def current_key(self, name: str) -> EncryptionKey:
        full_name = self._full_name(name)
        found = await self._ask(lambda calls, how: calls.get_crypto_key(name=full_name, **how))
        match = VERSION.fullmatch(found.primary.name)
        if match is None or found.primary.state.name != "ENABLED":
            raise self._refused(f"the key {name!r} has no version that encrypts, or is not symmetric")
        return EncryptionKey(name, int(match["number"]), self._algorithm)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        full_name = f"{self._full_name(key.name)}/cryptoKeyVersions/{key.version}"
        local = new_local_key(key)
        answer = await self._ask(lambda calls, how: calls.encrypt(name=full_name, plaintext=local, **how))
        if not answer.ciphertext:
            raise self._senseless("no encrypted key")
        return LocalKey(answer.ciphertext, local)

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        full_name = self._full_name(key.name)
        answer = await self._ask(
            lambda calls, how: calls.decrypt(name=full_name, ciphertext=encrypted, **how)
        )
        return self._of_length(key, encrypted, answer.plaintext)

    async def _connect(self) -> ServiceClient:
        service = await import_extra("google.cloud.kms_v1", "gcp")
        errors = await import_extra("google.api_core.exceptions", "gcp")
        auth_errors = await import_extra("google.auth.exceptions", "gcp")
        if self._make_client is not None:
            calls = self._make_client()
        else:
            auth = await import_extra("google.auth", "gcp")
            try:  # on a thread, because it may ask the network
                credentials, _ = await run_in_thread(lambda: auth.default(scopes=SCOPES))
            except auth_errors.DefaultCredentialsError as error:
                raise self._refused(str(error)) from error
            calls = service.KeyManagementServiceAsyncClient(credentials=credentials)
        client = ServiceClient(calls, errors, auth_errors)
        client.closing.push_async_callback(calls.transport.close)
        return client

    async def _ask(self, call: Callable[[Any, dict[str, Any]], Awaitable[Any]]) -> Any:
        # Attempts inside attempts multiply their waits.
        how = {"retry": None, "timeout": self._policy.timeout_s}

        async def attempt(client: ServiceClient) -> Any:
            errors, auth_errors = client.errors
            try:
                return await call(client.calls, how)
            except asyncio.CancelledError:
                # gRPC raises another one than it was given, which no cancel scope would know for its own.
                await anyio.lowlevel.checkpoint_if_cancelled()
                raise
            except errors.GoogleAPIError as error:
                if type(error).__name__ in PASSING:
                    raise Transient(str(error), url=self.url) from error
                raise self._refused(str(error)) from error
            except auth_errors.GoogleAuthError as error:
                if error.retryable or isinstance(error, auth_errors.TransportError):
                    raise Transient(str(error), url=self.url) from error
                raise self._refused(str(error)) from error

        return await self._call(attempt)

    def _full_name(self, name: str) -> str:
        if KEY.fullmatch(self._named(name)):
            return name
        if self._ring is None or not SHORT_NAME.fullmatch(name):
            raise self._refused(f"there is no key {name!r}: the key ring is not named, or this is no name")
        return f"{self._ring}/cryptoKeys/{name}"
