"""Late materialisation: the columns of a predicate first, the others only for row groups with a match.

Knows two pipelines and how the rows of the first become the stripes of the second. Must not know how
anything is fetched or decoded. What the predicate's pipeline has decoded of columns that the user wants too
is handed on. Where that would take too much memory, a stripe is handed on in parts; or, where no index leads
to those, decoded again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.abc
import numpy as np
from numpy.typing import NDArray

from orcstream.codec.metadata.wire import AT_ONCE_COLUMNS
from orcstream.codec.vectors.column import Vector, vector_bytes
from orcstream.io.loop.tasks import deferred
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.io.request.scheduler import FetchScheduler
from orcstream.plan.selection import RowGroups, Rows, Span, clip_rows, joined
from orcstream.reader.engine.decoding import Delivery
from orcstream.reader.engine.fetching import Fetcher, PipelineOptions
from orcstream.reader.engine.pipeline import DecodeThreads, Filter, Pipeline, columns_of
from orcstream.reader.engine.runs import Segment, StripeRun
from orcstream.reader.engine.session import PrunedRows
from orcstream.reader.engine.stripes import StripeWork
from orcstream.schema.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePlan:
    """How the predicate's columns are read, and what follows: the columns of `root` for rows that match.

    `filter` works on the vectors of the first pipeline's runs; `kept` says which of those are columns of
    `root` too: their places there, and of the runs.
    """

    pipeline: PipelineOptions
    filter: Filter
    root: Type
    kept: Mapping[int, int]


class LateReading:
    """Reads the predicate's columns and hands stripes on to `output`."""

    def __init__(self, plan: LatePlan, output: Pipeline, pruned: PrunedRows) -> None:
        self._plan = plan
        self._output = output
        self._pruned = pruned
        self._context_of = plan.pipeline.start.context_of
        self.pipeline = Pipeline(plan.pipeline)

    def start(
        self,
        tasks: anyio.abc.TaskGroup,
        scheduler: FetchScheduler,
        works: Sequence[StripeWork],
        verify: Callable[[], Awaitable[None]],
        threads: DecodeThreads,
    ) -> None:
        self.pipeline.start(tasks, scheduler, works, verify, threads)
        tasks.start_soon(deferred(self._run))

    def stop(self) -> None:
        self.pipeline.stop()

    async def _run(self) -> None:
        fetcher = self._output.fetcher
        assert fetcher is not None
        try:
            await self._read(fetcher)
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            self._output.fail(error)
            return
        fetcher.finish()

    async def _read(self, fetcher: Fetcher) -> None:
        part = _Part()
        while True:
            try:
                delivery = await self.pipeline.next()
            except Exception:
                await self._end_stripe(part, fetcher)  # rows before those that fail are not lost
                raise
            if part.stripe is not None and (delivery is None or delivery.stripe is not part.stripe):
                await self._end_stripe(part, fetcher)
                part = _Part()
            if delivery is None:
                return
            columns = columns_of(delivery)
            mask = await run_in_thread(partial(self._plan.filter.mask, columns, delivery.row_count))
            self.pipeline.wake()
            part.add(delivery, mask, {run: columns[run] for run in self._plan.kept.values()})
            if part.size >= self._output.budget.decoded_window_bytes:
                if self._context_of(delivery.stripe).leads_to(self._plan.root):
                    await self._hand_on(part, fetcher)
                    part = _Part()
                else:  # each part would begin with the stripe's first row
                    part.forget_vectors()

    async def _end_stripe(self, part: _Part, fetcher: Fetcher) -> None:
        await self._hand_on(part, fetcher)
        if part.stripe is not None:
            part.stripe.held = ()

    async def _hand_on(self, part: _Part, fetcher: Fetcher) -> None:
        """The rest of what was looked at: nothing of it is read where no row matches."""
        if part.stripe is None:
            return
        context = self._context_of(part.stripe)
        self._pruned.filtered += part.row_count - part.match_count
        if part.match_count == 0:
            return
        await fetcher.room()
        make = partial(
            context.run,
            self._plan.root,
            part.rows(context.groups),
            decided=part.matches(),
            decoded={place: partial(part.segments, run) for place, run in self._plan.kept.items()}
            if part.keeps_vectors
            else None,
        )
        is_large = len(self._plan.root.children) > AT_ONCE_COLUMNS
        await fetcher.add(make, part.stripe.held, is_large=is_large)


@dataclass(frozen=True, slots=True)
class _Matches:
    """The numbers of the rows that match. It outlives what they were found in, and leads back to nothing."""

    numbers: NDArray[np.int64]

    def mask(self, start: int, count: int) -> NDArray[np.bool_]:
        """Which rows match, for the output's windows."""
        first, stop = np.searchsorted(self.numbers, (start, start + count))
        found = np.zeros(count, np.bool_)
        found[self.numbers[first:stop] - start] = True
        return found


class _Part:
    """Rows of one stripe that the predicate has looked at: which match, and vectors that are kept."""

    def __init__(self) -> None:
        self.stripe: StripeRun | None = None
        self._seen: list[tuple[int, int]] = []
        self._kept: list[Mapping[int, Vector]] = []
        self._numbers: list[NDArray[np.int64]] = []
        self.size = self.row_count = self.match_count = 0
        self.keeps_vectors = True

    def forget_vectors(self) -> None:
        """Those rows are decoded again with the others."""
        self.keeps_vectors = False
        self._kept.clear()
        self.size = 0

    def add(self, delivery: Delivery, mask: NDArray[np.bool_], kept: Mapping[int, Vector]) -> None:
        """Take rows that follow those before; `kept` are their vectors by run."""
        self.stripe = delivery.stripe
        row_count = delivery.row_count
        if self.stripe.choice is not None:
            chosen = self.stripe.choice.mask(delivery.start, row_count)
            row_count = int(np.count_nonzero(chosen))
            mask = mask & chosen
        self._seen.append((delivery.start, delivery.start + delivery.row_count))
        self._numbers.append(delivery.start + np.flatnonzero(mask))
        self.row_count += row_count
        self.match_count += len(self._numbers[-1])
        if self.keeps_vectors:
            self._kept.append(kept)
            self.size += sum(vector_bytes(vector) for vector in kept.values()) + self._numbers[-1].nbytes

    def matches(self) -> _Matches:
        return _Matches(np.concatenate(self._numbers))

    def rows(self, groups: RowGroups) -> Rows:
        """The rows that were looked at, of row groups that have a match."""
        found = [(0, groups.row_count)]
        if groups.stride:
            some = np.unique(self.matches().numbers // groups.stride).tolist()
            found = joined((groups.first_row(group), groups.first_row(group + 1)) for group in some)
        return clip_rows(joined(self._seen), found)

    def segments(self, run: int, spans: Sequence[Span]) -> list[Segment]:
        """The decoded rows of a column that lie in `spans`."""
        found: list[Segment] = []
        at = 0
        for span in spans:
            for (start, end), kept in zip(self._seen, self._kept, strict=True):
                first, stop = max(span.first, start), min(span.stop, end)
                if first < stop:
                    vector = kept[run].slice(first - start, stop - start)
                    found.append(Segment(at, vector, vector_bytes(vector)))
                    at += stop - first
        return found
