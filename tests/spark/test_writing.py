"""Tables that Spark writes through the data source, as Spark's own reader and pyarrow read them."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

import orcstream
from orcstream import Prepared
from orcstream.errors import UsageError
from orcstream.io.stores.fsspec.sink import StoredFile
from orcstream.spark.options import Options
from orcstream.spark.write import written
from orcstream.spark.write.options import write_plan
from orcstream.spark.write.writing import TaskFiles, replaced_paths, writer_of
from orcstream.spark.write.written import WrittenFile, as_stored
from tests.servers.loopback import MotoServer, moto_server
from tests.spark.conftest import ZONE

__all__ = ["moto_server"]

ALL_TYPES = """
    id, cast(id % 2 as boolean) as bool, cast(id as tinyint) as byte, cast(id as smallint) as short,
    cast(id as int) as int, cast(id / 7 as float) as float, id / 7 as double,
    if(id = 3, null, concat('text ', id)) as text, cast(concat('b', id) as binary) as binary,
    cast(id as char(5)) as padded, cast(id as varchar(9)) as short_text,
    cast(id / 8 as decimal(10, 3)) as decimal, cast(id * 1e20 as decimal(38, 4)) as wide,
    date_add(date '1500-02-20', cast(id * 20000 as int)) as day,
    timestamp_micros(1729985400000000 + id * 1800000000) as time,
    timestamp_micros(-14830974000123456 + id * 1000000) as early,
    timestamp_ntz '1500-03-01 01:02:03.000004' as local_time,
    make_dt_interval(cast(id as int), 1, 2, 3.4) as span,
    array(id, null, id + 1) as list, array(timestamp_ntz '2020-01-01 00:00:00', null) as local_times,
    map('a', make_dt_interval(1)) as spans, map(concat('k', id), array(cast(id as int))) as map,
    named_struct('a', id, 'B', named_struct('at', timestamp_seconds(1729990000 + id * 3600))) as nested,
    if(id = 4, null, array(named_struct('x', cast(id as decimal(5, 1))))) as structs
