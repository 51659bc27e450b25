"""Spark Connect: the data source and the jobs where the driver has no JVM. The server is its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from orcstream.errors import Unsupported
from orcstream.spark import OrcStreamDataSource, jobs

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
try:
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.dataSource.register(OrcStreamDataSource)
    table = f"{folder}/table"
    for part in range(3):
        rows = spark.range(part * 100, part * 100 + 100, 1, 1)
        rows.write.format("orcstream").mode("append").save(table)
    frame = spark.read.format("orcstream").option("where", "id < 150").load(table)
    assert (frame.filter("id < 7").count(), frame.count()) == (7, 150)
    told = []
    done = jobs.compact(spark, table, progress=lambda *one: told.append(one))
    assert done.made_count == 1 and told, (done, told)
    checked = jobs.verify(spark, table)
    assert checked.is_sound and checked.row_count == 300, checked
    assert jobs.profile(spark, table)["id"].point_share is not None
    assert jobs.ingest(spark, spark.range(2), f"{folder}/rows").row_count == 2
    try:
        jobs.ingest(spark, f"{folder}/in", f"{folder}/rows", format="json", schema="a int")
    except Unsupported as error:
        assert error.reason == "spark_connect", error
    else:
        raise AssertionError("streams cannot be ingested")
    print("done")
finally:
    spark.stop()
"""


@pytest.mark.timeout(300)
def test_tables_and_jobs(tmp_path: Path) -> None:
    settings = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
    ) as process:
        out, _ = process.communicate(timeout=280)
    assert process.returncode == 0, out[-3000:]
    assert out.rstrip().endswith("done"), out[-3000:]
