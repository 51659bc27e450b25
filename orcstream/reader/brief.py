"""A read of a small file whose bytes all came with its tail: no task, no request, and no thread for little.

Knows the same parts as `reader.reading`: stripes are started, decoded and shaped by them, one step after the
other in the consumer's own task. What takes longer than other tasks should wait is done on a thread, so that
a small file that claims many rows holds up nobody.
"""

from __future__ import annotations

from collections import deque

from orcstream.batch import Batch
from orcstream.byterange import ByteRange
from orcstream.errors import UsageError, located
from orcstream.io.loop.tasks import TaskStarter
from orcstream.io.loop.uncancelled import called
from orcstream.io.request.scheduler import beyond_end
from orcstream.reader.engine.budget import MemoryBudget
from orcstream.reader.engine.decoding import DecodeQueue, Delivery
from orcstream.reader.engine.fetching import FetchPlan
from orcstream.reader.engine.runs import StreamPiece
from orcstream.reader.engine.session import ReadStatistics
from orcstream.reader.engine.stripes import StripeWork
from orcstream.reader.planning import PlannedRead, ReadingPlan

# Decoding so many values takes less than a millisecond, where their chunks are no larger than they look.
_AT_ONCE_VALUES = 1 << 16


class BriefRead(PlannedRead):
    """See the module."""

    def __init__(self, plan: ReadingPlan) -> None:
        super().__init__(plan)
        options = plan.pipeline
        self._budget = MemoryBudget(options.memory_limit, options.chunk_room, _nobody_waits)
        self._queue = DecodeQueue(
            compression=options.compression,
            batch_rows=options.batch_rows,
            column_count=options.column_count,
            budget=self._budget,
            on_progress=_nobody_waits,
            observer=options.observer,
        )
        values = plan.stripes.file.tail.footer.row_count * options.column_count
        self._is_large = values > _AT_ONCE_VALUES or plan.shaper.rest.is_wide
        self._fetched = FetchPlan()
        self._waiting: deque[StripeWork] | None = None  # stripes that are still to be read
        self._ready: Batch | None = None
        self._is_over = False
        self._wait_s = 0.0

    # --- life time ---------------------------------------------------------------------------------

    def start(self, tasks: TaskStarter) -> None:  # noqa: ARG002 - it has none
        if self._is_started:
            return
        if self.plan.session.is_closed:
            raise UsageError("the file is closed")
        self._is_started = True
        self.plan.session.at_close(self, self.stop)
        if self.plan.watch is not None:
            self.plan.watch.begin()

    async def _work(self) -> None:
        """Nothing: each step does its part."""

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._queue.close()
            self.plan.session.at_close(self, None)
            if self.plan.watch is not None:
                self.plan.watch.end(self.statistics(), self._error)

    def stop(self) -> None:
        self._end()

    def _check_open(self) -> None:
        if self._is_over:
            raise UsageError("the file was closed while it was read")

    # --- the consumer's side -----------------------------------------------------------------------

    async def next(self) -> Batch | None:
        self._check_open()
        if self._waiting is None:
            stripes = self.plan.stripes
            works = await called(lambda: stripes.works(None), is_large=stripes.takes_long)
            await self.plan.pipeline.start.unlock(works)
            self._waiting = deque(works)
        if self._ready is None:
            began = self._loop.time()
            # On a thread it goes on should this be cancelled; what came of it is for the next step.
            await called(self._advance, is_large=self._is_large)
            self._wait_s += self._loop.time() - began
            self._check_open()
        batch, self._ready = self._ready, None
        return self._counted(batch)

    def _advance(self) -> None:
        """Make the next batch ready, where there is one."""
        shaper = self.plan.shaper
        while self._ready is None:
            delivery = self._delivery()
            if delivery is None:
                self._ready = shaper.rest.finish()
                return
            self._ready = shaper.pass_on(delivery) if shaper.is_plain else shaper.shape(delivery)

    def _delivery(self) -> Delivery | None:
        """The next decoded rows; None at the end, and where rows before a failure are left over."""
        try:
            while True:
                delivery = self._queue.deliver()
                if delivery is not None:
                    return delivery
                if self._queue.head() is None:
                    if not self._take_on():
                        return None
                    continue
                hungry = self._queue.hungry()
                for piece in hungry:
                    piece.asked = True
                    self._queue.arrive(piece, [self._bytes_of(piece.range)], None)
                assert hungry or self._queue.has_work(), "a column waits for what nobody brings"
                self._queue.work()
        except Exception:
            if self.plan.shaper.rest.has_rows:
                return None  # the failure is raised again by the next step
            raise

    # --- stripes -----------------------------------------------------------------------------------

    def _take_on(self) -> bool:
        """Start the next stripe that has rows of the read, if there is one."""
        start, waiting = self.plan.pipeline.start, self._waiting
        while waiting:
            work = waiting[0]
            with located(url=self.plan.session.source.url):
                footer = self._bytes_of(work.information.footer_range)
                wanted = start.index_ranges(work, footer)
                indexes = {range_: self._bytes_of(range_) for range_ in wanted}
                self._fetched.control_bytes += len(footer) + sum(range_.length for range_ in wanted)
                stripe = start.start(work, footer, indexes)
            waiting.popleft()
            if stripe is None:
                continue
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
            return True
        return False

    def _bytes_of(self, wanted: ByteRange) -> memoryview:
        cached = self.plan.pipeline.cached
        assert cached is not None
        if wanted.stop > cached.range.stop:
            raise beyond_end(wanted, cached.range.stop, self.plan.session.source.url)
        return cached.view(wanted)

    def statistics(self) -> ReadStatistics:
        return self.counted(
            stripe_count=self._fetched.stripe_count,
            bytes_wanted=self._fetched.wanted_bytes + self._fetched.control_bytes,
            wait_s=self._wait_s,
            decode_s=self._queue.decode_s,
        )


def _nobody_waits() -> None:
    """Nothing else runs that could be woken."""
