"""Jobs on Spark whose processes are killed, and that are started again: no row lost, none twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import orcstream
from orcstream import acid
from orcstream.acid.transactions import log
from orcstream.spark import jobs
from orcstream.spark.access import run
from tests.spark.test_jobs import data_files, ids, lines

TIMEOUT_S = 200
PROGRAM = """
import sys
from pyspark.sql import SparkSession
from orcstream.spark import jobs

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
job, source, target = sys.argv[1:]
if job == "ingest":
    jobs.ingest(
        spark, source, target, format="json", schema="id bigint, text string", batch_bytes=1,
        options={"timezone": "UTC"},
    )
elif job == "compact":
    jobs.compact(spark, target)
else:
    jobs.compact_table(spark, target, kind="major")
"""


def killed(job: str, source: Path, target: Path, now: Callable[[], bool]) -> bool:
    """Start a job, and kill it with all its processes; whether that was before its end."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, job, str(source), str(target)],
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        end_s = time.monotonic() + TIMEOUT_S
        while process.poll() is None and not now():
            assert time.monotonic() < end_s, "the job does not come so far"
            time.sleep(0.002)
        ended = process.poll() is not None
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
    return not ended


def records(target: Path, pattern: str) -> int:
    return len(list(target.glob(pattern)))


@pytest.mark.timeout(300)
def test_ingest(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    for number in range(8):
        lines(source, f"{number}.json", range(number * 100, number * 100 + 100))
    at = random.Random(8).randrange(1, 5)
    assert killed("ingest", source, target, lambda: records(target, "_orcstream_log/*/*.intent.json") >= at)
    seen = ids(target)
    assert len(seen) == len(set(seen)) < 800
    schema = "id bigint, text string"
    for _ in range(2):
        jobs.ingest(
            spark, str(source), str(target), format="json", schema=schema, options={"timezone": "UTC"}
        )
        assert ids(target) == list(range(800))
    assert not [path for path in target.rglob("*.tmp") if path.is_file()]


@pytest.mark.timeout(300)
def test_compact(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "table"
    folders = 40
    for number in range(folders * 3):
        folder = target / f"day={number % folders}"
        folder.mkdir(exist_ok=True, parents=True)
        orcstream.blocking.write(folder / f"{number}.orc", pa.table({"id": [number * 2, number * 2 + 1]}))
    at = random.Random(9).randrange(2, folders - 10)
    assert killed(
        "compact", tmp_path, target, lambda: records(target, "_orcstream_jobs/*/*.prepared.json") >= at
    )
    assert set(ids(target)) == set(range(folders * 6))
    rows = spark.read.format("orcstream").load(str(target)).select("id").collect()
    assert sorted(row["id"] for row in rows) == list(range(folders * 6)), "we know what the job has done"
    result = jobs.compact(spark, str(target))
    assert result.is_continued
    assert ids(target) == list(range(folders * 6))
    assert len(data_files(target)) == folders
    assert not [path for path in target.rglob("*.tmp") if path.is_file()]


@pytest.mark.timeout(300)
def test_compact_table(tmp_path: Path) -> None:
    table = str(tmp_path / "table")

    async def fill() -> None:
        await acid.create_table(table, "struct<id:bigint>", partitions={"part": "int"})
        async with acid.open_table(table) as opened:
            for number in range(2):
                async with await opened.transaction() as change:
                    await change.insert([{"id": one * 2 + number, "part": one} for one in range(40)])

    async def found() -> list[int]:
        async with acid.open_table(table) as opened:
            return sorted(row["id"] for row in (await opened.read(columns=["id"])).to_pylist())

    async def again() -> None:
        async with acid.open_table(table) as opened:
            assert len((await opened.compact("major")).partitions) == 40
            await opened.clean(older_than_s=0)

    run(fill)
    at = random.Random(10).randrange(2, 10)
    assert killed(
        "compact_table", tmp_path, Path(table), lambda: records(Path(table), "*/base_*/bucket_*") >= at
    )
    assert run(found) == list(range(80))
    assert run(lambda: log.TransactionLog(table).abort_dead(0)) == (3,)
    run(again)
    assert run(found) == list(range(80))
    assert records(Path(table), "*/*_*") == 40
