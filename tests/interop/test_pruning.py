"""Statistics and bloom filters of real writers rule out what they should, and never what the rows hold."""

from __future__ import annotations

import dataclasses
import random
import unittest.mock
import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import pytest
from hypothesis import strategies as st
from pyarrow import orc

import orcstream
from orcstream.codec.metadata.bloom import hashes_of
from orcstream.codec.metadata.structure import StatisticsList
from orcstream.codec.metadata.write import serialize_statistics
from orcstream.errors import OrcError
from orcstream.plan.prune.proof import Outcome
from orcstream.query.predicate import Negation, Op
from orcstream.schema.column_statistics import ColumnStatistics, trust_of
from orcstream.schema.types import FileColumn
from tests.generators import arrow, rebuilding, strategies
from tests.interop import pruning, test_pyarrow_written
from tests.reference import corpus, java_orc, peers
from tests.reference.types import struct
from tests.support.effort import share


def tables(kinds: tuple[str, ...], *, zone: str = "UTC") -> st.SearchStrategy[strategies.Table]:
    level = st.one_of(
        strategies.leaves(kinds), strategies.structs(strategies.leaves(kinds), plain_names=True, most=3)
    )
    shapes = strategies.structs(level, plain_names=True)
    return strategies.tables(shapes, strategies.Limits(zone=zone))


def load(path: Path, **options: Any) -> pruning.Known:
    async def run() -> pruning.Known:
        return await pruning.load(path, **options)

    return anyio.run(run)


BLOOMS = {"orc.bloom.filter.columns": "a,b"}
UNITS = st.sampled_from(("us", "us", "ms", "s"))


@pytest.mark.java
@pytest.mark.usefixtures("java")
@hypothesis.settings(max_examples=share(60))
@hypothesis.given(
    table=tables(strategies.EVERYTHING),
    stride=st.sampled_from((1000, 10_000)),
    proleptic=st.booleans(),
    unit=UNITS,
    old=st.booleans(),
)
def test_java(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    stride: int,
    proleptic: bool,
    unit: str,
    old: bool,
) -> None:
    path = tmp_path_factory.mktemp("java") / "a.orc"
    options = {
        "orc.row.index.stride": stride,
        "orc.proleptic.gregorian": proleptic,
        "orc.stripe.row.count": 2000,
        "orc.bloom.filter.columns": ",".join(table.type_.names),
        "orc.bloom.filter.write.version": "original" if old else "utf8",
    }
    java_orc.write(path, table.type_, table.rows, options=options)
    pruning.check_many(load(path, unit=unit, original_blooms=old), table.seed)


@hypothesis.settings(max_examples=share(60))
@hypothesis.given(
    table=tables(strategies.EVERYTHING), stride=st.sampled_from((100, 1000)), unit=UNITS, blooms=st.booleans()
)
def test_pyorc(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, stride: int, unit: str, blooms: bool
) -> None:
    path = tmp_path_factory.mktemp("pyorc") / "a.orc"
    columns: dict[str, Any] = (
        {"bloom_filter_columns": list(range(1, len(table.type_.flatten())))} if blooms else {}
    )
    peers.write_pyorc(path, table.type_, table.rows, row_index_stride=stride, stripe_size=16_384, **columns)
    pruning.check_many(load(path, unit=unit), table.seed)


@hypothesis.settings(max_examples=share(40))
@hypothesis.given(
    table=tables((*strategies.PLAIN, "timestamp with local time zone")),
    options=strategies.cpp_options(),
    unit=UNITS,
)
def test_pyarrow(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any], unit: str
) -> None:
    path = tmp_path_factory.mktemp("pyarrow") / "a.orc"
    test_pyarrow_written.write(path, table, {**options, "bloom": True, "row_index_stride": 100})
    pruning.check_many(load(path, unit=unit), table.seed)


@pytest.mark.java
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("zone", [*strategies.ZONES, "Pacific/Apia", "America/New_York"])
@hypothesis.settings(max_examples=share(4))
@hypothesis.given(seed=st.integers(0, 2**32), pyorc=st.booleans())
def test_zones(tmp_path_factory: pytest.TempPathFactory, zone: str, seed: int, pyorc: bool) -> None:
    """Steps of minutes over whole years: statistics of every row group around a change of clocks."""
    path = tmp_path_factory.mktemp("zone") / "a.orc"
    rng = random.Random(seed)
    start = rng.randrange(-2_300_000_000, 4_500_000_000)
    step = rng.choice((7, 60, 1800, 86_399))
    rows = [((start + step * i) * 10**9 + rng.randrange(10**9),) * 2 for i in range(3000)]
    type_ = struct(a="timestamp", b="timestamp with local time zone")
    if pyorc:
        peers.write_pyorc(path, type_, rows, timezone=zoneinfo.ZoneInfo(zone), row_index_stride=100)
    else:
        java_orc.write(path, type_, rows, options={"orc.row.index.stride": 1000}, zone=zone)
    known = load(path)
    assert known.stripes[0].zone == zone
    pruning.check_many(known, seed)


