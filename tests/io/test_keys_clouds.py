"""What the key stores of clouds are asked, and what their answers and errors mean."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind
from orcstream.errors import KeyUnavailable, RetriesExhausted, SourceError, UsageError
from orcstream.io.keys import AwsKeyProvider, GcpKeyProvider
from orcstream.io.loop.clients import leased_clients
from tests.servers.azure_vault import Credential
from tests.servers.google_kms import RING
from tests.servers.key_stores import AwsStore, AzureStore, GcpStore, key_store

AES_128, AES_256 = EncryptionAlgorithm.AES_CTR_128, EncryptionAlgorithm.AES_CTR_256


@pytest.fixture
def aws() -> Iterator[AwsStore]:
    with key_store("aws") as store:
        assert isinstance(store, AwsStore)
        yield store


@pytest.fixture
def gcp() -> Iterator[GcpStore]:
    with key_store("gcp") as store:
        assert isinstance(store, GcpStore)
        yield store


@pytest.fixture
def azure() -> Iterator[AzureStore]:
    with key_store("azure") as store:
        assert isinstance(store, AzureStore)
        yield store


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on this machine says who asks."""
    for name in (
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/dev/null/none")


async def test_aws_opens_its_own_local_keys(aws: AwsStore) -> None:
    name = aws.add()
    found = aws.client.describe_key(KeyId=name)["KeyMetadata"]
    for spelled in (name, found["KeyId"], found["Arn"]):
        async with aws.provider(128) as provider:
            assert provider.kind is KeyProviderKind.AWS
            key = await provider.current_key(spelled)
            assert key == EncryptionKey(spelled, 0, AES_128)
            local = await provider.create_local_key(key)
        assert aws.client.decrypt(CiphertextBlob=local.encrypted)["Plaintext"] == local.key


async def test_the_context_of_aws(aws: AwsStore) -> None:
    name, context = aws.add(), {"table": "trips"}
    async with aws.provider(context=context) as provider:
        key = await provider.current_key(name)
        local = await provider.create_local_key(key)
        assert await provider.decrypt_local_key(key, local.encrypted) == local
    async with aws.provider() as provider:
        with pytest.raises(KeyUnavailable):
            await provider.decrypt_local_key(key, local.encrypted)


async def test_keys_of_aws_that_cannot_be_used(aws: AwsStore) -> None:
    disabled = aws.client.create_key()["KeyMetadata"]["KeyId"]
    aws.client.disable_key(KeyId=disabled)
    ended = aws.client.create_key()["KeyMetadata"]["KeyId"]
    aws.client.schedule_key_deletion(KeyId=ended, PendingWindowInDays=7)
    signing = aws.client.create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    async with aws.provider() as provider:
        for name, why in ((disabled, "Disabled"), (ended, "PendingDeletion"), (signing, "symmetric")):
            with pytest.raises(KeyUnavailable, match=why):
                await provider.current_key(name)


async def test_aws_without_credentials_or_region(aws: AwsStore, nobody: None) -> None:
    endpoint = {"endpoint_url": aws._access["endpoint_url"]}
    async with AwsKeyProvider("us-east-1", client_options=endpoint) as provider:
        with pytest.raises(KeyUnavailable, match="credentials"):
            await provider.current_key("alias/x")
    async with AwsKeyProvider(client_options=endpoint) as provider:
        with pytest.raises(UsageError, match="region"):
            await provider.current_key("alias/x")
    async with AwsKeyProvider("us-east-1", profile="no such profile") as provider:
        with pytest.raises(UsageError, match="profile"):
            await provider.current_key("alias/x")
    async with AwsKeyProvider("us-east-1", client_options={"nonsense": 1}) as provider:
        with pytest.raises(UsageError, match="nonsense"):
            await provider.current_key("alias/x")
    assert leased_clients() == 0


# As the API reference of AWS KMS lists them: the code, its status, whether another attempt may help.
AWS_ERRORS = [
    *(
        ("AccessDeniedException", 400, False),
        ("NotFoundException", 400, False),
        ("DisabledException", 400, False),
    ),
    *(("InvalidCiphertextException", 400, False), ("IncorrectKeyException", 400, False)),
    *(("KMSInvalidStateException", 400, False), ("InvalidKeyUsageException", 400, False)),
    *(("ExpiredTokenException", 400, False), ("UnrecognizedClientException", 400, False)),
    *(("InvalidGrantTokenException", 400, False), ("AccessDenied", 403, False)),
    *(("KeyUnavailableException", 500, True), ("DependencyTimeoutException", 500, True)),
    *(
        ("KMSInternalException", 500, True),
        ("ThrottlingException", 400, True),
        ("ServiceUnavailable", 503, True),
    ),
]


@asynccontextmanager
async def answering(status: int, body: bytes) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that always answers the same; its address, and what was asked."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.headers.get("X-Amz-Target", ""))
        return web.Response(status=status, body=body, content_type="application/x-amz-json-1.1")

    runner = web.AppRunner(web.Application())
    runner.app.router.add_route("*", "/{any:.*}", handle)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(("code", "status", "passes"), AWS_ERRORS)
async def test_refusals_of_aws(code: str, status: int, passes: bool) -> None:
    body = json.dumps({"__type": code, "message": "because"}).encode()
    async with answering(status, body) as (endpoint, asked):
        access = {"endpoint_url": endpoint, "aws_access_key_id": "a", "aws_secret_access_key": "s3cret"}
        async with AwsKeyProvider("us-east-1", client_options=access, retries=1) as provider:
            with pytest.raises(RetriesExhausted if passes else KeyUnavailable, match=code) as caught:
                await provider.decrypt_local_key(EncryptionKey("k", 0, AES_256), b"x")
            assert "s3cret" not in str(caught.value) + repr(provider)
        assert asked == ["TrentService.Decrypt"] * (2 if passes else 1)


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"Plaintext": 5}', b'{"Plaintext": "AAAA", "CiphertextBlob": ""}']
)
async def test_answers_of_aws_that_are_none(body: bytes) -> None:
    async with answering(200, body) as (endpoint, _):
        access = {"endpoint_url": endpoint, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
        async with AwsKeyProvider("us-east-1", client_options=access, retries=0) as provider:
            key = EncryptionKey("k", 0, AES_256)
            for call in (provider.decrypt_local_key(key, b"x"), provider.create_local_key(key)):
                with pytest.raises((KeyUnavailable, SourceError)):
                    await call


async def test_names_of_google(gcp: GcpStore) -> None:
    gcp.kms.keys["k"] = [bytes(32)] * 3
    full = f"{RING}/cryptoKeys/k"
    async with GcpKeyProvider(make_client=gcp.kms.make_client) as provider:
        assert provider.kind is KeyProviderKind.GCP
        key = await provider.current_key(full)
        assert key == EncryptionKey(full, 3, AES_256)
        old = await provider.create_local_key(dataclasses.replace(key, version=2))
        assert old.encrypted[0] == 2  # where the stand-in writes the version that it was asked for
        assert await provider.decrypt_local_key(key, old.encrypted) == old
        with pytest.raises(KeyUnavailable, match="ring"):
            await provider.current_key("k")
    async with gcp.provider() as provider:
        for name in ("a/b", "a b", "k/cryptoKeyVersions/1"):
            with pytest.raises(KeyUnavailable):
                await provider.current_key(name)
        gcp.kms.disabled.add("k")
        with pytest.raises(KeyUnavailable, match=r"'k'.*\bsymmetric\b"):
            await provider.current_key("k")


GOOGLE_CODES = {
    **dict.fromkeys(("NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED", "FAILED_PRECONDITION"), False),
    **dict.fromkeys(("INVALID_ARGUMENT", "OUT_OF_RANGE", "UNIMPLEMENTED"), False),
    **dict.fromkeys(("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED"), True),
    **dict.fromkeys(("ABORTED", "UNKNOWN", "CANCELLED"), True),
}


@pytest.mark.parametrize("code", GOOGLE_CODES)
async def test_refusals_of_google(gcp: GcpStore, code: str) -> None:
    gcp.kms.fault = lambda: code
    async with gcp.provider(retries=1) as provider:
        with pytest.raises(
            RetriesExhausted if GOOGLE_CODES[code] else KeyUnavailable, match="as it was told"
        ):
            await provider.current_key("k")
    assert len(gcp.kms.asked) == (2 if GOOGLE_CODES[code] else 1)


async def test_google_without_credentials(nobody: None) -> None:
    async with GcpKeyProvider(RING) as provider:
        with pytest.raises(KeyUnavailable, match="/dev/null/none"):
            await provider.current_key("k")
    assert leased_clients() == 0


async def test_what_azure_wraps_with_keys_that_leave_the_vault(azure: AzureStore) -> None:
    name, closed = azure.add(), Credential.closed
    async with azure.provider() as provider:
        assert provider.kind is KeyProviderKind.AZURE
        key = await provider.current_key(name)
        assert key == EncryptionKey(name, 0, AES_256)
        local = await provider.create_local_key(key)
    assert Credential.closed == closed + 1
    head, _, wrapped = local.encrypted.partition(b"\0")
    ((version, private),) = azure.vault.keys[name].items()
    assert head == f"RSA-OAEP-256/{version}".encode()
    assert isinstance(private, rsa.RSAPrivateKey)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    assert private.decrypt(wrapped, oaep) == local.key


async def test_what_azure_wraps_with_keys_that_do_not(azure: AzureStore) -> None:
    azure.vault.add("hsm", symmetric=True)
    async with azure.provider(128) as provider:
        key = await provider.current_key("hsm")
        local = await provider.create_local_key(key)
        assert local.encrypted.startswith(b"A256KW/") and len(local.key) == 16
        azure.vault.add("hsm", symmetric=True)
        assert await provider.decrypt_local_key(key, local.encrypted) == local


async def test_keys_of_azure_that_cannot_be_used(azure: AzureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    name = azure.add()
    azure.vault.disabled.add(name)
    async with azure.provider() as provider:
        with pytest.raises(KeyUnavailable, match="disabled"):
            await provider.current_key(name)
        azure.vault.disabled.clear()
        key = await provider.current_key(name)
        version = next(iter(azure.vault.keys[name]))
        for head in (
            "RSA1_5/" + version,
            "RSA-OAEP-256/",
            "RSA-OAEP-256/../x",
            "RSA-OAEP-256/" + "0" * 32,
            "",
        ):
            with pytest.raises(KeyUnavailable):
                await provider.decrypt_local_key(key, f"{head}\0".encode() + bytes(256))
        monkeypatch.setattr("tests.servers.azure_vault._public", lambda _key: {"kty": "EC", "crv": "P-256"})
        with pytest.raises(KeyUnavailable, match=r"\bEC\b"):
            await provider.current_key(name)


AZURE_STATUSES = {400: False, 403: False, 404: False, 409: False, 408: True, 429: True, 500: True, 503: True}


@pytest.mark.parametrize("status", AZURE_STATUSES)
async def test_refusals_of_azure(azure: AzureStore, status: int) -> None:
    name = azure.add()
    passes = AZURE_STATUSES[status]
    async with azure.provider(retries=1) as provider:
        await provider.current_key(name)
        before = azure.asked()
        azure.vault.answer = status, b'{"error": {"code": "Because", "message": "of this\\nand that"}}'
        with pytest.raises(RetriesExhausted if passes else KeyUnavailable, match="of this"):
            await provider.current_key(name)
        assert azure.asked() == before + (2 if passes else 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b"{}", b'{"key": {"kty": "RSA"}}', b'{"key": 5}', b'{"kid": 5, "value": 5}'],
)
async def test_answers_of_azure_that_are_none(azure: AzureStore, body: bytes) -> None:
    name = azure.add()
    async with azure.provider(retries=0) as provider:
        key = await provider.current_key(name)
        local = await provider.create_local_key(key)
        azure.vault.answer = 200, body
        for call in (provider.create_local_key(key), provider.decrypt_local_key(key, local.encrypted)):
            try:
                with pytest.raises((SourceError, KeyUnavailable)):
                    await call
            finally:
                call.close()
