"""What one query asks of the store, in words of the format: a change of traffic changes a text here.

A line is a request; within it stand the parts of the file that it covers, with how many bytes of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.byterange import ByteRange, CostModel
from orcstream.codec.metadata.structure import stream_ranges
from orcstream.io.stores.memory.source import BytesSource
from orcstream.reader.file import OrcFile
from tests.support.read_sources import ProbeSource, cost_of, opened, sample
from tests.support.recording import RecordingSource

DATA = sample(2, 40)


def record(data: bytes, cost: CostModel) -> RecordingSource:
    """Each answer takes many turns of the loop: requests that do not wait for each other overlap."""
    return RecordingSource(ProbeSource(BytesSource(data, cost), turns=lambda _: 50))


async def parts_of(file: OrcFile) -> list[tuple[str, str, ByteRange]]:
    """All parts of a file, in file order: where, what, which bytes."""
    parts = []
    for stripe in file.stripes:
        where = f"stripe {stripe.index}"
        footer = await file.stripe_footer(stripe.index)
        parts += [
            (where, f"column {stream.column} {stream.kind.name}", range_)
            for stream, range_ in stream_ranges(stripe, footer)
            if range_.length
        ]
        parts.append((where, "footer", stripe.footer_range))
    end = file.tail.file_length
    return [*parts, ("file", "tail", ByteRange(end - file.tail.postscript.tail_bytes, end))]


def describe(asked: ByteRange, parts: Sequence[tuple[str, str, ByteRange]]) -> str:
    found: dict[str, list[str]] = {}
    for where, what, range_ in parts:
        size = min(asked.stop, range_.stop) - max(asked.start, range_.start)
        if size > 0:
            found.setdefault(where, []).append(f"{what} {size}")
    return "; ".join(f"{where}: {', '.join(whats)}" for where, whats in found.items())


async def traffic(cost: CostModel, data: bytes = DATA, **options: Any) -> list[str]:
    """Requests of one read, those of the open included; the last line counts."""
    source = record(data, cost)
    async with opened(source) as file:
        async with file.batches(**options) as stream:
            rows = sum([batch.num_rows async for batch in stream])
        asked, hops = list(source.ranges), source.hop_count
        assert rows == file.row_count
        parts = await parts_of(file)
    lines = [describe(one, parts) for one in asked]
    return [*lines, f"{hops} hops, {len(asked)} requests, {sum(one.length for one in asked)} bytes"]


async def test_one_column() -> None:
    """Three hops: what is asked for is known from the tail, then from the footers."""
    assert await traffic(cost_of(tail_bytes=150), columns=["d"]) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: footer 55",
        "stripe 1: footer 55",
        "stripe 0: column 3 DATA 320",
        "stripe 1: column 3 DATA 320",
        "3 hops, 5 requests, 900 bytes",
    ]


async def test_all_columns() -> None:
    """Streams that touch are one request."""
    assert await traffic(cost_of(tail_bytes=150)) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: footer 55",
        "stripe 1: footer 55",
        "stripe 0: column 1 DATA 57, column 2 DATA 230, column 2 LENGTH 6, column 3 DATA 320",
        "stripe 1: column 1 DATA 57, column 2 DATA 240, column 2 LENGTH 4, column 3 DATA 320",
        "3 hops, 5 requests, 1494 bytes",
    ]


async def test_a_gap_that_is_not_worth_reading() -> None:
    assert await traffic(cost_of(tail_bytes=150), columns=["d", "a"]) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: footer 55",
        "stripe 1: footer 55",
        "stripe 0: column 1 DATA 57",
        "stripe 0: column 3 DATA 320",
        "stripe 1: column 1 DATA 57",
        "stripe 1: column 3 DATA 320",
        "3 hops, 7 requests, 1014 bytes",
    ]


async def test_a_gap_that_is_worth_reading() -> None:
    assert await traffic(cost_of(tail_bytes=150, gap_bytes=400), columns=["d", "a"]) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: footer 55",
        "stripe 1: footer 55",
        "stripe 0: column 1 DATA 57, column 2 DATA 230, column 2 LENGTH 6, column 3 DATA 320",
        "stripe 1: column 1 DATA 57, column 2 DATA 240, column 2 LENGTH 4, column 3 DATA 320",
        "3 hops, 5 requests, 1494 bytes",
    ]


async def test_stripes_shorter_than_a_gap_come_with_their_footers() -> None:
    assert await traffic(cost_of(tail_bytes=150, gap_bytes=5000), columns=["a"]) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: column 1 DATA 57, column 2 DATA 230, column 2 LENGTH 6, column 3 DATA 320, footer 55; "
        "stripe 1: column 1 DATA 57, column 2 DATA 240, column 2 LENGTH 4, column 3 DATA 320, footer 55",
        "2 hops, 2 requests, 1494 bytes",
    ]


async def test_a_tail_whose_bytes_hold_the_footers() -> None:
    """Two hops; and what of a stripe came with the tail is not asked for again."""
    assert await traffic(cost_of(tail_bytes=1000), columns=["d", "a"]) == [
        "stripe 0: column 3 DATA 159, footer 55; "
        "stripe 1: column 1 DATA 57, column 2 DATA 240, column 2 LENGTH 4, column 3 DATA 320, footer 55; "
        "file: tail 110",
        "stripe 0: column 1 DATA 57",
        "stripe 0: column 3 DATA 320",
        "2 hops, 3 requests, 1377 bytes",
    ]


async def test_a_tiny_file() -> None:
    assert await traffic(cost_of(tail_bytes=1 << 14)) == [
        "stripe 0: column 1 DATA 57, column 2 DATA 230, column 2 LENGTH 6, column 3 DATA 320, footer 55; "
        "stripe 1: column 1 DATA 57, column 2 DATA 240, column 2 LENGTH 4, column 3 DATA 320, footer 55; "
        "file: tail 110",
        "1 hops, 1 requests, 1457 bytes",
    ]


async def test_no_columns() -> None:
    assert await traffic(cost_of(tail_bytes=150), columns=[]) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: footer 55",
        "stripe 1: footer 55",
        "2 hops, 3 requests, 260 bytes",
    ]


async def test_long_streams_are_split() -> None:
    assert await traffic(cost_of(tail_bytes=150, part_bytes=170), columns=["d"]) == [
        "stripe 1: footer 40; file: tail 110",
        "stripe 0: footer 55",
        "stripe 1: footer 55",
        "stripe 0: column 3 DATA 160",
        "stripe 0: column 3 DATA 160",
        "stripe 1: column 3 DATA 160",
        "stripe 1: column 3 DATA 160",
        "3 hops, 7 requests, 900 bytes",
    ]


async def test_a_guess_that_was_too_short_costs_hops() -> None:
    assert (await traffic(cost_of(tail_bytes=30), columns=["a"]))[-1] == "4 hops, 6 requests, 334 bytes"


# --- larger files ------------------------------------------------------------------------------------


@lru_cache
def table(columns: int = 12, rows: int = 40_000) -> pa.Table:
    rng = np.random.default_rng(6)
    found: dict[str, Any] = {}
    for number in range(columns):
        values = rng.integers(0, 1 << (5 * (1 + number % 12)), rows)
        found[f"c{number}"] = values if number % 3 else [f"{value:x}" for value in values.tolist()]
    return pa.table(found)


@lru_cache
def file_of(stripe_size: int, compression: str = "zstd") -> bytes:
    sink = pa.BufferOutputStream()
    orc.write_table(table(), sink, stripe_size=stripe_size, compression=compression)
    return bytes(sink.getvalue())


@lru_cache
def tiny_stripes(count: int = 200) -> bytes:
    return sample(count, 20)


async def test_many_tiny_stripes_are_few_requests() -> None:
    data = tiny_stripes()
    source = record(data, CostModel.http())
    async with opened(source) as file:
        assert len(file.stripes) == 200
        rows = await file.read(columns=["a"])
    assert rows.num_rows == 4000
    assert len(source.ranges) <= 4
    assert source.byte_count <= len(data) * 1.2  # the tail came with stripes that are asked for again
    assert source.hop_count <= 3


@pytest.mark.parametrize("preset", ["http", "object_store", "hdfs"])
async def test_presets_meet_the_hops(preset: str) -> None:
    source = record(file_of(1 << 30), getattr(CostModel, preset)())
    async with opened(source) as file:
        await file.read(columns=["c1", "c9"])
    assert source.hop_count <= 3


@given(
    columns=st.lists(st.sampled_from([f"c{number}" for number in range(12)]), unique=True, min_size=1),
    stripe_size=st.sampled_from([1 << 17, 1 << 30]),
    compression=st.sampled_from(["zstd", "uncompressed"]),
    preset=st.sampled_from(["memory", "local", "http", "object_store", "hdfs"]),
    memory_limit=st.sampled_from([1 << 20, 1 << 28]),
)
def test_explain_says_what_the_stream_does(
    columns: list[str], stripe_size: int, compression: str, preset: str, memory_limit: int
) -> None:
    async def run() -> None:
        # What is measured on the way would change later requests.
        cost = replace(getattr(CostModel, preset)(), adaptive=False)
        source = record(file_of(stripe_size, compression), cost)
        async with opened(source) as file:
            planned = await file.explain(columns=columns, memory_limit=memory_limit)
            before, bytes_before = len(source.ranges), source.byte_count
            async with file.batches(columns=columns, memory_limit=memory_limit) as stream:
                rows = sum([batch.num_rows async for batch in stream])
                stats = stream.stats
        tail, control, data = planned.waves
        assert rows == planned.row_count == 40_000
        assert (tail.request_count, tail.bytes_read) == (1, file.tail.file_length - start_of_tail(source))
        assert planned.request_count - 1 == len(source.ranges) - before == stats.request_count
        assert control.bytes_read + data.bytes_read == source.byte_count - bytes_before == stats.bytes_read
        assert control.bytes_wanted + data.bytes_wanted == stats.bytes_wanted
        assert planned.stripe_count == stats.stripe_count
        # Gaps cost at most a tenth, or little; what came with the footers was not wanted for itself.
        assert data.bytes_read <= max(
            data.bytes_wanted * 1.15, data.bytes_wanted + planned.window_count * 65_536
        )

    anyio.run(run)


def start_of_tail(source: RecordingSource) -> int:
    return source.ranges[0].start


@pytest.mark.parametrize("columns", [["c1"], ["c0", "c5"], ["c2", "c3", "c4", "c11"]])
async def test_some_columns_of_a_large_file_cost_little_more_than_they_are(columns: list[str]) -> None:
    """In all, tail and footers included; wanted are the streams of the columns."""
    data = file_of(1 << 30, "uncompressed")
    source = record(data, cost_of(gap_bytes=20_000, tail_bytes=4096))
    async with opened(source) as file:
        wanted = (await file.explain(columns=columns)).waves[2].bytes_wanted
        source.ranges.clear()
        await file.read(columns=columns)
    assert wanted < len(data) / 2
    assert source.byte_count <= wanted * 1.15


async def test_the_tail_is_read_once_for_many_reads() -> None:
    source = record(file_of(1 << 30), CostModel.http())
    async with opened(source) as file:
        await file.read(columns=["c1"])
        first = len(source.ranges) - 1
        await file.read(columns=["c1"])
    assert len(source.ranges) == 1 + 2 * first
    assert source.ranges[1 : 1 + first] == source.ranges[1 + first :]


async def test_tools_ask_for_what_they_name() -> None:
    source = record(DATA, cost_of(tail_bytes=150))
    async with opened(source) as file:
        await file.stripe_footer(0)
        await file.row_index(0)  # there is none
        await file.stripe_statistics()
        parts = await parts_of(file)
        source.ranges.clear()
        await file.stripe_footer(1)
        assert [describe(one, parts) for one in source.ranges] == ["stripe 1: footer 55"]
