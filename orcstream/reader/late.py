"""Late materialisation: the columns of a predicate first, the others only for row groups with a match.

Knows two pipelines and how the rows of the first become the stripes of the second. Must not know how anything is
fetched or decoded. What the predicate's pipeline has decoded of columns that the user wants too is handed on; a
stripe is handed on in parts where that would take too much memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from orcstream.codec.column import vector_bytes
from orcstream.io.scheduler import FetchScheduler
from orcstream.plan.selection import RowGroups, Rows, Span, clip_rows
from orcstream.reader.decoding import Delivery
from orcstream.reader.fetching import StripeWork
from orcstream.reader.pipeline import Pipeline, PipelineOptions
from orcstream.reader.pruning import PrunedRows
from orcstream.reader.runs import Segment
from orcstream.reader.shaping import Filter, columns_of
from orcstream.reader.stripes import StripeContext
from orcstream.schema import Type

__all__ = ["LatePlan", "LateReading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatePlan:
    """How the predicate's columns are read, and what follows: the columns of `root` for rows that match.

    `filter` works on the vectors of the first pipeline's runs; `kept` says which of those are columns of `root`
    too: their places there, and of the runs.
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
        self.pipeline = Pipeline(plan.pipeline)

    def start(
        self,
        tasks: anyio.abc.TaskGroup,
        scheduler: FetchScheduler,
        works: Sequence[StripeWork],
        verify: Callable[[], Awaitable[None]],
        limiter: anyio.CapacityLimiter,
    ) -> None:
        self.pipeline.start(tasks, scheduler, works, verify, limiter)
        tasks.start_soon(self._run)

    def stop(self) -> None:
        self.pipeline.stop()

    async def _run(self) -> None:
        fetcher = self._output.fetcher
        assert fetcher is not None
        part = _Part()
        try:
            while (delivery := await self.pipeline.next()) is not None:
                if part.deliveries and delivery.stripe is not part.deliveries[0].stripe:
                    await self._hand_on(part)
                    part = _Part()
                mask = await anyio.to_thread.run_sync(
                    self._plan.filter.mask, columns_of(delivery), delivery.row_count
                )
                self.pipeline.wake()
                part.add(delivery, mask, self._plan.kept)
                if part.size >= self._output.budget.decoded_window_bytes:
                    await self._hand_on(part)
                    part = _Part()
            await self._hand_on(part)
        except Exception as error:  # noqa: BLE001  # raised to the consumer, whatever it is
            self._output.fail(error)
            return
        fetcher.finish()

    async def _hand_on(self, part: _Part) -> None:
        """The rest of what was looked at: nothing of it is read where no row matches."""
        if not part.deliveries:
            return
        context = part.deliveries[0].stripe.context
        assert isinstance(context, StripeContext)
        self._pruned.filtered += part.row_count - part.match_count
        if part.match_count == 0:
            return
        fetcher = self._output.fetcher
        assert fetcher is not None
        await fetcher.room()
        rows = part.rows(context.groups)
        stripe = context.run(
            self._plan.root,
            rows,
            decided=part,
            decoded={place: partial(part.segments, run) for place, run in self._plan.kept.items()},
        )
        self._output.budget.decoded += sum(s.size for run in stripe.runs for s in run.segments)
        fetcher.add(stripe)


class _Part:
    """Rows of one stripe that the predicate has looked at: which match, and vectors that are kept."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.masks: list[NDArray[np.bool_]] = []
        self.size = self.row_count = self.match_count = 0

    def add(self, delivery: Delivery, mask: NDArray[np.bool_], kept: Mapping[int, int]) -> None:
        choice = delivery.stripe.choice
        if choice is not None:
            mask = mask & choice.mask(delivery.start, delivery.row_count)
        self.deliveries.append(delivery)
        self.masks.append(mask)
        self.row_count += delivery.row_count
        self.match_count += int(np.count_nonzero(mask))
        self.size += sum(vector_bytes(delivery.vectors[run]) for run in kept.values()) + delivery.row_count

    def rows(self, groups: RowGroups) -> Rows:
        """The rows that were looked at, of row groups that have a match."""
        seen = [(one.start, one.start + one.row_count) for one in self.deliveries]
        keep = [False] * groups.count
        for (start, _), mask in zip(seen, self.masks, strict=True):
            for row in _first_of_groups(start + np.flatnonzero(mask), groups):
                keep[groups.of_row(row)] = True
        return clip_rows(_joined(seen), groups.rows_of(keep))

    def mask(self, start: int, count: int) -> NDArray[np.bool_]:
        """Which rows match, for the output's windows."""
        found = np.zeros(count, np.bool_)
        for delivery, mask in zip(self.deliveries, self.masks, strict=True):
            first = max(start, delivery.start)
            stop = min(start + count, delivery.start + delivery.row_count)
            if first < stop:
                found[first - start : stop - start] = mask[first - delivery.start : stop - delivery.start]
        return found

    def segments(self, run: int, spans: Sequence[Span]) -> list[Segment]:
        """The decoded rows of a column that lie in `spans`."""
        found: list[Segment] = []
        at = 0
        for span in spans:
            for delivery in self.deliveries:
                first = max(span.first, delivery.start)
                stop = min(span.stop, delivery.start + delivery.row_count)
                if first < stop:
                    vector = delivery.vectors[run].slice(first - delivery.start, stop - delivery.start)
                    found.append(Segment(at, vector, vector_bytes(vector)))
                    at += stop - first
        return found


def _first_of_groups(rows: NDArray[np.int64], groups: RowGroups) -> list[int]:
    """One row of each group that has some of `rows`."""
    some = np.unique(rows // groups.stride) * groups.stride if groups.stride else rows[:1]
    found: list[int] = some.tolist()
    return found


def _joined(rows: Rows) -> Rows:
    joined: list[tuple[int, int]] = []
    for start, stop in rows:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
