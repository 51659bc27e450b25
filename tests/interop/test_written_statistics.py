"""The statistics in written files: what ORC Java and ORC C++ show of them, against the values themselves.

The numbers expected are counted here, in plain Python, of the rows that went in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pyorc
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.reference import java_orc, reader
from tests.reference.types import T
from tests.reference.values import EXACT
from tests.support import writing
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

UNIONS = strategies.schemas(strategies.EVERYTHING, unions=True)
INTEGERS = ("tinyint", "smallint", "int", "bigint")
TEXTS = ("string", "char", "varchar")
MAX_TEXT_BYTES = 1024
JAVA_KINDS = {
    **dict.fromkeys(INTEGERS, "Integer"),
    **dict.fromkeys(TEXTS, "String"),
    **dict.fromkeys(("float", "double"), "Double"),
    "timestamp": "Timestamp",
    "timestamp with local time zone": "TimestampInstant",
    **dict.fromkeys(("array", "map"), "CollectionColumn"),
    "boolean": "Boolean",
    "binary": "Binary",
    "date": "Date",
    "decimal": "Decimal",
}


def columns_of(type_: T, values: list[Any]) -> Iterator[tuple[T, list[Any]]]:
    """Each column's type and values, by column id; a child has none where its parent is null."""
    yield type_, values
    there = [value for value in values if value is not None]
    if type_.kind == "struct":
        for index, child in enumerate(type_.children):
            yield from columns_of(child, [value[index] for value in there])
    elif type_.kind == "array":
        yield from columns_of(type_.children[0], [item for value in there for item in value])
    elif type_.kind == "map":
        pairs = [pair for value in there for pair in value]
        for index, child in enumerate(type_.children):
            yield from columns_of(child, [pair[index] for pair in pairs])
    elif type_.kind == "uniontype":
        for tag, child in enumerate(type_.children):
            yield from columns_of(child, [value.value for value in there if value.tag == tag])


def check(type_: T, values: list[Any], told: dict[str, Any]) -> None:
    """What Java says of a column, of which these are all the values."""
    there = [value for value in values if value is not None]
    told_of = f"{type_}: {told}"
    assert told["count"] == len(there), told_of
    assert told["has_null"] == (len(there) < len(values)), told_of
    if not there:
        return
    # Java counts short decimals of files of ORC 2 as longs.
    assert told["kind"].replace("Decimal64", "Decimal") == JAVA_KINDS.get(type_.kind, "Column"), told_of
    if type_.kind in (*INTEGERS, "date") or type_.kind.startswith("timestamp"):
        assert (int(told["minimum"]), int(told["maximum"])) == (min(there), max(there)), told_of
    elif type_.kind == "decimal":
        bounds = Decimal(told["minimum"]), Decimal(told["maximum"])
        assert bounds == (min(there), max(there)), told_of
        check_sum(EXACT.create_decimal(sum_of(there)), told["sum"] and Decimal(told["sum"]), told_of)
    elif type_.kind in ("float", "double"):
        check_floats(there, told, told_of)
    elif type_.kind in TEXTS:
        check_texts(type_, there, told)
    elif type_.kind in ("array", "map"):
        sizes = [len(value) for value in there]
        found = [int(told[name]) for name in ("minimum", "maximum", "sum")]
        assert found == [min(sizes), max(sizes), sum(sizes)], told_of
    if type_.kind in INTEGERS:
        check_sum(sum(there), told["sum"] and int(told["sum"]), told_of, sum(map(abs, there)))
    if type_.kind == "boolean":
        assert int(told["sum"]) == sum(there), told_of
    if type_.kind == "binary":
        assert int(told["sum"]) == sum(map(len, there)), told_of


def sum_of(values: list[Decimal]) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = EXACT.add(total, value)
    return total


def check_sum(expected: Any, found: Any, told: str, most: int = 1 << 63) -> None:
    """A sum may be left out where it, or that of a part, has no room: those are `most`, at most."""
    if found is None:
        assert not isinstance(expected, int) or most > 1 << 62, told
    else:
        assert found == expected, told


def check_floats(values: list[float], told: dict[str, Any], told_of: str) -> None:
    numbers = [value for value in values if not math.isnan(value)]
    low, high, total = (float(told[name]) for name in ("minimum", "maximum", "sum"))
    if numbers:
        assert (low, high) == (min(numbers), max(numbers)), told_of
    if len(numbers) < len(values) or {math.inf, -math.inf} <= set(numbers):
        assert math.isnan(total), told_of
    elif math.isfinite(total):
        scale = math.fsum(abs(number) / len(numbers) for number in numbers) * len(numbers)
        assert abs(total - math.fsum(numbers)) <= 1e-9 * scale, told_of
    else:
        assert max(abs(number) for number in numbers) > 1e300, told_of


