"""A read's plan as a value that prints: waves, requests, bytes.

Plans a read as the stream does, without fetching its data. Knows the waves of a read, and fetches what the
control wave fetches, since only that tells what the data wave will ask for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from orcstream.byterange import ByteRange, CostModel, RangeBuffer, joined
from orcstream.codec.metadata.wire import AT_ONCE_COLUMNS
from orcstream.codec.vectors.column import Vector
from orcstream.errors import located
from orcstream.io.loop.uncancelled import called
from orcstream.plan.selection import Span, control_count, fitting, plan_control, plan_requests
from orcstream.plan.tail import Tail
from orcstream.reader.engine.budget import Shares
from orcstream.reader.engine.runs import Segment, StripeRun, windows_of
from orcstream.reader.engine.stripes import StripeWork
from orcstream.reader.planned import ReadingPlan


@dataclass(frozen=True, slots=True)
class Wave:
    """Requests that do not wait for each other; `ranges` are the bytes of the file that each asks for."""

    name: str
    request_count: int
    bytes_wanted: int
    bytes_read: int
    ranges: tuple[ByteRange, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a read will ask the store for. `str()` is made for people.

    `url` is shown without credentials, `columns` is what is read as a schema's text, `row_count` that of
    the file. `selected_row_count` rows of `stripe_count` stripes are left to look at, after those that
    the file's own figures prove to have no match: `rows_pruned_by_file`, `rows_pruned_by_stripe`,
    `rows_pruned_by_row_group` (all by statistics) and `rows_pruned_by_bloom` (filters), by what proves it
    first. With `predicate_first`, the columns of the predicate are read before the others, which follow
    only for row groups with a match: of those, a wave says the most there can be. `window_count` is in
    how many pieces the stripes are read, at least one each.

    `waves` are the requests, those together that do not wait for each other: each has `name` (``tail``,
    ``statistics`` of stripes, ``control`` for footers and what comes along, ``index``, ``data``, or
    ``predicate`` and ``rest, at most``), `request_count`, `bytes_wanted`, `bytes_read` and `ranges` of
    the file.
    """

    url: str
    columns: str
    row_count: int
    selected_row_count: int
    rows_pruned_by_file: int
    rows_pruned_by_stripe: int
    rows_pruned_by_row_group: int
    rows_pruned_by_bloom: int
    predicate_first: bool
    stripe_count: int
    window_count: int
    waves: tuple[Wave, ...]

    @property
    def hop_count(self) -> int:
        """How many responses arrive one after the other before the last byte can be asked for."""
        return sum(1 for wave in self.waves if wave.request_count)

    @property
    def request_count(self) -> int:
        """Requests of all waves."""
        return sum(wave.request_count for wave in self.waves)

    @property
    def bytes_wanted(self) -> int:
        """Bytes that are needed, of all waves."""
        return sum(wave.bytes_wanted for wave in self.waves)

    @property
    def bytes_read(self) -> int:
        """Bytes that are asked for: those between two wanted ranges that are read as one, too."""
        return sum(wave.bytes_read for wave in self.waves)

    def __str__(self) -> str:
        windows = _counted(self.window_count, "window")
        lines = [
            f"{self.url}",
            f"  reads     {self.columns}",
            f"  rows      {self.selected_row_count:,} of {self.row_count:,}",
            f"  from      {_counted(self.stripe_count, 'stripe')}, in {windows}",
            *self._pruning(),
            f"  hops      {self.hop_count}",
            "  wave             requests          wanted            read",
        ]
        total = Wave("total", self.request_count, self.bytes_wanted, self.bytes_read)
        lines += [
            f"  {wave.name:<16} {wave.request_count:>8,} {wave.bytes_wanted:>15,} {wave.bytes_read:>15,}"
            for wave in (*self.waves, total)
        ]
        return "\n".join(lines)

    def _pruning(self) -> list[str]:
        proofs = {
            "file statistics": self.rows_pruned_by_file,
            "stripe statistics": self.rows_pruned_by_stripe,
            "row group statistics": self.rows_pruned_by_row_group,
            "bloom filters": self.rows_pruned_by_bloom,
        }
        shown = [f"{count:,} by {proof}" for proof, count in proofs.items() if count]
        lines = [f"  pruned    {', '.join(shown)}"] if shown else []
        if self.predicate_first:
            lines.append("  order     the predicate's columns first, the others where a row matches")
        return lines


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


Fetch = Callable[[list[ByteRange]], Awaitable[list[RangeBuffer]]]


@dataclass(slots=True, eq=False)
class _Tally:
    """A wave, counted as it is planned."""

    name: str
    bytes_wanted: int = 0
    ranges: list[ByteRange] = field(default_factory=list)

    def ask(self, ranges: Sequence[ByteRange]) -> None:
        self.ranges += ranges

    def wave(self) -> Wave:
        bytes_read = sum(range_.length for range_ in self.ranges)
        return Wave(self.name, len(self.ranges), self.bytes_wanted, bytes_read, tuple(self.ranges))


