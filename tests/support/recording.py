"""Sources around a source: one that delegates, one that records what is asked of it."""

from __future__ import annotations

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.io.contract.byte_source import ByteSource, OnBytes, Suffix

__all__ = ["RecordingSource", "WrappedSource"]


class WrappedSource:
    """Delegates everything to `inner`."""

    def __init__(self, inner: ByteSource, cost: CostModel | None = None) -> None:
        self.inner = inner
        self._cost = cost

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def cost(self) -> CostModel:
        return self._cost or self.inner.cost

    @property
    def file_length(self) -> int | None:
        return self.inner.file_length

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    def pin(self, file_length: int, fingerprint: str) -> None:
        self.inner.pin(file_length, fingerprint)

    async def fetch_suffix(self, length: int) -> Suffix:
        return await self.inner.fetch_suffix(length)

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        return await self.inner.fetch(range, on_bytes)

    async def verify(self) -> None:
        await self.inner.verify()

    async def aclose(self) -> None:
        await self.inner.aclose()


class RecordingSource(WrappedSource):
    """Remembers the ranges that were asked for, in the order the requests started.

    A suffix is recorded as the range it turned out to be; `hops` says in which hop each range was asked for.
    `hop_count` counts periods with a request under way; `under_way` is how many are, `most_at_once` the
    largest number of them.
    """

    def __init__(self, inner: ByteSource, cost: CostModel | None = None) -> None:
        super().__init__(inner, cost)
        self.ranges: list[ByteRange] = []
        self.hops: list[int] = []
        self.verify_count = 0
        self.closed = False
        self.hop_count = 0
        self.most_at_once = 0
        self.under_way = 0

    @property
    def byte_count(self) -> int:
        return sum(one.length for one in self.ranges)

    async def fetch_suffix(self, length: int) -> Suffix:
        self._begin()
        try:
            suffix = await self.inner.fetch_suffix(length)
        finally:
            self.under_way -= 1
        self.ranges.append(ByteRange(suffix.file_length - len(suffix.data), suffix.file_length))
        return suffix

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        self.ranges.append(range)
        self._begin()
        try:
            return await self.inner.fetch(range, on_bytes)
        finally:
            self.under_way -= 1

    async def verify(self) -> None:
        self.verify_count += 1
        await self.inner.verify()

    async def aclose(self) -> None:
        self.closed = True
        await self.inner.aclose()

    def forget(self) -> None:
        """Count from here on."""
        self.ranges.clear()
        self.hops.clear()
        self.hop_count = self.most_at_once = 0

    def _begin(self) -> None:
        self.hop_count += self.under_way == 0
        self.hops.append(self.hop_count)
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
