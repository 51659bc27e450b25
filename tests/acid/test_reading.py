"""Random histories of tables, read at every snapshot and in every way, against a plain model."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcstream import col
from orcstream.acid import AcidTable, WriteIds, open_table
from orcstream.errors import Unsupported
from tests.generators.acid_history import History, Options
from tests.generators.predicates import Predicates, build, evaluate
from tests.reference.types import struct
from tests.support.effort import ALL, share

SCHEMA = "struct<k:int,v:string>"
NULL = "__HIVE_DEFAULT_PARTITION__"
PARTS = ("p=1/q=x", "p=2/q=x%2Fy", f"p={NULL}/q=x")
PARTED = struct(k="int", v="string", p="int", q="string")
PLAIN = struct(k="int", v="string")
VALUES = {"p=1/q=x": (1, "x"), "p=2/q=x%2Fy": (2, "x/y"), PARTS[2]: (None, "x"), "": ()}

KINDS = {
    "version 2": Options(),
    "version 2 with originals": Options(originals=True),
    "version 2 in one bucket": Options(buckets=1, steps=12),
    "partitions": Options(partitions=PARTS, originals=True, steps=6),
    "version 1": Options(version=1),
    "version 1 with originals": Options(version=1, originals=True),
    "version 1 of partitions": Options(version=1, partitions=PARTS, steps=6),
    "inserts only": Options(inserts_only=True, originals=True, compactions=False),
    "streamed": Options(flushed=True, compactions=False),
}

Found = Counter[tuple[Any, ...]]


def expected_rows(history: History, ids: WriteIds) -> list[tuple[Any, ...]]:
    """Columns of the rows, of the partition, and the key."""
    return [
        (row["k"], row["v"], *VALUES[partition], coded(key))
        for (partition, key), row in history.rows(ids).items()
    ]


def coded(key: tuple[int, int, int]) -> tuple[int, int, int]:
    """With the bucket as Hive 3 writes it, which rows without events have from the start."""
    return key if key[1] >> 29 == 1 else (key[0], 1 << 29 | key[1] << 16, key[2])


def tuples(table: pa.Table) -> Found:
    columns = [column.to_pylist() for column in table.columns]
    if "row__id" in table.column_names:
        at = table.column_names.index("row__id")
        columns[at] = [coded(tuple(one.values())) for one in columns[at]]
    return Counter(zip(*columns, strict=True)) if columns else Counter([()] * table.num_rows)


async def check(table: AcidTable, history: History, ids: WriteIds, seed: int) -> None:
    """All rows, and rows asked for in one random way."""
    rng = random.Random(seed)
    rows = expected_rows(history, ids)
    found = pa.table(await table.read(row_ids=True))
    assert tuples(found) == Counter(rows), ids
    type_ = PARTED if len(history.options.partitions) > 1 else PLAIN
    predicates = Predicates(type_, [row[:-1] for row in rows], rng.randrange(1 << 30))
    question = predicates.draw() if rng.random() < 0.8 else None
    columns = rng.sample(type_.names, rng.randrange(1, len(type_.names) + 1))
    options: dict[str, Any] = {
        "columns": columns,
        "where": None if question is None else build(question, col),
        "row_ids": rng.random() < 0.5,
        "include_deleted": rng.random() < 0.3,
        "batch_rows": rng.choice((1, 3, 1000)),
        "memory_limit": rng.choice((1 << 16, 1 << 20, 1 << 28)),
        "dictionaries": rng.random() < 0.3,
    }
    places = [type_.names.index(name) for name in columns] + (
        [len(type_.names)] if options["row_ids"] else []
    )
    matching = [row for row in rows if question is None or evaluate(question, type_, row[:-1]) is True]
    async with table.batches(**options) as stream:
        parts = [pa.table(batch) async for batch in stream]
        shape = pa.schema(stream)
    assert all(part.schema == shape for part in parts)
    if not options["dictionaries"]:
        assert all(0 < len(part) <= options["batch_rows"] for part in parts)
    merged = pa.concat_tables(parts) if parts else shape.empty_table()
    if options["include_deleted"]:
        deleted = merged.column("row__is__deleted")
        gone = merged.filter(deleted).drop_columns("row__is__deleted")
        merged = merged.filter(pa.compute.invert(deleted)).drop_columns("row__is__deleted")
        if options["row_ids"] and len(type_.names) == 2:
            keys = {coded(tuple(one.values())) for one in gone["row__id"].to_pylist()}
            assert keys <= {coded(key) for _, key in history.ever(ids)}
    assert tuples(merged) == Counter(tuple(row[at] for at in places) for row in matching), (ids, question)


def some_of(snapshots: list[WriteIds], seed: int) -> list[WriteIds]:
    """The last one, and some before it."""
    if ALL:
        return snapshots
    return [snapshots[-1], *random.Random(seed).sample(snapshots[:-1], 2)]


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 1 << 30))
@settings(max_examples=share(24, 8))
async def test_histories(kind: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), seed, KINDS[kind])
        for ids in some_of(list(history.snapshots()), seed):
            partition_schema = "struct<p:int,q:string>" if len(history.options.partitions) > 1 else None
            opening = open_table(folder, write_ids=ids, schema=SCHEMA, partition_schema=partition_schema)
            if history.is_gone(ids):
                with pytest.raises(Unsupported) as caught:
                    await opening
                assert caught.value.reason == "history_is_gone"
                continue
            async with opening as table:
                await check(table, history, ids, seed + ids.high_watermark)
