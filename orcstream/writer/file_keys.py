"""The local keys of a file about to be written.

Knows a key provider and names of keys. Must not know columns. Nothing is kept: each file draws its own keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from orcstream.codec.variants import NO_KEYS, FileKeys
from orcstream.encryption import EncryptionKey, LocalKey
from orcstream.errors import KeyUnavailable
from orcstream.io.keys import KeyProvider

__all__ = ["current_keys", "draw_keys"]

_AT_ONCE = 8


async def draw_keys(provider: KeyProvider | None, names: Sequence[str]) -> FileKeys:
    """A new local key for each of the names, of the newest version of that master key.

    Raises what the provider raises, and `KeyUnavailable` where it gives what is no key.
    """
    if provider is None or not names:
        return NO_KEYS
    keys = await current_keys(provider, names)
    drawn: list[LocalKey | None] = [None] * len(names)
    failures: list[Exception] = []
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def draw(number: int, key: EncryptionKey) -> None:
        try:
            async with limiter:
                drawn[number] = await provider.create_local_key(key)
        except Exception as error:  # noqa: BLE001 - raised below; a group would come out of the block
            failures.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for number, name in enumerate(names):
            tasks.start_soon(draw, number, keys[name])
    if failures:
        raise failures[0]
    local = tuple(key for key in drawn if key is not None)
    for name, found in zip(names, local, strict=True):
        if not found.key or len(found.key) != keys[name].algorithm.key_bytes:
            raise KeyUnavailable(f"the local key for {name!r} has {len(found.key)} bytes")
    return FileKeys(provider.kind, keys, local)


async def current_keys(provider: KeyProvider, names: Sequence[str]) -> dict[str, EncryptionKey]:
    """The newest version of each key. Raises what the provider raises."""
    return {name: await provider.current_key(name) for name in dict.fromkeys(names)}
