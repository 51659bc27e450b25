"""Reading over a source that the test holds in its hand: what is under way, when it answers, when it fails.

`sample` makes small files of many stripes whose rows are known; `opened` opens a source the way a URL is
opened; `Leftovers` finds what a read has left behind in the event loop and on worker threads.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from itertools import accumulate
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import orcstream
from orcstream.byterange import ByteRange, BytesLike, CostModel
from orcstream.io.contract.byte_source import ByteSource, OnBytes, Suffix
from orcstream.io.stores.memory.source import BytesSource
from orcstream.reader import opening
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue
from orcstream.reader.file import OrcFile
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import Encoder, add_stripe
from tests.reference.indexes import Index
from tests.reference.statistics import honest
from tests.reference.types import T
from tests.support.recording import WrappedSource

__all__ = [
    "NEAR",
    "NEVER",
    "SAMPLE",
    "Decodes",
    "Leftovers",
    "ProbeSource",
    "assert_nothing_held",
    "cost_of",
    "counted_budgets",
    "counted_workers",
    "ended_before",
    "indexed_sample",
    "listed_budgets",
    "open_over",
    "opened",
    "probe",
    "sample",
    "sample_rows",
]

NEVER = -1
"""As turns of the event loop."""
URL = "probe://bucket/t.orc"
SAMPLE = T("struct", (T("int"), T("string"), T("double")), ("a", "s", "d"))


def cost_of(
    *, gap_bytes: int = 0, cap: int = 4, part_bytes: int = 1 << 20, tail_bytes: int = 256
) -> CostModel:
    """A cost model with exactly this gap."""
    cost = CostModel(0.0, 1.0, cap, float(gap_bytes), part_bytes, tail_bytes)
    assert cost.gap_bytes == gap_bytes
    return cost


NEAR = cost_of()
"""No gap is worth reading: each stream is a request of its own."""


def sample_rows(stripe: int, count: int) -> list[tuple[object, ...]]:
    first = stripe * count
    return [(row * 7919 % 1000, f"row {row}", row / 8) for row in range(first, first + count)]


@lru_cache(maxsize=8)
def sample(stripes: int = 5, rows: int = 40) -> bytes:
    """A plain file of `stripes` stripes of `rows` rows each."""
    builder = FileBuilder(SAMPLE)
    for stripe in range(stripes):
        add_stripe(builder, sample_rows(stripe, rows))
    return builder.build()


@lru_cache(maxsize=8)
def indexed_sample(stripes: int = 5, rows: int = 40, stride: int = 10) -> bytes:
    """The same rows with row indexes and statistics; "d" ascends through the file."""
    builder = FileBuilder(SAMPLE, Options(stride=stride, statistics=honest))
    for stripe in range(stripes):
        add_stripe(builder, sample_rows(stripe, rows), Encoder(index=Index(stride=stride)))
    return builder.build()


@contextmanager
def listed_budgets() -> Iterator[list[MemoryBudget]]:
    """The budgets that are made meanwhile."""
    made: list[MemoryBudget] = []
    make = MemoryBudget.__init__

    def listing(budget: MemoryBudget, *arguments: Any, **options: Any) -> None:
        make(budget, *arguments, **options)
        made.append(budget)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryBudget, "__init__", listing)
        yield made


@contextmanager
def counted_budgets() -> Iterator[Callable[[], int]]:
    """Answers how many fetched bytes are held by budgets that were made meanwhile and are still in use."""
    made: list[weakref.ref[MemoryBudget]] = []
    make = MemoryBudget.__init__

    def counting(budget: MemoryBudget, *arguments: Any, **options: Any) -> None:
        make(budget, *arguments, **options)
        made.append(weakref.ref(budget))

    def held() -> int:
        gc.collect()
        return sum(budget.fetched for budget in (one() for one in made) if budget is not None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryBudget, "__init__", counting)
        yield held


class ProbeSource(WrappedSource):
    """Numbers its requests from 0 (the suffix), counts those under way, and answers when it is told to.

    `on_request(number)` is called when a request starts; what it raises is the request's failure.
    `turns(number)` is how many turns of the event loop an answer takes, at least one, or NEVER.
    """

    def __init__(
        self,
        inner: ByteSource,
        cost: CostModel | None = None,
        *,
        on_request: Callable[[int], None] = lambda _: None,
        turns: Callable[[int], int] = lambda _: 1,
    ) -> None:
        super().__init__(inner, cost)
        self.on_request = on_request
        self.turns = turns
        self.request_count = 0
        self.open_count = 0
        self.close_count = 0

    async def fetch_suffix(self, length: int) -> Suffix:
        with self._counted() as number:
            await self._answer(number)
            return await self.inner.fetch_suffix(length)

    async def fetch(self, range: ByteRange, on_bytes: OnBytes | None = None) -> BytesLike:
        with self._counted() as number:
            await self._answer(number)
            return await self.inner.fetch(range, on_bytes)

    async def aclose(self) -> None:
        self.close_count += 1
        assert self.open_count == 0, "closed with requests under way"
        await self.inner.aclose()

    @contextmanager
    def _counted(self) -> Iterator[int]:
        number = self.request_count
        self.request_count += 1
        self.open_count += 1
        try:
            yield number
        finally:
            self.open_count -= 1

    async def _answer(self, number: int) -> None:
        self.on_request(number)
        turns = self.turns(number)
        if turns == NEVER:
            await anyio.sleep_forever()
        for _ in range(max(1, turns)):
            await anyio.lowlevel.checkpoint()


def probe(
    data: bytes | None = None,
    cost: CostModel = NEAR,
    *,
    on_request: Callable[[int], None] = lambda _: None,
    turns: Callable[[int], int] = lambda _: 1,
) -> ProbeSource:
    """A probe over bytes; over the sample file by default."""
    inner = BytesSource(sample() if data is None else data, cost, URL)
    return ProbeSource(inner, on_request=on_request, turns=turns)


async def open_over(source: ByteSource, *, retries: int = 0, **options: Any) -> OrcFile:
    """`orcstream.open` with this source standing for the URL."""

    async def stand_in(url: object, **options: object) -> ByteSource:
        return source

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_source", stand_in)
        return await orcstream.open(source.url, io_options={"retries": retries}, **options)


@asynccontextmanager
async def opened(source: ByteSource, *, retries: int = 0, **options: Any) -> AsyncIterator[OrcFile]:
    """`open_over`, closed at the end."""
    file = await open_over(source, retries=retries, **options)
    try:
        yield file
    finally:
        await file.aclose()


class Leftovers:
    """What a read leaves behind; made before it starts, in the task that looks afterwards."""

    def __init__(self, *sources: ProbeSource) -> None:
        self._sources = sources
        self._before = asyncio.all_tasks()

    def tasks(self) -> set[asyncio.Task[object]]:
        return {task for task in asyncio.all_tasks() - self._before if not task.done()}

    async def check(self, *, file_closed: bool = True) -> None:
        """Nothing is left, or will be as soon as what was told to stop has stopped."""
        with anyio.move_on_after(10):
            await anyio.lowlevel.checkpoint()  # what was dropped is told to stop in the next turn
            while file_closed and (left := self.tasks()):
                await asyncio.wait(left)
                await anyio.lowlevel.checkpoint()
        assert not file_closed or not self.tasks(), self.tasks()
        for source in self._sources:
            assert source.open_count == 0
            assert not file_closed or source.close_count >= 1

    async def wait_open(self, count: int = 1) -> None:
        """Wait until requests are under way."""
        with anyio.fail_after(10):
            while sum(source.open_count for source in self._sources) < count:
                await anyio.lowlevel.checkpoint()

    async def settle(self, count: int) -> None:
        """Wait until no more than `count` tasks are left."""
        with anyio.fail_after(10):
            while len(self.tasks()) > count:
                await anyio.lowlevel.checkpoint()
        for source in self._sources:
            assert source.open_count == 0


async def ended_before(task: asyncio.Task[Any], turns: int) -> bool:
    """Whether a task ends within so many turns of the loop, and as it should; else it is cancelled then."""
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    if not task.cancel():
        await task
        return True
    with pytest.raises(asyncio.CancelledError):
        await task
    return False


async def assert_nothing_held(held: Callable[[], int]) -> None:
    """No fetched bytes are held any more, at the latest when what was called back has run."""
    with anyio.move_on_after(10):
        while held():
            await anyio.lowlevel.checkpoint()
    assert held() == 0


@contextmanager
def counted_workers() -> Iterator[list[int]]:
    """Counts, in the first item, the threads that are decoding, or wait for their turn to."""
    active = [0, 0]
    lock = threading.Lock()
    work = DecodeQueue.work

    def counted(queue: DecodeQueue) -> None:
        with lock:
            active[0] += 1
            active[1] = max(active)
        try:
            work(queue)
        finally:
            with lock:
                active[0] -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DecodeQueue, "work", counted)
        yield active


class Decodes:
    """Observes when is decoded."""

    def __init__(self) -> None:
        self._spans: list[orcstream.DecodeSpan] = []

    def on_request(self, span: orcstream.RequestSpan) -> None: ...

    def on_decode(self, span: orcstream.DecodeSpan) -> None:
        self._spans.append(span)

    def at_once(self) -> int:
        """The most threads that decoded at any time."""
        changes = [(span.start_s, 1) for span in self._spans] + [(span.stop_s, -1) for span in self._spans]
        return max(accumulate(change for _, change in sorted(changes)))
