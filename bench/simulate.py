"""Our plan of a read against those of Trino and ORC Java, over recorded layouts: `python -m bench.simulate`.

Nothing is read: plans are computed, counted and timed by a model. All three are asked for the same streams or
slices of streams; what differs is what they make of them:

- ours: `orcstream.plan.selection`, with the presets of `CostModel`;
- Trino (lib/trino-orc, `OrcReaderOptions` and its defaults): ranges are merged over gaps of up to 1 MB
  (`hive.orc.max-merge-distance`) into requests of up to 8 MB (`max-buffer-size`); a longer one is read in
  buffers of 8 MB (`stream-buffer-size`); where every stripe is at most 8 MB (`tiny-stripe-threshold`), whole
  stripes are merged by the same rule and read at once;
- ORC Java (`RecordReaderUtils`): ranges that touch or overlap are one request, however long
  (`orc.min.disk.seek.size` is 0).

Both read a footer for each stripe, and go stripe by stripe, one request after the other, which the model does
not hold against them: it gives each wave's requests to all connections at once. The file is open: what its
tail cost, and what came with it, is left out.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import layouts
from bench.layouts import Layout
from bench.report import Figure, table
from orcstream.byterange import ByteRange, CostModel, coalesce
from orcstream.plan.selection import (
    control_count,
    first_window_bytes,
    plan_control,
    plan_requests,
    plan_windows,
)

__all__ = [
    "PRESETS",
    "WORKLOADS",
    "Distance",
    "Plan",
    "Workload",
    "compare",
    "dominated",
    "figures",
    "merged_as_trino",
]

MIB = 1 << 20
TRINO_MERGE_BYTES = 1 * MIB
TRINO_BUFFER_BYTES = 8 * MIB
TRINO_TINY_STRIPE_BYTES = 8 * MIB
# Two of the default limit's windows fit in what may be fetched: see reader/budget.py.
WINDOW_BYTES = 64 * MIB

Ranges = list[ByteRange]
Spans = list[Ranges]


@dataclass(frozen=True)
class Distance:
    """What the model's store is like: one connection's rate, and that of all together."""

    latency_s: float
    connection_rate: float
    total_rate: float
    connections: int

    def time_of(self, wave: Sequence[ByteRange]) -> float:
        """From a wave's first request to its last byte; requests start in order as connections get free."""
        free = [0.0] * self.connections
        for one in wave:
            start = heapq.heappop(free)
            heapq.heappush(free, start + self.latency_s + one.length / self.connection_rate)
        least = self.latency_s + sum(one.length for one in wave) / self.total_rate
        return max(least, *free) if wave else 0.0


PRESETS: dict[str, tuple[CostModel, Distance]] = {
    "object store": (CostModel.object_store(), Distance(0.03, 90e6, 5e8, 16)),
    "http": (CostModel.http(), Distance(0.03, 1e8, 1e8, 16)),
    "hdfs": (CostModel.hdfs(), Distance(0.005, 1e8, 2e8, 16)),
}


@dataclass(frozen=True)
class Plan:
    """The requests of a read, wave by wave; no wave's requests wait for each other."""

    waves: tuple[Ranges, ...]

    @property
    def request_count(self) -> int:
        return sum(map(len, self.waves))

    @property
    def byte_count(self) -> int:
        return sum(one.length for wave in self.waves for one in wave)

    def time(self, distance: Distance) -> float:
        return sum(map(distance.time_of, self.waves))


@dataclass(frozen=True)
class Workload:
    """What is wanted of a layout: indexes of some stripes, and ranges of the data, stripe by stripe."""

    name: str
    layout: str
    wanted: Callable[[Layout], list[Spans]]
    """For each stripe, the streams' ranges of each span of rows; one without spans is not read at all."""
    column_count: int = 0
    """Of how many columns the indexes of the stripes that are read are wanted too."""

    @property
    def indexed(self) -> bool:
        return self.column_count > 0


def _full(layout: Layout) -> list[Spans]:
    return [[layout.wanted(stripe.index, None)] for stripe in layout.stripes]


def _columns(columns: Sequence[int]) -> Callable[[Layout], list[Spans]]:
    chosen = frozenset((0, *columns))
    return lambda layout: [[layout.wanted(stripe.index, chosen)] for stripe in layout.stripes]


