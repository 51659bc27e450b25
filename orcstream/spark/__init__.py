"""orcstream as a data source of Spark: batches and streams, read and written through PySpark.

    spark.dataSource.register(orcstream.spark.OrcStreamDataSource)
    spark.read.format("orcstream").load("s3a://bucket/trips/")

Re-exports only; pyspark is imported when a name is first used.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from orcstream._lazy import lazy_names

if TYPE_CHECKING:
    from orcstream.spark.source import OrcStreamDataSource

__all__ = ["OrcStreamDataSource"]

__getattr__, __dir__ = lazy_names(__name__, {".source": ("OrcStreamDataSource",)})

for _name in ("pyspark", "pyarrow"):
    if importlib.util.find_spec(_name) is None:
        raise ImportError(f"orcstream.spark needs {_name}: pip install 'orcstream[spark]'")
