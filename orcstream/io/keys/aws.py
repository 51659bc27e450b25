"""Keys in the Key Management Service of AWS.

Knows its calls GenerateDataKey, Decrypt and DescribeKey, and what its refusals are called. Must not know
files.

Key material never leaves the service: a local key is made by it, and comes with the bytes that only it can
turn into the key again. Those bytes name their key and its version, so version is always 0 here, and keys
that the service rotates still open what they closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiobotocore.session
from aiobotocore.config import AioConfig
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoRegionError,
    SSLError,
)

from orcstream._credentials import strip_credentials
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import SourceError, UsageError
from orcstream.io.contract.byte_source import TRANSIENT_STATUS, Transient
from orcstream.io.keys.service import KeyService, ServiceClient, algorithm_of

CONNECT_TIMEOUT_S = 20.0
KEY_SPECS: Final = {
    EncryptionAlgorithm.AES_CTR_128: "AES_128",
    EncryptionAlgorithm.AES_CTR_256: "AES_256",
}
# Whatever their status: the service asks to come back later. All else below 500 is a refusal.
PASSING: Final = frozenset(
    {"DependencyTimeoutException", "KeyUnavailableException", "KMSInternalException", "InternalFailure"}
    | {"LimitExceededException", "RequestLimitExceeded", "RequestTimeout", "ServiceUnavailable"}
    | {"ThrottlingException", "Throttling", "TooManyRequestsException"}
)


class AwsKeyProvider(KeyService[ServiceClient]):
    """Keys in AWS KMS, named by id, ARN or alias (``alias/NAME``).

    `algorithm` is that of new local keys. With `context` (the encryption context) a local key opens only for
    who gives the same pairs. `client_options` go to botocore's client as they are: `aws_access_key_id`,
    `endpoint_url`, `verify` and so on; without them credentials and `region` come from where AWS's tools
    look, of the `profile` if one is named. A call may take `timeout_s` seconds, and is made again up to
    `retries` times.
    """

    kind = KeyProviderKind.AWS
    _service = "AWS KMS"

    def __init__(
        self,
        region: str | None = None,
        *,
        algorithm: EncryptionAlgorithm | str = EncryptionAlgorithm.AES_CTR_256,
        context: Mapping[str, str] | None = None,
        profile: str | None = None,
        client_options: Mapping[str, Any] | None = None,
        timeout_s: float = 20.0,
        retries: int = 4,
    ) -> None:
        self._region, self._profile = region, profile
        self._algorithm = algorithm_of(algorithm)
        self._context = {"EncryptionContext": dict(context)} if context else {}
        self._options = dict(client_options or {})
        endpoint = self._options.get("endpoint_url")
        shown = f"aws-kms://{region or ''}" + (f" at {strip_credentials(str(endpoint))}" if endpoint else "")
        identity = {"region": region, "profile": profile, "options": self._options}
        super().__init__(shown, identity, timeout_s=timeout_s, retries=retries)

    async def current_key(self, name: str) -> EncryptionKey:
        answer = await self._ask("describe_key", KeyId=self._named(name))
        found = answer.get("KeyMetadata", {})
        state = found.get("KeyState", "Enabled")
        if state != "Enabled":
            raise self._refused(f"the key {name!r} cannot be used: it is {state}")
        usage, spec = found.get("KeyUsage", "ENCRYPT_DECRYPT"), found.get("KeySpec", "SYMMETRIC_DEFAULT")
        if (usage, spec) != ("ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT"):
            raise self._refused(f"the key {name!r} is not symmetric, or not for encryption")
        return EncryptionKey(name, 0, self._algorithm)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        if key.algorithm not in KEY_SPECS:
            raise self._refused(f"the algorithm of key {key.name!r} is not known")
        answer = await self._ask(
            "generate_data_key",
            KeyId=self._named(key.name),
            KeySpec=KEY_SPECS[key.algorithm],
            **self._context,
        )
        encrypted = answer.get("CiphertextBlob")
        if not isinstance(encrypted, bytes):
            raise self._senseless("no encrypted key")
        return self._of_length(key, encrypted, answer.get("Plaintext"))

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        answer = await self._ask(
            "decrypt", KeyId=self._named(key.name), CiphertextBlob=encrypted, **self._context
        )
        return self._of_length(key, encrypted, answer.get("Plaintext"))

    async def _connect(self) -> ServiceClient:
        # Attempts inside attempts multiply their waits.
        config = AioConfig(
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=self._policy.timeout_s,
        )
        options = dict(self._options)
        given = options.pop("config", None)
        client = ServiceClient(None)
        try:
            session = aiobotocore.session.AioSession(profile=self._profile)
            creating = session.create_client(
                "kms", region_name=self._region, config=config.merge(given) if given else config, **options
            )
            client.calls = await client.closing.enter_async_context(creating)
        except NoRegionError as error:
            raise UsageError("no region is named: aws-kms://REGION", url=self.url) from error
        except (BotoCoreError, TypeError, ValueError) as error:
            raise UsageError(f"no client of AWS KMS: {error}", url=self.url) from error
        return client

    async def _ask(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        async def attempt(client: ServiceClient) -> Mapping[str, Any]:
            call: Callable[..., Awaitable[Mapping[str, Any]]] = getattr(client.calls, operation)
            try:
                return await call(**arguments)
            except ClientError as error:
                raise self._meant(error) from error
            except SSLError as error:
                raise SourceError(f"no secure connection: {error}", url=self.url) from error
            except (HTTPClientError, CredentialRetrievalError) as error:
                raise Transient(str(error), url=self.url) from error
            except BotoCoreError as error:  # no credentials, or a name that no key can have
                raise self._refused(str(error)) from error
            except (AttributeError, TypeError, ValueError, LookupError) as error:  # from its parser
                raise self._senseless(error) from error

        return await self._call(attempt)

    def _meant(self, error: ClientError) -> Exception:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in PASSING or status in TRANSIENT_STATUS:
            return Transient(str(error), url=self.url)
        return self._refused(str(error))
