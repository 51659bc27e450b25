"""A read of little: of a small file whose bytes all came with its tail, or of a few rows of a local file.

Knows the same parts as `reader.reading`: stripes are started, decoded and shaped by them, one step after the
other in the consumer's own task, without other tasks. What may take longer than other tasks of the loop
should wait is done on a thread: a small file may hold long texts, or claim many rows. Nothing is fetched
ahead: from a store at a distance this would wait for each answer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

import anyio

from orcstream.batch import Batch
from orcstream.byterange import ByteRange, RangeBuffer, gather
from orcstream.errors import UsageError, located
from orcstream.io.loop.tasks import TaskStarter
from orcstream.io.loop.uncancelled import called, until_over
from orcstream.io.request.scheduler import FetchScheduler, FetchStatistics, beyond_end
from orcstream.plan.selection import plan_control, plan_requests
from orcstream.reader.engine.budget import Lease, MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue, Delivery
from orcstream.reader.engine.fetching import FetchPlan
from orcstream.reader.engine.runs import StreamPiece, StripeRun, windows_of
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.engine.stripes import StripeWork
from orcstream.reader.planned import PlannedRead, ReadingPlan

# Decoding so many values, and decompressing so much, takes about a millisecond.
_AT_ONCE_VALUES = 1 << 16
_AT_ONCE_BLOCK_BYTES = 4 << 20
_AT_ONCE_WINDOW_BYTES = 1 << 20
_AT_ONCE_S = 0.002


class BriefRead(PlannedRead):
    """See the module."""

    def __init__(self, plan: ReadingPlan) -> None:
        super().__init__(plan)
        options = plan.pipeline
        assert options.cached is not None
        self._cached = options.cached
        self._held = [options.cached]  # what came along with the tail, and with the footers
        self._lease: Lease | None = None  # of what came with the footers
        self._remembered = options.remembered
        self._source = plan.session.source
        self._budget = MemoryBudget(options.memory_limit, options.chunk_room, _nobody_waits)
        self._queue = DecodeQueue(
            compression=options.compression,
            batch_rows=options.batch_rows,
            column_count=options.column_count,
            budget=self._budget,
            on_progress=_nobody_waits,
            observer=options.observer,
        )
        self._is_large = not self._takes_a_moment()
        self._window_bytes = self._budget.decoded_window_bytes
        if not self._is_large:
            self._bound(min(self._window_bytes, _AT_ONCE_WINDOW_BYTES))
        self._scheduler: FetchScheduler | None = None  # once something is asked for
        self._fetched = FetchPlan()
        self._chosen: Sequence[StripeWork] | None = None
        self._footers: Mapping[ByteRange, memoryview] = {}  # of those that were known
        self._waiting: deque[StripeWork] | None = None  # stripes that are still to be read
        self._begun: tuple[StripeRun | None] | None = None  # the first of them
        self._windows: deque[list[StreamPiece]] = deque()  # of the stripe under way, still to be fetched
        self._is_one_of_many = False  # of them
        self._ready: Batch | None = None
        self._failed: Exception | None = None
        self._left: anyio.Event | None = None  # set while no step is under way
        self._is_over = False
        self._wait_s = 0.0

    def _takes_a_moment(self) -> bool:
        """Whether all is decoded so soon that no other task of the loop would notice.

        Chunks are decompressed whole. Texts that turn out long are decoded piece by piece, but for a single
        one that is long itself.
        """
        options, file = self.plan.pipeline, self.plan.stripes.file
        block_bytes = file.tail.postscript.compression_block_size * options.column_count
        few = self.plan.value_count <= _AT_ONCE_VALUES and block_bytes <= _AT_ONCE_BLOCK_BYTES
        return few and self.plan.is_flat and not self.plan.shaper.rest.is_wide

    def _bound(self, window_bytes: int) -> None:
        """Let a step decode so much of each window at most."""
        self._budget.decoded_window_bytes = window_bytes
        self._budget.decode_limit = 3 * window_bytes

    # --- life time ---------------------------------------------------------------------------------

    def start(self, tasks: TaskStarter) -> None:
        if self._is_started:
            return
        if self.plan.session.is_closed:
            raise UsageError("the file is closed")
        self._is_started = True
        self._tasks = tasks
        self.plan.session.end_with(self)
        if self.plan.watch is not None:
            self.plan.watch.begin()

    async def _work(self) -> None:
        """Nothing: each step does its part."""

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._queue.close()
            self.plan.session.forget(self)
            if self.plan.watch is not None:
                self.plan.watch.end(self.statistics(), self._error)

    def stop(self) -> None:
        self._end()

    async def wait_stopped(self) -> None:
        if self._left is not None and not self._left.is_set():
            await until_over(self._left.wait())

    def _check_open(self) -> None:
        if self._is_over:
            raise UsageError("the file was closed while it was read")

    # --- the consumer's side -----------------------------------------------------------------------

    async def next(self) -> Batch | None:
        self._check_open()
        began = self._loop.time()
        self._left = anyio.Event()
        try:
            while self._ready is None and await self._go_on():
                self._check_open()
        finally:
            self._left.set()
            self._wait_s += self._loop.time() - began
        self._check_open()
        batch, self._ready = self._ready, None
        return self._counted(batch)

    async def _go_on(self) -> bool:
        """Take a step towards the next batch; False at the end. Where it is cancelled, it is taken again."""
        if self._waiting is None:
            await self._begin()
            return True
        # On a thread it goes on should this be cancelled; what came of it is for the next step.
        if await called(self._advance, is_large=self._is_large):
            return True
        if self._queue.head() is not None:
            await self._bring()
        elif self._waiting:
            await self._take_on(self._waiting[0])
        else:
            return False
        return True

    def _advance(self) -> bool:
        """Decode and shape what is there until a batch is ready; at the end or before a failure, the rest.

        Answers whether there is more to be done of it.
        """
        shaper = self.plan.shaper
        began = time.perf_counter()
        if self._failed is not None:
            raise self._failed
        try:
            while self._ready is None and (delivery := self._delivery()) is not None:
                self._ready = shaper.pass_on(delivery) if shaper.is_plain else shaper.shape(delivery)
                if not self._is_large and time.perf_counter() - began > _AT_ONCE_S:
                    # There is more of it than it looked like: the rest is for a thread.
                    self._is_large = True
                    self._bound(self._window_bytes)
                    return True
        except Exception as error:
            self._failed = error  # of this step, or where it gives rows or is cancelled, of the next one
            if not shaper.rest.has_rows:
                raise
            self._ready = shaper.rest.finish()
        if self._ready is None and self._queue.head() is None and not self._waiting:
            self._ready = shaper.rest.finish()
        return self._ready is not None

    def _delivery(self) -> Delivery | None:
        """The next decoded rows; None where there are none yet."""
        while True:
            delivery = self._queue.deliver()
            if delivery is not None or not self._queue.has_work():
                return delivery
            self._queue.work()

    # --- stripes -----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Choose stripes, and fetch what they begin with where that is not known."""
        if self._chosen is None:
            await called(self._choose, is_large=self.plan.stripes.takes_long)
        works = self._chosen or ()
        start, ranges = self.plan.pipeline.start, [work.information.footer_range for work in works]
        # Held from here on: what is remembered now may be forgotten while others read.
        known = {range_: found for range_ in ranges if (found := self._remembered.get(range_)) is not None}
        unknown = [work for work, range_ in zip(works, ranges, strict=True) if range_ not in known]
        control = plan_control(
            [work.information for work in unknown],
            self._source.cost,
            self._budget.window_bytes,
            indexed=[work.indexed for work in unknown],
            index_share=start.index_share,
        )
        held = await self._fetch([request.range for request in control.requests], "control")
        await start.unlock(works)
        self._held += held
        self._lease = self._lent(held)
        self._footers = known
        self._waiting = deque(works)

    def _choose(self) -> None:
        """Once: what is pruned is counted."""
        self._chosen = self.plan.stripes.works(None)

    async def _take_on(self, work: StripeWork) -> None:
        """Start the next stripe."""
        footer_range = work.information.footer_range
        with located(url=self._source.url):
            if self._begun is None:
                await self._start(work, footer_range)
        self._check_open()
        assert self._waiting is not None
        assert self._begun is not None
        self._waiting.popleft()
        (stripe,), self._begun = self._begun, None
        if stripe is not None:
            self._add(stripe)

    async def _start(self, work: StripeWork, footer_range: ByteRange) -> None:
        start = self.plan.pipeline.start
        footer = self._known(footer_range, self._footers.get(footer_range))
        is_large = start.is_large(work, footer)
        wanted = await called(partial(start.index_ranges, work, footer), is_large=is_large)
        known = {range_: self._remembered.get(range_) for range_ in wanted}
        held = await self._fetch_missing([range_ for range_ in wanted if known[range_] is None], "index")
        indexes = {range_: self._known(range_, found, held) for range_, found in known.items()}
        index_bytes = sum(range_.length for range_ in wanted)

        def begin() -> None:
            """Once: what is pruned is counted."""
            self._begun = (start.start(work, footer, indexes),)
            self._fetched.control_bytes += footer_range.length + index_bytes

        is_large = is_large or start.is_large(work, footer, index_bytes)
        await called(begin, is_large=is_large)

    def _add(self, stripe: StripeRun) -> None:
        """Have a stripe decoded: what is there of it at once, the rest window by window."""
        self._windows.clear()
        if self._cached.range.start <= stripe.information.offset:
            pieces = [
                StreamPiece(feed, part.range, span)
                for feed in stripe.feeds
                for span, part in enumerate(feed.slices)
                if part.range.length
            ]
            for piece in pieces:
                piece.asked = True
                piece.arrived = [self._view(piece.range)], None
        else:
            self._windows.extend(windows_of(stripe, self._budget, self._source.cost))
            self._is_one_of_many = len(self._windows) > 1
            pieces = [piece for window in self._windows for piece in window]
        for piece in pieces:
            piece.feed.pieces.append(piece)
            self._fetched.wanted_bytes += piece.range.length
        self._fetched.stripe_count += 1
        self._queue.add(stripe)

    async def _bring(self) -> None:
        """Fetch what columns wait for, and hand it over."""
        pieces = self._windows[0] if self._windows else self._queue.hungry()
        assert pieces, "a column waits for what nobody brings"
        pieces = [piece for piece in pieces if piece.is_wanted]
        wanted = [piece.range for piece in pieces]
        buffers = await self._fetch_missing(wanted, self.plan.pipeline.wave, one_of_many=self._is_one_of_many)
        self._check_open()
        lease = self._lent(buffers)
        if self._windows:
            self._windows.popleft()
        for piece in pieces:
            piece.asked = True
            self._queue.arrive(piece, self._views(piece.range, buffers), lease)

    def _lent(self, buffers: Sequence[RangeBuffer]) -> Lease:
        return self._budget.lend(sum(buffer.range.length for buffer in buffers))

    # --- bytes -------------------------------------------------------------------------------------

    def _view(self, wanted: ByteRange) -> memoryview:
        (view,) = self._views(wanted, ())
        return view

    def _views(self, wanted: ByteRange, fetched: Sequence[RangeBuffer]) -> list[memoryview]:
        """Bytes that came along, or were `fetched`."""
        for buffer in self._held:
            if _holds(buffer.range, wanted):
                return [buffer.view(wanted)]
        if wanted.stop > self._cached.range.stop:
            raise beyond_end(wanted, self._cached.range.stop, self._source.url)
        parts = [one for one in (*fetched, *self._held) if one.range.start < wanted.stop]
        return gather(wanted, sorted(parts, key=lambda part: part.range))

    def _known(
        self, wanted: ByteRange, found: memoryview | None, fetched: Sequence[RangeBuffer] = ()
    ) -> memoryview:
        """A footer or an index, remembered from now on where it was not."""
        if found is None:
            views = self._views(wanted, fetched)
            found = self._remembered.put(wanted, views[0] if len(views) == 1 else memoryview(b"".join(views)))
        return found

    async def _fetch_missing(
        self, wanted: Sequence[ByteRange], wave: str, *, one_of_many: bool = False
    ) -> list[RangeBuffer]:
        missing = [one for one in wanted if one.length and not any(_holds(h.range, one) for h in self._held)]
        requests = plan_requests(missing, self._source.cost, one_of_many=one_of_many) if missing else ()
        return await self._fetch([request.range for request in requests], wave)

    async def _fetch(self, ranges: Sequence[ByteRange], wave: str) -> list[RangeBuffer]:
        """Ranges one after the other; what the tail's bytes hold needs no request."""
        buffers: list[RangeBuffer] = []
        for range_ in ranges:
            if range_.start >= self._cached.range.start:
                continue
            if self._scheduler is None:
                self._scheduler = self.plan.session.scheduler(self._tasks, self.plan.watch)
            buffers.append(RangeBuffer(range_, await self._scheduler.fetch(range_, wave)))
            self._check_open()
        if buffers:
            await self._source.verify()
        return buffers

    def statistics(self) -> ReadStatistics:
        fetched = FetchStatistics() if self._scheduler is None else self._scheduler.statistics()
        return self.counted(
            stripe_count=self._fetched.stripe_count,
            request_count=fetched.request_count,
            retry_count=fetched.retry_count,
            hedge_count=fetched.hedge_count,
            hop_count=fetched.hop_count,
            bytes_wanted=self._fetched.wanted_bytes + self._fetched.control_bytes,
            bytes_read=fetched.byte_count,
            wait_s=self._wait_s,
            decode_s=self._queue.decode_s,
            peak_fetched_bytes=self._budget.peak_fetched,
        )


def _holds(one: ByteRange, wanted: ByteRange) -> bool:
    return one.start <= wanted.start and wanted.stop <= one.stop


def _nobody_waits() -> None:
    """Nothing else runs that could be woken."""
