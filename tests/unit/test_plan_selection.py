"""Which bytes of a stream a span of rows needs; expected values are worked out by hand."""

from __future__ import annotations

import pytest

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.indexes import parse_row_index
from orcstream.codec.metadata.structure import EncodingKind, StreamKind, positions_of
from orcstream.errors import CorruptStripe
from orcstream.plan.selection import ColumnIndex, RowGroups, Span, StreamSlice, joined, plan_spans
from orcstream.schema.types import Kind
from tests.reference import wire

BLOCK = 100_000
GROUPS = RowGroups(40, 10)
STREAM = ByteRange(1000, 901_000)


def index_of(*entries: tuple[int, ...], compressed: bool = True) -> ColumnIndex:
    """Of a column of integers that has nothing but its DATA stream."""
    message = wire.message(*wire.repeated(1, [wire.message((1, list(entry))) for entry in entries]))
    positions = positions_of(Kind.INT, EncodingKind.DIRECT_V2, has_present=False, compressed=compressed)
    return ColumnIndex(
        parse_row_index(message, 10), positions, groups=GROUPS, compressed=compressed, block_size=BLOCK
    )


def slice_of(index: ColumnIndex, span: Span) -> StreamSlice:
    assert index.is_usable
    return index.slice(StreamKind.DATA, STREAM, span)


@pytest.mark.parametrize(
    ("third", "stop"),
    [
        # Nothing of the chunk belongs to the groups before.
        ((50_000, 0, 0), 50_000),
        # The run ends in the chunk in which it begins: up to the next one.
        ((50_000, 0, 5), 90_000),
        ((50_000, 70_000, 5), 90_000),
        # No run is cut: only what stands before it in the chunk is wanted.
        ((50_000, BLOCK - 10, 0), 90_000),
        # The run may go on in the next chunk, whose end no position tells.
        ((50_000, BLOCK - 10, 5), 50_000 + 2 * (BLOCK + 3)),
    ],
)
def test_a_slice_holds_the_run_that_is_cut(third: tuple[int, ...], stop: int) -> None:
    index = index_of((0, 0, 0), (10_000, 7, 3), third, (90_000, 7, 3))
    found = slice_of(index, Span(10, 12, 20))
    assert found.range == ByteRange(11_000, 1000 + stop)
    assert (found.bytes_to_skip, found.rest) == (7, (3,))


def test_a_slice_of_the_last_groups_ends_with_the_stream() -> None:
    index = index_of((0, 0, 0), (10_000, 7, 3), (50_000, 0, 5), (90_000, 7, 3))
    assert slice_of(index, Span(20, 20, 35)).range == ByteRange(51_000, STREAM.stop)


def test_a_slice_of_an_uncompressed_stream() -> None:
    index = index_of((0, 0), (10_000, 3), (50_000, 5), (90_000, 0), compressed=False)
    found = slice_of(index, Span(10, 10, 20))
    assert found == StreamSlice(ByteRange(11_000, 51_000 + 2 + 4096), 0, (3,))
    assert slice_of(index, Span(20, 20, 30)).range == ByteRange(51_000, 91_000)


@pytest.mark.parametrize(
    "wrong", [(900_001, 0, 0), (9_999, 0, 0), (50_000, 1 << 31, 0), (50_000, 0, 1 << 63)]
)
def test_positions_that_lead_nowhere(wrong: tuple[int, ...]) -> None:
    index = index_of((0, 0, 0), (10_000, 7, 3), wrong, (90_000, 7, 3))
    with pytest.raises(CorruptStripe):
        slice_of(index, Span(10, 10, 20))


def test_an_index_of_another_width_or_of_too_few_groups_is_of_no_use() -> None:
    assert not index_of((0, 0, 0), (0, 0, 0), (0, 0), (0, 0, 0)).is_usable
    assert not index_of((0, 0, 0), (0, 0, 0)).is_usable


def test_spans_begin_at_groups_and_join_where_those_follow_each_other() -> None:
    assert plan_spans([(3, 5), (12, 14), (39, 40)], GROUPS) == [Span(0, 3, 14), Span(30, 39, 40)]


def test_stretches_that_touch_become_one() -> None:
    assert joined([(0, 2), (2, 5), (6, 7)]) == [(0, 5), (6, 7)]