"""


def save(df: DataFrame, path: Path | str, mode: str = "append", **options: object) -> None:
    given = {"timezone": ZONE, **{name: str(value) for name, value in options.items()}}
    df.write.format("orcstream").mode(mode).options(**given).save(str(path))


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.orc") if not path.name.startswith("."))


def left_behind(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path not in data_files(folder)]


def ids(folder: Path) -> list[int]:
    found = [one for file in data_files(folder) for one in pyarrow.orc.read_table(file)["id"].to_pylist()]
    return sorted(found)


def fails_once(marker: Path, how: str) -> Any:
    """A column that fails in the first attempt of the task that has row 0."""

    def work(id_: int) -> int:
        if id_ == 0 and not marker.exists():
            marker.touch()
            if how == "dies":
                os._exit(3)
            raise ValueError("no such value")
        return id_

    return f.udf(work, "bigint", useArrow=False)


def test_spark_reads_what_we_write(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 10, 1, 2).selectExpr(*_columns(ALL_TYPES))
    native = tmp_path / "native"
    df.write.orc(str(native))
    save(df, tmp_path / "ours")
    assert (tmp_path / "ours" / "_SUCCESS").exists()
    ours, theirs = spark.read.orc(str(tmp_path / "ours")), spark.read.orc(str(native))
    assert ours.schema == theirs.schema
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))
    assert sorted(map(str, ours.collect())) == sorted(map(str, df.collect()))
    with orcstream.blocking.open(data_files(tmp_path / "ours")[0]) as file:
        theirs_file = next(native.glob("*.orc"))
        with orcstream.blocking.open(theirs_file) as other:
            assert [t.attributes for t in file.schema.types] == [t.attributes for t in other.schema.types]
            assert str(file.schema) == str(other.schema)
        assert file.user_metadata["org.apache.spark.version"] == spark.version.encode()


def _columns(text: str) -> list[str]:
    """Split at commas that are in no brackets."""
    found, depth, at = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append(text[at:place].strip())
            at = place + 1
    return [*found, text[at:].strip()]


def test_lengths_of_texts_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("create table lengths (c char(4), v varchar(6), n struct<c: char(2)>) using orc")
    try:
        spark.sql("insert into lengths values ('a', 'b', named_struct('c', 'x'))")
        save(spark.table("lengths"), tmp_path)
        (file,) = data_files(tmp_path)
        with orcstream.blocking.open(file) as opened:
            found = [
                dict(one.attributes).get("spark.sql.catalyst.type") for one in opened.schema.root.children
            ]
        assert found[:2] == ["char(4)", "varchar(6)"]
        assert spark.read.orc(str(tmp_path)).collect() == spark.table("lengths").collect()
    finally:
        spark.sql("drop table lengths")


def test_append_and_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(0, 10, 1, 2).toDF("id"), tmp_path)
    save(spark.range(10, 20, 1, 1).toDF("id"), tmp_path)
    assert ids(tmp_path) == list(range(20))
    hidden = tmp_path / "_kept" / "x.orc"
    hidden.parent.mkdir()
    hidden.write_bytes(b"of somebody else")
    save(spark.range(5).toDF("id"), tmp_path, "overwrite")
    hidden.unlink()
    assert ids(tmp_path) == list(range(5))
    save(spark.range(0).toDF("id"), tmp_path, "overwrite")
    assert spark.read.orc(str(tmp_path)).schema.names == ["id"]
    assert ids(tmp_path) == []
    assert left_behind(tmp_path) == [tmp_path / "_SUCCESS"]


def test_partitions_are_folders(spark: SparkSession, tmp_path: Path) -> None:
    texts = "array('plain', 'a/b=c%d', null, '', 'ü x')"
    df = spark.range(0, 20, 1, 2).selectExpr(
        "id", f"{texts}[id % 5] as Text", "date_add(date '2024-01-01', cast(id % 2 as int)) d"
    )
    native = tmp_path / "native"
    df.write.partitionBy("Text", "d").orc(str(native))
    save(df, tmp_path / "ours", partition_by="text,d")
    ours, theirs = spark.read.orc(str(tmp_path / "ours")), spark.read.orc(str(native))
    assert ours.schema == theirs.schema
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))

    def folders(root: Path) -> set[str]:
        return {str(one.parent.relative_to(root)) for one in data_files(root)}

    assert folders(tmp_path / "ours") == folders(native)


TIMES_AND_TEXTS = [
    ("2024-01-31 12:00:00+00:00", "2024-01-31 13:00:00", "2024-01-31 12:00:00"),
    ("2024-07-31 10:20:30.500000+00:00", "2024-07-31 12:20:30.5", "2024-07-31 10:20:30.5"),
    ("0099-12-31 23:59:59.000001+00:00", None, "0099-12-31 23:59:59.000001"),
    ("1890-05-05 12:00:00+00:00", "1890-05-05 12:53:28", "1890-05-05 12:00:00"),
    # Summer times of years that the tz database does not list one by one.
    ("2040-07-01 12:00:00+00:00", "2040-07-01 14:00:00", "2040-07-01 12:00:00"),
    ("9998-07-01 12:00:00+00:00", "9998-07-01 14:00:00", "9998-07-01 12:00:00"),
]


@pytest.mark.parametrize(("time", "in_berlin", "in_utc"), TIMES_AND_TEXTS)
def test_times_as_folders_spell_them(time: str, in_berlin: str | None, in_utc: str) -> None:
    """The texts are those that Spark's own writer puts into names of folders."""
    at = datetime.datetime.fromisoformat(time)
    batch = pyarrow.record_batch(
        {
            "at": pyarrow.array([at, None], pyarrow.timestamp("us", "Asia/Tokyo")),
            "clock": pyarrow.array([at.replace(tzinfo=None), None], pyarrow.timestamp("us")),
        }
    )
    for zone, text in ((ZONE, in_berlin), ("UTC", in_utc)):
        if text is not None:
            found = as_stored(batch, ["at", "clock"], zone).to_pydict()
            assert found == {"at": [text, None], "clock": [in_utc, None]}


