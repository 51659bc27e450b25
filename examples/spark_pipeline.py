"""A pipeline on Spark: a stream of events lands in S3, is compacted, verified and queried with a predicate.

`make demo` runs it. The store is moto, on this machine, and so is Spark; on a cluster, only the session and
the storage options would be others. No jar is needed for S3: executors open it by themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from orcstream.spark import OrcStreamDataSource, jobs

TABLE = "s3://events/clicks"
BATCHES = 6
ROWS = 5_000
DAYS = 2


def show(spark: SparkSession, options: dict[str, Any], folder: Path) -> None:
    given = {"storage_options": json.dumps(options)}
    for number in range(BATCHES):
        put_events(folder / "in", number)

    heading("A stream of events lands in S3")
    events = spark.readStream.schema("id bigint, user string, amount double, day string")
    query = (
        events.option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
        .writeStream.format("orcstream")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .options(partition_by="day", row_index_stride="1000", timezone="UTC", **given)
        .trigger(availableNow=True)
        .start(TABLE)
    )
    query.awaitTermination()
    print(f"{BATCHES} batches, {count_files(options)} files")

    heading("Small files become large ones")
    compacted = jobs.compact(spark, TABLE, storage_options=options)
    print(f"{compacted.removed_count} files became {compacted.made_count}; now {count_files(options)} files")

    heading("Every stripe is decoded, and held against what it says")
    verified = jobs.verify(spark, TABLE, storage_options=options)
    print(f"{verified.row_count:,} rows, {verified.claim_count} claims, sound: {verified.is_sound}")
    assert verified.row_count == BATCHES * ROWS

    heading("What indexes prune")
    profile = jobs.profile(spark, TABLE, storage_options=options, distinct=False)
    for name in ("id", "user"):
        share = profile[name].point_share
        assert share is not None
        print(f"a value of {name} leaves {share:.0%} of {profile[name].row_group_count} row groups")

    heading("A query reads what it needs")
    where = f"id >= {ROWS} and id < {ROWS + 100} and day = 'day-1'"
    reading = {"where": where, "columns": "id,amount,day", **given}
    wanted = spark.read.format("orcstream").options(**reading).load(TABLE)
    wanted.explain()
    (row,) = wanted.agg(f.count("id"), f.sum("amount")).collect()
    print(f"{row[0]} rows, {row[1]:.2f} in all")
    assert row[0] == 100 // DAYS


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


# --- the events, the store and the session ----------------------------------------------------------------


def put_events(folder: Path, number: int) -> None:
    """One file of events, as a service would leave it."""
    folder.mkdir(exist_ok=True)
    ids = range(number * ROWS, (number + 1) * ROWS)
    lines = [
        {"id": one, "user": f"user-{one * 7919 % 1000}", "amount": one % 97 / 4, "day": f"day-{one % DAYS}"}
        for one in ids
    ]
    (folder / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))


def count_files(options: dict[str, Any]) -> int:
    import fsspec

    store = fsspec.filesystem("s3", **options)
    store.invalidate_cache()
    return sum(name.endswith(".orc") for name in store.find(TABLE))


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """A server of moto in a process of its own; answers the storage options that lead there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            sys.exit("the S3 server did not start")
        options = {
            "key": "demo",
            "secret": "demo",
            "endpoint_url": f"http://127.0.0.1:{port}",
            "client_kwargs": {"region_name": "us-east-1"},
        }
        make_bucket(options)
        yield options
    finally:
        process.terminate()
        process.wait()


def make_bucket(options: dict[str, Any]) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        region_name="us-east-1",
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
    )
    client.create_bucket(Bucket="events")


@contextlib.contextmanager
def session() -> Iterator[SparkSession]:
    """The session that there is, or one that ends with this program."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A session is active in the thread that made it only; its context is the process's.
    is_ours = SparkContext._active_spark_context is None  # noqa: SLF001
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.dataSource.register(OrcStreamDataSource)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def main() -> None:
    with s3_server() as options, tempfile.TemporaryDirectory() as folder, session() as spark:
        show(spark, options, Path(folder))


if __name__ == "__main__":
    main()
