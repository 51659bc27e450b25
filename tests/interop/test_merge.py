"""Merged files against ORC Java's own merging of the same files, and read by other programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import pyarrow as pa
import pyorc
import pytest
from hypothesis import strategies as st
from pyarrow import orc

import orcstream
from orcstream import col
from orcstream.codec.metadata.structure import Calendar
from orcstream.schema.column_statistics import merge as merged_statistics
from tests.generators import strategies
from tests.generators.merging import assert_java_agrees, assert_merged, merged, stripe_statistics, tail_of
from tests.generators.rebuilding import Parts, rebuilt
from tests.golden.corpus_table import TABLE
from tests.reference import compare, java_orc, peers
from tests.reference.types import T, struct
from tests.support.effort import share, some

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

COUNTS = st.lists(st.sampled_from((0, 1, 10, 100, 1100, 3000)), min_size=1, max_size=4)
LARGEST = 20_000_000


def java_merged(path: Path, files: list[Path]) -> int | None:
    """How many files ORC Java took; None where it fails."""
    from py4j.protocol import Py4JJavaError

    try:
        return len(java_orc.merge(path, files))
    except Py4JJavaError:
        return None


def make_tables(type_: T, counts: list[int], seed: int, limits: strategies.Limits) -> list[strategies.Table]:
    return [strategies.make_table(type_, count, seed + i, limits) for i, count in enumerate(counts)]


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(
    type_=strategies.schemas(strategies.EVERYTHING, unions=True),
    counts=COUNTS,
    seed=st.integers(0, 2**32),
    options=st.fixed_dictionaries(
        {
            "orc.compress": st.sampled_from(java_orc.COMPRESSIONS),
            "orc.stripe.row.count": st.sampled_from((1000, 10_000)),
            "orc.row.index.stride": st.sampled_from((0, 1000)),
        }
    ),
)
def test_java_written(
    tmp_path_factory: pytest.TempPathFactory, type_: T, counts: list[int], seed: int, options: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    tables = make_tables(type_, counts, seed, strategies.Limits())
    files = [folder / f"{number}.orc" for number in range(len(tables))]
    for file, table in zip(files, tables, strict=True):
        java_orc.write(file, type_, table.rows, options=options)
    ours, java = folder / "ours.orc", folder / "java.orc"
    result = merged(ours, files)
    assert result.row_count == sum(counts)
    assert result.length == ours.stat().st_size
    assert java_merged(java, files) == len(files)
    assert_java_agrees(ours, java)
    assert stripe_statistics(ours) == stripe_statistics(java)
    rows = [row for file in files for row in java_orc.read(file, type_)]
    compare.assert_same_rows(type_, java_orc.read(ours, type_), rows)
    if len(rows) > 1500 and options["orc.row.index.stride"]:
        compare.assert_same_rows(type_, java_orc.read_from(ours, type_, 1500, 10), rows[1500:1510])
    assert tail_of(ours).footer.software_version == tail_of(files[0]).footer.software_version


@hypothesis.settings(max_examples=share(25))
@hypothesis.given(
    type_=strategies.schemas(strategies.EVERYTHING),
    counts=COUNTS,
    seed=st.integers(0, 2**32),
    compression=st.sampled_from((pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZSTD)),
)
def test_cpp_written(
    tmp_path_factory: pytest.TempPathFactory,
    type_: T,
    counts: list[int],
    seed: int,
    compression: pyorc.CompressionKind,
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    limits = strategies.Limits(first_day=-141_427)
    tables = make_tables(type_, counts, seed, limits)
    files = [folder / f"{number}.orc" for number in range(len(tables))]
    for file, table in zip(files, tables, strict=True):
        peers.write_pyorc(file, type_, table.rows, compression=compression, bloom_filter_columns=[1])
    ours, java = folder / "ours.orc", folder / "java.orc"
    merged(ours, files)
    assert_merged(ours, files)
    rows = [row for file in files for row in peers.pyorc_rows(file, type_)]
    compare.assert_same_rows(type_, peers.pyorc_rows(ours, type_), rows)
    compare.assert_same_rows(type_, java_orc.read(ours, type_), rows)
    # ORC Java calls the result a file of its own; ours stays C++'s, whose filters are of another make.
    assert java_merged(java, files) == len(files)
    assert_java_agrees(ours, java)
    judge = orc.ORCFile(ours)
    assert judge.nrows == len(rows)
    assert judge.writer == orc.ORCFile(files[0]).writer == "ORC_CPP"
    assert judge.software_version == orc.ORCFile(files[0]).software_version


def table_from(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"n": numbers, "text": [f"t{number % 10}" for number in numbers]})


def test_pruning_reaches_into_each_file(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.orc" for number in range(5)]
    for number, file in enumerate(files):
        orc.write_table(
            table_from(number * 20_000, 20_000), file, bloom_filter_columns=[1], compression="zstd"
        )
    path = tmp_path / "all.orc"
    merged(path, files)
    assert_merged(path, files)
    assert orc.read_table(path).equals(pa.concat_tables(map(orc.read_table, files)))
    assert orc.ORCFile(path).nstripes == 5

    async def look() -> None:
        async with orcstream.open(path) as file:
            found = await file.read(where=col("n") == 47111, row_numbers=True)
            assert found.to_pylist() == [{"n": 47111, "text": "t1", "row_number": 47111}]
            plan = str(await file.explain(where=col("n") == 47111))
            assert "80,000 by stripe statistics" in plan
            assert (await file.read(where=col("n") >= 0)).num_rows == 100_000
            assert file.statistics["n"].maximum == 99_999

    anyio.run(look)


# --- what goes together ----------------------------------------------------------------------------

PLAIN = struct(a="int", s="string")
ROWS: list[object] = [(i, f"t{i}") for i in range(2000)]
BASE: dict[str, object] = {"orc.compress": "ZLIB", "orc.row.index.stride": 1000}


def written(path: Path, type_: T = PLAIN, rows: list[object] | None = None, **options: object) -> Path:
    dotted = {f"orc.{name.replace('__', '.')}": value for name, value in options.items()}
    java_orc.write(path, type_, ROWS if rows is None else rows, options={**BASE, **dotted})
    return path


def changed(path: Path, **footer: Any) -> Path:
    """The file with another footer."""
    path.write_bytes(rebuilt(Parts(written(path).read_bytes()), **footer))
    return path


def with_postscript(path: Path, **fields: Any) -> Path:
    """The file with another writer or format version; neither is longer than a byte here."""
    from orcstream.codec.metadata.write import serialize_postscript

    data = written(path).read_bytes()
    postscript = tail_of(path).postscript
    again = serialize_postscript(replace(postscript, **fields))
    path.write_bytes(data[: -1 - postscript.length] + again + bytes((len(again),)))
    return path


def renamed(path: Path, names: tuple[str, ...]) -> Path:
    return written(path, T("struct", PLAIN.children, names))


def attributed(path: Path, *attributes: tuple[str, str]) -> Path:
    from orcstream.schema.schema import Schema

    schema = tail_of(written(path)).footer.schema
    first = replace(schema.root.children[0], attributes=attributes)
    root = replace(schema.root, children=(first, *schema.root.children[1:]))
    return changed(path, schema=Schema(root))


Maker = Callable[[Path], Path]
SECOND: dict[str, tuple[Maker, str | None]] = {
    "the same": (written, None),
    "no rows": (lambda p: written(p, rows=[]), None),
    "another block size": (lambda p: written(p, compress__size=1024), None),
    "a larger block size": (lambda p: written(p, compress__size=1 << 20), None),
    "other names": (lambda p: renamed(p, ("b", "s")), "schema"),
    "names in capitals": (lambda p: renamed(p, ("A", "s")), "schema"),
    "another type": (lambda p: written(p, struct(a="bigint", s="string")), "schema"),
    "a column less": (lambda p: written(p, struct(a="int"), [(1,)]), "schema"),
    "attributes": (lambda p: attributed(p, ("k", "v")), "schema"),
    "another compression": (lambda p: written(p, compress="SNAPPY"), "compression"),
    "no compression": (lambda p: written(p, compress="NONE"), "compression"),
    "another stride": (lambda p: written(p, row__index__stride=2000), "row_index_stride"),
    "no index": (lambda p: written(p, row__index__stride=0), "row_index_stride"),
    "another writer": (lambda p: changed(p, writer=1), "unknown_writer"),
    "another calendar": (lambda p: written(p, proleptic__gregorian=True), "calendar"),
    "no calendar": (lambda p: changed(p, calendar=Calendar.UNKNOWN), None),
    "an earlier writer": (lambda p: with_postscript(p, writer_version=8), "writer_version"),
    "a later writer": (lambda p: with_postscript(p, writer_version=10), "unknown_writer"),
    "an earlier format": (lambda p: with_postscript(p, version=(0, 11)), "file_version"),
    "an unstable format": (lambda p: with_postscript(p, version=(1, 9999)), "file_version"),
    "other user metadata": (lambda p: changed(p, user_metadata={"other": b"1"}), None),
    "the same user metadata": (lambda p: changed(p, user_metadata={"name": b"1"}), None),
    "contradicting user metadata": (lambda p: changed(p, user_metadata={"name": b"2"}), "user_metadata"),
    "another software version": (lambda p: changed(p, software_version="1.9.0"), None),
    "no software version": (lambda p: changed(p, software_version=None), None),
}


@pytest.mark.parametrize("case", SECOND)
def test_files_go_together_where_java_says_so(tmp_path: Path, case: str) -> None:
    make, reason = SECOND[case]
    first = changed(tmp_path / "1.orc", user_metadata={"name": b"1"})
    second = make(tmp_path / "2.orc")
    third = written(tmp_path / "3.orc")
    ours, java = tmp_path / "ours.orc", tmp_path / "java.orc"
    taken = java_merged(java, [first, second, third])
    assert taken == (2 if reason else 3)
    result = merged(ours, [first, second, third], skip_incompatible=True)
    assert len(result.files) == taken
    assert [one.reason for one in result.skipped] == ([reason] if reason else [])
    assert_java_agrees(ours, java)
    assert stripe_statistics(ours) == stripe_statistics(java)
    compare.assert_same_rows(PLAIN, java_orc.read(ours, PLAIN), java_orc.read(java, PLAIN))
    if reason is None:
        assert merged(ours, [first, second, third]).files == result.files
        return
    error = orcstream.Unsupported if reason.startswith("unknown") else orcstream.UsageError
    before = ours.read_bytes()
    with pytest.raises(error, match=r"2\.orc: ") as caught:
        merged(ours, [first, second, third])
    assert getattr(caught.value, "reason", reason) == reason
    assert ours.read_bytes() == before


@pytest.mark.parametrize("order", [(("a", "1"), ("b", "2")), (("b", "2"), ("a", "1"))])
def test_the_order_of_attributes_does_not_count(tmp_path: Path, order: tuple[tuple[str, str], ...]) -> None:
    files = [attributed(tmp_path / "1.orc", ("a", "1"), ("b", "2")), attributed(tmp_path / "2.orc", *order)]
    assert java_merged(tmp_path / "java.orc", files) == 2
    assert len(merged(tmp_path / "ours.orc", files).files) == 2


def test_old_days_stay_where_they_are(tmp_path: Path) -> None:
    """ORC Java's own merging calls the result hybrid, whatever the files are."""
    type_ = struct(d="date")
    files = [tmp_path / "1.orc", tmp_path / "2.orc"]
    for file in files:
        java_orc.write(file, type_, [(-200_000,)], options={"orc.proleptic.gregorian": True})
    merged(tmp_path / "ours.orc", files)
    assert java_orc.read(tmp_path / "ours.orc", type_) == [(-200_000,), (-200_000,)]
    assert tail_of(tmp_path / "ours.orc").footer.calendar is Calendar.PROLEPTIC_GREGORIAN