def check_texts(type_: T, values: list[str], told: dict[str, Any]) -> None:
    if type_.kind == "char":
        assert type_.max_length is not None
        values = [value.ljust(type_.max_length) for value in values]
    assert int(told["sum"]) == sum(len(value.encode()) for value in values)
    low, high = min(values), max(values)
    if len(low.encode()) <= MAX_TEXT_BYTES:
        assert told["minimum"] == told["lower_bound"] == low
    else:
        assert told["minimum"] is None
        assert low.startswith(told["lower_bound"])
    if len(high.encode()) <= MAX_TEXT_BYTES:
        assert told["maximum"] == told["upper_bound"] == high
    else:
        assert told["maximum"] is None
        # Nothing of so many bytes is behind a text of last code points only.
        unbounded = high.startswith("\U0010ffff" * (MAX_TEXT_BYTES // 4))
        assert (told["upper_bound"] is None) if unbounded else (told["upper_bound"] > high)


def check_columns(type_: T, rows: list[Any], told: list[dict[str, Any]]) -> None:
    columns = list(columns_of(type_, rows))
    assert len(columns) == len(told)
    for (child, values), found in zip(columns, told, strict=True):
        check(child, values, found)


ZONE = "America/Los_Angeles"
OPTIONS = st.fixed_dictionaries(
    {"timezone": st.just(ZONE)},
    optional={
        "stripe_bytes": st.just(20_000),
        "row_index_stride": st.sampled_from((0, 7, 100, 1000)),
        "calendar": st.just("hybrid"),
        "compression": st.just("none"),
    },
)


@hypothesis.settings(max_examples=share(80))
@hypothesis.given(
    table=strategies.tables(UNIONS, strategies.Limits(zone=ZONE, first_day=-141_427)), options=OPTIONS
)
def test_java_shows_what_the_values_say(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("written") / "any.orc"
    type_ = table.type_
    writing.write(path, type_, writing.pieces(type_, table.rows, table.seed), **options)
    rows = [writing.in_file(type_, row) for row in table.rows]
    told = java_orc.statistics(path)
    check_columns(type_, rows, told["file"])
    stride = options.get("row_index_stride", 10_000)
    stripes = [span.row_count for span in reader.read_tail(path.read_bytes()).stripes]
    assert sum(stripes) == len(rows)
    assert len(told["stripes"]) == len(stripes)
    assert len(told["groups"]) == (len(stripes) if stride else 0)
    first = 0
    for number, count in enumerate(stripes):
        check_columns(type_, rows[first : first + count], told["stripes"][number])
        on_disk = [part["bytes_on_disk"] for part in told["stripes"][number]]
        assert sum(on_disk) == reader.read_tail(path.read_bytes()).stripes[number].data_bytes
        for start in range(0, count, stride) if stride else ():
            stop = min(start + stride, count)
            group = told["groups"][number][start // stride]
            check_columns(type_, rows[first + start : first + stop], group)
        first += count


@hypothesis.settings(max_examples=share(40))
@hypothesis.given(table=strategies.tables(strategies.schemas(strategies.PLAIN)))
def test_cpp_shows_what_the_values_say(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table
) -> None:
    """Of the file; pyorc cuts times to milliseconds."""
    path = tmp_path_factory.mktemp("written") / "any.orc"
    type_ = table.type_
    writing.write(path, type_, writing.pieces(type_, table.rows, table.seed), row_index_stride=100)
    with path.open("rb") as file:
        judge = pyorc.Reader(file)
        for number, (child, values) in enumerate(columns_of(type_, list(table.rows))):
            told = judge[number].statistics
            there = [value for value in values if value is not None]
            assert told["number_of_values"] == len(there)
            assert told["has_null"] == (len(there) < len(values))
            if there and child.kind in INTEGERS:
                assert (told["minimum"], told["maximum"]) == (min(there), max(there))
            if there and child.kind == "string" and max(len(value.encode()) for value in there) <= 1024:
                assert (told["minimum"], told["maximum"]) == (min(there), max(there))
                assert told["total_length"] == sum(len(value.encode()) for value in there)


def test_days_and_times_of_the_hybrid_calendar(tmp_path: Path) -> None:
    """They are recorded as they are stored, and Java turns both back."""
    type_ = T("struct", (T("date"), T("timestamp"), T("timestamp with local time zone")), ("d", "t", "i"))
    day_us = 86_400 * 10**6
    rows = [(day, day * day_us, day * day_us) for day in (-719_162, -700_000, -141_427, 0)]
    path = tmp_path / "hybrid.orc"
    columns = zip(type_.names, zip(*rows, strict=True), ("M8[D]", "M8[us]", "M8[us]"), strict=True)
    arrays = {
        name: np.array(values, "i8").view("M8[us]") if dtype != "M8[D]" else np.array(values, dtype)
        for name, values, dtype in columns
    }
    writing.write(path, type_, [arrays], calendar="hybrid")
    expected = [(day, time * 1000, instant * 1000) for day, time, instant in rows]
    assert java_orc.read(path, type_) == expected
    told = java_orc.statistics(path)
    for level in (told["file"], told["stripes"][0], told["groups"][0][0]):
        check_columns(type_, expected, level)
