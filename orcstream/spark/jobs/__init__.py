"""Jobs on Spark: ingest, compact, verify and profile tables of ORC files.

    orcstream.spark.jobs.compact(spark, "s3a://bucket/trips/")

Re-exports only; a job is imported when its name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcstream._lazy import lazy_names

if TYPE_CHECKING:
    from orcstream.spark.jobs.acid_compaction import compact_table
    from orcstream.spark.jobs.compaction import CompactResult, compact
    from orcstream.spark.jobs.ingestion import IngestResult, ingest
    from orcstream.spark.jobs.profiling import ColumnProfile, ProfileResult, profile
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".acid_compaction": ("compact_table",),
        ".compaction": ("CompactResult", "compact"),
        ".ingestion": ("IngestResult", "ingest"),
        ".profiling": ("ColumnProfile", "ProfileResult", "profile"),
        ".verification": ("Finding", "VerifyResult", "verify"),
    },
)
