"""`scan_orc`: what polars asks for is what is read, and its rows are those of polars' own frames."""

from __future__ import annotations

import datetime
import functools
import math
import operator
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pyarrow import orc

import orcstream
from orcstream import DecodeSpan, Expr, ReadObserver, RequestSpan, col
from orcstream.integrations._polars_predicates import pushed_down
from orcstream.integrations.polars import scan_orc
from orcstream.query.expr import ColumnRef
from tests.support.effort import share

ROWS = 500
NAN = math.nan
NUMBERS = (-(2**53) - 1, -3, 0, 1, 7, 2**31, 2**53 + 1)
FLOATS = (-math.inf, -1.5, -0.0, 0.0, 0.1, 2.5, math.inf, NAN)
TEXTS = ("", "a", "ab", "abc", "b", "ä", "𝄞")
DAYS = (datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), datetime.date(2024, 5, 1))
TIMES = tuple(datetime.datetime(2024, 5, 1, hour, 0, 0, 1) for hour in (0, 7, 23))  # noqa: DTZ001 - wall clock
AMOUNTS = (Decimal("-1.50"), Decimal("0.00"), Decimal("0.25"), Decimal("12.34"))
VALUES: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "i": (pa.int64(), NUMBERS),
    "small": (pa.int8(), (-128, -1, 0, 1, 127)),
    "f": (pa.float64(), FLOATS),
    "f32": (pa.float32(), FLOATS),
    "s": (pa.string(), TEXTS),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("ns"), TIMES),
    "amount": (pa.decimal128(10, 2), AMOUNTS),
    "flag": (pa.bool_(), (True, False)),
}


