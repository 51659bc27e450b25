"""Every file of the corpus, read through the public interface and judged as `corpus_table` says.

The same table judges the plain-Python reference, so that what the package is compared with elsewhere is
itself held against other people's answers. Files beyond `CELLS` values are not read by the reference (too
slow).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import orcstream.errors
from tests.golden.corpus_table import TABLE, Row
from tests.reference import compare, corpus, peers, reader
from tests.reference.errors import Malformed
from tests.reference.types import T
from tests.support import reading
from tests.support.effort import some

READABLE = [path for path, row in TABLE.items() if row.judge != "refused"]
REFUSED = [path for path, row in TABLE.items() if row.judge == "refused"]
CELLS = 1_500_000


def expected_rows(folder: Path, path: str, row: Row, type_: T) -> list[object] | None:
    """What the row's judge says the whole file holds; None where it does not speak about whole rows."""
    if row.judge == "json":
        return corpus.json_rows(folder / row.text, type_)
    if row.judge == "csv":
        return corpus.csv_rows(folder / row.text, type_)
    if row.judge == "twin":
        return compare.table_rows(type_, pq.read_table(folder / row.text))
    if row.judge == "peer":
        read = peers.pyarrow_rows if row.text == "pyarrow" else peers.pyorc_rows
        return read(folder / path, type_)
    return None


def judge_rows(row: Row, type_: T, rows: list[object]) -> None:
    """Known answers that are no whole rows."""
    if row.check is not None:
        row.check(rows)
    for name, values in (row.known() if row.known is not None else {}).items():
        index = type_.names.index(name)
        for number, (actual, value) in enumerate(zip(rows, values, strict=False)):
            assert isinstance(actual, tuple)
            if value is not ...:
                text = compare.difference(type_.children[index], actual[index], value, f"row {number}.{name}")
                assert text is None, text


def reference_rows(data: bytes, row: Row) -> tuple[T, list[object]]:
    zone = row.options.get("default_timezone", "UTC")
    return reader.read(data, default_zone=zone, proleptic=row.options.get("calendar") == "proleptic")


def small_enough(folder: Path, path: str) -> bool:
    facts = corpus.entry(folder, path)["facts"]
    columns: int = (facts.get("schema") or "").count(":")
    return (facts.get("rows") or 0) * columns <= CELLS


def test_the_table_names_every_file(corpus_folder: Path) -> None:
    paths = {item["path"] for item in corpus.manifest(corpus_folder)["files"]}
    assert paths - TABLE.keys() == set(), "files without a row"
    assert TABLE.keys() - paths == set(), "rows without a file"


@pytest.mark.parametrize("path", some(READABLE))
def test_the_reference_agrees_with_the_judges(corpus_folder: Path, path: str) -> None:
    if not small_enough(corpus_folder, path):
        assert TABLE[path].judge in ("whole", "peer"), (
            "too large for the reference, and nobody else judges it"
        )
        return
    row = TABLE[path]
    type_, rows = reference_rows((corpus_folder / path).read_bytes(), row)
    judge_rows(row, type_, rows)
    expected = expected_rows(corpus_folder, path, row, type_)
    if expected is not None:
        shaped = compare.arrow_shaped(type_, expected)
        compare.assert_same_rows(type_, compare.arrow_shaped(type_, rows), shaped)


@pytest.mark.parametrize("path", REFUSED)
def test_the_reference_refuses_what_is_malformed(corpus_folder: Path, path: str) -> None:
    with pytest.raises(Malformed):
        reader.read((corpus_folder / path).read_bytes())


@pytest.mark.anyio
@pytest.mark.parametrize("path", READABLE)
async def test_contents(corpus_folder: Path, path: str) -> None:
    row = TABLE[path]
    data = (corpus_folder / path).read_bytes()
    type_ = reader.read_tail(data).schema
    if row.arrow:
        table = await reading.read_table(corpus_folder / path, **row.options)
        if row.whole is not None:
            assert table.equals(row.whole()), "differs from the computed table"
            return
        rows = compare.table_rows(type_, table)
    else:
        rows = await reading.read_python_rows(corpus_folder / path, type_, **row.options)
    assert len(rows) == (corpus.entry(corpus_folder, path)["facts"].get("rows") or 0)
    judge_rows(row, type_, rows)
    unit = row.options.get("timestamp_unit", "ns")
    expected = expected_rows(corpus_folder, path, row, type_)
    if expected is not None:
        compare.assert_same_rows(type_, rows, compare.arrow_shaped(type_, expected, unit))
    elif small_enough(corpus_folder, path):
        _, own = reference_rows(data, row)
        compare.assert_same_rows(type_, rows, compare.arrow_shaped(type_, own, unit))


@pytest.mark.anyio
@pytest.mark.parametrize("path", some(READABLE))
async def test_every_way_of_reading_gives_the_same(corpus_folder: Path, path: str) -> None:
    file = corpus_folder / path
    options: dict[str, Any] = dict(TABLE[path].options)
    type_ = reader.read_tail(file.read_bytes()).schema
    if not TABLE[path].arrow:
        rows = await reading.read_python_rows(file, type_, **options)
        for more in ({"batch_rows": 7}, {"memory_limit": 8 << 20}, {"decode_threads": 1}):
            compare.assert_same_rows(
                type_, await reading.read_python_rows(file, type_, **options, **more), rows
            )
        return
    whole = await reading.read_table(file, **options)
    batch_rows = 7 if whole.num_rows <= 1000 else 1000 if whole.num_rows <= 50_000 else 40_000
    for more in ({"batch_rows": batch_rows}, {"memory_limit": 8 << 20}, {"decode_threads": 1}):
        reading.assert_same_table(type_, await reading.read_batches(file, **options, **more), whole)
    if type_.kind == "struct" and whole.num_columns:
        nothing = await reading.read_table(file, columns=[], **options)
        assert (nothing.num_rows, nothing.num_columns) == (whole.num_rows, 0)
        await one_column_at_a_time(file, type_, whole, options)


async def one_column_at_a_time(file: Path, type_: T, whole: pa.Table, options: dict[str, Any]) -> None:
    columns = list(enumerate(type_.names))
    step = max(1, len(columns) // 12)
    for i, name in columns[::step]:
        table = await reading.read_table(file, columns=[(name,)], **options)
        part = T("struct", (type_.children[i],), (name,))
        reading.assert_same_table(part, table, whole.select([i]))
    names = [(name,) for name in reversed(type_.names)]
    backwards = await reading.read_table(file, columns=names, **options)
    assert backwards.column_names == list(reversed(whole.column_names))
    assert backwards.num_rows == whole.num_rows


@pytest.mark.anyio
@pytest.mark.parametrize("path", REFUSED)
async def test_refusals(corpus_folder: Path, path: str) -> None:
    row = TABLE[path]
    with pytest.raises(getattr(orcstream.errors, row.error)) as caught:
        await reading.read_table(corpus_folder / path)
    assert row.text.lower() in str(caught.value).lower()
    assert caught.value.url is not None and path.rsplit("/", 1)[-1] in caught.value.url
