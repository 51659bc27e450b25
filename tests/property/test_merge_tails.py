"""Tails that say anything, merged: what cannot be is an error of the file, what comes out can be opened.

Bytes of footers and metadata are changed, files are not compressed, so that every change reaches a message.
"""

from __future__ import annotations

import asyncio
import io

import hypothesis
from hypothesis import strategies as st

import orcstream
from orcstream.errors import FormatError, Unsupported, UsageError
from orcstream.plan.tail import Tail, parse_stripe_statistics, plan_tail
from tests.generators.strategies import Limits, make_table
from tests.reference import statistics
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import add_stripe
from tests.reference.types import parse
from tests.support.effort import share
from tests.support.read_sources import indexed_sample

RICH = parse(
    "struct<a:array<int>,m:map<string,double>,t:timestamp,d:decimal(10,2),b:boolean,s:struct<x:date>>"
)


def rich() -> bytes:
    builder = FileBuilder(RICH, Options(statistics=statistics.honest))
    for seed in range(2):
        add_stripe(builder, make_table(RICH, 20, seed, Limits()).rows)
    return builder.build()


FILES = [indexed_sample(3, 20, 10), rich()]


async def merged(files: list[bytes]) -> bytes:
    out = io.BytesIO()
    await orcstream.merge(files, out)
    return out.getvalue()


def changed(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    start = tail.metadata_range.start
    out = bytearray(data)
    for at, value in changes:
        out[start + at % (len(data) - start)] = value
    return bytes(out)


@hypothesis.settings(max_examples=share(600))
@hypothesis.given(
    data=st.sampled_from(FILES),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4),
    good_first=st.booleans(),
)
def test_any_bytes(data: bytes, changes: list[tuple[int, int]], good_first: bool) -> None:
    hostile = changed(data, changes)
    try:
        result = asyncio.run(merged([data, hostile] if good_first else [hostile, hostile]))
    except UsageError as error:
        assert good_first, error  # noqa: PT017  # what differs from the first file
        return
    except (FormatError, Unsupported) as error:
        assert error.url == "<bytes>"  # noqa: PT017
        return
    tail = plan_tail(memoryview(result), len(result))
    assert isinstance(tail, Tail)
    section = result[tail.metadata_range.start : tail.metadata_range.stop]
    assert len(parse_stripe_statistics(tail, section)) <= len(tail.footer.stripes)
    for column in range(len(tail.footer.statistics)):
        assert tail.footer.statistics.get(column) is not None
