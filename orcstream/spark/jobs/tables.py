"""Tables of ORC files through the data source: reports that are written, columns that are counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orcstream._credentials import strip_credentials
from orcstream.errors import UsageError
from orcstream.io.folders import is_hidden, split_pattern
from orcstream.io.urls import name_of
from orcstream.spark.access import Access

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def quoted(name: str) -> str:
    """A column's name as Spark parses it."""
    return f"`{name.replace('`', '``')}`"


def _registered(spark: SparkSession) -> None:
    from orcstream.spark.source import OrcStreamDataSource

    spark.dataSource.register(OrcStreamDataSource)


def _options(access: Access) -> dict[str, str]:
    found = {"storage_options": json.dumps(dict(access.storage_options))}
    return found if access.keys is None else {**found, "keys": access.keys}


def check_report(report: str | None, paths: Sequence[str]) -> None:
    """Raise `UsageError` where a report would take the place of the files that it is of, or be among them."""
    if report is None:
        return
    target = f"{name_of(report).rstrip('/')}/"
    for path in paths:
        root, pattern = split_pattern(path)
        place = f"{name_of(root).rstrip('/')}/"
        is_among = not pattern and target.startswith(place) and not is_hidden(target[len(place) :])
        if place.startswith(target) or is_among:
            shown = [strip_credentials(one) for one in (report, path)]
            raise UsageError(
                f"the report would go to where the files are that it is of: {shown[0]!r} and {shown[1]!r}; "
                "it replaces what is in its folder, so give it one of its own"
            )


def write_table(df: DataFrame, folder: str, access: Access) -> None:
    """Write a report, in place of the one that is there."""
    _registered(df.sparkSession)
    df.coalesce(1).write.format("orcstream").mode("overwrite").options(**_options(access)).save(folder)


def distinct_counts(spark: SparkSession, paths: Sequence[str], access: Access) -> dict[str, int]:
    """How many different values each column has that can be compared, about; by its name."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    _registered(spark)
    options = {**_options(access), "recursiveFileLookup": "true", "mergeSchema": "true"}
    df = spark.read.format("orcstream").options(**options).load(list(paths))
    compound = (t.ArrayType, t.MapType, t.StructType)
    names = [field.name for field in df.schema.fields if not isinstance(field.dataType, compound)]
    if not names:
        return {}
    counted: list[Any] = [f.approx_count_distinct(df[quoted(name)]) for name in names]
    (row,) = df.agg(*counted).collect()
    return dict(zip(names, row, strict=True))
