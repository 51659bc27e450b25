"""What else reads Arrow reads our batches: polars, duckdb and pandas beside pyarrow, and keeps them alive."""

from __future__ import annotations

import datetime
import gc
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from orcstream.batch import Batch, BatchSchema, ReadResult, stream_capsule
from orcstream.codec.vectors.column import Vector, VectorOptions, field_of
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import batch_from, batches_from, memory

ROWS = 1000
TAKES_BATCHES = pytest.mark.skipif(
    int(duckdb.__version__.split(".")[0]) < 2, reason="duckdb takes batches from 2.0 on"
)
WHEN = datetime.datetime(2024, 2, 29, 12, 30, 1, 250_000)  # noqa: DTZ001  # a wall clock


def in_duckdb(source: object) -> duckdb.DuckDBPyRelation:  # its name stands in the query
    found = duckdb.sql("select * from source")
    assert found is not None  # as it is for statements that answer nothing
    return found


def sample() -> dict[str, pa.Array]:
    """Every type that all consumers have, with nulls at different rows."""

    def column(step: int, type_: pa.DataType, value: Callable[[int], Any]) -> pa.Array:
        return pa.array([None if row % step == 0 else value(row) for row in range(ROWS)], type_)

    return {
        "flag": column(3, pa.bool_(), lambda row: row % 2 == 0),
        "tiny": column(5, pa.int8(), lambda row: row % 100),
        "long": column(7, pa.int64(), lambda row: row * 10**12),
        "double": column(4, pa.float64(), lambda row: row / 8),
        "text": column(6, pa.string(), lambda row: "ü" * (row % 5)),
        "bytes": column(6, pa.binary(), lambda row: bytes([row % 256])),
        "date": column(9, pa.date32(), lambda row: datetime.date(2000, 1, 1) + datetime.timedelta(row)),
        "wall": column(8, pa.timestamp("us"), lambda row: WHEN + datetime.timedelta(seconds=row)),
        "price": column(5, pa.decimal128(20, 2), lambda row: Decimal(row).scaleb(-2)),
        "word": column(4, pa.string(), lambda row: f"w{row % 7}").dictionary_encode(),
        "list": column(5, pa.list_(pa.int64()), lambda row: [None, *range(row % 4)]),
        "struct": column(
            7, pa.struct({"a": pa.int64(), "b": pa.string()}), lambda row: {"a": row, "b": f"{row}"}
        ),
        "nested": column(
            3,
            pa.struct({"l": pa.list_(pa.struct({"x": pa.int64()}))}),
            lambda row: {"l": [{"x": None if row % 2 else row}] * (row % 3)},
        ),
    }


SAMPLE = sample()
EXPECTED = pa.record_batch(SAMPLE)
BATCH = batch_from(SAMPLE)
SLICES = [(0, ROWS), (3, 17), (513, 999), (1000, 1000)]


@pytest.mark.parametrize(("start", "stop"), SLICES)
def test_pyarrow(start: int, stop: int) -> None:
    result = pa.record_batch(BATCH.slice(start, stop))
    result.validate(full=True)
    assert result.equals(EXPECTED.slice(start, stop - start))


@pytest.mark.parametrize(("start", "stop"), SLICES)
def test_polars(start: int, stop: int) -> None:
    frame = pl.DataFrame(BATCH.slice(start, stop))
    assert frame.rows() == pl.DataFrame(EXPECTED).slice(start, stop - start).rows()
    expected = EXPECTED.slice(start, stop - start).to_pylist()
    assert frame.to_dicts() == expected
    assert pl.Series(BATCH.column("long")).to_list() == SAMPLE["long"].to_pylist()


@TAKES_BATCHES
@pytest.mark.parametrize(("start", "stop"), SLICES)
def test_duckdb(start: int, stop: int) -> None:
    part = BATCH.slice(start, stop)
    relation = in_duckdb(part)
    names = relation.columns
    rows = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
    assert rows == EXPECTED.slice(start, stop - start).to_pylist()


@pytest.mark.parametrize(("start", "stop"), SLICES)
def test_pandas(start: int, stop: int) -> None:
    expected = EXPECTED.slice(start, stop - start).to_pandas()
    pd.testing.assert_frame_equal(BATCH.slice(start, stop).to_pandas(), expected)


