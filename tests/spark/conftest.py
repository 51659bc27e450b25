"""One session of Spark for all tests of a process; its JVM lives in a zone that has summer time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orcstream.spark import OrcStreamDataSource
from tests.servers.disks import unhurried_disk
from tests.support.effort import ALL

__all__ = ["unhurried_disk"]

ZONE = "Europe/Berlin"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that begin a session of Spark take minutes: `make test-all` runs them."""
    if ALL:
        return
    folder = Path(__file__).parent
    begin = [item for item in items if item.path.is_relative_to(folder) and _begins_session(item)]
    config.hook.pytest_deselected(items=begin)
    items[:] = [item for item in items if item not in set(begin)]


def _begins_session(item: pytest.Item) -> bool:
    with_own = ("test_connect", "test_jobs_killed")
    return "spark" in getattr(item, "fixturenames", ()) or item.path.stem in with_own


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two tasks at a time, and a second attempt for each."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Tests are many short queries: compiling takes longer than it saves.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config(
            "spark.driver.extraJavaOptions",
            f"-Duser.timezone={ZONE} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        )
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(OrcStreamDataSource)
    yield session
    session.stop()