def test_partitions_of_times(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 6, 1, 1).selectExpr(
        "id",
        "if(id = 5, null, timestamp'2024-01-31 12:00:00' + make_dt_interval(0, 0, 0, id / 2)) as at",
        "timestamp_ntz'2024-03-31 02:30:00' + make_dt_interval(cast(id % 2 as int)) as clock",
    )
    df.write.partitionBy("at", "clock").orc(str(tmp_path / "native"))
    save(df, tmp_path / "ours", partition_by="at,clock", timezone="UTC")
    ours, theirs = (spark.read.orc(str(tmp_path / name)) for name in ("ours", "native"))
    assert ours.dtypes == theirs.dtypes
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))
    again = spark.read.format("orcstream").load(str(tmp_path / "ours"))
    assert sorted(map(str, again.collect())) == sorted(map(str, theirs.collect()))


def test_overwrite_of_the_partitions_written(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 12).selectExpr("id", "id % 3 as k")
    save(df, tmp_path, partition_by="k")
    new = spark.range(100, 104).selectExpr("id", "1 as k")
    save(new, tmp_path, "overwrite", partition_by="k", overwrite_partitions="dynamic")
    assert ids(tmp_path) == [0, 2, 3, 5, 6, 8, 9, 11, 100, 101, 102, 103]
    save(new, tmp_path, "overwrite", partition_by="k")
    assert ids(tmp_path) == [100, 101, 102, 103]


@pytest.mark.parametrize(
    ("session", "option", "is_dynamic"),
    [("dynamic", None, True), ("DYNAMIC", None, True), ("dynamic", "static", False), ("static", None, False)],
)
def test_the_session_says_which_partitions_are_overwritten(
    spark: SparkSession, tmp_path: Path, session: str, option: str | None, is_dynamic: bool
) -> None:
    """As with Spark's own sources; the option comes first."""
    save(spark.range(0, 12).selectExpr("id", "id % 3 as k"), tmp_path, partition_by="k")
    given = {} if option is None else {"overwrite_partitions": option}
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", session)
    try:
        new = spark.range(100, 104).selectExpr("id", "1 as k")
        save(new, tmp_path, "overwrite", partition_by="k", **given)
        kept = [0, 2, 3, 5, 6, 8, 9, 11] if is_dynamic else []
        assert ids(tmp_path) == [*kept, 100, 101, 102, 103]
        save(new.where("id < 0"), tmp_path, "overwrite", partition_by="k", **given)
        left = [path for path in data_files(tmp_path) if pyarrow.orc.ORCFile(path).nrows]
        assert bool(left) == is_dynamic
        save(spark.range(3).toDF("id"), tmp_path / "plain", "overwrite")
        save(spark.range(3).toDF("id"), tmp_path / "plain", "overwrite")
        assert ids(tmp_path / "plain") == [0, 1, 2]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_files_are_rolled(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 1000, 1, 1).toDF("id")
    save(df, tmp_path / "rows", max_records_per_file=300)
    counts = [pyarrow.orc.ORCFile(one).nrows for one in data_files(tmp_path / "rows")]
    assert counts == [300, 300, 300, 100]
    assert [one.name[-len("c000.zstd.orc") :] for one in data_files(tmp_path / "rows")] == [
        f"c{number:03}.zstd.orc" for number in range(4)
    ]
    wide = spark.range(0, 4000, 1, 1).selectExpr("id", "sha2(cast(id as string), 512) as noise")
    save(wide, tmp_path / "bytes", max_bytes_per_file="64k", compression="none", stripe_bytes="16k")
    sizes = [one.stat().st_size for one in data_files(tmp_path / "bytes")]
    assert len(sizes) > 3
    assert max(sizes) < 2 * 65536
    assert ids(tmp_path / "bytes") == list(range(4000))


