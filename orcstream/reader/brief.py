"""A read of a small file whose bytes all came with its tail.

Knows the same parts as `reader.reading`: stripes are started, decoded and shaped by them, one step after the
other in the consumer's own task, without other tasks. What may take longer than other tasks of the loop
should wait is done on a thread: a small file may hold long texts, or claim many rows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial

import anyio

from orcstream.batch import Batch
from orcstream.byterange import ByteRange
from orcstream.errors import UsageError, located
from orcstream.io.loop.tasks import TaskStarter
from orcstream.io.loop.uncancelled import called, until_over
from orcstream.io.request.scheduler import beyond_end
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue, Delivery
from orcstream.reader.engine.fetching import FetchPlan
from orcstream.reader.engine.runs import StreamPiece, StripeRun
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.engine.stripes import StripeWork
from orcstream.reader.planned import PlannedRead, ReadingPlan

# Decoding so many values, or so many bytes of them, takes about a millisecond.
_AT_ONCE_VALUES = 1 << 16
_AT_ONCE_WINDOW_BYTES = 1 << 20
_AT_ONCE_S = 0.002


class BriefRead(PlannedRead):
    """See the module."""

    def __init__(self, plan: ReadingPlan) -> None:
        super().__init__(plan)
        options = plan.pipeline
        assert options.cached is not None
        self._cached = options.cached
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
        self._fetched = FetchPlan()
        self._chosen: Sequence[StripeWork] | None = None
        self._waiting: deque[StripeWork] | None = None  # stripes that are still to be read
        self._begun: tuple[StripeRun | None] | None = None  # the first of them
        self._ready: Batch | None = None
        self._failed: Exception | None = None
        self._left: anyio.Event | None = None  # set while no step is under way
        self._is_over = False
        self._wait_s = 0.0

    def _takes_a_moment(self) -> bool:
        """Whether all is decoded so soon that no other task of the loop would notice.

        Texts that turn out long are decoded piece by piece, but for a single one that is long itself.
        """
        few = self.plan.value_count <= _AT_ONCE_VALUES
        return few and self.plan.is_flat and not self.plan.shaper.rest.is_wide

    def _bound(self, window_bytes: int) -> None:
        """Let a step decode so much of each window at most."""
        self._budget.decoded_window_bytes = window_bytes
        self._budget.decode_limit = 3 * window_bytes

    # --- life time ---------------------------------------------------------------------------------

    def start(self, tasks: TaskStarter) -> None:  # noqa: ARG002 - it has none
        if self._is_started:
            return
        if self.plan.session.is_closed:
            raise UsageError("the file is closed")
        self._is_started = True
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
        if self._chosen is None:
            await called(self._choose, is_large=self.plan.stripes.takes_long)
        if self._waiting is None:
            await self.plan.pipeline.start.unlock(self._chosen or ())
            self._waiting = deque(self._chosen or ())
        # On a thread it goes on should this be cancelled; what came of it is for the next step.
        if await called(self._advance, is_large=self._is_large):
            return True
        if not self._waiting:
            return False
        await self._take_on(self._waiting[0])
        return True

    def _choose(self) -> None:
        """Choose stripes. Called once, because it counts the rows that are pruned."""
        self._chosen = self.plan.stripes.works(None)

    def _advance(self) -> bool:
        """Decode and shape until a batch is ready; at the end or before a failure, of the rows left over.

        Returns whether to look again before another stripe is started.
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
        """The next decoded rows; None at the end of a stripe."""
        while True:
            delivery = self._queue.deliver()
            if delivery is not None or self._queue.head() is None:
                return delivery
            hungry = self._queue.hungry()
            for piece in hungry:
                piece.asked = True
                self._queue.arrive(piece, [self._bytes_of(piece.range)], None)
            assert hungry or self._queue.has_work(), "a column waits for what nobody brings"
            self._queue.work()

    # --- stripes -----------------------------------------------------------------------------------

    async def _take_on(self, work: StripeWork) -> None:
        """Start the next stripe."""
        start, footer_range = self.plan.pipeline.start, work.information.footer_range
        with located(url=self._source.url):
            if self._begun is None:
                footer = self._bytes_of(footer_range)
                is_large = start.is_large(work, footer)
                wanted = await called(partial(start.index_ranges, work, footer), is_large=is_large)
                indexes = {range_: self._bytes_of(range_) for range_ in wanted}
                index_bytes = sum(range_.length for range_ in wanted)

                def begin() -> None:
                    """Start the stripe. Called once, because it counts the rows that are pruned."""
                    self._begun = (start.start(work, footer, indexes),)
                    self._fetched.control_bytes += footer_range.length + index_bytes

                await called(begin, is_large=is_large or start.is_large(work, footer, index_bytes))
        self._check_open()
        assert self._waiting is not None
        assert self._begun is not None
        self._waiting.popleft()
        (stripe,), self._begun = self._begun, None
        if stripe is not None:
            self._add(stripe)

    def _add(self, stripe: StripeRun) -> None:
        for feed in stripe.feeds:
            for span, part in enumerate(feed.slices):
                if part.range.length:
                    piece = StreamPiece(feed, part.range, span)
                    piece.asked = True
                    piece.arrived = [self._bytes_of(part.range)], None
                    feed.pieces.append(piece)
                    self._fetched.wanted_bytes += part.range.length
        self._fetched.stripe_count += 1
        self._queue.add(stripe)

    def _bytes_of(self, wanted: ByteRange) -> memoryview:
        if wanted.stop > self._cached.range.stop:
            raise beyond_end(wanted, self._cached.range.stop, self._source.url)
        return self._cached.view(wanted)

    def statistics(self) -> ReadStatistics:
        return self.counted(
            stripe_count=self._fetched.stripe_count,
            bytes_wanted=self._fetched.wanted_bytes + self._fetched.control_bytes,
            wait_s=self._wait_s,
            decode_s=self._queue.decode_s,
        )


def _nobody_waits() -> None:
    """Nothing else runs that could be woken."""