def _groups(columns: Sequence[int], share: float) -> Callable[[Layout], list[Spans]]:
    """Every n-th row group, the middle one of its hundred."""
    chosen = frozenset(columns)

    def wanted(layout: Layout) -> list[Spans]:
        step, number = round(1 / share), 0
        found: list[Spans] = []
        for stripe in layout.stripes:
            own: Spans = []
            for group in range(-(-stripe.row_count // layouts.GROUP_ROWS)):
                if number % step == step // 2:
                    own.append(layout.slices(stripe.index, chosen, group))
                number += 1
            found.append(own)
        return found

    return wanted


WORKLOADS = (
    Workload("full scan", "lineitem", _full),
    Workload("3 columns of 15", "lineitem", _columns((2, 6, 14))),
    Workload(
        "1 % of the row groups, 5 columns", "lineitem", _groups((1, 2, 6, 11, 14), 0.01), column_count=5
    ),
    Workload("200 tiny stripes", "tiny-stripes", _full),
    Workload("200 tiny stripes, 3 columns of 15", "tiny-stripes", _columns((2, 6, 14))),
    Workload("10 columns of 1,000", "thousand-columns", _columns(range(50, 1001, 100))),
)


# --- the three planners ------------------------------------------------------------------------------


def plan_ours(layout: Layout, workload: Workload, cost: CostModel) -> Plan:
    wanted = workload.wanted(layout)
    chosen = [stripe for stripe, spans in zip(layout.stripes, wanted, strict=True) if spans]
    control: Ranges = []
    first = 0
    while first < len(chosen):
        group = chosen[first : first + control_count(first, cost)]
        first += len(group)
        planned = plan_control(
            group,
            cost,
            WINDOW_BYTES,
            indexed=[workload.indexed] * len(group),
            index_share=workload.column_count / layout.column_count(),
        )
        control += [one.range for one in planned.requests]
    data: Ranges = []
    for number, spans in enumerate(wanted):
        windows = plan_windows(spans, WINDOW_BYTES, None if number else first_window_bytes(cost))
        for window in windows:
            missing = [piece.range for piece in window if not _within(piece.range, control)]
            data += [one.range for one in plan_requests(missing, cost, one_of_many=len(windows) > 1)]
    return Plan((control, data))


def plan_trino(layout: Layout, workload: Workload) -> Plan:
    wanted = _joined(workload.wanted(layout))
    chosen = [stripe for stripe, own in zip(layout.stripes, wanted, strict=True) if own]
    if all(stripe.range.length <= TRINO_TINY_STRIPE_BYTES for stripe in chosen):
        return Plan((merged_as_trino([stripe.range for stripe in chosen]),))
    footers = [stripe.footer_range for stripe in chosen]
    indexes = [stripe.index_range for stripe in chosen] if workload.indexed else []
    data = [one for own in wanted for one in merged_as_trino(own)]
    return Plan((footers, indexes, data))


def merged_as_trino(ranges: Ranges) -> Ranges:
    small = sorted(one for one in ranges if one.length <= TRINO_BUFFER_BYTES)
    merged: Ranges = []
    for one in small:
        last = merged[-1] if merged else None
        if last and one.start <= last.stop + TRINO_MERGE_BYTES:
            both = ByteRange(last.start, max(last.stop, one.stop))
            if both.length <= TRINO_BUFFER_BYTES:
                merged[-1] = both
                continue
        merged.append(one)
    for one in ranges:
        if one.length > TRINO_BUFFER_BYTES:
            starts = range(one.start, one.stop, TRINO_BUFFER_BYTES)
            merged += [ByteRange(start, min(one.stop, start + TRINO_BUFFER_BYTES)) for start in starts]
    return merged


def plan_java(layout: Layout, workload: Workload) -> Plan:
    wanted = _joined(workload.wanted(layout))
    chosen = [stripe for stripe, own in zip(layout.stripes, wanted, strict=True) if own]
    footers = [stripe.footer_range for stripe in chosen]
    indexes = [stripe.index_range for stripe in chosen] if workload.indexed else []
    data = [one.range for own in wanted for one in coalesce(own, gap_bytes=0, max_bytes=1 << 62)]
    return Plan((footers, indexes, data))


def _joined(wanted: list[Spans]) -> list[Ranges]:
    """All ranges of each stripe: they plan a stripe at a time."""
    return [[one for span in spans for one in span] for spans in wanted]


def _within(wanted: ByteRange, held: Sequence[ByteRange]) -> bool:
    return any(one.start <= wanted.start and wanted.stop <= one.stop for one in held)


# --- comparing ---------------------------------------------------------------------------------------


def compare(workload: Workload, preset: str) -> dict[str, tuple[Plan, float]]:
    """Each planner's plan and modelled seconds."""
    cost, distance = PRESETS[preset]
    layout = layouts.load(workload.layout)
    plans = {
        "ours": plan_ours(layout, workload, cost),
        "Trino": plan_trino(layout, workload),
        "ORC Java": plan_java(layout, workload),
    }
    return {name: (plan, plan.time(distance)) for name, plan in plans.items()}


def dominated(ours: Plan, other: Plan) -> bool:
    """Whether we ask for more in both ways."""
    return ours.request_count > other.request_count and ours.byte_count > other.byte_count


def figures() -> list[Figure]:
    found = []
    for workload in WORKLOADS:
        for preset in PRESETS:
            results = compare(workload, preset)
            plan, seconds = results.pop("ours")
            beside = "; ".join(
                f"{name} {one.request_count} requests, {one.byte_count:,} bytes, {took:.3f} s"
                for name, (one, took) in {"ours": (plan, seconds), **results}.items()
            )
            worse = sum(dominated(plan, other) for other, _ in results.values())
            best = min(took for _, took in results.values())
            what = f"{workload.name}, {preset}"
            found += [
                Figure("simulate", f"{what}: modelled time", seconds / best, "x", 1.0, None, True, beside),
                Figure("simulate", f"{what}: worse in both", worse, "planners", 0, None, True),
            ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.simulate", description="plans against plans")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a floor is missed")
    arguments = parser.parse_args()
    found = figures()
    print(table(found))
    missed = [figure for figure in found if figure.missed]
    if missed:
        print(f"{len(missed)} of {len(found)} figures miss their floor", file=sys.stderr)
    return 1 if missed and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
