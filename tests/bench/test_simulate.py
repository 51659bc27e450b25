"""Our plans over recorded layouts: never worse in both ways than Trino's or ORC Java's, never slower."""

from __future__ import annotations

import pytest

from bench import layouts, simulate
from bench.simulate import MIB, PRESETS, WORKLOADS, Distance, Plan, Workload, compare
from orcstream.byterange import ByteRange

CASES = [(workload, preset) for workload in WORKLOADS for preset in PRESETS]
SLACK = 1 + 1e-9


@pytest.mark.parametrize(
    ("workload", "preset"),
    [pytest.param(workload, preset, id=f"{workload.name}, {preset}") for workload, preset in CASES],
)
def test_never_worse_in_both_ways_and_never_slower(workload: Workload, preset: str) -> None:
    results = compare(workload, preset)
    ours, seconds = results.pop("ours")
    for name, (other, _) in results.items():
        assert not simulate.dominated(ours, other), name
    assert seconds <= min(took for _, took in results.values()) * SLACK


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_plan_holds_what_is_wanted(workload: Workload) -> None:
    layout = layouts.load(workload.layout)
    wanted = [one for spans in workload.wanted(layout) for span in spans for one in span]
    assert wanted
    for plan, _ in compare(workload, "http").values():
        covered = union_of([one for wave in plan.waves for one in wave])
        assert all(any(a <= one.start and one.stop <= b for a, b in covered) for one in wanted)


def union_of(ranges: list[ByteRange]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for one in sorted(ranges):
        if joined and one.start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], one.stop)
        else:
            joined.append((one.start, one.stop))
    return joined


@pytest.mark.parametrize(
    ("name", "stripes", "streams"),
    [("lineitem", 2, 23), ("tiny-stripes", 200, 23), ("thousand-columns", 3, 1250)],
)
def test_layouts_are_whole(name: str, stripes: int, streams: int) -> None:
    layout = layouts.load(name)
    assert len(layout.stripes) == stripes
    for stripe, lengths in zip(layout.stripes, layout.streams, strict=True):
        assert len(lengths) == streams
        assert sum(length for _, length in lengths) == stripe.data_length
        assert stripe.range.stop <= layout.file_length - layout.tail_length


def test_slices_begin_at_their_group_and_reach_past_its_end() -> None:
    layout = layouts.load("lineitem")
    for group in (0, 7, 100):
        (part,) = layout.slices(0, frozenset({2}), group)
        (whole,) = layout.wanted(0, frozenset({2}))
        (starts,) = (starts for key, starts in layout.groups.items() if starts_of(layout, key) == 2)
        assert part.start == whole.start + starts[group]
        assert whole.start + starts[group + 1] <= part.stop <= whole.stop
        assert part.length < whole.length / 10


def starts_of(layout: layouts.Layout, key: str) -> int:
    """The column of a recorded stream in the first stripe; none of another stripe."""
    stripe, number = map(int, key.split(":"))
    return layout.streams[0][number][0] if stripe == 0 else -1


def test_others_rules() -> None:
    far = [
        ByteRange(0, 100),
        ByteRange(MIB, 2 * MIB),
        ByteRange(4 * MIB, 5 * MIB),
        ByteRange(9 * MIB, 30 * MIB),
    ]
    assert simulate.merged_as_trino(far) == [
        ByteRange(0, 2 * MIB),
        ByteRange(4 * MIB, 5 * MIB),
        ByteRange(9 * MIB, 17 * MIB),
        ByteRange(17 * MIB, 25 * MIB),
        ByteRange(25 * MIB, 30 * MIB),
    ]
    near = [ByteRange(at, at + 3 * MIB) for at in range(0, 12 * MIB, 3 * MIB)]
    assert simulate.merged_as_trino(near) == [ByteRange(0, 6 * MIB), ByteRange(6 * MIB, 12 * MIB)]


def test_the_model() -> None:
    """Two connections of 10 B/s, 15 B/s in all, 1 s away."""
    distance = Distance(1.0, 10.0, 15.0, 2)
    wave = [ByteRange(0, 10)] * 3
    assert distance.time_of(wave[:1]) == 2.0
    assert distance.time_of(wave[:2]) == pytest.approx(1 + 20 / 15)
    assert distance.time_of(wave) == 4.0
    assert distance.time_of([]) == 0.0
    assert Plan((wave, [], wave[:1])).time(distance) == 6.0
