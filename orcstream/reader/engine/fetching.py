"""Fetches what stripes need, ahead of the decoders, as far as the budget allows.

Knows the order of waves: footers of some stripes in one go, with indexes where rows are selected, then the
windows of each stripe's streams, in row order. Must not know encodings. Runs as one task of a stream's task
group. `wake` is called when bytes were given back, a batch was delivered, or a run is parked. What a parked
run of the first stripe needs is asked for in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

from orcstream.byterange import ByteRange, CostModel, RangeBuffer, Request, cover, gather, joined
from orcstream.codec.streams.compression import Compression
from orcstream.io.contract.byte_source import OnBytes
from orcstream.io.loop.tasks import Signal, deferred
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.request.scheduler import FetchScheduler, FetchTicket
from orcstream.plan.selection import (
    CONTROL_STRIPES,
    control_count,
    fitting,
    order_of_rows,
    plan_control,
    plan_requests,
)
from orcstream.reader.engine.budget import ChunkRoom, Lease, MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue
from orcstream.reader.engine.runs import StreamPiece, StripeRun, windows_of
from orcstream.reader.engine.session import ReadObserver, Remembered
from orcstream.reader.engine.stripes import StripeStarter, StripeWork


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """What a pipeline is made of. `wave` is what requests for rows are called.

    With `hands_on`, stripes keep what came along with their footers, for somebody who reads more of them.
    """

    compression: Compression
    cached: RangeBuffer | None
    start: StripeStarter
    column_count: int
    batch_rows: int
    memory_limit: int
    chunk_room: ChunkRoom
    remembered: Remembered
    hands_on: bool = False
    wave: str = "data"
    observer: ReadObserver | None = None


@dataclass(slots=True)
class FetchPlan:
    """What a read wants and what it asks for, counted as it goes."""

    wanted_bytes: int = 0
    control_bytes: int = 0
    stripe_count: int = 0


@dataclass(slots=True)
class _Fetch:
    """One request under way; its memory is let go when `open_members` pieces have been handed on.

    `begun_members` are those of which the first attempts have brought all that one request brings.
    """

    request: Request
    open_members: int = field(init=False)
    begun_members: int = 0
    ticket: FetchTicket | None = None
    lease: Lease | None = None
    buffer: RangeBuffer | None = None

    def __post_init__(self) -> None:
        self.open_members = len(self.request.members)

    def close_member(self) -> None:
        self.open_members -= 1
        if self.open_members == 0:
            self.buffer = self.lease = None


# A piece with its bytes, and what these were lent for.
_Arrival = tuple[StreamPiece, list[memoryview], object]


class _Wave:
    """Pieces that are asked for together, each handed on once: as soon as its bytes are there."""

    def __init__(self, pieces: Sequence[StreamPiece], requests: Sequence[Request]) -> None:
        self.pieces = pieces
        self.fetches = [_Fetch(request) for request in requests]
        self._places = cover(len(pieces), requests)
        self._missing = [len(place) for place in self._places]

    def open_pieces(self, fetch: _Fetch) -> list[StreamPiece]:
        """The pieces with bytes in this request that were not handed on yet."""
        return [self.pieces[member] for member in fetch.request.members if self._missing[member]]

    def begun(self, fetch: _Fetch, there: RangeBuffer) -> Iterator[_Arrival]:
        """What the first bytes of a request complete, going on from where those before them ended."""
        for member in islice(fetch.request.members, fetch.begun_members, None):
            piece = self.pieces[member]
            if piece.range.stop > there.range.stop:
                return
            fetch.begun_members += 1
            if self._missing[member] and there.range.start <= piece.range.start:
                self._missing[member] = 0
                yield piece, [there.view(piece.range)], fetch.lease
                fetch.close_member()

    def arrived(self, fetch: _Fetch) -> Iterator[_Arrival]:
        """What a request completes that is there."""
        for member in fetch.request.members:
            if not self._missing[member]:
                continue
            self._missing[member] -= 1
            if not self._missing[member]:
                parts = [self.fetches[place] for place in self._places[member]]
                piece = self.pieces[member]
                views = gather(piece.range, [part.buffer for part in parts if part.buffer is not None])
                yield piece, views, tuple(part.lease for part in parts)
                for part in parts:
                    part.close_member()


_Made = TypeVar("_Made")
_Held = tuple[RangeBuffer, object]


def _at_hand(held: Sequence[_Held], wanted: ByteRange) -> _Held | None:
    """The buffer that came along and has these bytes."""
    for buffer, lease in held:
        if buffer.range.start <= wanted.start and wanted.stop <= buffer.range.stop:
            return buffer, lease
    return None


@dataclass(slots=True)
class _Window:
    """Pieces to be asked for together; `number` counts the windows of their stripe."""

    stripe: StripeRun
    number: int
    pieces: list[StreamPiece]
    is_last: bool

    @property
    def is_one_of_many(self) -> bool:
        return self.number > 0 or not self.is_last


@dataclass(slots=True, eq=False)
class _Prepared:
    """A stripe of the control wave, once it is there: its run, or None where no row of it is wanted."""

    ready: anyio.Event
    footer: memoryview | None  # where it was remembered
    stripe: StripeRun | None = None
    held: Sequence[_Held] = ()
    windows: list[list[StreamPiece]] = field(default_factory=list)
    error: Exception | None = None


# Other tasks of the loop have their turn after so many, some 20 ms.
_PIECES_AT_ONCE = 4096
# No more stripes are taken on while so many windows wait for their turn.
_WINDOWS_AHEAD = 4


class Fetcher:
    """See the module. `on_failure` ends the read with an error that no single column has.

    Stripes come from `works`, through the control wave; where that is None, through `add` from elsewhere,
    until `finish`. `exhausted` says that none will follow.
    """

    def __init__(
        self,
        options: PipelineOptions,
        *,
        scheduler: FetchScheduler,
        tasks: anyio.abc.TaskGroup,
        budget: MemoryBudget,
        queue: DecodeQueue,
        works: Sequence[StripeWork] | None,
        verify: Callable[[], Awaitable[None]],
        on_failure: Callable[[Exception], None],
        on_arrival: Callable[[], None],
    ) -> None:
        self._options = options
        self._start = options.start
        self._cached = options.cached
        self._remembered = options.remembered
        self._tail: list[_Held] = [] if options.cached is None else [(options.cached, None)]
        self._scheduler = scheduler
        self._tasks = tasks
        self._budget = budget
        self._queue = queue
        self._works = works
        self._verify = verify
        self._on_failure = on_failure
        self._on_arrival = on_arrival
        self.exhausted = False
        self._room = Signal()  # there may be room for more stripes
        self.waiting: deque[_Window] = deque()  # for room among the fetched bytes
        self._held: dict[StripeRun, Sequence[_Held]] = {}
        self._wake = Signal()
        self._large = anyio.Lock()
        self.plan = FetchPlan()

    def wake(self) -> None:
        """Look again whether something is to be fetched."""
        if self._has_room:
            self._room.notify()
        if self.waiting or self._queue.hungry():
            self._wake.notify()

    def close(self) -> None:
        """Let go of all bytes."""
        self.waiting.clear()
        self._held.clear()

    async def run(self) -> None:
        """Fetch until all is asked for; for the stream's task group."""
        if self._works is not None:
            self._tasks.start_soon(deferred(self._control), self._works)
        while True:
            seen = self._wake.count
            await self._ask()
            await self._wake.wait(seen)

    async def _ask(self) -> None:
        while self.waiting:
            window = self.waiting[0]
            pieces = [piece for piece in window.pieces if piece.is_wanted]
            if not self._fits(window.stripe, pieces):
                break
            self.waiting.popleft()
            await self._ask_pieces(window.stripe, pieces, window.number, one_of_many=window.is_one_of_many)
            if window.is_last:
                self._held.pop(window.stripe, None)
        hungry = self._queue.hungry()
        if hungry:
            await self._ask_pieces(hungry[0].feed.run.stripe, hungry, 0)
        if self._has_room:
            self._room.notify()

    def _fits(self, stripe: StripeRun, pieces: Sequence[StreamPiece]) -> bool:
        held = self._held.get(stripe, ())
        missing = sum(piece.range.length for piece in pieces if _at_hand(held, piece.range) is None)
        return missing == 0 or self._budget.fits(missing)

    # --- the control wave --------------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        """Whether more stripes may be taken on."""
        count = self._queue.stripe_count
        if self._works is None and count and self._budget.decoded >= self._budget.decode_limit:
            return False  # stripes from elsewhere may bring decoded rows along
        return count < CONTROL_STRIPES and len(self.waiting) < _WINDOWS_AHEAD

    async def room(self) -> None:
        """Wait until more stripes may be taken on."""
        while not self._has_room:
            await self._room.wait()

    def finish(self) -> None:
        """No more stripes follow; the consumer may wait for rows that none has."""
        self.exhausted = True
        self._on_arrival()

    async def _control(self, works: Sequence[StripeWork]) -> None:
        """Take on all stripes, some at a time."""
        first = 0
        try:
            while first < len(works):
                await self.room()
                group = works[first : first + control_count(first, self._scheduler.cost)]
                group = group[: fitting([work.information for work in group], self._budget.window_bytes)]
                await self._take_on(group)
                first += len(group)
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            self._on_failure(error)
            return
        self.finish()

    async def _take_on(self, works: Sequence[StripeWork]) -> None:
        """Start some stripes in their order, each as soon as what it needs is there."""
        # Held from here on: others may have them forgotten.
        footers = [self._remembered.get(work.information.footer_range) for work in works]
        unknown = [at for at, footer in enumerate(footers) if footer is None]
        plan = plan_control(
            [works[at].information for at in unknown],
            self._scheduler.cost,
            self._budget.window_bytes,
            indexed=[works[at].indexed for at in unknown],
            index_share=self._start.index_share,
        )
        fetches = [self._start_fetch(request, works[0].number, "control") for request in plan.requests]
        places = cover(len(plan.wanted), plan.requests)
        prepared = [_Prepared(anyio.Event(), footer) for footer in footers]
        await self._start.unlock(works)  # while the footers are on their way
        async with anyio.create_task_group() as tasks:
            for number, work in enumerate(works):
                own = [at for at, owner in enumerate(plan.owners) if unknown[owner] == number]
                parts = [fetches[place] for at in own for place in places[at]]
                tasks.start_soon(deferred(self._prepare), work, parts, prepared[number])
            for one in prepared:
                await one.ready.wait()
                if one.error is not None:  # no stripe may follow the one that is missing
                    tasks.cancel_scope.cancel()
                    break
                if one.stripe is not None:
                    if self._options.hands_on:
                        one.stripe.held = one.held
                    self._add(one.stripe, one.held, one.windows)
                one.held = ()
        for one in prepared:
            if one.error is not None:
                raise one.error

    async def _prepare(self, work: StripeWork, parts: Sequence[_Fetch], result: _Prepared) -> None:
        """Wait for a stripe's footer, fetch its indexes where they did not come along, and start it."""
        try:
            held: list[_Held] = [*[(await self._collect(part), part.lease) for part in parts], *self._tail]
            footer_range = work.information.footer_range
            footer = result.footer or joined(footer_range, [buffer for buffer, _ in held])
            self.plan.control_bytes += footer_range.length
            is_large = self._start.is_large(work, footer)
            wanted = await self._called(is_large, partial(self._start.index_ranges, work, footer))
            indexes = await self._indexes(work, wanted, held)
            is_large = is_large or self._start.is_large(work, footer, sum(range_.length for range_ in wanted))
            result.stripe = await self._called(is_large, partial(self._start.start, work, footer, indexes))
            self._remembered.put(footer_range, footer)  # it is one
            result.held = held
            if result.stripe is not None:
                result.windows = await self._windows_of(result.stripe, is_large)
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            result.error = error
        finally:
            for part in parts:
                part.close_member()
            result.ready.set()

    async def _called(self, is_large: bool, make: Callable[[], _Made]) -> _Made:
        """What `make` answers, on a thread where it takes long; one at a time there."""
        if not is_large:
            return make()
        async with self._large:
            return await run_in_thread(make)

    async def _indexes(
        self, work: StripeWork, wanted: Sequence[ByteRange], held: list[_Held]
    ) -> dict[ByteRange, memoryview]:
        known = {range_: self._known(range_, held) for range_ in wanted}
        missing = [range_ for range_, found in known.items() if found is None and range_.length]
        self.plan.control_bytes += sum(range_.length for range_ in wanted)
        requests = plan_requests(missing, self._scheduler.cost)
        fetches = [self._start_fetch(request, work.number, "index") for request in requests]
        buffers = [await self._collect(fetch) for fetch in fetches]
        put = self._remembered.put
        return {range_: put(range_, found or joined(range_, buffers)) for range_, found in known.items()}

    def _known(self, wanted: ByteRange, held: Sequence[_Held]) -> memoryview | None:
        """Metadata that an earlier read has seen, or that came along."""
        found = self._remembered.get(wanted)
        place = _at_hand(held, wanted) if found is None else None
        return found if place is None else place[0].view(wanted)

    async def add(self, make: Callable[[], StripeRun], held: Sequence[_Held], *, is_large: bool) -> None:
        """Take on the stripe that `make` answers, behind those that are there.

        `held` is what of it came along; what `is_large` is made on a thread.
        """
        stripe = await self._called(is_large, make)
        self._add(stripe, held, await self._windows_of(stripe, is_large))

    async def _windows_of(self, stripe: StripeRun, is_large: bool) -> list[list[StreamPiece]]:
        return await self._called(is_large, partial(windows_of, stripe, self._budget, self._scheduler.cost))

    def _add(self, stripe: StripeRun, held: Sequence[_Held], windows: Sequence[list[StreamPiece]]) -> None:
        for number, pieces in enumerate(windows):
            for piece in pieces:
                piece.feed.pieces.append(piece)
            self.waiting.append(_Window(stripe, number, pieces, number == len(windows) - 1))
        if windows:
            self._held[stripe] = held or self._tail
        self.plan.wanted_bytes += sum(piece.range.length for window in windows for piece in window)
        self.plan.stripe_count += 1
        self._queue.add(stripe)
        self._on_arrival()

    # --- the data wave -----------------------------------------------------------------------------

    async def _ask_pieces(
        self, stripe: StripeRun, pieces: Sequence[StreamPiece], window: int, *, one_of_many: bool = False
    ) -> None:
        """Ask for the next pieces of some streams of one stripe, but for what came along with its footer."""
        missing: list[StreamPiece] = []
        came_along = self._held.get(stripe, ())
        for number, piece in enumerate(pieces, 1):
            piece.asked = True
            held = _at_hand(came_along, piece.range)
            if held is None:
                missing.append(piece)
            else:
                self._queue.arrive(piece, [held[0].view(piece.range)], held[1])
            if number % _PIECES_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
        if missing:
            plan = partial(_planned, missing, self._scheduler.cost, one_of_many=one_of_many)
            wave, order = await self._called(len(missing) > _PIECES_AT_ONCE, plan)
            for place in order:
                fetch = wave.fetches[place]
                self._submit(
                    fetch, stripe.number, self._options.wave, window, partial(self._begin, wave, fetch)
                )
            self._tasks.start_soon(deferred(self._receive), wave)
        if len(missing) < len(pieces):
            self._on_arrival()

    async def _receive(self, wave: _Wave) -> None:
        """Hand pieces on as soon as the last request of each has arrived."""

        async def receive_one(fetch: _Fetch) -> None:
            try:
                await self._collect(fetch)
            except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
                for piece in wave.open_pieces(fetch):
                    self._queue.fail(piece.feed.run, error)
            else:
                for number, (piece, views, lease) in enumerate(wave.arrived(fetch), 1):
                    self._queue.arrive(piece, views, lease)
                    if number % _PIECES_AT_ONCE == 0:
                        await anyio.lowlevel.checkpoint()
                if fetch.open_members == 0:  # perhaps all was handed on before the end
                    fetch.buffer = None
            self._on_arrival()

        async with anyio.create_task_group() as tasks:
            for fetch in wave.fetches:
                tasks.start_soon(deferred(receive_one), fetch)

    def _begin(self, wave: _Wave, fetch: _Fetch, there: RangeBuffer) -> None:
        """Hand on what is there of a request whose rest is on its way."""
        begun = list(wave.begun(fetch, there))
        for piece, views, lease in begun:
            self._queue.arrive(piece, views, lease)
        if begun:
            self._on_arrival()

    def _start_fetch(self, request: Request, stripe: int, wave: str) -> _Fetch:
        fetch = _Fetch(request)
        self._submit(fetch, stripe, wave)
        return fetch

    def _submit(
        self, fetch: _Fetch, stripe: int, wave: str, window: int = 0, on_bytes: OnBytes | None = None
    ) -> None:
        """Start a request; what the tail's bytes hold needs none."""
        wanted = fetch.request.range
        if self._cached is None or wanted.start < self._cached.range.start:
            priority = stripe << 20 | min(window, 0xFFFFF)
            fetch.ticket = self._scheduler.submit(wanted, priority, on_bytes, wave)
            fetch.lease = self._budget.lend(wanted.length)

    async def _collect(self, fetch: _Fetch) -> RangeBuffer:
        """The bytes of a request; the object is known to be the one that was opened."""
        if fetch.buffer is not None:
            return fetch.buffer
        if fetch.ticket is None:
            assert self._cached is not None
            fetch.buffer = RangeBuffer(fetch.request.range, self._cached.view(fetch.request.range))
            return fetch.buffer
        data = await fetch.ticket.wait()
        await self._verify()
        fetch.ticket = None
        fetch.buffer = RangeBuffer(fetch.request.range, data)
        return fetch.buffer


def _planned(pieces: Sequence[StreamPiece], cost: CostModel, *, one_of_many: bool) -> tuple[_Wave, list[int]]:
    """The requests for some pieces, and the order in which to start them."""
    ranges = [piece.range for piece in pieces]
    requests = plan_requests(ranges, cost, one_of_many=one_of_many)
    return _Wave(pieces, requests), order_of_rows(requests, ranges, [piece.feed for piece in pieces])
