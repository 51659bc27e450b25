"""Reports of jobs as tables of ORC files, through the data source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from orcstream.spark.access import Access

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_table"]


def write_table(df: DataFrame, folder: str, access: Access) -> None:
    """Write a report, in place of the one that is there."""
    from orcstream.spark.source import OrcStreamDataSource

    df.sparkSession.dataSource.register(OrcStreamDataSource)
    options = {"storage_options": json.dumps(dict(access.storage_options))}
    df.coalesce(1).write.format("orcstream").mode("overwrite").options(**options).save(folder)
