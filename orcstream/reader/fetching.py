"""Fetches what stripes need, ahead of the decoders, as far as the budget allows.

Knows the order of waves: footers of some stripes in one go, then the windows of each stripe's streams,
in row order. Must not know encodings. Runs as one task of a stream's task group, woken by `wake`: when
fetched bytes were given back, when a batch was delivered, and when a run is parked. What a parked run of
the first stripe needs is asked for whatever the budget says, since nothing else could free memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.abc

from orcstream.byterange import ByteRange, CostModel, RangeBuffer, Request, cover, gather
from orcstream.codec.structure import StripeInformation
from orcstream.io.scheduler import FetchScheduler, FetchTicket
from orcstream.plan.read import (
    CONTROL_STRIPES,
    Piece,
    control_count,
    plan_control,
    plan_requests,
    plan_windows,
)
from orcstream.reader.budget import Lease, MemoryBudget
from orcstream.reader.decoding import DecodeQueue, StreamFeed, StripeRun

__all__ = ["FetchPlan", "Fetcher"]


@dataclass(slots=True)
class FetchPlan:
    """What a read wants and what it asks for, counted as it goes."""

    wanted_bytes: int = 0
    control_bytes: int = 0
    stripe_count: int = 0


@dataclass(slots=True)
class _Fetch:
    """One request under way; its memory is let go when `open_members` pieces have been handed on."""

    request: Request
    ticket: FetchTicket | None
    lease: Lease | None
    open_members: int
    buffer: RangeBuffer | None = None

    def close_member(self) -> None:
        self.open_members -= 1
        if self.open_members == 0:
            self.buffer = self.lease = None


@dataclass(slots=True)
class _Known:
    """A stripe whose footer has arrived, with what else of it came along."""

    stripe: StripeRun
    feeds: list[StreamFeed]
    held: list[tuple[RangeBuffer, Lease | None]]

    def at_hand(self, wanted: ByteRange) -> tuple[RangeBuffer, Lease | None] | None:
        """The buffer that came along and has these bytes."""
        for buffer, lease in self.held:
            if buffer.range.start <= wanted.start and wanted.stop <= buffer.range.stop:
                return buffer, lease
        return None


@dataclass(slots=True)
class _Window:
    """Pieces to be asked for together; `number` counts the windows of their stripe."""

    known: _Known
    number: int
    pieces: list[Piece]


class Fetcher:
    """See the module.

    `start_stripe(number, information, footer bytes)` makes a stripe's run from its footer; `on_failure` ends
    the read with an error that no single column has.
    """

    def __init__(
        self,
        *,
        scheduler: FetchScheduler,
        tasks: anyio.abc.TaskGroup,
        cost: CostModel,
        budget: MemoryBudget,
        queue: DecodeQueue,
        stripes: Sequence[StripeInformation],
        cached: RangeBuffer | None,
        start_stripe: Callable[[int, StripeInformation, memoryview], StripeRun],
        verify: Callable[[], Awaitable[None]],
        on_failure: Callable[[Exception], None],
        on_arrival: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._tasks = tasks
        self._cost = cost
        self._budget = budget
        self._queue = queue
        self._stripes = stripes
        self._cached = cached
        self._tail: list[tuple[RangeBuffer, Lease | None]] = [] if cached is None else [(cached, None)]
        self._start_stripe = start_stripe
        self._verify = verify
        self._on_failure = on_failure
        self._on_arrival = on_arrival
        self._next_control = 0
        self._control_running = self._control_failed = False
        self._windows: deque[_Window] = deque()
        self._known: dict[StripeRun, _Known] = {}
        self._wake = anyio.Event()
        self.plan = FetchPlan()

    @property
    def exhausted(self) -> bool:
        """Whether every stripe has been handed to the decoders."""
        return self._next_control == len(self._stripes) and not self._control_running

    def wake(self) -> None:
        """Look again whether something is to be fetched."""
        self._wake.set()

    def close(self) -> None:
        """Let go of all bytes."""
        self._windows.clear()
        self._known.clear()

    async def run(self) -> None:
        """Fetch until all is asked for; for the stream's task group."""
        while True:
            self._wake = anyio.Event()
            self._ask()
            await self._wake.wait()

    def _ask(self) -> None:
        more = self._next_control < len(self._stripes) and self._queue.stripe_count < CONTROL_STRIPES
        if more and not self._control_failed and not self._control_running and len(self._windows) < 4:
            self._ask_control()
        while self._windows:
            window = self._windows[0]
            feeds = window.known.feeds
            pieces = [piece for piece in window.pieces if _is_next(feeds[piece.stream], piece)]
            if not self._fits(window.known, pieces):
                break
            self._windows.popleft()
            self._ask_pieces(window.known, pieces, window.number)
        hungry = self._queue.hungry()
        if hungry:
            known = self._known[hungry[0].run.stripe]
            places = {feed: place for place, feed in enumerate(known.feeds)}
            self._ask_pieces(known, [Piece(places[feed], feed.pieces[feed.asked]) for feed in hungry], 0)

    def _fits(self, known: _Known, pieces: Sequence[Piece]) -> bool:
        missing = sum(piece.range.length for piece in pieces if known.at_hand(piece.range) is None)
        return missing == 0 or self._budget.fits(missing)

    # --- the control wave --------------------------------------------------------------------------

    def _ask_control(self) -> None:
        self._control_running = True
        start = self._next_control
        group = self._stripes[start : start + control_count(start, self._cost)]
        self._next_control += len(group)
        requests = plan_control(group, self._cost, self._budget.window_bytes)
        fetches = [self._submit(request, start) for request in requests]
        self._tasks.start_soon(self._receive_control, start, group, fetches)

    async def _receive_control(
        self, start: int, group: Sequence[StripeInformation], fetches: list[_Fetch]
    ) -> None:
        places = cover(len(group), [fetch.request for fetch in fetches])
        try:
            for index, information in enumerate(group):
                number = start + index
                try:
                    held = [(await self._collect(fetches[at]), fetches[at].lease) for at in places[index]]
                    footer = gather(information.footer_range, [buffer for buffer, _ in held])
                    self.plan.control_bytes += information.footer_length
                    stripe = self._start_stripe(number, information, memoryview(b"".join(footer)))
                except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
                    self._control_failed = True  # no stripe may follow the one that is missing
                    self._on_failure(error)
                    return
                self._add(_Known(stripe, stripe.feeds, [*held, *self._tail]))
                for at in places[index]:
                    fetches[at].close_member()
        finally:
            self._control_running = False
            self.wake()

    def _add(self, known: _Known) -> None:
        feeds = known.feeds
        ranges = [feed.pieces[0] for feed in feeds]
        windows = plan_windows(ranges, self._budget.window_bytes)
        for feed in feeds:
            feed.pieces = []
        for number, pieces in enumerate(windows):
            for piece in pieces:
                feeds[piece.stream].pieces.append(piece.range)
            self._windows.append(_Window(known, number, pieces))
        if feeds:
            self._known[known.stripe] = known
        self.plan.wanted_bytes += sum(range_.length for range_ in ranges)
        self.plan.stripe_count += 1
        self._queue.add(known.stripe)
        self._on_arrival()
        self.wake()

    # --- the data wave -----------------------------------------------------------------------------

    def _ask_pieces(self, known: _Known, pieces: list[Piece], window: int) -> None:
        """Ask for the next pieces of some streams of one stripe, but for what came along with its footer."""
        feeds = known.feeds
        missing: list[tuple[StreamFeed, int, ByteRange]] = []
        for piece in pieces:
            feed = feeds[piece.stream]
            number = feed.asked
            feed.asked += 1
            held = known.at_hand(piece.range)
            if held is None:
                missing.append((feed, number, piece.range))
            else:
                self._queue.arrive(feed, number, [held[0].view(piece.range)], held[1])
        requests = plan_requests([range_ for _, _, range_ in missing], self._cost)
        fetches = [self._submit(request, known.stripe.number, window) for request in requests]
        if fetches:
            self._tasks.start_soon(self._receive, missing, fetches)
        if len(missing) < len(pieces):
            self._on_arrival()
        if all(feed.asked == len(feed.pieces) for feed in feeds):
            known.held.clear()
            self._known.pop(known.stripe, None)

    async def _receive(self, missing: list[tuple[StreamFeed, int, ByteRange]], fetches: list[_Fetch]) -> None:
        """Hand pieces on as soon as the last request of each has arrived."""
        places = cover(len(missing), [fetch.request for fetch in fetches])
        left = [len(place) for place in places]

        async def receive_one(fetch: _Fetch) -> None:
            try:
                fetch.buffer = await self._collect(fetch)
            except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
                for member in fetch.request.members:
                    self._queue.fail(missing[member][0].run, error)
                self._on_arrival()
                return
            for member in fetch.request.members:
                left[member] -= 1
                if left[member] == 0:
                    self._hand_on(missing[member], [fetches[place] for place in places[member]])
            self._on_arrival()

        async with anyio.create_task_group() as tasks:
            for fetch in fetches:
                tasks.start_soon(receive_one, fetch)

    def _hand_on(self, wanted: tuple[StreamFeed, int, ByteRange], parts: list[_Fetch]) -> None:
        feed, number, range_ = wanted
        views = gather(range_, [part.buffer for part in parts if part.buffer is not None])
        self._queue.arrive(feed, number, views, tuple(part.lease for part in parts))
        for part in parts:
            part.close_member()

    def _submit(self, request: Request, stripe: int, window: int = 0) -> _Fetch:
        """Start a request; what the tail's bytes hold needs none."""
        ticket = lease = None
        if self._cached is None or request.range.start < self._cached.range.start:
            ticket = self._scheduler.submit(request.range, stripe << 20 | min(window, 0xFFFFF))
            lease = self._budget.lend(request.range.length)
        return _Fetch(request, ticket, lease, len(request.members))

    async def _collect(self, fetch: _Fetch) -> RangeBuffer:
        """The bytes of a request; the object is known to be the one that was opened."""
        if fetch.buffer is not None:
            return fetch.buffer
        if fetch.ticket is None:
            assert self._cached is not None
            return RangeBuffer(fetch.request.range, self._cached.view(fetch.request.range))
        data = await fetch.ticket.wait()
        await self._verify()
        fetch.ticket = None
        fetch.buffer = RangeBuffer(fetch.request.range, data)
        return fetch.buffer


def _is_next(feed: StreamFeed, piece: Piece) -> bool:
    """Whether a piece was not asked for already, ahead of its window."""
    return feed.asked < len(feed.pieces) and feed.pieces[feed.asked] == piece.range
