"""What opens and closes local keys: the contract of key stores.

Knows keys by name and version. Must not know files: what is encrypted with a local key is known by `codec`.
A provider never hands out a master key, only the local keys that it protects. What a store refuses is
`KeyUnavailable`, what it cannot answer now (after retries) `SourceError`.
"""

from __future__ import annotations

from typing import Protocol

from orcstream.encryption import EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import UsageError


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
