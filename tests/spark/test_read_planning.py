"""What a task reads: stripes shared out, each row once; files that change, are damaged, or differ."""

from __future__ import annotations

import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimeType,
)

import orcstream
from orcstream.errors import (
    ColumnNotFound,
    CorruptStream,
    KeyUnavailable,
    NotOrcFile,
    OrcError,
    SchemaMismatch,
    SourceChanged,
    UsageError,
)
from orcstream.io.keys import InMemoryKeyProvider
from orcstream.schema.schema import Schema
from orcstream.spark.read.partitions import inferred_type
from orcstream.spark.read.pieces import Piece
from orcstream.spark.read.planning import packed
from orcstream.spark.read.reading import LoadOptions, read_plan, reader_of, schema_of
from orcstream.spark.read.shaping import spark_type
from tests.servers.loopback import start_moto

STRIPE_ROWS = 1000
TIME_OF_DAY = TimeType(6) if int(pyspark.__version__.split(".")[1]) >= 3 else StringType()


def write(path: Path | str, schema: str, rows: list[Any], **options: Any) -> str:
    with orcstream.blocking.create(str(path), schema, **options) as out:
        out.write(rows)
    return str(path)


def stripes(path: Path, count: int) -> str:
    """A file of `count` stripes with numbers that rise."""
    with orcstream.blocking.create(str(path), "struct<id:bigint,text:string>", compression="none") as out:
        for first in range(0, count * STRIPE_ROWS, STRIPE_ROWS):
            out.write([(first + row, f"{first + row:>20}") for row in range(STRIPE_ROWS)])
            out.end_stripe()
    return str(path)


def columns(text: str) -> StructType:
    found = spark_type(Schema.parse(f"struct<{text}>").root)
    assert isinstance(found, StructType)
    return found


def read(options: dict[str, str], schema: str | None = None) -> pa.Table:
    """What tasks answer together, each of them in a process of its own as far as values go."""
    reader = reader_of(schema_of(options) if schema is None else columns(schema), options)
    partitions = reader.partitions()
    elsewhere = pickle.loads(pickle.dumps(reader))
    batches = [batch for part in partitions for batch in elsewhere.read(pickle.loads(pickle.dumps(part)))]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def pieces_in(parts: Any) -> list[Piece]:
    return [piece for part in parts for piece in part.pieces]


def test_a_large_file_is_shared_out_by_stripes(tmp_path: Path) -> None:
    url = stripes(tmp_path / "t.orc", 9)
    options = {"path": url, "partition_bytes": "64k", "open_cost_bytes": "1k"}
    parts = reader_of(schema_of(options), options).partitions()
    pieces = pieces_in(parts)
    assert len(parts) >= 3
    assert all(piece.rows is not None and piece.rows[0] % STRIPE_ROWS == 0 for piece in pieces)
    assert read(options)["id"].to_pylist() == list(range(9 * STRIPE_ROWS))