@pytest.mark.java
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("writer", ["java", "pyorc", "pyarrow"])
@hypothesis.settings(max_examples=share(6))
@hypothesis.given(seed=st.integers(0, 2**32))
def test_around_1970(tmp_path_factory: pytest.TempPathFactory, writer: str, seed: int) -> None:
    """Writers cut toward zero there, each in its way: row groups of a second or less, on both sides."""
    path = tmp_path_factory.mktemp("epoch") / "a.orc"
    rng = random.Random(seed)
    span = rng.choice((10**4, 10**7, 10**9, 3 * 10**9))
    times = sorted(rng.randint(-span, span) for _ in range(3000 if writer == "java" else 1000))
    type_ = struct(a="timestamp", b="timestamp with local time zone")
    rows = [(time, time) for time in times]
    if writer == "java":
        java_orc.write(path, type_, rows, options={"orc.row.index.stride": 1000, **BLOOMS})
    elif writer == "pyorc":
        peers.write_pyorc(path, type_, rows, row_index_stride=20, bloom_filter_columns=[1, 2])
    else:
        table = arrow.table_of(type_, rows)
        orc.write_table(table, path, row_index_stride=20, bloom_filter_columns=[1, 2], batch_size=20)
    known = load(path, unit=rng.choice(("ns", "ns", "us", "ms", "s")))
    pruning.check_many(known, seed, count=20)
    for literal in rng.sample(known.values["a",], 10):
        for column in ("a", "b"):
            pruning.check(known, known.leaf((column,), Op.IN, literal))
            pruning.check(known, known.leaf((column,), Op.LESS_EQUAL, literal))
            pruning.check(known, known.leaf((column,), Op.GREATER_EQUAL, literal))


@pytest.mark.parametrize("writer", ["pyorc", "pyarrow"])
@hypothesis.settings(max_examples=share(10))
@hypothesis.given(seed=st.integers(0, 2**32))
def test_texts_with_nul(tmp_path_factory: pytest.TempPathFactory, writer: str, seed: int) -> None:
    """The C++ library's bounds take a text to end at its first NUL."""
    path = tmp_path_factory.mktemp("nul") / "a.orc"
    rng = random.Random(seed)
    type_ = struct(a="string")
    rows = [("".join(rng.choices("a\x00\x01b", k=rng.randint(0, 4))),) for _ in range(300)]
    if writer == "pyorc":
        peers.write_pyorc(path, type_, rows, row_index_stride=5)
    else:
        orc.write_table(arrow.table_of(type_, rows), path, row_index_stride=5, batch_size=5)
    known = load(path)
    assert known.stripes[0].row_counts[0] == 5
    for literal in rng.sample(known.values["a",], 30):
        for op in (Op.IN, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL, Op.STARTS_WITH):
            pruning.check(known, known.leaf(("a",), op, literal))


@pytest.mark.parametrize("writer", ["pyorc", "pyarrow"])
def test_filters_of_small_integers(tmp_path: Path, writer: str) -> None:
    """The C++ library hashes what is left of the values of a TINYINT after it has packed them in place."""
    path = tmp_path / "a.orc"
    type_ = struct(a="tinyint")
    rows = [(number,) for number in range(-128, 128)]
    if writer == "pyorc":
        peers.write_pyorc(path, type_, rows, bloom_filter_columns=[1])
    else:
        orc.write_table(arrow.table_of(type_, rows), path, bloom_filter_columns=[1])
    known = load(path)
    assert list(known.stripes[0].blooms) == [1]
    for (number,) in rows:
        pruning.check(known, known.leaf(("a",), Op.IN, number))


