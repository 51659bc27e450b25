"""Tables that Hive wrote with transactions: Spark gets an error, never the events that their files hold."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

import orcstream
from orcstream import acid
from orcstream.errors import UsageError
from orcstream.plan.acid.names import is_table_file, parse_directory
from orcstream.spark.access import Access, run
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.jobs.compaction import compact_with
from orcstream.spark.jobs.looking import found_pieces
from orcstream.spark.options import Options
from orcstream.spark.read.reading import reader_of, schema_of
from orcstream.spark.stream.reading import stream_reader_of
from orcstream.spark.stream.writing import stream_writer_of
from orcstream.spark.write import written
from orcstream.spark.write.options import write_plan
from orcstream.spark.write.target import Folder
from orcstream.spark.write.writing import writer_of
from tests.generators.hive_tables import TABLES, HiveTable, kept_tables

SCHEMA = StructType([StructField("a", IntegerType())])
REFUSAL = r"\btransactional\b.*\bacid\.open_table\b"
NAMES = [make.__name__ for make in TABLES]


@pytest.fixture(scope="module")
def hive_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HiveTable]:
    return kept_tables(tmp_path_factory.mktemp("hive"))


def here(label: str, units: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    assert label
    return [work(unit) for unit in units]


def check_refused(path: str) -> None:
    options = {"path": path}
    with pytest.raises(UsageError, match=REFUSAL):
        schema_of(options)
    with pytest.raises(UsageError, match=REFUSAL):
        reader_of(SCHEMA, options).partitions()
    with pytest.raises(UsageError, match=REFUSAL):
        schema_of({**options, "recursiveFileLookup": "true"})


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_hive(hive_tables: dict[str, HiveTable], name: str) -> None:
    """By the table's folder, its directories, their files, and patterns of them."""
    table = hive_tables[name].path
    directories = [one for one in table.rglob("*") if one.is_dir() and parse_directory(one.name)]
    files = [one for one in table.rglob("*") if one.is_file() and is_table_file(str(one))]
    assert directories
    check_refused(str(table))
    for one in files:
        check_refused(str(one))
        check_refused(str(one.parent))
        check_refused(f"{one.parent.parent}/*/{one.name[:3]}*")


@pytest.mark.parametrize("name", ["changed", "bucketed"])
def test_files_of_events_that_were_copied_elsewhere(
    hive_tables: dict[str, HiveTable], name: str, tmp_path: Path
) -> None:
    source = next(hive_tables[name].path.glob("delta_*/bucket_*"))
    shutil.copy(source, tmp_path / "part-0.orc")
    with pytest.raises(UsageError, match=rf"part-0\.orc: .*{REFUSAL}"):
        schema_of({"path": str(tmp_path)})
    reader = reader_of(SCHEMA, {"path": str(tmp_path)})
    with pytest.raises(UsageError, match=REFUSAL):
        [batch for part in reader.partitions() for batch in reader.read(part)]


def test_streams(hive_tables: dict[str, HiveTable], tmp_path: Path) -> None:
    options = {"path": str(hive_tables["changed"].path), "log": str(tmp_path / "log")}
    reader = stream_reader_of(SCHEMA, options)
    with pytest.raises(UsageError, match=REFUSAL):
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


def test_jobs_look_at_their_files(hive_tables: dict[str, HiveTable]) -> None:
    """`verify` and `profile` are about files, whatever their rows mean."""
    table = hive_tables["changed"].path
    found = found_pieces(here, [str(table)], Access(), piece_bytes=1 << 20)
    files = {str(one) for one in table.rglob("*_*") if one.is_file() and is_table_file(str(one))}
    assert {piece.url for piece in found} == {one for one in files if "/." not in one}


@pytest.mark.parametrize("folder", ["base_2024", "delta_1_2", "d=1/base_7"])
def test_names_that_are_those_of_directories_by_chance(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    with orcstream.blocking.create(str(tmp_path / folder / "part-0.orc"), "struct<a:int>") as out:
        out.write([(1,)])
    assert schema_of({"path": str(tmp_path / folder)}) == SCHEMA
    writer_of(SCHEMA, {"path": str(tmp_path)}, overwrite=False)


WRITING_REFUSAL = rf"{REFUSAL}.*\bcompact_table\b"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_written_into_tables_nor_compacted(
    hive_tables: dict[str, HiveTable], name: str, tmp_path: Path
) -> None:
    """By the table's folder, or that of a partition."""
    table = tmp_path / "table"
    shutil.copytree(hive_tables[name].path, table)
    before = sorted(map(str, table.rglob("*")))
    options = {"path": str(table)}
    if not any(parse_directory(one.name) for one in table.iterdir()):
        folder = next(one.parent for one in table.rglob("*") if parse_directory(one.name))
        with pytest.raises(UsageError, match=WRITING_REFUSAL):
            writer_of(SCHEMA, {"path": str(folder)}, overwrite=False)
        # A partition that the table has, and an overwrite of all of it.
        target = write_plan(SCHEMA, Options(options))
        path = folder.relative_to(table).as_posix()
        with pytest.raises(UsageError, match=WRITING_REFUSAL):
            run(partial(written.refuse_transactional, target, [path]))
        with pytest.raises(UsageError, match=WRITING_REFUSAL):
            writer_of(SCHEMA, options, overwrite=True).commit([])
    else:
        for overwrite in (False, True):
            with pytest.raises(UsageError, match=WRITING_REFUSAL):
                writer_of(SCHEMA, options, overwrite=overwrite)
        with pytest.raises(UsageError, match=WRITING_REFUSAL):
            stream_writer_of(SCHEMA, options, overwrite=False)
    with pytest.raises(UsageError, match=WRITING_REFUSAL):
        compact_with(here, Folder(str(table)), Compaction(1 << 20))
    left = [one for one in map(str, table.rglob("*")) if "/." not in one.removeprefix(str(table))]
    assert sorted(left) == [one for one in before if "/." not in one.removeprefix(str(table))]


def test_nothing_is_written_into_tables_with_their_own_log(tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    asyncio.run(acid.create_table(url, "struct<a:int>"))
    with pytest.raises(UsageError, match=WRITING_REFUSAL):
        writer_of(SCHEMA, {"path": url}, overwrite=False)
