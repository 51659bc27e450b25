"""The row indexes and bloom filters of written files: ORC Java prunes by them, and all readers seek by them.

Each row carries its number, so that what a reader left out can be told.
"""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream.codec.metadata.structure import StreamKind
from tests.generators import strategies
from tests.generators.rebuilding import Parts
from tests.interop import pruning
from tests.reference import compare, java_orc, peers, reader
from tests.reference.types import T, struct
from tests.support import writing
from tests.support.effort import pairs, share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

COUNT, STRIDE = 5000, 500
DAY_NS = 86_400 * 10**9
# Java's name of the literal's type, and a value that grows with its number; all values are different.
TYPES: dict[str, tuple[str, Any]] = {
    "smallint": ("LONG", lambda n: n - 2000),
    "int": ("LONG", lambda n: n * 1001 - 10**6),
    "bigint": ("LONG", lambda n: n * 10**14 - 10**17),
    "double": ("FLOAT", lambda n: n / 7 - 200),
    "float": ("FLOAT", lambda n: n / 4 - 200),
    "string": ("STRING", lambda n: f"ключ {n:06}"),
    "varchar(20)": ("STRING", lambda n: f"{n:06}€"),
    "char(12)": ("STRING", lambda n: f"{n:06}"),
    "date": ("DATE", lambda n: n * 3 - 9000),
    "timestamp": ("TIMESTAMP", lambda n: n * DAY_NS // 3 + n * 1_001_001),
    "timestamp with local time zone": ("TIMESTAMP", lambda n: n * DAY_NS // 3 + n * 1_001_001),
    "decimal(12,3)": ("DECIMAL", lambda n: Decimal(n - 1000).scaleb(-2)),
    "decimal(38,10)": ("DECIMAL", lambda n: Decimal(n - 1000).scaleb(-1)),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "default": {},
    "0.11": {"compression": "none", "file_version": "0.11", "dictionary_threshold": 1},
    "small": {"stripe_bytes": 20_000, "block_bytes": 1024, "dictionary_threshold": 0},
    "zone": {"timezone": "America/Los_Angeles", "calendar": "hybrid", "compression": "zlib"},
}
# What zones and calendars change, always in one.
CASES = sorted({*pairs(TYPES, list(LAYOUTS)), ("date", "zone"), ("timestamp", "zone")})


def written(
    path: Path, text: str, numbers: list[int], **options: Any
) -> tuple[T, list[tuple[int, Any]], list[Any]]:
    """A file of (row number, value), some of which are null; its type, rows, and values by number."""
    type_ = struct(n="int", x=text)
    decimal = type_.children[1]
    values = [TYPES[text][1](number) for number in numbers]
    if decimal.kind == "decimal":
        assert decimal.scale is not None
        values = [value.quantize(Decimal(1).scaleb(-decimal.scale)) for value in values]
    rows = [(row, None if row % 11 == 10 else value) for row, value in enumerate(values)]
    parts = writing.pieces(type_, rows, len(text))
    writing.write(path, type_, parts, row_index_stride=STRIDE, **options)
    return type_, rows, values


def literal_of(type_: T, value: Any) -> Any:
    """As Java compares: texts of CHAR are padded in the file."""
    return value.ljust(type_.max_length or 0) if type_.kind == "char" else value


@pytest.mark.parametrize(("text", "layout"), CASES)
def test_java_prunes_by_statistics(tmp_path: Path, text: str, layout: str) -> None:
    """Of sorted values: the rows that match are all there, and most others are not."""
    path = tmp_path / "sorted.orc"
    type_, rows, values = written(path, text, list(range(COUNT)), **LAYOUTS[layout])
    kind = TYPES[text][0]
    literal = [literal_of(type_.children[1], value) for value in values]
    cases: list[tuple[str, list[int], Any]] = [
        ("EQUALS", [1234], lambda v: v == values[1234]),
        ("LESS_THAN", [700], lambda v: v < values[700]),
        ("LESS_THAN_EQUALS", [500], lambda v: v <= values[500]),
        ("NOT_LESS_THAN", [4499], lambda v: v >= values[4499]),
        ("BETWEEN", [999, 1500], lambda v: values[999] <= v <= values[1500]),
        ("IN", [3, 4888], lambda v: v in (values[3], values[4888])),
    ]
    for operator, places, holds in cases:
        found = java_orc.read_groups(path, type_, "x", kind, operator, [literal[place] for place in places])
        numbers = {row[0] for row in found}  # type: ignore[index]
        missing = [n for n, value in rows if value is not None and holds(value) and n not in numbers]
        assert not missing, (operator, missing)
        assert len(numbers) < COUNT // 2, operator


@pytest.mark.parametrize(("text", "layout"), CASES)
def test_java_prunes_by_blooms(tmp_path: Path, text: str, layout: str) -> None:
    """Of shuffled values, where statistics prove nothing: each is found where it is, and few groups else."""
    options = LAYOUTS[layout]
    if text in ("timestamp", "timestamp with local time zone") and "timezone" in options:
        options = {**options, "timezone": "UTC"}
    path = tmp_path / "shuffled.orc"
    numbers = random.Random(text).sample(range(COUNT), COUNT)
    type_, rows, values = written(path, text, numbers, blooms={"x": 0.001}, **options)
    kept = 0
    places = range(0, COUNT, 397)
    for place in places:
        literal = literal_of(type_.children[1], values[place])
        found = (
            java_orc.read_groups_with(path, type_, "x", TYPES[text][0], literal)
            if TYPES[text][0] not in ("DATE", "TIMESTAMP")
            else java_orc.read_groups(path, type_, "x", TYPES[text][0], "EQUALS", [literal])
        )
        numbers_found = {row[0] for row in found}  # type: ignore[index]
        assert rows[place][1] is None or place in numbers_found, place
        kept += len(numbers_found)
    assert kept < 3 * STRIDE * len(places)


def test_java_knows_where_nulls_are(tmp_path: Path) -> None:
    type_ = struct(n="int", x="bigint")
    rows = [(row, None if 1000 <= row < 1003 else row) for row in range(COUNT)]
    writing.write(tmp_path / "n.orc", type_, [rows], row_index_stride=STRIDE)
    found = java_orc.read_groups(tmp_path / "n.orc", type_, "x", "LONG", "IS_NULL", [])
    assert found == rows[1000 : 1000 + STRIDE]


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, plain_names=True, depth=2)),
    options=writing.options(),
    calendar=st.sampled_from(("proleptic", "hybrid")),
    unit=st.sampled_from(("us", "ms")),
)
def test_nothing_is_proved_wrong(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, Any],
    calendar: str,
    unit: str,
) -> None:
    """What our own reader concludes of statistics and filters, for any schema."""
    path = tmp_path_factory.mktemp("written") / "any.orc"
    limits = strategies.Limits(first_day=-141_427)
    table = strategies.make_table(table.type_, len(table.rows), table.seed, limits)
    parts = writing.pieces(table.type_, table.rows, table.seed)
    chosen = writing.with_blooms(table.type_, {**options, "bloom": True})
    writing.write(path, table.type_, parts, calendar=calendar, **chosen)

    async def load() -> pruning.Known:
        return await pruning.load(path, unit=unit)

    pruning.check_many(anyio.run(load), table.seed)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@pytest.mark.parametrize("proleptic", [True, False])