class _Survey:
    """One explanation in the making."""

    def __init__(self, plan: ReadingPlan, cached: RangeBuffer, fetch: Fetch) -> None:
        self.plan = plan
        self.cached = cached
        self.fetch = fetch
        self.cost: CostModel = plan.session.source.cost
        first = plan.pipeline if plan.late is None else plan.late.pipeline
        self.start = first.start
        self.remembered = first.remembered
        self.shares = Shares(first.memory_limit)
        self.statistics = _Tally("statistics")
        self.control = _Tally("control")
        self.index = _Tally("index")
        self.data = _Tally("data" if plan.late is None else "predicate")
        self.rest = _Tally("rest, at most")
        self.stripe_count = self.window_count = self.row_count = 0

    async def run(self) -> None:
        works = await self._works()
        first = 0
        while first < len(works):
            group = works[first : first + control_count(first, self.cost)]
            with located(url=self.plan.session.source.url):
                count = fitting([work.information for work in group], self.shares.window_bytes)
            first += count
            await self._group(group[:count])

    async def _works(self) -> Sequence[StripeWork]:
        stripes, statistics = self.plan.stripes, None
        wanted = stripes.statistics_range
        if wanted is not None:
            self.statistics.bytes_wanted = wanted.length
            self.statistics.ask([wanted])
            (buffer,) = await self.fetch([wanted])
            statistics = buffer.view(wanted)
        return await called(lambda: stripes.works(statistics), is_large=stripes.takes_long)

    async def _group(self, works: Sequence[StripeWork]) -> None:
        ranges = [work.information.footer_range for work in works]
        known = {range_: found for range_ in ranges if (found := self.remembered.get(range_)) is not None}
        unknown = [work for work in works if work.information.footer_range not in known]
        control = plan_control(
            [work.information for work in unknown],
            self.cost,
            self.shares.window_bytes,
            indexed=[work.indexed for work in unknown],
            index_share=self.start.index_share,
        )
        asked = [r.range for r in control.requests if r.range.start < self.cached.range.start]
        self.control.ask(asked)
        held = [*await self.fetch(asked), self.cached]
        await self.start.unlock(works)
        for work in works:
            stripe = await self._stripe(work, known, held)
            if stripe is not None:
                await called(partial(self._count, stripe, held), is_large=len(stripe.feeds) > AT_ONCE_COLUMNS)

    def _count(self, stripe: StripeRun, held: Sequence[RangeBuffer]) -> None:
        self.stripe_count += 1
        self.row_count += stripe.row_count
        self._data(stripe, held, self.data)
        if self.plan.late is not None:
            context = self.start.context_of(stripe)
            kept = {place: partial(_no_rows, stripe) for place in self.plan.late.kept}
            rows = [(span.first, span.stop) for span in stripe.spans]
            rest = context.run(self.plan.late.root, rows, decoded=kept)
            self._data(rest, held, self.rest)

    async def _stripe(
        self, work: StripeWork, footers: Mapping[ByteRange, memoryview], held: Sequence[RangeBuffer]
    ) -> StripeRun | None:
        footer_range = work.information.footer_range
        footer = footers.get(footer_range) or joined(footer_range, held)
        self.control.bytes_wanted += len(footer)
        with located(url=self.plan.session.source.url):
            is_large = self.start.is_large(work, footer)
            wanted = await called(partial(self.start.index_ranges, work, footer), is_large=is_large)
            known = {range_: found for range_ in wanted if (found := self.remembered.get(range_)) is not None}
            missing = [range_ for range_ in wanted if range_ not in known and not _is_held(range_, held)]
            requests = [request.range for request in plan_requests(missing, self.cost)]
            self.index.ask(requests)
            all_held = [*held, *await self.fetch(requests)] if requests else held
            wave = self.index if requests else self.control
            wave.bytes_wanted += sum(range_.length for range_ in wanted)
            indexes = known | {range_: joined(range_, all_held) for range_ in wanted if range_ not in known}
            is_large = is_large or self.start.is_large(work, footer, sum(range_.length for range_ in wanted))
            return await called(partial(self.start.start, work, footer, indexes), is_large=is_large)

    def _data(self, stripe: StripeRun, held: Sequence[RangeBuffer], tally: _Tally) -> None:
        windows = windows_of(stripe, self.shares, self.cost)
        for window in windows:
            self.window_count += 1
            tally.bytes_wanted += sum(piece.range.length for piece in window)
            missing = [piece.range for piece in window if not _is_held(piece.range, held)]
            requests = plan_requests(missing, self.cost, one_of_many=len(windows) > 1)
            tally.ask([request.range for request in requests])


def _no_rows(stripe: StripeRun, _: Sequence[Span]) -> list[Segment]:
    """Stands for rows that the predicate's columns will have left."""
    return [Segment(0, Vector(stripe.row_count, ()), 0)]


async def explain_plan(
    plan: ReadingPlan, tail: Tail, cached: RangeBuffer, columns: str, fetch: Fetch, tail_requests: int
) -> Explanation:
    """What the stream of this plan will ask the store for, after `tail_requests` of the open."""
    survey = _Survey(plan, cached, fetch)
    await survey.run()
    optional = (survey.statistics, survey.index, survey.rest)
    tallies = (survey.statistics, survey.control, survey.index, survey.data, survey.rest)
    pruned = plan.pruned
    return Explanation(
        url=plan.session.source.url,
        columns=columns,
        row_count=tail.footer.row_count,
        selected_row_count=survey.row_count,
        rows_pruned_by_file=pruned.by_file,
        rows_pruned_by_stripe=pruned.by_stripe,
        rows_pruned_by_row_group=pruned.by_row_group,
        rows_pruned_by_bloom=pruned.by_bloom,
        predicate_first=plan.late is not None,
        stripe_count=survey.stripe_count,
        window_count=survey.window_count,
        waves=(
            # A file that was opened with a known tail has read none.
            Wave(
                "tail",
                tail_requests,
                tail.postscript.tail_bytes,
                cached.range.length if tail_requests else 0,
                (cached.range,) if tail_requests else (),
            ),
            *(tally.wave() for tally in tallies if tally not in optional or tally.ranges),
        ),
    )


def _is_held(wanted: ByteRange, held: Sequence[RangeBuffer]) -> bool:
    return any(part.range.start <= wanted.start and wanted.stop <= part.range.stop for part in held)
