"""What files, key stores and users agree on about encryption: keys by name and version, and what is theirs.

Values, and the contract of key stores: what is encrypted with a local key is known by `codec`, how keys are
had by `io.keys`. A provider never hands out a master key, only the local keys that it protects. What a store
refuses is `KeyUnavailable`, what it cannot answer now (after retries) `SourceError`. Specification: "Column
Encryption".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orcstream.errors import UsageError

__all__ = [
    "NO_KEYS",
    "Encrypt",
    "EncryptionAlgorithm",
    "EncryptionKey",
    "FileKeys",
    "KeyProviderKind",
    "LocalKey",
    "Mask",
]


class EncryptionAlgorithm(enum.IntEnum):
    """EncryptionAlgorithm; UNKNOWN also stands for numbers of a later format."""

    UNKNOWN = 0
    AES_CTR_128 = 1
    AES_CTR_256 = 2

    @property
    def key_bytes(self) -> int:
        """The length of its keys; 0 of an algorithm that is not known."""
        return {EncryptionAlgorithm.AES_CTR_128: 16, EncryptionAlgorithm.AES_CTR_256: 32}.get(self, 0)


class KeyProviderKind(enum.IntEnum):
    """KeyProviderKind; UNKNOWN also stands for numbers of a later format."""

    UNKNOWN = 0
    HADOOP = 1
    AWS = 2
    GCP = 3
    AZURE = 4


# Files hold the version of a master key as a number of 32 bits.
MOST_KEY_VERSION = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A master key, as key stores know it; `algorithm` is that of the local keys that it protects."""

    name: str
    version: int
    algorithm: EncryptionAlgorithm


@dataclass(frozen=True, slots=True)
class LocalKey:
    """A key that data is encrypted with: `encrypted`, as files hold it, and itself."""

    encrypted: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileKeys:
    """The keys of one file: for each variant, a master key and a new local key; and whose the first are."""

    provider: KeyProviderKind = KeyProviderKind.UNKNOWN
    keys: tuple[tuple[EncryptionKey, LocalKey], ...] = ()

    @property
    def local(self) -> Mapping[int, bytes]:
        """The local keys by variant."""
        return {variant: local.key for variant, (_, local) in enumerate(self.keys)}

    @property
    def encrypted(self) -> tuple[bytes, ...]:
        """The local keys as files hold them."""
        return tuple(local.encrypted for _, local in self.keys)


NO_KEYS = FileKeys()


@dataclass(frozen=True, slots=True)
class Mask:
    """What stands in a file for values that are encrypted.

    `name` is "nullify", "redact" or "sha256"; the `parameters` of redact are: the characters that replace
    those of each class, the replacements of the parts of dates and times, the ranges of characters that stay.
    """

    name: str = "nullify"
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Encrypt:
    """Columns to encrypt with one master key, whose name is `key`.

    `columns` are dotted names, or tuples where names hold dots.

    All columns below one that is named are encrypted with it. Who has no key reads what `mask` makes of the
    values: a `Mask`, its name, or a text such as ``redact,Xx9``.
    """

    key: str
    columns: Sequence[str | tuple[str, ...]]
    mask: str | Mask = "nullify"


class KeyProvider(Protocol):
    """What opens the encrypted columns of files, and closes those of new ones."""

    @property
    def kind(self) -> KeyProviderKind:
        """What files say where their keys are."""

    async def current_key(self, name: str) -> EncryptionKey:
        """The newest version of the key `name`.

        Raises `KeyUnavailable` where there is none, or it is not for us.
        """

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        """A new local key, drawn at random, of the length that the algorithm of `key` has."""

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        """The local key that a file has as `encrypted`, under the master key `key`.

        Raises `KeyUnavailable` where the store does not have this version of the key, or refuses.
        """

    async def aclose(self) -> None:
        """Give back connections; may be called again."""


def check_provider(given: object, name: str) -> None:
    """Raises `UsageError` where what is `given` as the option `name` is neither a key provider nor None."""
    if given is not None and (isinstance(given, type) or not hasattr(given, "decrypt_local_key")):
        found = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise UsageError(
            f"{name} must be a key provider, not {found}; orcstream.io.keys has some, and "
            "open_keys there makes one from text"
        )
