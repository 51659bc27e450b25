"""Keys in memory, and in a file of the user's own."""

from __future__ import annotations

import json
import os
import stat
import warnings
from operator import itemgetter
from typing import Any

from orcstream._cipher import BLOCK_BYTES, aes_ctr
from orcstream._printable import printable
from orcstream.encryption import (
    MOST_KEY_VERSION,
    EncryptionAlgorithm,
    EncryptionKey,
    KeyProvider,
    KeyProviderKind,
    LocalKey,
)
from orcstream.errors import KeyUnavailable, UsageError
from orcstream.io.loop.tasks import Closable
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.urls import is_utf8


class InMemoryKeyProvider(Closable, KeyProvider):
    """Master keys in memory: for tests, development, and keys that come from elsewhere.

    Local keys are made as ORC Java's own in-memory store makes them, so it can share files with that one.
    """

    kind = KeyProviderKind.HADOOP

    def __init__(self) -> None:
        self._keys: dict[str, dict[int, bytes]] = {}

    def __repr__(self) -> str:
        return f"<InMemoryKeyProvider of the keys {sorted(self._keys)}>"

    def add_key(self, name: str, key: bytes, version: int = 0) -> None:
        """Add a `version` of the key `name`: a `key` of 16 bytes makes an AES-128 one, 32 an AES-256 one.

        Raises `UsageError` for keys that are not so many bytes, and versions that are not after those of that
        name.
        """
        given: Any = key
        given_name: Any = name
        if not isinstance(given, bytes) or len(key) not in _ALGORITHMS:
            raise UsageError(f"the key {name!r} must be 16 or 32 bytes")
        if not isinstance(given_name, str) or not is_utf8(name):
            raise UsageError(f"the name of a key is text that UTF-8 can hold, not {name!r}")
        newest = max(self._keys.get(name, ()), default=-1)
        if type(version) is not int or version <= newest:
            before = f"has version {newest}" if newest >= 0 else "has no version yet, and they begin with 0"
            raise UsageError(f"the key {name!r} {before}; {version!r} is not after it")
        if version > MOST_KEY_VERSION:
            raise UsageError(f"the version of a key is {MOST_KEY_VERSION} at most, not {version}")
        self._keys.setdefault(name, {})[version] = key

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


async def read_key_file(path: str | os.PathLike[str]) -> InMemoryKeyProvider:
    """Keys of the file at `path`, for development: JSON, hexadecimal keys by name, or by name and version.

    ``{"pii": "00112233445566778899aabbccddeeff", "top": {"0": "...", "1": "..."}}``; 32 digits make an
    AES-128 key, 64 an AES-256 one. Warns where others than the owner may read the file. Raises `UsageError`
    for a file that cannot be read or is of another form.
    """
    path = os.fspath(path)
    text, mode = await run_in_thread(lambda: _read_text(path))
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        warnings.warn(f"others can read the keys in {printable(str(path))}: chmod 600", stacklevel=2)
    provider = InMemoryKeyProvider()
    try:
        # What is not to be shown is not in the texts of these errors: names and places are, keys never.
        for name, versions in json.loads(text, object_pairs_hook=_without_doubles).items():
            numbered = versions if isinstance(versions, dict) else {"0": versions}
            of_numbers = [(_version_of(number), text) for number, text in numbered.items()]
            for version, text in sorted(of_numbers, key=itemgetter(0)):
                provider.add_key(name, _key_of(text), version)
    except UsageError as error:
        raise error.locate(url=path) from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise UsageError('a file of keys is JSON: {"name": {"0": "hexadecimal"}}', url=path) from None
    return provider


def _read_text(path: str) -> tuple[str, int]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the mode is that of the file that is read
            return file.read(), os.fstat(file.fileno()).st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"the file of keys cannot be read: {reason}", url=path) from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names are each there once."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise UsageError("the file of keys names a key, or a version, twice")
    return dict(pairs)


def _version_of(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _key_of(text: object) -> bytes:
    if not isinstance(text, str):
        raise TypeError
    return bytes.fromhex(text)


# By the length of their keys.
_ALGORITHMS = {known.key_bytes: known for known in EncryptionAlgorithm if known.key_bytes}
