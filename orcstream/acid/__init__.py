"""Hive's transactional tables: read as of a snapshot, written, compacted.

Names are imported when they are first used: a read needs nothing of what writes and compacts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcstream._lazy import lazy_names

if TYPE_CHECKING:
    from orcstream.acid.compact.cleaning import Cleaned
    from orcstream.acid.compact.compacting import CompactedPartition, Compaction, TableCompaction
    from orcstream.acid.compact.piece import CompactionPiece
    from orcstream.acid.opening import create_table, open_table
    from orcstream.acid.read.describing import DirectoryDescription
    from orcstream.acid.table import AcidTable, write_piece
    from orcstream.acid.write.streaming import StreamingWriter
    from orcstream.acid.write.writing import TableTransaction
    from orcstream.plan.acid.names import AcidDirectory, DirectoryKind
    from orcstream.plan.acid.snapshot import AcidFile, Partition, WriteIds
    from orcstream.table.lanes import TableStream

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".compact.cleaning": ("Cleaned",),
        ".compact.compacting": ("CompactedPartition", "Compaction", "TableCompaction"),
        ".compact.piece": ("CompactionPiece",),
        ".opening": ("create_table", "open_table"),
        ".read.describing": ("DirectoryDescription",),
        ".table": ("AcidTable", "write_piece"),
        ".write.streaming": ("StreamingWriter",),
        ".write.writing": ("TableTransaction",),
        "orcstream.plan.acid.names": ("AcidDirectory", "DirectoryKind"),
        "orcstream.plan.acid.snapshot": ("AcidFile", "Partition", "WriteIds"),
        "orcstream.table.lanes": ("TableStream",),
    },
)
