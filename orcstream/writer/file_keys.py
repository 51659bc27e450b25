"""The local keys of a file about to be written.

Knows a key provider, master keys and their names. Must not know columns. Nothing is kept: each file draws its
own keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orcstream.encryption import (
    MOST_KEY_VERSION,
    NO_KEYS,
    EncryptionAlgorithm,
    EncryptionKey,
    FileKeys,
    KeyProvider,
    LocalKey,
)
from orcstream.errors import KeyUnavailable
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.urls import is_utf8

_AT_ONCE = 8


async def draw_keys(provider: KeyProvider | None, names: Sequence[str]) -> FileKeys:
    """A new local key for each of the names, of the newest version of that master key.

    Raises what the provider raises, and `KeyUnavailable` where it gives what is no key.
    """
    if provider is None or not names:
        return NO_KEYS
    current = await current_keys(provider, names)
    return await draw_local_keys(provider, [current[name] for name in names])


async def current_keys(provider: KeyProvider, names: Sequence[str]) -> dict[str, EncryptionKey]:
    """The newest version of each key. Raises as `draw_keys` does."""
    found = {name: await provider.current_key(name) for name in dict.fromkeys(names)}
    for name, key in found.items():
        if not _is_key(key):
            raise KeyUnavailable(f"the key provider returned no valid EncryptionKey for {name!r}")
    return found


def _is_key(key: Any) -> bool:
    return (
        isinstance(key, EncryptionKey)
        and is_utf8(key.name)
        and type(key.version) is int
        and 0 <= key.version <= MOST_KEY_VERSION
        and isinstance(key.algorithm, EncryptionAlgorithm)
    )


async def draw_local_keys(provider: KeyProvider, keys: Sequence[EncryptionKey]) -> FileKeys:
    """A new local key for each of the master keys, in just these versions. Raises what `draw_keys` raises."""
    drawn = await side_by_side(keys, provider.create_local_key, at_once=_AT_ONCE)
    found = tuple(zip(keys, drawn, strict=True))
    for key, local in found:
        if not isinstance(local, LocalKey):
            raise KeyUnavailable(f"the key provider returned no LocalKey for {key.name!r}")
        if not local.key or len(local.key) != key.algorithm.key_bytes:
            raise KeyUnavailable(f"the local key for {key.name!r} has {len(local.key)} bytes")
    return FileKeys(provider.kind, found)
