"""A scan through Spark of a file behind a distance: against Spark's own reader, whose S3 is Hadoop's (S3A).

The store is behind 30 ms and 90 MB/s a connection, and a link of 200 MB/s; server and proxy have one core,
the JVM and its Python workers the other. S3A has its defaults, and beside them what its documentation advises
for columnar files, in a bucket of its own; the better of the two counts. Its jars are not PySpark's: where
they were not fetched there are no figures.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench import lineitem, servers, spark
from bench.proxy import Exchange
from bench.report import Figure, leave_out

JARS = servers.ROOT / ".cache" / "hadoop_aws"
ADVISED_BUCKET = "bench-random"
LINK_MBPS = 200.0
AS_FAST = 2.0


def measure(*, quick: bool) -> list[Figure]:
    if not (JARS / ".fetched").exists():
        leave_out(f"there are no jars of hadoop-aws in {JARS.relative_to(servers.ROOT)}: make bench")
        return []
    path = lineitem.path_of("zstd", 1_000_000 if quick else lineitem.ROWS)
    with servers.near() as store, servers.distant(store, link_mbps=LINK_MBPS) as distance:
        store.put(path)
        store.put(path, bucket=ADVISED_BUCKET)
        servers.move_to_client_core()
        session = spark.session(_settings(distance.store))
        try:
            return _figures(session, distance, path, rounds=3 if quick else 7)
        finally:
            session.stop()


def _settings(store: servers.Store) -> dict[str, str]:
    s3a = {
        "endpoint": store.endpoint,
        "endpoint.region": servers.REGION,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": servers.ACCESS,
        "secret.key": servers.SECRET,
        f"bucket.{ADVISED_BUCKET}.experimental.input.fadvise": "random",
    }
    jars = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    return {"spark.jars": jars, **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}}


def _figures(session: SparkSession, distance: servers.Distance, path: Path, rounds: int) -> list[Figure]:
    columns = lineitem.THREE_COLUMNS
    plain, advised = (f"s3a://{bucket}/{path.name}" for bucket in (servers.BUCKET, ADVISED_BUCKET))
    access = json.dumps(distance.store.storage_options)
    ours = session.read.format("orcstream").options(columns=spark.COLUMNS, storage_options=access).load(plain)
    with spark.null_frame(session, path, ours.schema) as null:
        frames = {
            "ours": ours,
            "Spark's own": session.read.orc(plain).select(*columns),
            "with fadvise=random": session.read.orc(advised).select(*columns),
            "prebuilt batches of the disk": null,
        }
        answers = {what: spark.aggregated(frame) for what, frame in frames.items()}
        assert len(set(answers.values())) == 1, answers
        costs = {what: Cost([]) for what in frames}
        for _ in range(rounds):
            for what, frame in frames.items():
                for url in (plain, advised):
                    _forget(session, url)
                distance.log()
                costs[what].measure(frame)
                costs[what].log = distance.log()
    theirs = min(costs["Spark's own"].median_s, costs["with fadvise=random"].median_s)
    return [
        Figure(
            "spark-distant",
            "three columns to an aggregate, local[2]: as fast as Spark's own through hadoop-aws",
            theirs / costs["ours"].median_s,
            floor=AS_FAST,
            beside="; ".join(f"{what} {cost}" for what, cost in costs.items()),
        )
    ]


@dataclass(slots=True)
class Cost:
    """Seconds of each round, and what the last one asked of the store."""

    seconds: list[float]
    log: list[Exchange] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    def measure(self, frame: DataFrame) -> None:
        start = time.perf_counter()
        spark.aggregated(frame)
        self.seconds.append(time.perf_counter() - start)

    def __str__(self) -> str:
        read = sum(exchange.answer_bytes for exchange in self.log)
        asked = f", {len(self.log)} requests, {read:,} bytes" if self.log else ""
        return f"{self.median_s:.2f} s{asked}"


def _forget(session: SparkSession, url: str) -> None:
    """Hadoop's file system of a bucket is made anew: it holds the bytes of files that were read before.

    It has a connection to the store when this is over, as ours has.
    """
    jvm: Any = session._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(url)
    configuration = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    path.getFileSystem(configuration).close()
    assert path.getFileSystem(configuration).exists(path)
