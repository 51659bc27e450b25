"""What a writer records of its values, against ORC Java's own; serialised metadata, read by Java and C++."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream.codec.encode.bloom_build import BLOOM_ENCODING, can_have_bloom
from orcstream.codec.encode.statistics import statistics_of_cells
from orcstream.codec.metadata.structure import StreamKind
from orcstream.codec.metadata.write import WRITER, WRITER_VERSION
from orcstream.codec.vectors.cells import Cells, cells_of
from orcstream.codec.vectors.column import Vector
from orcstream.schema.column_statistics import ColumnStatistics, merge
from orcstream.schema.types import Kind
from tests.generators import strategies
from tests.generators.rebuilding import BLOOMS, Parts, Stripe, rebuilt
from tests.reference import compare, java_orc
from tests.reference.types import T, Union, struct
from tests.support.effort import share
from tests.support.encoding import filter_of

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

# A union whose first child is null is a null union in Arrow, so those have a test of their own.
SCHEMAS = strategies.schemas(strategies.EVERYTHING)
OPTIONS = st.fixed_dictionaries(
    {
        "orc.compress": st.sampled_from(("NONE", "ZLIB")),
        "orc.stripe.row.count": st.sampled_from((1000, 2000, 10_000)),
        "orc.row.index.stride": st.sampled_from((1000, 10_000)),
        "orc.dictionary.key.threshold": st.sampled_from((0.0, 1.0)),
        # Bounds are in the calendar of the file; vectors are proleptic.
        "orc.proleptic.gregorian": st.just(value=True),
        "orc.bloom.filter.write.version": st.sampled_from(("original", "utf8")),
        "orc.bloom.filter.fpp": st.sampled_from((0.01, 0.3)),
    }
)


def write(path: Path, table: strategies.Table, options: dict[str, object], *, blooms: bool = True) -> Parts:
    names = ",".join(name for name in table.type_.names if name.isidentifier() and blooms)
    java_orc.write(path, table.type_, table.rows, options={**options, "orc.bloom.filter.columns": names})
    return Parts(path.read_bytes())


def groups_of(path: Path, parts: Parts, **options: Any) -> list[list[list[list[Cells]]]]:
    """By stripe and row group: the cells of each column, of each batch that they came in."""

    async def read() -> list[list[list[list[Cells]]]]:
        out = []
        stride = parts.tail.footer.row_index_stride
        async with orcstream.open(str(path)) as file:
            for stripe in file.stripes:
                stop = stripe.first_row + stripe.row_count
                starts = range(stripe.first_row, stop, stride)
                out.append([await group(file, range(s, min(s + stride, stop))) for s in starts])
        return out

    async def group(file: Any, rows: range) -> list[list[Cells]]:
        found: list[list[Cells]] = []
        async with file.batches(rows=rows, **options) as stream:
            async for batch in stream:
                root = batch._schema.root
                cells = list(cells_of(root, Vector(batch.num_rows, (None,), 0, 0, batch.vectors)))
                found = found or [[] for _ in cells]
                for column, one in zip(found, cells, strict=True):
                    column.append(one)
        return found

    return anyio.run(read)


def merged(found: list[ColumnStatistics]) -> ColumnStatistics:
    total = found[0]
    for one in found[1:]:
        total = merge(total, one)
    return total


def assert_same(ours: ColumnStatistics, theirs: ColumnStatistics | None) -> None:
    assert theirs is not None
    told = f"{ours}\n{theirs}"
    assert (ours.value_count, ours.has_null, ours.kind) == (
        theirs.value_count,
        theirs.has_null,
        theirs.kind,
    ), told
    # Of lists and maps ORC Java 2.3.0 counts rows of its batches and not items; see the test of ORC C++.
    assert_same_sum(ours.sum, theirs.sum, told)
    if ours.kind == "double" and math.isnan(float(theirs.sum or 0)):
        assert math.isnan(float(ours.sum or 0)), told
        return
    if ours.kind == "string" and (theirs.lower_bound, theirs.upper_bound) != (None, None):
        # Java compares with what it has cut already, so its bounds may be wider.
        low, high = (ours.minimum or ours.lower_bound), (ours.maximum or ours.upper_bound)
        assert str(low) >= str(theirs.minimum or theirs.lower_bound or ""), told
        assert str(high) <= str(theirs.maximum or theirs.upper_bound), told
        return
    assert (ours.minimum, ours.maximum) == (theirs.minimum, theirs.maximum), told
    assert (ours.lower_bound, ours.upper_bound) == (None, None), told


def assert_same_sum(ours: Any, theirs: Any, told: str) -> None:
    if theirs is None or isinstance(theirs, float):
        # Java gives a sum up where it overflows on the way.
        exact = theirs is None or math.isnan(theirs) or math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1.0)
        assert exact or math.isinf(ours), told
    elif isinstance(theirs, Decimal) and ours is None:
        # Where the sum has too many digits, Java rounds those behind the point.
        assert len(theirs.as_tuple().digits) > 30, told
    else:
        assert ours == theirs, told


def assert_same_filters(options: dict[str, object], stripe: Stripe, group: int, cells: list[Cells]) -> None:
    type_ = cells[0].field.type
    for kind in BLOOMS:
        index = stripe.blooms.get((kind, type_.column_id))
        if index is None or not can_have_bloom(type_):
            continue
        if kind is StreamKind.BLOOM_FILTER and type_.kind is Kind.TIMESTAMP:
            continue
        entries, share = (str(options[name]) for name in ("orc.row.index.stride", "orc.bloom.filter.fpp"))
        assert filter_of(cells, int(entries), float(share)) == index.filters[group], type_
        if index.utf8:
            assert stripe.footer.encodings[type_.column_id].bloom_encoding == BLOOM_ENCODING


@hypothesis.settings(max_examples=share(80))
@hypothesis.given(table=strategies.tables(SCHEMAS), options=OPTIONS, dictionaries=st.booleans())
def test_statistics_and_filters_are_those_of_java(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, object],
    dictionaries: bool,
) -> None:
    path = tmp_path_factory.mktemp("java") / "any.orc"
    parts = write(path, table, options)
    by_stripe = []
    for stripe, groups in zip(parts.stripes, groups_of(path, parts, dictionaries=dictionaries), strict=True):
        by_group = []
        for number, columns in enumerate(groups):
            for column, cells in enumerate(columns):
                assert cells[0].field.type.column_id == column
                assert_same_filters(options, stripe, number, cells)
            ours = [merged([statistics_of_cells(one) for one in cells]) for cells in columns]
            for column, one in enumerate(ours):
                assert_same(one, stripe.indexes[column].statistics(number))
            by_group.append(ours)
        by_stripe.append([merged(list(found)) for found in zip(*by_group, strict=True)])
    for ours, theirs in zip(by_stripe, parts.stripe_statistics, strict=True):
        for column, one in enumerate(ours):
            assert_same(one, theirs.get(column))
    for column, found in enumerate(zip(*by_stripe, strict=True)):
        assert_same(merged(list(found)), parts.tail.footer.statistics.get(column))


def test_statistics_of_unions(tmp_path: Path) -> None:
    type_ = struct(u=T("uniontype", (T("int"), T("string"), T("array", (T("bigint"),)))))
    rows: list[Any] = [
        (Union(i % 3, [i, None if i % 4 else str(i), [i] * (i % 5)][i % 3]),) for i in range(2500)
    ]
    rows[7] = (None,)
    table = strategies.Table(type_, rows, 0)
    parts = write(tmp_path / "u.orc", table, {"orc.row.index.stride": 1000})
    for stripe, groups in zip(parts.stripes, groups_of(tmp_path / "u.orc", parts), strict=True):
        for number, columns in enumerate(groups):
            for column, cells in enumerate(columns):
                ours = merged([statistics_of_cells(one) for one in cells])
                assert_same(ours, stripe.indexes[column].statistics(number))


@pytest.mark.parametrize(
    "text", ["a" * 1024 + "zz", "ä" * 600, "x" + "€" * 400, "😀" * 300, "ab" * 511 + "a😀😀"]
)
def test_long_texts_are_cut_as_java_does(tmp_path: Path, text: str) -> None:
    table = strategies.Table(struct(s="string"), [(text,)] * 3, 0)
    parts = write(tmp_path / "s.orc", table, {})
    ((columns,),) = groups_of(tmp_path / "s.orc", parts)
    theirs = parts.stripes[0].indexes[1].statistics(0)
    assert theirs is not None
    assert theirs.upper_bound is not None
    assert statistics_of_cells(columns[1][0]) == theirs


def test_collections_are_counted_as_cpp_does(tmp_path: Path) -> None:
    maps = pa.array(
        [[(i, i)] * (i % 4) if i % 7 else None for i in range(500)], pa.map_(pa.int32(), pa.int64())
    )
    lists = pa.array([["x"] * (i % 3) if i % 5 else None for i in range(500)], pa.list_(pa.string()))
    path = tmp_path / "cpp.orc"
    pyarrow.orc.write_table(pa.table({"m": maps, "l": lists}), path, row_index_stride=100)
    parts = Parts(path.read_bytes())
    ((*groups,),) = groups_of(path, parts)
    for number, columns in enumerate(groups):
        for column in (1, 2, 3, 4, 5):
            ours = merged([statistics_of_cells(one) for one in columns[column]])
            theirs = parts.stripes[0].indexes[column].statistics(number)
            assert theirs is not None
            assert ours == replace(theirs, bytes_on_disk=None)


# --- serialised metadata ---------------------------------------------------------------------------


@hypothesis.settings(max_examples=share(40))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)),
    options=OPTIONS,
    blooms=st.booleans(),
)
def test_other_readers_take_our_metadata(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, object],
    blooms: bool,
) -> None:
    folder = tmp_path_factory.mktemp("again")
    path, again = folder / "java.orc", folder / "again.orc"
    parts = write(path, table, options, blooms=blooms)
    again.write_bytes(rebuilt(parts, writer=WRITER, software_version="orcstream 0"))
    other = Parts(again.read_bytes())
    assert other.tail.postscript.writer_version == WRITER_VERSION == parts.tail.postscript.writer_version
    assert other.tail.footer.statistics == parts.tail.footer.statistics
    assert other.tail.footer.schema == parts.tail.footer.schema
    assert other.stripe_statistics == parts.stripe_statistics
    compare.assert_same_rows(table.type_, java_orc.read(again, table.type_), java_orc.read(path, table.type_))
    if len(table.rows) > 1000 and not blooms:  # Java 2.3.0 cannot seek where there are filters
        seek = java_orc.read_from(again, table.type_, 1000, 10)
        compare.assert_same_rows(table.type_, seek, java_orc.read_from(path, table.type_, 1000, 10))
    judge = pyarrow.orc.ORCFile(again)
    assert judge.nrows == len(table.rows)
    assert judge.writer == "ORC_JAVA"
    assert judge.software_version == "ORC Java orcstream 0"


def two_groups(tmp_path: Path) -> tuple[Path, Parts]:
    table = strategies.Table(struct(a="int", s="string"), [(i, f"t{i}") for i in range(2000)], 0)
    path = tmp_path / "two.orc"
    return path, write(path, table, {"orc.compress": "ZLIB", "orc.row.index.stride": 1000})


def test_java_prunes_by_our_indexes_and_filters(tmp_path: Path) -> None:
    path, parts = two_groups(tmp_path)
    path.write_bytes(rebuilt(parts, software_version="orcstream 0"))
    type_ = struct(a="int", s="string")
    assert len(java_orc.read_groups_with(path, type_, "a", "LONG", 7)) == 1000
    assert java_orc.read_groups_with(path, type_, "s", "STRING", "t1500x") == []


@pytest.mark.parametrize(("writer", "merged"), [(WRITER, 2), (6, 0)])
def test_java_merges_only_files_of_writers_it_knows(tmp_path: Path, writer: int, merged: int) -> None:
    """Why our files carry the number of ORC Java's writer."""
    path, parts = two_groups(tmp_path)
    path.write_bytes(rebuilt(parts, writer=writer, software_version="orcstream 0"))
    found = java_orc.merge(tmp_path / "all.orc", [path, path])
    assert len(found) == merged


def test_arrow_reads_what_unknown_writers_wrote(tmp_path: Path) -> None:
    """The other choice is no better for it."""
    path, parts = two_groups(tmp_path)
    for writer in (WRITER, 6):
        path.write_bytes(rebuilt(parts, writer=writer))
        assert pa.orc.read_table(path).num_rows == 2000
    assert replace(parts.tail.footer, writer=6) != parts.tail.footer