def test_filters_of_times_are_those_of_java(tmp_path: Path, zone: str, proleptic: bool) -> None:
    """Bit for bit: in the calendar of the file, and of the wall clock as if it were UTC."""
    type_ = struct(d="date", t="timestamp", i="timestamp with local time zone")
    days = [-719_162, -500_000, -141_438, -141_427, -1, 0, 20_000]
    # Nanoseconds reach back to 1677, Java's interface for tests in milliseconds further.
    times = [day * DAY_NS + 43_200 * 10**9 for day in days]
    rows = list(zip(days, times, times, strict=True))
    options = {
        "orc.bloom.filter.columns": "d,t,i",
        "orc.bloom.filter.fpp": 0.01,
        "orc.proleptic.gregorian": proleptic,
        "orc.row.index.stride": 1000,
    }
    java_orc.write(tmp_path / "java.orc", type_, rows, options=options, zone=zone)
    data = {
        "d": np.array(days, "M8[D]"),
        "t": np.array([time // 1000 for time in times], "i8").view("M8[us]"),
        "i": np.array([time // 1000 for time in times], "i8").view("M8[us]"),
    }
    writing.write(
        tmp_path / "ours.orc",
        type_,
        [data],
        timezone=zone,
        calendar="proleptic" if proleptic else "hybrid",
        blooms=["d", "t", "i"],
        row_index_stride=1000,
    )
    assert java_orc.read(tmp_path / "ours.orc", type_) == rows == java_orc.read(tmp_path / "java.orc", type_)
    ours, java = (Parts((tmp_path / name).read_bytes()) for name in ("ours.orc", "java.orc"))
    for column in (1, 2, 3):
        key = (StreamKind.BLOOM_FILTER_UTF8, column)
        assert ours.stripes[0].blooms[key] == java.stripes[0].blooms[key], type_.children[column - 1]
        theirs = java.stripes[0].indexes[column].statistics(0)
        assert ours.stripes[0].indexes[column].statistics(0) == theirs


# --- positions -------------------------------------------------------------------------------------


def starts_of(path: Path, stride: int) -> list[int]:
    """The first row of each row group."""
    found: list[int] = []
    first = 0
    for span in reader.read_tail(path.read_bytes()).stripes:
        found += range(first, first + span.row_count, stride)
        first += span.row_count
    return found


SEEKABLE = st.fixed_dictionaries(
    {
        "row_index_stride": st.sampled_from((7, 100, 700)),
        "compression": st.sampled_from(("none", "zlib", "zstd", "snappy")),
    },
    optional={
        "block_bytes": st.sampled_from((1024, 1025, 5000)),
        "stripe_bytes": st.sampled_from((1024, 20_000)),
        "dictionary_threshold": st.sampled_from((0, 0.5, 1)),
        "encoding_strategy": st.sampled_from(("speed", "compression")),
        "file_version": st.sampled_from(("0.11", "0.12", "UNSTABLE-PRE-2.0")),
    },
)
UNIONS = strategies.schemas(strategies.EVERYTHING, unions=True)


def some(rng: random.Random, starts: list[int]) -> list[int]:
    return sorted({*starts[:2], *starts[-2:], *rng.sample(starts, min(6, len(starts)))})


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(table=strategies.tables(UNIONS), options=SEEKABLE)
def test_java_and_we_seek(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("written") / "any.orc"
    type_ = table.type_
    writing.write(path, type_, writing.pieces(type_, table.rows, table.seed), **options)
    rows = [writing.in_file(type_, row) for row in table.rows]
    shaped = compare.arrow_shaped(type_, rows)
    starts = starts_of(path, options["row_index_stride"])

    async def check_ours() -> None:
        import pyarrow as pa

        async with orcstream.open(str(path)) as file:
            for start in starts[:40]:
                stop = min(len(rows), start + 10)
                found = pa.table(await file.read(rows=range(start, stop)))
                compare.assert_same_rows(type_, compare.table_rows(type_, found), shaped[start:stop])

    anyio.run(check_ours)
    for start in some(random.Random(table.seed), starts):
        compare.assert_same_rows(type_, java_orc.read_from(path, type_, start, 10), rows[start : start + 10])


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, plain_names=True)), options=SEEKABLE
)
def test_cpp_seeks(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("written") / "any.orc"
    type_ = table.type_
    writing.write(path, type_, writing.pieces(type_, table.rows, table.seed), **options)
    starts = starts_of(path, options["row_index_stride"])
    for start in some(random.Random(table.seed), starts):
        found = peers.pyorc_rows_from(path, type_, start, 10)
        compare.assert_same_rows(type_, found, table.rows[start : start + 10])
