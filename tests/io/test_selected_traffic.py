"""What selected reads ask of the store, told in words: hop by hop, which parts of which stripes.

Hops are counted from the requests themselves. Bytes are bounded, not told: how far a slice reaches past its
row groups is the planner's business, as long as it stays within the bound.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import anyio
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.byterange import ByteRange, CostModel
from orcstream.codec.metadata.structure import stream_ranges
from orcstream.io.stores.memory.source import BytesSource
from orcstream.reader.file import OrcFile
from tests.io.test_traffic import record
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import Encoder, add_stripe
from tests.reference.indexes import Index
from tests.reference.statistics import honest
from tests.reference.types import parse
from tests.support.effort import share
from tests.support.read_sources import indexed_sample, opened, sample, sample_rows
from tests.support.recording import RecordingSource
from tests.support.selecting import API

STRIPES, PER_STRIPE, STRIDE = 4, 60, 10
DATA = indexed_sample(STRIPES, PER_STRIPE, STRIDE)
ROWS = [row for stripe in range(STRIPES) for row in sample_rows(stripe, PER_STRIPE)]
# A hop costs 3,000 bytes, which all indexes together are not; a gap is worth 3.
COST = CostModel(0.03, 1e5, 1000, 0.0, 1 << 20, 100)
Parts = list[tuple[str, ByteRange]]


async def parts_of(file: OrcFile) -> Parts:
    """Index areas, streams with data, footers, the tail: with their names."""
    parts: Parts = []
    for stripe in file.stripes:
        footer = await file.stripe_footer(stripe.index)
        for stream, range_ in stream_ranges(stripe, footer):
            if range_.length:
                name = "index" if stream.kind.is_index else f"column {stream.column}"
                parts.append((f"stripe {stripe.index} {name}", range_))
        parts.append((f"stripe {stripe.index} footer", stripe.footer_range))
    end = file.tail.file_length
    return [*parts, ("tail", ByteRange(end - file.tail.postscript.tail_bytes, end))]


def words(source: RecordingSource, parts: Parts) -> list[str]:
    """A line for each hop: the parts that its requests touch, in file order."""
    lines = []
    for hop in range(1, source.hop_count + 1):
        asked = [one for one, number in zip(source.ranges, source.hops, strict=True) if number == hop]
        names = [
            name
            for name, range_ in parts
            if any(one.start < range_.stop and range_.start < one.stop for one in asked)
        ]
        lines.append(", ".join(dict.fromkeys(names)))
    return lines


async def traffic(data: bytes = DATA, cost: CostModel = COST, **options: Any) -> tuple[list[str], Any]:
    """The hops of one read of an open file, and its rows."""
    source = record(data, cost)
    async with opened(source) as opened_file:
        file: Any = opened_file
        parts = await parts_of(opened_file)
        source.forget()
        rows = await file.read(**options)
        return words(source, parts), rows.to_pylist()


async def test_one_row_of_one_column() -> None:
    """Footer and index together, then the slice: two hops."""
    hops, rows = await traffic(rows=range(95, 96), columns=["d"])
    assert hops == ["stripe 1 index, stripe 1 footer", "stripe 1 column 3"]
    assert rows == [{"d": ROWS[95][2]}]


async def test_one_row_from_a_bare_url() -> None:
    source = record(DATA, replace(COST, tail_bytes=1000))
    async with opened(source) as opened_file:
        file: Any = opened_file
        await file.read(rows=range(95, 96), columns=["d", "a"])
        assert source.hop_count == 3


async def test_rows_of_two_stripes() -> None:
    hops, rows = await traffic(rows=range(55, 70), columns=["a", "d"])
    assert hops == [
        "stripe 0 index, stripe 0 footer, stripe 1 index, stripe 1 footer",
        "stripe 0 column 1, stripe 0 column 3, stripe 1 column 1, stripe 1 column 3",
    ]
    assert [tuple(row.values()) for row in rows] == [(row[0], row[2]) for row in ROWS[55:70]]


async def test_whole_stripes_need_no_index() -> None:
    hops, rows = await traffic(rows=range(60, 180), columns=["d"])
    assert hops == ["stripe 1 footer, stripe 2 footer", "stripe 1 column 3, stripe 2 column 3"]
    assert len(rows) == 120


async def test_no_rows() -> None:
    assert await traffic(rows=range(95, 95)) == ([], [])


async def test_a_file_without_indexes() -> None:
    hops, rows = await traffic(sample(4, 60), rows=range(95, 96), columns=["d"])
    assert hops == ["stripe 1 footer", "stripe 1 column 3"]
    assert rows == [{"d": ROWS[95][2]}]


async def test_taken_rows() -> None:
    source = record(DATA, COST)
    async with opened(source) as opened_file:
        file: Any = opened_file
        parts = await parts_of(opened_file)
        source.forget()
        rows = await file.take([200, 5, 201, 5], columns=["a"])
        hops = words(source, parts)
    assert hops == [
        "stripe 0 index, stripe 0 footer, stripe 3 index, stripe 3 footer",
        "stripe 0 column 1, stripe 3 column 1",
    ]
    assert [row["a"] for row in rows.to_pylist()] == [ROWS[row][0] for row in (200, 5, 201, 5)]


async def test_a_predicate_on_its_own_column() -> None:
    """Stripe statistics leave one stripe; its row index leaves one row group."""
    hops, rows = await traffic(where=API.col("d") == ROWS[95][2], columns=["d"])
    assert hops[-2:] == ["stripe 1 index, stripe 1 footer", "stripe 1 column 3"]
    # Statistics of stripes lie before the footer: a tail too short for them costs one more, once.
    assert hops[:-2] in ([], [""], ["tail"])
    assert rows == [{"d": ROWS[95][2]}]


async def test_what_the_files_statistics_rule_out() -> None:
    hops, rows = await traffic(where=API.col("d") > 1e6)
    assert (hops, rows) == ([], [])


async def test_what_the_stripes_statistics_rule_out() -> None:
    """No stripe, though the file's bounds hold it: nothing is read but those statistics."""
    builder = FileBuilder(parse("struct<n:int>"), Options(stride=10, statistics=honest))
    for first in (0, 1000):
        rows = [(first + row,) for row in range(100)]
        add_stripe(builder, rows, Encoder(index=Index(stride=10)))
    source = record(builder.build(), replace(COST, tail_bytes=4096))
    async with opened(source) as opened_file:
        file: Any = opened_file
        source.forget()
        assert (await file.read(where=API.col("n") == 500)).num_rows == 0
        assert source.ranges == []


