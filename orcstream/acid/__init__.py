"""Hive's transactional tables: read as of a snapshot, written, compacted."""

from __future__ import annotations

from orcstream.acid.cleaning import Cleaned
from orcstream.acid.compacting import CompactedPartition, Compaction, TableCompaction
from orcstream.acid.compaction_piece import CompactionPiece
from orcstream.acid.describing import DirectoryDescription
from orcstream.acid.opening import create_table, open_table
from orcstream.acid.piece_opening import write_piece
from orcstream.acid.streaming import StreamingWriter
from orcstream.acid.table import AcidTable
from orcstream.acid.writing import TableTransaction
from orcstream.plan.acid import AcidFile, Partition
from orcstream.plan.acid_names import AcidDirectory, DirectoryKind
from orcstream.plan.write_ids import WriteIds
from orcstream.reader.table_stream import TableStream

__all__ = [
    "AcidDirectory",
    "AcidFile",
    "AcidTable",
    "Cleaned",
    "CompactedPartition",
    "Compaction",
    "CompactionPiece",
    "DirectoryDescription",
    "DirectoryKind",
    "Partition",
    "StreamingWriter",
    "TableCompaction",
    "TableStream",
    "TableTransaction",
    "WriteIds",
    "create_table",
    "open_table",
    "write_piece",
]
