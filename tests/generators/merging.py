"""Files merged by ours and by ORC Java, and what of the two results must agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import anyio
import pyarrow as pa

import orcstream
from orcstream.plan.tail import Tail, parse_stripe_statistics, plan_tail
from orcstream.schema.column_statistics import ColumnStatistics
from tests.support import reading

__all__ = ["assert_java_agrees", "assert_merged", "merged", "stripe_statistics", "tail_of"]


def merged(path: Path, files: Iterable[Path], **options: object) -> orcstream.MergeResult:
    """`orcstream.merge`."""

    async def run() -> orcstream.MergeResult:
        return await orcstream.merge([str(file) for file in files], path, **options)  # type: ignore[arg-type]

    return anyio.run(run)


def tail_of(path: Path) -> Tail:
    data = path.read_bytes()
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    return tail


def stripe_statistics(path: Path) -> Sequence[tuple[bytes, ...]]:
    tail = tail_of(path)
    section = path.read_bytes()[tail.metadata_range.start : tail.metadata_range.stop]
    return [one.serialized for one in parse_stripe_statistics(tail, section)]


def assert_merged(path: Path, files: Sequence[Path], **options: object) -> None:
    """The rows are those of the files, one after the other, and so are the stripes, byte for byte."""
    data = path.read_bytes()
    stripes = iter(tail_of(path).footer.stripes)
    at, first_row = 3, 0
    for file in files:
        original = file.read_bytes()
        for theirs in tail_of(file).footer.stripes:
            ours = next(stripes)
            assert (ours.offset, ours.first_row) == (at, first_row)
            found = data[ours.range.start : ours.range.stop]
            assert found == original[theirs.range.start : theirs.range.stop]
            at, first_row = ours.range.stop, first_row + ours.row_count
    assert next(stripes, None) is None
    anyio.run(_assert_same_rows, path, files, options)


async def _assert_same_rows(path: Path, files: Sequence[Path], options: Mapping[str, object]) -> None:
    expected = pa.concat_tables([await reading.read_table(file, **options) for file in files])
    actual = await reading.read_table(path, **options)
    assert actual.schema == expected.schema
    for name, one, other in zip(actual.column_names, actual.columns, expected.columns, strict=True):
        same = one.equals(other) or str(one.to_pylist()) == str(other.to_pylist())  # NaN is not NaN
        assert same, name


def assert_java_agrees(ours: Path, java: Path) -> None:
    """The tails say the same, as far as ORC Java says what the files say."""
    one, other = tail_of(ours), tail_of(java)
    for name in ("compression", "compression_block_size", "version", "writer_version"):
        assert getattr(one.postscript, name) == getattr(other.postscript, name), name
    for name in ("schema", "row_count", "row_index_stride", "user_metadata"):
        assert getattr(one.footer, name) == getattr(other.footer, name), name
    shapes = [
        [(s.row_count, s.index_length, s.data_length, s.footer_length) for s in tail.footer.stripes]
        for tail in (one, other)
    ]
    assert shapes[0] == shapes[1]
    if len(one.footer.statistics) == 0:
        return
    for column in range(one.footer.schema.column_count):
        mine, theirs = one.footer.statistics.get(column), other.footer.statistics.get(column)
        assert mine is not None and theirs is not None
        assert_same_statistics(mine, theirs)


def assert_same_statistics(ours: ColumnStatistics, java: ColumnStatistics) -> None:
    """The same, but where ORC Java adds what nobody recorded or cannot hold what it could know."""
    different = {
        name for name in ColumnStatistics.__slots__ if not _same(getattr(ours, name), getattr(java, name))
    }
    if ours.has_null is None and java.has_null is True:  # absent: it takes it for true
        different.discard("has_null")
    if ours.minimum is None and ours.local_minimum_ms is not None:  # it makes UTC of local times
        different -= {"minimum", "maximum", "local_minimum_ms", "local_maximum_ms"}
    if isinstance(ours.sum, Decimal) and java.sum is None:  # it keeps as many digits as fit 64 bits
        different.discard("sum")
    if ours.kind == "double" and (ours.sum, java.sum) == (None, 0.0):  # absent: it takes it for 0
        different.discard("sum")
    if ours.minimum != ours.minimum:  # NaN; what remains there of it depends on the order
        different -= {"minimum", "maximum"}
    if ours.value_count == 0 and java.sum is None:
        different.discard("sum")
    if java.kind is None and ours.kind == "boolean":  # what the .NET writer says of structs
        different -= {"kind", "sum"}
    # It counts children of nulls, too, and knows none of no values.
    if (ours.total_children or 0) < (java.total_children or 0) or ours.total_children == 0:
        different.discard("total_children")
    if ours.min_children is None:  # ORC C++ leaves out what is 0
        different -= {"min_children", "max_children"}
    assert not different, (different, ours, java)


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        # Sums depend on the order; the sign of a bound that is zero says nothing.
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9)
    return one == other
