"""orcstream as a data source of Spark: batches and streams, read and written through PySpark.

    spark.dataSource.register(orcstream.spark.OrcStreamDataSource)
    spark.read.format("orcstream").load("s3a://bucket/trips/")

Re-exports only; pyspark is imported when a name is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcstream.spark.source import OrcStreamDataSource

__all__ = ["OrcStreamDataSource"]

_HOMES = {"OrcStreamDataSource": "orcstream.spark.source"}

for _name in ("pyspark", "pyarrow"):
    if importlib.util.find_spec(_name) is None:
        raise ImportError(f"orcstream.spark needs {_name}: pip install 'orcstream[spark]'")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
