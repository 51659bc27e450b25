"""Tables of many files, as Spark's own source sees them: values of folders, patterns, what is left out."""

from __future__ import annotations

import re
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, DecimalType, FloatType, IntegerType, StringType, TimestampType

import orcstream
from orcstream.errors import SchemaMismatch, UsageError
from orcstream.spark.options import Options
from orcstream.spark.read.files import FileChoice, find_files
from orcstream.spark.read.partitions import typed_value
from orcstream.spark.read.reading import schema_of
from tests.spark.native import same_rows

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "x.orc"
    with orcstream.blocking.create(str(path), "struct<id:bigint>") as out:
        out.write([(1,), (2,)])
    return path


def put(one_file: Path, *places: Path) -> None:
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(one_file, place)


# What folders name, and which type Spark makes of it.
FOLDERS = [
    ["1", "-7"],
    ["1", "3000000000"],
    ["1", "2.5"],
    ["1", "99999999999999999999"],
    ["3000000000", "2.5"],
    ["2024-01-01", "2023-12-31"],
    ["2024-01-01 10%3A30%3A00", "2023-12-31 00%3A00%3A00.5"],
    ["2024-01-01", "2023-12-31 00%3A00%3A00"],
    ["2024-01-01", "1"],
    ["a%2Fb%3D%25", "ü +"],
    ["7", NULL],
    ["1e3", "NaN"],
    ["2024-13-01", "2024-01-02"],
]


def test_types_of_folders_are_spark_s(spark: SparkSession, one_file: Path, tmp_path: Path) -> None:
    for number, values in enumerate(FOLDERS):
        table = tmp_path / str(number)
        for place, value in enumerate(values):
            put(one_file, table / f"p={value}" / f"q={place}" / "x.orc")
        schema = schema_of({"path": str(table)})
        native = spark.read.orc(str(table))
        assert schema == native.schema, values
        if number in (2, 6, 9, 10):
            ours = spark.read.format("orcstream").load(str(table))
            key = "concat(id, '-', q) as key"
            same_rows(ours.selectExpr(key, "*"), native.selectExpr(key, "*"), by="key")


def test_folders_that_say_nothing_are_text(one_file: Path, tmp_path: Path) -> None:
    """Spark makes VOID of them, which no file can hold."""
    put(one_file, tmp_path / f"p={NULL}" / "x.orc")
    assert schema_of({"path": str(tmp_path)})["p"].dataType == StringType()


def test_a_schema_decides_the_types_of_folders(spark: SparkSession, one_file: Path, tmp_path: Path) -> None:
    put(one_file, tmp_path / "p=01" / "x.orc", tmp_path / "p=2" / "x.orc")
    read = spark.read.format("orcstream").schema("p string, id int").load(str(tmp_path))
    assert sorted(map(tuple, read.collect())) == [("01", 1), ("01", 2), ("2", 1), ("2", 2)]


def test_folders_of_columns_that_begin_with_an_underscore(
    spark: SparkSession, one_file: Path, tmp_path: Path
) -> None:
    """They are read, as Spark reads them; other folders of such names are not."""
    put(one_file, tmp_path / "_x=1" / "a.orc", tmp_path / "_y" / "b.orc", tmp_path / ".z=1" / "c.orc")
    expected = spark.read.format("orc").load(str(tmp_path)).collect()
    assert {row["_x"] for row in expected} == {1}
    assert spark.read.format("orcstream").load(str(tmp_path)).collect() == expected
    with orcstream.blocking.dataset(str(tmp_path)) as found:
        assert found.read().to_pylist() == [row.asDict() for row in expected]


PLACES = """
    a.orc b.ORC _hidden.orc .hidden.orc sub/c.orc _tmp/d.orc .tmp/e.orc s1/x.orc s2/y.orc s1/deep/z.orc
    c.orc._COPYING_
""".split()
# Paths below the table, and options.
CHOICES: list[tuple[list[str], dict[str, str]]] = [
    ([""], {}),
    ([""], {"recursiveFileLookup": "true"}),
    ([""], {"recursiveFileLookup": "true", "pathGlobFilter": "*[c-z].orc"}),
    (["*.orc"], {}),
    (["s?"], {}),
    (["s*/*.orc"], {}),
    (["{s1,s2}/*"], {}),
    (["s[12]", "sub"], {}),
    (["s[^1]"], {}),
    (["s1", "a.orc"], {}),
    ([""], {"modifiedAfter": "2999-01-01T00:00:00"}),
    ([""], {"modifiedBefore": "2999-01-01T00:00:00"}),
]