@pytest.mark.java
@pytest.mark.usefixtures("java")
def test_original_filters_in_the_charset_of_a_jvm(tmp_path: Path) -> None:
    """They are of the text in the charset of the writer's machine (ORC-101): often US-ASCII in containers."""
    path = tmp_path / "a.orc"
    rows = [("größe",), ("plain",), ("日本",)]
    options = {"orc.bloom.filter.columns": "a", "orc.bloom.filter.write.version": "original"}
    java_orc.write(path, struct(a="string"), rows, options=options, charset="US-ASCII")
    for original in (True, False):
        known = load(path, original_blooms=original)
        assert known.stripes[0].blooms[FileColumn(1)].utf8 is not original
        for (text,) in rows:
            pruning.check(known, known.leaf(("a",), Op.IN, text.encode()))
            pruning.check(known, known.leaf(("a",), Op.IN, *sorted((b"other", text.encode()))))


@pytest.mark.parametrize(("writer", "believed"), [(1, True), (3, False), (5, False)])
def test_times_are_refused_on_statistics_that_hold(tmp_path: Path, writer: int, believed: bool) -> None:
    """A file says that its times are beyond 64 bits of nanoseconds, and they are not: who says so decides."""
    path = tmp_path / "a.orc"
    peers.write_pyorc(path, struct(a="timestamp"), [(0,), (10**18,)], compression=0)
    parts = rebuilding.Parts(path.read_bytes())
    (root, _) = parts.tail.footer.statistics.serialized
    beyond = ColumnStatistics(value_count=2, has_null=False, kind="timestamp", minimum=0, maximum=10**19)
    statistics = StatisticsList((root, serialize_statistics(beyond)))
    path.write_bytes(rebuilding.rebuilt(parts, writer=writer, software_version=None, statistics=statistics))

    async def rows() -> int:
        async with orcstream.open(str(path)) as file:
            return (await file.read()).num_rows

    if believed:
        with pytest.raises(orcstream.Unsupported, match="statistics"):
            anyio.run(rows)
    else:
        assert anyio.run(rows) == 2