async def test_other_columns_only_where_a_row_matches() -> None:
    """Late: what the statistics could not rule out, the predicate's column did."""
    builder = FileBuilder(parse("struct<k:int,wide:string>"), Options(stride=50, statistics=honest))
    for stripe in range(4):
        # Even numbers everywhere, one odd one in stripe 2: no statistics can tell.
        rows = [((77 if (stripe, row) == (2, 30) else 2 * row), "x" * 50 + str(row)) for row in range(200)]
        add_stripe(builder, rows, Encoder(index=Index(stride=50)))
    hops, found = await traffic(builder.build(), where=API.col("k") == 77)
    assert [row["k"] for row in found] == [77]
    wide = [name for hop in hops for name in hop.split(", ") if name.endswith("column 2")]
    assert wide == ["stripe 2 column 2"]
    assert len(hops) <= 3 + (hops[0] in ("", "tail"))


async def test_a_filter_rules_out_groups() -> None:
    """Scattered values: bounds say nothing, bloom filters leave one group of one stripe."""
    builder = FileBuilder(parse("struct<k:bigint,v:string>"), Options(stride=50, statistics=honest))
    for stripe in range(4):
        rows = [((row * 7919 + stripe) % 4001 * 1000, f"row {row}") for row in range(200)]
        add_stripe(builder, rows, Encoder(index=Index(stride=50, bloom_kinds=(8,), bloom_share=1e-6)))
    wanted = (30 * 7919 + 2) % 4001 * 1000
    hops, rows_found = await traffic(builder.build(), where=API.col("k") == wanted, columns=["k"])
    assert rows_found == [{"k": wanted}]
    assert hops[-1] == "stripe 2 column 1"


# --- larger files ------------------------------------------------------------------------------------


@lru_cache
def large(rows: int = 60_000) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(
        {
            "n": list(range(rows)),
            "s": [f"{row * 7919 % rows:x} some text" for row in range(rows)],
            "x": [row * 7919 % 1001 / 7 for row in range(rows)],
        }
    )
    orc.write_table(table, sink, stripe_size=1 << 18, row_index_stride=1000, compression="zstd")
    return bytes(sink.getvalue())


SELECTIONS = st.fixed_dictionaries(
    {"columns": st.sampled_from([["n"], ["s"], ["n", "x"], ["n", "s", "x"]])},
    optional={
        "rows": st.builds(
            lambda start, length: range(start, min(60_000, start + length)),
            st.integers(0, 60_000),
            st.sampled_from([0, 1, 500, 20_000]),
        )
    },
)


@settings(max_examples=share(40))
@given(
    selection=SELECTIONS,
    bound=st.sampled_from([None, -1, 1, 30_000, 59_990]),
    preset=st.sampled_from(["memory", "local", "http", "object_store", "hdfs"]),
    memory_limit=st.sampled_from([1 << 20, 1 << 28]),
)
def test_explain_says_what_the_stream_does(
    selection: dict[str, Any], bound: int | None, preset: str, memory_limit: int
) -> None:
    """Exactly, where only indexes decide; where values do, what is planned is an upper bound."""

    async def run() -> None:
        # What is measured on the way would change later requests.
        cost = replace(getattr(CostModel, preset)(), adaptive=False)
        source = RecordingSource(BytesSource(large(), cost))
        options = {**selection, "memory_limit": memory_limit}
        if bound is not None:
            options["where"] = API.col("n") < bound
        async with opened(source) as opened_file:
            file: Any = opened_file
            planned = await file.explain(**options)
            source.forget()
            async with file.batches(**options) as stream:
                async for _ in stream:
                    pass
                stats = stream.stats
        assert stats.request_count == len(source.ranges)
        assert stats.bytes_read == source.byte_count
        tail = planned.waves[0]
        requests = planned.request_count - tail.request_count
        read = planned.bytes_read - tail.bytes_read
        if bound is None or selection["columns"] == ["n"]:
            assert (requests, read) == (stats.request_count, stats.bytes_read)
        else:
            assert stats.bytes_read <= read
        assert str(planned)

    anyio.run(run)


@pytest.mark.parametrize("columns", [["n"], ["n", "x"]])
async def test_a_row_costs_little_more_than_its_chunks(columns: list[str]) -> None:
    """Of every stream: footer, index, and what ORC Java would read beyond the row group at the most."""
    source = record(large(), replace(COST, tail_bytes=16_384))
    async with opened(source) as opened_file:
        file: Any = opened_file
        stripe = next(one for one in opened_file.stripes if one.first_row + one.row_count > 30_500)
        source.forget()
        await file.read(rows=range(30_500, 30_501), columns=columns)
        block = opened_file.tail.postscript.compression_block_size
    control = stripe.index_length + stripe.footer_length
    assert source.byte_count <= control + 2 * len(columns) * 3 * (3 + block)
    assert source.byte_count < len(large()) / 4
