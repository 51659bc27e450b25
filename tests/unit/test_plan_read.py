"""Plans of a read: what is asked for covers what is wanted, once, in order, within bounds."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orcstream.byterange import ByteRange, CostModel, Request
from orcstream.codec.metadata.structure import StripeInformation
from orcstream.plan.selection import (
    CONTROL_STRIPES,
    Piece,
    control_count,
    order_of_rows,
    plan_control,
    plan_requests,
    plan_windows,
    streamed,
)
from tests.support.read_sources import cost_of

WHOLE_BYTES = 1 << 16
"""Streams up to this length are never cut."""


@st.composite
def streams(draw: st.DrawFn, *, most_gap: int = 1 << 20) -> list[ByteRange]:
    """Streams of one stripe, in file order, with those between them that are not read."""
    lengths = st.one_of(st.integers(0, 300), st.integers(0, 1 << 18), st.integers(0, 1 << 26))
    found, at = [], draw(st.integers(0, 1 << 40))
    for length, gap in draw(st.lists(st.tuples(lengths, st.integers(0, most_gap)), max_size=12)):
        found.append(ByteRange(at, at + length))
        at += length + gap
    return found


# Of the least memory limit and more.
WINDOW_BYTES = st.integers(10_000, 1 << 27)

costs = st.builds(
    cost_of,
    gap_bytes=st.sampled_from([0, 1, 1000, 200_000, 1 << 23]),
    cap=st.integers(1, 16),
    part_bytes=st.sampled_from([1000, 1 << 16, 1 << 20, 1 << 26]),
) | st.sampled_from([CostModel.http(), CostModel.object_store(), CostModel.hdfs(), CostModel.local()])


@given(streams(), WINDOW_BYTES)
def test_windows_hold_every_byte_once_and_in_order(found: list[ByteRange], window_bytes: int) -> None:
    windows = plan_windows([found], window_bytes)
    assert all(windows)
    for number, stream in enumerate(found):
        pieces = [piece.range for window in windows for piece in window if piece.stream == number]
        for window in windows:
            assert sum(piece.stream == number for piece in window) <= 1
        if stream.length == 0:
            assert sum(piece.length for piece in pieces) == 0
            continue
        assert pieces[0].start == stream.start
        assert pieces[-1].stop == stream.stop
        assert all(before.stop == after.start for before, after in pairwise(pieces))
        assert all(piece.length for piece in pieces)


@given(streams(), WINDOW_BYTES)
def test_windows_are_bounded(found: list[ByteRange], window_bytes: int) -> None:
    """By the share of the budget, but for what is not worth cutting: short streams and shortest pieces."""
    for window in plan_windows([found], window_bytes):
        size = sum(piece.range.length for piece in window)
        assert size <= window_bytes + len(found) * (2 * WHOLE_BYTES + 1)


@given(streams(), WINDOW_BYTES)
def test_the_first_window_has_the_beginning_of_every_stream(
    found: list[ByteRange], window_bytes: int
) -> None:
    """No row can be decoded without all its streams."""
    windows = plan_windows([found], window_bytes)
    first = {piece.stream for piece in windows[0]} if windows else set()
    assert first == {number for number, stream in enumerate(found) if stream.length}


@given(streams(), st.integers(100_000, 1 << 27), st.integers(10_000, 1 << 25))
def test_the_first_windows_grow(found: list[ByteRange], window_bytes: int, first_bytes: int) -> None:
    """Decoding begins with little; every byte still comes once, and no window is larger than allowed."""
    windows = plan_windows([found], window_bytes, first_bytes)
    for number, stream in enumerate(found):
        pieces = [piece.range for window in windows for piece in window if piece.stream == number]
        assert sum(piece.length for piece in pieces) == stream.length
        assert all(before.stop == after.start for before, after in pairwise(pieces))
    slack = len(found) * (2 * WHOLE_BYTES + 1)
    for number, window in enumerate(windows):
        most = min(window_bytes, first_bytes << number) if len(windows) > 1 else 2 * first_bytes
        assert (
            sum(piece.range.length for piece in window) <= max(most, window_bytes if number else most) + slack
        )


def test_no_streams_need_no_window() -> None:
    assert plan_windows([[]], 1000) == []


@given(st.lists(streams(), max_size=6), WINDOW_BYTES)
def test_windows_of_spans_keep_each_streams_order(spans: list[list[ByteRange]], window_bytes: int) -> None:
    """A stream is fed span by span, each from its beginning to its end."""
    windows = plan_windows(spans, window_bytes)
    assert all(windows)
    order = [(piece.span, piece.stream, piece.range) for window in windows for piece in window]
    assert [span for span, _, _ in order] == sorted(span for span, _, _ in order)
    for number, slices in enumerate(spans):
        for stream, wanted in enumerate(slices):
            pieces = [range_ for span, at, range_ in order if (span, at) == (number, stream)]
            assert sum(piece.length for piece in pieces) == wanted.length
            assert all(before.stop == after.start for before, after in pairwise(pieces))
            assert not pieces or (pieces[0].start, pieces[-1].stop) == (wanted.start, wanted.stop)


@given(streams(), costs)
def test_requests_hold_every_byte_once(found: list[ByteRange], cost: CostModel) -> None:
    requests = plan_requests(found, cost)
    check_cover(found, requests)
    assert all(request.range.length <= cost.part_bytes for request in requests)


@given(streams(most_gap=1 << 17), costs)
def test_gaps_add_a_tenth_or_little(found: list[ByteRange], cost: CostModel) -> None:
    wanted = sum(stream.length for stream in found)
    read = sum(request.range.length for request in plan_requests(found, cost))
    assert wanted <= read <= wanted + max(wanted // 10, 1 << 16)


@given(streams(most_gap=0), costs)
def test_streams_that_touch_waste_nothing(found: list[ByteRange], cost: CostModel) -> None:
    requests = plan_requests(found, cost)
    assert sum(request.range.length for request in requests) == sum(stream.length for stream in found)


@given(streams())
def test_larger_gaps_never_make_more_requests(found: list[ByteRange]) -> None:
    counts = [
        len(plan_requests(found, cost_of(gap_bytes=gap, part_bytes=1 << 40))) for gap in (0, 1 << 14, 1 << 30)
    ]
    assert counts == sorted(counts, reverse=True)


@st.composite
def stripes(draw: st.DrawFn) -> list[StripeInformation]:
    sizes = st.one_of(st.integers(0, 2000), st.integers(0, 1 << 28))
    found: list[StripeInformation] = []
    at, row = 3, 0
    for index_bytes, data_bytes, footer_bytes, padding in draw(
        st.lists(
            st.tuples(st.integers(0, 5000), sizes, st.integers(1, 500), st.integers(0, 100)), max_size=80
        )
    ):
        found.append(
            StripeInformation(
                index=len(found),
                offset=at,
                index_length=index_bytes,
                data_length=data_bytes,
                footer_length=footer_bytes,
                row_count=1000,
                first_row=row,
            )
        )
        at += index_bytes + data_bytes + footer_bytes + padding
        row += 1000
    return found


@given(stripes(), costs, WINDOW_BYTES)
def test_control_asks_for_all_footers(
    found: list[StripeInformation], cost: CostModel, window_bytes: int
) -> None:
    requests = plan_control(found, cost, window_bytes).requests
    for number, stripe in enumerate(found):
        holding = [request.range for request in requests if number in request.members]
        footer = stripe.footer_range
        assert holding
        assert holding[0].start <= max(stripe.range.start, footer.start)
        assert holding[-1].stop >= footer.stop
        assert sum(one.length for one in holding) >= footer.length
        whole = stripe.range.length <= min(cost.gap_bytes, window_bytes // len(found))
        assert not whole or (holding[0].start <= stripe.range.start and holding[-1].stop >= stripe.range.stop)
    assert all(before.range.stop <= after.range.start for before, after in pairwise(requests))
    assert all(request.range.length <= cost.part_bytes for request in requests)


@given(stripes(), costs, WINDOW_BYTES)
def test_control_stays_within_a_window(
    found: list[StripeInformation], cost: CostModel, window_bytes: int
) -> None:
    footers = sum(stripe.footer_length for stripe in found)
    read = sum(request.range.length for request in plan_control(found, cost, window_bytes).requests)
    # For each stripe at most one share for itself and one for the gap before it.
    assert read <= footers + 2 * window_bytes


@given(stripes(), costs, WINDOW_BYTES, st.floats(0, 1), st.data())
def test_indexes_come_with_their_footers_where_that_is_cheap(
    found: list[StripeInformation], cost: CostModel, window_bytes: int, share: float, data: st.DataObject
) -> None:
    indexed = data.draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    plan = plan_control(found, cost, window_bytes, indexed=indexed, index_share=share)
    index_bytes = sum(stripe.index_length for stripe, wants in zip(found, indexed, strict=True) if wants)
    cheap = index_bytes * (1 - share) <= max(cost.hop_bytes, 1 << 18) and index_bytes <= window_bytes
    for place, stripe in enumerate(found):
        ranges = [range_ for range_, owner in zip(plan.wanted, plan.owners, strict=True) if owner == place]
        assert any(
            range_.start <= stripe.footer_range.start and range_.stop >= stripe.footer_range.stop
            for range_ in ranges
        )
        with_index = any(
            range_.start <= stripe.index_range.start and range_.stop >= stripe.index_range.stop
            for range_ in ranges
        )
        assert with_index or not (indexed[place] and cheap)
    check_cover(list(plan.wanted), list(plan.requests))


def test_the_first_rows_do_not_wait_for_all_footers() -> None:
    assert control_count(0, cost_of(cap=5)) == 5
    assert control_count(5, cost_of(cap=5)) == CONTROL_STRIPES


def check_cover(wanted: list[ByteRange], requests: list[Request]) -> None:
    assert all(before.range.stop <= after.range.start for before, after in pairwise(requests))
    for number, one in enumerate(wanted):
        parts = [request.range for request in requests if number in request.members]
        covered = sum(max(0, min(part.stop, one.stop) - max(part.start, one.start)) for part in parts)
        assert covered == one.length
        assert bool(parts) == bool(one.length)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 24), st.integers(0, 5), costs)
def test_streamed_pieces_are_the_piece(start: int, length: int, span: int, cost: CostModel) -> None:
    piece = Piece(3, ByteRange(start, start + length), span)
    parts = streamed(piece, cost)
    assert {(part.stream, part.span) for part in parts} == {(3, span)}
    assert (parts[0].range.start, parts[-1].range.stop) == (start, start + length)
    assert all(before.range.stop == after.range.start for before, after in pairwise(parts))
    assert len(parts) == 1 or not cost.is_near
    assert cost.is_near or all(part.range.length <= 1 << 19 for part in parts)


def test_what_begins_streams_is_asked_for_first() -> None:
    """Of three streams, one of them in three requests: rows need the first of these soonest."""
    wanted = [ByteRange(0, 10), *(ByteRange(at, at + 10) for at in range(10, 100, 10)), ByteRange(100, 110)]
    streams = ["a", *"b" * 9, "c"]
    requests = [
        Request(ByteRange(0, 40), (0, 1, 2, 3)),
        Request(ByteRange(40, 70), (4, 5, 6)),
        Request(ByteRange(70, 100), (7, 8, 9)),
        Request(ByteRange(100, 110), (10,)),
    ]
    assert order_of_rows(requests, wanted, streams) == [0, 3, 1, 2]


@given(streams(), costs)
def test_the_order_of_rows_is_that_of_the_file_where_streams_are_whole(
    found: list[ByteRange], cost: CostModel
) -> None:
    requests = plan_requests(found, cost)
    assert order_of_rows(requests, found, range(len(found))) == list(range(len(requests)))