async def test_the_files_that_spark_reads(spark: SparkSession, one_file: Path, tmp_path: Path) -> None:
    put(one_file, *(tmp_path / place for place in PLACES))
    (tmp_path / "empty.orc").touch()
    for paths, options in CHOICES:
        whole = [f"{tmp_path}/{path}" for path in paths]
        native = spark.read.schema("id bigint").options(**options).format("orc").load(whole)
        given = {"paths": str(whole).replace("'", '"'), **options}
        choice = FileChoice.of(Options(given), case_sensitive=False, timezone="UTC")
        found = await find_files(choice)
        expected = sorted(url.removeprefix("file://") for url in native.inputFiles() if "empty" not in url)
        assert sorted(file.url for file in found.files) == expected, (paths, options)


async def found(*paths: object, **options: str) -> list[str]:
    given = {"paths": str([str(path) for path in paths]).replace("'", '"'), **options}
    choice = FileChoice.of(Options(given), case_sensitive=False, timezone="UTC")
    return [file.url for file in (await find_files(choice)).files]


async def test_what_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "*.orc"):
        with pytest.raises(FileNotFoundError):
            await found(path)
        assert await found(path, ignoreMissingFiles="true") == []


async def test_folders_of_two_tables(one_file: Path, tmp_path: Path) -> None:
    put(one_file, tmp_path / "a=1" / "x.orc", tmp_path / "b=1" / "x.orc")
    with pytest.raises(SchemaMismatch, match=r"a=1'.*b=1'"):
        await found(tmp_path)
    put(one_file, tmp_path / "t" / "c=1" / "x.orc", tmp_path / "u" / "c=2" / "x.orc")
    with pytest.raises(SchemaMismatch, match=r"t/c=1' and '.*u/c=2'"):
        await found(tmp_path / "?")


async def test_a_base_path_keeps_the_values_of_folders(one_file: Path, tmp_path: Path) -> None:
    put(one_file, tmp_path / "a=1" / "x.orc", tmp_path / "a=2" / "x.orc")
    assert schema_of({"path": f"{tmp_path}/a=1"}).names == ["id"]
    for path in ("a=1", "a=*", "a=2/x.orc"):
        based = schema_of({"path": f"{tmp_path}/{path}", "basePath": str(tmp_path)})
        assert based.simpleString() == "struct<id:bigint,a:int>"
    with pytest.raises(UsageError, match=r"\bbasePath\b"):
        await found(tmp_path / "a=1", basePath=str(tmp_path / "b"))


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("0.1", FloatType(), 0.10000000149011612),
        ("1e39", FloatType(), float("inf")),
        ("1.05", DecimalType(5, 1), Decimal("1.1")),
        ("-1.05", DecimalType(5, 1), Decimal("-1.1")),
        ("1e3", DecimalType(5, 1), Decimal("1000.0")),
    ],
)
def test_values_of_folders_are_those_of_their_type(text: str, type_: DataType, value: object) -> None:
    """As Java has them: filters of Spark compare with such values, and so do Arrow's types."""
    assert typed_value(text, type_, "UTC", "x") == value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("NaN", DecimalType(5, 1)),
        ("12345", DecimalType(5, 1)),
        ("1e400", DecimalType(38, 0)),
        ("1_0", IntegerType()),
        ("1_0", FloatType()),
        ("\udcff", StringType()),
    ],
)
def test_what_is_no_value_of_a_folder_s_type(text: str, type_: DataType) -> None:
    with pytest.raises(SchemaMismatch, match="'sftp://host/p=x'"):
        typed_value(text, type_, "UTC", "sftp://me:hush@host/p=x")


@pytest.mark.parametrize("zone", ["Mars/Base", "GMT+08:00", "../x", ""])
async def test_zones_of_times_in_folders_and_options(one_file: Path, tmp_path: Path, zone: str) -> None:
    with pytest.raises(UsageError, match=rf"{re.escape(repr(zone))}.*\btz database\b"):
        typed_value("2024-01-01 00:00:00", TimestampType(), zone, "x")
    given = Options({"path": str(tmp_path), "modifiedAfter": "2024-01-01T00:00:00"})
    with pytest.raises(UsageError, match=rf"{re.escape(repr(zone))}.*\btz database\b"):
        FileChoice.of(given, case_sensitive=False, timezone=zone)


async def test_credentials_are_not_shown() -> None:
    """Of memory, which takes them for a part of the path."""
    home = "memory://me:hush@host/tables"
    for place in ("a=1", "b=1"):
        with orcstream.blocking.create(f"{home}/{place}/x.orc", "struct<id:int>") as out:
            out.write([(1,)])
    for paths, options in (([home], {}), ([f"{home}/c=*"], {}), ([f"{home}/a=1"], {"basePath": f"{home}/c"})):
        with pytest.raises((UsageError, FileNotFoundError)) as error:
            await found(*paths, **options)
        assert "memory://host/tables" in str(error.value)
        assert "hush" not in str(error.value)