def test_maps() -> None:
    array = pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]], pa.map_(pa.string(), pa.int64()))
    batch = batch_from({"m": array}).slice(1)
    assert pa.record_batch(batch).column(0).equals(array[1:])
    assert pl.DataFrame(batch).height == 3


@TAKES_BATCHES
def test_maps_in_duckdb() -> None:
    array = pa.array([None, [], [("c", 3)]], pa.map_(pa.string(), pa.int64()))
    batch = batch_from({"m": array})
    assert in_duckdb(batch).fetchall() == [(None,), ({},), ({"c": 3},)]


# --- streams --------------------------------------------------------------------------------------

PARTS = [
    {name: array[start : start + 300] for name, array in SAMPLE.items()} for start in range(0, ROWS, 300)
]
# Dictionaries of a stream may differ from batch to batch; here they are the same.
RESULT = ReadResult(*batches_from(PARTS))


def test_result_in_every_consumer_again_and_again() -> None:
    expected = EXPECTED.to_pylist()
    total = sum(SAMPLE["tiny"].drop_null().to_pylist())
    for _ in range(2):
        assert pa.table(RESULT).to_pylist() == expected
        assert pl.DataFrame(RESULT).to_dicts() == expected
        relation = in_duckdb(RESULT)
        assert relation.aggregate("count(*), sum(tiny)").fetchall() == [(ROWS, total)]


def test_duckdb_by_name_pushes_down() -> None:
    result, expected = RESULT, pa.Table.from_batches([EXPECTED])
    query = "select word, count(*) from {} where long > 500 * 10**12 group by word order by word"
    # Not in a comprehension: duckdb looks the names up in the calling frame.
    ours = duckdb.sql(query.format("result"))
    theirs = duckdb.sql(query.format("expected"))
    assert ours is not None
    assert theirs is not None
    assert ours.fetchall() == theirs.fetchall()
    assert result.num_rows == expected.num_rows


@pytest.mark.parametrize("consume", [pl.DataFrame, lambda source: in_duckdb(source).fetchall()])
def test_errors_of_a_stream_reach_the_user(consume: Callable[[object], object]) -> None:
    class Failing:
        def __arrow_c_schema__(self) -> object:
            return RESULT.__arrow_c_schema__()

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return stream_capsule(RESULT._schema, self.pull)

        def pull(self) -> Batch | None:
            raise ConnectionError("the store went away")

    with pytest.raises(Exception, match="ConnectionError: the store went away"):
        consume(Failing())


# --- life time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("consume", "total"),
    [
        (pa.record_batch, lambda kept: sum(kept.column(0).to_pylist())),
        (pl.DataFrame, lambda kept: kept["n"].sum()),
        pytest.param(
            in_duckdb,
            lambda kept: kept.sum("n").fetchall()[0][0],
            marks=TAKES_BATCHES,
        ),
        (lambda batch: batch.to_numpy("n"), lambda kept: kept.sum()),
    ],
    ids=["pyarrow", "polars", "duckdb", "numpy"],
)
def test_consumers_outlive_the_batch(consume: Callable[[Batch], Any], total: Callable[[Any], Any]) -> None:
    owner = memory(range(10_000))
    gone = weakref.ref(owner)
    field = field_of("", Schema.parse("struct<n:bigint>").root, VectorOptions())
    batch = Batch(BatchSchema(field), (Vector(10_000, (None, owner), 0),), 10_000)
    kept = consume(batch)
    del batch, owner
    gc.collect()
    assert gone() is not None
    assert total(kept) == 49_995_000
    del kept
    gc.collect()
    assert gone() is None


def test_batches_kept_until_the_interpreter_ends() -> None:
    """Consumers' own threads and static objects may release after the interpreter is gone."""
    script = """
        import duckdb, polars, pyarrow
        from tests.generators.arrow_vectors import batch_from, batches_from
        from orcstream.batch import ReadResult
        columns = {"n": pyarrow.array(range(10_000))}
        result = ReadResult(*batches_from([columns] * 3))
        batch = batch_from(columns)
        kept = pyarrow.record_batch(batch), polars.DataFrame(result), polars.LazyFrame(batch)
        reader = pyarrow.RecordBatchReader.from_stream(result)
        reader.read_next_batch()
        unused = batch.__arrow_c_array__(), result.__arrow_c_stream__()
        duckdb.register("r", result)
        print(duckdb.sql("select sum(n) from r").fetchall())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[(149985000,)]", "")
