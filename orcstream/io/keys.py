"""Key stores: where the master keys are that protect a file's local keys.

Knows keys by name and version. Must not know files: what is encrypted with a local key is known by `codec`.
A provider never hands out a master key, only the local keys that it protects. What a store refuses is
`KeyUnavailable`, what it cannot answer now (after retries) `SourceError`.
"""

from __future__ import annotations

import os
from typing import Protocol

from orcstream._cipher import BLOCK_BYTES, aes_ctr
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import KeyUnavailable, UsageError

__all__ = ["InMemoryKeyProvider", "KeyProvider"]


class KeyProvider(Protocol):
    """What opens the encrypted columns of files, and closes those of new ones."""

    @property
    def kind(self) -> KeyProviderKind:
        """What files say where their keys are."""

    async def current_key(self, name: str) -> EncryptionKey:
        """The newest version of a key. Raises `KeyUnavailable` where there is none, or it is not for us."""

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        """A new local key, drawn at random, of the length that the algorithm of `key` has."""

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        """The local key that a file has as `encrypted`.

        Raises `KeyUnavailable` where the store does not have this version of the key, or refuses.
        """

    async def aclose(self) -> None:
        """Give back connections; may be called again."""


class InMemoryKeyProvider:
    """Master keys in memory: for tests, development, and keys that come from elsewhere.

    Local keys are made as ORC Java's own in-memory store makes them, so it can share files with that one.
    """

    kind = KeyProviderKind.HADOOP

    def __init__(self) -> None:
        self._keys: dict[str, dict[int, bytes]] = {}

    def add_key(self, name: str, key: bytes, version: int = 0) -> None:
        """Add a version of a key: 16 bytes make an AES-128 one, 32 an AES-256 one.

        Raises `UsageError` for keys of other lengths, and versions that are not after those of that name.
        """
        if len(key) not in _ALGORITHMS:
            raise UsageError(f"the key {name!r} must be 16 or 32 bytes")
        versions = self._keys.setdefault(name, {})
        if type(version) is not int or version < 0 or version <= max(versions, default=-1):
            raise UsageError(f"the key {name!r} has version {max(versions)}; {version!r} is not after it")
        versions[version] = key

    async def current_key(self, name: str) -> EncryptionKey:
        versions = self._keys.get(name)
        if not versions:
            raise KeyUnavailable(f"there is no key {name!r}")
        version = max(versions)
        return EncryptionKey(name, version, _ALGORITHMS[len(versions[version])])

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        return await self.decrypt_local_key(key, os.urandom(key.algorithm.key_bytes))

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        master = self._keys.get(key.name, {}).get(key.version)
        if master is None:
            raise KeyUnavailable(f"there is no version {key.version} of key {key.name!r}")
        if _ALGORITHMS[len(master)] is not key.algorithm or len(encrypted) != len(master):
            raise KeyUnavailable(
                f"the key {key.name!r} is another one than the file's: it has {len(master)} bytes"
            )
        return LocalKey(encrypted, aes_ctr(master, encrypted[:BLOCK_BYTES], encrypted))

    async def aclose(self) -> None:
        """Nothing is held."""


_ALGORITHMS = {
    16: EncryptionAlgorithm.AES_CTR_128,
    32: EncryptionAlgorithm.AES_CTR_256,
}