def test_stripes_larger_than_a_task_are_shared_out_by_row_groups(tmp_path: Path) -> None:
    """Two stripes, of three quarters and a quarter of the rows: four tasks are as good as equal."""
    url, rows = str(tmp_path / "t.orc"), 8000
    with orcstream.blocking.create(
        url, "struct<id:bigint,text:string>", compression="none", row_index_stride=100
    ) as out:
        for first, stop in ((0, rows * 3 // 4), (rows * 3 // 4, rows)):
            out.write([(row, f"{row:>20}") for row in range(first, stop)])
            out.end_stripe()
    options = {"path": url, "min_partitions": "4", "open_cost_bytes": "1k"}
    pieces = pieces_in(reader_of(schema_of(options), options).partitions())
    assert len(pieces) == 4
    for piece in pieces:
        assert piece.rows is not None
        assert piece.rows[0] % 100 == 0
        assert piece.rows[1] - piece.rows[0] == pytest.approx(rows / 4, rel=0.2)
    assert read(options)["id"].to_pylist() == list(range(rows))
    # Of a part, the option's rows are read.
    assert read({**options, "rows": "1900:2150"})["id"].to_pylist() == list(range(1900, 2150))
    # Where there is no index, a part would cost the rows before it.
    write(url, "struct<id:bigint>", [(row,) for row in range(rows)], row_index_stride=0, compression="none")
    (piece,) = pieces_in(reader_of(schema_of(options), options).partitions())
    assert piece.rows in (None, (0, rows))


def test_small_files_are_read_together(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path / f"{number:02}.orc", "struct<id:bigint>", [(number,)])
    options = {"path": str(tmp_path), "min_partitions": "2", "open_cost_bytes": "1k"}
    parts = reader_of(schema_of(options), options).partitions()
    assert 2 <= len(parts) <= 5
    assert read(options)["id"].to_pylist() == list(range(20))


def test_patterns_do_not_match_what_is_hidden(tmp_path: Path) -> None:
    for folder in ("a", "_orcstream_log", ".staging", "_kind=x"):
        (tmp_path / folder / "q").mkdir(parents=True)
        write(tmp_path / folder / "q" / "x.orc", "struct<id:int>", [(1,)])
    assert read({"path": f"{tmp_path}/*/*/*"}).num_rows == 2
    assert read({"path": f"{tmp_path}/*/*"}).num_rows == 2
    assert read({"path": str(tmp_path / "_orcstream_log" / "q" / "*")}).num_rows == 1


@pytest.mark.parametrize("schema", [None, "id:bigint"])
def test_a_base_path_above_folders_that_name_nothing(tmp_path: Path, schema: str | None) -> None:
    """As Spark's own sources read it: all files directly in the paths that are given."""
    table = tmp_path / "2024" / "01"
    (table / "old").mkdir(parents=True)
    file = write(table / "a.orc", "struct<id:bigint>", [(1,)])
    write(table / "old" / "b.orc", "struct<id:bigint>", [(2,)])
    for path in (str(table), file, f"{table.parent}/0*", f"{table}/*.orc"):
        for base in (tmp_path, table.parent, table):
            options = {"path": path, "basePath": str(base)}
            assert read(options, schema)["id"].to_pylist() == [1], options


def test_folders_that_name_columns_beside_those_that_do_not(tmp_path: Path) -> None:
    """As with Spark's own sources: files in the table's folder are left out, other folders are an error."""
    for name in ("t/k=1/old", "u"):
        (tmp_path / name).mkdir(parents=True)
    for number, name in enumerate(("t/k=1/a.orc", "t/k=1/old/b.orc", "t/c.orc", "u/d.orc")):
        write(tmp_path / name, "struct<id:bigint>", [(number,)])
    assert sorted(read({"path": str(tmp_path / "t")})["id"].to_pylist()) == [0, 1]
    both = json.dumps([str(tmp_path / "t"), str(tmp_path / "u")])
    for options in ({"path": str(tmp_path)}, {"paths": both}, {"paths": both, "basePath": str(tmp_path)}):
        with pytest.raises(SchemaMismatch, match=r"/t/k=1(/old)?'.*/u'"):
            read(options)


def test_a_file_that_several_paths_have_is_read_once(tmp_path: Path) -> None:
    """In whichever order the paths are given, and with the values that folders name."""
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=2").mkdir()
    write(tmp_path / "k=1" / "b.orc", "struct<id:bigint>", [(2,)])
    write(tmp_path / "k=2" / "c.orc", "struct<id:bigint>", [(3,)])

    def rows(*paths: Path) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read({"paths": json.dumps([*map(str, paths)])}).to_pylist()
        return found

    for one, other in ((tmp_path, tmp_path / "k=1"), (tmp_path / "k=1", tmp_path)):
        assert rows(one, other) == [{"id": 2, "k": 1}, {"id": 3, "k": 2}]
    (tmp_path / "k=1" / "b.orc").unlink()
    (tmp_path / "k=2" / "c.orc").unlink()
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "a.orc", "struct<id:bigint>", [(1,)])
    for one, other in ((tmp_path, tmp_path / "sub"), (tmp_path / "sub", tmp_path)):
        assert rows(one, other) == [{"id": 1}]


def test_pieces_are_packed_in_their_order() -> None:
    pieces = [Piece(str(weight), None, "", weight) for weight in (5, 50, 100, 1, 1, 1, 300, 2)]
    tasks = packed(pieces, 100, 10)
    assert [[piece.weight for piece in task] for task in tasks] == [[5, 50], [100], [1, 1, 1], [300], [2]]


def test_stripes_and_folders_that_cannot_match_are_not_planned(tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        (tmp_path / f"day={day}").mkdir()
        stripes(tmp_path / f"day={day}" / "t.orc", 6)
    options = {"path": str(tmp_path), "partition_bytes": "40k", "open_cost_bytes": "1k"}
    days = "day = date '2024-01-02' or day < date '2000-01-01' and id = 1"
    pieces = pieces_in(reader_of(schema_of(options), {**options, "where": days}).partitions())
    assert {piece.texts for piece in pieces} == {("2024-01-02",)}
    options["where"] = f"id > 4500 and ({days})"
    pieces = pieces_in(reader_of(schema_of(options), options).partitions())
    assert {piece.rows and piece.rows[0] for piece in pieces} <= {4000, 5000}
    assert {piece.texts for piece in pieces} == {("2024-01-02",)}
    found = read(options)
    assert found["id"].to_pylist() == list(range(4501, 6000))
    assert set(found["day"].to_pylist()) == {datetime.date(2024, 1, 2)}
    assert read({**options, "where": "day > date '2024-01-02'"}).num_rows == 0


def test_filters_of_queries_are_not_taken(tmp_path: Path) -> None:
    """Spark keeps one reader for a DataFrame, with the filters of another query."""
    options = {"path": write(tmp_path / "t.orc", "struct<id:bigint>", [(1,)])}
    reader = reader_of(schema_of(options), options)
    assert type(reader).pushFilters is DataSourceReader.pushFilters
    with pytest.raises(UsageError, match=r"option\('where'"):
        schema_of({**options, "pushdown": "true"})


def test_rows_and_columns(tmp_path: Path) -> None:
    url = stripes(tmp_path / "t.orc", 4)
    for text, expected in (("900:2100", range(900, 2100)), (":3", range(3)), ("3998:", range(3998, 4000))):
        found = read({"path": url, "rows": text, "partition_bytes": "30k", "columns": "id"})
        assert found.column_names == ["id"]
        assert found["id"].to_pylist() == list(expected)
    with pytest.raises(UsageError, match=r"\brows\b.*A:B"):
        read({"path": url, "rows": "7"})
    with pytest.raises(ColumnNotFound):
        read({"path": url, "columns": "id,other"})
    with pytest.raises(UsageError, match=r"\bload\(\).*\bCREATE TEMPORARY VIEW\b"):
        reader_of(columns("id:bigint"), {})
    with pytest.raises(UsageError, match=r"\bcatalog\b.*\bCREATE TEMPORARY VIEW\b"):
        read({"path": url, "location": url})
    with pytest.raises(UsageError, match=r"\bcolums\b.*\bcolumns\b"):
        read({"path": url, "colums": "id"})


def test_columns_that_files_lack_or_have_in_another_type(tmp_path: Path) -> None:
    write(tmp_path / "1.orc", "struct<a:int,B:string,s:struct<x:int>>", [(1, "x", (1,))])
    write(
        tmp_path / "2.orc",
        "struct<b:string,c:double,a:bigint,s:struct<y:int,x:bigint>>",
        [("y", 2.5, 1 << 40, (2, 3))],
    )
    options = {"path": str(tmp_path)}
    merged = schema_of({**options, "mergeSchema": "true"})
    assert merged.simpleString() == "struct<a:bigint,B:string,s:struct<x:bigint,y:int>,c:double>"
    assert read({**options, "mergeSchema": "true"}).to_pylist() == [
        {"a": 1, "B": "x", "s": {"x": 1, "y": None}, "c": None},
        {"a": 1 << 40, "B": "y", "s": {"x": 3, "y": 2}, "c": 2.5},
    ]
    chosen = read(options, "c:double,none:string,A:decimal(20,2)")
    assert [list(row.values()) for row in chosen.to_pylist()] == [[None, None, 1], [2.5, None, 1 << 40]]
    strict = read({**options, "case_sensitive": "true"}, "A:int,a:bigint")
    assert [row["A"] for row in strict.to_pylist()] == [None, None]
    write(tmp_path / "3.orc", "struct<a:array<int>>", [([1],)])
    with pytest.raises(SchemaMismatch, match=r"3\.orc: .*'a'.*\bbigint\b.*array<int>"):
        schema_of({**options, "mergeSchema": "true"})
    with pytest.raises(SchemaMismatch, match=r"3\.orc: .*'a'.*array<int>"):
        read(options, "a:int")


def test_a_file_that_is_replaced_after_planning(tmp_path: Path) -> None:
    for partition_bytes in ("128m", "1k"):  # with and without looking into the file
        url = stripes(tmp_path / "t.orc", 2)
        options = {"path": url, "partition_bytes": partition_bytes, "open_cost_bytes": "1"}
        reader = reader_of(schema_of(options), options)
        parts = reader.partitions()
        stripes(tmp_path / "t.orc", 2)
        with pytest.raises(SourceChanged, match=r"t\.orc: "):
            list(reader.read(parts[0]))


def test_files_that_are_damaged_or_gone(tmp_path: Path) -> None:
    url = stripes(tmp_path / "a.orc", 3)
    data = bytearray(Path(url).read_bytes())
    with orcstream.blocking.open(url) as file:
        second = file.stripes[1]
        footer = file.stripe_footer(1)
    at = second.offset
    for stream in footer.streams:  # the numbers of the second stripe
        if stream.column == 1 and stream.kind.name == "DATA":
            data[at : at + stream.length] = b"\xff" * stream.length
        at += stream.length
    Path(url).write_bytes(data)
    (tmp_path / "b.orc").write_bytes(b"something else, and long enough to be looked at")
    write(tmp_path / "c.orc", "struct<id:bigint,text:string>", [(-1, "x")])
    options = {"path": str(tmp_path)}
    with pytest.raises(CorruptStream, match=r"a\.orc: .*'id': .*stripe 1, column 1, stream DATA"):
        read(options)
    with pytest.raises(NotOrcFile, match=r"b\.orc"):
        read({"path": str(tmp_path / "b.orc")}, "id:int")
    ids = read({**options, "ignoreCorruptFiles": "true"})["id"].to_pylist()
    assert ids[-1] == -1
    assert ids[:-1] == list(range(len(ids) - 1))
    reader = reader_of(columns("id:bigint"), {**options, "ignoreMissingFiles": "true"})
    parts = reader.partitions()
    (tmp_path / "a.orc").unlink()
    (tmp_path / "b.orc").unlink()
    batches: list[Any] = [batch for part in parts for batch in reader.read(part)]
    assert [batch.to_pylist() for batch in batches] == [[{"id": -1}]]


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        (["12:00:00", "13:30:00.5"], TIME_OF_DAY),
        (["23:59:59.123456", "__HIVE_DEFAULT_PARTITION__"], TIME_OF_DAY),
        (["24:00:00"], StringType()),
        (["12:00"], StringType()),
        (["1:2:3"], StringType()),
        (["12:00:00Z"], StringType()),
        (["T12:00:00"], StringType()),
        (["12:00:00.1234567"], StringType()),
        (["12:00:00", "noon"], StringType()),
    ],
)
def test_times_of_day_in_folders(tmp_path: Path, texts: list[str], type_: DataType) -> None:
    """What Spark takes such folders for."""
    for text in texts:
        (tmp_path / f"t={text}").mkdir()
        write(tmp_path / f"t={text}" / "a.orc", "struct<id:int>", [(1,)])
    options = {"path": str(tmp_path)}
    assert schema_of(options)["t"].dataType == type_
    null = "__HIVE_DEFAULT_PARTITION__"
    values: list[Any] = [None if text == null else text for text in texts]
    if isinstance(type_, TimeType):
        values = [one and datetime.time.fromisoformat(one) for one in values]
    assert sorted(map(str, read(options)["t"].to_pylist())) == sorted(map(str, values))
    assert read({**options, "where": f"t = '{texts[0]}'"})["t"].to_pylist() == [values[0]]
    assert read({**options, "where": f"t > '{texts[0]}'"}).num_rows == sum(
        one is not None and one > values[0] for one in values
    )


