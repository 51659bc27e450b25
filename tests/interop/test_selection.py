"""Selections of files that others wrote: pyarrow, pyorc, ORC Java and the corpus' many writers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.codec.decode import _column
from orcstream.reader.engine import decoding
from tests.generators import strategies
from tests.generators.predicates import Ask
from tests.golden import test_corpus
from tests.golden.corpus_table import TABLE
from tests.interop import test_java_written, test_pyarrow_written, test_pyorc_written
from tests.reference import compare, java_orc, reader
from tests.support import selecting
from tests.support.effort import share, some
from tests.support.selecting import API

SEEDS = st.integers(0, 2**32)
SMALL = st.fixed_dictionaries(
    {"compression": st.sampled_from(strategies.CPP_COMPRESSIONS)},
    optional={
        "compression_block_size": st.sampled_from((1024, 4096, 65536)),
        "stripe_size": st.sampled_from((1024, 16_384, 1 << 20)),
        "batch_size": st.sampled_from((10, 100)),
        "row_index_stride": st.sampled_from((0, 10, 100, 1000)),
        "dictionary_key_size_threshold": st.sampled_from((0.0, 1.0)),
        "bloom": st.just(value=True),
    },
)
LIMITS = strategies.Limits(first_day=-141_427)


@hypothesis.settings(max_examples=share(20))
@hypothesis.given(table=strategies.tables(test_pyarrow_written.SCHEMAS), options=SMALL, seed=SEEDS)
def test_of_pyarrow(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any], seed: int
) -> None:
    path = tmp_path_factory.mktemp("pyarrow") / "any.orc"
    test_pyarrow_written.write(path, table, options)
    selecting.run(path, table.type_, seed)


@hypothesis.settings(max_examples=share(20))
@hypothesis.given(
    table=strategies.tables(test_pyorc_written.SCHEMAS, LIMITS),
    options=SMALL,
    zone=st.sampled_from(strategies.ZONES),
    seed=SEEDS,
)
def test_of_pyorc(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, Any],
    zone: str,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("pyorc") / "any.orc"
    test_pyorc_written.write(path, table, options, zone)
    selecting.run(path, table.type_, seed)


@pytest.mark.java
@pytest.mark.usefixtures("java")
@hypothesis.settings(max_examples=share(20))
@hypothesis.given(
    table=strategies.tables(test_java_written.SCHEMAS),
    options=strategies.java_options(),
    zone=st.sampled_from(strategies.ZONES),
    seed=SEEDS,
)
def test_of_java(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, object],
    zone: str,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("java") / "any.orc"
    test_java_written.write(path, table, options, zone)
    selecting.run(path, table.type_, seed)


# --- against the others' own selections --------------------------------------------------------------


@pytest.mark.java
@pytest.mark.usefixtures("java")
@hypothesis.settings(max_examples=share(15))
@hypothesis.given(
    table=strategies.tables(test_java_written.SCHEMAS), options=strategies.java_options(), seed=SEEDS
)
def test_java_seeks_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, object],
    seed: int,
) -> None:
    hypothesis.assume(table.rows)
    options.pop("bloom", None)  # Java cannot seek by itself where there are filters
    path = tmp_path_factory.mktemp("java") / "any.orc"
    test_java_written.write(path, table, options)
    type_ = table.type_
    rng = random.Random(seed)

    async def go() -> None:
        async with API.open(str(path)) as file:
            for _ in range(5):
                row = rng.randrange(len(table.rows))
                theirs = java_orc.read_from(path, type_, row, 20)
                stop = min(len(table.rows), row + 20)
                ours = selecting.result_rows(await file.read(rows=range(row, stop)), type_)
                wanted = compare.arrow_shaped(type_, theirs)
                compare.assert_same_rows(type_, ours, wanted)

    selecting.run_async(go)


@pytest.mark.parametrize("preset", ["clustered", "scattered"])
async def test_pyarrow_filters_the_same_rows(tmp_path: Path, preset: str) -> None:
    """Its compute functions on its own full read: another evaluation than that of the tests."""
    import pyarrow.compute as pc

    rng = random.Random(5)
    numbers = [row // 2 if preset == "clustered" else rng.randrange(5000) for row in range(20_000)]
    table = pa.table(
        {
            "n": pa.array([None if row % 11 == 3 else number for row, number in enumerate(numbers)]),
            "s": [f"{number:05}" for number in numbers],
            "d": pa.array([number / 16 for number in numbers]),
        }
    )
    path = tmp_path / "t.orc"
    orc.write_table(table, path, stripe_size=64 * 1024, row_index_stride=500, bloom_filter_columns=[1, 2])
    n, s, d, col = pc.field("n"), pc.field("s"), pc.field("d"), API.col
    cases = [
        (n > 1000, col("n") > 1000),
        ((n >= 10) & (s < "00500"), (col("n") >= 10) & (col("s") < "00500")),
        (~(n == 77) | (d > 100.0), ~(col("n") == 77) | (col("d") > 100.0)),
        (n.isin([5, 77, 4999]), col("n").isin([5, 77, 4999])),
        (n.is_null(), col("n").is_null()),
        (~n.is_null() & (n != 3), ~col("n").is_null() & (col("n") != 3)),
        ((d >= 3.0) & (d <= 9.5), col("d").between(3.0, 9.5)),
        (pc.starts_with(s, "012"), col("s").starts_with("012")),
    ]
    async with API.open(str(path)) as file:
        for theirs, ours in cases:
            found = pa.table(await file.read(where=ours))
            assert found.equals(table.filter(theirs).cast(found.schema)), str(ours)
        tuples = [("n", ">", 100), ("s", "in", ["00200", "00300"])]
        alternatives = [[("n", "<", 3)], [("d", ">=", 300.0), ("n", "!=", 4801)]]
        found = pa.table(await file.read(where=tuples))
        assert found.equals(table.filter((n > 100) & s.isin(["00200", "00300"])).cast(found.schema))
        found = pa.table(await file.read(where=alternatives))
        assert found.equals(table.filter((n < 3) | ((d >= 300.0) & (n != 4801))).cast(found.schema))


# --- the corpus --------------------------------------------------------------------------------------

CELLS = 60_000


def fits(path: Path) -> bool:
    """Rows that `to_pylist` tells as structs of distinct names, and few enough to filter in plain Python."""
    tail = reader.read_tail(path.read_bytes())
    structs = [one for one in tail.schema.flatten() if one.kind == "struct"]
    distinct = all(len(set(one.names)) == len(one.names) for one in structs)
    cells = tail.row_count * len(tail.schema.flatten())
    return tail.schema.kind == "struct" and distinct and cells <= CELLS and tail.row_count > 0


@pytest.mark.parametrize("name", some(test_corpus.READABLE, 5))
def test_of_the_corpus(corpus_folder: Path, name: str) -> None:
    path = corpus_folder / name
    if fits(path):
        selecting.run(path, reader.read_tail(path.read_bytes()).schema, 1, **TABLE[name].options)


def test_most_of_the_corpus_is_asked(corpus_folder: Path) -> None:
    assert sum(fits(corpus_folder / name) for name in test_corpus.READABLE) > len(test_corpus.READABLE) / 2


async def test_filters_known_to_be_wrong_cost_no_rows(corpus_folder: Path) -> None:
    """C++ 1.6.0 to 1.6.11 hashed negative bytes and numbers in its own way."""
    found = sorted(corpus_folder.rglob("bad_bloom_filter_*.orc"))
    assert found
    for path in found:
        type_ = reader.read_tail(path.read_bytes()).schema
        async with API.open(str(path)) as file:
            full = await selecting.rows_of(file.batches(), type_)
            for at, child in enumerate(type_.children):
                if child.children:
                    continue
                for value in {row[at] for row in full[:: max(1, len(full) // 20)]} - {None}:
                    node = Ask((type_.names[at],), child, "=", (value,))
                    await selecting.check_predicate(file, type_, full, node, random.Random(1))


async def test_rows_in_front_are_passed_over_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row of a row group costs a few calls of its decoders, and not one for each row before it."""
    numbers = pa.array(range(30_000), pa.int64())
    table = pa.table({"a": numbers, "b": numbers.cast(pa.float64()), "c": numbers.cast(pa.string())})
    path = tmp_path / "numbers.orc"
    orc.write_table(table, path, row_index_stride=10_000)
    calls: list[int] = []
    decode = _column.decode

    def counted(tasks: list[_column.DecodeTask], *rest: Any) -> tuple[float, float]:
        times = decode(tasks, *rest)
        calls.extend(task.dropped for task in tasks)
        return times

    monkeypatch.setattr(decoding, "decode", counted)
    async with API.open(path) as file:
        found = await file.read(rows=range(19_999, 20_000))
    assert pa.table(found).to_pylist() == [{"a": 19_999, "b": 19_999.0, "c": "19999"}]
    assert sum(calls) == 9_999 * 3
    assert len(calls) <= 2 * 3
