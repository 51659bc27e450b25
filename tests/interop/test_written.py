"""Files of our writer, read back equal by ORC Java, pyarrow and pyorc (ORC C++), plain Python and our reader.

What the judges cannot: ORC C++ takes all days to be of the proleptic calendar, reads LZO as ORC Java writes
it only ("MalformedInputException" for chunks of lzo1x-999, which Java and liblzo read), and takes a second
off where the wall clock and not the instant is before 1970 (ORC-2151); pyorc tells no union's tag.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.interop import judging
from tests.reference import compare, java_orc, peers, reader
from tests.reference.types import T, parse
from tests.support import writing
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

CPP_OPTIONS = writing.options([name for name in writing.COMPRESSIONS if name != "lzo"])
SCHEMAS = strategies.schemas(strategies.EVERYTHING)
UNIONS = strategies.schemas(strategies.EVERYTHING, unions=True)


def write(
    folder: Path, table: strategies.Table, options: dict[str, Any], form: str | None = None
) -> tuple[Path, T, list[Any]]:
    """The file, its type and rows as plain Python reads them, once they are those that were written."""
    path = folder / "any.orc"
    parts = writing.pieces(table.type_, table.rows, table.seed, form)
    result = writing.write(path, table.type_, parts, **writing.with_blooms(table.type_, options))
    assert result.row_count == len(table.rows)
    assert result.length == path.stat().st_size
    expected = [writing.in_file(table.type_, row) for row in table.rows]
    type_, rows = reader.read(path.read_bytes())
    assert type_ == table.type_
    compare.assert_same_rows(type_, rows, expected)
    return path, type_, expected


@hypothesis.settings(max_examples=share(120))
@hypothesis.given(table=strategies.tables(UNIONS), options=writing.options())
def test_any_schema(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path, type_, rows = write(tmp_path_factory.mktemp("written"), table, options)
    compare.assert_same_rows(type_, java_orc.read(path, type_), rows)
    judging.run(path, type_, rows)


@hypothesis.settings(max_examples=share(120))
@hypothesis.given(table=strategies.tables(SCHEMAS), options=CPP_OPTIONS)
def test_any_schema_without_unions(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path, type_, rows = write(tmp_path_factory.mktemp("written"), table, options)
    compare.assert_same_rows(type_, peers.pyarrow_rows(path, type_), rows)
    compare.assert_same_rows(type_, peers.pyorc_rows(path, type_), rows)


@pytest.mark.parametrize("form", writing.FORMS)
@hypothesis.settings(max_examples=share(15))
@hypothesis.given(table=strategies.tables(UNIONS))
def test_every_form_of_data(
    tmp_path_factory: pytest.TempPathFactory, form: str, table: strategies.Table
) -> None:
    write(tmp_path_factory.mktemp("written"), table, {"row_index_stride": 100}, form)


@hypothesis.settings(max_examples=share(20))
@hypothesis.given(table=strategies.tables(SCHEMAS), options=writing.options())
def test_brotli(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    """For our reader alone: neither the wheels of ORC C++ nor that of pyspark have the codec."""
    path = tmp_path_factory.mktemp("written") / "any.orc"
    parts = writing.pieces(table.type_, table.rows, table.seed)
    chosen = writing.with_blooms(table.type_, options) | {"compression": "brotli"}
    writing.write(path, table.type_, parts, **chosen)
    judging.run(path, table.type_, list(table.rows))


TIMES = strategies.structs(st.sampled_from(("timestamp", "date", "timestamp with local time zone")).map(T))


@pytest.mark.parametrize("calendar", ["proleptic", "hybrid"])
@pytest.mark.parametrize("zone", writing.ZONES)
@hypothesis.settings(max_examples=share(15))
@hypothesis.given(type_=TIMES, seed=st.integers(0, 1 << 32), count=st.sampled_from((10, 700)))
def test_clocks(
    tmp_path_factory: pytest.TempPathFactory, zone: str, calendar: str, type_: T, seed: int, count: int
) -> None:
    limits = strategies.Limits(zone=zone)
    if calendar == "hybrid":
        rng = random.Random(seed)
        limits = strategies.Limits(zone=zone, first_day=rng.choice((-719_162, -200_000, -141_427)))
    table = strategies.make_table(type_, count, seed, limits)
    kept = [
        row for row in table.rows if calendar == "proleptic" or not any(map(_skipped, type_.children, row))
    ]
    table = strategies.Table(type_, kept, seed)
    options = {"timezone": zone, "calendar": calendar, "row_index_stride": 100}
    path, type_, rows = write(tmp_path_factory.mktemp("written"), table, options)
    compare.assert_same_rows(type_, java_orc.read(path, type_), rows)
    judging.run(path, type_, rows)
    if calendar == "proleptic" and not any(map(_near_1970, type_.children, zip(*rows, strict=True))):
        compare.assert_same_rows(type_, peers.pyarrow_rows(path, type_), rows)
        compare.assert_same_rows(type_, peers.pyorc_rows(path, type_), rows)


def _skipped(type_: T, value: Any) -> bool:
    """Whether the ten days before 1582-10-15 have it, which are not in the hybrid calendar."""
    if value is None:
        return False
    day: int = value if type_.kind == "date" else value // (86_400 * 10**9)
    return -141_437 <= day < -141_427


def _near_1970(type_: T, values: tuple[int | None, ...]) -> bool:
    day = 86_400 * 10**9
    return type_.kind == "timestamp" and any(value is not None and -day < value < day for value in values)


def test_shapes(tmp_path: Path) -> None:
    """They are bytes to a writer; neither ORC Java 2.3 nor the wheels of ORC C++ know them."""
    type_ = parse("struct<g:geometry,h:geography,l:array<geometry>>")
    points = [bytes([1, 1, 0, 0, 0]) + rng_bytes(number, 16) for number in range(300)]
    rows: list[Any] = [(p, None if n % 3 else p, [p] * (n % 4)) for n, p in enumerate(points)]
    table = strategies.Table(type_, rows, 0)
    for form in ("tuples", "table", "numpy"):
        path, _, found = write(tmp_path, table, {"row_index_stride": 100}, form)
        judging.run(path, type_, found)


def rng_bytes(seed: int, count: int) -> bytes:
    return random.Random(seed).randbytes(count)