def test_a_file_of_keys_may_change_while_processes_live(tmp_path: Path) -> None:
    """Spark uses one process for the tasks of many queries."""
    secret, place = "00112233445566778899aabbccddeeff", tmp_path / "keys.json"
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes.fromhex(secret))
    columns = [orcstream.Encrypt(key="pii", columns=["name"])]
    url = write(tmp_path / "t.orc", "struct<name:string>", [("Ada",)], encrypt=columns, keys=keys)
    for known, found in (("other", None), ("pii", "Ada"), ("other", None)):
        place.write_text(json.dumps({known: secret}))
        place.chmod(0o600)
        assert read({"path": url, "keys": str(place)}).to_pylist() == [{"name": found}]


def test_encrypted_files_with_keys_and_without(tmp_path: Path) -> None:
    secret = "00112233445566778899aabbccddeeff"
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes.fromhex(secret))
    url = write(
        tmp_path / "t.orc",
        "struct<id:int,name:string>",
        [(1, "Ada")],
        encrypt=[orcstream.Encrypt(key="pii", columns=["name"])],
        keys=keys,
    )
    place = tmp_path / "keys.json"
    place.write_text(json.dumps({"pii": secret}))
    place.chmod(0o600)
    assert read({"path": url, "keys": str(place)}).to_pylist() == [{"id": 1, "name": "Ada"}]
    assert read({"path": url}).to_pylist() == [{"id": 1, "name": None}]
    for required in ("true", "pii"):
        with pytest.raises(KeyUnavailable, match=r"t\.orc"):
            read({"path": url, "require_keys": required})


