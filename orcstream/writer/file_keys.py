"""The local keys of a file about to be written, and of files that are merged: drawn, opened, drawn anew.

Knows key providers, master keys and their names. Must not know columns, nor which files go together. Nothing
is kept: each file draws its own keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from orcstream.encryption import (
    MOST_KEY_VERSION,
    NO_KEYS,
    EncryptionAlgorithm,
    EncryptionKey,
    FileKeys,
    KeyProvider,
    LocalKey,
    check_provider,
)
from orcstream.errors import KeyUnavailable, UsageError
from orcstream.file.unlocking import KeyRing, UnlockedFile
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.urls import is_utf8
from orcstream.plan.merge.variants import VariantMerger
from orcstream.plan.tail import Tail

_AT_ONCE = 8
# Pieces that are encrypted anew at a time.
_ANEW_AT_ONCE = 4


async def draw_keys(provider: KeyProvider, names: Sequence[str]) -> FileKeys:
    """A new local key for each of the names, of the newest version of that master key.

    Raises what the provider raises, and `KeyUnavailable` where it gives what is no key.
    """
    if not names:
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


@dataclass(frozen=True, slots=True)
class Rekeying:
    """What the user says of keys. `rename` has new names of master keys; None: stripes keep their keys."""

    keys: KeyProvider | None
    target: KeyProvider | None
    rename: Mapping[str, str] | None
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_ANEW_AT_ONCE))

    @property
    def renews(self) -> bool:
        """Whether stripes are encrypted anew."""
        return self.rename is not None

    async def unlocked(self, tail: Tail) -> UnlockedFile:
        """A file with all that it hides; without `keys`, as it stands in the clear."""
        file = await UnlockedFile.unlocked(tail, KeyRing(self.keys, required=self.keys is not None))
        if self.renews:
            await file.unlock_all(tail.footer.stripes)
        return file

    async def draw(self, variants: VariantMerger) -> FileKeys:
        """A new local key for each variant; none where nothing is encrypted.

        Raises what `draw_keys` raises, and `UsageError` for old names that no file has: their columns would
        keep the keys that they have.
        """
        unknown = sorted(set(self.rename or ()) - variants.key_names)
        if unknown:
            names = ", ".join(map(repr, sorted(variants.key_names))) or "no key"
            raise UsageError(f"rekey has {unknown[0]!r}, and the files are encrypted with {names}")
        provider = self.keys if self.target is None else self.target
        if provider is None or not variants.keys:
            return NO_KEYS
        if self.rename is None:
            return await draw_local_keys(provider, variants.keys)
        return await draw_keys(provider, [self.rename.get(key.name, key.name) for key in variants.keys])


def rekeying_of(
    keys: KeyProvider | None, rekey: bool | Mapping[str, str], target: KeyProvider | None
) -> Rekeying:
    """What `merge` was told, checked. Raises UsageError."""
    check_provider(keys, "keys")
    check_provider(target, "target_keys")
    given: Any = rekey
    names = [*given, *given.values()] if isinstance(given, Mapping) else []
    if not isinstance(given, bool | Mapping) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"rekey is True, or a dictionary of old and new names of keys, not {rekey!r:.80}")
    if rekey is not False and keys is None:
        raise UsageError("rekey needs keys: what is encrypted has to be opened first")
    if target is not None and rekey is False:
        raise UsageError("target_keys are for rekey: without it, stripes keep the keys that they have")
    rename = None if rekey is False else {} if rekey is True else dict(rekey)
    return Rekeying(keys, target, rename)
