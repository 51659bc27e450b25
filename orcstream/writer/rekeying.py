"""The keys of files that are merged: asked for, drawn anew, and put in the place of the old ones.

Knows key providers and what `plan.merge.variants` wants of them. Must not know which files go together, nor
how bytes are copied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.codec.crypto.sealing import Rekeyed, plan_rekeying, rekey
from orcstream.codec.metadata.structure import StripeInformation
from orcstream.encryption import NO_KEYS, FileKeys, KeyProvider, check_provider
from orcstream.errors import UsageError
from orcstream.file.unlocking import KeyRing, TailFetcher, UnlockedFile
from orcstream.io.loop.threads import run_in_thread
from orcstream.plan.merge.variants import VariantMerger
from orcstream.plan.tail import Tail, check_footer_length, footer_of
from orcstream.writer.file_keys import draw_keys, draw_local_keys

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


# Stripes whose streams are remembered: those across the borders of pieces that are under way.
_REMEMBERED = 16


class SecretStripes:
    """The stripes of one file on their way to new keys; its first becomes the result's stripe `first`."""

    def __init__(self, file: UnlockedFile, first: int, limiter: anyio.CapacityLimiter) -> None:
        self._file = file
        self._first = first
        self._limiter = limiter
        self._stripes = sorted(file.tail.footer.stripes, key=lambda stripe: stripe.offset)
        self._planned: dict[int, Sequence[Rekeyed]] = {}
        self._lock = anyio.Lock()

    async def renewed(
        self, data: memoryview, place: ByteRange, new_keys: Mapping[int, bytes], fetcher: TailFetcher
    ) -> memoryview:
        """Bytes of the file with what is encrypted of them under the new keys."""
        streams: list[Rekeyed] = []
        at = bisect_right(self._stripes, place.start, key=lambda stripe: stripe.range.stop)
        while at < len(self._stripes) and self._stripes[at].offset < place.stop:
            streams += await self._plan(self._stripes[at], new_keys, fetcher, RangeBuffer(place, data))
            at += 1
        # Each piece is there twice meanwhile.
        return await run_in_thread(lambda: rekey(data, place, streams), limiter=self._limiter)

    async def _plan(
        self,
        stripe: StripeInformation,
        new_keys: Mapping[int, bytes],
        fetcher: TailFetcher,
        held: RangeBuffer,
    ) -> Sequence[Rekeyed]:
        async with self._lock:
            found = self._planned.get(stripe.index)
            if found is not None:
                return found
            wanted = stripe.footer_range
            if held.range.start <= wanted.start and wanted.stop <= held.range.stop:
                buffer = held
            else:
                check_footer_length(stripe)
                (buffer,) = await fetcher.fetch([wanted])
            found = plan_rekeying(
                stripe,
                footer_of(self._file.tail, stripe, buffer.view(wanted)),
                self._file.local_keys(stripe, self._file.all_variants),
                new_keys,
                self._first + stripe.index + 1,
            )
            if stripe.range.start < held.range.start or held.range.stop < stripe.range.stop:
                # Pieces come about in order, so that the oldest is not needed any more.
                if len(self._planned) >= _REMEMBERED:
                    del self._planned[min(self._planned)]
                self._planned[stripe.index] = found
            return found