def test_a_folder_in_s3() -> None:
    moto_server = start_moto()
    moto_server.client.create_bucket(Bucket="spark")
    for number in range(3):
        url = f"s3://spark/t/k={number}/x.orc"
        write(url, "struct<id:int>", [(number,)], storage_options=moto_server.options)
    options = {"storage_options": json.dumps(moto_server.options)}
    found = read({"path": "s3://spark/t", **options})
    assert found.to_pylist() == [{"id": number, "k": number} for number in range(3)]
    options = {
        "storage.endpoint_url": moto_server.endpoint,
        "storage.key": "testing",
        "storage.secret": "testing",
        "storage.client_kwargs": json.dumps({"region_name": "us-east-1"}),
    }
    found = read({"path": "s3a://spark/t/k=[12]", **options, "basePath": "s3a://spark/t"})
    assert found.to_pylist() == [{"id": number, "k": number} for number in (1, 2)]


def test_columns_that_are_not_to_hold_nulls(tmp_path: Path) -> None:
    """Spark takes whatever lies there for a value, where a schema says that there are none."""
    number = IntegerType()
    inner = StructType([StructField("x", number, nullable=False)])
    strict = StructType(
        [
            StructField("a", number, nullable=False),
            StructField("s", inner),
            StructField("l", ArrayType(inner, containsNull=False)),
            StructField("m", MapType(StringType(), number, valueContainsNull=False)),
        ]
    )
    good: list[Any] = [(1, (2,), [(3,), (4,)], {"k": 5}), (1, None, None, None), (1, (0,), [], {})]
    stored = "struct<a:int,s:struct<x:int>,l:array<struct<x:int>>,m:map<string,int>>"
    url = write(tmp_path / "t.orc", stored, good)

    def rows() -> list[Any]:
        reader: Any = reader_of(strict, {"path": url})
        return [row for part in reader.partitions() for one in reader.read(part) for row in one.to_pylist()]

    assert [row["s"] for row in rows()] == [{"x": 2}, None, {"x": 0}]
    for name, bad in (
        ("a", (None, None, None, None)),
        ("s.x", (1, (None,), None, None)),
        ("l.element", (1, None, [None], None)),
        ("l.element.x", (1, None, [(1,), (None,)], None)),
        ("m.value", (1, None, None, {"k": None})),
    ):
        write(tmp_path / "t.orc", stored, [*good, bad])
        with pytest.raises(SchemaMismatch, match=rf"t\.orc: .*'{name}'.*\bnulls\b"):
            rows()


