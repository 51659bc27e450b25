"""The layout of a file covers each of its bytes once: of any schema, encrypted or not, and of the corpus."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import hypothesis
from hypothesis import strategies as st

import orcstream
from orcstream.byterange import ByteRange
from orcstream.inspect.layout import Part, brought, file_parts, stripe_parts
from orcstream.inspect.terms import GROUPS, PARTS
from tests.encryption.test_random_files import UNIONS, encrypts
from tests.generators import strategies
from tests.generators.encrypting import written
from tests.reference import corpus
from tests.support import writing
from tests.support.effort import share


def _assert_covers(parts: Sequence[Part], start: int, stop: int) -> None:
    """One after the other, without gap or overlap; each is of a kind that is explained, and not empty."""
    at = start
    for part in parts:
        assert part.range.start == at
        assert part.range.length > 0
        assert PARTS[part.kind].group in GROUPS
        at = part.range.stop
    assert at == stop


async def _check(data: bytes) -> int:
    """How many stripes were looked into."""
    async with orcstream.open(data) as file:
        parts = file_parts(file.tail)
        _assert_covers(parts, 0, len(data))
        assert [part.range for part in parts if part.kind == "stripe"] == [
            stripe.range for stripe in file.stripes if stripe.range.length
        ]
        found = {part.kind: data[part.range.start : part.range.stop] for part in parts}
        assert found.get("header", b"ORC") == b"ORC"
        if parts:
            assert found["postscript_length"][0] == len(found["postscript"])
        looked_at = 0
        for stripe in file.stripes:
            try:
                footer = await file.stripe_footer(stripe.index)
            except (orcstream.FormatError, orcstream.Unsupported):
                continue
            _assert_covers(stripe_parts(stripe, footer), stripe.range.start, stripe.range.stop)
            looked_at += 1
        return looked_at


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(table=strategies.tables(UNIONS), options=writing.options(), data=st.data())
def test_any_file(table: strategies.Table, options: dict[str, Any], data: st.DataObject) -> None:
    encrypt = data.draw(st.one_of(st.just([]), encrypts(table.type_)))
    chosen = writing.with_blooms(table.type_, options)
    parts = writing.pieces(table.type_, table.rows, table.seed)
    anyio.run(_check, written(str(table.type_), parts, encrypt, **chosen))


@st.composite
def ranges(draw: st.DrawFn, length: int) -> ByteRange:
    start = draw(st.integers(0, length))
    return ByteRange(start, draw(st.integers(start, length)))


@hypothesis.given(
    lengths=st.lists(st.integers(1, 9), max_size=9),
    asked=st.lists(ranges(90), max_size=6),
    order=st.randoms(),
)
def test_what_requests_bring_of_each_part(
    lengths: list[int], asked: list[ByteRange], order: random.Random
) -> None:
    """Against each byte looked at by itself; ranges may overlap, and go past the end."""
    stops = list(itertools.accumulate(lengths))
    parts = [
        Part("data", ByteRange(stop - length, stop), column=at)
        for at, (length, stop) in enumerate(zip(lengths, stops, strict=True))
    ]
    order.shuffle(parts)
    there = {byte for one in asked for byte in range(one.start, one.stop)}
    expected = {
        part.column: len(there.intersection(range(part.range.start, part.range.stop))) for part in parts
    }
    found = {part.column: length for part, length in brought(parts, asked)}
    assert found == {column: length for column, length in expected.items() if length}


async def test_every_file_of_the_corpus(corpus_folder: Path) -> None:
    looked_at = 0
    for entry in corpus.manifest(corpus_folder)["files"]:
        data = (corpus_folder / entry["path"]).read_bytes()
        try:
            looked_at += await _check(data)
        except (orcstream.FormatError, orcstream.Unsupported):
            continue  # the tail cannot be read, and so there is no layout
    assert looked_at > 300
