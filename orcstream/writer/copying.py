"""Stripes on their way from one file to another: their footers are checked, encrypted streams get new keys.

Knows sources, and what the footer of a stripe says. Must not know which files go together, nor where bytes
go.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from orcstream.byterange import ByteRange, RangeBuffer, coalesce
from orcstream.codec.crypto.sealing import Rekeyed, plan_rekeying, rekey
from orcstream.codec.metadata.structure import StripeInformation
from orcstream.file.unlocking import UnlockedFile
from orcstream.io.contract.byte_source import ByteSource, RetryPolicy, Suffix
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.plan.tail import check_footer, check_footer_length, footer_of

# Stripes whose streams are remembered: those across the borders of pieces that are under way.
_REMEMBERED = 16
# Footers of so many columns in all are parsed without a thread.
_COLUMNS_AT_ONCE = 1000
# Of stripes that the store copies by itself, so many requests for footers are under way, each of so much.
_REQUESTS = 4
_REQUEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetcher:
    """A source, asked with retries."""

    source: ByteSource
    retry: RetryPolicy

    async def fetch_suffix(self, length: int) -> Suffix:
        return await self.retry.run(
            lambda: self.source.fetch_suffix(length), url=self.source.url, byte_count=length
        )

    async def fetch(self, ranges: list[ByteRange]) -> list[RangeBuffer]:
        return [await self.fetch_one(one) for one in ranges]

    async def fetch_one(self, wanted: ByteRange) -> RangeBuffer:
        async def attempt() -> RangeBuffer:
            return RangeBuffer(wanted, await self.source.fetch(wanted))

        return await self.retry.run(attempt, url=self.source.url, byte_count=wanted.length)


class CopiedStripes:
    """The stripes of one `file`; its first becomes the result's stripe `first`.

    With a `limiter` they are encrypted anew, on as many threads as that lets.
    """

    def __init__(self, file: UnlockedFile, first: int, limiter: anyio.CapacityLimiter | None) -> None:
        self._file = file
        self._first = first
        self._limiter = limiter
        self._stripes = sorted(file.tail.footer.stripes, key=lambda stripe: stripe.offset)
        self._planned: dict[int, Sequence[Rekeyed]] = {}
        self._lock = anyio.Lock()

    @property
    def times_held(self) -> int:
        """How often bytes stand in memory while they are copied."""
        return 1 if self._limiter is None else 2

    async def copied(self, held: RangeBuffer, new_keys: Mapping[int, bytes], fetcher: Fetcher) -> memoryview:
        """Bytes of the file as they are to be written. Raises `CorruptStripe` for a damaged footer."""
        place, data = held.range, held.view(held.range)
        if self._limiter is None:
            await self._check(self._ending_in(place), held, fetcher)
            return data
        streams: list[Rekeyed] = []
        at = bisect_right(self._stripes, place.start, key=lambda stripe: stripe.range.stop)
        while at < len(self._stripes) and self._stripes[at].offset < place.stop:
            streams += await self._plan(self._stripes[at], new_keys, fetcher, held)
            at += 1
        return await run_in_thread(lambda: rekey(data, place, streams), limiter=self._limiter)

    async def check_in_store(self, place: ByteRange, fetcher: Fetcher) -> None:
        """Check the footers of a range that the store copies by itself. Raises as `copied` does."""
        gap_bytes = fetcher.source.cost.gap_bytes
        requests = coalesce(
            [stripe.footer_range for stripe in self._ending_in(place)],
            gap_bytes=gap_bytes,
            max_bytes=max(gap_bytes, _REQUEST_BYTES),
        )

        async def check(wanted: ByteRange) -> None:
            held = await fetcher.fetch_one(wanted)
            await self._check(self._ending_in(wanted), held, fetcher)

        await side_by_side([one.range for one in requests], check, at_once=_REQUESTS)

    def _ending_in(self, place: ByteRange) -> Sequence[StripeInformation]:
        """The stripes whose footers begin in a range."""
        begin, end = (
            bisect_left(self._stripes, at, key=lambda stripe: stripe.footer_range.start)
            for at in (place.start, place.stop)
        )
        return self._stripes[begin:end]

    async def _check(self, stripes: Sequence[StripeInformation], held: RangeBuffer, fetcher: Fetcher) -> None:
        footers = [await self._footer(one, held, fetcher) for one in stripes]

        def parse() -> None:
            for stripe, data in zip(stripes, footers, strict=True):
                check_footer(self._file.tail, stripe, data)

        if len(stripes) * self._file.tail.footer.schema.column_count <= _COLUMNS_AT_ONCE:
            parse()
        else:
            await run_in_thread(parse)

    async def _footer(self, stripe: StripeInformation, held: RangeBuffer, fetcher: Fetcher) -> memoryview:
        wanted = stripe.footer_range
        if held.range.start <= wanted.start and wanted.stop <= held.range.stop:
            return held.view(wanted)
        check_footer_length(stripe)
        return (await fetcher.fetch_one(wanted)).view(wanted)

    async def _plan(
        self,
        stripe: StripeInformation,
        new_keys: Mapping[int, bytes],
        fetcher: Fetcher,
        held: RangeBuffer,
    ) -> Sequence[Rekeyed]:
        async with self._lock:
            found = self._planned.get(stripe.index)
            if found is not None:
                return found
            found = plan_rekeying(
                stripe,
                footer_of(self._file.tail, stripe, await self._footer(stripe, held, fetcher)),
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
