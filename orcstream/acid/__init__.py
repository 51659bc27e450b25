"""Hive's transactional tables: read as of a snapshot, written, compacted."""

from __future__ import annotations

from orcstream.acid.opening import create_table, open_table
from orcstream.acid.stream import TableStream
from orcstream.acid.table import AcidTable
from orcstream.plan.acid import AcidFile, Partition
from orcstream.plan.acid_names import AcidDirectory, DirectoryKind
from orcstream.plan.write_ids import WriteIds

__all__ = [
    "AcidDirectory",
    "AcidFile",
    "AcidTable",
    "DirectoryKind",
    "Partition",
    "TableStream",
    "WriteIds",
    "create_table",
    "open_table",
]