def test_columns_are_encrypted_with_blooms(spark: SparkSession, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"pii": {"0": "00" * 16}}))
    keys.chmod(0o600)
    df = spark.range(0, 100, 1, 1).selectExpr("id", "cast(id as string) as Ssn", "concat('n', id) as name")
    out = tmp_path / "out"
    save(df, out, keys=keys, **{"encrypt.ssn": "pii", "masks": "sha256:ssn;redact:name", "blooms": "id,ssn"})
    (file,) = data_files(out)
    provider = orcstream.io.keys.InMemoryKeyProvider()
    provider.add_key("pii", b"\0" * 16)
    opened = pa.table(orcstream.blocking.read(file, keys=provider))
    assert opened["Ssn"].to_pylist() == [str(one) for one in range(100)]
    masked = spark.read.orc(str(out)).collect()
    assert {len(one["Ssn"]) for one in masked} == {64}
    assert masked[7]["name"] == "x9"
    with orcstream.blocking.open(file, keys=provider) as read:
        kinds = [one.kind.name for one in read.stripe_footer(0).streams]
    assert "BLOOM_FILTER_UTF8" in kinds


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_task_that_fails_is_done_again(spark: SparkSession, tmp_path: Path, how: str) -> None:
    column = fails_once(tmp_path / "marker", how)
    df = spark.range(0, 40, 1, 2).select(column("id").alias("id"))
    out = tmp_path / "out"
    save(df, out)
    assert (tmp_path / "marker").exists()
    assert ids(out) == list(range(40))
    assert left_behind(out) == [out / "_SUCCESS"]


def always_fails() -> Any:
    def work(id_: int) -> int:
        if id_ == 99:
            raise ValueError("no such value")
        return id_

    return f.udf(work, "bigint", useArrow=False)


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(spark.range(5).toDF("id"), out)
    before = data_files(out)
    df = spark.range(0, 100, 1, 1).select(always_fails()("id").alias("id"))
    with pytest.raises(PySparkException, match="no such value"):
        save(df, out, "overwrite", max_records_per_file=10)
    assert data_files(out) == before
    assert left_behind(out) == [out / "_SUCCESS"]


def test_a_job_on_s3(spark: SparkSession, tmp_path: Path, moto_server: MotoServer) -> None:
    client = moto_server.client
    client.create_bucket(Bucket="written")
    # Of somebody else: no upload but the job's own may go.
    other = client.create_multipart_upload(Bucket="written", Key="t/part-of-another-c000.orc")["UploadId"]
    options = {"storage_options": json.dumps(moto_server.options), "max_records_per_file": "10"}
    df = spark.range(0, 100, 1, 1)
    with pytest.raises(PySparkException, match="no such value"):
        save(df.select(always_fails()("id").alias("id")), "s3a://written/t", **options)
    uploads = client.list_multipart_uploads(Bucket="written").get("Uploads", [])
    assert [one["UploadId"] for one in uploads] == [other]
    assert "Contents" not in client.list_objects_v2(Bucket="written")
    save(df.limit(30).toDF("id").coalesce(1), "s3a://written/t", "overwrite", **options)
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="written")["Contents"]]
    assert len(keys) == 4
    assert "t/_SUCCESS" in keys
    uploads = client.list_multipart_uploads(Bucket="written").get("Uploads", [])
    assert [one["UploadId"] for one in uploads] == [other]