def column_of(name: str, at: int) -> list[Any]:
    """Each value, and nulls, spread so that row groups differ."""
    values = [*VALUES[name][1], None]
    return [values[(row * (at + 3) + row // 40) % len(values)] for row in range(ROWS)]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    columns = {
        name: pa.array(column_of(name, at), type_) for at, (name, (type_, _)) in enumerate(VALUES.items())
    }
    columns["st"] = pa.StructArray.from_arrays([columns["i"], columns["s"]], ["x", "y"])
    columns["n"] = pa.array(range(ROWS))
    return pa.table(columns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, table: pa.Table) -> Path:
    folder = tmp_path_factory.mktemp("scanned")
    orc.write_table(table, folder / "one.orc", row_index_stride=40, stripe_size=1 << 14)
    return folder


# --- rows ------------------------------------------------------------------------------------------

LITERALS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.sampled_from([*NUMBERS, 0.5, 2.0]),
    "small": st.sampled_from([-128, 0, 1, 300, 0.5]),
    "f": st.sampled_from([*FLOATS, 1, 2**53 + 1]),
    "f32": st.sampled_from([*FLOATS, 1, 2**24 + 1, 1e300]),
    "s": st.sampled_from([*TEXTS, "zz"]),
    "day": st.sampled_from([*DAYS, TIMES[0]]),
    "at": st.sampled_from([*TIMES, DAYS[1]]),
    "amount": st.sampled_from([*AMOUNTS, Decimal("0.125"), 1, 0.25]),
    "flag": st.booleans(),
}


@st.composite
def conditions(draw: st.DrawFn) -> pl.Expr:
    name = draw(st.sampled_from(sorted(LITERALS)))
    column, value = pl.col(name), draw(LITERALS[name])
    shape = draw(st.integers(0, 9))
    if shape < 6:
        first, second = (column, pl.lit(value)) if draw(st.booleans()) else (pl.lit(value), column)
        compared = (first == second, first != second, first < second)
        return (*compared, first <= second, first > second, first >= second)[shape]
    if shape == 6:
        return column.is_null() if draw(st.booleans()) else column.is_not_null()
    if shape == 7:
        return column.is_in(draw(st.lists(st.sampled_from([*VALUES[name][1], None]), max_size=4)))
    if shape == 8 and name == "s":
        return column.str.starts_with(value)
    if shape == 9 and name in ("i", "f", "s", "day"):
        closed: Any = draw(st.sampled_from(["both", "left", "none"]))
        return column.is_between(value, draw(st.sampled_from(VALUES[name][1])), closed=closed)
    return pl.col("flag")


def joined() -> st.SearchStrategy[pl.Expr]:
    return st.recursive(
        conditions(),
        lambda part: st.one_of(
            st.tuples(part, part).map(lambda two: two[0] & two[1]),
            st.tuples(part, part).map(lambda two: two[0] | two[1]),
            part.map(lambda one: ~one),
        ),
        max_leaves=5,
    )


@settings(
    max_examples=share(1000, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(predicate=joined())
def test_the_rows_are_those_of_polars(predicate: pl.Expr, folder: Path, table: pa.Table) -> None:
    frame = pl.DataFrame(table)
    try:
        expected = frame.filter(predicate).select("n", "s")
    except pl.exceptions.PolarsError as error:
        with pytest.raises(type(error)):
            scan_orc(folder).filter(predicate).collect()
        return
    found = scan_orc(folder).filter(predicate).select("n", "s")
    assert_frame_equal(found.collect(), expected)
    asked = pushed_down(predicate, orcstream.blocking.dataset(folder).schema)
    # By itself it may keep more rows, and none less.
    kept = orcstream.blocking.dataset(folder).read(columns=["n"], where=asked).to_pylist()
    assert {row["n"] for row in kept} >= set(expected["n"])


SCHEMA = orcstream.Schema.parse(
    "struct<i:bigint,small:tinyint,f:double,f32:float,s:string,day:date,at:timestamp,"
    "z:timestamp with local time zone,amount:decimal(10,2),flag:boolean,st:struct<x:bigint>>"
)
UTC = datetime.UTC


def of(*path: str) -> ColumnRef:
    return col(path)


@pytest.mark.parametrize(
    ("predicate", "asked"),
    [
        (pl.col("i") == 7, of("i") == 7),
        (pl.col("i") > 7, ~(of("i") <= 7)),
        (pl.col("f") >= 1.5, ~(of("f") < 1.5)),
        (pl.col("s").is_in(["a", "b"]), of("s").isin(["a", "b"])),
        (pl.col("s").str.starts_with("ab"), of("s").starts_with("ab")),
        (pl.col("st").struct.field("x") < 3, of("st", "x") < 3),
        (pl.col("day") == DAYS[1], of("day") == DAYS[1]),
        (pl.col("amount") < Decimal("0.25"), of("amount") < Decimal("0.25")),
        (pl.col("i").is_between(1, 2), of("i").between(1, 2)),
        (pl.col("flag") & pl.col("i").is_null(), (of("flag") == True) & of("i").is_null()),  # noqa: E712
        # What is not understood is left out of "and", and takes the rest along otherwise.
        ((pl.col("i") == 7) & (pl.col("s").str.len_bytes() > 1), of("i") == 7),
        ((pl.col("i") == 7) | (pl.col("s").str.len_bytes() > 1), None),
        (~((pl.col("i") == 7) & (pl.col("s").str.len_bytes() > 1)), None),
        (pl.col("i") == 0.5, None),
        (pl.col("f") == NAN, None),
        (pl.col("f32") == 0.1, None),
        (pl.col("i") == pl.col("small"), None),
        (pl.col("i") + 1 == 7, None),
    ],
    ids=str,
)
def test_what_is_asked_of_files(predicate: pl.Expr, asked: Expr | None) -> None:
    assert pushed_down(predicate, SCHEMA) == asked


def test_times_are_asked_to_the_nanosecond() -> None:
    def times(expr: Expr | None) -> str:
        return repr(expr)

    assert "2024-05-01T07:00:00.000001" in times(pushed_down(pl.col("at") < TIMES[1], SCHEMA))
    with_zone = datetime.datetime(2024, 5, 1, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert "07:00" in times(pushed_down(pl.col("z") >= with_zone, SCHEMA))
    assert pushed_down(pl.col("z") >= TIMES[0], SCHEMA) is None


# --- what is read ----------------------------------------------------------------------------------


class Requests(ReadObserver):
    """How many bytes were asked for."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.count = 0

    def on_decode(self, span: DecodeSpan) -> None:
        """Not counted."""

    def on_request(self, span: RequestSpan) -> None:
        self.count += 1
        self.read_bytes += span.range.stop - span.range.start


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stripes of some row groups, more than a tail holds."""
    path = tmp_path_factory.mktemp("large") / "large.orc"
    count = 200_000
    table = pa.table(
        {
            "n": pa.array(range(count)),
            "text": [f"{number * 7919 % count:07d}" * 4 for number in range(count)],
            "x": pa.array([number * 0.37 % 1 for number in range(count)]),
        }
    )
    orc.write_table(table, path, stripe_size=1 << 20, compression="zstd")
    return path


def asked_of(large: Path, query: Any) -> int:
    requests = Requests()
    query(requests)
    return requests.read_bytes


# The tail's request is the same for all, and of this file a good part.
SMALL_TAIL = {"tail_bytes": 1 << 14}


def test_no_more_is_read_than_the_engine_reads_for_the_same_question(large: Path) -> None:
    def engine(observer: ReadObserver) -> None:
        with orcstream.blocking.open(large, observer=observer, io_options=SMALL_TAIL) as file:
            assert file.read(columns=["n", "x"], where=~(col("n") < 199_000)).num_rows == 1000

    def polars(observer: ReadObserver) -> None:
        query = (
            scan_orc(large, observer=observer, io_options=SMALL_TAIL)
            .filter(pl.col("n") >= 199_000)
            .select("n", "x")
        )
        assert query.collect().height == 1000

    def everything(observer: ReadObserver) -> None:
        assert scan_orc(large, observer=observer, io_options=SMALL_TAIL).collect().shape == (200_000, 3)

    ours = asked_of(large, engine)
    assert asked_of(large, polars) == ours
    assert asked_of(large, everything) > 10 * ours


def test_a_column_of_the_predicate_alone_is_not_handed_out(large: Path) -> None:
    found = scan_orc(large).filter(pl.col("n") < 3).select("x").collect()
    assert found.columns == ["x"] and found.height == 3


def test_the_schema_costs_a_tail_and_the_first_rows_little(large: Path) -> None:
    requests = Requests()
    lazy = scan_orc(large, observer=requests)
    assert requests.count == 0
    assert lazy.collect_schema() == {"n": pl.Int64, "text": pl.String, "x": pl.Float64}
    assert requests.count == 1
    assert lazy.head(10).collect()["n"].to_list() == list(range(10))
    assert requests.read_bytes < large.stat().st_size // 4
    assert lazy.filter(pl.col("n") > 5).head(3).collect()["n"].to_list() == [6, 7, 8]
    assert lazy.select(pl.len()).collect().item() == 200_000


def test_the_streaming_engine(large: Path) -> None:
    query = scan_orc(large, memory_limit=8 << 20).group_by(pl.col("n") % 3).agg(pl.len())
    found = query.collect(engine="streaming").sort("n")
    assert found["len"].to_list() == [66_667, 66_667, 66_666]


# --- folders, and other processes ------------------------------------------------------------------


def test_partitions_are_columns(tmp_path: Path) -> None:
    for day in ("2024-05-01", "2024-05-02"):
        (tmp_path / f"day={day}").mkdir()
        orc.write_table(pa.table({"n": [1, 2]}), tmp_path / f"day={day}" / "part.orc")
    requests = Requests()
    lazy = scan_orc(tmp_path, observer=requests)
    query = lazy.filter(pl.col("day") == datetime.date(2024, 5, 1)).select("day", "n")
    assert query.collect().rows() == [(datetime.date(2024, 5, 1), 1), (datetime.date(2024, 5, 1), 2)]
    assert lazy.group_by("day").len().collect().height == 2


def test_sent_elsewhere(folder: Path) -> None:
    lazy = scan_orc(folder).filter(pl.col("n") == 7).select("n")
    lazy.collect()
    assert pickle.loads(pickle.dumps(lazy)).collect().rows() == [(7,)]


def test_nothing_is_read_for_files_that_are_not_there(tmp_path: Path) -> None:
    lazy = scan_orc(tmp_path / "nothing.orc")
    with pytest.raises(pl.exceptions.ComputeError, match="FileNotFoundError"):
        lazy.collect()


def test_columns_that_polars_has_not(tmp_path: Path) -> None:
    schema = "struct<n:bigint,u:uniontype<bigint,string>>"
    orcstream.blocking.write(tmp_path / "unions.orc", [{"n": 1, "u": orcstream.UnionValue(0, 7)}], schema)
    with pytest.raises(pl.exceptions.ComputeError, match=r"(?i)union"):
        scan_orc(tmp_path / "unions.orc").collect()
    only = scan_orc(tmp_path / "unions.orc", schema="struct<n:bigint>")
    assert only.collect().rows() == [(1,)]


FAR = 1_577_836_800_000_000_500  # microseconds: the year 51969
FAR_TIMES = pl.Series([FAR, 1_577_836_800_000_000]).cast(pl.Datetime("us"))
FAR_DAYS = pl.Series([2_932_897 + 400, 18_262], dtype=pl.Int32).cast(pl.Date)


@pytest.mark.parametrize(
    "predicate",
    [
        pl.col("ts").is_in(FAR_TIMES.implode()),
        pl.col("ts") == pl.lit(FAR).cast(pl.Datetime("us")),
        pl.col("ts") < pl.lit(FAR).cast(pl.Datetime("us")),
        pl.col("ts") > pl.lit(-FAR).cast(pl.Datetime("us")),
        pl.col("ts") < pl.lit(FAR).cast(pl.Datetime("ms")),
        pl.col("d").is_in(FAR_DAYS.implode()),
        pl.col("d") < pl.lit(FAR_DAYS[:1]).first(),
    ],
    ids=str,
)
def test_times_that_python_does_not_know(predicate: pl.Expr, tmp_path: Path) -> None:
    path = str(tmp_path / "a.orc")
    stamps = [datetime.datetime(2020, 1, 1), None]  # noqa: DTZ001 - wall clock
    orcstream.blocking.write(path, pl.DataFrame({"ts": stamps, "d": [datetime.date(2020, 1, 1), None]}))
    frame = scan_orc(path, timestamp_unit="us")
    assert frame.filter(predicate).collect().equals(frame.collect().filter(predicate))


@pytest.mark.parametrize("count", [90, 400, 900])
def test_predicates_of_any_depth(count: int, tmp_path: Path) -> None:
    """A chain of `|` nests as deep as it is long in polars."""
    path = tmp_path / "x.orc"
    frame = pl.DataFrame({"n": range(-5, 10)})
    orcstream.blocking.write(path, frame)
    chain = functools.reduce(operator.or_, (pl.col("n") == number for number in range(count)))
    nested = functools.reduce(lambda one, number: ~(one | (pl.col("n") == number)), range(count), chain)
    for predicate in (chain, nested, chain & nested):
        assert_frame_equal(scan_orc(path).filter(predicate).collect(), frame.filter(predicate))
