"""Predicates on vectors that were decoded from a file, against pyarrow's filter of the same rows.

The other tests of predicates make vectors from Arrow arrays; these have the decoders' own: slices of
stripes, dictionaries, blocks of the pool.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

import orcstream
from orcstream.batch import Column
from orcstream.codec.vectors._selection import select_mask
from orcstream.codec.vectors.column import VectorOptions, field_of
from orcstream.codec.vectors.filter import RowFilter
from orcstream.codec.vectors.gather import compact
from orcstream.query.binding import bind
from orcstream.query.expr import Expr, Matching, col
from tests.support.effort import pairs

ROWS = 30_000
word, number, flag = pc.field("word"), pc.field("id"), pc.field("flag")
inner, price, at = pc.field("s", "inner"), pc.field("price"), pc.field("at")
HUNDRED = pa.scalar(Decimal(100), pa.decimal128(30, 2))
NOON = datetime.datetime(2020, 1, 1, 12)  # noqa: DTZ001  # wall clock
QUESTIONS: list[tuple[Expr, pc.Expression]] = [
    (col("id") < 17_000, number < 17_000),
    (col("id").isin(range(0, ROWS, 7)), number.isin(list(range(0, ROWS, 7)))),
    (col("word") == "word 3", word == "word 3"),
    (col("word").isin(["word 3", "word 4", "x"]) & col("flag"), word.isin(["word 3", "word 4", "x"]) & flag),
    (col("word").starts_with("word 1"), pc.starts_with(word, "word 1")),
    (~(col("flag") | (col("id") > 100)), ~(flag | (number > 100))),
    (col("s.inner") >= 0.5, inner >= 0.5),
    (col("s.inner").is_null() | (col("price") > 100), inner.is_null() | (price > HUNDRED)),
    (col("at") > NOON, at > pa.scalar(NOON, pa.timestamp("ns"))),
    (col("id") < 0, number < 0),
]


def table() -> pa.Table:
    rng = np.random.default_rng(7)
    mask = rng.random(ROWS) < 0.1
    floats = pa.array(rng.random(ROWS), mask=mask)
    prices = [Decimal(cents).scaleb(-2) for cents in rng.integers(0, 20_000, ROWS).tolist()]
    start = np.datetime64("2020-01-01", "ns")
    offsets = pa.array(np.arange(0, 2 * ROWS + 1, 2), pa.int32())
    return pa.table(
        {
            "id": pa.array(range(ROWS), mask=mask),
            "flag": pa.array(rng.random(ROWS) < 0.5, mask=np.roll(mask, 1)),
            "word": pa.array([f"word {i % 41}" for i in range(ROWS)], mask=np.roll(mask, 2)),
            "price": pa.array(prices, pa.decimal128(30, 2)),
            "at": pa.array(start + rng.integers(0, 86_400 * 10**9, ROWS).astype("m8[ns]")),
            "s": pa.StructArray.from_arrays([floats], ["inner"]),
            "l": pa.ListArray.from_arrays(offsets, pa.array([f"item {i % 99}" for i in range(2 * ROWS)])),
        }
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    path = tmp_path_factory.mktemp("filtered") / "rows.orc"
    orc.write_table(table(), path, stripe_size=200_000, dictionary_key_size_threshold=0.9)
    return path, table()


@pytest.mark.parametrize(
    ("question", "dictionaries"), pairs(QUESTIONS, [False, True]), ids=lambda given: repr(given)[:50]
)
async def test_rows_of_a_file(
    written: tuple[Path, pa.Table], question: tuple[Expr, pc.Expression], dictionaries: bool
) -> None:
    ours, theirs = question
    path, everything = written
    options: dict[str, Any] = {"dictionaries": dictionaries, "batch_rows": 4000}
    async with orcstream.open(str(path)) as file:
        root = file.schema.root
        predicate = bind(ours, root, Matching())
        chosen, parts = RowFilter(predicate, root), []
        async with file.batches(**options) as stream:
            async for batch in stream:
                mask = chosen.evaluate(batch.vectors, batch.num_rows)
                parts.append((batch.vectors, select_mask(mask, batch.num_rows)))
    assert len(parts) > 3
    expected = everything.filter(theirs)
    fields = field_of("", root, VectorOptions(dictionaries=dictionaries)).children
    for index, field in enumerate(fields):
        found = compact([(vectors[index], selection) for vectors, selection in parts], field)
        array = pa.array(Column(field, found))
        array.validate(full=True)
        assert array.to_pylist() == expected[field.name].to_pylist(), field.name