def test_collations_are_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Files have the attributes that those of Spark have; its reader fails with others."""
    df = spark.range(3).selectExpr(
        "id", "cast(id as string) collate utf8_lcase as s", "array('A' collate unicode_ci) a"
    )
    df.write.orc(str(tmp_path / "native"))
    save(df, tmp_path / "ours")
    found = []
    for name in ("ours", "native"):
        with orcstream.blocking.open(str(data_files(tmp_path / name)[0])) as file:
            element = file.schema.root.children[2].children[0]
            found.append([file.schema.root.children[1].attributes, element.attributes])
        rows = spark.read.orc(str(tmp_path / name)).orderBy("id").collect()
        assert [tuple(row) for row in rows] == [(at, str(at), ["A"]) for at in range(3)]
    assert found[0] == found[1]


def test_rows_of_no_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\bcolumns\b.*\bORC file\b"):
        writer_of(StructType([]), {"path": str(tmp_path)}, overwrite=False)


def test_a_table_of_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """Spark passes a Python data source neither its path nor its options; a temporary view has both."""
    save(spark.range(5).toDF("id"), tmp_path)
    with pytest.raises(PySparkException, match=r"\bCREATE TEMPORARY VIEW\b"):
        spark.sql(f"create table gone using orcstream options (path '{tmp_path}')")
    spark.sql(f"create temporary view made using orcstream options (path '{tmp_path}', where 'id < 3')")
    assert spark.table("made").count() == 3
    spark.sql("drop view made")


def test_months_do_not_reach_python(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(1).selectExpr("id", "array(make_ym_interval(1, 2)) as m")
    with pytest.raises(PySparkException, match=r"\bm\.element\b"):
        save(df, tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compresion": "zlib"}, r"\bcompresion\b.*\bcompression\b"),
        ({"partition_by": "nothing"}, "nothing"),
        ({"overwrite_partitions": "dynamic"}, r"\boverwrite_partitions\b.*\bpartition_by\b"),
        ({"stripe_bytes": "many"}, r"\bstripe_bytes\b.*'many'"),
        ({"encrypt": "pii:id"}, r"\bencrypted\b.*\bkeys\b"),
        ({"encrypt": "id"}, r"\bencrypt\b.*\bKEY:COLUMN\b"),
        ({"timezone": "Mars/Base"}, "Mars/Base"),
        ({"blooms": "nothing"}, "nothing"),
    ],
)
def test_options_that_cannot_be(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    # Spark quotes the traceback, source lines and all.
    with pytest.raises(PySparkException, match=rf"\borcstream\.errors\.\w+: .*{message}"):
        save(spark.range(3).toDF("id"), tmp_path, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encrypt": '[{"key": "pii", "columns": "id"}]'}, r"\bencrypt\b.*\bJSON\b"),
        ({"encrypt": '[{"key": "pii", "columns": 5}]'}, r"\bencrypt\b.*\bJSON\b"),
        ({"partition_by": "id,ID"}, r"\bpartition_by\b.*\bid, id\b"),
    ],
)
def test_lists_of_columns(options: dict[str, str], message: str) -> None:
    schema = StructType([StructField("id", LongType())])
    with pytest.raises(UsageError, match=message):
        writer_of(schema, {"path": "/nowhere", **options}, overwrite=False)


def test_partitions_that_go_are_those_of_the_values_written() -> None:
    earlier = "p=a/1 p=a%2Fb/2 p=ab/3 p=a/q=1/4 5 p=%C3%A4/6 p=ä/7".split()

    def gone(path: str) -> list[str]:
        state = StoredFile(path, path)
        prepared = Prepared(url=f"/t/{path}", length=1, overwrite=True, state=state)
        return replaced_paths(earlier, [WrittenFile(path, 1, prepared)], "partitions")

    assert gone("p=a/x") == ["p=a/1", "p=a/q=1/4"]
    assert gone("p=a%2Fb/x") == ["p=a%2Fb/2"]
    assert gone("p=ä/x") == ["p=%C3%A4/6", "p=ä/7"]


async def refused(*_: object, **__: object) -> None:
    raise PermissionError("you may not list uploads")


def test_a_job_that_may_not_look_for_what_was_left_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That is a right of its own on S3; and the rows are visible by then."""
    schema = StructType([StructField("id", LongType())])
    options = {"path": str(tmp_path), "compression": "none"}
    plan = write_plan(schema, Options(options))
    files = written.write_files(plan, [pa.record_batch({"id": [1, 2]})], "part-00000-job-1", threads=1)
    monkeypatch.setattr(orcstream, "cleanup", refused)
    writer = writer_of(schema, options, overwrite=True)
    writer.commit([TaskFiles(files)])
    assert ids(tmp_path) == [1, 2]
    assert left_behind(tmp_path) == [tmp_path / "_SUCCESS"]
    assert "you may not list uploads; orcstream cleanup" in caplog.text


def test_local_paths_as_hadoop_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    schema = StructType([StructField("id", LongType())])
    options = {"path": f"file:{tmp_path}/t"}
    plan = write_plan(schema, Options(options))
    files = written.write_files(plan, [pa.record_batch({"id": [1, 2]})], "part-00000-job-1", threads=1)
    writer_of(schema, options, overwrite=False).commit([TaskFiles(files)])
    assert ids(tmp_path / "t") == [1, 2]
    assert [one.name for one in tmp_path.iterdir()] == ["t"]
