"""Sources that behave as stores do on a bad day: they fail, cut short, hold back or are far away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import anyio

from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.io.contract.byte_source import ByteSource, OnBytes, Suffix
from tests.support.recording import WrappedSource

__all__ = ["FaultySource", "GatedSource", "LatencySource"]

Fault = Exception | Callable[[BytesLike], BytesLike] | None


class FaultySource(WrappedSource):
    """Meets each request with the next of `faults`, and with none once they are used up.

    An exception is raised; a function is given the bytes and answers what arrives instead; None lets the
    request pass. `only` restricts the faults to requests that it is true of.
    """

    def __init__(
        self,
        inner: ByteSource,
        faults: Iterable[Fault],
        *,
        only: Callable[[ByteRange], bool] = lambda _: True,
        cost: CostModel | None = None,
    ) -> None:
        super().__init__(inner, cost)
        self._faults = iter(faults)
        self._only = only
        self.attempt_count = 0

    async def fetch_suffix(self, length: int) -> Suffix:
        self.attempt_count += 1
        fault = next(self._faults, None)
        if isinstance(fault, Exception):
            raise fault
        return await self.inner.fetch_suffix(length)

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        self.attempt_count += 1
        fault = next(self._faults, None) if self._only(range) else None
        if isinstance(fault, Exception):
            raise fault
        data = await self.inner.fetch(range, on_bytes)
        return fault(data) if fault is not None else data


class GatedSource(WrappedSource):
    """Holds every fetch until the test lets it pass; `started` and `cancelled` are in order."""

    def __init__(self, inner: ByteSource, cost: CostModel | None = None) -> None:
        super().__init__(inner, cost)
        self.started: list[ByteRange] = []
        self.cancelled: list[ByteRange] = []
        self._gates: dict[ByteRange, anyio.Event] = {}
        self._open = False

    def release(self, range: ByteRange) -> None:
        self._gates[range].set()

    def release_all(self) -> None:
        """Let everything pass from now on."""
        self._open = True
        for gate in self._gates.values():
            gate.set()

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        self.started.append(range)
        gate = self._gates[range] = anyio.Event()
        try:
            if not self._open:
                await gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(range)
            raise
        return await self.inner.fetch(range, on_bytes)


class LatencySource(WrappedSource):
    """Answers `latency_s` after it was asked, then sends `bandwidth` bytes per second in all.

    Time is what `sleep` makes of it: real for a benchmark, counted for a test.
    """

    def __init__(
        self,
        inner: ByteSource,
        *,
        latency_s: float,
        bandwidth: float,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        cost: CostModel | None = None,
    ) -> None:
        super().__init__(inner, cost)
        self._latency_s = latency_s
        self._bandwidth = bandwidth
        self._sleep = sleep
        self._wire = anyio.Lock()

    async def fetch_suffix(self, length: int) -> Suffix:
        suffix = await self.inner.fetch_suffix(length)
        await self._travel(len(suffix.data))
        return suffix

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:  # noqa: ARG002 - whole at once
        data = await self.inner.fetch(range)
        await self._travel(range.length)
        return data

    async def _travel(self, length: int) -> None:
        await self._sleep(self._latency_s)
        async with self._wire:
            await self._sleep(length / self._bandwidth)
