"""The keys of files that are merged: asked for, drawn anew, and put in the place of the old ones.

Knows key providers and what `plan.merge_variants` wants of them. Must not know which files go together, nor
how bytes are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.codec.sealing import Rekeyed, plan_rekeying, rekey
from orcstream.codec.structure import StripeInformation
from orcstream.encryption import EncryptionKey
from orcstream.errors import UsageError
from orcstream.io.keys import KeyProvider
from orcstream.plan.merge_variants import NewKeys, VariantMerger
from orcstream.plan.messages import parse_footer
from orcstream.plan.tail import Tail
from orcstream.tails import TailFetcher
from orcstream.unlocking import KeyRing, UnlockedFile

__all__ = ["Rekeying", "SecretStripes", "rekeying_of"]

# Pieces that are encrypted anew at a time.
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Rekeying:
    """What the user says of keys. `rename` has new names of master keys; None: stripes keep their keys."""

    keys: KeyProvider | None
    target: KeyProvider | None
    rename: Mapping[str, str] | None
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_AT_ONCE))

    @property
    def renews(self) -> bool:
        """Whether stripes are encrypted anew."""
        return self.rename is not None

    async def unlocked(self, tail: Tail) -> UnlockedFile | None:
        """An encrypted file with all that it hides; None for one that hides nothing, or without keys."""
        if self.keys is None or tail.footer.encryption is None:
            return None
        file = await UnlockedFile.unlocked(tail, KeyRing(self.keys, required=True))
        if self.renews:
            await file.unlock_stripes(tail.footer.stripes, every=True)
        return file

    async def draw(self, variants: VariantMerger) -> NewKeys | None:
        """A new local key for each variant; None where nothing is encrypted."""
        provider = self.target or self.keys
        if provider is None or not variants.keys:
            return None
        current: dict[str, EncryptionKey] = {}
        found = []
        for key in variants.keys:
            new = key
            if self.rename is not None:
                name = self.rename.get(key.name, key.name)
                if name not in current:
                    current[name] = await provider.current_key(name)
                new = current[name]
            found.append((new, await provider.create_local_key(new)))
        return NewKeys(provider.kind, tuple(found))


def rekeying_of(
    keys: KeyProvider | None, rekey: bool | Mapping[str, str], target: KeyProvider | None
) -> Rekeying:
    """What `merge` was told, checked. Raises UsageError."""
    if not isinstance(rekey, bool | Mapping):
        raise UsageError(f"rekey is True, or a dictionary of old and new names of keys, not {rekey!r:.80}")
    if rekey is not False and keys is None:
        raise UsageError("rekey needs keys: what is encrypted has to be opened first")
    if target is not None and rekey is False:
        raise UsageError("target_keys are for rekey: without it, stripes keep the keys that they have")
    rename = None if rekey is False else {} if rekey is True else dict(rekey)
    return Rekeying(keys, target, rename)


@dataclass(slots=True)
class SecretStripes:
    """The stripes of one file on their way to new keys; its first becomes the result's stripe `first`."""

    file: UnlockedFile
    first: int
    limiter: anyio.CapacityLimiter
    _planned: dict[int, Sequence[Rekeyed]] = field(default_factory=dict)
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def renewed(
        self, data: memoryview, place: ByteRange, new_keys: Mapping[int, bytes], fetcher: TailFetcher
    ) -> memoryview:
        """Bytes of the file with what is encrypted of them under the new keys."""
        streams: list[Rekeyed] = []
        for stripe in self.file.tail.footer.stripes:
            if stripe.range.start < place.stop and place.start < stripe.range.stop:
                streams += await self._plan(stripe, new_keys, fetcher, RangeBuffer(place, data))
        # Each piece is there twice meanwhile.
        return await anyio.to_thread.run_sync(rekey, data, place, streams, limiter=self.limiter)

    async def _plan(
        self,
        stripe: StripeInformation,
        new_keys: Mapping[int, bytes],
        fetcher: TailFetcher,
        held: RangeBuffer,
    ) -> Sequence[Rekeyed]:
        async with self._lock:
            if stripe.index not in self._planned:
                wanted = stripe.footer_range
                if held.range.start <= wanted.start and wanted.stop <= held.range.stop:
                    buffer = held
                else:
                    (buffer,) = await fetcher.fetch([wanted])
                footer = parse_footer(self.file.tail, stripe, buffer.view(wanted))
                self._planned[stripe.index] = plan_rekeying(
                    stripe,
                    footer,
                    self.file.local_keys(stripe, every=True),
                    new_keys,
                    self.first + stripe.index + 1,
                )
            return self._planned[stripe.index]
