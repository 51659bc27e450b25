"""Keys in Azure Key Vault or a Managed HSM, through Microsoft's own clients.

Knows how local keys are wrapped there, and what refusals look like. Must not know files.

The service makes no local keys: random bytes are wrapped by it. A version of a key is 32 digits there, for
which files have no room, and wrapped bytes do not tell theirs. So the encrypted local key holds it: the
algorithm of the wrapping and the version, ``RSA-OAEP-256/0123...``, a zero byte, and the wrapped key. The
version in the file is always 0.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import UsageError
from orcstream.io.contract.byte_source import TRANSIENT_STATUS, Transient
from orcstream.io.keys.service import KeyService, ServiceClient, algorithm_of, import_extra, new_local_key

VAULT = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
NAME = re.compile(r"[A-Za-z0-9-]{1,127}")
# What stands before a wrapped key.
HEAD = re.compile(rb"(?P<algorithm>RSA-OAEP-256|A256KW)/(?P<version>[0-9A-Za-z]{1,64})\0")
# By the first part of a key's type.
WRAPPINGS: Final = {"RSA": "RSA-OAEP-256", "oct": "A256KW"}


class AzureKeyProvider(KeyService[ServiceClient]):
    """Keys of a vault, by their names.

    `vault` is its name, or its host where that is not under vault.azure.net. `algorithm` is that of new local
    keys. `make_credential` makes the asynchronous credential for each event loop, `make_transport`
    azure-core's asynchronous transport; what they make is closed. A call may take `timeout_s` seconds, and is
    made again up to `retries` times. Without the first it is azure-identity's
    `DefaultAzureCredential`. The libraries come with ``orcstream[azure]``; without them calls raise
    `Unsupported`.
    """

    kind = KeyProviderKind.AZURE
    _service = "Azure Key Vault"

    def __init__(
        self,
        vault: str,
        *,
        algorithm: EncryptionAlgorithm | str = EncryptionAlgorithm.AES_CTR_256,
        make_credential: Callable[[], Any] | None = None,
        make_transport: Callable[[], Any] | None = None,
        timeout_s: float = 20.0,
        retries: int = 4,
    ) -> None:
        shown = f"azure-kv://{vault}"
        if not VAULT.fullmatch(vault):
            raise UsageError("a vault is named by its name or its host", url="azure-kv://")
        self._vault_url = f"https://{vault}" if "." in vault else f"https://{vault}.vault.azure.net"
        self._algorithm = algorithm_of(algorithm)
        self._make_credential, self._make_transport = make_credential, make_transport
        identity = {"vault": vault, "credential": make_credential, "transport": make_transport}
        super().__init__(shown, identity, timeout_s=timeout_s, retries=retries)

    async def current_key(self, name: str) -> EncryptionKey:
        await self._newest(self._key_name(name))
        return EncryptionKey(name, 0, self._algorithm)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        name, local = self._key_name(key.name), new_local_key(key)
        wrapping, version = await self._newest(name)

        async def wrap(client: Any) -> Any:
            return await client.get_cryptography_client(name, key_version=version).wrap_key(wrapping, local)

        answer = await self._ask(wrap)
        return LocalKey(f"{wrapping}/{version}\0".encode() + answer.encrypted_key, local)

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        name, head = self._key_name(key.name), HEAD.match(encrypted)
        if head is None:
            raise self._refused(f"this local key was not made with the vault's key {key.name!r}")
        wrapping, version = head["algorithm"].decode(), head["version"].decode()

        async def unwrap(client: Any) -> Any:
            opener = client.get_cryptography_client(name, key_version=version)
            return await opener.unwrap_key(wrapping, encrypted[head.end() :])

        return self._of_length(key, encrypted, (await self._ask(unwrap)).key)

    async def _newest(self, name: str) -> tuple[str, str]:
        """How the newest version of a key wraps, and what it is called."""
        found = await self._ask(lambda client: client.get_key(name))
        wrapping = WRAPPINGS.get(str(getattr(found.key_type, "value", found.key_type)).partition("-")[0])
        if wrapping is None:
            raise self._refused(f"the key {name!r} cannot wrap keys: it is {found.key_type}")
        if found.properties.enabled is False:
            raise self._refused(f"the key {name!r} is disabled")
        return wrapping, str(found.properties.version)

    async def _connect(self) -> ServiceClient:
        keys = await import_extra("azure.keyvault.keys.aio", "azure")
        errors = await import_extra("azure.core.exceptions", "azure")
        make_credential = self._make_credential
        if make_credential is None:
            make_credential = (await import_extra("azure.identity.aio", "azure")).DefaultAzureCredential
        # Attempts inside attempts multiply their waits.
        options: dict[str, Any] = {"retry_total": 0}
        if self._make_transport is not None:
            options["transport"] = self._make_transport()
        credential = make_credential()
        client = ServiceClient(keys.KeyClient(self._vault_url, credential, **options), errors)
        client.closing.push_async_callback(credential.close)
        client.closing.push_async_callback(client.calls.close)  # before the credential
        return client

    async def _ask(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        async def attempt(client: ServiceClient) -> Any:
            (errors,) = client.errors
            try:
                return await call(client.calls)
            except (errors.ServiceRequestError, errors.ServiceResponseError) as error:
                raise Transient(str(error), url=self.url) from error
            except errors.HttpResponseError as error:
                if error.status_code in TRANSIENT_STATUS:
                    raise Transient(_first_line(error), url=self.url) from error
                if (error.status_code or 0) >= 400 or isinstance(error, errors.ClientAuthenticationError):
                    raise self._refused(_first_line(error)) from error
                raise self._senseless(_first_line(error)) from error
            except errors.AzureError as error:
                raise self._refused(_first_line(error)) from error
            except ValueError as error:  # the key is not valid yet, or no more
                raise self._refused(_first_line(error)) from error
            except (AttributeError, TypeError, LookupError) as error:  # from their parser
                raise self._senseless(_first_line(error)) from error

        return await self._call(attempt)

    def _key_name(self, name: str) -> str:
        if not NAME.fullmatch(name):
            raise self._refused(f"there is no key {name!r}")
        return name


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
