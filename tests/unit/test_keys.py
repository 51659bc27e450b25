"""Keys in memory, files of keys, and key stores by name."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

import orcstream
from orcstream.encryption import Encrypt, EncryptionAlgorithm, EncryptionKey, KeyProviderKind
from orcstream.errors import KeyUnavailable, Unsupported, UsageError
from orcstream.io import keys
from orcstream.io.keys import (
    AwsKeyProvider,
    AzureKeyProvider,
    GcpKeyProvider,
    HadoopKeyProvider,
    InMemoryKeyProvider,
    KeyProvider,
    open_keys,
    read_key_file,
)
from tests.generators.encrypting import CountedKeys

AES_128, AES_256 = EncryptionAlgorithm.AES_CTR_128, EncryptionAlgorithm.AES_CTR_256


@pytest.mark.parametrize("length", [16, 32])
async def test_local_keys_are_those_of_the_reference_implementation(length: int) -> None:
    master = os.urandom(length)
    async with InMemoryKeyProvider() as provider:
        provider.add_key("pii", master)
        local = await provider.create_local_key(await provider.current_key("pii"))
    cipher = Cipher(algorithms.AES(master), modes.CTR(local.encrypted[:16])).decryptor()
    assert local.key == cipher.update(local.encrypted) + cipher.finalize()


@pytest.mark.parametrize(
    ("key", "version"), [(b"", 0), (bytes(24), 0), ("0" * 32, 0), (bytes(16), -1), (bytes(16), True)]
)
def test_keys_that_are_none(key: Any, version: int) -> None:
    with pytest.raises(UsageError):
        InMemoryKeyProvider().add_key("pii", key, version)


@pytest.mark.parametrize("name", [None, 5, b"pii", "\ud800"])
def test_names_that_no_file_holds(name: Any) -> None:
    with pytest.raises(UsageError, match=r"\bname\b.*\bUTF-8\b"):
        InMemoryKeyProvider().add_key(name, bytes(16))
    with pytest.raises(UsageError, match=r"\bkey\b.*\bname\b"):
        orcstream.create(io.BytesIO(), "struct<a:int>", encrypt=[Encrypt(name, ["a"])], keys=CountedKeys())


def test_versions_that_no_file_holds() -> None:
    provider = InMemoryKeyProvider()
    provider.add_key("pii", bytes(16), (1 << 32) - 1)
    with pytest.raises(UsageError, match=r"\b4294967295\b"):
        provider.add_key("other", bytes(16), 1 << 32)


class Odd(InMemoryKeyProvider):
    """Returns what is no key."""

    def __init__(self, *, current: object = None, local: object = None) -> None:
        super().__init__()
        self.add_key("pii", bytes(16))
        self._current, self._local = current, local

    async def current_key(self, name: str) -> Any:
        return self._current or await super().current_key(name)

    async def create_local_key(self, key: EncryptionKey) -> Any:
        return self._local or await super().create_local_key(key)

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> Any:
        return self._local or await super().decrypt_local_key(key, encrypted)


@pytest.mark.parametrize(
    "current",
    [
        "pii",
        ("pii", 0),
        EncryptionKey("\ud800", 0, AES_128),
        EncryptionKey("pii", -1, AES_128),
        EncryptionKey("pii", 1 << 32, AES_128),
        EncryptionKey("pii", True, AES_128),
        EncryptionKey("pii", 0, 1),  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_a_provider_that_returns_what_is_no_key(current: object) -> None:
    with pytest.raises(KeyUnavailable, match=r"\bEncryptionKey\b.*'pii'"):
        await write_encrypted(Odd(current=current))


async def test_a_provider_that_returns_what_is_no_local_key() -> None:
    odd = Odd(local=b"x" * 16)
    with pytest.raises(KeyUnavailable, match=r"\bLocalKey\b.*'pii'"):
        await write_encrypted(odd)
    data = await write_encrypted(Odd())
    with pytest.raises(UsageError, match=r"\bLocalKey\b.*\b0\b.*'pii'"):
        await orcstream.open(data, keys=odd)


async def write_encrypted(provider: InMemoryKeyProvider) -> bytes:
    target = io.BytesIO()
    options: Any = {"encrypt": [Encrypt("pii", ["a"])], "keys": provider}
    async with orcstream.create(target, "struct<a:int>", **options) as out:
        await out.write([(1,)])
    return target.getvalue()


def test_versions_go_up() -> None:
    provider = InMemoryKeyProvider()
    provider.add_key("pii", bytes(16), 4)
    with pytest.raises(UsageError, match=r"'pii'.*\b4\b"):
        provider.add_key("pii", bytes(16), 4)


def key_file(folder: Path, text: str | bytes, mode: int = 0o600) -> str:
    path = folder / "keys.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return str(path)


async def test_a_file_of_keys(tmp_path: Path) -> None:
    text = {"pii": "0f" * 16, "top": {"10": "1E" * 32, "2": "2d" * 16}}
    path = key_file(tmp_path, json.dumps(text))
    for place in (path, f"file://{path}"):
        provider = await open_keys(place)
        assert provider.kind is KeyProviderKind.HADOOP
        assert await provider.current_key("pii") == EncryptionKey("pii", 0, AES_128)
        assert await provider.current_key("top") == EncryptionKey("top", 10, AES_256)
        memory = InMemoryKeyProvider()
        memory.add_key("top", b"\x2d" * 16, 2)
        old = EncryptionKey("top", 2, AES_128)
        expected = await memory.decrypt_local_key(old, bytes(range(16)))
        assert await provider.decrypt_local_key(old, bytes(range(16))) == expected
        await provider.aclose()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
async def test_a_file_that_others_can_read(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, json.dumps({"pii": "00" * 16}), mode)
    with pytest.warns(UserWarning, match="chmod 600"):
        provider = await read_key_file(path)
    await provider.current_key("pii")


SECRET = "c0ffee" * 10
WRONG = [
    *("", "[]", "5", '"x"', "{", "null", b"\xff", "[" * 100_000),
    *(f'{{"pii": "{SECRET}"}}', f'{{"pii": "{SECRET}zzzz"}}', f'{{"pii": ["{SECRET}"]}}'),
    *(f'{{"pii": {{"x": "{SECRET}"}}}}', f'{{"pii": {{"-1": "{SECRET}c0ff"}}}}', '{"pii": 5}'),
    *(f'{{"pii": "{SECRET}c0ff", "pii": "{SECRET}c0ff"}}', '{"pii": {"0": null}}'),
    f'{{"pii": {{"0": "{SECRET}c0ff", "00": "{SECRET}c0ff"}}}}',
    *(f'{{"pii": {{"{number}": "{SECRET}c0ff"}}}}' for number in ("+1", " 1", "1_0", "\u0661", 1 << 32)),
    f'{{"\\ud800": "{SECRET}c0ff"}}',
]


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:20])
async def test_files_that_hold_no_keys(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(UsageError) as caught:
        await read_key_file(key_file(tmp_path, text))
    assert caught.value.url is not None
    shown: BaseException | None = caught.value
    while shown is not None:  # nor in what led to it, where that is shown too
        assert SECRET not in str(shown) or shown.__suppress_context__
        shown = shown.__cause__


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none: .*\bNo such file\b"):
        await open_keys(str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"'a\\x00b'"):
        await open_keys("a\0b")
    for place in (None, 5, b"keys.json"):
        with pytest.raises(UsageError, match=type(place).__name__):
            await open_keys(place)  # type: ignore[arg-type]


async def test_keys_in_place_of_a_path_are_not_shown() -> None:
    """As an environment variable or an option may hold them by mistake."""
    for place in (json.dumps({"pii": SECRET}), f' {{"pii": "{SECRET}"}}'):
        with pytest.raises(UsageError, match=r"\bJSON\b") as caught:
            await open_keys(place)
        assert SECRET not in f"{caught.value!r} {caught.value}"


PLACES: list[tuple[str, dict[str, Any], str, str]] = [
    ("kms://http@h1;h2:9600/kms?user=etl&timeout_s=5", {}, "HadoopKeyProvider", "kms://http@h1;h2:9600/kms"),
    ("kms://https@h/kms?token=s3cret&verify=false", {}, "HadoopKeyProvider", "kms://https@h/kms"),
    ("kms://https@h/kms?kerberos=true", {"verify": "ca.pem"}, "HadoopKeyProvider", "kms://https@h/kms"),
    ("aws-kms://eu-west-1?algorithm=AES_CTR_128", {}, "AwsKeyProvider", "aws-kms://eu-west-1"),
    ("aws-kms://", {"context": {"a": "b"}}, "AwsKeyProvider", "aws-kms://"),
    (
        "gcp-kms://projects/p/locations/l/keyRings/r/",
        {},
        "GcpKeyProvider",
        "projects/p/locations/l/keyRings/r",
    ),
    ("gcp-kms://", {"retries": 2}, "GcpKeyProvider", "gcp-kms://"),
    ("azure-kv://myvault?retries=0", {}, "AzureKeyProvider", "azure-kv://myvault"),
    ("azure-kv://hsm.managedhsm.azure.net", {}, "AzureKeyProvider", "azure-kv://hsm.managedhsm.azure.net"),
]


@pytest.mark.parametrize(("place", "options", "name", "shown"), PLACES)
async def test_stores_by_name(place: str, options: dict[str, Any], name: str, shown: str) -> None:
    provider = await open_keys(place, **options)
    assert type(provider) is getattr(keys, name)
    assert shown in repr(provider) and "s3cret" not in repr(provider)
    await provider.aclose()


NO_PLACES: list[tuple[str, dict[str, Any]]] = [
    ("s3://bucket/keys", {}),
    ("vault://u:s3cret@host", {}),
    ("kms://http@h/kms?secret=s3cret", {}),
    ("kms://http@h/kms?timeout_s=s3cret", {}),
    ("kms://http@h/kms?user=a&user=s3cret", {}),
    ("kms://http@h/kms?user=a", {"user": "s3cret"}),
    ("kms://http@h/kms", {"unknown": 1}),
    ("kms://http@h/kms?kerberos=s3cret", {}),
    ("aws-kms://x?algorithm=AES", {}),
    ("aws-kms://x", {"algorithm": EncryptionAlgorithm.UNKNOWN}),
    ("gcp-kms://projects/p", {}),
    ("azure-kv://", {}),
    ("azure-kv://u:s3cret@vault", {}),
    ("azure-kv://a/b", {}),
]


@pytest.mark.parametrize(("place", "options"), NO_PLACES)
async def test_names_of_no_store(place: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        await open_keys(place, **options)
    assert "s3cret" not in str(caught.value)


async def test_a_file_has_no_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\buser\b"):
        await open_keys(key_file(tmp_path, "{}"), user="me")


@given(st.text(max_size=60), st.sampled_from(["", "kms://http@", "aws-kms://", "gcp-kms://", "azure-kv://"]))
def test_any_text_names_a_store_or_is_an_error(text: str, scheme: str) -> None:
    import anyio

    async def name() -> None:
        try:
            provider = await open_keys(f"{scheme}{text}" if scheme else f"/no/such/folder/{text}")
        except UsageError:
            return
        await provider.aclose()

    anyio.run(name)


@pytest.mark.parametrize(
    ("place", "library", "extra"),
    [
        ("gcp-kms://projects/p/locations/l/keyRings/r", "google.cloud.kms_v1", "gcp"),
        ("azure-kv://vault", "azure.keyvault.keys.aio", "azure"),
    ],
)
async def test_without_the_library(
    monkeypatch: pytest.MonkeyPatch, place: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    provider = await open_keys(place)
    with pytest.raises(Unsupported, match=rf"orcstream\[{extra}\]") as caught:
        await provider.current_key("pii")
    assert caught.value.reason == "missing_dependency"
    await provider.aclose()


def test_all_keep_the_protocol() -> None:
    # The types say so; it is mypy that this is for.
    providers: list[KeyProvider] = [
        InMemoryKeyProvider(),
        HadoopKeyProvider("kms://http@host/kms"),
        AwsKeyProvider(),
        GcpKeyProvider(),
        AzureKeyProvider("vault"),
    ]
    assert [provider.kind.name for provider in providers] == ["HADOOP", "HADOOP", "AWS", "GCP", "AZURE"]


def test_errors_name_the_option() -> None:
    with pytest.raises(UsageError, match=r"kms: timeout_s\b"):
        HadoopKeyProvider("kms://http@host/kms", timeout_s=-1)


async def test_nobody_there_at_all() -> None:
    provider = InMemoryKeyProvider()
    for call in (
        provider.current_key("pii"),
        provider.create_local_key(EncryptionKey("pii", 0, AES_128)),
        provider.decrypt_local_key(EncryptionKey("pii", 0, AES_128), bytes(16)),
    ):
        with pytest.raises(KeyUnavailable):
            await call
    assert not hasattr(keys, "SomethingElse")