def test_stripes_keep_their_zones(tmp_path: Path) -> None:
    type_ = struct(t="timestamp")
    rows: list[object] = [(1_500_000_000_123_456_789,), (-1_000_000_000,)]
    files = [tmp_path / "1.orc", tmp_path / "2.orc"]
    for file, zone in zip(files, ("Asia/Tokyo", "America/New_York"), strict=True):
        java_orc.write(file, type_, rows, zone=zone)
    merged(tmp_path / "ours.orc", files)
    compare.assert_same_rows(type_, java_orc.read(tmp_path / "ours.orc", type_), rows + rows)
    assert_merged(tmp_path / "ours.orc", files)


# --- real files ------------------------------------------------------------------------------------

READABLE = [path for path, row in TABLE.items() if row.judge != "refused"]
# ORC Java cannot join statistics that older writers did not record, or that are not there.
NOT_MERGEABLE = {
    "apache-orc/encrypted/sample1.orc": "encrypted",
    "apache-orc/encrypted/sample2.orc": "encrypted",
    "apache-orc/version1999.orc": "unknown_version",
    "apache-orc/zero.orc": "empty",
    "cudf/java/splittable.orc": "unknown_writer",
}
# Arrow cannot hold what is in them.
NO_TABLE = ("hetu-core/test-data-composites-with-nulls.orc", "impala/max_nesting_depth/")


@pytest.mark.parametrize("name", some(READABLE))
def test_files_of_all_writers(tmp_path: Path, corpus_folder: Path, name: str) -> None:
    path = corpus_folder / name
    ours, java = tmp_path / "ours.orc", tmp_path / "java.orc"
    taken = java_merged(java, [path, path]) if path.stat().st_size < LARGEST else None
    if name in NOT_MERGEABLE:
        assert not taken or name == "apache-orc/zero.orc"
        with pytest.raises(orcstream.OrcError, match=re.escape(str(path))):
            merged(ours, [path, path], skip_incompatible=True)
        return
    result = merged(ours, [path, path])
    assert taken in (2, None)
    if taken == 2:
        assert_java_agrees(ours, java)
    elif result.row_count:
        before, after = tail_of(path).footer.statistics, tail_of(ours).footer.statistics
        assert len(after) in (0, len(before))
        for column in range(len(after)):
            one, two = before.get(column), after.get(column)
            assert one is not None
            assert two == merged_statistics(one, one) or str(two) == str(merged_statistics(one, one))
    if not name.startswith(NO_TABLE) and path.stat().st_size < LARGEST:
        assert_merged(ours, [path, path], **TABLE[name].options)
