"""Jobs on Spark: ingest, compact, verify and profile tables of ORC files.

    orcstream.spark.jobs.compact(spark, "s3a://bucket/trips/")

Re-exports only; a job is imported when its name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcstream.spark.jobs.acid_compaction import compact_table
    from orcstream.spark.jobs.compaction import CompactResult, compact
    from orcstream.spark.jobs.ingestion import IngestResult, ingest
    from orcstream.spark.jobs.profiles import ProfileResult, profile
    from orcstream.spark.jobs.profiling import ColumnProfile
    from orcstream.spark.jobs.verification import Finding, VerifyResult, verify

__all__ = [
    "ColumnProfile",
    "CompactResult",
    "Finding",
    "IngestResult",
    "ProfileResult",
    "VerifyResult",
    "compact",
    "compact_table",
    "ingest",
    "profile",
    "verify",
]

_HOMES = {
    "ColumnProfile": "profiles",
    "CompactResult": "compaction",
    "Finding": "verification",
    "IngestResult": "ingestion",
    "ProfileResult": "profiles",
    "VerifyResult": "verification",
    "compact": "compaction",
    "compact_table": "acid_compaction",
    "ingest": "ingestion",
    "profile": "profiles",
    "verify": "verification",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
