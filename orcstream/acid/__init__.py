"""Hive's transactional tables: read as of a snapshot, written, compacted."""

from __future__ import annotations

from orcstream.acid.cleaning import Cleaned
from orcstream.acid.compacting import CompactedPartition, Compaction
from orcstream.acid.describing import DirectoryDescription
from orcstream.acid.opening import create_table, open_table
from orcstream.acid.stream import TableStream
from orcstream.acid.table import AcidTable
from orcstream.acid.writing import TableTransaction
from orcstream.plan.acid import AcidFile, Partition
from orcstream.plan.acid_names import AcidDirectory, DirectoryKind
from orcstream.plan.write_ids import WriteIds

__all__ = [
    "AcidDirectory",
    "AcidFile",
    "AcidTable",
    "Cleaned",
    "CompactedPartition",
    "Compaction",
    "DirectoryDescription",
    "DirectoryKind",
    "Partition",
    "TableStream",
    "TableTransaction",
    "WriteIds",
    "create_table",
    "open_table",
]
