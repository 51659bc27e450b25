"""Tables that others wrote, against what their origins' tests say of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from orcstream import col
from orcstream.acid import open_table
from tests.reference import corpus

NATION_ROWS = 1000
BUCKET = 1 << 29


async def read(url: Path, ids: int | None = None, **asked: Any) -> pa.Table:
    async with open_table(url, write_ids=ids) as table:
        return pa.table(await table.read(**asked))


def test_the_tables_are_those_of_the_manifest(corpus_folder: Path) -> None:
    tables = corpus.manifest(corpus_folder)["acid_tables"]
    assert {one["table"] for one in tables} == {"acid/dummy_id_data_orc", "acid/nation25k"}


# --- 1000 copies of each nation; those of two were deleted


@pytest.mark.parametrize(("write_id", "gone"), [(2, []), (3, [5]), (4, [5, 19]), (None, [5, 19])])
async def test_nations(write_id: int | None, gone: list[int], corpus_folder: Path) -> None:
    found = await read(corpus_folder / "acid" / "nation25k", write_id)
    keys = found["n_nationkey"].to_pylist()
    assert keys == [nation for nation in range(25) if nation not in gone for _ in range(NATION_ROWS)]
    whole = orc.read_table(corpus_folder / "acid/nation25k/delta_0000002_0000002_0000/bucket_00000")
    rows = pa.table(whole["row"].combine_chunks().flatten(), names=found.column_names)
    kept = [at for at in range(len(rows)) if at // NATION_ROWS not in gone]
    assert found.to_pylist() == rows.take(kept).to_pylist()


async def test_no_nation_before_the_first_write(corpus_folder: Path) -> None:
    async with open_table(
        corpus_folder / "acid" / "nation25k", write_ids=1, schema="struct<n_nationkey:bigint>"
    ) as it:
        assert [batch async for batch in it.batches()] == []


async def test_row_ids_of_nations(corpus_folder: Path) -> None:
    found = await read(corpus_folder / "acid/nation25k", 3, columns=["n_nationkey"], row_ids=True)
    expected = [
        {"writeid": 2, "bucketid": BUCKET, "rowid": row}
        for row in range(25 * NATION_ROWS)
        if row // NATION_ROWS != 5
    ]
    assert found["row__id"].to_pylist() == expected
    assert found["n_nationkey"].to_pylist() == [one["rowid"] // NATION_ROWS for one in expected]


async def test_deleted_nations(corpus_folder: Path) -> None:
    found = await read(corpus_folder / "acid/nation25k", columns=["n_nationkey"], include_deleted=True)
    assert found.num_rows == 25 * NATION_ROWS
    deleted = found.filter(found["row__is__deleted"])["n_nationkey"].to_pylist()
    assert sorted(deleted) == [5] * NATION_ROWS + [19] * NATION_ROWS


@pytest.mark.parametrize("memory_limit", [1 << 17, 1 << 28])
async def test_some_nations(memory_limit: int, corpus_folder: Path) -> None:
    found = await read(
        corpus_folder / "acid/nation25k",
        columns=["n_name", "n_nationkey"],
        where=col("n_nationkey").between(4, 6) | (col("n_nationkey") == 19),
        batch_rows=333,
        memory_limit=memory_limit,
    )
    names = found.group_by(["n_nationkey", "n_name"]).aggregate([([], "count_all")])
    assert sorted(tuple(row.values()) for row in names.to_pylist()) == [
        (4, "EGYPT", NATION_ROWS),
        (6, "FRANCE", NATION_ROWS),
    ]
    assert found.column_names == ["n_name", "n_nationkey"]


# --- files from before a table was transactional


@pytest.mark.parametrize(
    ("write_id", "ids"),
    [
        (None, [0, 1, 4, *range(5, 21)]),
        (10000001, [0, 1, 4, *range(5, 21)]),
        (10000000, [0, 1, 3, 4, *range(5, 21)]),
    ],
)
async def test_original_files(write_id: int | None, ids: list[int], corpus_folder: Path) -> None:
    found = await read(corpus_folder / "acid/dummy_id_data_orc", write_id)
    assert sorted(found["id"].to_pylist()) == ids


async def test_row_ids_run_on_through_the_files_of_a_bucket(corpus_folder: Path) -> None:
    folder = corpus_folder / "acid/dummy_id_data_orc"
    found = await read(folder, columns=["id"], row_ids=True, include_deleted=True)
    expected = []
    for bucket, names in enumerate(
        [["000000_0"], ["000001_0"], ["000002_0", "000002_0_copy_1", "000002_0_copy_2"]]
    ):
        rows = [row for name in names for row in orc.read_table(folder / name)["id"].to_pylist()]
        expected += [(row, 0, BUCKET | bucket << 16, at) for at, row in enumerate(rows)]
    assert [(row["id"], *row["row__id"].values()) for row in found.to_pylist()] == expected
    assert found.filter(found["row__is__deleted"])["id"].to_pylist() == [3]


# --- files of events alone, put where tables have them


async def test_events_of_a_compaction_by_query(corpus_folder: Path, tmp_path: Path) -> None:
    """With names in lower case, and no file that says their version."""
    source = corpus_folder / "impala/full_acid_schema_but_no_acid_version.orc"
    delta = tmp_path / "delta_0000001_0000003"
    delta.mkdir()
    shutil.copy(source, delta / "bucket_00000")
    assert orc.read_table(source).column_names[1] == "originaltransaction"
    events = [tuple(event.values()) for event in orc.read_table(source).to_pylist()]
    assert [(operation, written) for operation, *_, written, _ in events] == [(0, 1), (0, 2), (0, 3)]
    for mark in range(1, 4):
        found = (await read(tmp_path, mark, row_ids=True)).to_pylist()
        assert [(row["i"], *row["row__id"].values()) for row in found] == [
            (event[5]["i"], *event[1:4]) for event in events[:mark]
        ]


async def test_a_file_of_events(corpus_folder: Path, tmp_path: Path) -> None:
    """Of ORC's own tests: thousands of events in several stripes."""
    source = corpus_folder / "apache-orc/java/acid5k.orc"
    events = orc.read_table(source).to_pylist()
    last = max(event["currentTransaction"] for event in events)
    delta = tmp_path / f"delta_0000001_{max(last, 1):07d}"
    delta.mkdir()
    shutil.copy(source, delta / "bucket_00000")
    newest: dict[tuple[int, int, int], dict[str, Any]] = {}
    for event in events:
        key = (event["originalTransaction"], event["bucket"], event["rowId"])
        if key not in newest or newest[key]["currentTransaction"] < event["currentTransaction"]:
            newest[key] = event
    expected = [event["row"] for event in newest.values() if event["operation"] != 2]
    found = (await read(tmp_path)).to_pylist()
    assert len(found) == len(expected) > 0
    assert sorted(map(str, found)) == sorted(map(str, expected))