def test_a_folder_of_a_null_where_there_is_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "p=__HIVE_DEFAULT_PARTITION__").mkdir()
    write(tmp_path / "p=__HIVE_DEFAULT_PARTITION__" / "t.orc", "struct<a:int>", [(1,)])
    schema = StructType([StructField("a", IntegerType()), StructField("p", IntegerType(), nullable=False)])
    reader = reader_of(schema, {"path": str(tmp_path)})
    with pytest.raises(SchemaMismatch, match=r"t\.orc: .*'p'"):
        list(reader.read(reader.partitions()[0]))


def test_secrets_are_in_no_text_of_a_plan() -> None:
    options = {"path": "s3://b/t", "storage.secret": "hush", "keys": "kms://me:hush@host/kms"}
    plan = read_plan(LoadOptions.of(options), columns("id:int"))
    assert "hush" not in repr(plan) + str(plan)
    assert plan.access.storage_options == {"secret": "hush"}


@pytest.mark.parametrize(
    ("stored", "options", "text"),
    [
        ("array<int>", {}, r"\bstructs\b"),
        ("struct<a:int,u:uniontype<int,string>>", {}, r"\bu\b.*option\('columns'"),
        ("struct<a:int>", {"columns": "b"}, "'b'.*'a'"),
        ("struct<a:int>", {"columns": "a.b", "mergeSchema": "true"}, r"'a\.b'"),
    ],
)
def test_schemas_that_cannot_be_name_their_file(
    tmp_path: Path, stored: str, options: dict[str, str], text: str
) -> None:
    write(tmp_path / "t.orc", stored, [])
    with pytest.raises(OrcError, match=rf"t\.orc: .*{text}" if "mergeSchema" not in options else text):
        schema_of({"path": str(tmp_path), **options})


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1.", DecimalType(1, 0)),
        ("1.0E10", DecimalType(11, 0)),
        ("12e3", DecimalType(5, 0)),
        ("0e5", DecimalType(1, 0)),
        ("1.50", DoubleType()),
        ("1e-3", DoubleType()),
        ("1E400", DoubleType()),
        ("1e99999999999", DoubleType()),
        ("0" * 50 + "7", IntegerType()),
    ],
)
def test_numbers_in_folders_have_sparks_types(text: str, type_: DataType) -> None:
    assert inferred_type([text, None]) == type_