def test_the_last_times_that_fit_are_read(tmp_path: Path) -> None:
    """Statistics tell the millisecond, of which a part may be beyond 64 bits of nanoseconds."""
    path = tmp_path / "a.orc"
    rows = [(-(1 << 63),), ((1 << 63) - 1,)]
    peers.write_pyorc(path, struct(a="timestamp with local time zone"), rows, compression=0)
    parts = rebuilding.Parts(path.read_bytes())
    (root, _) = parts.tail.footer.statistics.serialized
    first, last = (ms // 10**6 * 10**6 for (ms,) in rows)
    bounds = ColumnStatistics(
        value_count=2, has_null=False, kind="timestamp", minimum=first, maximum=last + 999_999
    )
    statistics = StatisticsList((root, serialize_statistics(bounds)))
    path.write_bytes(rebuilding.rebuilt(parts, statistics=statistics))
    known = load(path)
    assert known.values["a",] == [one for (one,) in rows]


def test_corpus(corpus_folder: Path) -> None:
    """Files of all writers that there are, believed as `trust_of` says."""
    checked = 0
    for entry in corpus.manifest(corpus_folder)["files"]:
        path = corpus_folder / entry["path"]
        if path.stat().st_size > 3_000_000:
            continue
        try:
            if anyio.run(_row_count, path) > 10_000:  # its rows would be made for nothing
                continue
            known = load(path, unit="us")
        except OrcError:
            continue
        if known.row_count and list(known.columns()):
            count = share(60_000, 3) // (known.row_count + 3000) + 1
            pruning.check_many(known, seed=len(entry["path"]), count=count)
            checked += 1
    assert checked > 100


async def _row_count(path: Path) -> int:
    async with orcstream.open(str(path)) as file:
        return file.row_count


def test_filters_of_a_wrong_hash(corpus_folder: Path) -> None:
    """ORC-1024: C++ 1.6.0 hashed 18,000,000,000 as nobody else does."""
    known = load(corpus_folder / "apache-orc/bad_bloom_filter_1.6.0.orc")
    leaf = known.leaf(("id",), Op.IN, 18_000_000_000)
    assert 18_000_000_000 in known.values[("id",)]
    assert Outcome.TRUE in pruning.outcomes_of(known, leaf)[1][0][0]
    believing = trust_of(1, 6, "2.1.0", (0, 12))
    deceived = dataclasses.replace(known, trust=believing)
    assert pruning.outcomes_of(deceived, leaf)[1][0] == [Outcome.FALSE]


def test_filters_of_a_right_hash(corpus_folder: Path) -> None:
    """The file's every second number and name is there, those between are not."""
    known = load(corpus_folder / "orc-rust/bloom_filter.orc")
    for path, wanted in ((("id",), 102), (("name",), b"name_1x"), (("dec",), 10_201), (("score",), 102.0)):
        outcome = pruning.outcomes_of(known, known.leaf(path, Op.IN, wanted))[1][0]
        assert outcome == [Outcome.FALSE], path


def test_both_forms_of_an_encrypted_column(corpus_folder: Path) -> None:
    """ORC-991: the first half of the entries tells the secrets; what is read is the other half."""
    known = load(corpus_folder / "apache-orc/encrypted/sample1.orc")
    ssn, email = known.leaf(("ssn",), Op.IS_NULL), known.leaf(("email",), Op.GREATER, b"a")
    assert known.values == {
        ("ssn",): [None],
        ("email",): known.values[("email",)],
        ("name",): [b"Dongjoon Hyun"],
    }
    for leaf in (ssn, email):
        pruning.check(known, leaf)
    assert pruning.outcomes_of(known, ssn)[1][0] == [Outcome.TRUE]
    assert pruning.outcomes_of(known, email)[1][0] == [Outcome.FALSE]


# --- what must be ruled out ------------------------------------------------------------------------

ROWS = 5000
POWER: dict[str, tuple[Any, Any, Any]] = {
    # What is written in row i; a canonical literal between the rows; one beyond them all.
    "tinyint": (lambda i: i // 1000, None, 5),
    "smallint": (lambda i: 2 * i, 1001, 10_001),
    "int": (lambda i: 2 * i, 1001, 10_001),
    "bigint": (lambda i: 2 * i << 40, 1001 << 40, 10_001 << 40),
    "float": (lambda i: i / 4, 100.125, 1251.0),
    "double": (lambda i: i / 10, 10.05, 501.0),
    "string": (lambda i: f"key {2 * i:06}", b"key 001001", b"key 01"),
    "varchar(20)": (lambda i: f"key {2 * i:06}", b"key 001001", b"key 01"),
    "binary": (lambda i: b"key %d" % (2 * i), b"key 1001", None),
    "decimal(10,2)": (lambda i: Decimal(2 * i).scaleb(-2), 1001, 10_001),
    "decimal(30,2)": (lambda i: Decimal(2 * i).scaleb(-2), 1001, 10_001),
    "date": (lambda i: 2 * i, 1001, 10_001),
    "timestamp": (lambda i: (2 * i + 10**6) * 10**9, (1001 + 10**6) * 10**9, (120_000 + 10**6) * 10**9),
}


@pytest.mark.parametrize("text", POWER)
@pytest.mark.parametrize("writer", ["java", "original", "pyorc"])
def test_ruled_out(tmp_path: Path, text: str, writer: str, java: None) -> None:
    make, between, beyond = POWER[text]
    path = tmp_path / "a.orc"
    type_ = struct(a=text)
    rows = [(make(i),) for i in range(ROWS)]
    if writer == "pyorc":
        peers.write_pyorc(path, type_, rows, row_index_stride=1000, bloom_filter_columns=[1])
    else:
        options = {"orc.row.index.stride": 1000, "orc.bloom.filter.columns": "a"}
        options["orc.bloom.filter.write.version"] = "original" if writer == "original" else "utf8"
        java_orc.write(path, type_, rows, options=options)
    known = load(path, original_blooms=writer == "original")
    if beyond is not None:
        for op in (Op.IN, Op.GREATER_EQUAL):
            by_stripe, (by_group,) = pruning.outcomes_of(known, known.leaf(("a",), op, beyond))
            assert by_stripe == [Outcome.FALSE]
            assert by_group == [Outcome.FALSE] * 5
        by_stripe, (by_group,) = pruning.outcomes_of(known, Negation(known.leaf(("a",), Op.LESS, beyond)))
        assert by_stripe == [Outcome.FALSE]
    if between is None:
        return
    by_stripe, (by_group,) = pruning.outcomes_of(known, known.leaf(("a",), Op.IN, between))
    assert by_stripe == [Outcome.TRUE | Outcome.FALSE]
    assert by_group[1:] == [Outcome.FALSE] * 4 or text == "binary"
    null = known.leaf(("a",), Op.IS_NULL)
    assert pruning.outcomes_of(known, null) == ([Outcome.FALSE], [[Outcome.FALSE] * 5])
    # The filters alone. Of a hundred values some 5 are found in the filter of a group where they are not.
    alone = dataclasses.replace(known, trust=dataclasses.replace(known.trust, bounds=frozenset()))
    ruled_out = 0
    for row, literal in list(enumerate(known.values[("a",)]))[::50]:
        _, (by_group,) = pruning.outcomes_of(alone, alone.leaf(("a",), Op.IN, literal))
        assert Outcome.TRUE in by_group[row // 1000]
        ruled_out += by_group.count(Outcome.FALSE)
    believed = writer != "original" or not text.startswith(("decimal", "timestamp"))
    assert ruled_out > 0.85 * 400 if believed else ruled_out == 0


def test_all_null_and_none_null(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    type_ = struct(a="int", s=struct(b="string"))
    rows = [(None, ("x",))] * 1000 + [(1, ("x",))] * 1000 + [(1, None)] * 1000
    peers.write_pyorc(path, type_, rows, row_index_stride=1000)
    known = load(path)
    _, (groups,) = pruning.outcomes_of(known, known.leaf(("a",), Op.IS_NULL))
    assert groups == [Outcome.TRUE, Outcome.FALSE, Outcome.FALSE]
    _, (groups,) = pruning.outcomes_of(known, known.leaf(("a",), Op.IN, 1))
    assert groups == [Outcome.NULL, Outcome.TRUE, Outcome.TRUE]
    _, (groups,) = pruning.outcomes_of(known, known.leaf(("s",), Op.IS_NULL))
    assert groups == [Outcome.FALSE, Outcome.FALSE, Outcome.TRUE]
    _, (groups,) = pruning.outcomes_of(known, known.leaf(("s", "b"), Op.STARTS_WITH, b"x"))
    assert groups[:2] == [Outcome.TRUE, Outcome.TRUE]
    assert Outcome.NULL in groups[2]


@pytest.mark.sampled
@pytest.mark.parametrize("writer", ["pyorc", "pyarrow"])
@pytest.mark.parametrize("text", ["tinyint", "smallint", "int", "bigint", "float", "double"])
def test_every_value_is_found_under_cpp_s_filters(tmp_path: Path, writer: str, text: str) -> None:
    """Of TINYINT, ORC C++ hashes other numbers for the first eighth of what it is given at once."""
    type_ = struct(n="int", x=text)
    numbers = [*range(-100, 100)]
    random.Random(1).shuffle(numbers)
    rows = [(row, float(x) if text in ("float", "double") else x) for row, x in enumerate(numbers)]
    path = tmp_path / "cpp.orc"
    if writer == "pyorc":
        peers.write_pyorc(path, type_, rows, bloom_filter_columns=[2], bloom_filter_fpp=0.001)
    else:
        orc.write_table(arrow.table_of(type_, rows), path, bloom_filter_columns=[2], bloom_filter_fpp=0.001)
    with orcstream.blocking.open(path) as file:
        found = [file.read(where=orcstream.col("x") == x).to_pylist() for _, x in rows]
    assert found == [[{"n": n, "x": x}] for n, x in rows]


def test_literals_are_not_hashed_for_every_stripe(tmp_path: Path) -> None:
    """Nor for each filter: a hundred stripes and ten lists of two thousand took 14 s."""
    path = tmp_path / "stripes.orc"
    names, stripes = ("a", "b", "c"), 20
    schema = f"struct<{','.join(f'{name}:bigint' for name in names)}>"
    with orcstream.blocking.create(path, schema, blooms=names, stripe_bytes=1024, row_index_stride=50) as out:
        rng = random.Random(1)
        for _ in range(stripes):
            rows = [(0, 0, 0), (1 << 40, 1 << 40, 1 << 40)]
            rows += [(rng.getrandbits(40), rng.getrandbits(40), rng.getrandbits(40)) for _ in range(698)]
            out.write(rows)
    literals = range(1 << 39, (1 << 39) + 1000)  # between the bounds of every stripe
    where = orcstream.col("a").isin(literals) | orcstream.col("b").isin(literals)
    where |= orcstream.col("c").isin(literals)
    with (
        unittest.mock.patch("orcstream.plan.prune.proof.hashes_of", wraps=hashes_of) as hashing,
        orcstream.blocking.open(path) as file,
    ):
        assert len(file.stripes) > stripes // 2
        assert file.read(where=where).num_rows == 0
    whole = sum(len(call.args[1]) == len(literals) for call in hashing.call_args_list)
    assert whole <= 3 * len(names)  # for the file, its stripes, and their groups
