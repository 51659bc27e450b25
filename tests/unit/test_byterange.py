"""Arithmetic on byte ranges: what is asked for, what comes back, and how it is found again."""

from __future__ import annotations

import array
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.byterange import ByteRange, CostModel, RangeBuffer, Request, coalesce, cover, gather
from orcstream.errors import ShortRead

FILE = bytes(range(256)) * 2


def ranges_of(requests: list[Request]) -> list[tuple[int, int]]:
    return [(request.range.start, request.range.stop) for request in requests]


byte_ranges = st.builds(
    lambda start, length: ByteRange(start, start + length),
    st.integers(0, 300),
    st.one_of(st.integers(0, 12), st.integers(0, 200)),
)


@given(st.lists(byte_ranges, max_size=25), st.integers(0, 40), st.integers(1, 80))
def test_coalesce_keeps_every_byte(ranges: list[ByteRange], gap_bytes: int, max_bytes: int) -> None:
    requests = coalesce(ranges, gap_bytes=gap_bytes, max_bytes=max_bytes)
    wanted = {at for one in ranges for at in range(one.start, one.stop)}
    asked = [at for request in requests for at in range(request.range.start, request.range.stop)]
    assert len(asked) == len(set(asked)), "a byte is asked for twice"
    assert asked == sorted(asked), "requests are not in file order"
    assert wanted <= set(asked)
    for request in requests:
        assert 0 < request.range.length <= max_bytes
        assert request.range.start in wanted and request.range.stop - 1 in wanted, (
            "bytes at the rim for nothing"
        )
        here = set(range(request.range.start, request.range.stop))
        members = [number for number, one in enumerate(ranges) if here & set(range(one.start, one.stop))]
        assert sorted(request.members) == members
        starts = [ranges[number].start for number in request.members]
        assert starts == sorted(starts)
        run = 0
        for at in range(request.range.start, request.range.stop):
            run = 0 if at in wanted else run + 1
            assert run <= gap_bytes, "a gap that was not worth reading"


@given(st.lists(byte_ranges, max_size=25), st.integers(0, 40), st.integers(1, 80))
def test_every_range_is_gathered_from_consecutive_requests(
    ranges: list[ByteRange], gap_bytes: int, max_bytes: int
) -> None:
    requests = coalesce(ranges, gap_bytes=gap_bytes, max_bytes=max_bytes)
    buffers = [RangeBuffer(one.range, FILE[one.range.start : one.range.stop]) for one in requests]
    for wanted, numbers in zip(ranges, cover(len(ranges), requests), strict=True):
        pieces = gather(wanted, [buffers[number] for number in numbers])
        assert b"".join(pieces) == FILE[wanted.start : wanted.stop]
        assert all(pieces)


@given(st.lists(byte_ranges, max_size=25), st.integers(0, 40))
def test_coalesce_merges_all_that_fits(ranges: list[ByteRange], gap_bytes: int) -> None:
    requests = coalesce(ranges, gap_bytes=gap_bytes, max_bytes=10_000)
    for one, two in pairwise(requests):
        assert two.range.start - one.range.stop > gap_bytes
    assert all(len(numbers) <= 1 for numbers in cover(len(ranges), requests))


@pytest.mark.parametrize(
    ("ranges", "gap_bytes", "max_bytes", "expected"),
    [
        ([], 10, 100, []),
        ([(5, 5)], 10, 100, []),
        ([(0, 10), (20, 30)], 10, 100, [(0, 30)]),
        ([(0, 10), (21, 30)], 10, 100, [(0, 10), (21, 30)]),
        ([(20, 30), (0, 10)], 10, 100, [(0, 30)]),
        ([(0, 60), (60, 120)], 0, 100, [(0, 60), (60, 120)]),
        ([(0, 250)], 0, 100, [(0, 83), (83, 166), (166, 250)]),
        ([(0, 250), (255, 260)], 10, 100, [(0, 83), (83, 166), (166, 260)]),
        ([(0, 80), (40, 120)], 0, 100, [(0, 60), (60, 120)]),
        ([(0, 100), (10, 20), (10, 20)], 0, 100, [(0, 100)]),
    ],
)
def test_coalesce_examples(
    ranges: list[tuple[int, int]], gap_bytes: int, max_bytes: int, expected: list[tuple[int, int]]
) -> None:
    requests = coalesce([ByteRange(*one) for one in ranges], gap_bytes=gap_bytes, max_bytes=max_bytes)
    assert ranges_of(requests) == expected


