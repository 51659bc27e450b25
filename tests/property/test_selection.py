"""Selections of files that the plain-Python reference built: with and without indexes, honest and not.

Whatever the predicate, range, seek or row numbers: the rows are those of a full read, filtered by plain
Python.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.generators.predicates import Ask, Not, literal_of
from tests.reference import compression, statistics
from tests.reference.builder import FileBuilder, Options
from tests.reference.columns import Encoder, add_stripe
from tests.reference.indexes import Index
from tests.reference.types import T, parse
from tests.support import selecting
from tests.support.effort import share, some
from tests.support.selecting import API

SCHEMAS = strategies.schemas(strategies.EVERYTHING, unions=True)
FLAT = strategies.schemas(strategies.PLAIN, depth=1)
INDEXES = st.one_of(
    st.none(),
    st.builds(
        Index,
        stride=st.sampled_from((10, 25, 100, 1000, 10_000)),
        bloom_kinds=st.sampled_from(((), (), (7,), (8,), (7, 8))),
        bloom_share=st.sampled_from((0.01, 0.2)),
        runs_back=st.sampled_from((0, 0, 0, 1, 3)),
        late=st.booleans(),
        statistics=st.sampled_from(
            (
                statistics.honest,
                statistics.honest,
                statistics.counts_only,
                statistics.without_nulls_flag,
                statistics.of_nothing,
            )
        ),
    ),
)


@dataclass(frozen=True)
class Form:
    """How a file is laid out."""

    index: Index | None
    version: int = 2
    present: bool = False
    dictionary: bool = False
    codec: int = compression.ZLIB
    block_size: int = 65_536
    stripe_rows: int = 1000
    statistics: statistics.Statistics | None = statistics.honest
    writer: int = 0
    writer_version: int = 9
    software: str | None = "2.0.0"


FORMS = st.builds(
    Form,
    index=INDEXES,
    version=st.sampled_from((1, 2)),
    present=st.booleans(),
    dictionary=st.booleans(),
    codec=st.sampled_from((compression.NONE, compression.ZLIB)),
    block_size=st.sampled_from((16, 100, 1000, 65_536)),
    stripe_rows=st.sampled_from((37, 400, 100_000)),
    statistics=st.sampled_from((None, statistics.honest, statistics.without_nulls_flag)),
)


def build(type_: T, rows: Sequence[Any], form: Form) -> bytes:
    options = Options(
        compression=form.codec,
        block_size=form.block_size,
        stride=form.index.stride if form.index else 0,
        statistics=form.statistics,
        writer=form.writer,
        writer_version=form.writer_version,
        software=form.software,
    )
    builder = FileBuilder(type_, options)
    for start in range(0, len(rows), form.stripe_rows):
        encoder = Encoder(
            version=form.version, present=form.present, dictionary=form.dictionary, index=form.index
        )
        add_stripe(builder, rows[start : start + form.stripe_rows], encoder)
    return builder.build()


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(
    table=strategies.tables(st.one_of(SCHEMAS, FLAT)),
    form=FORMS,
    late=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_any_selection(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, form: Form, *, late: bool, seed: int
) -> None:
    path = tmp_path_factory.mktemp("selected") / "any.orc"
    path.write_bytes(build(table.type_, table.rows, form))
    with selecting.predicate_first(late):
        selecting.run(path, table.type_, seed)


@hypothesis.settings(max_examples=share(12))
@hypothesis.given(
    kind=st.sampled_from(("int", "bigint", "string", "double", "date", "timestamp", "decimal(12,3)")),
    nulls=st.sampled_from(("none", "all", "by group", "by stripe", "some")),
    ascending=st.booleans(),
    form=FORMS,
    late=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_pruning_where_it_pays(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    nulls: str,
    *,
    ascending: bool,
    form: Form,
    late: bool,
    seed: int,
) -> None:
    """Clustered values, so that statistics drop whole groups and stripes; nulls at the same borders."""
    type_ = parse(f"struct<v:{kind},n:int,s:struct<v:{kind},l:array<int>>>")
    rng = random.Random(seed)
    numbers = [row // 3 if ascending else rng.randrange(300) // 10 * 10 for row in range(900)]
    stride = form.index.stride if form.index else 100

    def value(row: int) -> Any:
        border = {"by group": row // stride, "by stripe": row // form.stripe_rows}.get(nulls)
        if nulls == "all" or (border is not None and border % 2) or (nulls == "some" and rng.random() < 0.3):
            return None
        return _value(kind, numbers[row])

    rows = [(value(row), row, (value(row), [row] * (row % 3)) if row % 7 else None) for row in range(900)]
    path = tmp_path_factory.mktemp("clustered") / "any.orc"
    path.write_bytes(build(type_, rows, form))
    with selecting.predicate_first(late):
        selecting.run(path, type_, seed)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@hypothesis.settings(max_examples=share(10))
@hypothesis.given(form=FORMS, seed=st.integers(0, 2**32))
def test_times_are_compared_as_delivered(
    tmp_path_factory: pytest.TempPathFactory, unit: str, form: Form, seed: int
) -> None:
    """Literals are finer than the unit; statistics too."""
    type_ = parse("struct<t:timestamp,i:timestamp with local time zone>")
    rows = strategies.make_table(type_, 500, seed, strategies.Limits()).rows
    path = tmp_path_factory.mktemp("units") / "any.orc"
    path.write_bytes(build(type_, rows, form))
    selecting.run(path, type_, seed, timestamp_unit=unit)


def _value(kind: str, number: int) -> Any:
    if kind == "string":
        return f"word {number:04}"
    if kind == "double":
        return number / 8
    if kind == "timestamp":
        return number * 3_600_000_123_456
    if kind.startswith("decimal"):
        return Decimal(number).scaleb(-3)
    return number


# --- writers that are not believed -------------------------------------------------------------------

LYING = Index(stride=50, statistics=statistics.of_the_first)
FORGETFUL = Index(stride=50, bloom_kinds=(8,), empty_blooms=True)
ABOVE_GROUPS = replace(LYING, statistics=statistics.honest)
LIE = statistics.of_the_first
LIES = {
    # HIVE-8732: bounds of some types above row groups.
    "string bounds of the first writers": ("string", Form(ABOVE_GROUPS, statistics=LIE, writer_version=0)),
    "date bounds of the first writers": ("date", Form(ABOVE_GROUPS, statistics=LIE, writer_version=0)),
    "timestamp bounds of the first writers": (
        "timestamp",
        Form(ABOVE_GROUPS, statistics=LIE, writer_version=0),
    ),
    "decimal bounds of the first writers": (
        "decimal(12,3)",
        Form(ABOVE_GROUPS, statistics=LIE, writer_version=0),
    ),
    # HIVE-20604: neither values nor nulls are no proof that there are no rows.
    "statistics of nothing": (
        "bigint",
        Form(Index(stride=50, statistics=statistics.of_nothing), statistics=statistics.of_nothing),
    ),
    # ORC-135: milliseconds of an unknown wall clock.
    "local times": (
        "timestamp",
        Form(
            replace(LYING, statistics=statistics.local_times(LIE)),
            statistics=statistics.local_times(LIE),
            writer_version=5,
        ),
    ),
    # ORC-517: decimals of up to 18 digits, of ORC Java 1.5.0 to 1.5.5.
    "short decimals": ("decimal(12,3)", Form(LYING, statistics=LIE, writer_version=6)),
    # Filters of other bytes than UTF-8, of decimals, of local times.
    "old filters of texts": ("string", Form(replace(FORGETFUL, bloom_kinds=(7,)), writer_version=2)),
    "old filters of decimals": ("decimal(12,3)", Form(replace(FORGETFUL, bloom_kinds=(7,)))),
    "old filters of times": ("timestamp", Form(replace(FORGETFUL, bloom_kinds=(7,)), writer_version=5)),
    "filters of local times": ("timestamp", Form(replace(FORGETFUL, bloom_encoding=0))),
    "filters of the future": ("bigint", Form(replace(FORGETFUL, bloom_encoding=2))),
    "filters of the first C++ writers": (
        "bigint",
        Form(FORGETFUL, writer=1, writer_version=6, software=None),
    ),
    "filters of C++ 1.6.3": ("bigint", Form(FORGETFUL, writer=1, writer_version=6, software="1.6.3")),
    "filters of C++ 1.7.0": ("bigint", Form(FORGETFUL, writer=1, writer_version=6, software="1.7.0")),
}


@pytest.mark.parametrize("name", LIES)
def test_what_is_not_believed_drops_nothing(tmp_path: Path, name: str) -> None:
    kind, form = LIES[name]
    type_ = parse(f"struct<v:{kind}>")
    rows = [(_value(kind, row),) for row in range(1000)]
    path = tmp_path / "lying.orc"
    path.write_bytes(build(type_, rows, replace(form, stripe_rows=400)))
    (v,) = type_.children

    async def go() -> None:
        await selecting.check(path, type_, 1)
        async with API.open(str(path)) as file:
            for number in some((777, 0, 5, 420, 999)):
                literals = (rows[number][0],)
                for question in ("=", "in", "<=", ">="):
                    node = Ask(("v",), v, question, literals)
                    await selecting.check_predicate(file, type_, rows, node, random.Random(number))

    selecting.run_async(go)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("bigint", Form(LYING, statistics=LIE)),
        ("string", Form(FORGETFUL)),
        ("bigint", Form(FORGETFUL, writer=1, writer_version=6, software="1.8.0")),
        ("decimal(12,3)", Form(LYING, statistics=LIE, writer_version=7)),
    ],
)
async def test_what_is_believed_would_drop(tmp_path: Path, kind: str, form: Form) -> None:
    """The lies above are lies: told by a writer that is believed, they cost rows."""
    type_ = parse(f"struct<v:{kind}>")
    rows = [(_value(kind, row),) for row in range(1000)]
    path = tmp_path / "lying.orc"
    path.write_bytes(build(type_, rows, replace(form, stripe_rows=400)))
    async with API.open(str(path)) as file:
        where = API.col("v") == literal_of(type_.children[0], rows[777][0])
        assert (await file.read(where=where)).num_rows == 0


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("at", [0, 10, 999])
async def test_bounds_beside_nan(tmp_path: Path, kind: str, at: int) -> None:
    """A NaN at first stays both bounds, a later one leaves no trace in them: neither proves anything."""
    type_ = parse(f"struct<v:{kind}>")
    rows = [(float("nan") if row == at else row / 8,) for row in range(1000)]
    path = tmp_path / "nan.orc"
    path.write_bytes(build(type_, rows, Form(Index(stride=50, bloom_kinds=(8,)))))
    v = type_.children[0]
    asks = (Ask(("v",), v, "=", (5.0,)), Not(Ask(("v",), v, "<", (200.0,))), Ask(("v",), v, "!=", (1e9,)))
    async with API.open(str(path)) as file:
        for node in asks:
            await selecting.check_predicate(file, type_, rows, node, random.Random(1))


async def test_zeros_of_both_signs_are_one_value(tmp_path: Path) -> None:
    """They are equal, but hash apart: a filter alone would lose them."""
    type_ = parse("struct<v:double>")
    rows = [(-0.0 if row % 2 else row + 1.0,) for row in range(200)]
    path = tmp_path / "zeros.orc"
    path.write_bytes(build(type_, rows, Form(Index(stride=50, bloom_kinds=(7, 8)))))
    async with API.open(str(path)) as file:
        for zero in (0.0, -0.0):
            assert (await file.read(where=API.col("v") == zero)).num_rows == 100
            assert (await file.read(where=API.col("v").isin([zero, 1e9]))).num_rows == 100


async def test_a_double_that_no_float_holds(tmp_path: Path) -> None:
    type_ = parse("struct<v:float>")
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    path = tmp_path / "floats.orc"
    path.write_bytes(build(type_, [(tenth,)] * 100, Form(Index(stride=50, bloom_kinds=(8,)))))
    async with API.open(str(path)) as file:
        assert (await file.read(where=API.col("v") == 0.1)).num_rows == 0
        assert (await file.read(where=API.col("v") == tenth)).num_rows == 100
        assert (await file.read(where=API.col("v") > 0.1)).num_rows == (100 if tenth > 0.1 else 0)


async def test_long_texts_have_cut_bounds(tmp_path: Path) -> None:
    """Beyond 1024 bytes statistics hold a lower and an upper bound, neither of which is a value."""
    type_ = parse("struct<v:string>")
    rows = [(f"{row:03}" * 600,) for row in range(200)] + [("~" * 1024,), ("~" * 1025,)]
    path = tmp_path / "long.orc"
    path.write_bytes(build(type_, rows, Form(Index(stride=10))))
    v = type_.children[0]
    async with API.open(str(path)) as file:
        for literal in (rows[77][0], rows[77][0][:1024], "~" * 1024, "~" * 1025, "~" * 1026, "\x7f"):
            for question in ("=", "<", "<=", ">", ">="):
                node = Ask(("v",), v, question, (literal,))
                await selecting.check_predicate(file, type_, rows, node, random.Random(1))


async def test_padded_char_is_compared_as_delivered(tmp_path: Path) -> None:
    type_ = parse("struct<v:char(5)>")
    rows = [(word,) for word in ("ab   ", "ab", "b    ", "a    ")]
    path = tmp_path / "char.orc"
    path.write_bytes(build(type_, rows, Form(Index(stride=2, bloom_kinds=(8,)))))
    async with API.open(str(path)) as file:
        delivered = [row["v"] for row in (await file.read()).to_pylist()]
        for literal in (*delivered, "ab", "a", "ab   "):
            found = await file.read(where=API.col("v") == literal)
            assert [row["v"] for row in found.to_pylist()] == [v for v in delivered if v == literal]


# --- damaged indexes ---------------------------------------------------------------------------------


@hypothesis.given(seed=st.integers(0, 2**32), codec=st.sampled_from((compression.NONE, compression.ZLIB)))
def test_wrong_positions_give_errors_or_rows_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, seed: int, codec: int
) -> None:
    """No checksum tells; but only `FormatError` or `Unsupported` come out, and no read hangs."""
    rng = random.Random(seed)
    type_ = parse("struct<a:int,s:string,b:boolean,l:array<decimal(9,2)>>")
    rows = strategies.make_table(type_, 500, seed, strategies.Limits()).rows

    def wrong(_column: int, _group: int, numbers: list[int]) -> list[int]:
        if rng.random() < 0.7 or not numbers:
            return numbers
        at = rng.randrange(len(numbers))
        change = rng.choice((0, 1, numbers[at] + 1, numbers[at] * 2, 1 << 40, (1 << 64) - 1))
        return [*numbers[:at], change, *numbers[at + 1 :]][: rng.choice((99, 99, at))]

    index = Index(stride=50, positions=wrong)
    path = tmp_path_factory.mktemp("wrong") / "any.orc"
    path.write_bytes(build(type_, rows, Form(index, codec=codec, block_size=100, stripe_rows=250)))
    selecting.run_damaged(path, seed)