def test_coalesce_takes_linear_steps_for_many_ranges_in_one_long_one() -> None:
    # Quadratic work would be 10^10 steps here, and time out.
    ranges = [ByteRange(0, 1_000_000), *(ByteRange(at * 10, at * 10 + 5) for at in range(100_000))]
    requests = coalesce(ranges, gap_bytes=0, max_bytes=1000)
    assert len(requests) == 1000
    assert sum(len(request.members) for request in requests) == 101_000


@pytest.mark.parametrize(("gap_bytes", "max_bytes"), [(-1, 10), (0, 0)])
def test_coalesce_refuses_senseless_limits(gap_bytes: int, max_bytes: int) -> None:
    with pytest.raises(ValueError, match=rf"gap_bytes={gap_bytes}\b.*max_bytes={max_bytes}\b"):
        coalesce([], gap_bytes=gap_bytes, max_bytes=max_bytes)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4)])
def test_byte_range_refuses_senseless_bounds(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match=rf"{start}\b.*\b{stop}\b"):
        ByteRange(start, stop)


@pytest.mark.parametrize("length", [0, 9, 11])
def test_range_buffer_refuses_another_length(length: int) -> None:
    with pytest.raises(ShortRead) as caught:
        RangeBuffer(ByteRange(100, 110), bytes(length))
    assert caught.value.file_offset == 100


def test_range_buffer_views_share_memory() -> None:
    data = bytearray(range(10))
    view = RangeBuffer(ByteRange(100, 110), data).view(ByteRange(102, 105))
    assert view == bytes([2, 3, 4])
    data[2] = 99
    assert view[0] == 99
    assert view.readonly


def test_range_buffer_counts_bytes_whatever_the_items_are() -> None:
    data = memoryview(array.array("i", [1, 2]))
    assert RangeBuffer(ByteRange(0, 8), data).view(ByteRange(0, 8)) == data.tobytes()


@pytest.mark.parametrize(("start", "stop"), [(99, 105), (105, 111)])
def test_range_buffer_refuses_views_outside(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match=rf"\b{start}\b.*\b{stop}\b.*\b100\b.*\b110\b"):
        RangeBuffer(ByteRange(100, 110), bytes(10)).view(ByteRange(start, stop))


def test_gather_refuses_buffers_that_do_not_hold_the_range() -> None:
    with pytest.raises(ValueError, match=r"\b10\b.*\b20\b"):
        gather(ByteRange(0, 20), [RangeBuffer(ByteRange(0, 10), bytes(10))])


def test_cost_model_weighs_a_request_against_a_gap() -> None:
    far = CostModel(0.03, 1e8, 3, 1e-4, 1 << 20, 1 << 14)
    assert far.gap_bytes == 1_000_000  # a third of the latency, at 100 MB/s
    busy = CostModel(0.03, 1e8, 1000, 1e-3, 1 << 20, 1 << 14)
    assert busy.gap_bytes == 100_000  # the CPU of a request is the larger


def test_presets_read_larger_gaps_from_farther_stores() -> None:
    assert CostModel.local().gap_bytes < CostModel.hdfs().gap_bytes < CostModel.object_store().gap_bytes
    for cost in (CostModel.memory(), CostModel.http()):
        assert 0 < cost.gap_bytes < cost.part_bytes


@pytest.mark.parametrize(
    "changed", [{"request_cap": 0}, {"part_bytes": 0}, {"tail_bytes": 0}, {"bandwidth": 0}]
)
def test_cost_model_refuses_senseless_numbers(changed: dict[str, Any]) -> None:
    sound = CostModel(0.0, 1.0, 1, 0.0, 1, 1)
    with pytest.raises(ValueError, match=r"\bCostModel\b"):
        replace(sound, **changed)
